// Curves of a candidate, for one label or all: precision and recall, reliability, scores.

function drawFigures(c, box) {
  box.replaceChildren(precisionRecall(c), reliabilityFigure(c), scoreFigure(c));
}

function precisionRecall(c) {
  const said = sweep(c, chosen.label).filter((point) => point.tp + point.fp > 0);
  const margins = said.map((point) => [point.recall, ...wilson(point.tp, point.tp + point.fp)]);
  const drawn = plot({ about: curveWords(said), xLabel: "recall", yLabel: "precision",
    layers: [band(margins, "one"), line(said.map((point) => [point.recall, point.precision]), "one"),
      () => s("g", { id: "pr-now" })] });
  const ap = chosen.label === null ? null : `Average precision ${fixed(c.ap[chosen.label])}. `;
  return figure("Precision and recall", drawn, [ap, "Band: 95% Wilson interval of precision. The point is the threshold now."]);
}

// what the curve says, for those who do not see it
function curveWords(said) {
  const best = (recall) => Math.max(0, ...said.filter((point) => point.recall >= recall).map((point) => point.precision));
  const words = [0.25, 0.5, 0.75].map((recall) => `${fixed(best(recall), 2)} at recall ${recall}`);
  return `Precision against recall over all thresholds: ${words.join(", ")}`;
}

function reliabilityFigure(c) {
  const layers = [line([[0, 0], [1, 1]], "dashed")], keys = [];
  const words = { before: "before calibration", after: c.reliability.before ? "after" : "as it is" };
  for (const [name, kind] of [["before", "two"], ["after", "one"]]) {
    if (!c.reliability[name]) continue;
    const bins = binsOf(c.reliability[name], chosen.label);
    if (!bins.length) continue;
    layers.push(band(bins.map((bin) => [bin.p, ...wilson(bin.on, bin.n)]), kind), line(bins.map((bin) => [bin.p, bin.f]), kind),
      dots(bins.map((bin) => [bin.p, bin.f]), kind));
    keys.push([kind, `${words[name]}, calibration error ${fixed(averageGap(bins))}`]);
  }
  const drawn = plot({ about: `How often labels are on against the predicted probability. ${keys.map((key) => key[1]).join("; ")}`,
    xLabel: "predicted probability", yLabel: "observed frequency", layers });
  return figure("Reliability", drawn, null, keys);
}

function scoreFigure(c) {
  const edges = Array.from({ length: 21 }, (_, at) => at / 20);
  const labels = chosen.label === null ? data.names.map((_, at) => at) : [chosen.label];
  const points = edges.map(gridNear), last = edges.length - 1;
  const tail = (at, on) => labels.reduce((sum, label) => {
    const cut = at === 0 ? 0 : at === last ? 256 : cutOfGrid(c, points[at], label);
    return sum + c.tails[(2 * label + on) * TAIL + cut];
  }, 0);
  const counts = [1, 0].map((on) => edges.map((_, at) => tail(at, on)));
  const shares = counts.map((each) => edges.slice(1).map((_, at) => (each[at] - each[at + 1]) / Math.max(1, each[0])));
  const root = (list, way) => list.map((share, at) => [edges[at], edges[at + 1], way * Math.sqrt(share)]);
  const half = counts.map((each) => percent(each[10] / Math.max(1, each[0])));
  const drawn = plot({ y: [-1, 1], xLabel: "probability", yLabel: "share",
    about: `Probabilities of positives and of negatives: ${half[0]} of positives and ${half[1]} of negatives have one half or more`,
    yTicks: [[-1, "1"], [-0.5, "¼"], [0, "0"], [0.5, "¼"], [1, "1"]],
    layers: [bars(root(shares[0], 1), "one"), bars(root(shares[1], -1), "two"), () => s("g", { id: "score-now" })] });
  return figure("Scores of positives and negatives", drawn, "Heights are on a square-root scale.",
    [["one", "positives", "bar"], ["two", "negatives", "bar"]]);
}

// only what moves with the slider is drawn anew
function drawThreshold(c, box) {
  const all = chosen.label === null ? totals(c) : rates(confusionAt(c, chosen.label, c.cuts[chosen.label]));
  const curve = box.querySelector("#pr-now"), scores = box.querySelector("#score-now");
  const onCurve = curve.ownerSVGElement.scales, onScores = scores.ownerSVGElement.scales;
  curve.replaceChildren(s("circle", { class: "now", cx: onCurve.sx(all.recall), cy: onCurve.sy(all.precision), r: 6 }));
  const x = onScores.sx(data.grid[thresholdNow(c).at]);
  scores.replaceChildren(s("line", { class: "nowline", x1: x, x2: x, y1: onScores.sy(-1), y2: onScores.sy(1) }));
}
