// A scene: slots, groups and versions of instructions, decoded from columns; which boxes and edges show.

import { HEADER, PADDING, placeContainer } from "./place.js";

const CLOSED_HEIGHT = 40;

class Scene {
  constructor(data) {
    this.data = data;
    this.slots = data.slots.parent.length;
    this.groups = data.groups.key.length;
    this.firstLane = this.slots + this.groups;
    this.bodyOf = new Map();
    data.groups.slot.forEach((slot, g) => slot >= 0 && this.bodyOf.set(slot, g));
    this.rank = new Map();
    for (const c of data.containers) c.ranks.forEach((items, r) => items.forEach((i) => this.rank.set(i, r)));
    this.laneItems = new Map();
    data.lanes.key.forEach((key, k) => {
      const at = data.lanes.container[k] + ":" + key;
      if (!this.laneItems.has(at)) this.laneItems.set(at, []);
      this.laneItems.get(at).push(this.firstLane + k);
    });
    this.cache = new Array(data.nodes.id.length);
  }

  /** One version of an instruction. */
  node(v) {
    const n = this.data.nodes, s = this.data.strings;
    return (this.cache[v] ??= {
      v, id: n.id[v], slot: n.slot[v], module: n.module[v], title: s[n.title[v]], fact: s[n.fact[v]],
      family: n.family[v], opens: !!n.opens[v], width: n.width[v], inputs: n.inputs[v], arguments: n.arguments[v],
      shape: s[n.shape[v]], text: s[n.text[v]],
      chips: n.chips[v].map(([l, id, port]) => ({ label: s[l], id, port: !!port })),
      sources: n.sources[v].map((k) => ({ name: s[k], op: this.data.sources[k]?.[0], scope: this.data.sources[k]?.[1] })),
    });
  }

  itemOf(g) { return this.data.groups.slot[g] < 0 ? this.slots + g : this.data.groups.slot[g]; }
  parentOf(i) { return i < this.slots ? this.data.slots.parent[i] : this.data.groups.parent[i - this.slots]; }
  groupOf(i) { return i >= this.slots ? i - this.slots : this.bodyOf.get(i); }

  /** The groups around a slot, innermost first. */
  chain(slot) {
    const found = [];
    for (let g = this.data.slots.parent[slot]; g >= 0; g = this.data.groups.parent[g]) found.push(g);
    return found;
  }
}

/** Where everything is, for one set of open groups. With `used`, slots outside of it take no room. */
class Layout {
  constructor(scene, open, used = null) {
    this.scene = scene;
    this.open = open;
    const { slots, groups } = scene.data;
    const keep = (list) => (used ? list.map((v, s) => (used.has(s) ? v : 0)) : list.slice());
    const alive = groups.key.map((_, g) => !used || groups.body[g] || this.anyUsed(g, used));
    const half = groups.half.map((w, g) => (alive[g] ? w : 0));
    this.sizes = {
      left: keep(slots.left).concat(half), right: keep(slots.right).concat(half),
      height: keep(slots.height).concat(alive.map((a) => (a ? CLOSED_HEIGHT : 0))),
    };
    this.hidden = new Set(alive.flatMap((a, g) => (a ? [] : [g])));
    this.plans = new Map();
    this.boxes = new Map();
    this.panels = [];
    this.lanes = new Map();
    const plan = this.measure(-1);
    this.width = plan.width;
    this.height = plan.height;
    this.put(-1, 0, 0, 0);
  }

  anyUsed(g, used) {
    this.usedGroups ??= new Set([...used].flatMap((s) => this.scene.chain(s)));
    return this.usedGroups.has(g);
  }

  isOpen(g) { return this.open.has(this.scene.data.groups.key[g]) && !this.hidden.has(g); }

  measure(c) {
    const { scene } = this, container = scene.data.containers[c + 1];
    for (const items of container.ranks)
      for (const i of items) {
        const g = i < scene.firstLane ? scene.groupOf(i) : undefined;
        if (g === undefined || !this.isOpen(g)) continue;
        const plan = this.measure(g);
        const spare = Math.max(0, scene.data.groups.header[g] - plan.width) / 2 + PADDING;
        this.sizes.left[i] = plan.spine + spare;
        this.sizes.right[i] = plan.width - plan.spine + spare;
        this.sizes.height[i] = plan.height + HEADER + PADDING;
      }
    const plan = placeContainer(container, this.sizes, scene.firstLane);
    this.plans.set(c, plan);
    return plan;
  }

  put(c, left, top, depth) {
    const plan = this.plans.get(c), { scene, sizes } = this;
    for (const [i, centre] of plan.x) {
      const x = left + centre, y = top + plan.y.get(i);
      if (i >= scene.firstLane) {
        const band = plan.bands[scene.rank.get(i)];
        this.lanes.set(i, [x, top + band[0], top + band[1]]);
        continue;
      }
      const g = scene.groupOf(i), open = g !== undefined && this.isOpen(g);
      const box = { i, x: x - sizes.left[i], y, cx: x, w: sizes.left[i] + (open ? sizes.right[i] : sizes.left[i]), h: sizes.height[i], g, open, depth };
      this.boxes.set(i, box);
      if (!open) continue;
      this.panels.push(box);
      this.put(g, x - this.plans.get(g).spine, y + HEADER, depth + 1);
    }
  }

  /** The item that a slot is seen as: itself, or the outermost closed group around it. */
  shownAs(slot) {
    let seen = slot;
    for (const g of this.scene.chain(slot)) if (!this.isOpen(g)) seen = this.scene.itemOf(g);
    return seen;
  }

  climb(i) {
    const found = [];
    for (;;) {
      const c = this.scene.parentOf(i);
      found.push([c, i]);
      if (c < 0) return found;
      i = this.scene.itemOf(c);
    }
  }

  along(c, key, before) {
    const lanes = this.scene.laneItems.get(c + ":" + key) ?? [];
    return before === undefined ? lanes : lanes.filter((i) => this.scene.rank.get(i) < before);
  }

  /** The lanes that an edge from a slot takes, between the items that its ends are seen as. */
  route(slot, start, end) {
    const up = this.climb(start), down = this.climb(end);
    const inside = new Map(down), found = [];
    for (const [c, child] of up) {
      if (!inside.has(c)) {
        found.push(...this.along(c, child));
        continue;
      }
      found.push(...this.along(c, child, this.scene.rank.get(inside.get(c))));
      const at = down.findIndex(([d]) => d === c);
      for (let k = at - 1; k >= 0; k--) found.push(...this.along(down[k][0], -1 - slot, this.scene.rank.get(down[k][1])));
      break;
    }
    return found.map((i) => this.lanes.get(i));
  }
}

/** The end of a long name of nested modules. */
const short = (name) => (name.length > 30 ? "…" + name.slice(-24) : name);

/** What one side of a view shows: versions in the program's order, each with a mark or none. */
class Live {
  constructor(scene, order, marks = new Map()) {
    this.scene = scene;
    this.order = order;
    this.marks = marks;
    this.byId = new Map();
    this.bySlot = new Map();
    this.names = new Map();
    this.users = new Map();
    const counts = new Map();
    for (const v of order) {
      const n = scene.node(v), k = counts.get(n.module) ?? 0;
      counts.set(n.module, k + 1);
      this.byId.set(n.id, v);
      if (n.slot >= 0) this.bySlot.set(n.slot, v);
      const prefix = n.module ? short(scene.data.modules[n.module]) + ":" : "";
      this.names.set(n.id, prefix + (n.text.startsWith("@param:") ? n.text.slice(7) : "@" + k));
      for (const a of new Set(n.arguments)) {
        if (!this.users.has(a)) this.users.set(a, []);
        this.users.get(a).push(n.id);
      }
    }
  }

  node(id) { return this.byId.has(id) ? this.scene.node(this.byId.get(id)) : undefined; }
  name(id) { return this.names.get(id) ?? "#" + id; }
}

/** The edges between what shows: flat points (start, two a lane, end) and a bounding box each. */
function edgesOf(layout, live) {
  const found = new Map(), arriving = new Map();
  for (const [slot, v] of live.bySlot) {
    const n = live.scene.node(v), end = layout.shownAs(slot);
    for (const id of n.inputs) {
      const s = live.node(id);
      if (!s || s.slot < 0 || s.module !== n.module) continue;
      const start = layout.shownAs(s.slot), key = s.slot + "," + start + "," + end;
      if (start === end || found.has(key)) continue;
      const a = layout.boxes.get(start), points = [a.cx, a.y + (a.open && !s.opens && start === s.slot ? CLOSED_HEIGHT : a.h)];
      for (const [x, top, bottom] of layout.route(s.slot, start, end)) points.push(x, top, x, bottom);
      const edge = { source: id, user: n.id, start, end, points };
      found.set(key, edge);
      if (!arriving.has(end)) arriving.set(end, []);
      arriving.get(end).push(edge);
    }
  }
  for (const [end, edges] of arriving) {
    const b = layout.boxes.get(end);
    edges.sort((p, q) => p.points.at(-2) - q.points.at(-2));
    const gap = Math.min(16, (b.w * 0.6) / edges.length);
    edges.forEach((e, k) => e.points.push(b.cx + (k - (edges.length - 1) / 2) * gap, b.y));
  }
  const all = [...found.values()];
  for (const e of all) {
    e.x0 = e.y0 = Infinity;
    e.x1 = e.y1 = -Infinity;
    for (let k = 0; k < e.points.length; k += 2) {
      e.x0 = Math.min(e.x0, e.points[k]); e.x1 = Math.max(e.x1, e.points[k]);
      e.y0 = Math.min(e.y0, e.points[k + 1]); e.y1 = Math.max(e.y1, e.points[k + 1]);
    }
  }
  return all;
}

export { Layout, Live, Scene, edgesOf };
