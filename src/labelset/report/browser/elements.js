// Elements and numbers. Data only ever becomes text nodes and attribute values, never markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function s(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function hidden(text) {
  return h("span", { class: "hidden" }, text);
}

// a label, a key or a file name, which may be in any script
function named(text, kind) {
  return h("bdi", { class: kind || "name" }, text);
}

// text in which `backticks` mark what is to be typed
function coded(text) {
  return text.split("`").map((part, at) => (at % 2 ? h("code", null, part) : part));
}

function fixed(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return value.toFixed(digits).replace(/^-/, "−");
}

function signed(value, digits = 3) {
  return (value >= 0 ? "+" : "") + fixed(value, digits);
}

function whole(value) {
  return Math.round(value).toLocaleString("en");
}

function percent(value) {
  return Number.isFinite(value) ? `${(100 * value).toFixed(value < 0.1 ? 1 : 0)}%` : "–";
}

// thresholds and probabilities: as many digits as tell neighbours apart
function precise(value) {
  if (value === null || Number.isNaN(value)) return "–";
  if (value > 1) return "never";
  const margin = Math.min(value, 1 - value);
  const text = value.toFixed(margin >= 0.0995 ? 3 : margin >= 0.00995 ? 4 : margin >= 0.00009 ? 5 : 6);
  return text.replace(/(\.\d{3}\d*?)0+$/, "$1");
}

function section(id, title, ...lead) {
  const heading = h("h2", { id: `${id}-title` }, title);
  const made = h("section", { id, "aria-labelledby": `${id}-title` }, heading);
  if (lead.length) made.append(h("p", { class: "lead" }, ...lead));
  return made;
}

function card(title, ...children) {
  return h("div", { class: "card" }, title ? h("h3", null, title) : null, ...children);
}

// one of several: buttons that behave as radio buttons
function choice(label, options, chosen, pick) {
  const group = h("div", { class: "choice", role: "group", "aria-label": label });
  const buttons = options.map(([value, text]) =>
    h("button", {
      type: "button",
      "aria-pressed": String(value === chosen),
      onclick: () => {
        buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(options[at][0] === value)));
        pick(value);
      },
    }, text));
  group.append(...buttons);
  return group;
}

// a field that takes the name of a label and offers those that hold what is typed; null where it is empty
function labelInput(id, words, pick) {
  const list = h("datalist", { id: `${id}-names` });
  const offer = (text) => {
    const near = data.names.filter((name) => name.toLowerCase().includes(text.toLowerCase())).slice(0, 20);
    list.replaceChildren(...near.map((name) => h("option", { value: name })));
  };
  const input = h("input", { id, list: `${id}-names`, autocomplete: "off", placeholder: "its name", oninput: () => {
    offer(input.value);
    const label = data.names.indexOf(input.value);
    if (label >= 0 || !input.value) pick(label < 0 ? null : label);
  } });
  offer("");
  return h("div", { class: "picker" }, h("label", { for: id }, words), input, list);
}
