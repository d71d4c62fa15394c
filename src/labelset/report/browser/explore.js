// One candidate: thresholds to move, and what they do to precision, recall and F1.

function exploreSection() {
  const made = section("explore", "Labels and thresholds", "A label is predicted where its probability reaches its threshold. ",
    `Move the slider: the numbers, the points on the curves, the labels, mistakes${ALONE ? "" : ", the two compared"} and label sets `,
    `follow. Numbers are of all ${whole(data.count)} test rows. Curves and reliability are the same for every threshold.`);
  const about = h("p", { class: "lead" }), figures = h("div", { class: "figures" });
  const panel = h("div", { id: "panel" }, h("div", { class: "panel" }, controls(), readings()), figures);
  made.append(about, h("div", { class: "card slim" }, labelPicker(), allTogether()), h("div", { id: "all-labels" }, panel), labelTable());
  on("candidate", (c) => about.replaceChildren(...described(c)));
  on("label", (c) => drawFigures(c, figures));
  on("thresholds", (c) => drawThreshold(c, figures));
  return made;
}

// what the thresholds of all labels do together, whichever label is open
function allTogether() {
  const line = h("p", { class: "note", id: "together" });
  on("thresholds", (c) => {
    const { precision, recall, f1, macro } = totals(c), words = (micro, mean) => `micro F1 ${fixed(micro)}, macro F1 ${fixed(mean)}`;
    const saved = c.moves.size ? ` As saved: ${words(c.raw.decided["f1-micro"], c.raw.decided["f1-macro"])}.` : "";
    line.textContent = `All labels together: precision ${fixed(precision)}, recall ${fixed(recall)}, ${words(f1, macro)}.${saved}`;
  });
  return line;
}

function described(c) {
  const { raw } = c;
  const map = raw.map ? ["Probabilities by the map ", h("b", null, raw.map)] : ["Probabilities by the loss's own link"];
  const rule = raw.exact
    ? ["; thresholds by the rule ", h("b", null, raw.rule), "."]
    : ["; decided by the rule ", h("b", null, raw.rule), ", which is no threshold: micro F1 ",
      fixed(raw.decided["f1-micro"]), ", macro F1 ", fixed(raw.decided["f1-macro"]), ". The slider starts at 0.5 instead."];
  return [named(raw.key), ": ", ...map, ...rule];
}

function controls() {
  const value = h("output", { id: "threshold-value", for: "threshold" });
  const slider = h("input", { id: "threshold", type: "range", min: 0, max: data.grid.length - 1, step: 1,
    oninput: (event) => moveTo(Number(event.target.value)) });
  const scope = h("label", { for: "threshold" });
  const back = h("button", { type: "button", onclick: () => chooseLabel(null) }, "All labels");
  const saved = h("p", { class: "note", id: "saved" });
  on("thresholds", (c) => {
    const { text, at } = thresholdNow(c);
    slider.value = at;
    slider.setAttribute("aria-valuetext", text);
    value.textContent = text;
    scope.replaceChildren("Threshold for ", chosen.label === null ? "all labels" : named(data.names[chosen.label]));
    back.hidden = chosen.label === null;
    saved.textContent = savedWords(c);
  });
  return card(null, h("div", { class: "threshold" }, scope, value), slider,
    h("div", { class: "ends", "aria-hidden": "true" }, h("span", null, "0"), h("span", null, "0.5"), h("span", null, "1")),
    saved, h("div", { class: "buttons" }, back,
      h("button", { type: "button", onclick: () => reset() }, "As saved"),
      h("button", { type: "button", onclick: () => moveTo(gridNear(0.5)) }, "0.5"), copyThresholds()));
}

function moveTo(at) {
  takeGrid(chosen.candidate, at, chosen.label);
  changed("thresholds");
}

function reset() {
  takeOwn(chosen.candidate);
  changed("thresholds");
}

// one number where all labels share it
function thresholdNow(c) {
  if (chosen.label !== null) {
    const each = c.thresholds[chosen.label];
    return { text: precise(each), at: gridNear(Math.min(each, 1)) };
  }
  const sorted = Float64Array.from(c.thresholds).sort();
  const middle = sorted[sorted.length >> 1], last = sorted[sorted.length - 1];
  const same = sorted[0] === last;
  const text = same ? precise(middle) : `${precise(sorted[0])} to ${precise(last)}, one per label`;
  return { text, at: gridNear(Math.min(middle, 1)) };
}

// the saved threshold, and how sure it is, where one number says it
function savedWords(c) {
  const label = chosen.label === null ? 0 : chosen.label;
  if (chosen.label === null && c.own.some((each) => each !== c.own[0])) return "Saved: one threshold per label.";
  const ends = intervalOf(c, label);
  return `Saved: ${precise(c.own[label])}${ends ? `, ${ends} in 95% of resamplings of the validation rows` : ""}.`;
}

function intervalOf(c, label) {
  if (!c.intervals) return null;
  const [low, high] = [c.intervals[2 * label], c.intervals[2 * label + 1]];
  return `${precise(Math.min(low, 1))} to ${precise(Math.min(high, 1))}`;
}

function labelPicker() {
  const made = labelInput("label-picker", "Open the label", (label) => {
    if (label !== chosen.label) chooseLabel(label);
  });
  on("label", () => {
    const input = made.querySelector("input");
    if (input !== document.activeElement) input.value = chosen.label === null ? "" : data.names[chosen.label];
  });
  return made;
}
