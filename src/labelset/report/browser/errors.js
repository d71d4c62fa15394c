// Rows by how wrong they are, and labels that are likely to be missing.

function errorsSection() {
  const made = section("errors", "Errors", "By the saved rule, over all test rows.");
  const doctor = h("div"), worst = h("div"), missing = h("div");
  made.append(doctor, h("div", { class: "two wide" }, worst, missing));
  on("candidate", (c) => {
    doctor.replaceChildren(...doctorCard(c.raw.doctor));
    worst.replaceChildren(worstCard(c.raw.worst));
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

function judgedChips({ on: listed, extra, more }) {
  const chip = ([label, p, said], kind, words) => h("span", { class: `chip ${kind}`, title: `${words}, probability ${precise(p)}` },
    hidden(`${words}: `), named(data.names[label]), h("small", null, ` ${fixed(p, 2)}`));
  const chips = [...listed.map((each) => (each[2] ? chip(each, "hit", "found") : chip(each, "missed", "missed"))),
    ...extra.map((each) => chip(each, "extra", "false positive"))];
  if (more) chips.push(h("span", { class: "chip quiet" }, `${whole(more)} more`));
  return h("span", { class: "chips" }, chips.length ? chips : h("i", null, "no label"));
}

function worstCard(rows) {
  const place = (row) => chosen.rows.place.get(row);
  const table = sortedTable({ caption: "Rows by how wrong they are", rows, page: 10, sort: { at: 1, way: -1 },
    search: (row) => [rowWords(place(row.row)), ...[...row.on, ...row.extra].map(([label]) => data.names[label])].join(" "), columns: [
      { title: "Row", kind: "text", cell: (row) => [rowCard(place(row.row)), judgedChips(row), why(row.row)] },
      { title: "Surprise", about: "Log loss summed over labels", key: (row) => row.loss, cell: (row) => fixed(row.loss, 1) },
    ] });
  const key = (kind, words) => [h("span", { class: `chip ${kind}` }, words), " "];
  return card("Most wrong", h("p", { class: "note" }, key("hit", "found"), key("missed", "missed"), key("extra", "false positive"),
    "with probabilities; surprise is the log loss of the row."), table.element);
}

function missingCard(entries) {
  const place = (entry) => chosen.rows.place.get(entry[0]);
  const table = sortedTable({ caption: "Likely missing labels", rows: entries, page: 10,
    search: (entry) => `${data.names[entry[1]]} ${rowWords(place(entry))}`, columns: [
      { title: "Row", kind: "text", cell: (entry) => rowCard(place(entry)) },
      { title: "Label", kind: "text", key: (entry) => data.names[entry[1]],
        cell: (entry) => [h("span", { class: "chip extra" }, named(data.names[entry[1]])), why(entry[0], entry[1])] },
      { title: "Probability", key: (entry) => entry[2], cell: (entry) => precise(entry[2]) },
    ] });
  return card("Likely missing labels", h("p", { class: "note" },
    "The model is sure of them, the data say off. Look here for mistakes in the data."), table.element);
}
