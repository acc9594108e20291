// The graph for screen readers and the keyboard: a hidden tree of the boxes in view, and arrow keys to walk it.

import { h, take, targetOf } from "./dom.js";

const SHOWN = 120;
/** @type {Record<string, [down: number, across: number]>} */
const STEPS = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

class Tree {
  /** @param {Pane} pane */
  constructor(pane) {
    this.pane = pane;
    this.prefix = "wb" + Math.random().toString(36).slice(2, 8);
    this.mirrored = "";
    /** @type {number | undefined} */
    this.timer = undefined;
    this.el = h("div", {
      class: "wb-tree", role: "tree", tabIndex: 0, "aria-label": pane.label, onkeydown: (/** @type {KeyboardEvent} */ e) => this.key(e),
      onfocus: () => pane.el.classList.add("wb-focus"), onblur: () => pane.el.classList.remove("wb-focus"),
      onclick: (/** @type {MouseEvent} */ e) => {
        const { item } = targetOf(e).dataset;
        if (item !== undefined) this.choose(pane.byItem.get(+item));
      },
    });
  }

  focus() { this.el.focus({ preventScroll: true }); }

  /** Mirror the boxes in view; called after each draw, it does nothing unless they changed. */
  update() {
    const current = this.current();
    let shown = this.pane.visible.slice(0, SHOWN);
    if (current && !shown.includes(current)) shown = [current, ...shown];
    const key = shown.map((b) => `${b.i}.${b.v ?? ""}.${b.mark ?? ""}.${this.pane.hitsOf(b.i)}`).join() + "|" + (current?.i ?? "");
    if (key === this.mirrored) return;
    this.mirrored = key;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.mirror(shown, current), 60);
  }

  /**
   * @param {Item[]} shown
   * @param {Item | undefined} current
   */
  mirror(shown, current) {
    const { items } = this.pane, order = new Map(items.map((b, k) => [b, k + 1]));
    this.el.replaceChildren(...shown.map((b) =>
      h("div", {
        role: "treeitem", id: this.prefix + b.i, "data-item": b.i, "aria-level": 1 + this.depth(b), "aria-posinset": order.get(b),
        "aria-setsize": items.length, "aria-selected": String(b === current), "aria-expanded": b.opens ? "false" : undefined,
      }, this.say(b))));
    if (current) this.el.setAttribute("aria-activedescendant", this.prefix + current.i);
    else this.el.removeAttribute("aria-activedescendant");
  }

  /** @param {Item} b */
  depth(b) {
    const { scene } = this.pane.live;
    let depth = 0;
    for (let g = scene.parentOf(b.i); g >= 0; g = scene.data.groups.parent[g]) depth++;
    return depth;
  }

  /** An item in words. @param {Item} b */
  say(b) {
    const hits = this.pane.hitsOf(b.i);
    if (b.id === undefined) return `${b.title}, closed group, ${b.fact}${hits ? `, ${hits} found` : ""}`;
    const chips = b.chips.length ? `, with ${b.chips.map((c) => c.label).join(", ")}` : "";
    return `${this.pane.live.name(b.id)} ${b.title}${b.fact ? ", " + b.fact : ""}${b.mark ? ", " + b.mark : ""}${chips}${hits ? ", found" : ""}`;
  }

  /** The item with the keyboard's focus. */
  current() {
    const { byItem, cursor, owner } = this.pane;
    if (cursor !== undefined && byItem.has(cursor)) return byItem.get(cursor);
    const item = owner.selected === null ? undefined : this.pane.itemFor(owner.selected);
    return item === undefined ? undefined : byItem.get(item);
  }

  /** Go to an item. @param {Item | undefined} b */
  choose(b) {
    const { pane } = this;
    if (!b) return;
    pane.owner.select(b.id ?? null, pane);
    pane.cursor = b.group ? b.i : undefined;
    pane.reveal(b.i);
    pane.owner.say(this.say(b));
  }

  /** Arrows walk the graph: up and down along edges, left and right to neighbours on the same row. @param {KeyboardEvent} e */
  key(e) {
    const { pane } = this, b = this.current(), step = STEPS[e.key];
    if (e.altKey || e.ctrlKey || e.metaKey) return;
    if (step) this.choose(b ? this.walk(b, ...step) : this.first());
    else if (e.key === "Enter" || e.key === " ") this.enter(b);
    else if (e.key === "Escape") this.escape(b);
    else if (e.key === "+" || e.key === "=") pane.zoom(1.25);
    else if (e.key === "-") pane.zoom(0.8);
    else if (e.key === "0") pane.fitAll();
    else if (e.key === "PageDown" || e.key === "PageUp") pane.pan(0, (e.key === "PageDown" ? 0.8 : -0.8) * pane.h);
    else if (!pane.owner.key(e)) return;
    take(e);
  }

  first() { return this.pane.visible[0] ?? this.pane.items[0]; }

  /**
   * The next item in a direction, if there is one.
   * @param {Item} b
   * @param {number} down
   * @param {number} across
   */
  walk(b, down, across) {
    const { items, edges, byItem } = this.pane;
    if (across) {
      const row = items.filter((o) => Math.abs(o.y + o.h / 2 - b.y - b.h / 2) < 34 && (o.x - b.x) * across > 0);
      return row.toSorted((p, q) => Math.abs(p.x - b.x) - Math.abs(q.x - b.x)).at(0);
    }
    const ends = down > 0 ? edges.filter((e) => e.start === b.i).map((e) => e.end) : edges.filter((e) => e.end === b.i).map((e) => e.start);
    const near = ends.flatMap((i) => byItem.get(i) ?? []).toSorted((p, q) => Math.abs(p.y - b.y) - Math.abs(q.y - b.y) || p.x - q.x);
    return near.at(0) ?? this.nearest(b, down);
  }

  /**
   * If an edge ends at an open panel, the next box in that direction is taken instead.
   * @param {Item} b
   * @param {number} down
   */
  nearest(b, down) {
    /** @type {(o: Item) => number} */
    const far = (o) => Math.abs(o.y - b.y) + Math.abs(o.x + o.w / 2 - b.x - b.w / 2) * 1.5;
    return this.pane.items.filter((o) => (o.y - b.y) * down > 0).toSorted((p, q) => far(p) - far(q)).at(0);
  }

  /** Open a group or body and go to the first box in it, or select the node. @param {Item | undefined} b */
  enter(b) {
    const { pane } = this, { scene } = pane.live, g = b?.key ? scene.data.groups.key.indexOf(b.key) : -1;
    if (b?.key) {
      pane.owner.toggle(b.key);
      this.choose(pane.items.find((o) => scene.parentOf(o.i) === g) ?? pane.items.find((o) => this.isIn(o, g)));
    } else if (b) this.pane.owner.select(b.id ?? null, this.pane);
    else this.choose(this.first());
  }

  /**
   * @param {Item} b
   * @param {number} group
   */
  isIn(b, group) {
    const { scene } = this.pane.live;
    let g = scene.parentOf(b.i);
    while (g >= 0 && g !== group) g = scene.data.groups.parent[g];
    return g === group;
  }

  /** Close the group around the current node; without one, clear the selection. @param {Item | undefined} b */
  escape(b) {
    const { pane } = this, { scene } = pane.live, g = b ? scene.parentOf(b.i) : -1;
    if (g < 0) return pane.owner.select(null, pane);
    pane.cursor = scene.itemOf(g);
    pane.owner.toggle(scene.data.groups.key[g]);
  }
}

export { Tree };
