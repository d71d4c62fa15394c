// The test rows that the page carries: names, texts, pictures and probabilities.

const LONG_TEXT = 150; // characters: about what four short lines hold

async function loadRows() {
  const { rows } = data;
  const held = await unpackAll({ shown: rows.shown, sample: rows.sample, ids: rows.ids, texts: rows.texts });
  const more = await unpackAll({ on: data.on, known: data.known, truth: data.truth, trained: data.card.trained_on });
  data.trainedOn = more.trained;
  data.on = more.on;
  data.known = more.known;
  chosen.truth = more.truth;
  chosen.reasons = await unpack(data.reasons);
  chosen.rows = { ...held, place: new Map(Array.from(held.shown, (row, at) => [row, at])) };
  chosen.rows.pictures = new Map();
  for (const { size, at, data: packed } of rows.pictures || []) { // some larger than others
    const pictures = await unpackAll({ at, pixels: packed });
    pictures.at.forEach((place, picture) => chosen.rows.pictures.set(place, { size, pixels: pictures.pixels, picture }));
  }
}

function sampleSize() {
  return chosen.rows.sample.length;
}

// row of the sample -> probability of a label, the middle of what its code allows
function probabilitiesOf(c, label) {
  const own = c.own[label], split = cutOfOwn(c, label); // codes from here on have passed the label's own threshold
  const edge = (k) => {
    if (k < 0) return 0;
    if (k + 1 === split) return Math.min(own, 1);
    const grid = k + 1 > split ? k - 1 : k;
    return grid < data.grid.length ? data.grid[grid] : 1;
  };
  return (row) => {
    const at = label * sampleSize() + row, code = c.codes[at];
    const low = edge(code - 1), high = edge(code);
    return low + (high - low) * (c.fine ? (c.fine[at] + 0.5) / 256 : 0.5);
  };
}

function probabilityOf(c, row, label) {
  return probabilitiesOf(c, label)(row);
}

function rowName(place) {
  const { ids, shown } = chosen.rows;
  return ids ? ids[place] : String(shown[place]);
}

// what a search looks through
function rowWords(place) {
  const { texts } = chosen.rows;
  return texts ? `${rowName(place)} ${texts[place]}` : rowName(place);
}

// what a row is: its name, its picture and its text, where there are any
function rowCard(place) {
  const { texts } = chosen.rows;
  return h("div", { class: "row" }, picture(place),
    h("div", null, named(rowName(place), "rowname"), texts ? rowText(texts[place]) : null));
}

// a long text shows its beginning until it is opened
function rowText(text) {
  const whole = h("p", { dir: "auto" }, text);
  return text.length > LONG_TEXT ? h("details", null, h("summary", null, whole)) : whole;
}

// a picture, several times as large once it is pressed
function picture(place) {
  const held = chosen.rows.pictures.get(place);
  if (!held) return null;
  const [channels, high, wide] = held.size, size = high * wide, first = held.picture * channels * size;
  const canvas = h("canvas", { width: wide, height: high });
  const image = new ImageData(wide, high);
  for (let pixel = 0; pixel < size; pixel++) {
    for (let k = 0; k < 3; k++) image.data[4 * pixel + k] = held.pixels[first + (channels === 3 ? k : 0) * size + pixel];
    image.data[4 * pixel + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  const button = h("button", { type: "button", class: "picture", "aria-pressed": "false",
    "aria-label": `Picture of row ${rowName(place)}, enlarge`, onclick: (event) => {
      event.stopPropagation();
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
    } }, canvas);
  return button;
}
