// Loss curves, settings, files: all that is needed to run it again.

const SERIES = ["one", "two", "three", "four", "five", "six"];

function rerunSection() {
  const made = section("rerun", "Training and rerunning");
  const curves = h("div"), about = h("div");
  made.append(curves, h("div", { class: "two" }, about, h("div", null, settingsCard(), filesCard())));
  on("candidate", (c) => {
    curves.replaceChildren(historyCard(c.raw));
    about.replaceChildren(card(["Settings of ", named(c.raw.key)], settingsList(c.raw.about)));
  });
  return made;
}

function historyCard(raw) {
  const own = pointsOf(raw, "loss");
  const others = data.candidates.map((each) => [each.key, pointsOf(each, "valid")]).filter(([, points]) => points.length);
  if (!own.length && !others.length) return card("Loss curves", h("p", null, "This candidate keeps no history of its training."));
  others.sort(([a], [b]) => (b === raw.key) - (a === raw.key));
  const shown = others.slice(0, SERIES.length);
  const keys = shown.map(([key], at) => [SERIES[at], key]);
  const about = `Validation by epoch: ${shown.map(([key, points]) => `${key} ${spanWords(points)}`).join("; ")}`;
  return card(null, h("div", { class: "two" },
    own.length ? figure(["Training loss of ", named(raw.key)],
      historyPlot([own], "loss", `Training loss by epoch, ${spanWords(own)}`), null) : null,
    shown.length ? figure("Validation", historyPlot(shown.map(([, points]) => points), "validation", about), null, keys) : null));
}

function pointsOf(raw, name) {
  return raw.history.filter((row) => row && Number.isFinite(row.epoch) && Number.isFinite(row[name])).map((row) => [row.epoch, row[name]]);
}

function spanWords(points) {
  const [first, last] = ends(points);
  return `from ${Number(first[1].toPrecision(4))} to ${Number(last[1].toPrecision(4))}`;
}

function historyPlot(lists, yLabel, about) {
  const all = lists.flat(), xs = all.map(([x]) => x), ys = all.map(([, y]) => y);
  const x = [Math.min(...xs), Math.max(Math.min(...xs) + 1, ...xs)];
  const yTicks = roundTicks(Math.min(...ys), Math.max(...ys));
  const xTicks = roundTicks(...x).filter((tick) => Number.isInteger(tick) && tick >= x[0] && tick <= x[1]);
  return plot({ about, x, y: ends(yTicks), xTicks, yTicks, xLabel: "epoch", yLabel,
    layers: lists.map((points, at) => line(points, SERIES[at])), wide: 400 });
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
  return card("To run it again", asked, settingsList(rest));
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
