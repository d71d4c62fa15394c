// Rows by how wrong they are, which labels are taken for which, and labels that are likely to be missing.

const KINDS_OF_ERROR = [["any", "Any"], ["missed", "Missed"], ["extra", "False positives"]];

function errorsSection() {
  const made = section("errors", "Errors", "Mistakes and confusions follow the thresholds above; the doctor speaks of the saved rule.");
  const doctor = h("div"), worst = worstCard(), pairs = confusionCard(), missing = h("div");
  made.append(doctor, pairs, h("div", { class: "two wide" }, worst, missing));
  on("candidate", (c) => {
    doctor.replaceChildren(...doctorCard(c.raw.doctor));
    missing.replaceChildren(missingCard(c.raw.missing));
  });
  return made;
}

function doctorCard(doctor) {
  if (!doctor) return [];
  const findings = doctor.findings.map((finding) => h("li", null,
    h("b", null, finding.what), " ", h("span", { class: "badge warn" }, finding.cause),
    h("p", null, coded(finding.evidence)), h("p", null, h("i", null, "What to do: "), coded(finding.remedy)),
    finding.labels.length ? labelList(finding.labels) : null));
  const [seen, all] = doctor.rows, part = doctor.on === "valid" ? "validation" : "test";
  const rows = `${seen < all ? `${whole(seen)} of ` : ""}${whole(all)} ${part} rows`;
  return [card(`What the doctor says (${rows})`, h("p", null, doctor.summary),
    findings.length ? h("ul", { class: "findings" }, findings) : h("p", null, "These checks found no problem."))];
}

function confusionCard() {
  const columns = [
    { title: "Missed", kind: "text", key: ([label]) => data.names[label], cell: ([label]) => named(data.names[label]) },
    { title: "Predicted instead", kind: "text", key: ([, other]) => (other === null ? null : data.names[other]),
      cell: ([, other]) => nameOr(other) },
    { title: "Rows", key: ([, , rows]) => rows, cell: ([, , rows]) => shareOfRows(rows) },
  ];
  const table = sortedTable({ caption: "Labels taken for others", rows: [], page: 8, columns,
    search: ([label, other]) => `${data.names[label]} ${other === null ? "nothing" : data.names[other]}` });
  const note = h("p", { class: "note" });
  on("thresholds", (c) => later("confusions", () => {
    note.textContent = `Each missed label is shared over the labels wrongly predicted in its row, or goes to nothing. Of ${ofCarried()}.`;
    table.replace(allConfusions(c));
  }));
  return h("div", { class: "card", id: "confusions" }, h("h3", null, "Labels taken for others"), note, table.element);
}

function worstCard() {
  const wanted = { kind: "any", label: null }, key = (kind, words) => [h("span", { class: `chip ${kind}` }, words), " "];
  const place = (row) => chosen.rows.sample[row.at];
  const table = sortedTable({ caption: "Rows by how wrong they are", rows: [], page: 5, sort: { at: 1, way: -1 },
    search: (row) => [rowWords(place(row)), ...[...row.missed, ...row.extra].map((label) => data.names[label])].join(" "),
    columns: [
      { title: "Row", kind: "text",
        cell: (row) => [rowCard(place(row)), judgedChips(chosen.candidate, row), why(rowNumber(row.at))] },
      { title: "Surprise", about: "Log loss summed over labels", key: (row) => row.loss, cell: (row) => fixed(row.loss, 1) },
    ] });
  const draw = (c) => table.replace(wrongRows(c, wanted));
  const filters = h("div", { class: "buttons before" },
    choice("Kind of mistake", KINDS_OF_ERROR, wanted.kind, (kind) => {
      wanted.kind = kind;
      draw(chosen.candidate);
    }),
    labelInput("error-label", "of the label", (label) => {
      wanted.label = label;
      draw(chosen.candidate);
    }));
  on("thresholds", (c) => later("worst", () => draw(c), 160));
  const keys = [key("hit", "found"), key("missed", "missed"), key("extra", "false positive")];
  return h("div", { class: "card", id: "worst" }, h("h3", null, "Most wrong"),
    h("p", { class: "note" }, keys, "with probabilities; surprise is the log loss of the row."), filters, table.element);
}

function wrongRows(c, { kind, label }) {
  const has = (list) => (label === null ? list.length > 0 : list.includes(label));
  const rows = mistakesOf(c).map((row, at) => ({ at, ...row }))
    .filter((row) => (kind !== "extra" && has(row.missed)) || (kind !== "missed" && has(row.extra)));
  const surprise = surpriseOf(c);
  return rows.map((row) => ({ ...row, loss: surprise[row.at] }));
}

// the labels of a carried row that are found, missed and wrongly predicted, with their probabilities
function judgedChips(c, { at, missed, extra }) {
  const isFound = (label) => chosen.truth[label * sampleSize() + at] === 1 && !missed.includes(label);
  const found = data.names.map((_, label) => label).filter(isFound);
  const chip = (label, kind, words) => {
    const p = probabilityOf(c, at, label);
    return h("span", { class: `chip ${kind}`, title: `${words}, probability ${precise(p)}` },
      hidden(`${words}: `), named(data.names[label]), h("small", null, ` ${fixed(p, 2)}`));
  };
  const chips = [...missed.map((label) => chip(label, "missed", "missed")),
    ...extra.map((label) => chip(label, "extra", "false positive")),
    ...found.map((label) => chip(label, "hit", "found"))];
  const more = chips.length > 16 ? h("span", { class: "chip quiet" }, `${whole(chips.length - 16)} more`) : null;
  return h("span", { class: "chips" }, chips.length ? chips.slice(0, 16) : h("i", null, "no label"), more);
}

function missingCard(entries) {
  const place = (entry) => chosen.rows.place.get(entry[0]);
  const table = sortedTable({ caption: "Likely missing labels", rows: entries, page: 5,
    search: (entry) => `${data.names[entry[1]]} ${rowWords(place(entry))}`, columns: [
      { title: "Row", kind: "text", cell: (entry) => [rowCard(place(entry)),
        h("span", { class: "chip extra" }, named(data.names[entry[1]])), why(entry[0], entry[1])] },
      { title: "Probability", key: (entry) => entry[2], cell: (entry) => precise(entry[2]) },
    ] });
  const lines = () => [["row", "label", "probability"], ...entries.map((entry) => [rowName(place(entry)), data.names[entry[1]], entry[2]])];
  return card("Likely missing labels", h("p", { class: "note" },
    "The model is sure of them, the data say off, whatever the threshold. Look here for mistakes in the data."),
  entries.length ? h("div", { class: "buttons before" }, downloadButton("Download as CSV", "likely-missing.csv", () => csvOf(lines()))) : null,
  table.element);
}

function csvOf(lines) {
  return `${lines.map((cells) => cells.map((cell) => `"${String(cell).replace(/"/g, '""')}"`).join(",")).join("\n")}\n`;
}
