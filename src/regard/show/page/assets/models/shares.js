// Shares of 1 as bars, below each other.

const LISTED = 5; // of many, the largest; the others are one row
const END = "</s>";

// A row for each share {label, share, kind}: its bar, and the share in per cent.
const shareRows = (rows) =>
  rows.map(({ label, share, kind = "" }) => {
    const fill = el("span.fill", {
      "aria-hidden": "true",
      style: { width: `${100 * Math.min(1, Math.max(0, share))}%` },
    });
    const name = label === END ? regard.term(label) : bdi(label);
    return el(
      "div",
      { class: `share ${kind}` },
      name,
      el("span.track", fill),
      el("span.percent", regard.percent(share)),
    );
  });

// The largest shares, of which `marked` are the chosen ones by their index, and all others together.
function largestShares(labels, shares, others, marked = []) {
  const best = regard.best(shares.length, (k) => shares[k], LISTED);
  const rest = Math.max(0, 1 - best.reduce((sum, k) => sum + shares[k], 0));
  const rows = best.map((k) => ({ label: labels[k], share: shares[k], kind: marked.includes(k) ? "chosen" : "" }));
  return shareRows([...rows, ...(rest > 0.0005 ? [{ label: others, share: rest, kind: "others" }] : [])]);
}
