// What the thresholds in force do: precision, recall, F1 and the confusion, in numbers.

function readings() {
  const numbers = h("dl", { class: "readings", id: "readings" });
  const spoken = h("p", { class: "hidden", role: "status", id: "spoken" }); // once the slider rests
  const matrix = h("div", { id: "confusion" });
  on("thresholds", (c) => {
    const all = chosen.label === null ? totals(c) : null;
    const counts = all ? all.counts : confusionAt(c, chosen.label, c.cuts[chosen.label]);
    const { precision, recall, f1 } = all || rates(counts);
    const reading = (name, value, id) => h("div", null, h("dt", null, name), h("dd", { "data-reading": id }, value));
    numbers.replaceChildren(reading("Precision", fixed(precision), "precision"), reading("Recall", fixed(recall), "recall"),
      reading(all ? "F1, micro" : "F1", fixed(f1), "f1"), all ? reading("F1, macro", fixed(all.macro), "macro") : "",
      reading(all ? "Labels per row" : "Predicted for", rowsSaid(counts, all), "per-row"));
    matrix.replaceChildren(confusionTable(counts));
    const words = `Threshold ${thresholdNow(c).text}: precision ${fixed(precision)}, recall ${fixed(recall)}, F1 ${fixed(f1)}`;
    later("spoken", () => (spoken.textContent = words), 400);
  });
  return card(null, numbers, matrix, spoken);
}

function rowsSaid({ tp, fp, fn }, all) {
  const show = all ? (value) => fixed(value / data.count, 2) : whole;
  return [show(tp + fp), h("small", null, all ? `${show(tp + fn)} in truth` : `rows; ${show(tp + fn)} have it`)];
}

function confusionTable({ tp, fp, fn, tn }) {
  const total = Math.max(1, tp + fp + fn + tn);
  const cell = (value, kind) => h("td", { class: `num ${kind}`, "data-count": kind }, whole(value), h("small", null, ` ${percent(value / total)}`));
  return h("table", { class: "confusion" }, h("caption", null, "Confusion"),
    h("thead", null, h("tr", null, h("td"), ["predicted", "not predicted"].map((words) => h("th", { scope: "col", class: "num" }, words)))),
    h("tbody", null,
      h("tr", null, h("th", { scope: "row" }, "on"), cell(tp, "tp"), cell(fn, "fn")),
      h("tr", null, h("th", { scope: "row" }, "off"), cell(fp, "fp"), cell(tn, "tn"))));
}
