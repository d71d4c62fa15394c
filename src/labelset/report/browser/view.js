// The view in the address: candidate, opened label, moved thresholds, the two compared, the section.
// #at=errors&candidate=bce&label=fork&t=0.25&t:fork=0.4&compare=bce,spa: whoever gets it sees the same.

const MOST_MOVES = 40;

function viewNow() {
  const view = new URLSearchParams(), c = chosen.candidate;
  if (chosen.place) view.set("at", chosen.place);
  if (c.raw.key !== data.best) view.set("candidate", c.raw.key);
  if (chosen.label !== null) view.set("label", data.names[chosen.label]);
  for (const [label, at] of [...c.moves].slice(0, MOST_MOVES)) {
    view.set(label === null ? "t" : `t:${data.names[label]}`, precise(data.grid[at]));
  }
  if (compared.chosen) compared.keys.forEach((key) => view.append("compare", key));
  return view.toString();
}

function writeView() {
  const now = viewNow();
  if (now !== location.hash.slice(1)) history.replaceState(null, "", now ? `#${now}` : location.pathname + location.search);
}

// an address that a person opened, or came back to
async function readView() {
  const view = new URLSearchParams(location.hash.slice(1));
  const known = (key) => data.candidates.some((raw) => raw.key === key);
  const key = known(view.get("candidate")) ? view.get("candidate") : data.best;
  const label = data.names.indexOf(view.get("label"));
  const c = await candidateOf(key);
  takeOwn(c);
  for (const [name, value] of view) {
    const moved = name === "t" ? null : name.startsWith("t:") ? data.names.indexOf(name.slice(2)) : -1;
    if (moved !== -1 && Number.isFinite(Number(value))) takeGrid(c, gridNear(Number(value)), moved);
  }
  const two = view.getAll("compare").filter(known);
  if (two.length === 2) compareTwo(two, true);
  document.getElementById("candidate").value = key;
  chosen.label = label < 0 ? null : label;
  chosen.place = document.getElementById(view.get("at") || "") ? view.get("at") : null;
  await chooseCandidate(key);
}

function watchView() {
  for (const event of ["candidate", "label", "thresholds"]) on(event, () => later("view", writeView, 150));
  addEventListener("hashchange", async () => {
    const hash = location.hash.slice(1);
    if (hash.includes("=")) return readView();
    chosen.place = document.getElementById(hash) ? hash : null; // a link of the bar
    return writeView();
  });
}
