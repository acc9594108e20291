// The layout for one set of open groups: boxes, panels, lanes, and the edges between visible items.

import { HEADER, PADDING, placeContainer } from "./place.js";
import { listAt } from "./scene.js";

const CLOSED_HEIGHT = 40;

/** The places of all items; with `used`, of those of these slots. */
class Layout {
  /**
   * @param {Scene} scene
   * @param {Set<string>} open keys of the open groups
   * @param {Set<number> | null} used
   */
  constructor(scene, open, used = null) {
    this.scene = scene;
    this.open = open;
    const { groups } = scene.data, { left, right, height } = scene.sizes, half = Array.from(groups.half);
    /** @type {Sizes} */
    this.sizes = { left: left.concat(half), right: right.concat(half), height: height.concat(half.map(() => CLOSED_HEIGHT)) };
    /** The items that have places, or null for all. @type {Set<number> | null} */
    this.used = used && new Set([...used, ...[...used].flatMap((s) => scene.chain(s)).map((g) => scene.itemOf(g))]);
    /** The visible item of what is in each group, or −1 if it is open. @type {Map<number, number>} */
    this.shut = new Map();
    /** @type {Map<number, Plan>} */
    this.plans = new Map();
    /** @type {Map<number, Box>} */
    this.boxes = new Map();
    /** @type {(Box & { g: number })[]} */
    this.panels = [];
    /** @type {Map<number, Lane>} */
    this.lanes = new Map();
    const plan = this.measure(-1);
    this.width = plan.width;
    this.height = plan.height;
    this.put(plan, 0, 0, 0);
  }

  /** @param {number} g */
  isOpen(g) { return this.open.has(this.scene.data.groups.key[g]); }

  /**
   * A container's children that have places: used items, and the lanes of edges from them.
   * @param {number} c
   * @returns {Container}
   */
  content(c) {
    const { scene, used } = this, container = scene.container(c);
    if (!used) return container;
    /** @type {(i: number) => boolean} */
    const lives = (i) => {
      const key = i < scene.firstLane ? i : scene.order.lanes[i - scene.firstLane];
      return used.has(key < 0 ? -1 - key : key);
    };
    const ties = [];
    for (let k = 0; k < container.ties.length; k += 2) if (lives(container.ties[k]) && lives(container.ties[k + 1])) ties.push(container.ties[k], container.ties[k + 1]);
    return { ranks: container.ranks.map((items) => items.filter(lives)), ties };
  }

  /**
   * The box of an item that is known to have one.
   * @param {number} i
   */
  box(i) { return /** @type {Box} */ (this.boxes.get(i)); }

  /**
   * Plan a container, the open groups inside it first.
   * @param {number} c the group, or −1 for the whole
   */
  measure(c) {
    const { scene, sizes } = this, container = this.content(c);
    for (const items of container.ranks) for (const i of items) {
      const g = i < scene.firstLane ? scene.groupOf(i) : undefined;
      if (g === undefined || !this.isOpen(g)) continue;
      const plan = this.measure(g);
      const spare = Math.max(0, scene.data.groups.header[g] - plan.width) / 2 + PADDING;
      sizes.left[i] = plan.spine + spare;
      sizes.right[i] = plan.width - plan.spine + spare;
      sizes.height[i] = plan.height + HEADER + PADDING;
    }
    const plan = placeContainer(container, sizes, scene.firstLane);
    this.plans.set(c, plan);
    return plan;
  }

  /**
   * Place the items of a plan, and those inside them.
   * @param {Plan} plan
   * @param {number} left
   * @param {number} top
   * @param {number} depth
   */
  put(plan, left, top, depth) {
    const { scene, sizes } = this;
    for (const [i, centre] of plan.x) {
      const x = left + centre, y = top + (plan.y.get(i) ?? 0);
      if (i >= scene.firstLane) {
        const band = plan.bands[scene.rank(i)];
        this.lanes.set(i, [x, top + band[0], top + band[1]]);
        continue;
      }
      const g = scene.groupOf(i), inside = g !== undefined && this.isOpen(g) ? this.plans.get(g) : undefined;
      const w = sizes.left[i] + (inside ? sizes.right[i] : sizes.left[i]);
      const box = { i, x: x - sizes.left[i], y, cx: x, w, h: sizes.height[i], g, open: !!inside, depth };
      this.boxes.set(i, box);
      if (!inside || g === undefined) continue;
      this.panels.push({ ...box, g });
      this.put(inside, x - inside.spine, y + HEADER, depth + 1);
    }
  }

  /** The visible item of a slot: itself, or the outermost closed group around it. @param {number} slot */
  shownAs(slot) {
    const seen = this.shownIn(this.scene.data.slots.parent[slot]);
    return seen < 0 ? slot : seen;
  }

  /**
   * The outermost closed group around what is in a group, as an item; −1 if all are open.
   * @param {number} g
   * @returns {number}
   */
  shownIn(g) {
    if (g < 0) return -1;
    const known = this.shut.get(g);
    if (known !== undefined) return known;
    const outer = this.shownIn(this.scene.data.groups.parent[g]), seen = outer >= 0 || this.isOpen(g) ? outer : this.scene.itemOf(g);
    this.shut.set(g, seen);
    return seen;
  }

  /**
   * The containers around an item, innermost first, each with the child that contains the item.
   * @param {number} i
   */
  climb(i) {
    /** @type {[container: number, child: number][]} */
    const found = [];
    for (;;) {
      const c = this.scene.parentOf(i);
      found.push([c, i]);
      if (c < 0) return found;
      i = this.scene.itemOf(c);
    }
  }

  /**
   * The lanes of a container with a key, or those of them above a rank.
   * @param {number} c
   * @param {number} key
   * @param {number} [before]
   */
  along(c, key, before) {
    const lanes = this.scene.lanes(c, key);
    return before === undefined ? lanes : lanes.filter((i) => this.scene.rank(i) < before);
  }

  /**
   * The lanes of an edge from a slot, between the visible items of its ends.
   * @param {number} slot
   * @param {number} start
   * @param {number} end
   * @returns {Lane[]}
   */
  route(slot, start, end) {
    const down = this.climb(end), inside = new Map(down), { scene } = this, found = [];
    for (const [c, child] of this.climb(start)) {
      const last = inside.get(c);
      found.push(...this.along(c, child, last === undefined ? undefined : scene.rank(last)));
      if (last === undefined) continue;
      const at = down.findIndex(([d]) => d === c);
      for (let k = at - 1; k >= 0; k--) found.push(...this.along(down[k][0], -1 - slot, scene.rank(down[k][1])));
      break;
    }
    return found.flatMap((i) => { const lane = this.lanes.get(i); return lane ? [lane] : []; });
  }
}

/**
 * The edges between visible items, as flat points (start, two per lane, end) with a bounding box.
 * @param {Layout} layout
 * @param {Live} live
 * @returns {Edge[]}
 */
function edgesOf(layout, live) {
  const { nodes } = live.scene.data, { slot: slots, module } = nodes, items = live.scene.firstLane;
  /** The source and start of the edges that have been found, by end. @type {Map<number, Set<number>>} */
  const found = new Map();
  /** @type {Edge[]} */
  const all = [];
  /** @type {Map<number, Edge[]>} */
  const arriving = new Map();
  for (const [slot, v] of live.bySlot) {
    const end = layout.shownAs(slot);
    /** @type {(id: number, dashed: boolean) => void} */
    const join = (id, dashed) => {
      const u = live.byId.get(id);
      if (u === undefined || slots[u] < 0 || module[u] !== module[v]) return;
      const start = layout.shownAs(slots[u]);
      if (start === end) return;
      const key = slots[u] * items + start, into = found.get(end) ?? new Set();
      if (into.has(key)) return;
      const edge = { source: id, user: nodes.id[v], start, end, dashed, points: leaving(layout, slots[u], !!nodes.opens[u], start, end), x0: 0, y0: 0, x1: 0, y1: 0 };
      found.set(end, into.add(key));
      all.push(edge);
      listAt(arriving, end).push(edge);
    };
    const inputs = live.scene.inputs(v);
    for (const id of inputs) if (!live.through?.has(id)) join(id, false);
    if (live.through) for (const id of inputs) for (const above of live.through.get(id) ?? []) join(above, true);
  }
  for (const [end, edges] of arriving) arrive(layout.box(end), edges);
  for (const e of all) bound(e);
  return all;
}

/**
 * The points of an edge up to the last lane.
 * @param {Layout} layout
 * @param {number} slot the slot of its source
 * @param {boolean} opens whether the source has a body
 * @param {number} start
 * @param {number} end
 */
function leaving(layout, slot, opens, start, end) {
  const a = layout.box(start), points = [a.cx, a.y + (a.open && !opens && start === slot ? CLOSED_HEIGHT : a.h)];
  for (const [x, top, bottom] of layout.route(slot, start, end)) points.push(x, top, x, bottom);
  return points;
}

/**
 * Spread the ends of a box's incoming edges over its top.
 * @param {Box} box
 * @param {Edge[]} edges
 */
function arrive(box, edges) {
  edges.sort((p, q) => p.points[p.points.length - 2] - q.points[q.points.length - 2]);
  const gap = Math.min(16, (box.w * 0.6) / edges.length);
  edges.forEach((e, k) => e.points.push(box.cx + (k - (edges.length - 1) / 2) * gap, box.y));
}

/** @param {Edge} e */
function bound(e) {
  const { points } = e;
  [e.x0, e.y0, e.x1, e.y1] = [points[0], points[1], points[0], points[1]];
  for (let k = 2; k < points.length; k += 2) {
    e.x0 = Math.min(e.x0, points[k]);
    e.x1 = Math.max(e.x1, points[k]);
    e.y0 = Math.min(e.y0, points[k + 1]);
    e.y1 = Math.max(e.y1, points[k + 1]);
  }
}

export { Layout, edgesOf };
