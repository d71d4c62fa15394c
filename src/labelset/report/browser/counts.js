// Confusion counts at any threshold, from histograms of codes over all test rows.
// A label is on where its code is at least its cut; see labelset/report/_grid.py.

const TAIL = 257; // codes 0..255, and none left beyond

// how many rows have at least each code: [(label, off or on), code]
function tailsOf(histograms) {
  const lines = histograms.length / 256;
  const tails = new Uint32Array(lines * TAIL);
  for (let line = 0; line < lines; line++) {
    for (let code = 255; code >= 0; code--) {
      tails[line * TAIL + code] = tails[line * TAIL + code + 1] + histograms[line * 256 + code];
    }
  }
  return tails;
}

function cutOfGrid(c, at, label) {
  return at + 1 + (c.own[label] <= data.grid[at] ? 1 : 0);
}

function cutOfOwn(c, label) {
  const own = c.own[label];
  let low = 0, high = data.grid.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (data.grid[middle] < own) low = middle + 1;
    else high = middle;
  }
  return low + 1;
}

function gridNear(value) {
  let best = 0;
  data.grid.forEach((point, at) => {
    if (Math.abs(point - value) < Math.abs(data.grid[best] - value)) best = at;
  });
  return best;
}

function confusionAt(c, label, cut) {
  const off = 2 * label * TAIL, on = off + TAIL;
  const tp = c.tails[on + cut], fp = c.tails[off + cut];
  return { tp, fp, fn: c.tails[on] - tp, tn: c.tails[off] - fp };
}

function over(top, bottom) {
  return bottom > 0 ? top / bottom : 0;
}

function rates({ tp, fp, fn }) {
  return { precision: over(tp, tp + fp), recall: over(tp, tp + fn), f1: over(2 * tp, 2 * tp + fp + fn) };
}

// all labels together at the cuts in force: the counts added up, and the mean F1 of the labels
function totals(c) {
  const sum = { tp: 0, fp: 0, fn: 0, tn: 0 };
  let f1 = 0, labels = 0;
  for (let label = 0; label < data.names.length; label++) {
    const each = confusionAt(c, label, c.cuts[label]);
    for (const name of Object.keys(sum)) sum[name] += each[name];
    if (data.known[label] > 0) {
      f1 += rates(each).f1;
      labels += 1;
    }
  }
  return { counts: sum, ...rates(sum), macro: f1 / labels };
}

// confusion at every point of the grid, of one label or (null) of all together
function sweep(c, label) {
  const labels = label === null ? data.names.map((_, at) => at) : [label];
  return data.grid.map((threshold, at) => {
    const sum = { threshold, tp: 0, fp: 0, fn: 0 };
    for (const j of labels) {
      const each = confusionAt(c, j, cutOfGrid(c, at, j));
      sum.tp += each.tp;
      sum.fp += each.fp;
      sum.fn += each.fn;
    }
    return { ...sum, ...rates(sum) };
  });
}

// Wilson's 95% interval of a share
function wilson(hits, n) {
  if (!n) return [0, 1];
  const z = 1.959964, f = hits / n, d = 1 + (z * z) / n;
  const centre = (f + (z * z) / (2 * n)) / d;
  const half = (z / d) * Math.sqrt((f * (1 - f)) / n + (z * z) / (4 * n * n));
  return [Math.max(0, centre - half), Math.min(1, centre + half)];
}

// bins of a reliability curve: of one label, or (null) of all together
function binsOf(curve, label) {
  const bins = curve.count.length / data.names.length;
  const out = Array.from({ length: bins }, () => ({ n: 0, on: 0, sum: 0 }));
  const first = label === null ? 0 : label * bins;
  const last = label === null ? curve.count.length : first + bins;
  for (let at = first; at < last; at++) {
    const bin = out[at % bins];
    bin.n += curve.count[at];
    bin.on += curve.on[at];
    bin.sum += (curve.mean[at] / 65535) * curve.count[at];
  }
  return out.filter((bin) => bin.n > 0).map(({ n, on, sum }) => ({ n, p: sum / n, f: on / n, on }));
}

function averageGap(bins) {
  return bins.reduce((sum, bin) => sum + Math.abs(bin.f - bin.p), 0) / bins.length;
}
