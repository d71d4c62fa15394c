// The answer: why that one, how it was found, and what the words on the page mean.

function becauseList(c) {
  const points = data.because.map(([title, words]) => [h("dt", null, title), h("dd", null, `${words}.`)]);
  const all = [...points, attentionLink(c)].filter(Boolean);
  return all.length ? h("dl", { class: "because" }, all) : null;
}

// labels that need attention by the saved rule of the recommended candidate, which lead to the table
function attentionLink(c) {
  const found = data.names.map((_, at) => at).filter((at) => worries(c, at).length);
  if (!found.length) return null;
  const worst = found.sort((a, b) => mistakesAt(c, b) - mistakesAt(c, a)).slice(0, 3);
  const openers = worst.map((label) => h("button", { type: "button", class: "plain", onclick: () => chooseLabel(label) }, named(data.names[label])));
  const listed = openers.flatMap((each, at) => (at ? [", ", each] : [each]));
  return [h("dt", null, "Labels that need attention"), h("dd", null, `${whole(found.length)} of ${whole(data.names.length)}: `, listed,
    found.length > worst.length ? ", … " : ". ", h("a", { href: "#explore" }, "See all"))];
}

function mistakesAt(c, label) {
  const { fp, fn } = confusionAt(c, label, c.cuts[label]);
  return fp + fn;
}

const HOW = ALONE ? "How these figures came about" : "How the answer was found: folds, members, rivals, the blend";

function howCard() {
  const metrics = metricNames().map((name) => [name, data.metrics[name].about]).filter(([, about]) => about);
  const kinds = data.candidates.filter((raw) => raw.words).map((raw) => [raw.key, `${raw.words}.`]);
  const list = (entries) => h("dl", { class: "because" }, entries.map(([name, words]) => [h("dt", null, named(name)), h("dd", null, words)]));
  const part = (title, entries) => (entries.length ? h("details", { class: "how" }, h("summary", null, title), list(entries)) : null);
  const parts = [part(HOW, data.how.map(([title, words]) => [title, `${words}.`])),
    part("What the candidates are", kinds), part("What the metrics are", metrics)].filter(Boolean);
  return parts.length ? h("div", { class: "card" }, h("h3", null, "In plain words"), parts) : null;
}
