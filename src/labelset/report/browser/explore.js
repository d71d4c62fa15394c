// One candidate: thresholds to move, and what they do to precision, recall and F1.

function exploreSection() {
  const made = section("explore", "Explore", "Move the threshold: every number and curve below follows. ",
    "They are of all ", whole(data.count), " test rows.");
  const about = h("p", { class: "lead" }), figures = h("div", { class: "figures" });
  made.append(about, h("div", { class: "panel" }, controls(), readings()), figures, labelTable());
  on("candidate", (c) => about.replaceChildren(...described(c)));
  on("label", (c) => drawFigures(c, figures));
  on("thresholds", (c) => drawThreshold(c, figures));
  return made;
}

function described(c) {
  const { raw } = c;
  const map = raw.map ? ["Probabilities by the map ", h("b", null, raw.map)] : ["Probabilities by the loss's own link"];
  const rule = raw.exact
    ? ["; thresholds by the rule ", h("b", null, raw.rule), "."]
    : ["; decided by the rule ", h("b", null, raw.rule), ", which is no threshold: micro F1 ",
      fixed(raw.decided["f1-micro"]), ", macro F1 ", fixed(raw.decided["f1-macro"]), ". The slider starts at 0.5 instead."];
  return [named(raw.key), ": ", ...map, ...rule];
}

// ---- controls ---------------------------------------------------------------------------------

function controls() {
  const value = h("output", { id: "threshold-value", for: "threshold" });
  const slider = h("input", { id: "threshold", type: "range", min: 0, max: data.grid.length - 1, step: 1,
    oninput: (event) => moveTo(Number(event.target.value)) });
  const scope = h("label", { for: "threshold" });
  const back = h("button", { type: "button", onclick: () => chooseLabel(null) }, "All labels");
  on("thresholds", (c) => {
    const { text, at } = thresholdNow(c);
    slider.value = at;
    slider.setAttribute("aria-valuetext", text);
    value.textContent = text;
    scope.replaceChildren("Threshold for ", chosen.label === null ? "all labels" : named(data.names[chosen.label]));
    back.hidden = chosen.label === null;
  });
  return card(null, h("div", { class: "threshold" }, scope, value), slider,
    h("div", { class: "ends", "aria-hidden": "true" }, h("span", null, "0"), h("span", null, "0.5"), h("span", null, "1")),
    h("div", { class: "buttons" }, back,
      h("button", { type: "button", onclick: () => reset() }, "As saved"),
      h("button", { type: "button", onclick: () => moveTo(gridNear(0.5)) }, "0.5"), copyButton()),
    labelPicker());
}

function moveTo(at) {
  takeGrid(chosen.candidate, at, chosen.label);
  changed("thresholds");
}

function reset() {
  takeOwn(chosen.candidate);
  changed("thresholds");
}

// one number where all labels share it
function thresholdNow(c) {
  if (chosen.label !== null) {
    const each = c.thresholds[chosen.label];
    return { text: precise(each), at: gridNear(Math.min(each, 1)) };
  }
  const sorted = Float64Array.from(c.thresholds).sort();
  const middle = sorted[sorted.length >> 1], last = sorted[sorted.length - 1];
  const same = sorted[0] === last;
  const text = same ? precise(middle) : `${precise(sorted[0])} to ${precise(last)}, one per label`;
  return { text, at: gridNear(Math.min(middle, 1)) };
}

function labelPicker() {
  const list = h("datalist", { id: "label-names" });
  const pick = (event) => {
    const text = event.target.value;
    const near = data.names.filter((name) => name.toLowerCase().includes(text.toLowerCase())).slice(0, 20);
    list.replaceChildren(...near.map((name) => h("option", { value: name })));
    const label = data.names.indexOf(text);
    if (label >= 0) chooseLabel(label);
  };
  return h("div", { class: "picker" }, h("label", { for: "label-picker" }, "Only one label"),
    h("input", { id: "label-picker", list: "label-names", autocomplete: "off", placeholder: "its name", oninput: pick }), list);
}

// ---- copying ----------------------------------------------------------------------------------

function copyButton() {
  const box = h("textarea", { readonly: true, rows: 3, hidden: true, "aria-label": "The thresholds as JSON" });
  const said = h("span", { class: "said", role: "status" });
  const copy = async () => {
    box.value = JSON.stringify(ruleOf(chosen.candidate));
    box.hidden = false;
    box.select();
    try {
      await navigator.clipboard.writeText(box.value);
      said.textContent = "Copied. Save as rule.json, then: labelset decide RUN --from rule.json";
    } catch {
      said.textContent = "Copy it from here. Then: labelset decide RUN --from rule.json";
    }
  };
  return [h("button", { type: "button", class: "strong", onclick: copy }, "Copy thresholds as JSON"), said, box];
}

// ---- numbers ----------------------------------------------------------------------------------

function readings() {
  const numbers = h("dl", { class: "readings", "aria-live": "polite", id: "readings" });
  const matrix = h("div", { id: "confusion" });
  on("thresholds", (c) => {
    const all = chosen.label === null ? totals(c) : null;
    const counts = all ? all.counts : confusionAt(c, chosen.label, c.cuts[chosen.label]);
    const { precision, recall, f1 } = all || rates(counts);
    const reading = (name, value, id) => h("div", null, h("dt", null, name), h("dd", { "data-reading": id }, value));
    numbers.replaceChildren(reading("Precision", fixed(precision), "precision"), reading("Recall", fixed(recall), "recall"),
      reading(all ? "F1, micro" : "F1", fixed(f1), "f1"), all ? reading("F1, macro", fixed(all.macro), "macro") : "",
      reading(all ? "Labels per row" : "Rows", rowsSaid(counts, all), "per-row"));
    matrix.replaceChildren(confusionTable(counts));
  });
  return card(null, numbers, matrix);
}

function rowsSaid({ tp, fp, fn }, all) {
  const show = all ? (value) => fixed(value / data.count, 2) : whole;
  return [show(tp + fp), h("small", null, ` of ${show(tp + fn)} true`)];
}

function confusionTable({ tp, fp, fn, tn }) {
  const total = Math.max(1, tp + fp + fn + tn);
  const cell = (value, kind) => h("td", { class: `num ${kind}`, "data-count": kind }, whole(value), h("small", null, ` ${percent(value / total)}`));
  return h("table", { class: "confusion" }, h("caption", null, "Confusion"),
    h("thead", null, h("tr", null, h("td"), h("th", { scope: "col", class: "num" }, "predicted"), h("th", { scope: "col", class: "num" }, "not predicted"))),
    h("tbody", null,
      h("tr", null, h("th", { scope: "row" }, "on"), cell(tp, "tp"), cell(fn, "fn")),
      h("tr", null, h("th", { scope: "row" }, "off"), cell(fp, "fp"), cell(tn, "tn"))));
}

// ---- curves -----------------------------------------------------------------------------------

function drawFigures(c, box) {
  box.replaceChildren(precisionRecall(c), reliabilityFigure(c), scoreFigure(c));
}

function precisionRecall(c) {
  const said = sweep(c, chosen.label).filter((point) => point.tp + point.fp > 0);
  const margins = said.map((point) => [point.recall, ...wilson(point.tp, point.tp + point.fp)]);
  const drawn = plot({ about: "Precision against recall over all thresholds", xLabel: "recall", yLabel: "precision",
    layers: [band(margins, "one"), line(said.map((point) => [point.recall, point.precision]), "one"),
      () => s("g", { id: "pr-now" })] });
  const ap = chosen.label === null ? null : `Average precision ${fixed(c.ap[chosen.label])}. `;
  return figure("Precision and recall", drawn, [ap, "Band: 95% Wilson interval of precision. The point is the threshold now."]);
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
    xLabel: "predicted probability", yLabel: "how often on", layers });
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
  const drawn = plot({ about: "Shares of positives and of negatives by probability", y: [-1, 1], xLabel: "probability", yLabel: "share",
    yTicks: [[-1, "1"], [-0.5, "¼"], [0, "0"], [0.5, "¼"], [1, "1"]],
    layers: [bars(root(shares[0], 1), "one"), bars(root(shares[1], -1), "two"), () => s("g", { id: "score-now" })] });
  return figure("Scores of positives and negatives", drawn, "Heights are on a square-root scale.", [["one", "positives", "bar"], ["two", "negatives", "bar"]]);
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
