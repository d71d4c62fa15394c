// What the candidates cost, and how training went.

const COST_WORDS = { seconds: "Fitted in (s)", ms_per_row: "A row in (ms)", megabytes: "Size (MB)" };
const SERIES = ["one", "two", "three", "four", "five", "six"];

function costSection() {
  const made = section("cost", "Cost and training",
    "Seconds to fit, milliseconds to score a row and megabytes, as measured on the machine that made this.");
  const curves = h("div");
  made.append(...[costCard()].filter(Boolean), curves);
  on("candidate", (c) => curves.replaceChildren(...historyCards(c.raw)));
  return made;
}

function briefly(value) {
  if (!Number.isFinite(value ?? NaN)) return "–";
  return value >= 100 ? whole(value) : String(Number(value.toPrecision(2)));
}

function costCard() {
  const rows = data.candidates.filter((raw) => Object.values(raw.cost).some((value) => value !== null));
  if (!rows.length) return null;
  const stage = lastStage(data.optimise), reached = (raw) => summaryOf(raw, data.optimise, stage)?.mean ?? null;
  const costs = Object.entries(COST_WORDS).map(([name, title]) => ({ title, key: (raw) => raw.cost[name], cell: (raw) => briefly(raw.cost[name]) }));
  const table = sortedTable({ caption: "Cost", rows, page: 30, sort: { at: stage ? 2 : 1, way: 1 },
    rowClass: (raw) => (raw.key === data.best ? "best" : null), columns: [
    { title: "Candidate", kind: "text", key: (raw) => raw.key, cell: (raw) => named(raw.key) },
    ...(stage ? [{ title: data.optimise, key: reached, cell: (raw) => fixed(reached(raw)) }] : []), ...costs] });
  return h("div", { class: "two" }, card("Cost", table.element), stage ? costFigure(rows, reached) : h("div"));
}

// what is reached, against the time for a row; the names of points are those of the table, by number
function costFigure(rows, reached) {
  const points = rows.map((raw) => [raw, raw.cost.ms_per_row, reached(raw)])
    .filter(([raw, x, y]) => x > 0 && Number.isFinite(y ?? NaN) && raw.key !== "frequency"); // which is far below all others
  if (points.length < 2) return h("div");
  const logs = points.map(([, x]) => Math.log10(x)), ys = points.map(([, , y]) => y);
  const yTicks = roundTicks(Math.min(...ys) - 0.005, Math.max(...ys) + 0.005);
  const x = [Math.floor(Math.min(...logs)), Math.max(Math.ceil(Math.max(...logs)), Math.floor(Math.min(...logs)) + 1)];
  const xTicks = Array.from({ length: x[1] - x[0] + 1 }, (_, at) => [x[0] + at, String(Number((10 ** (x[0] + at)).toPrecision(3)))]);
  const kind = (raw) => `dot ${raw.key === data.best ? "one" : "grey"}`;
  const mark = (raw, at) => (sx, sy) => s("g", null, s("circle", { class: kind(raw), cx: sx(logs[at]), cy: sy(ys[at]), r: 5 }),
    s("text", { class: "tick", x: sx(logs[at]) + 8, y: sy(ys[at]) + 4 }, String(at + 1)));
  const words = points.map(([raw, ms, y]) => `${raw.key} ${fixed(y)} in ${briefly(ms)} ms`).join(", ");
  const drawn = plot({ about: words, x, y: ends(yTicks), xTicks, yTicks, xLabel: "milliseconds for a row (log scale)",
    yLabel: data.optimise, layers: points.map(([raw], at) => mark(raw, at)), wide: 400 });
  return h("figure", null, h("figcaption", null, `${data.optimise} against the time for a row`), drawn,
    h("ol", { class: "note numbered" }, points.map(([raw]) => h("li", null, named(raw.key)))));
}

function historyCards(raw) {
  const trained = data.candidates.filter((each) => pointsOf(each, "loss").length);
  if (!trained.length) return [];
  const sorted = (list) => list.slice().sort((a, b) => (b.key === raw.key) - (a.key === raw.key)).slice(0, SERIES.length);
  const relative = (each) => pointsOf(each, "loss").map(([epoch, loss], _, all) => [epoch, loss / (Math.abs(all[0][1]) || 1)]);
  const keys = (list) => list.map((each, at) => [SERIES[at], each.key]);
  const shown = sorted(trained), valid = sorted(data.candidates.filter((each) => pointsOf(each, "valid").length));
  const about = (list, points) => list.map((each) => `${each.key} ${spanWords(points(each))}`).join("; ");
  const curve = (title, list, points, yLabel, note) =>
    figure(title, historyPlot(list.map(points), yLabel, `${title}: ${about(list, points)}`), note, keys(list));
  return [h("div", { class: "two" },
    curve("Training loss by epoch", shown, relative, "loss over that of the first epoch", "Losses of different kinds have different scales."),
    valid.length ? curve("Validation by epoch", valid, (each) => pointsOf(each, "valid"), "validation") : null)];
}

function pointsOf(raw, name) {
  return raw.history.filter((row) => row && Number.isFinite(row.epoch) && Number.isFinite(row[name])).map((row) => [row.epoch, row[name]]);
}

function spanWords(points) {
  const [first, last] = ends(points);
  return `from ${Number(first[1].toPrecision(4))} to ${Number(last[1].toPrecision(4))}`;
}

function historyPlot(lists, yLabel, about) {
  const all = lists.flat(), xs = all.map(([x]) => x), ys = all.map(([, y]) => y);
  const x = [Math.min(...xs), Math.max(Math.min(...xs) + 1, ...xs)];
  const yTicks = roundTicks(Math.min(...ys), Math.max(...ys));
  const xTicks = roundTicks(...x).filter((tick) => Number.isInteger(tick) && tick >= x[0] && tick <= x[1]);
  return plot({ about, x, y: ends(yTicks), xTicks, yTicks, xLabel: "epoch", yLabel,
    layers: lists.map((points, at) => line(points, SERIES[at])), wide: 400 });
}
