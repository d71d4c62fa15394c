// Which labels come together, in truth and as predicted.

function pairCounts(lines) {
  const n = lines.length, out = [];
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      let both = 0;
      for (let row = 0; row < lines[i].length; row++) both += lines[i][row] & lines[j][row];
      out.push(both);
    }
  }
  return out;
}

let shownPairs = 0;
function together({ labels, on: lines }) {
  if (labels.length < 2) return h("p", { class: "note" }, "With one label nothing comes together.");
  const counts = lines.map(pairCounts), n = labels.length, box = h("div");
  const show = (which) => {
    shownPairs = which;
    box.replaceChildren(...heatMap(labels, counts[which]));
  };
  show(shownPairs);
  const pairs = labels.flatMap((_, i) => labels.slice(i + 1).map((__, k) => [i, i + 1 + k]));
  const gap = ([i, j]) => counts[1][i * n + j] - counts[0][i * n + j];
  const worst = pairs.sort((a, b) => Math.abs(gap(b)) - Math.abs(gap(a))).slice(0, 3).filter((pair) => gap(pair) !== 0);
  const says = worst.map(([i, j]) => h("li", null, named(data.names[labels[i]]), " with ", named(data.names[labels[j]]),
    `: ${whole(counts[0][i * n + j])} rows, predicted for ${whole(counts[1][i * n + j])}`));
  const which = choice("Labels", [[0, "True"], [1, "Predicted"]], shownPairs, show);
  return h("figure", null, h("figcaption", { class: "cardhead" }, "Co-occurrence", which), box, h("p", { class: "note" },
    `Share of rows with the row's label that also carry the column's label; the ${n} most frequent labels.`,
    says.length ? " Furthest off:" : null), says.length ? h("ul", { class: "note" }, says) : null);
}

// lines and columns are the same labels in the same order
function heatMap(labels, counts) {
  const names = labels.map((label) => data.names[label]), n = names.length;
  const room = Math.min(110, 10 + Math.max(...names.map((name) => widthOf(short(name)))));
  const wide = 400, cell = Math.min(40, (wide - room) / n), tall = Math.max(14, Math.min(cell, 22));
  const cells = names.flatMap((line, i) => names.map((column, j) => heatCell(line, column, counts[i * n + j], counts[i * n + i],
    { class: "heat", x: room + j * cell, y: room + i * tall, width: cell - 1, height: tall - 1 }, i === j)));
  return [s("svg", { class: "heatmap", viewBox: `0 0 ${wide} ${room + n * tall}`, role: "img", "aria-label": pairWords(names, counts) },
    names.map((name, i) => s("text", { class: "tick end", x: room - 6, y: room + (i + 0.5) * tall + 4 }, short(name))),
    names.map((name, j) => s("text", { class: "tick",
      transform: `translate(${room + (j + 0.5) * cell + 4} ${room - 6}) rotate(-90)` }, short(name))),
    cells), heatScale()];
}

function heatCell(line, column, both, rows, place, same) {
  const share = rows ? both / rows : 0;
  const words = same ? `${line}: ${whole(rows)} rows` : `${percent(share)} of rows with ${line} also have ${column}`;
  return s("rect", { ...place, "fill-opacity": opacityOf(same ? 0 : share) }, s("title", null, words));
}

function opacityOf(share) {
  return (0.05 + 0.95 * share).toFixed(3);
}

function heatScale() {
  const steps = [0, 0.25, 0.5, 0.75, 1];
  return h("p", { class: "heatscale" }, "0%", s("svg", { class: "scale", viewBox: "0 0 100 10", "aria-hidden": "true" },
    steps.map((share, at) => s("rect", { class: "heat", x: at * 20, width: 19, height: 10, "fill-opacity": opacityOf(share) }))), "100%");
}

// the pairs that come together most often, for those who do not see the map
function pairWords(names, counts) {
  const n = names.length;
  const pairs = names.flatMap((one, i) => names.slice(i + 1).map((other, k) => [one, other, counts[i * n + i + 1 + k]]));
  const most = pairs.sort((a, b) => b[2] - a[2]).slice(0, 3).map(([one, other, both]) => `${one} with ${other} in ${whole(both)} rows`);
  return `Co-occurrence of ${n} labels; most often ${most.join(", ")}`;
}

function short(name) {
  const letters = Array.from(name);
  return letters.length > 16 ? `${letters.slice(0, 15).join("")}…` : name;
}

// about how wide a name is drawn: letters of some scripts are as wide as they are tall
function widthOf(name) {
  return Array.from(name).reduce((sum, letter) => sum + (letter.codePointAt(0) > 0x2e7f ? 11 : 6.4), 0);
}
