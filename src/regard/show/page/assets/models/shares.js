// Shares of 1 as bars, below each other.

const LISTED = 5; // of many, the largest; the others are one row
const END = "</s>";

// A row for each share {label, share, kind}: its bar, and the share in per cent.
const shareRows = (rows) =>
  rows.map(({ label, share, kind = "" }) => {
    const name = label === END ? regard.term(label) : bdi(label);
    return el("div", { class: `share ${kind}` }, name, regard.track(share), el("span.percent", regard.percent(share)));
  });

const GROUP = { wide: 300, name: 110, bar: 120, top: 52, line: 26 }; // of the bars in a picture

// The same as a picture: groups of rows beside each other, [[heading, rows], ...].
regard.barsPicture = (title, groups) =>
  pictured(title, () => {
    const { wide, name, bar, top, line } = GROUP;
    const row =
      (x) =>
      ({ label, share }, i) => {
        const y = top + line * (i + 1);
        const width = Math.max(1, bar * share);
        return [
          pictureText(clipped(label, 14), x + name, y, { "text-anchor": "end" }),
          el("svg:rect", { x: x + name + 8, y: y - 11, width, height: 14, rx: 3, fill: regard.colour(0.7) }),
          pictureText(regard.percent(share), x + name + 14 + width, y),
        ];
      };
    const drawn = groups.map(([heading, rows], k) => {
      const x = PADDING + wide * k;
      return [pictureText(heading, x, top, { "font-weight": 600 }), rows.map(row(x))];
    });
    const most = Math.max(...groups.map(([, rows]) => rows.length));
    return [PADDING + wide * groups.length, top + line * (most + 1), drawn];
  });

// Rows of the largest shares, of which `marked` are the chosen ones by their index, and of all others together.
function largestShares(labels, shares, others, marked = []) {
  const best = regard.best(shares.length, (k) => shares[k], LISTED);
  const rest = Math.max(0, 1 - best.reduce((sum, k) => sum + shares[k], 0));
  const rows = best.map((k) => ({ label: labels[k], share: shares[k], kind: marked.includes(k) ? "chosen" : "" }));
  return [...rows, ...(rest > 0.0005 ? [{ label: others, share: rest, kind: "others" }] : [])];
}
