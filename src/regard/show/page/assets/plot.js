// A small plot of curves: where a point of it lies, and its grid with the numbers of both axes.

const PLOT = { width: 300, height: 180, left: 34, right: 8, top: 14, bottom: 34 };

const plotElement = () => el("svg:svg.plot", { viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, role: "img" });

const plotText = (text, x, y, own) => pictureText(text, x, y, { "font-size": 11, fill: null, ...own });

// `across` and `up` are the ends of the axes, `ticks` and `levels` the numbers that stand at them.
function axes({ across, up, ticks, levels, name }) {
  const { width, height, left, right, top, bottom } = PLOT;
  const x = (n) => left + ((width - left - right) * n) / across;
  const y = (value) => height - bottom - ((height - top - bottom) * value) / up;
  const level = (value) => [
    el("svg:path", { d: `M${left} ${y(value)}H${width - right}`, class: "grid" }),
    plotText(short(value), left - 6, y(value) + 4, { "text-anchor": "end" }),
  ];
  const tick = (n) => plotText(String(n), x(n), height - bottom + 15, MIDDLE);
  const point = ([n, value]) => `${x(n).toFixed(1)} ${y(value).toFixed(1)}`;
  return {
    x,
    y,
    curve: (points, kind) => el("svg:path", { d: `M${points.map(point).join("L")}`, class: kind }),
    drawn: [levels.map(level), ticks.map(tick), plotText(name, x(across / 2), height - 4, MIDDLE)],
  };
}
