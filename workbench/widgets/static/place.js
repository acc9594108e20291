// Coordinates of ranked items of given sizes: the arithmetic of place.py, number for number.

const RANK_GAP = 26, ITEM_GAP = 18, LANE = 5, SWEEPS = 8;
const PADDING = 12, HEADER = 24;

/** @typedef {(item: number) => number} Size */
/** @typedef {Map<number, number>} Places */

/**
 * The centre of an item that has been placed.
 * @param {Places} x
 * @param {number} i
 */
const at = (x, i) => /** @type {number} */ (x.get(i));

/**
 * Positions of a container's children relative to its own top left corner.
 * @param {Container} container
 * @param {Sizes} sizes
 * @param {number} firstLane
 * @returns {Plan}
 */
function placeContainer(container, sizes, firstLane) {
  const { ranks } = container, x = across(container, sizes, firstLane);
  /** @type {Places} */
  const y = new Map();
  /** @type {[number, number][]} */
  const bands = [];
  let top = 0;
  for (const items of ranks) {
    const height = Math.max(0, ...items.map((i) => (i < firstLane ? sizes.height[i] : 0)));
    bands.push([top, top + height]);
    for (const i of items) y.set(i, top + (height - (i < firstLane ? sizes.height[i] : 0)) / 2);
    top += height + (height > 0 ? RANK_GAP : 0);
  }
  let low = Infinity, high = -Infinity;
  for (const [i, middle] of x) {
    low = Math.min(low, middle - (i >= firstLane ? LANE : sizes.left[i]));
    high = Math.max(high, middle + (i >= firstLane ? LANE : sizes.right[i]));
  }
  if (low === Infinity) low = high = 0;
  for (const [i, middle] of x) x.set(i, middle - low);
  return { x, y, bands, spine: spine(ranks, x, firstLane), width: high - low, height: Math.max(0, top - RANK_GAP) };
}

/**
 * Positions of items in their ranks: packed, then pulled towards their neighbours in sweeps.
 * @param {Container} container
 * @param {Sizes} sizes
 * @param {number} firstLane
 */
function across(container, sizes, firstLane) {
  const { ranks } = container;
  /** @type {Places} */
  const x = new Map();
  /** @type {Size} */
  const left = (i) => (i >= firstLane ? LANE : sizes.left[i]);
  /** @type {Size} */
  const right = (i) => (i >= firstLane ? LANE : sizes.right[i]);
  const { above, below } = (container.pulls ??= pulls(container.ties, firstLane));
  for (const items of ranks) pack(items, left, right, x);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    if (sweep % 2 === 0) for (const items of ranks) relax(items, [above], left, right, x);
    else for (let k = ranks.length - 1; k >= 0; k--) relax(ranks[k], [below], left, right, x);
  }
  for (const items of ranks) relax(items, [above, below], left, right, x);
  return x;
}

/**
 * The vertical line on which data enters and leaves, by which the surroundings are aligned.
 * @param {number[][]} ranks
 * @param {Places} x
 * @param {number} firstLane
 */
function spine(ranks, x, firstLane) {
  const ends = (ranks.length ? [ranks[0], ranks[ranks.length - 1]] : [])
    .map((items) => items.filter((i) => i < firstLane).map((i) => at(x, i))).filter((xs) => xs.length);
  return ends.length ? ends.reduce((sum, xs) => sum + (Math.min(...xs) + Math.max(...xs)) / 2, 0) / ends.length : 0;
}

/**
 * The pull of each item's neighbours above and below; lanes pull less, since they only keep edges straight.
 * @param {number[]} ties
 * @param {number} firstLane
 */
function pulls(ties, firstLane) {
  /** @type {Pull} */
  const above = new Map();
  /** @type {Pull} */
  const below = new Map();
  /** @type {(map: Pull, key: number, value: [number, number]) => void} */
  const add = (map, key, value) => {
    const known = map.get(key);
    if (known) known.push(value);
    else map.set(key, [value]);
  };
  for (let k = 0; k < ties.length; k += 2) {
    const a = ties[k], b = ties[k + 1];
    const ends = (a >= firstLane ? 1 : 0) + (b >= firstLane ? 1 : 0);
    const pull = ends === 0 ? 1.0 : ends === 1 ? 0.02 : 0.1;
    add(above, b, [a, pull]);
    add(below, a, [b, pull]);
  }
  return { above, below };
}

/**
 * Pack items side by side, with the row's middle at 0.
 * @param {number[]} items
 * @param {Size} left
 * @param {Size} right
 * @param {Places} x
 */
function pack(items, left, right, x) {
  let cursor = 0;
  for (const i of items) {
    const middle = cursor + left(i);
    x.set(i, middle);
    cursor = middle + right(i) + ITEM_GAP;
  }
  const middle = (cursor - ITEM_GAP) / 2;
  for (const i of items) x.set(i, at(x, i) - middle);
}

/**
 * Move a rank's items towards their neighbours: least squares that keeps the order and the gaps.
 * @param {number[]} items
 * @param {Pull[]} sides
 * @param {Size} left
 * @param {Size} right
 * @param {Places} x
 */
function relax(items, sides, left, right, x) {
  /** @type {number[]} */
  const offsets = [];
  /** @type {[number, number, number][]} */
  const blocks = [];
  let offset = 0;
  items.forEach((item, k) => {
    if (k) offset += right(items[k - 1]) + ITEM_GAP + left(item);
    offsets.push(offset);
    let total = 0, weight = 0;
    for (const side of sides)
      for (const [other, pull] of side.get(item) ?? []) {
        total += at(x, other) * pull;
        weight += pull;
      }
    if (weight === 0) [total, weight] = [at(x, item) * 0.1, 0.1];
    blocks.push([total - offset * weight, weight, 1]);
    for (let n = blocks.length; n > 1; n--) {
      const a = blocks[n - 2], b = blocks[n - 1];
      if (!(a[0] * b[1] > b[0] * a[1])) break;
      blocks.pop();
      for (let f = 0; f < 3; f++) a[f] += b[f];
    }
  });
  let k = 0;
  for (const [total, weight, size] of blocks)
    for (let n = 0; n < size; n++, k++) x.set(items[k], total / weight + offsets[k]);
}

export { HEADER, PADDING, placeContainer };
