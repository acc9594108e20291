// An overlay: a number per instruction, shown as colour and text.

/**
 * The trait `overlay` with the ends of its scale, or null if there is none. A log scale includes the tolerance.
 * @param {any} trait
 * @returns {Overlay | null}
 */
function readOverlay(trait) {
  if (!trait?.values) return null;
  const values = new Map(Object.entries(trait.values).map(([id, value]) => [+id, value === null ? NaN : Number(value)]));
  const sizes = [...values.values()].filter(Number.isFinite), log = trait.scale === "magma";
  if (log && trait.tolerance > 0) sizes.push(trait.tolerance);
  const span = Math.max(...sizes.map(Math.abs), 0);
  let low = log ? Math.min(...sizes.filter((v) => v > 0), span) : Math.min(...sizes, 0), high = log ? span : Math.max(...sizes, 0);
  if (trait.scale === "puor") [low, high] = [-span, span];
  const lost = [...values.values()].filter((v) => !Number.isFinite(v)).length;
  return { ...trait, values, low, high, log, lost };
}

/**
 * The position of a value on an overlay's scale, from 0 to 1.
 * @param {Overlay} overlay
 * @param {number} value
 */
function share({ low, high, log }, value) {
  if (Number.isNaN(value) || value === Infinity) return 1;
  if (log && value <= 0) return 0;
  if (high <= low) return high > 0 ? 1 : 0;
  return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}

/**
 * The value of several instructions: their sum if the overlay has totals, otherwise the worst.
 * @param {Overlay} overlay
 * @param {number[]} ids
 * @returns {number | undefined}
 */
function valueOf(overlay, ids) {
  const values = ids.map((id) => overlay.values.get(id)).filter((v) => v !== undefined);
  if (!values.length) return undefined;
  return values.reduce(overlay.total ? (p, q) => p + q : (p, q) => (Number.isNaN(p) || p >= q ? p : q));
}

/**
 * Whether a value is over the overlay's tolerance; NaN is.
 * @param {Overlay} overlay
 * @param {number} value
 */
const isOver = ({ tolerance }, value) => tolerance !== null && tolerance !== undefined && !(value <= tolerance);

export { isOver, readOverlay, share, valueOf };
