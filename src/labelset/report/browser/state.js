// What is chosen: a candidate, a label or all of them, thresholds. Views listen and draw anew.

const data = JSON.parse(document.getElementById("data").textContent);
const chosen = { candidate: null, label: null, rows: null };
const listeners = { candidate: [], label: [], thresholds: [] };
const loaded = new Map();
let waiting = new Set();

function on(event, listener) {
  listeners[event].push(listener);
}

// at most once per frame, however fast a slider moves
function changed(event) {
  if (!waiting.size) requestAnimationFrame(tell);
  waiting.add(event);
}

function tell() {
  const events = waiting;
  waiting = new Set();
  for (const event of ["candidate", "label", "thresholds"]) {
    if (events.has(event)) listeners[event].forEach((listener) => listener(chosen.candidate));
  }
}

async function load(raw) {
  const { thresholds, histograms, ...rest } = await unpackAll({
    thresholds: raw.thresholds, histograms: raw.histograms, codes: raw.codes, fine: raw.fine,
    intervals: raw.intervals, ap: raw.ap, ace: raw.ace,
  });
  const reliability = {};
  for (const [name, curve] of Object.entries(raw.reliability)) reliability[name] = await unpackAll(curve);
  const c = { raw, own: thresholds, tails: tailsOf(histograms), ...rest, reliability };
  c.cuts = new Uint16Array(c.own.length);
  c.thresholds = new Float64Array(c.own.length);
  c.flags = flagsOf(raw.doctor);
  takeOwn(c);
  return c;
}

function flagsOf(doctor) {
  const flags = data.names.map(() => []);
  for (const finding of doctor ? doctor.findings : []) {
    for (const label of finding.labels) flags[label].push(finding.cause);
  }
  return flags;
}

function candidateOf(key) {
  const raw = data.candidates.find((each) => each.key === key);
  if (!loaded.has(key)) loaded.set(key, load(raw));
  return loaded.get(key);
}

async function chooseCandidate(key) {
  chosen.candidate = await candidateOf(key);
  changed("candidate");
  changed("label");
  changed("thresholds");
}

function chooseLabel(label) {
  chosen.label = label;
  changed("label");
  changed("thresholds");
}

// ---- thresholds -------------------------------------------------------------------------------

function takeOwn(c) {
  for (let label = 0; label < c.own.length; label++) {
    c.thresholds[label] = c.own[label];
    c.cuts[label] = cutOfOwn(c, label);
  }
  c.moved = false;
}

function takeGrid(c, at, label) {
  const labels = label === null ? c.own.keys() : [label];
  for (const j of labels) {
    c.thresholds[j] = data.grid[at];
    c.cuts[j] = cutOfGrid(c, at, j);
  }
  c.moved = true;
}

// what `labelset decide --from` reads
function ruleOf(c) {
  return { name: "fixed", settings: { threshold: Array.from(c.thresholds) }, learnt: {} };
}

// ---- rows -------------------------------------------------------------------------------------

async function loadRows() {
  const { rows } = data;
  const held = await unpackAll({ shown: rows.shown, sample: rows.sample, ids: rows.ids, texts: rows.texts });
  const more = await unpackAll({ on: data.on, known: data.known, truth: data.truth });
  data.on = more.on;
  data.known = more.known;
  chosen.truth = more.truth;
  chosen.rows = { ...held, place: new Map(Array.from(held.shown, (row, at) => [row, at])) };
  if (rows.pictures) {
    const pictures = await unpackAll({ at: rows.pictures.at, data: rows.pictures.data });
    chosen.rows.pictures = new Map(Array.from(pictures.at, (at, place) => [at, place]));
    chosen.rows.pixels = pictures.data;
  }
}

function sampleSize() {
  return chosen.rows.sample.length;
}

// (row of the sample, label) -> probability, the middle of what its code allows
function probabilityOf(c, row, label) {
  const at = label * sampleSize() + row, code = c.codes[at], own = c.own[label];
  const split = cutOfOwn(c, label); // codes from here on have passed the label's own threshold
  const edge = (k) => {
    if (k < 0) return 0;
    if (k + 1 === split) return Math.min(own, 1);
    const grid = k + 1 > split ? k - 1 : k;
    return grid < data.grid.length ? data.grid[grid] : 1;
  };
  const low = edge(code - 1), high = edge(code);
  const share = c.fine ? (c.fine[at] + 0.5) / 256 : 0.5;
  return low + (high - low) * share;
}

function rowName(place) {
  const { ids, shown } = chosen.rows;
  return ids ? ids[place] : String(shown[place]);
}

// what a row is: its name, its picture and its text, where there are any
function rowCard(place) {
  const { texts } = chosen.rows;
  return h("div", { class: "row" }, picture(place),
    h("div", null, named(rowName(place), "rowname"), texts ? h("p", { dir: "auto" }, texts[place]) : null));
}

function picture(place) {
  const { pictures, pixels } = chosen.rows;
  if (!pictures || !pictures.has(place)) return null;
  const [channels, high, wide] = data.rows.pictures.size, size = high * wide;
  const first = pictures.get(place) * channels * size;
  const canvas = h("canvas", { width: wide, height: high, role: "img", "aria-label": `Picture of row ${rowName(place)}` });
  const image = new ImageData(wide, high);
  for (let pixel = 0; pixel < size; pixel++) {
    for (let k = 0; k < 3; k++) image.data[4 * pixel + k] = pixels[first + (channels === 3 ? k : 0) * size + pixel];
    image.data[4 * pixel + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
