// The camera over a graph: left, top and zoom, as arithmetic that needs no canvas.

const MIN_ZOOM = 0.02, MAX_ZOOM = 3, LEAST_ZOOM = 1e-4, READABLE = 0.45;

/** The room at the right edge that a camera leaves free. @param {Extent} view */
const margin = (view) => view.side ?? 56;

/**
 * A camera as the text of the trait `camera`.
 * @param {Camera} camera
 */
const writeCamera = ({ x, y, k }) => [x.toFixed(1), y.toFixed(1), k < 0.1 ? k.toFixed(6) : k.toFixed(3)].join();

/**
 * @param {number} k
 * @param {number} least
 */
const allowed = (k, least) => Math.min(MAX_ZOOM, Math.max(least, k));

/**
 * The camera in a text, or null if there is none.
 * @param {string | null | undefined} text
 * @returns {Camera | null}
 */
function readCamera(text) {
  const [x, y, k] = (text ?? "").split(",").map(Number);
  return Number.isFinite(x) && Number.isFinite(y) && k > 0 ? { x, y, k: allowed(k, LEAST_ZOOM) } : null;
}

/**
 * The camera that centres the whole graph at zoom `k`.
 * @param {Extent} view
 * @param {{ width: number, height: number }} size
 * @param {number} k
 */
const centred = (view, size, k) => ({ k, x: size.width / 2 - (view.w - margin(view)) / 2 / k, y: size.height / 2 - view.h / 2 / k });

/**
 * The zoom that fits the whole graph.
 * @param {Extent} view
 * @param {{ width: number, height: number }} size
 */
const fitting = (view, size) => Math.min((view.w - margin(view) - 24) / Math.max(1, size.width), (view.h - 24) / Math.max(1, size.height), 1);

/**
 * The camera that fits the whole graph, however small.
 * @param {Extent} view
 * @param {{ width: number, height: number }} size
 * @returns {Camera}
 */
const fitted = (view, size) => centred(view, size, Math.max(LEAST_ZOOM, fitting(view, size)));

/**
 * The least zoom: a graph that needs less to fit may be seen so.
 * @param {Extent} view
 * @param {{ width: number, height: number }} size
 */
const leastZoom = (view, size) => Math.max(LEAST_ZOOM, Math.min(MIN_ZOOM, fitting(view, size)));

/**
 * The initial camera: the whole graph if that is readable, otherwise the top at a readable size.
 * @param {Extent} view
 * @param {{ width: number, height: number }} size
 * @param {Place | undefined} first the box to centre on if not even the width fits
 * @returns {Camera}
 */
function home(view, size, first) {
  const all = fitting(view, size), room = view.w - margin(view) - 24;
  if (all >= 0.6) return centred(view, size, all);
  const k = Math.max(0.6, Math.min(1, room / size.width));
  const middle = size.width * k > room && first ? first.x + first.w / 2 : size.width / 2;
  return { k, x: middle - (view.w - margin(view)) / 2 / k, y: -14 / k };
}

/**
 * A camera zoomed by a factor about the point (sx, sy) of the screen.
 * @param {Camera} camera
 * @param {number} factor
 * @param {number} sx
 * @param {number} sy
 * @param {number} least the least zoom
 * @returns {Camera}
 */
function zoomed({ x, y, k }, factor, sx, sy, least = MIN_ZOOM) {
  const to = allowed(k * factor, least);
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
  const { k } = camera, edge = 8 / k;
  const inside = k >= READABLE && box.x >= camera.x + edge && box.x + box.w <= camera.x + (view.w - margin(view)) / k - edge &&
    box.y >= camera.y + edge && box.y + box.h <= camera.y + view.h / k - edge;
  return inside ? camera : centring(camera, box, view);
}

/**
 * A camera with a box in the middle, near enough to read it.
 * @param {Camera} camera
 * @param {Place} box
 * @param {Extent} view
 * @returns {Camera}
 */
function centring(camera, box, view) {
  const k = camera.k < READABLE ? 0.8 : camera.k;
  return { k, x: box.x + box.w / 2 - (view.w - margin(view)) / 2 / k, y: box.y + box.h / 2 - view.h / 2 / k };
}

export { centring, fitted, home, leastZoom, panned, readCamera, revealing, writeCamera, zoomed };
