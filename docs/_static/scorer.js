// The order of what the search finds: guides before the reference, unless the words are a name of the reference, such as
// regard.attend. The numbers are Sphinx's own, besides those of score.
const isName = /[._]/.test(new URLSearchParams(location.search).get("q") ?? "");

var Scorer = {
  score([docname, , , , score, , kind]) {
    const guide = !/^(reference\/|changes$)/.test(docname);
    return score + (guide && !isName ? 200 : 0) + (kind === "title" ? 20 : 0);
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
