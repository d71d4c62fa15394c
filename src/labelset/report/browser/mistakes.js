// What is missed and what is wrongly predicted, row by row, at the thresholds in force.

// of each carried row the labels that are missed and those predicted though off
function mistakesOf(c) {
  if (c.errors) return c.errors;
  const size = sampleSize(), rows = Array.from({ length: size }, () => ({ missed: [], extra: [] }));
  for (let label = 0; label < data.names.length; label++) {
    const first = label * size, cut = c.cuts[label];
    for (let row = 0; row < size; row++) {
      const truth = chosen.truth[first + row], said = c.codes[first + row] >= cut;
      if (truth === 1 && !said) rows[row].missed.push(label);
      else if (truth === 0 && said) rows[row].extra.push(label);
    }
  }
  c.errors = rows;
  return rows;
}

// a missed label is shared over the labels wrongly predicted in its row, or goes to nothing (null):
// what is predicted instead of a label, and what is missed where it is wrongly predicted
function confusionsOf(c, label) {
  const instead = new Map(), of = new Map();
  const add = (map, key, share) => map.set(key, (map.get(key) || 0) + share);
  for (const { missed, extra } of mistakesOf(c)) {
    if (missed.includes(label)) (extra.length ? extra : [null]).forEach((each) => add(instead, each, 1 / (extra.length || 1)));
    if (extra.includes(label)) missed.forEach((each) => add(of, each, 1 / extra.length));
  }
  const sorted = (map) => [...map].sort((a, b) => b[1] - a[1]);
  return { instead: sorted(instead), of: sorted(of) };
}

// [missed, predicted instead, rows] of all labels, the most frequent first
function allConfusions(c) {
  const pairs = new Map(), n = data.names.length + 1;
  for (const { missed, extra } of mistakesOf(c)) {
    for (const label of missed) {
      for (const each of extra.length ? extra : [n - 1]) {
        pairs.set(label * n + each, (pairs.get(label * n + each) || 0) + 1 / (extra.length || 1));
      }
    }
  }
  return [...pairs].map(([at, rows]) => [Math.floor(at / n), at % n === n - 1 ? null : at % n, rows]).sort((a, b) => b[2] - a[2]);
}

// log loss of each carried row, over its known labels; once, as no threshold changes it
function surpriseOf(c) {
  if (c.surprise) return c.surprise;
  const size = sampleSize(), sum = new Float64Array(size);
  for (let label = 0; label < data.names.length; label++) {
    const probability = probabilitiesOf(c, label);
    for (let row = 0; row < size; row++) {
      const truth = chosen.truth[label * size + row], p = probability(row);
      if (truth !== 2) sum[row] -= Math.log(Math.max(1e-12, truth ? p : 1 - p));
    }
  }
  c.surprise = sum;
  return sum;
}

// the sentence that says of which rows lists and confusions are
function ofCarried() {
  return sampleSize() === data.count ? "all test rows" : `the ${whole(sampleSize())} test rows that this page carries, drawn at random`;
}

// what is wrong with a label at the thresholds in force: the reasons to look at it
function worries(c, label) {
  const counts = confusionAt(c, label, c.cuts[label]), { tp, fp, fn } = counts, found = [];
  const share = data.on[label] / Math.max(1, data.known[label]);
  if (!data.on[label]) return [];
  if (!(c.ap[label] > share + 0.1 * (1 - share))) found.push("scores near chance");
  if (tp + fp === 0) found.push("never predicted");
  else if (tp < 0.1 * (tp + fn)) found.push(`finds ${whole(tp)} of ${whole(tp + fn)}`);
  if (fp > 0 && tp < 0.25 * (tp + fp)) found.push(`right in ${whole(tp)} of ${whole(tp + fp)}`);
  return [...found, ...new Set(c.flags[label].map(({ cause }) => cause))];
}
