// Why the recommended candidate gives a row its labels, and what weighs most for a label.

function isExplained() {
  return chosen.candidate && chosen.candidate.raw.key === data.best;
}

// what is added to a score, each with its sign: blue for the label, orange against it
function termChips(terms, rest) {
  const chip = ([name, value]) => h("span", { class: `chip ${value >= 0 ? "hit" : "extra"}` }, named(name), h("small", null, ` ${signed(value, 2)}`));
  const more = rest ? [h("span", { class: "chip quiet" }, "all others ", h("small", null, signed(rest, 2)))] : [];
  return h("span", { class: "chips" }, terms.map(chip), more);
}

// the parts of a picture in the same colours, the strongest the fullest
function heatPicture(heat, label) {
  const high = heat.length, wide = heat[0].length, most = Math.max(1e-12, ...heat.flat().map(Math.abs));
  const words = `Parts of the picture for (blue) and against (orange) ${data.names[label]}`;
  const canvas = h("canvas", { width: wide, height: high, role: "img", "aria-label": words });
  const image = new ImageData(wide, high);
  heat.flat().forEach((value, at) => {
    image.data.set([...(value >= 0 ? [0, 103, 165] : [179, 71, 0]), Math.round((255 * Math.abs(value)) / most)], 4 * at);
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

function reasonLine({ label, score, base, terms, rest, members, heat }) {
  const sum = h("small", null, ` score ${fixed(score, 2)} = ${fixed(base, 2)} (base) `);
  return h("li", null, named(data.names[label]), sum, heat ? heatPicture(heat, label) : termChips(terms, rest),
    members.length ? h("p", { class: "note" }, "By the models of the blend: ", termChips(members, 0)) : null);
}

// the reasons of a row for one label, or for all that are known; closed until it is opened
function why(row, label) {
  const known = isExplained() ? chosen.reasons.rows[row] || [] : [];
  const shown = label === undefined ? known : known.filter((reason) => reason.label === label);
  if (!shown.length) return null;
  return h("details", { class: "why" }, h("summary", null, "Why?"), h("ul", { class: "reasons" }, shown.map(reasonLine)));
}

function weightsCard() {
  const box = h("div", { id: "weights" });
  const line = ({ kind, member, terms }) => h("li", null, member ? named(member) : null, h("small", null, ` ${kind} `), termChips(terms, 0));
  const draw = () => {
    const found = isExplained() && chosen.label !== null ? chosen.reasons.weights[chosen.label] || [] : [];
    const title = ["What weighs most for ", chosen.label === null ? "" : named(data.names[chosen.label])];
    box.replaceChildren(...(found.length ? [card(title, h("ul", { class: "reasons" }, found.map(line)))] : []));
  };
  on("candidate", draw);
  on("label", draw);
  return box;
}
