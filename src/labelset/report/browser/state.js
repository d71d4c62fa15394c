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

// when a slider rests, and not at every step of it
const resting = new Map();
function later(name, work, wait = 80) {
  clearTimeout(resting.get(name));
  resting.set(name, setTimeout(work, wait));
}

async function load(raw) {
  const { thresholds, histograms, ...rest } = await unpackAll({
    thresholds: raw.thresholds, histograms: raw.histograms, codes: raw.codes, fine: raw.fine,
    intervals: raw.intervals, ap: raw.ap, ace: raw.ace, ece: raw.ece,
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
    for (const label of finding.labels) flags[label].push(finding);
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

// moves: where sliders stand that were moved; those of all labels under null, of one under its number
function takeOwn(c) {
  for (let label = 0; label < c.own.length; label++) {
    c.thresholds[label] = c.own[label];
    c.cuts[label] = cutOfOwn(c, label);
  }
  c.moves = new Map();
  c.errors = null;
}

function takeGrid(c, at, label) {
  const labels = label === null ? c.own.keys() : [label];
  for (const j of labels) {
    c.thresholds[j] = data.grid[at];
    c.cuts[j] = cutOfGrid(c, at, j);
  }
  if (label === null) c.moves.clear();
  c.moves.set(label, at);
  c.errors = null;
}

// what `labelset decide --from` reads
function ruleOf(c) {
  return { name: "fixed", settings: { threshold: Array.from(c.thresholds) }, learnt: {} };
}
