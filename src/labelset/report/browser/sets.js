// Label sets: which the head cannot say, how many labels are predicted, which come together.

const MOST_TOGETHER = 20;

function setsSection() {
  const made = section("sets", "Label sets", "Which combinations of labels the head can say at all, how many labels rows get, and which come together.");
  const proof = h("div"), counts = h("div"), pairs = h("div");
  made.append(proof, h("div", { class: "two" }, counts, pairs));
  on("candidate", (c) => proof.replaceChildren(...proofCards(c.raw.proof)));
  on("thresholds", (c) => later("sets", () => {
    const predicted = predictedSets(c);
    counts.replaceChildren(cardinality(predicted));
    pairs.replaceChildren(together(predicted));
  }));
  return made;
}

// when a slider rests, and not at every step of it
const resting = new Map();
function later(name, work) {
  clearTimeout(resting.get(name));
  resting.set(name, setTimeout(work, 80));
}

// ---- proofs -----------------------------------------------------------------------------------

function labelList(labels, kind, most = 12, total = labels.length) {
  const shown = labels.slice(0, most).map((label) => h("span", { class: `chip ${kind || ""}` }, named(data.names[label])));
  const more = total > shown.length ? h("span", { class: "chip quiet" }, `${whole(total - shown.length)} more`) : null;
  return h("span", { class: "chips" }, labels.length ? shown : h("i", null, "no label"), more);
}

function proofCards(proof) {
  if (!proof) return [card("What the head can say", h("p", null, "This candidate was saved without its head, so nothing can be proven about it."))];
  const { argmaxable, unargmaxable, undecided, left } = proof.counts;
  const shares = [["sayable", argmaxable, "can be said"], ["never", unargmaxable, "cannot be said"], ["open", undecided, "undecided"],
    ["left", left, "not looked at"]].filter(([, count]) => count > 0);
  return [card("What the head can say", h("p", { class: "statement" }, proofSentence(proof)), shareBar(shares),
    proof.never.length ? neverTable(proof) : null,
    h("div", { class: "two" }, radiiFigure(proof), weakestTable(proof)))];
}

function proofSentence({ counts, distinct, features }) {
  const head = `A head of ${whole(features)} features`;
  const rest = counts.left ? ` ${whole(counts.left)} rows with rarer label sets were not looked at, for lack of time.` : "";
  if (counts.unargmaxable) return `${head} cannot say the label sets of ${whole(counts.unargmaxable)} of ${whole(data.count)} test rows, whatever its input. Each is proven.${rest}`;
  if (counts.undecided || counts.left) return `${head}: no test label set is proven impossible; ${whole(counts.undecided)} rows are undecided.${rest}`;
  return `${head} can say the label set of every test row (${whole(distinct)} different ones). Each is proven.`;
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
    h("ul", { class: "legend" }, shares.map(([kind, count, words]) => h("li", null, h("span", { class: `swatch ${kind}` }), `${words}: ${whole(count)} (${percent(count / total)})`))));
}

function neverTable(proof) {
  const table = sortedTable({ caption: "Label sets that cannot be said", rows: proof.never, page: 8, sort: { at: 1, way: -1 },
    search: (row) => [...row.labels, ...row.blame].map((label) => data.names[label]).join(" "), columns: [
      { title: "Label set", kind: "text", cell: (row) => labelList(row.labels, null, 12, row.size) },
      { title: "Rows", key: (row) => row.rows, cell: (row) => whole(row.rows) },
      { title: "Cannot hold together", kind: "text", cell: (row) => labelList(row.blame, "blame", 12, row.blamed) },
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
  return figure("How robustly", plot({ about: "Test rows by the radius of their label set", x: [low, high], y: ends(ticks),
    xTicks, yTicks: ticks, xLabel: "radius (log scale)", yLabel: "rows", layers: [bars(list, "one")], wide: 400 }),
  "The radius says how far an input may move before the label set changes.");
}

function weakestTable({ weakest }) {
  if (!weakest.length) return null;
  return h("div", null, h("h4", null, "Said least robustly"), sortedTable({ caption: "Label sets said least robustly", rows: weakest, columns: [
    { title: "Label set", kind: "text", cell: (row) => labelList(row.labels, null, 6, row.size) },
    { title: "Rows", cell: (row) => whole(row.rows) },
    { title: "Radius", cell: (row) => row.radius.toPrecision(2) },
  ] }).element);
}

// ---- how many, and which together -------------------------------------------------------------

// the labels shown together are the most frequent ones
function frequentLabels() {
  return Array.from(data.on.keys()).sort((a, b) => data.on[b] - data.on[a]).slice(0, MOST_TOGETHER);
}

// labels per row, true and predicted, and who of the frequent labels is on, over known entries
function predictedSets(c) {
  const size = sampleSize(), labels = frequentLabels(), place = new Map(labels.map((label, at) => [label, at]));
  const sets = { labels, count: [new Uint32Array(size), new Uint32Array(size)], on: [[], []] };
  for (let label = 0; label < data.names.length; label++) {
    const first = label * size, cut = c.cuts[label], at = place.get(label);
    const lines = at === undefined ? null : [new Uint8Array(size), new Uint8Array(size)];
    for (let row = 0; row < size; row++) {
      const truth = chosen.truth[first + row];
      if (truth === 2) continue;
      const said = c.codes[first + row] >= cut ? 1 : 0;
      sets.count[0][row] += truth;
      sets.count[1][row] += said;
      if (lines) {
        lines[0][row] = truth;
        lines[1][row] = said;
      }
    }
    if (lines) [sets.on[0][at], sets.on[1][at]] = lines;
  }
  return sets;
}

function cardinality({ count }) {
  const highest = Math.max(...count.map((each) => each.reduce((a, b) => Math.max(a, b), 0)));
  const most = Math.max(1, Math.min(30, highest)), size = sampleSize();
  const tallies = count.map((each) => {
    const tally = new Array(most + 1).fill(0);
    each.forEach((value) => (tally[Math.min(value, most)] += 1 / size));
    return tally;
  });
  const mean = (each) => fixed(each.reduce((a, b) => a + b, 0) / size, 2);
  const ticks = roundTicks(0, Math.max(...tallies.flat())), step = Math.max(1, Math.ceil(most / 8));
  const xTicks = Array.from({ length: most + 1 }, (_, at) => at).filter((at) => at % step === 0);
  const layers = [bars(tallies[0].map((share, at) => [at - 0.42, at, share]), "grey"), bars(tallies[1].map((share, at) => [at, at + 0.42, share]), "one")];
  const about = `True mean ${mean(count[0])} labels per row, predicted ${mean(count[1])}`;
  return figure("Labels per row", plot({ about, x: [-0.6, most + 0.6], y: ends(ticks), xTicks, wide: 400,
    yTicks: ticks.map((tick) => [tick, `${Number((100 * tick).toPrecision(3))}%`]),
    xLabel: highest > most ? `labels, the last: ${most} or more` : "labels", yLabel: "rows", layers }),
  null, [["grey", `true, mean ${mean(count[0])}`, "bar"], ["one", `predicted, mean ${mean(count[1])}`, "bar"]]);
}

function pairCounts(lines) {
  const n = lines.length, out = [];
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      let both = 0;
      for (let row = 0; row < lines[i].length; row++) both += lines[i][row] & lines[j][row];
      out.push(both);
    }
  }
  return out;
}

let shownPairs = 0;
function together({ labels, on: lines }) {
  if (labels.length < 2) return h("p", { class: "note" }, "With one label nothing comes together.");
  const counts = lines.map(pairCounts), n = labels.length, box = h("div");
  const show = (which) => {
    shownPairs = which;
    box.replaceChildren(heatMap(labels, counts[which]));
  };
  show(shownPairs);
  const pairs = labels.flatMap((_, i) => labels.slice(i + 1).map((__, k) => [i, i + 1 + k]));
  const gap = ([i, j]) => counts[1][i * n + j] - counts[0][i * n + j];
  const worst = pairs.sort((a, b) => Math.abs(gap(b)) - Math.abs(gap(a))).slice(0, 3).filter((pair) => gap(pair) !== 0);
  const says = worst.map(([i, j]) => h("li", null, named(data.names[labels[i]]), " with ", named(data.names[labels[j]]),
    `: ${whole(counts[0][i * n + j])} rows, predicted for ${whole(counts[1][i * n + j])}`));
  return h("figure", null, h("figcaption", { class: "cardhead" }, "Co-occurrence", choice("Labels", [[0, "True"], [1, "Predicted"]], shownPairs, show)), box,
    h("p", { class: "note" }, `Of the rows with the label of a line, the share that also has the label of a column; the ${n} most frequent labels. Furthest off:`), h("ul", { class: "note" }, says));
}

function heatMap(labels, counts) {
  const n = labels.length, wide = 400, left = 104, tall = 14, cell = (wide - left) / n;
  const names = labels.map((label) => data.names[label]);
  const short = (name) => (name.length > 16 ? `${name.slice(0, 15)}…` : name);
  const cells = names.flatMap((line, i) => names.map((column, j) => {
    const share = counts[i * n + i] ? counts[i * n + j] / counts[i * n + i] : 0;
    return s("rect", { class: "heat", x: left + j * cell, y: i * tall, width: cell - 1, height: tall - 1, "fill-opacity": i === j ? 0.06 : (0.04 + 0.96 * share).toFixed(3) },
      s("title", null, i === j ? `${line}: ${whole(counts[i * n + i])} rows` : `${percent(share)} of rows with ${line} also have ${column}`));
  }));
  return s("svg", { class: "heatmap", viewBox: `0 0 ${wide} ${n * tall}`, role: "img", "aria-label": `Co-occurrence of ${n} labels` },
    names.map((name, i) => s("text", { class: "tick end", x: left - 6, y: i * tall + 10 }, short(name))), cells);
}
