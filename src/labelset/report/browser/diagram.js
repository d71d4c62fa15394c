// A query as a decision diagram, weighed row by row: the same probabilities as labelset.retrieve.

const MOST_NODES = 20000;

// a reduced ordered decision diagram: nodes [name, low, high], 0 is false and 1 is true
function diagramOf(tree, find) {
  const labels = [], places = new Map(), nodes = [null, null], known = new Map(), joined = new Map();

  function placeOf(token) {
    if (!places.has(token.text)) {
      places.set(token.text, labels.length);
      labels.push(find(token));
    }
    return places.get(token.text);
  }
  function collect(part) {
    if (part.kind === "name") placeOf(part);
    else part.parts.forEach(collect);
  }
  function node(name, low, high) {
    if (low === high) return low;
    const key = `${name},${low},${high}`;
    if (!known.has(key)) {
      known.set(key, nodes.length);
      nodes.push([name, low, high]);
      if (nodes.length > MOST_NODES) throw new QueryError("the query is too entangled; ask in several");
    }
    return known.get(key);
  }
  const top = (f) => (f > 1 ? nodes[f][0] : Infinity);
  const split = (f, name) => (top(f) === name ? nodes[f].slice(1) : [f, f]);

  function join(every, f, g) {
    const neutral = every ? 1 : 0;
    if (f === 1 - neutral || g === 1 - neutral) return 1 - neutral;
    if (f === neutral || f === g) return g;
    if (g === neutral) return f;
    const key = `${every},${Math.min(f, g)},${Math.max(f, g)}`;
    if (!joined.has(key)) {
      const name = Math.min(top(f), top(g));
      const [lowF, highF] = split(f, name), [lowG, highG] = split(g, name);
      joined.set(key, node(name, join(every, lowF, lowG), join(every, highF, highG)));
    }
    return joined.get(key);
  }
  function build(part, holds) {
    if (part.kind === "name") return node(placeOf(part), holds ? 0 : 1, holds ? 1 : 0);
    if (part.kind === "!") return build(part.parts[0], !holds);
    const every = (part.kind === "&") === holds;
    return part.parts.reduceRight((rest, each) => join(every, build(each, holds), rest), every ? 1 : 0);
  }
  collect(tree);
  const root = build(tree, true);
  return { labels, nodes, root };
}

// the probability that the query holds, given that of each of its labels
function weigh({ nodes, root }, p) {
  if (root < 2) return root;
  const weight = new Float64Array(nodes.length);
  weight[1] = 1;
  for (let at = 2; at < nodes.length; at++) { // children come first
    const [name, low, high] = nodes[at];
    weight[at] = p[name] * weight[high] + (1 - p[name]) * weight[low];
  }
  return weight[root];
}

// whether it holds for true labels: true, false, or null where unknown ones (2) matter
function holds(diagram, truth) {
  const unsure = truth.some((value) => value === 2);
  const low = weigh(diagram, truth.map((value) => (value === 2 ? 0.5 : value)));
  return unsure && low > 0 && low < 1 ? null : low === 1;
}

// the chances of 0, 1, ..., k right rows, rows being independent
function countChances(p) {
  let chance = [1];
  for (const each of p) {
    const next = new Array(chance.length + 1).fill(0);
    chance.forEach((value, right) => {
      next[right] += value * (1 - each);
      next[right + 1] += value * each;
    });
    chance = next;
  }
  return chance;
}

// how many of these rows are right: the expected number, and the central 95% interval
function expectedRight(p) {
  const chance = countChances(p), ends = [];
  let below = 0, right = 0;
  for (const tail of [0.025, 0.975]) {
    while (right < p.length && below + chance[right] < tail) below += chance[right++];
    ends.push(right);
  }
  return { mean: p.reduce((sum, each) => sum + each, 0), low: ends[0], high: ends[1] };
}
