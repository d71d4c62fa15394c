// The labels of a candidate, those first that need attention; a label opens in place.

function labelTable() {
  const about = h("p", { class: "note" }), attention = h("p", { id: "attention" });
  const again = h("button", { type: "button", onclick: () => table.reorder() }, "Those that need attention first");
  const box = h("div", { class: "card" }, h("h3", null, "Labels"), attention,
    h("p", { class: "note" }, "Press a label to open it: its threshold, curves, mistakes, and what it is taken for."), about,
    h("div", { class: "buttons before" }, again));
  const rows = data.names.map((name, at) => ({ name, at })), opened = openedLabel();
  let table = null, shown = null;
  on("candidate", (c) => {
    if (table) table.element.remove();
    about.textContent = c.intervals ? "The interval of a threshold is where it falls in 95% of resamplings of the validation rows." : "";
    table = sortedTable({ caption: "Labels", columns: labelColumns(c), rows, first: byAttention(c), page: 15,
      search: (row) => row.name, onrow: (row) => chooseLabel(row.at === chosen.label ? null : row.at),
      detail: (row) => (row.at === chosen.label ? opened : null),
      rowClass: (row) => (row.at === chosen.label ? "chosen" : null) });
    box.append(table.element);
  });
  on("label", () => {
    const row = chosen.label === null ? null : rows[chosen.label];
    standing(() => openIn(table, row, opened), () => table.lineOf(rows[chosen.label ?? shown]));
    shown = chosen.label;
  });
  on("thresholds", (c) => {
    still(document.getElementById("panel"), table.refresh); // lines above an opened label may grow and shrink
    later("attention", () => attention.replaceChildren(...attentionWords(c)));
  });
  addEventListener("resize", () => fitted(table, opened));
  return box;
}

// the panel of all labels moves into the opened line, and back
function openIn(table, row, opened) {
  const panel = document.getElementById("panel");
  if (row === null) {
    document.getElementById("all-labels").append(panel);
    table.draw();
    return;
  }
  opened.prepend(panel);
  table.show(row);
  fitted(table, opened);
}

// as wide as what is seen of a table that scrolls sideways
function fitted(table, opened) {
  opened.style.width = `${table.scroll.clientWidth}px`;
}

// an element that a person holds the pointer over stays under it
function still(element, work) {
  const before = element.getBoundingClientRect().top;
  work();
  scrollBy({ top: element.getBoundingClientRect().top - before, behavior: "instant" });
}

// whatever opens or closes, the line that a person looks at stays where it is; else it comes into view
function standing(work, line) {
  const seen = (element) => element && element.isConnected && element.getBoundingClientRect().top;
  const before = seen(line());
  work();
  const element = line(), now = seen(element);
  if (now === undefined || now === false || before === undefined) return;
  const inView = before !== false && before > 0 && before < innerHeight;
  if (inView) scrollBy({ top: now - before, behavior: "instant" });
  else if (chosen.label !== null) element.scrollIntoView({ block: "start", behavior: "instant" });
}

function byAttention(c) {
  const weight = new Map(data.names.map((_, at) => {
    const { fp, fn } = confusionAt(c, at, c.cuts[at]);
    return [at, (worries(c, at).length ? 1e9 : 0) + fp + fn];
  }));
  return (one, other) => weight.get(other.at) - weight.get(one.at);
}

function attentionWords(c) {
  const found = data.names.map((_, at) => at).filter((at) => worries(c, at).length), names = data.names.length;
  if (!found.length) return ["No label stands out as bad; those with most mistakes come first."];
  const rare = found.filter((at) => data.on[at] < 10).length;
  return [h("b", null, `${whole(found.length)} of ${whole(names)} labels need attention`), " at these thresholds; they come first.",
    rare ? ` ${whole(rare)} of them ${rare === 1 ? "has" : "have"} fewer than 10 test rows, so that their figures are rough.` : ""];
}

function labelColumns(c) {
  const counts = (row) => confusionAt(c, row.at, c.cuts[row.at]);
  const of = (title, about, value, shown) => ({ title, about, key: value, cell: (row) => shown(value(row)) });
  const rate = (title, name, about) => of(title, about, (row) => rates(counts(row))[name], (value) => fixed(value));
  const count = (title, name, about) => of(title, about, (row) => counts(row)[name], whole);
  return [
    { title: "Label", kind: "text", key: (row) => row.name, cell: (row) => labelCell(c, row) },
    { title: "On", about: "Test rows in which it is on", key: (row) => data.on[row.at], cell: (row) => whole(data.on[row.at]) },
    { title: "AP", about: "Average precision: how well its rows are ranked before all others; 1 is best",
      key: (row) => c.ap[row.at], cell: (row) => [meter(c.ap[row.at]), fixed(c.ap[row.at])] },
    rate("Precision", "precision", "Of the rows for which it is predicted, the share that has it"),
    rate("Recall", "recall", "Of the rows that have it, the share for which it is predicted"),
    rate("F1", "f1", "Harmonic mean of precision and recall"),
    { title: "ECE", about: "Expected calibration error: how far probabilities are from observed frequencies, on average over rows",
      key: (row) => c.ece[row.at], cell: (row) => fixed(c.ece[row.at]) },
    { title: "ACE", about: "Average calibration error: the same over bins of probability, however few rows a bin holds; rough for rare labels",
      key: (row) => c.ace[row.at], cell: (row) => fixed(c.ace[row.at]) },
    { title: "Threshold", about: "The probability from which on it is predicted",
      key: (row) => c.thresholds[row.at], cell: (row) => thresholdCell(c, row.at) },
    count("TP", "tp", "True positives: on and predicted"), count("FP", "fp", "False positives: predicted, but off"),
    count("FN", "fn", "False negatives: on, but not predicted"),
  ];
}

function labelCell(c, { name, at }) {
  const open = at === chosen.label, found = worries(c, at);
  return [h("button", { type: "button", class: "plain", "aria-expanded": String(open) }, named(name)),
    found.length ? h("div", { class: "worries" }, found.map((words) => h("span", { class: "badge warn" }, words))) : null];
}

function thresholdCell(c, label) {
  const value = precise(c.thresholds[label]);
  if (!c.intervals || c.thresholds[label] !== c.own[label]) return value;
  return [value, h("small", { class: "interval" }, intervalOf(c, label))];
}
