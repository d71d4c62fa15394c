// The labels of a candidate, one line each, with thresholds that can be moved.

function labelTable() {
  const about = h("p", { class: "note" });
  const box = h("div", { class: "card" }, h("h3", null, "Labels"),
    h("p", { class: "note" }, "Choose a label to see its curves and to move its own threshold."), about);
  const rows = data.names.map((name, at) => ({ name, at }));
  let table = null;
  on("candidate", (c) => {
    if (table) table.element.remove();
    about.textContent = c.intervals ? "The interval of a threshold is where it falls in 95% of resamplings of the validation rows." : "";
    table = sortedTable({ caption: "Labels", columns: labelColumns(c), rows, sort: { at: 1, way: -1 },
      search: (row) => row.name, onrow: (row) => chooseLabel(row.at), rowClass: (row) => (row.at === chosen.label ? "chosen" : null) });
    box.append(table.element);
  });
  on("thresholds", () => table.draw());
  return box;
}

function labelColumns(c) {
  const counts = (row) => confusionAt(c, row.at, c.cuts[row.at]);
  const rate = (title, name) => ({ title, key: (row) => rates(counts(row))[name], cell: (row) => fixed(rates(counts(row))[name]) });
  const count = (title, name, about) => ({ title, about, key: (row) => counts(row)[name], cell: (row) => whole(counts(row)[name]) });
  return [
    { title: "Label", kind: "text", key: (row) => row.name, cell: (row) =>
      h("button", { type: "button", class: "plain", "aria-pressed": String(row.at === chosen.label) }, named(row.name)) },
    { title: "On", about: "Test rows in which it is on", key: (row) => data.on[row.at], cell: (row) => whole(data.on[row.at]) },
    { title: "AP", about: "Average precision", key: (row) => c.ap[row.at], cell: (row) => [meter(c.ap[row.at]), fixed(c.ap[row.at])] },
    rate("Precision", "precision"), rate("Recall", "recall"), rate("F1", "f1"),
    { title: "ACE", about: "Average calibration error", key: (row) => c.ace[row.at], cell: (row) => fixed(c.ace[row.at]) },
    { title: "Threshold", key: (row) => c.thresholds[row.at], cell: (row) => thresholdCell(c, row.at) },
    count("TP", "tp", "True positives"), count("FP", "fp", "False positives"), count("FN", "fn", "False negatives"),
    { title: "Flags", kind: "text", key: (row) => c.flags[row.at].map(({ cause }) => cause).join() || null,
      cell: (row) => c.flags[row.at].map(({ cause, what }) => h("span", { class: "badge warn", title: what }, cause)) },
  ];
}

function thresholdCell(c, label) {
  const value = precise(c.thresholds[label]);
  if (!c.intervals || c.thresholds[label] !== c.own[label]) return value;
  return [value, h("small", { class: "interval" }, intervalOf(c, label))];
}
