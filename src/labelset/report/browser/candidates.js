// The answer: the candidates with their metrics, raw, tuned and calibrated.

const STAGES = [["raw", "Raw"], ["tuned", "Tuned"], ["calibrated", "Calibrated"]];
const WORDS = { better: "better than the baseline", worse: "worse than the baseline",
  "no difference": "no difference from the baseline", baseline: "baseline" };

const ALONE = data.candidates.length < 2; // nothing is compared

function metricNames() {
  const names = Object.keys(data.metrics);
  return names.sort((a, b) => (b === data.optimise) - (a === data.optimise));
}

function summaryOf(raw, metric, stage) {
  return raw.summary.find((row) => row.metric === metric && row.stage === stage) || null;
}

function answerTable() {
  const stages = STAGES.filter(([stage]) => data.candidates.some((raw) => raw.summary.some((row) => row.stage === stage)));
  if (!stages.length) return null;
  const decides = stages.filter(([stage]) => data.candidates.some((raw) => summaryOf(raw, data.optimise, stage)));
  const box = h("div"), first = (decides.length ? decides : stages).slice(-1)[0][0];
  const show = (stage) => box.replaceChildren(stageTable(stage === "all" ? stages.map(([each]) => each) : [stage]));
  show(first);
  const options = stages.length > 1 ? [...stages, ["all", "All"]] : stages;
  return h("div", { class: "card" },
    h("div", { class: "cardhead" }, h("h2", null, ALONE ? "Figures" : "Candidates"), choice("Stage", options, first, show)), box,
    ALONE ? null : h("p", { class: "note" }, "Mean ± standard deviation. The bar is the interval of the difference from the baseline, ",
      "which is the vertical line; the bars of a column share one scale. ", h("span", { class: "good" }, "▲ better"), " and ",
      h("span", { class: "bad" }, "▼ worse"), " mark differences that are significant. ↓ lower is better."));
}

// one line per candidate; of several stages, a metric has a column for each that it was measured at
function stageTable(stages) {
  const rows = data.candidates.filter((raw) => raw.summary.some((row) => stages.includes(row.stage)));
  const measured = (metric, stage) => rows.some((raw) => summaryOf(raw, metric, stage));
  const pairs = metricNames().flatMap((metric) => stages.filter((stage) => measured(metric, stage)).map((stage) => [metric, stage]));
  const columns = [CANDIDATE, ...pairs.map(([metric, stage]) => metricColumn(metric, stage, rows, stages.length > 1))];
  const first = pairs.filter(([metric]) => metric === pairs[0][0]).length; // the last stage of the metric that decides
  return sortedTable({ caption: "Candidates", columns, rows, page: 30, sort: { at: first, way: data.metrics[pairs[0][0]].higher ? -1 : 1 },
    rowClass: (raw) => (raw.key === data.best ? "best" : null) }).element;
}

const CANDIDATE = {
  title: "Candidate", kind: "text", key: (raw) => raw.key,
  cell: (raw) => h("div", { class: "candidate" }, named(raw.key),
    raw.key === data.best && !ALONE ? h("span", { class: "badge strong" }, "recommended") : null,
    raw.key === data.baseline && !ALONE ? h("span", { class: "badge" }, "baseline") : null,
    raw.words ? h("small", null, raw.words.split(";")[0].split(". ")[0]) : null),
};

function metricColumn(name, stage, rows, withStage) {
  const of = (raw) => summaryOf(raw, name, stage);
  const ends = rows.map(of).filter((row) => row && row.low !== null).flatMap((row) => [Math.abs(row.low), Math.abs(row.high)]);
  const reach = reachOf(ends);
  const { higher, about } = data.metrics[name];
  return {
    title: [name, withStage ? ` ${stage}` : null, higher ? null : h("span", { title: "lower is better" }, " ↓")], about,
    key: (raw) => of(raw)?.mean, cell: (raw) => metricCell(of(raw), reach, raw.key === data.baseline),
  };
}

// what most bars reach: one that is far off does not squeeze the others
function reachOf(ends) {
  const sorted = ends.slice().sort((a, b) => a - b), middle = sorted[sorted.length >> 1] || 0;
  return Math.max(1e-9, ...sorted.filter((each) => each <= 6 * middle));
}

function metricCell(row, reach, baseline) {
  if (!row) return "–";
  const mark = { better: "▲", worse: "▼" }[row.verdict] || "";
  const kind = { better: "good", worse: "bad" }[row.verdict] || "even";
  const spread = row.sd === null ? null : h("small", null, ` ± ${fixed(row.sd)}`);
  const value = h("div", null, h("span", { class: `mark ${kind}`, "aria-hidden": "true" }, mark), h("b", null, fixed(row.mean)), spread);
  if ([row.delta, row.low, row.high].includes(null) || baseline) return [value, hidden(baseline ? WORDS.baseline : WORDS[row.verdict])];
  const words = `${WORDS[row.verdict]}: ${signed(row.delta)}, interval ${signed(row.low)} to ${signed(row.high)}`;
  return h("div", { title: words }, value, whisker(row, reach), hidden(words));
}
