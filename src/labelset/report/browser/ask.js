// Queries: the rows that most probably have these labels and not those.

const SHOWN = [10, 25, 50, 100];

function askSection() {
  const made = section("query", "Query", "Rows that most probably have some labels and not others. ",
    h("code", null, "&"), " and, ", h("code", null, "|"), " or, ", h("code", null, "!"), " not, brackets, quotes around names with spaces.");
  const example = exampleQuery();
  const input = h("input", { id: "query-text", type: "text", value: example, "aria-label": "Query",
    spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
  const out = h("div", { "aria-live": "polite", id: "answers" }), asked = { best: SHOWN[0] };
  const answer = () => out.replaceChildren(...answerOf(chosen.candidate, input.value, asked.best));
  const form = h("form", { class: "ask", onsubmit: (event) => {
    event.preventDefault();
    answer();
  } }, input, h("button", { type: "submit", class: "strong" }, "Rank"), choice("Rows", SHOWN.map((k) => [k, String(k)]), asked.best, (k) => {
    asked.best = k;
    answer();
  }));
  input.addEventListener("input", () => later("query", answer));
  on("candidate", () => later("query", answer));
  made.append(h("div", { class: "card" }, form, out));
  return made;
}

function quoted(name) {
  return name && [...name].every((character) => BARE.test(character)) ? name : `"${name.replace(/[\\"]/g, "\\$&")}"`;
}

// two labels that come together, and not a third that some of these rows have and some have not
function exampleQuery() {
  const labels = frequentLabels(), size = sampleSize(), n = labels.length;
  const lines = labels.map((label) => chosen.truth.slice(label * size, (label + 1) * size).map((value) => value & 1));
  const both = pairCounts(lines);
  let pair = [0, 1];
  for (let i = 0; i < n; i++) {
    for (let j = i + 1; j < n; j++) if (both[i * n + j] > both[pair[0] * n + pair[1]]) pair = [i, j];
  }
  const third = n < 3 ? -1 : thirdLabel(lines, pair);
  const name = (at) => (labels[at] === undefined ? null : quoted(data.names[labels[at]]));
  return [name(pair[0]), name(pair[1]), third < 0 ? null : `!${name(third)}`].filter(Boolean).join(" & ");
}

function thirdLabel(lines, [i, j]) {
  const together = lines[i].map((value, row) => value & lines[j][row]);
  const total = together.reduce((sum, value) => sum + value, 0);
  const even = lines.map((line, at) => {
    const share = line.reduce((sum, value, row) => sum + (value & together[row]), 0);
    return at === i || at === j ? -1 : Math.min(share, total - share);
  });
  return even.indexOf(Math.max(...even));
}

function findLabel(token) {
  const label = data.names.indexOf(token.text);
  if (label >= 0) return label;
  const like = data.names.filter((name) => name.toLowerCase().includes(token.text.toLowerCase())).slice(0, 3);
  throw new QueryError(`no label is called ${token.text}${like.length ? `; there is ${like.join(", ")}` : ""}`, token.at);
}

// rows of the sample, best first; equal ones in their own order
function rankRows(c, diagram) {
  const each = diagram.labels.map((label) => probabilitiesOf(c, label));
  const scores = Array.from({ length: sampleSize() }, (_, row) => weigh(diagram, each.map((probability) => probability(row))));
  const order = Array.from(scores.keys()).sort((a, b) => scores[b] - scores[a] || a - b);
  return { order, scores };
}

function answerOf(c, text, best) {
  if (!text.trim()) return [];
  let diagram;
  try {
    diagram = diagramOf(parseQuery(text), findLabel);
  } catch (error) {
    if (!(error instanceof QueryError)) throw error;
    return [h("p", { class: "problem" }, error.message)];
  }
  if (diagram.root < 2) return [h("p", { class: "problem" }, diagram.root ? "This holds for every row." : "This can never hold.")];
  const { order, scores } = rankRows(c, diagram);
  const rows = order.slice(0, best).map((row) => ({ row, score: scores[row], right: truthOf(diagram, row) }));
  return [expectation(rows), answerRows(rows)];
}

function truthOf(diagram, row) {
  return holds(diagram, diagram.labels.map((label) => chosen.truth[label * sampleSize() + row]));
}

function expectation(rows) {
  const { mean, low, high } = expectedRight(rows.map((row) => row.score));
  const right = rows.filter((row) => row.right === true).length, unknown = rows.filter((row) => row.right === null).length;
  return h("p", { class: "statement" },
    `Expected precision ${percent(mean / rows.length)}: ${fixed(mean, 1)} of the first ${rows.length} rows right, `,
    `${low} to ${high} with probability 0.95. `,
    h("span", { class: "muted" }, `Actually correct: ${right}`, unknown ? `, ${unknown} unknown` : "", "."));
}

function answerRows(rows) {
  const words = { true: ["hit", "right"], false: ["extra", "wrong"], null: ["quiet", "unknown"] };
  const place = ({ row }) => chosen.rows.sample[row];
  return sortedTable({ caption: "Ranked rows", rows, page: 100, columns: [
    { title: "Row", kind: "text", cell: (row) => rowCard(place(row)) },
    { title: "Probability", cell: (row) => precise(row.score) },
    { title: "Actual", kind: "text", cell: (row) => h("span", { class: `chip ${words[row.right][0]}` }, words[row.right][1]) },
  ] }).element;
}
