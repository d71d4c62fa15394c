// The page, put together.

function bar() {
  const links = [["answer", "Answer"], ["explore", "Labels"], ["errors", "Errors"], ["compare", "Compare"], ["sets", "Label sets"],
    ["query", "Query"], ["data", "Data"], ["cost", "Cost"], ["rerun", "Rerun"]].filter(([id]) => document.getElementById(id));
  const select = h("select", { id: "candidate", onchange: (event) => chooseCandidate(event.target.value) },
    data.candidates.map((raw) => h("option", { value: raw.key, selected: raw.key === data.best }, raw.key)));
  return h("nav", { "aria-label": "Sections" },
    h("ul", null, links.map(([id, text]) => h("li", null, h("a", { href: `#${id}` }, text)))),
    h("div", { class: "tools" }, h("label", { for: "candidate" }, "Candidate"), select, themeButton()));
}

function themeButton() {
  const preferred = () => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const dark = () => (document.documentElement.dataset.theme || preferred()) === "dark";
  const button = h("button", { type: "button", id: "theme", onclick: () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    say();
  } });
  const say = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} colours`);
  };
  say();
  return button;
}

function facts() {
  const labels = data.names.length, candidates = data.candidates.length;
  const count = (n, one, many) => `${whole(n)} ${n === 1 ? one : many}`;
  const words = [count(candidates, "candidate", "candidates"), count(labels, "label", "labels"), count(data.count, "test row", "test rows")];
  return h("p", { class: "facts" }, words.join(" · "));
}

function notes() {
  return data.notes.length ? h("ul", { class: "notes" }, data.notes.map((note) => h("li", null, note))) : null;
}

async function start() {
  await loadRows();
  const answer = [facts(), becauseList(await candidateOf(data.best)), answerTable(), forestCard(), howCard(), notes()];
  document.getElementById("answer").append(...answer.filter(Boolean));
  const sections = [exploreSection(), errorsSection(), compareSection(), setsSection(), askSection(), dataSection(), costSection(), rerunSection()];
  document.getElementById("main").append(...sections.filter(Boolean));
  document.getElementById("bar").replaceWith(bar());
  await readView();
  watchView();
  requestAnimationFrame(() => document.getElementById(chosen.place || "")?.scrollIntoView());
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  const why = typeof DecompressionStream === "undefined" ? "this browser is too old to unpack its data" : error.message;
  document.getElementById("answer").append(h("p", { class: "problem" }, `This report could not be drawn: ${why}.`));
  throw error;
});
