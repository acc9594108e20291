// The camera over a graph: left, top and zoom, as arithmetic that needs no canvas.

const MIN_ZOOM = 0.02, MAX_ZOOM = 3;
/** The width of the minimap at the right edge. */
const MAP = 56;

/**
 * A camera as the text of the trait `camera`.
 * @param {Camera} camera
 */
const writeCamera = ({ x, y, k }) => [x.toFixed(1), y.toFixed(1), k.toFixed(3)].join();

/** @param {number} k */
const allowed = (k) => Math.min(MAX_ZOOM, Math.max(MIN_ZOOM, k));

/**
 * The camera in a text, or null if there is none.
 * @param {string | null | undefined} text
 * @returns {Camera | null}
 */
function readCamera(text) {
  const [x, y, k] = (text ?? "").split(",").map(Number);
  return Number.isFinite(x) && Number.isFinite(y) && k > 0 ? { x, y, k: allowed(k) } : null;
}

/**
 * The camera that centres the whole graph at zoom `k`.
 * @param {Extent} view
 * @param {{ width: number, height: number }} size
 * @param {number} k
 */
const centred = (view, size, k) => ({ k, x: size.width / 2 - (view.w - MAP) / 2 / k, y: size.height / 2 - view.h / 2 / k });

/**
 * The zoom that fits the whole graph.
 * @param {Extent} view
 * @param {{ width: number, height: number }} size
 */
const fitting = (view, size) => Math.min((view.w - MAP - 24) / size.width, (view.h - 24) / size.height, 1);

/**
 * The camera that fits the whole graph, however small.
 * @param {Extent} view
 * @param {{ width: number, height: number }} size
 * @returns {Camera}
 */
const fitted = (view, size) => centred(view, size, Math.max(MIN_ZOOM, fitting(view, size)));

/**
 * The initial camera: the whole graph if that is readable, otherwise the top at a readable size.
 * @param {Extent} view
 * @param {{ width: number, height: number }} size
 * @param {Place | undefined} first the box to centre on if not even the width fits
 * @returns {Camera}
 */
function home(view, size, first) {
  const all = fitting(view, size), room = view.w - MAP - 24;
  if (all >= 0.6) return centred(view, size, all);
  const k = Math.max(0.6, Math.min(1, room / size.width));
  const middle = size.width * k > room && first ? first.x + first.w / 2 : size.width / 2;
  return { k, x: middle - (view.w - MAP) / 2 / k, y: -14 / k };
}

/**
 * A camera zoomed by a factor about the point (sx, sy) of the screen.
 * @param {Camera} camera
 * @param {number} factor
 * @param {number} sx
 * @param {number} sy
 * @returns {Camera}
 */
function zoomed({ x, y, k }, factor, sx, sy) {
  const to = allowed(k * factor);
  return { x: x + sx / k - sx / to, y: y + sy / k - sy / to, k: to };
}

/**
 * @param {number} value
 * @param {number} low
 * @param {number} high
 */
const clamp = (value, low, high) => Math.min(Math.max(low, high), Math.max(Math.min(low, high), value));

/**
 * A camera moved by pixels, but never so far that the graph leaves the view.
 * @param {Camera} camera
 * @param {number} dx
 * @param {number} dy
 * @param {Extent} view
 * @param {{ width: number, height: number }} size
 * @returns {Camera}
 */
function panned({ x, y, k }, dx, dy, view, size) {
  return {
    x: clamp(x + dx / k, (-view.w / k) * 0.8, size.width - (view.w * 0.2) / k),
    y: clamp(y + dy / k, (-view.h / k) * 0.8, size.height - (view.h * 0.2) / k), k,
  };
}

/**
 * A camera that shows a box: unchanged if the box is in view already, otherwise centred on it.
 * @param {Camera} camera
 * @param {Place} box
 * @param {Extent} view
 * @returns {Camera}
 */
function revealing(camera, box, view) {
  const k = camera.k < 0.45 ? 0.8 : camera.k, edge = 20 / k;
  const inside = k === camera.k && box.x >= camera.x + edge && box.x + box.w <= camera.x + (view.w - MAP) / k - edge &&
    box.y >= camera.y + edge && box.y + box.h <= camera.y + view.h / k - edge;
  return inside ? camera : { k, x: box.x + box.w / 2 - (view.w - MAP) / 2 / k, y: box.y + box.h / 2 - view.h / 2 / k };
}

export { MAP, fitted, home, panned, readCamera, revealing, writeCamera, zoomed };
