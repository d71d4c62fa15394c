// Charts as SVG. Colours come from the style sheet, so that they follow light and dark.

const UNIT = [0, 0.25, 0.5, 0.75, 1];

// a frame with axes; each layer gets the two scales and gives elements
function plot({ about, x = [0, 1], y = [0, 1], xTicks = UNIT, yTicks = UNIT, xLabel, yLabel, layers, tall = 250, wide = 340 }) {
  const left = 50, top = 10, right = wide - 10, bottom = tall - 38;
  const sx = (v) => left + ((v - x[0]) / (x[1] - x[0])) * (right - left);
  const sy = (v) => bottom - ((v - y[0]) / (y[1] - y[0])) * (bottom - top);
  const tick = (value) => (Array.isArray(value) ? value : [value, String(Math.abs(value))]);
  const grid = [
    ...yTicks.map(tick).map(([v, text]) => [
      s("line", { class: "grid", x1: left, x2: right, y1: sy(v), y2: sy(v) }),
      s("text", { class: "tick end", x: left - 6, y: sy(v) + 4 }, text),
    ]),
    ...xTicks.map(tick).map(([v, text]) => s("text", { class: "tick mid", x: sx(v), y: bottom + 16 }, text)),
  ];
  const drawn = s("svg", { class: "plot", viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": about },
    s("g", { "aria-hidden": "true" }, grid, layers.map((layer) => layer(sx, sy)),
      s("text", { class: "axis mid", x: (left + right) / 2, y: tall - 4 }, xLabel),
      s("text", { class: "axis mid", transform: `translate(10 ${(top + bottom) / 2}) rotate(-90)` }, yLabel)));
  return Object.assign(drawn, { scales: { sx, sy } });
}

function path(points) {
  return points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

function line(points, kind) {
  return (sx, sy) => s("path", { class: `line ${kind}`, d: path(points.map(([x, y]) => [sx(x), sy(y)])) });
}

// between low and high: points are [x, low, high]
function band(points, kind) {
  return (sx, sy) => {
    const edge = [...points.map(([x, low]) => [x, low]), ...points.map(([x, , high]) => [x, high]).reverse()];
    return s("path", { class: `band ${kind}`, d: `${path(edge.map(([x, y]) => [sx(x), sy(y)]))}Z` });
  };
}

function dots(points, kind, radius = 3) {
  return (sx, sy) => points.map(([x, y]) => s("circle", { class: `dot ${kind}`, cx: sx(x), cy: sy(y), r: radius }));
}

// bars from zero: [from, to, height]
function bars(list, kind) {
  return (sx, sy) => list.map(([from, to, tall]) => {
    const [a, b] = [sy(0), sy(tall)];
    return s("rect", { class: `bar ${kind}`, x: sx(from) + 0.5, width: Math.max(1, sx(to) - sx(from) - 1),
      y: Math.min(a, b), height: Math.abs(a - b) });
  });
}

// entries: [kind, words, "bar" where it is about bars]
function legend(entries) {
  const mark = (kind, shape) => (shape === "bar"
    ? s("rect", { class: `bar ${kind}`, x: 6, width: 10, height: 10, rx: 2 })
    : s("line", { class: `line ${kind}`, x1: 0, x2: 22, y1: 5, y2: 5 }));
  return h("ul", { class: "legend" }, entries.map(([kind, words, shape]) =>
    h("li", null, s("svg", { class: "key", viewBox: "0 0 22 10", "aria-hidden": "true" }, mark(kind, shape)), words)));
}

function figure(title, drawn, note, keys) {
  return h("figure", null, h("figcaption", null, title), drawn, keys ? legend(keys) : null,
    note ? h("p", { class: "note" }, note) : null);
}

// a few round numbers that reach from at most `low` to at least `high`
function roundTicks(low, high) {
  const raw = Math.max(high - low, Math.abs(high) * 1e-9, 1e-12) / 4;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * unit).find((each) => each >= raw * (1 - 1e-9));
  const first = Math.floor(low / step + 1e-9), last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(9)));
}

function ends(list) {
  return [list[0], list[list.length - 1]];
}

// a difference and its interval about zero, as a small picture
function whisker({ delta, low, high, verdict }, reach) {
  const wide = 96, middle = wide / 2;
  const sx = (v) => middle + (Math.max(-1, Math.min(1, v / reach)) * (wide - 12)) / 2;
  const kind = verdict === "better" ? "good" : verdict === "worse" ? "bad" : "even";
  return s("svg", { class: `whisker ${kind}`, viewBox: `0 0 ${wide} 14`, "aria-hidden": "true" },
    s("line", { class: "zero", x1: middle, x2: middle, y1: 0, y2: 14 }),
    s("rect", { class: "span", x: sx(low), width: Math.max(1, sx(high) - sx(low)), y: 4.5, height: 5, rx: 2.5 }),
    s("circle", { class: "point", cx: sx(delta), cy: 7, r: 4 }));
}

// a share as a bar within a cell
function meter(share) {
  return s("svg", { class: "meter", viewBox: "0 0 60 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "track", width: 60, height: 6, rx: 3 }),
    s("rect", { class: "fill", width: 60 * Math.max(0, Math.min(1, share || 0)), height: 6, rx: 3 }));
}
