// The charts: what started, as one bar for each second, against the limit; and small lines beside it. All of them show the
// minute before the present, and mark pauses as bands.

/* global uPlot */

const span = 60;

// colour reads a colour of the style sheet, which knows light from dark.
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// paint fills the bands of pauses, hatched, so that they are recognizable without colour.
function paint(u, bands) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  const step = 7 * devicePixelRatio;
  for (const band of bands) {
    const from = Math.max(bbox.left, u.valToPos(band.from, "x", true));
    const to = Math.min(bbox.left + bbox.width, u.valToPos(band.to, "x", true));
    if (to <= from) continue;
    ctx.fillStyle = colour("pause");
    ctx.fillRect(from, bbox.top, to - from, bbox.height);
    ctx.save();
    ctx.beginPath();
    ctx.rect(from, bbox.top, to - from, bbox.height);
    ctx.clip();
    ctx.strokeStyle = colour("pause-edge");
    ctx.globalAlpha = 0.35;
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    for (let x = from - bbox.height; x < to; x += step) {
      ctx.moveTo(x, bbox.top + bbox.height);
      ctx.lineTo(x + bbox.height, bbox.top);
    }
    ctx.stroke();
    ctx.restore();
  }
  ctx.restore();
}

// top returns where an axis ends, so that the limit is in sight unless it is far above what started.
function top(most, limit) {
  const near = limit > 0 && limit <= Math.max(most, 1) * 5;
  return Math.max(near ? limit * 1.18 : 0, most * 1.12, 1);
}

const visible = new WeakMap();
const eye = new IntersectionObserver((entries) => {
  for (const e of entries) visible.get(e.target)?.(e.isIntersecting);
}, { rootMargin: "200px" });

// chart makes a uPlot that follows the width of its box, and draws only while it is in sight.
function chart(box, options, hooks) {
  const size = () => ({ width: Math.max(40, box.clientWidth), height: box.clientHeight || 32 });
  let plot = null;
  let data = null;
  let seen = true;
  const build = () => {
    plot?.destroy();
    plot = new uPlot({ ...options(), ...size(), hooks }, data ?? [[], []], box);
  };
  visible.set(box, (now) => {
    seen = now;
    if (seen && data && plot) plot.setData(data);
  });
  eye.observe(box);
  const sized = new ResizeObserver(() => plot?.setSize(size()));
  sized.observe(box);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", build);
  return {
    set(next) {
      data = next;
      if (!plot) build();
      else if (seen) plot.setData(data);
    },
    end() {
      eye.unobserve(box);
      sized.disconnect();
      scheme.removeEventListener("change", build);
      plot?.destroy();
    },
  };
}

const still = { cursor: { show: false }, legend: { show: false }, select: { show: false } };

// bars makes the chart of what started. state is read at each drawing: {at, limit, bands}.
export function bars(box, state) {
  const options = () => ({
    ...still,
    padding: [8, 14, 0, 0],
    scales: {
      x: { time: false, range: () => [state.at - span, state.at] },
      y: { range: (u, low, high) => [0, top(high ?? 0, state.limit)] },
    },
    axes: [
      {
        stroke: colour("faint"), font: `11px ${getComputedStyle(box).fontFamily}`, size: 22, gap: 4,
        grid: { show: false }, ticks: { show: false },
        splits: () => [-60, -45, -30, -15, 0].map((s) => state.at + s),
        values: (u, at) => at.map((x) => (Math.round(x - state.at) === 0 ? "now" : `${Math.round(x - state.at)} s`.replace("-", "−"))),
      },
      {
        stroke: colour("faint"), font: `11px ${getComputedStyle(box).fontFamily}`, size: 44, gap: 6, space: 34,
        grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false },
        values: (u, all) => all.map((v) => (v >= 10000 ? `${v / 1000}k` : String(v))),
      },
    ],
    series: [{}, {
      fill: colour("calls-fill"), stroke: "transparent", width: 0, points: { show: false },
      paths: uPlot.paths.bars({ size: [0.72, 24], align: 1, radius: 0.15 }),
    }],
  });
  return chart(box, options, {
    drawClear: [(u) => paint(u, state.bands)],
    draw: [(u) => limitLine(u, state.limit)],
  });
}

// limitLine draws the limit, if it is in sight.
function limitLine(u, limit) {
  if (!(limit > 0) || limit > u.scales.y.max) return;
  const { ctx, bbox } = u;
  const y = Math.round(u.valToPos(limit, "y", true));
  ctx.save();
  ctx.strokeStyle = colour("limit");
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

// spark makes a small line. state is as for bars, with most: what the axis reaches at least.
export function spark(box, state, name, stepped) {
  const options = () => ({
    ...still,
    padding: [3, 2, 2, 2],
    scales: {
      x: { time: false, range: () => [state.at - span, state.at] },
      y: { range: (u, low, high) => [0, Math.max((high ?? 0) * 1.08, state.most ?? 0, 1e-3)] },
    },
    axes: [{ show: false }, { show: false }],
    series: [{}, {
      stroke: colour(name), width: 1.75, fill: `${colour(name)}22`, points: { show: false }, spanGaps: false,
      paths: stepped ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear(),
    }],
  });
  return chart(box, options, { drawClear: [(u) => paint(u, state.bands)] });
}
