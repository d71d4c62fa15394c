// The data: how many rows and labels, how long the tail of rare labels is, and what is doubtful about them.

function dataSection() {
  const made = section("data", "Data");
  const known = data.card.inspected, two = h("div", { class: "two" });
  two.append(...[known ? factsCard(known) : null, tailFigure()].filter(Boolean));
  made.append(...[known ? doubtsCard(known) : null, two, known ? partsCard(known) : null].filter(Boolean));
  return made;
}

function factsCard(known) {
  const { picture, features } = known, facts = [["Rows", whole(known.rows)], ["What a row is", known.inputs.join(", ") || "nothing"]];
  if (features) facts.push(["Features", `${whole(features)} ${known.sparse ? "sparse" : "dense"}, ${percent(known.zeros)} zeros`]);
  if (picture) facts.push(["Pictures", `${picture[2]} × ${picture[1]}, ${picture[0] === 1 ? "grey" : "colour"}`]);
  facts.push(["Labels", whole(known.labels)], ["Labels per row", `${fixed(known.cardinality, 2)} on average, ${whole(known.most)} at most`],
    ["Different label sets", whole(known.label_sets)]);
  if (known.unknown) facts.push(["Unknown entries", `${whole(known.unknown)} (${percent(known.unknown / (known.rows * known.labels))})`]);
  if (known.missing_values) facts.push(["Missing values", whole(known.missing_values)]);
  if (known.duplicates !== null) facts.push(["Rows that repeat an earlier one", whole(known.duplicates)]);
  return card("What there is", h("dl", { class: "settings" }, facts.map(([name, words]) => [h("dt", null, name), h("dd", null, words)])));
}

// what may make the figures look better, or worse, than they are
function doubtsCard(known) {
  const doubts = [], many = (count, one, more) => `${whole(count)} ${count === 1 ? one : more}`;
  for (const [what, leaks] of [["input", known.leaks], ["id", known.same_ids]]) {
    for (const [name, count] of Object.entries(leaks).filter(([, rows]) => rows)) {
      const [part, earlier] = name.split(" in "), share = percent(count / known.parts[part].rows);
      doubts.push(`${many(count, "row", "rows")} of ${part} (${share}) with the same ${what} as a row of ${earlier}: figures may be too good.`);
    }
  }
  if (known.conflicts) doubts.push(`${many(known.conflicts, "row repeats", "rows repeat")} an earlier one with other labels: some are wrong.`);
  if (known.unseen.length) doubts.push(`On in test or validation rows, but never in training rows: ${known.unseen.join(", ")}.`);
  if (known.dead.length) doubts.push(`Never on at all: ${known.dead.join(", ")}.`);
  if (known.empty_rows) doubts.push(`${many(known.empty_rows, "row is", "rows are")} empty.`);
  const words = doubts.length ? h("ul", null, doubts.map((each) => h("li", null, each)))
    : h("p", null, "No row of one part repeats one of another, and every label has positives in the training rows.");
  return card("What to mind", words);
}

function partsCard(known) {
  const columns = [["Rows", ({ rows }) => whole(rows)], ["Labels per row", (part) => fixed(part.cardinality, 2)],
    ["Rows without a label", (part) => whole(part.without_labels)], ["Labels never on", (part) => whole(part.dead)],
    [`Labels on in 1 to ${known.rare_below - 1}`, (part) => whole(part.rare)]].map(([title, cell]) => ({ title, cell: ([, part]) => cell(part) }));
  const table = sortedTable({ caption: "Parts", rows: Object.entries(known.parts),
    columns: [{ title: "Part", kind: "text", cell: ([name]) => name }, ...columns] });
  return card("Parts", table.element);
}

// labels from the most frequent on, by training rows where they are known
function tailFigure() {
  const counts = Array.from(data.trainedOn || data.on).sort((a, b) => b - a), part = data.trainedOn ? "training" : "test";
  const top = Math.max(1, Math.ceil(Math.log10(counts[0]))), powers = Array.from({ length: top + 1 }, (_, at) => at);
  const tall = (count) => Math.log10(Math.max(1, count)), n = counts.length, few = counts.filter((count) => count < 10).length;
  const ticks = roundTicks(0, n).filter((tick) => Number.isInteger(tick) && tick <= n);
  const words = `${whole(few)} of ${whole(n)} labels are on in fewer than 10 ${part} rows, the most frequent in ${whole(counts[0])}`;
  return figure("How frequent labels are", plot({ about: words, x: [0, Math.max(n, 1)], y: [0, top], xTicks: ticks, wide: 400,
    yTicks: powers.map((power) => [power, whole(10 ** power)]), xLabel: "labels, the most frequent first", yLabel: `${part} rows (log scale)`,
    layers: [bars(counts.map((count, at) => [at, at + 1, tall(count)]), "one")] }), `${words}.`);
}
