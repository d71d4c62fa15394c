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
  return card(null, h("div", { class: "two" },
    own.length ? figure(["Training loss of ", named(raw.key)], historyPlot([own], "loss", "Training loss by epoch"), null) : null,
    shown.length ? figure("Validation", historyPlot(shown.map(([, points]) => points), "validation", "Validation metric by epoch, for each candidate"), null, keys) : null));
}

function pointsOf(raw, name) {
  return raw.history.filter((row) => row && Number.isFinite(row.epoch) && Number.isFinite(row[name])).map((row) => [row.epoch, row[name]]);
}

function historyPlot(lists, yLabel, about) {
  const all = lists.flat(), xs = all.map(([x]) => x), ys = all.map(([, y]) => y);
  const x = [Math.min(...xs), Math.max(Math.min(...xs) + 1, ...xs)];
  const yTicks = roundTicks(Math.min(...ys), Math.max(...ys));
  const xTicks = roundTicks(...x).filter((tick) => Number.isInteger(tick) && tick >= x[0] && tick <= x[1]);
  return plot({ about, x, y: ends(yTicks), xTicks, yTicks, xLabel: "epoch", yLabel,
    layers: lists.map((points, at) => line(points, SERIES[at])), wide: 400 });
}

function settingsList(settings) {
  const entries = Object.entries(settings || {});
  if (!entries.length) return h("p", { class: "note" }, "None were saved.");
  return h("dl", { class: "settings" }, entries.map(([name, value]) => [h("dt", null, named(name)),
    h("dd", null, typeof value === "object" && value !== null ? h("pre", null, JSON.stringify(value, null, 1)) : h("code", null, String(value)))]));
}

function settingsCard() {
  return card("To run it again", settingsList(data.settings));
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
