// Label sets: what is said about them, and how many labels rows get, in truth and as predicted.

const MOST_TOGETHER = 20;

function setsSection() {
  const made = section("sets", "Label sets",
    "Which combinations of labels the output layer can produce, how many labels rows get, and which come together.");
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
  const layers = [bars(tallies[0].map((share, at) => [at - 0.42, at, share]), "grey"),
    bars(tallies[1].map((share, at) => [at, at + 0.42, share]), "one")];
  const about = `True mean ${mean(count[0])} labels per row, predicted ${mean(count[1])}`;
  return figure("Labels per row", plot({ about, x: [-0.6, most + 0.6], y: ends(ticks), xTicks, wide: 400,
    yTicks: ticks.map((tick) => [tick, `${Number((100 * tick).toPrecision(3))}%`]),
    xLabel: highest > most ? `labels, the last: ${most} or more` : "labels", yLabel: "rows", layers }),
  null, [["grey", `true, mean ${mean(count[0])}`, "bar"], ["one", `predicted, mean ${mean(count[1])}`, "bar"]]);
}
