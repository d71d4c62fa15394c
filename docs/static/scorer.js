// How the search of the site orders pages: by the words of the query that a page's title has, stopwords
// included ("which loss"), then by Sphinx's own score; names of the reference and the study come last.
var Scorer = (() => {
  const words = (text) => text.toLowerCase().match(/\w+/g) || [];
  const asked = words(new URLSearchParams(window.location.search).get("q") || "");
  const pages = { threshold: "decisions", thresholds: "decisions", oversampling: "imbalance", weights: "imbalance" };
  return {
    score: ([name, title, anchor, , score]) => {
      const own = words(title);
      const found = asked.filter((word) => own.some((other) => other === word || other === `${word}s`));
      const known = asked.some((word) => pages[word] === name);
      const late = /^(api\/|study|genindex)/.test(name) || title.startsWith("labelset.");
      return score / 10 + (40 * found.length) / (asked.length || 1) + 25 * known - 45 * late - 5 * Boolean(anchor);
    },
    objNameMatch: 11,
    objPartialMatch: 6,
    objPrio: { 0: 15, 1: 5, 2: -5 },
    objPrioDefault: 0,
    title: 15,
    partialTitle: 7,
    term: 5,
    partialTerm: 2,
  };
})();
