// Two candidates side by side, each at its own thresholds in force: figures, labels, and rows of one and not of the other.

const compared = { keys: [], chosen: false, draw: () => {} };

function compareSection() {
  const made = section("compare", "Two side by side", "Each by the thresholds in force: the saved ones, or those that you moved.");
  if (data.candidates.length < 2) return null;
  const others = data.candidates.map((raw) => raw.key).filter((key) => key !== data.best);
  compared.keys = [data.best, others.includes(data.baseline) ? data.baseline : others[0]];
  const selects = [0, 1].map((at) => h("select", { id: `compare-${at}`, onchange: (event) => {
    compareTwo(compared.keys.map((key, place) => (place === at ? event.target.value : key)), true);
  } }, data.candidates.map((raw) => h("option", { value: raw.key }, raw.key))));
  const box = h("div"), rows = { side: 0 };
  compared.draw = async () => {
    selects.forEach((select, at) => (select.value = compared.keys[at]));
    const two = await Promise.all(compared.keys.map(candidateOf));
    box.replaceChildren(...sideBySide(two, rows));
  };
  on("thresholds", () => later("compare", compared.draw, 120));
  const labels = ["Compare", "with"].map((words, at) => h("label", { for: `compare-${at}` }, words));
  made.append(h("div", { class: "card slim ask" }, labels[0], selects[0], labels[1], selects[1]), box);
  return made;
}

function compareTwo(keys, asked) {
  compared.keys = keys;
  compared.chosen = asked;
  compared.draw();
  later("view", writeView, 150);
}

function sideBySide(two, rows) {
  const names = two.map((c) => named(c.raw.key));
  if (two[0] === two[1]) return [card(null, h("p", null, "These are the same candidate."))];
  return [h("div", { class: "two" }, figuresOfTwo(two, names), labelsOfTwo(two)), rowsOfTwo(two, rows)];
}

function figuresOfTwo(two, names) {
  const all = two.map(totals), right = two.map((c) => mistakesOf(c).filter(isRight).length);
  const lines = [["Precision", "precision"], ["Recall", "recall"], ["F1, micro", "f1"], ["F1, macro", "macro"]]
    .map(([title, name]) => [title, all.map((each) => each[name])]);
  lines.push(["Rows all right", right.map((count) => count / sampleSize())]);
  const cost = ["seconds", "ms_per_row", "megabytes"].map((name) => [COST_WORDS[name], two.map(({ raw }) => raw.cost[name])]);
  const line = ([title, [a, b]], show, gap) => h("tr", null, h("th", { scope: "row" }, title),
    [a, b].map((value) => h("td", { class: "num" }, show(value))), h("td", { class: "num" }, gap ? signed(a - b) : ""));
  return card("Figures", h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Figures of two candidates" },
    h("table", null, h("caption", { class: "hidden" }, "Figures of two candidates"), h("thead", null, h("tr", null, h("td"),
      names.map((name) => h("th", { scope: "col", class: "num wraps" }, name)), h("th", { scope: "col", class: "num" }, "Difference"))),
    h("tbody", null, lines.map((each) => line(each, fixed, true)), cost.filter(([, values]) => values.some(Number.isFinite))
      .map((each) => line(each, briefly, false))))));
}

function isRight({ missed, extra }) {
  return !missed.length && !extra.length;
}

function labelsOfTwo(two) {
  const f1 = (label) => two.map((c) => rates(confusionAt(c, label, c.cuts[label])).f1);
  const rows = data.names.map((name, label) => ({ name, label, f1: f1(label), on: data.on[label] })).filter(({ on: some }) => some);
  const gap = ({ f1: [a, b] }) => a - b;
  const table = sortedTable({ caption: "Labels of two candidates", rows, page: 8, first: (a, b) => Math.abs(gap(b)) - Math.abs(gap(a)), columns: [
    { title: "Label", kind: "text", key: (row) => row.name, cell: (row) => named(row.name) },
    { title: "On", key: (row) => row.on, cell: (row) => whole(row.on) },
    ...two.map((c, at) => ({ title: `F1 ${at ? "second" : "first"}`, about: c.raw.key, key: (row) => row.f1[at], cell: (row) => fixed(row.f1[at]) })),
    { title: "Difference", key: gap, cell: (row) => signed(gap(row)) },
  ] });
  return card("Labels they differ on most", table.element);
}

// rows that one gets wholly right and the other does not; then those that differ in the number of mistakes
function rowsOfTwo(two, view) {
  const each = two.map(mistakesOf), wrong = (side, at) => each[side][at].missed.length + each[side][at].extra.length;
  const only = [0, 1].map((side) => Array.from({ length: sampleSize() }, (_, at) => ({ at }))
    .filter(({ at }) => wrong(side, at) < wrong(1 - side, at)).sort((a, b) => Number(wrong(side, a.at) > 0) - Number(wrong(side, b.at) > 0)
      || wrong(1 - side, b.at) - wrong(side, b.at) - wrong(1 - side, a.at) + wrong(side, a.at)));
  const wholly = only.map((list, side) => list.filter(({ at }) => wrong(side, at) === 0).length), box = h("div");
  const show = (side) => {
    view.side = side;
    box.replaceChildren(sortedTable({ caption: "Rows that one does better", rows: only[side], page: 5,
      search: ({ at }) => rowWords(chosen.rows.sample[at]), columns: [
      { title: "Row", kind: "text", cell: ({ at }) => rowCard(chosen.rows.sample[at]) },
      ...two.map((c, place) => ({ title: named(c.raw.key), kind: "text", cell: ({ at }) => judgedChips(c, { at, ...each[place][at] }) })),
    ] }).element);
  };
  show(view.side);
  const words = two.map((c, side) => [side, `${c.raw.key} is better: ${whole(only[side].length)}`]);
  return card("Rows one does better than the other", h("div", { class: "buttons before" }, choice("Who is better", words, view.side, show)),
    h("p", { class: "note" }, `${two[0].raw.key} alone gets ${whole(wholly[0])} rows wholly right, ${two[1].raw.key} alone ${whole(wholly[1])}; `,
      `these come first. Of ${ofCarried()}.`), box);
}
