// The scores of search results: those of Sphinx, with guides first and records of decisions and measurements last.
var Scorer = {
  score: ([page, , , , score]) =>
    score * (/^(how-to|tutorials|quickstart)/.test(page) ? 3 : /^(adr|benchmarks|papers)/.test(page) ? 0.2 : 1),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
