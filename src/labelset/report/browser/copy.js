// Copying: by the clipboard where the browser lets us, else from a box that is selected.

async function copied(box) {
  box.hidden = false;
  box.focus();
  box.select();
  try {
    await navigator.clipboard.writeText(box.value);
    return true;
  } catch {
    return document.execCommand("copy"); // a page opened from disk has no clipboard in some browsers
  }
}

// a button that copies what `text` gives and says so; what to do `next` comes below
function copyButton(words, about, text, next) {
  const box = h("textarea", { readonly: true, rows: 3, hidden: true, "aria-label": about });
  const said = h("span", { class: "said", role: "status" }), more = h("div", { class: "next" });
  const button = h("button", { type: "button", class: "strong", onclick: async () => {
    box.value = text();
    const done = await copied(box);
    said.textContent = done ? "Copied." : "Copy it from the box.";
    if (done) button.focus();
    if (next) more.replaceChildren(...next());
  } }, words);
  return [button, said, box, more];
}

// a button that saves what `text` gives as a file
function downloadButton(words, name, text) {
  return h("button", { type: "button", onclick: () => {
    const address = URL.createObjectURL(new Blob([text()]));
    h("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  } }, words);
}

// once it was asked for, the rule and its commands follow candidate and slider
function copyThresholds() {
  const rule = () => JSON.stringify(ruleOf(chosen.candidate));
  const commands = h("pre", { id: "commands" });
  const [button, said, box, more] = copyButton("Copy thresholds as JSON", "The thresholds as JSON", rule,
    () => [h("p", { class: "note" }, "Save it as ", h("code", null, "rule.json"), ". Then, RUN being the folder of this report:"), commands]);
  on("thresholds", (c) => {
    if (!box.hidden && box.value !== rule()) said.textContent = "Changed since it was copied: copy it again.";
    box.value = rule();
    commands.textContent = commandsOf(c.raw).join("\n");
  });
  return [button, downloadButton("Download rule.json", "rule.json", rule), said, box, more];
}

// the recommended candidate is saved with its map; the others must be given theirs first
function commandsOf(raw) {
  const run = raw.folder ? `RUN/${raw.folder}` : "RUN";
  const map = raw.folder && raw.key !== data.best && raw.map ? [`labelset calibrate ${run} --map ${raw.map}`] : [];
  return [...map, `labelset decide ${run} --from rule.json`];
}
