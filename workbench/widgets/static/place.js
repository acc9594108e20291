// Coordinates of ranked items of given sizes: the arithmetic of place.py, number for number.

const RANK_GAP = 26, ITEM_GAP = 18, LANE = 5, SWEEPS = 8;
const PADDING = 12, HEADER = 24;

/** Positions of a container's children relative to its own top left corner. */
function placeContainer(container, sizes, firstLane) {
  const { ranks } = container;
  const left = (i) => (i >= firstLane ? LANE : sizes.left[i]);
  const right = (i) => (i >= firstLane ? LANE : sizes.right[i]);
  const x = new Map(), y = new Map(), bands = [];
  let top = 0;
  for (const items of ranks) {
    let height = 0;
    for (const i of items) if (i < firstLane) height = Math.max(height, sizes.height[i]);
    bands.push([top, top + height]);
    for (const i of items) y.set(i, top + (height - (i < firstLane ? sizes.height[i] : 0)) / 2);
    top += height + (height > 0 ? RANK_GAP : 0);
  }
  const { above, below } = (container.pulls ??= pulls(container.ties, firstLane));
  for (const items of ranks) pack(items, left, right, x);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const sides = [sweep % 2 === 0 ? above : below];
    if (sweep % 2 === 0) for (const items of ranks) relax(items, sides, left, right, x);
    else for (let k = ranks.length - 1; k >= 0; k--) relax(ranks[k], sides, left, right, x);
  }
  for (const items of ranks) relax(items, [above, below], left, right, x);
  let low = Infinity, high = -Infinity;
  for (const [i, at] of x) {
    low = Math.min(low, at - left(i));
    high = Math.max(high, at + right(i));
  }
  if (low === Infinity) low = high = 0;
  for (const [i, at] of x) x.set(i, at - low);
  return { x, y, bands, spine: spine(ranks, x, firstLane), width: high - low, height: Math.max(0, top - RANK_GAP) };
}

/** The line that data enters and leaves on: what stands around is placed by it. */
function spine(ranks, x, firstLane) {
  const ends = (ranks.length ? [ranks[0], ranks.at(-1)] : [])
    .map((items) => items.filter((i) => i < firstLane).map((i) => x.get(i))).filter((xs) => xs.length);
  return ends.length ? ends.reduce((sum, xs) => sum + (Math.min(...xs) + Math.max(...xs)) / 2, 0) / ends.length : 0;
}

function pulls(ties, firstLane) {
  const above = new Map(), below = new Map();
  const add = (map, key, value) => (map.has(key) ? map.get(key).push(value) : map.set(key, [value]));
  for (let k = 0; k < ties.length; k += 2) {
    const a = ties[k], b = ties[k + 1];
    const ends = (a >= firstLane ? 1 : 0) + (b >= firstLane ? 1 : 0);
    const pull = ends === 0 ? 1.0 : ends === 1 ? 0.02 : 0.1;
    add(above, b, [a, pull]);
    add(below, a, [b, pull]);
  }
  return { above, below };
}

function pack(items, left, right, x) {
  let cursor = 0;
  for (const i of items) {
    x.set(i, cursor + left(i));
    cursor = x.get(i) + right(i) + ITEM_GAP;
  }
  const middle = (cursor - ITEM_GAP) / 2;
  for (const i of items) x.set(i, x.get(i) - middle);
}

/** Move a rank's items towards their neighbours: least squares that keeps the order and the gaps. */
function relax(items, sides, left, right, x) {
  const blocks = [], offsets = [];
  let offset = 0;
  items.forEach((item, k) => {
    if (k) offset += right(items[k - 1]) + ITEM_GAP + left(item);
    offsets.push(offset);
    let total = 0, weight = 0;
    for (const side of sides)
      for (const [other, pull] of side.get(item) ?? []) {
        total += x.get(other) * pull;
        weight += pull;
      }
    if (weight === 0) [total, weight] = [x.get(item) * 0.1, 0.1];
    blocks.push([total - offset * weight, weight, 1]);
    for (let n = blocks.length; n > 1; n--) {
      const a = blocks[n - 2], b = blocks[n - 1];
      if (!(a[0] * b[1] > b[0] * a[1])) break;
      blocks.pop();
      for (let f = 0; f < 3; f++) a[f] += b[f];
    }
  });
  let k = 0;
  for (const [total, weight, count] of blocks)
    for (let n = 0; n < count; n++, k++) x.set(items[k], total / weight + offsets[k]);
}

export { HEADER, PADDING, placeContainer };
