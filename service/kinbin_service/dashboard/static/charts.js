// Charts by uPlot (vendor/), in the colours of the page; each has a name for those who do not see it.
import uPlot from "./vendor/uPlot.esm.js";
import { h, short } from "./dom.js";

const COLOURS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--c8", "--c9", "--c10", "--c11", "--c12"];
const dark = matchMedia("(prefers-color-scheme: dark)");

export const colour = (number) => token(COLOURS[number % COLOURS.length]);
export const colours = COLOURS.length;
const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const faint = (value) => `${value}55`;

// line, steps, bars and points: how a series is drawn.
const PATHS = {
  line: () => ({ width: 2, points: { show: false } }),
  steps: (stroke) => ({ width: 1, fill: faint(stroke), paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } }),
  bars: (stroke) => ({ width: 1, fill: faint(stroke), paths: uPlot.paths.bars({ size: [0.8, 60] }), points: { show: false } }),
  points: (stroke, size, aside) => ({ width: 1, fill: stroke, paths: dots(size || 8, aside || 0), points: { show: false } }),
};

// Points of a width, so many pixels `aside` of their places: those of several series at one place do not hide each other.
function dots(size, aside) {
  return (plot, number, first, last) => {
    const path = new Path2D();
    const radius = (size / 2) * devicePixelRatio;
    for (let at = first; at <= last; at++) {
      const value = plot.data[number][at];
      if (value === null || value === undefined) continue;
      const [x, y] = [plot.valToPos(plot.data[0][at], "x", true) + aside * devicePixelRatio, plot.valToPos(value, plot.series[number].scale, true)];
      path.moveTo(x + radius, y);
      path.arc(x, y, radius, 0, 2 * Math.PI);
    }
    return { stroke: path, fill: path };
  };
}

const NARROWEST = 80;

// Bars are compared by their lengths, so their axis holds 0.
function fromZero(_, low, high) {
  const [least, most] = [Math.min(0, low ?? 0), Math.max(0, high ?? 0)];
  const room = 0.05 * (most - least || 1);
  return [least && least - room, most || !least ? most + room : 0];
}

// From the least to the greatest, and somewhat more, so that no point lies on the edge, where half of it would be cut off.
function aroundPoints(_, low, high) {
  const room = (high - low || 1) / 30;
  return [low - room, high + room];
}

// As wide as the longest number, so that the title lies beside them. uPlot asks three times: first before the height is known that
// chooses the numbers, last when the room is given.
function roomOf(plot, values, number, cycle) {
  const one = plot.axes[number];
  if (cycle > 2) return one._size;
  const longest = (values ?? []).reduce((found, value) => (`${value}`.length > found.length ? `${value}` : found), "");
  plot.ctx.font = one.font[0];
  return Math.ceil(one.ticks.size + one.gap + plot.ctx.measureText(longest).width / devicePixelRatio) + 2;
}

// series: [{label, values, drawn, scale, size, aside}], beside x, ascending. about: one sentence that says what is to be seen.
// places: x are 1, 2, …, and `names`, if there are any, stand below them.
export function chart({
  about,
  x,
  xLabel,
  yLabel,
  y2Label,
  series,
  height = 280,
  ranges = {},
  legend = true,
  places = false,
  names,
  hooks = {},
}) {
  const holder = h("figure", { class: "chart" });
  const drawing = h("div", { role: "img", "aria-label": about });
  holder.append(drawing, h("figcaption", {}, about));
  const width = () => Math.max(NARROWEST, holder.clientWidth || 600);
  const bars = series.some((one) => one.drawn === "bars");
  const points = series.some((one) => one.drawn === "points");
  let plot = null;
  const draw = () => {
    plot?.destroy();
    const options = {
      width: width(),
      height,
      legend: { show: legend, live: series.some((one) => one.drawn !== "points") },
      hooks,
      cursor: { points: { show: false }, drag: { x: false, y: false } },
      scales: {
        x: { time: false, range: places ? [0.4, x.length + 0.6] : (ranges.x ?? (points ? aroundPoints : undefined)) },
        y: { range: ranges.y ?? (bars ? fromZero : undefined) },
        right: { range: ranges.right },
      },
      axes: [
        axis(
          xLabel,
          places ? { incrs: [1, 2, 5, 10, 20, 50, 100], values: (_, at) => at.map((one) => (names ? (names[one - 1] ?? "") : one)) } : {},
        ),
        axis(yLabel, { size: roomOf }),
        ...(y2Label ? [axis(y2Label, { scale: "right", side: 1, size: roomOf, grid: { show: false } })] : []),
      ],
      series: [{ label: xLabel || "x", value: legendValue }, ...series.map(drawnAs)],
    };
    plot = new uPlot(options, [x, ...series.map((one) => one.values)], drawing);
    holder.plot = plot;
  };
  const resized = new ResizeObserver(() => {
    if (!holder.isConnected) return;
    if (!plot) draw();
    else if (Math.abs(plot.width - holder.clientWidth) > 2) plot.setSize({ width: width(), height });
  });
  resized.observe(holder);
  dark.addEventListener("change", () => {
    if (holder.isConnected && plot) draw();
  });
  holder.update = (values) => {
    values.forEach((one, number) => {
      series[number].values = one;
    });
    plot?.setData([x, ...values]);
  };
  return holder;
}

const axis = (label, more) => ({
  stroke: token("--text"),
  grid: { stroke: token("--line"), width: 1 },
  ticks: { stroke: token("--line") },
  label: label || null,
  labelSize: 22,
  labelGap: 4,
  font: "12px system-ui",
  labelFont: "12px system-ui",
  ...more,
});

// Nothing while the pointer is elsewhere.
const legendValue = (_, value) => (value === null || value === undefined ? "" : short(value));

function drawnAs({ label, scale = "y", drawn = "line", size, aside }, number) {
  const stroke = colour(number);
  return { label, scale, stroke, value: legendValue, ...PATHS[drawn](stroke, size, aside) };
}
