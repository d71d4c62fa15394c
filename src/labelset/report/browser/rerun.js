// Settings and files: all that is needed to run it again.

function rerunSection() {
  const made = section("rerun", "Running it again");
  const about = h("div");
  made.append(h("div", { class: "two" }, h("div", null, settingsCard(), filesCard()), about));
  on("candidate", (c) => about.replaceChildren(detailsCard(["Settings of ", named(c.raw.key)], settingsList(c.raw.about))));
  return made;
}

// long lists of settings are there for whoever asks
function detailsCard(title, ...children) {
  return h("div", { class: "card" }, h("details", { class: "how" }, h("summary", null, title), children));
}

// [name, words] of everything within: nested names joined by dots
function leavesOf(value, name = "") {
  const plain = (each) => each === null || typeof each !== "object";
  if (plain(value)) return [[name, value === null ? "none" : String(value)]];
  if (Array.isArray(value)) return [[name, value.every(plain) ? value.join(", ") : JSON.stringify(value)]];
  return Object.entries(value).flatMap(([key, each]) => leavesOf(each, name ? `${name}.${key}` : key));
}

function settingsList(settings) {
  const leaves = leavesOf(settings || {});
  if (!leaves.length) return h("p", { class: "note" }, "None were saved.");
  return h("dl", { class: "settings" }, leaves.map(([name, words]) => [h("dt", null, named(name)), h("dd", null, h("code", null, words))]));
}

function settingsCard() {
  const { command, ...rest } = data.settings;
  const asked = typeof command === "string" ? [h("pre", { class: "command" }, command.replace(/ --/g, " \\\n  --")),
    h("div", { class: "buttons" }, copyButton("Copy the command", "The command", () => command))] : null;
  return card("To run it again", asked, h("details", { class: "how" }, h("summary", null, "Plan, data and versions"), settingsList(rest)));
}

// a relative path and nothing else: no scheme and no host can be made of escaped parts
function relative(path) {
  return `./${path.split("/").map(encodeURIComponent).join("/")}`;
}

function filesCard() {
  const entries = Object.entries(data.files);
  if (!entries.length) return null;
  return card("Files", h("ul", { class: "files" }, entries.map(([name, path]) =>
    h("li", null, named(name), ": ", h("a", { href: relative(path) }, named(path, "path"))))));
}
