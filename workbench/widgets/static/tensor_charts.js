// Charts as Python lays them out, see tensor_charts.py: paths over a square of side 100, drawn on canvases.

import { h } from "./dom.js";

const LEFT = 48, RIGHT = 12, TOP = 6, BOTTOM = 20, HIGH = 132;

/** A chart that `drawChart` draws; its title and words are text. @param {Chart} chart */
function chartElement(chart) {
  const canvas = h("canvas", { class: "wb-chart", role: "img", "aria-label": `${chart.title}. ${chart.words}`, hidden: !chart.parts.length });
  return { canvas, chart, el: h("figure", {}, h("figcaption", {}, chart.title), canvas, h("div", { class: "wb-soft" }, chart.words)) };
}

/**
 * @param {{ canvas: HTMLCanvasElement, chart: Chart }} drawn
 * @param {Theme} theme
 */
function drawChart({ canvas, chart }, theme) {
  const w = canvas.clientWidth, k = Math.min(3, window.devicePixelRatio || 1), ctx = canvas.getContext("2d"), wide = w - LEFT - RIGHT, high = HIGH - TOP - BOTTOM;
  if (!w || !ctx) return;
  canvas.width = w * k;
  canvas.height = HIGH * k;
  ctx.scale(k, k);
  ctx.font = "10px system-ui, sans-serif";
  ctx.fillStyle = theme.soft;
  ctx.textAlign = "center";
  for (const [x, text] of chart.x) ctx.fillText(text, Math.min(LEFT + (wide * x) / 100, w - ctx.measureText(text).width / 2), HIGH - 6);
  ctx.textAlign = "right";
  for (const [y, text] of chart.y) ctx.fillText(text, LEFT - 5, TOP + high * (1 - y / 100) + 3);
  ctx.strokeStyle = theme.line;
  ctx.strokeRect(LEFT - 0.5, TOP - 0.5, wide + 1, high + 1);
  ctx.beginPath();
  ctx.rect(LEFT, TOP, wide, high);
  ctx.clip();
  const matrix = new DOMMatrix([wide / 100, 0, 0, high / 100, LEFT, TOP]), colors = /** @type {Record<string, any>} */ (theme);
  for (const [fill, stroke, dashed, d] of chart.parts) {
    const path = new Path2D();
    path.addPath(new Path2D(d), matrix);
    ctx.setLineDash(dashed ? [5, 4] : []);
    ctx.fillStyle = colors[fill] ?? fill;
    if (fill) ctx.fill(path);
    ctx.strokeStyle = colors[stroke];
    ctx.lineWidth = 1.5;
    if (stroke) ctx.stroke(path);
  }
}

export { chartElement, drawChart };
