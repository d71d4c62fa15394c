// The candidates under one another with intervals: what they reach, or their differences from the baseline.

const FOREST_WAYS = [["delta", "Difference from the baseline"], ["mean", "Value"]];

function forestCard() {
  const names = metricNames().filter((metric) => lastStage(metric));
  if (!names.length || data.candidates.length < 2) return null;
  const view = { metric: names[0], way: "delta" }, box = h("div", { class: "forest" });
  const draw = () => box.replaceChildren(...forestOf(view.metric, view.way));
  const select = h("select", { id: "forest-metric", onchange: (event) => {
    view.metric = event.target.value;
    draw();
  } }, names.map((name) => h("option", { value: name }, name)));
  draw();
  return h("div", { class: "card" }, h("div", { class: "cardhead" }, h("h3", null, "Who is surely better"), h("div", { class: "buttons" },
    h("label", { class: "hidden", for: "forest-metric" }, "Metric"), select, choice("Shown", FOREST_WAYS, view.way, (way) => {
      view.way = way;
      draw();
    }))), box,
  h("p", { class: "note" }, "Lines are 95% intervals, test rows drawn again. A difference is significant where its line leaves out 0, ",
    "which is the baseline: the same rows judge both, so that differences are surer than the intervals of values make them look."));
}

// the last stage at which a metric was measured: calibrated, tuned or raw
function lastStage(metric) {
  const has = (stage) => data.candidates.some((raw) => summaryOf(raw, metric, stage));
  return STAGES.map(([stage]) => stage).filter(has).slice(-1)[0];
}

function forestOf(metric, way) {
  const stage = lastStage(metric), better = data.metrics[metric].higher ? -1 : 1;
  const rows = data.candidates.map((raw) => ({ raw, row: summaryOf(raw, metric, stage) })).filter(({ row }) => row);
  const delta = (raw, row) => (raw.key === data.baseline ? [0, null, null] : [row.delta, row.low, row.high]);
  const read = (raw, row) => (way === "mean" ? [row.mean, row.mean_low, row.mean_high] : delta(raw, row));
  const shown = rows.map(({ raw, row }) => ({ raw, row, figures: read(raw, row) }))
    .filter(({ figures }) => Number.isFinite(figures[0] ?? NaN));
  if (!shown.length) return [h("p", { class: "note" }, "No intervals are known.")];
  shown.sort((a, b) => better * (a.row.mean - b.row.mean));
  const ticks = scaleOf(shown, way), at = (value) => `${(100 * placeOf(value, ends(ticks))).toFixed(2)}%`;
  return [...shown.flatMap((each) => forestLine(each, way, at, ends(ticks))), h("span", { class: "axis gap" }),
    s("svg", { class: "axis", "aria-hidden": "true" }, ticks.map((tick) => s("text", { x: at(tick), y: 12 }, String(tick).replace("-", "−")))),
    h("span", { class: "axis unit" }, `${metric}, ${stage}${data.metrics[metric].higher ? "" : " (lower is better)"}`)];
}

// one that is far behind all others would squeeze them: it goes to the edge instead
function scaleOf(shown, way) {
  const spread = shown.flatMap(({ figures }) => figures.filter((value) => value !== null)).concat(way === "mean" ? [] : [0]);
  const near = shown.slice(0, Math.max(2, Math.ceil(shown.length * 0.8))).flatMap(({ figures }) => figures.filter((value) => value !== null));
  const [low, high] = [Math.min(...spread), Math.max(...spread)];
  const inner = way === "mean" ? near : [...near, 0], [least, most] = [Math.min(...inner), Math.max(...inner)];
  return high - low > 4 * (most - least) && most > least ? roundTicks(least, most) : roundTicks(low, high);
}

function placeOf(value, [low, high]) {
  return 0.03 + 0.94 * Math.max(-0.02, Math.min(1.02, (value - low) / (high - low)));
}

function forestLine({ raw, row, figures: [value, low, high] }, way, at, [first, last]) {
  const kind = way === "mean" || raw.key === data.baseline ? "even" : { better: "good", worse: "bad" }[row.verdict] || "even";
  const digits = way === "mean" ? fixed : signed, known = low !== null && high !== null;
  const beyond = value < first || value > last ? " (off the scale)" : "";
  const figures = `${digits(value)}${known ? ` [${digits(low)}, ${digits(high)}]` : ""}${beyond}`;
  const words = raw.key === data.baseline && way === "delta" ? "baseline" : figures;
  const zero = way === "delta" ? s("line", { class: "zero", x1: at(0), x2: at(0), y1: 0, y2: 24 }) : null;
  return [h("span", { class: raw.key === data.best ? "name strong" : "name" }, named(raw.key)),
    s("svg", { class: `whisker ${kind}`, "aria-hidden": "true" }, zero ? [zero] : [],
      known ? [s("line", { class: "span", x1: at(low), x2: at(high), y1: 12, y2: 12 })] : [],
      s("circle", { class: "point", cx: at(value), cy: 12, r: 5 })),
    h("span", { class: "figures-of" }, words)];
}
