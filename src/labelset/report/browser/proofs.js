// What the head can produce: proven verdicts on the label sets of the test rows.

function labelList(labels, kind, most = 12, total = labels.length) {
  const shown = labels.slice(0, most).map((label) => h("span", { class: `chip ${kind || ""}` }, named(data.names[label])));
  const more = total > shown.length ? h("span", { class: "chip quiet" }, `${whole(total - shown.length)} more`) : null;
  return h("span", { class: "chips" }, labels.length ? shown : h("i", null, "no label"), more);
}

function proofCards(proof) {
  const title = "Label combinations the output layer can produce";
  if (!proof) return [card(title, h("p", null, "This candidate was saved without its head, so nothing can be proven about it."))];
  const { argmaxable, unargmaxable, undecided, left } = proof.counts;
  const shares = [["sayable", argmaxable, "can be said"], ["never", unargmaxable, "cannot be said"], ["open", undecided, "undecided"],
    ["left", left, "not looked at"]].filter(([, count]) => count > 0);
  return [card(title, h("p", { class: "statement" }, proofSentence(proof)), shareBar(shares),
    proof.never.length ? neverTable(proof) : null,
    h("div", { class: "two" }, radiiFigure(proof), weakestTable(proof)))];
}

function proofSentence({ counts, distinct, features }) {
  const head = `A head of ${whole(features)} features`;
  const rest = counts.left ? ` ${whole(counts.left)} rows with rarer label sets were not examined, for lack of time.` : "";
  const rows = `${whole(counts.unargmaxable)} of ${whole(data.count)} test rows`;
  if (counts.unargmaxable) return `${head} cannot produce the label sets of ${rows}, whatever its input. Each is proven.${rest}`;
  const open = `${whole(counts.undecided)} rows are undecided.${rest}`;
  if (counts.undecided || counts.left) return `${head}: no test label set is proven impossible; ${open}`;
  return `${head} can produce the label set of every test row (${whole(distinct)} different ones). Each is proven.`;
}

function shareBar(shares) {
  const total = shares.reduce((sum, [, count]) => sum + count, 0) || 1;
  let at = 0;
  const parts = shares.map(([kind, count]) => {
    const part = s("rect", { class: kind, x: at, width: (600 * count) / total, height: 12 });
    at += (600 * count) / total;
    return part;
  });
  return h("div", null, s("svg", { class: "shares", viewBox: "0 0 600 12", preserveAspectRatio: "none", "aria-hidden": "true" }, parts),
    h("ul", { class: "legend" }, shares.map(([kind, count, words]) =>
      h("li", null, h("span", { class: `swatch ${kind}` }), `${words}: ${whole(count)} (${percent(count / total)})`))));
}

function neverTable(proof) {
  const table = sortedTable({ caption: "Label sets that cannot be said", rows: proof.never, page: 8, sort: { at: 1, way: -1 },
    search: (row) => [...row.labels, ...row.blame].map((label) => data.names[label]).join(" "), columns: [
      { title: "Label set", kind: "text", cell: (row) => labelList(row.labels, null, 8, row.size) },
      { title: "Rows", key: (row) => row.rows, cell: (row) => whole(row.rows) },
      { title: "Cannot hold together", kind: "text", cell: (row) => labelList(row.blame, "blame", 8, row.blamed) },
    ] });
  const most = proof.blame.length ? h("p", null, "Most often to blame: ", labelList(proof.blame.map(([label]) => label), "blame", 10)) : null;
  return [h("h4", null, "Never said"), most, table.element];
}

function radiiFigure({ radii }) {
  if (!radii) return null;
  const { edges, count } = radii, ticks = roundTicks(0, Math.max(...count));
  const list = count.map((each, at) => [edges[at], edges[at + 1], each]);
  const low = edges[0], high = edges[edges.length - 1];
  const xTicks = [low, (low + high) / 2, high].map((value) => [value, (10 ** value).toPrecision(2)]);
  const about = `Test rows by the radius of their label set, from ${(10 ** low).toPrecision(2)} to ${(10 ** high).toPrecision(2)}`;
  return figure("How robustly", plot({ about, x: [low, high], y: ends(ticks),
    xTicks, yTicks: ticks, xLabel: "radius (log scale)", yLabel: "rows", layers: [bars(list, "one")], wide: 400 }),
  "The radius says how far an input may move before the label set changes.");
}

function weakestTable({ weakest }) {
  if (!weakest.length) return null;
  return h("div", null, h("h4", null, "Least robust label sets"), sortedTable({ caption: "Least robust label sets", rows: weakest, columns: [
    { title: "Label set", kind: "text", cell: (row) => labelList(row.labels, null, 6, row.size) },
    { title: "Rows", cell: (row) => whole(row.rows) },
    { title: "Radius", cell: (row) => row.radius.toPrecision(2) },
  ] }).element);
}
