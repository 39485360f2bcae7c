// The order of what the search finds: headings of guides, the entry of the reference with just this name, other guides,
// the reference. For names such as regard.attend the reference is not behind. All numbers but those of score are Sphinx's.
const isName = /[._]/.test(new URLSearchParams(location.search).get("q") ?? "");

var Scorer = {
  score([docname, , , , score, , kind]) {
    const guide = !/^(reference\/|changes$)/.test(docname);
    const titled = kind === "title" ? 20 : 0;
    return score + titled + (isName ? 0 : guide ? 200 : titled && score >= Scorer.title ? 180 : 0);
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
