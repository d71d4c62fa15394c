// What an opened label shows below its threshold and curves: what it is taken for, and its mistakes.

function openedLabel() {
  const taken = h("div", { class: "two" }), wrong = h("div", { class: "two wide" });
  const box = h("div", { class: "opened" }, taken, wrong, weightsCard());
  const draw = (c) => {
    if (chosen.label === null) return;
    taken.replaceChildren(...takenCards(c, chosen.label));
    wrong.replaceChildren(...wrongCards(c, chosen.label));
  };
  on("label", draw);
  on("thresholds", (c) => later("opened", () => draw(c)));
  return box;
}

function takenCards(c, label) {
  const { instead, of } = confusionsOf(c, label), name = named(data.names[label]);
  const misses = instead.reduce((sum, [, rows]) => sum + rows, 0), note = (words) => h("p", { class: "note" }, words);
  const shared = `Each of its ${whole(misses)} misses is shared over the labels wrongly predicted in that row, or goes to nothing.`;
  return [
    card(["Predicted instead of ", name], note(`${shared} Of ${ofCarried()}.`), confusionBars(instead, "It is never missed.")),
    card(["Missed where ", named(data.names[label]), " is wrongly predicted"],
      note("Which labels should have been predicted, counted in the same way."), confusionBars(of, "No other label is missed there.")),
  ];
}

// a label's name; null is nothing
function nameOr(label) {
  return label === null ? h("i", null, "nothing") : named(data.names[label]);
}

function confusionBars(list, none, most = 8) {
  if (!list.length) return h("p", null, none);
  const rest = list.slice(most).reduce((sum, [, rows]) => sum + rows, 0);
  const lines = list.slice(0, most).map(([label, rows]) => [nameOr(label), rows]);
  if (rest) lines.push([h("i", null, `${whole(list.length - most)} others`), rest]);
  const heads = ["Label", "Rows"].map((title) => h("th", { scope: "col" }, hidden(title)));
  return h("table", { class: "confusions" }, h("thead", null, h("tr", null, heads)),
    h("tbody", null, lines.map(([name, rows]) => h("tr", null, h("th", { scope: "row" }, name),
      h("td", { class: "num" }, meter(Math.min(1, rows / list[0][1])), h("span", { class: "count" }, shareOfRows(rows)))))));
}

// rows shared over several labels are no whole number
function shareOfRows(rows) {
  return fixed(rows, Math.abs(rows - Math.round(rows)) < 1e-6 ? 0 : 1);
}

// the carried rows in which it is missed, and those in which it is predicted though off, the surest first
function wrongCards(c, label) {
  const lists = { missed: [], extra: [] }, probability = probabilitiesOf(c, label);
  mistakesOf(c).forEach((row, at) => {
    for (const kind of ["missed", "extra"]) {
      if (row[kind].includes(label)) lists[kind].push({ at, p: probability(at), ...row });
    }
  });
  lists.missed.sort((a, b) => a.p - b.p);
  lists.extra.sort((a, b) => b.p - a.p);
  const title = (words, rows) => `${words}: ${whole(rows.length)} ${rows.length === 1 ? "row" : "rows"}`;
  return [
    wrongCard(title("Missed", lists.missed), "The least probable first, with what was wrongly predicted there.", lists.missed, "extra"),
    wrongCard(title("False positives", lists.extra), "The most probable first, with what was missed there.", lists.extra, "missed"),
  ];
}

function wrongCard(title, note, rows, other) {
  if (!rows.length) return card(title, h("p", { class: "note" }, "None at this threshold."));
  const table = sortedTable({ caption: title, rows, page: 4, columns: [
    { title: "Row", kind: "text", cell: (row) => [rowCard(chosen.rows.sample[row.at]),
      row[other].length ? labelList(row[other], other, 6) : null, why(rowNumber(row.at), chosen.label)] },
    { title: "Probability", cell: (row) => precise(row.p) },
  ] });
  return card(title, h("p", { class: "note" }, note), table.element);
}

// the number of a carried row among all test rows
function rowNumber(at) {
  return chosen.rows.shown[chosen.rows.sample[at]];
}
