// An overlay: a number per instruction, shown as colour and text.

/**
 * The trait `overlay` with the ends of its scale, or null if there is none.
 * @param {any} trait
 * @returns {Overlay | null}
 */
function readOverlay(trait) {
  if (!trait?.values) return null;
  const values = new Map(Object.entries(trait.values).map(([id, value]) => [+id, value === null ? NaN : Number(value)]));
  const sizes = [...values.values()].filter(Number.isFinite), log = trait.scale === "magma";
  const span = Math.max(...sizes.map(Math.abs), 0);
  let low = log ? Math.min(...sizes.filter((v) => v > 0), span) : Math.min(...sizes, 0), high = log ? span : Math.max(...sizes, 0);
  if (trait.scale === "puor") [low, high] = [-span, span];
  return { ...trait, values, low, high, log };
}

/**
 * The position of a value on an overlay's scale, from 0 to 1.
 * @param {Overlay} overlay
 * @param {number} value
 */
function share({ low, high, log }, value) {
  if (Number.isNaN(value) || value === Infinity) return 1;
  if (high <= low) return high > 0 ? 1 : 0;
  if (!log) return (value - low) / (high - low);
  return value <= 0 ? 0 : Math.log(value / low) / Math.log(high / low || 2);
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
