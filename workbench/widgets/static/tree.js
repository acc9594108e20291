// The graph for screen readers and the keyboard: a hidden tree of what is in view, and arrow keys that walk it.

import { h } from "./dom.js";

const SHOWN = 120;

class Tree {
  constructor(pane) {
    this.pane = pane;
    this.prefix = "wb" + Math.random().toString(36).slice(2, 8);
    this.el = h("div", { class: "wb-tree", role: "tree", tabIndex: 0, "aria-label": pane.label });
    this.el.addEventListener("keydown", (e) => this.key(e));
    this.el.addEventListener("focus", () => pane.el.classList.add("wb-focus"));
    this.el.addEventListener("blur", () => pane.el.classList.remove("wb-focus"));
    this.el.addEventListener("click", (e) => {
      const i = e.target.dataset?.item;
      if (i !== undefined) this.choose(pane.byItem.get(+i));
    });
  }

  focus() { this.el.focus({ preventScroll: true }); }

  /** Mirror the boxes in view; called after each draw, works only when they changed. */
  update() {
    const { pane } = this, current = this.current();
    let shown = (pane.visible ?? []).slice(0, SHOWN);
    if (current && !shown.includes(current)) shown = [current, ...shown];
    const key = shown.map((b) => `${b.i}.${b.v ?? ""}.${b.mark ?? ""}`).join() + "|" + (current?.i ?? "");
    if (key === this.key_) return;
    this.key_ = key;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(shown, current), 60);
  }

  write(shown, current) {
    const { pane } = this, total = pane.items.length;
    const place = new Map(pane.items.map((b, k) => [b, k + 1]));
    this.el.replaceChildren(...shown.map((b) =>
      h("div", {
        role: "treeitem", id: this.prefix + b.i, "data-item": b.i, "aria-level": 1 + this.depth(b), "aria-posinset": place.get(b),
        "aria-setsize": total, "aria-selected": b === current ? "true" : "false", "aria-expanded": b.opens ? "false" : undefined,
      }, this.say(b))));
    if (current) this.el.setAttribute("aria-activedescendant", this.prefix + current.i);
    else this.el.removeAttribute("aria-activedescendant");
  }

  depth(b) {
    const { scene } = this.pane.live;
    let depth = 0;
    for (let g = scene.parentOf(b.i); g >= 0; g = scene.data.groups.parent[g]) depth++;
    return depth;
  }

  say(b) {
    if (b.group) return `${b.title}, closed group, ${b.fact}`;
    const chips = b.chips.length ? `, with ${b.chips.map((c) => c.label).join(", ")}` : "";
    return `${this.pane.live.name(b.id)} ${b.title}${b.fact ? ", " + b.fact : ""}${b.mark ? ", " + b.mark : ""}${chips}`;
  }

  current() {
    const { pane } = this;
    if (pane.cursor !== undefined && pane.byItem?.has(pane.cursor)) return pane.byItem.get(pane.cursor);
    const id = pane.owner.selected;
    return id === null || id === undefined ? undefined : pane.byItem?.get(pane.itemFor(id));
  }

  choose(b) {
    const { pane } = this;
    if (!b) return;
    pane.cursor = b.group ? b.i : undefined;
    pane.owner.select(b.group ? null : b.id, pane);
    pane.reveal(b.i);
    pane.owner.say?.(this.say(b));
  }

  /** Arrows walk the graph: up and down along edges, left and right to neighbours on the same row. */
  key(e) {
    const { pane } = this, b = this.current();
    const steps = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (e.altKey || e.ctrlKey || e.metaKey) return;
    if (steps[e.key]) this.choose(b ? this.walk(b, ...steps[e.key]) : this.first());
    else if (e.key === "Enter" || e.key === " ") this.enter(b);
    else if (e.key === "Escape") this.escape(b);
    else if (e.key === "+" || e.key === "=") pane.zoom(1.25);
    else if (e.key === "-") pane.zoom(0.8);
    else if (e.key === "0") pane.fitAll();
    else if (e.key === "PageDown" || e.key === "PageUp") pane.pan(0, (e.key === "PageDown" ? 0.8 : -0.8) * pane.h);
    else if (!pane.owner.key?.(e)) return;
    e.preventDefault();
    e.stopPropagation();
  }

  first() { return this.pane.visible?.[0] ?? this.pane.items[0]; }

  walk(b, down, across) {
    const { items, edges, byItem } = this.pane;
    if (across) {
      const row = items.filter((o) => Math.abs(o.y + o.h / 2 - b.y - b.h / 2) < 34 && (o.x - b.x) * across > 0);
      return row.sort((p, q) => Math.abs(p.x - b.x) - Math.abs(q.x - b.x))[0];
    }
    const ends = down > 0 ? edges.filter((e) => e.start === b.i).map((e) => e.end) : edges.filter((e) => e.end === b.i).map((e) => e.start);
    const near = ends.map((i) => byItem.get(i)).filter(Boolean);
    near.sort((p, q) => Math.abs(p.y - b.y) - Math.abs(q.y - b.y) || p.x - q.x);
    return near[0] ?? this.nearest(b, down);
  }

  /** Where an edge ends at an open panel, the next box in that direction stands in. */
  nearest(b, down) {
    const ahead = this.pane.items.filter((o) => (o.y - b.y) * down > 0);
    const far = (o) => Math.abs(o.y - b.y) + Math.abs(o.x + o.w / 2 - b.x - b.w / 2) * 1.5;
    return ahead.reduce((best, o) => (!best || far(o) < far(best) ? o : best), undefined);
  }

  enter(b) {
    if (b?.key) this.pane.owner.toggle(b.key, this.pane);
    else if (b) this.pane.owner.select(b.id, this.pane);
    else this.choose(this.first());
  }

  /** Close the group around the current node; with nothing around it, let go of the selection. */
  escape(b) {
    const { pane } = this, scene = pane.live.scene, g = b ? scene.parentOf(b.i) : -1;
    if (g < 0) return pane.owner.select(null, pane);
    pane.cursor = scene.itemOf(g);
    pane.owner.toggle(scene.data.groups.key[g], pane);
  }
}

export { Tree };
