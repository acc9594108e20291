// One canvas with a graph: contents, camera and drawing. The mouse and the tree are separate modules.

import { centring, fitted, home, leastZoom, panned, revealing, zoomed } from "./camera.js";
import { drawEdgeLabel, drawEdges, drawHeader, drawNode, drawPanel } from "./draw.js";
import { edgesOf } from "./layout.js";
import { h } from "./dom.js";
import { itemsOf } from "./items.js";
import { Mouse } from "./mouse.js";
import { Tree } from "./tree.js";

const FADE_MS = 150, MAP = 48, GUTTER = 12, NARROW = 400;
const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** @typedef {(place: Place, right?: number) => boolean} Seen */
/** @typedef {{ x0: number, y0: number, sx: number, sy: number }} Minimap */

/** A view of `live` at the places of `layout`, drawn from the first `show` on. Events go to `owner`. */
class Pane {
  /**
   * @param {Owner} owner
   * @param {string} label
   * @param {Live} live
   * @param {Layout} layout
   */
  constructor(owner, label, live, layout) {
    this.owner = owner;
    this.label = label;
    this.live = live;
    this.layout = layout;
    /** @type {Camera} */
    this.cam = { x: 0, y: 0, k: 1 };
    this.placed = this.shown = false;
    this.w = this.h = 0;
    /** The items and the overlay that gave them their colours. @type {{ items: Item[], overlay: Overlay | null } | null} */
    this.tinted = null;
    /** Whether there is a minimap, where the pane is wide enough. */
    this.hasMap = true;
    /** The number of hits of each item, those in it included, for one set of hits. @type {{ found: Set<number>, counts: Map<number, number> } | null} */
    this.counted = null;
    this.dpr = 1;
    /** @type {Item[]} */
    this.items = [];
    /** @type {Map<number, Item>} */
    this.byItem = new Map();
    /** @type {Item[]} */
    this.visible = [];
    /** Removed versions, while they fade out. @type {Item[]} */
    this.ghosts = [];
    /** @type {(Box & { g: number })[]} */
    this.panels = [];
    /** @type {Map<number, number>} */
    this.within = new Map();
    /** @type {Edge[]} */
    this.edges = [];
    /** @type {Item | null} */
    this.hover = null;
    /** The closed group with the keyboard's focus; for instructions, that is the owner's selection. @type {number | undefined} */
    this.cursor = undefined;
    /** @type {Minimap | null} */
    this.map = null;
    /** @type {{ start: number, live: Live } | null} */
    this.fading = null;
    /** @type {number | null} */
    this.pending = null;
    this.gone = false;
    /** @type {{ frames: number, last: number, worst: number, firstPaint: number | null }} */
    this.stats = { frames: 0, last: 0, worst: 0, firstPaint: null };
    this.canvas = h("canvas", { class: "wb-canvas", "aria-hidden": "true" });
    this.tree = new Tree(this);
    this.mouse = new Mouse(this);
    this.note = h("p", { class: "wb-empty", hidden: true });
    this.el = h("div", { class: "wb-pane" }, this.canvas, this.note, this.tree.el, this.mouse.tip);
    Object.assign(this.canvas, { __wb: this.hook() });
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.el);
  }

  destroy() {
    this.observer.disconnect();
    this.gone = true;
  }

  /**
   * Show other versions or another layout; common places do not move.
   * @param {Live} live
   * @param {Layout} layout
   */
  show(live, layout) {
    const before = this.live, fades = this.shown && before !== live && before.slots === live.slots && !isStill();
    const old = fades ? itemsOf(before, layout).items.filter((b) => !b.group) : [];
    this.shown = true;
    this.layout = layout;
    this.live = live;
    this.fading = fades ? { start: performance.now(), live: before } : null;
    this.edges = edgesOf(layout, live);
    Object.assign(this, itemsOf(live, layout));
    this.byItem = new Map(this.items.map((b) => [b.i, b]));
    this.visible = this.items;
    this.ghosts = old.filter((b) => this.byItem.get(b.i)?.v !== b.v);
    this.map = this.counted = null;
    this.note.hidden = this.items.length > 0;
    this.note.textContent = this.note.hidden ? "" : this.owner.empty();
    this.dirty();
  }

  // Camera

  /** The width of the minimap's column. */
  get side() { return this.hasMap && this.w >= NARROW ? MAP : 0; }

  resize() {
    const { width, height } = this.el.getBoundingClientRect();
    if (!width || !height) return;
    this.w = width;
    this.h = height;
    this.dpr = Math.min(3, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(width * this.dpr);
    this.canvas.height = Math.round(height * this.dpr);
    if (!this.placed && this.shown) {
      this.home();
      const { selected } = this.owner, item = selected === null ? undefined : this.itemFor(selected);
      if (item !== undefined) this.reveal(item);
    }
    this.map = null;
    this.draw();
  }

  /** Go to the initial camera. */
  home() {
    if (this.w) this.move(home(this, this.layout, this.items[0]));
  }

  /** Fit the whole graph. */
  fitAll() { this.move(fitted(this, this.layout)); }

  /** Set the camera without notifying the owner. @param {Camera} camera */
  setCamera(camera) {
    this.cam = { ...camera };
    this.placed = true;
    this.dirty();
  }

  /** Set the camera. @param {Camera} camera */
  move(camera) {
    this.setCamera(camera);
    this.owner.moved(this);
  }

  /**
   * @param {number} factor
   * @param {number} sx
   * @param {number} sy
   */
  zoom(factor, sx = this.w / 2, sy = this.h / 2) { this.move(zoomed(this.cam, factor, sx, sy, leastZoom(this, this.layout))); }

  /**
   * Move by pixels; returns whether that was possible.
   * @param {number} dx
   * @param {number} dy
   */
  pan(dx, dy) {
    const to = panned(this.cam, dx, dy, this, this.layout), changed = to.x !== this.cam.x || to.y !== this.cam.y;
    if (changed) this.move(to);
    return changed;
  }

  /** Scroll to an item by the least distance. @param {number} i */
  reveal(i) {
    const b = this.byItem.get(i) ?? this.layout.boxes.get(i);
    if (!b || !this.w) return;
    const to = revealing(this.cam, b, this);
    if (to !== this.cam) this.move(to);
  }

  /** Put an item in the middle. @param {number} i */
  centre(i) {
    const b = this.byItem.get(i) ?? this.layout.boxes.get(i);
    if (b && this.w) this.move(centring(this.cam, b, this));
  }

  /** The number of hits that an item shows, in it or on it. @param {number} i */
  hitsOf(i) {
    const { found } = this.owner;
    if (this.counted?.found !== found) {
      /** @type {Map<number, number>} */
      const counts = new Map();
      for (const id of found) {
        const item = this.itemFor(id);
        if (item !== undefined) counts.set(item, (counts.get(item) ?? 0) + 1);
      }
      this.counted = { found, counts };
    }
    return this.counted.counts.get(i) ?? 0;
  }

  /** The visible item of an instruction: its box, its group's, or the node that has it as a chip. @param {number} id */
  itemFor(id) {
    const slot = this.live.slotOf(id);
    return slot === undefined ? undefined : this.layout.shownAs(slot);
  }

  // Drawing

  dirty() {
    if (this.pending || this.gone) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = null;
      this.draw();
    });
  }

  draw() {
    const ctx = this.canvas.getContext("2d");
    if (!this.w || !this.shown || this.gone || !ctx) return;
    const start = performance.now(), { cam, dpr } = this, age = this.fading ? Math.min(1, (start - this.fading.start) / FADE_MS) : 1;
    if (age >= 1) this.fading = null;
    this.tint();
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.clearRect(0, 0, this.w, this.h);
    ctx.setTransform(dpr * cam.k, 0, 0, dpr * cam.k, -cam.x * dpr * cam.k, -cam.y * dpr * cam.k);
    this.drawGraph(ctx, age);
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    this.drawMap(ctx);
    this.tree.update();
    this.measure(start);
    if (this.fading) this.dirty();
  }

  /** @param {number} start */
  measure(start) {
    const s = this.stats, now = performance.now();
    s.frames++;
    s.last = now - start;
    s.worst = Math.max(s.worst, s.last);
    s.firstPaint ??= now;
  }

  /**
   * Draw the panels, edges, texts and nodes that are in view.
   * @param {Context} ctx
   * @param {number} age how far new items have faded in
   */
  drawGraph(ctx, age) {
    const { cam, owner } = this, { theme } = owner, x1 = cam.x + this.w / cam.k, y1 = cam.y + this.h / cam.k;
    /** @type {Seen} */
    const seen = (b, right = 140) => b.x < x1 && b.x + b.w + right > cam.x && b.y < y1 && b.y + b.h > cam.y;
    /** @type {(e: Edge, id: number | null | undefined) => boolean} */
    const touches = (e, id) => id !== null && id !== undefined && (e.source === id || e.user === id);
    const edges = this.edges.filter((e) => e.x0 < x1 && e.x1 > cam.x && e.y0 < y1 && e.y1 > cam.y), over = this.hover?.id;
    this.drawPanels(ctx, seen);
    drawEdges(ctx, edges, theme, cam.k, (e) => touches(e, owner.selected) || touches(e, over));
    if (cam.k >= 0.3) for (const b of this.panels) if (seen(b, 0)) drawHeader(ctx, b, this.titleOf(b), this.live.scene.partial ? "…" : String(this.within.get(b.g) ?? 0), theme);
    this.drawNodes(ctx, seen, age);
    if (cam.k > 0.5) for (const e of edges) if (cam.k > 2 || touches(e, over)) drawEdgeLabel(ctx, e, shapeText(this.live.node(e.source)), theme);
  }

  /** @param {Box & { g: number }} panel */
  titleOf(panel) {
    const { bySlot, scene } = this.live, v = bySlot.get(panel.i);
    return v === undefined ? scene.data.groups.label[panel.g] : scene.node(v).title;
  }

  /**
   * @param {Context} ctx
   * @param {Seen} seen
   */
  drawPanels(ctx, seen) {
    const { theme, selected } = this.owner;
    for (const b of this.panels) {
      if (!seen(b, 0)) continue;
      const v = this.live.bySlot.get(b.i), n = v === undefined ? undefined : this.live.scene.node(v), mark = n && this.live.marks.get(n.v);
      drawPanel(ctx, b, theme, this.cam.k, n && theme.families[n.family]);
      if (n && (n.id === selected || mark)) {
        const frame = { ...b, title: "", fact: "", chips: [], group: false, opens: false, family: n.family, color: "#00000000" };
        drawNode(ctx, { ...frame, mark, selected: n.id === selected }, theme, this.cam.k);
      }
    }
  }

  /**
   * @param {Context} ctx
   * @param {Seen} seen
   * @param {number} age
   */
  drawNodes(ctx, seen, age) {
    const { theme, selected } = this.owner, item = selected === null ? undefined : this.itemFor(selected);
    ctx.globalAlpha = 1 - age;
    if (age < 1) for (const b of this.ghosts) if (seen(b)) drawNode(ctx, b, theme, this.cam.k);
    this.visible = this.items.filter((b) => seen(b));
    for (const b of this.visible) {
      ctx.globalAlpha = this.fading && !b.group && this.fading.live.bySlot.get(b.i) !== b.v ? age : 1;
      drawNode(ctx, this.dress(b, b.i === item, selected), theme, this.cam.k);
    }
    ctx.globalAlpha = 1;
  }

  /**
   * Set the appearance of an item: selection and hits.
   * @param {Item} b
   * @param {boolean} here whether this item shows the selected instruction
   * @param {number | null} selected
   */
  dress(b, here, selected) {
    b.selected = (here && (b.group || b.id === selected)) || b.i === this.cursor;
    b.selectedChip = here && !b.group && b.id !== selected ? selected : null;
    b.hovered = this.hover === b;
    b.starred = b.id !== undefined && this.owner.bookmarks.list.some(([id]) => id === b.id);
    b.found = b.id !== undefined && this.owner.found.has(b.id);
    b.hits = this.hitsOf(b.i) - (b.found ? 1 : 0);
    return b;
  }

  /** Give all items the colours and numbers of the overlay, once per overlay. */
  tint() {
    const { owner } = this;
    if (this.tinted?.items === this.items && this.tinted.overlay === owner.overlay) return;
    this.tinted = { items: this.items, overlay: owner.overlay };
    for (const b of this.items) {
      const overlay = owner.colorOf(b);
      b.color = overlay?.color;
      b.strip = overlay?.strip;
      b.blank = !overlay && owner.overlay !== null;
      b.fact = overlay?.text || b.own;
    }
  }

  /** The minimap: the whole graph, with the visible part to drag. @param {Context} ctx */
  drawMap(ctx) {
    const { cam, layout } = this, { theme } = this.owner, tall = this.h - 16;
    this.map = null;
    if (!this.side) return;
    if (layout.height * cam.k < this.h && layout.width * cam.k < this.w) return;
    const sx = (MAP - GUTTER - 8) / layout.width, sy = tall / layout.height;
    const m = (this.map = { x0: this.w - MAP + GUTTER, y0: 8, sx: Math.min(sx, Math.min(sx, sy) * 4), sy });
    ctx.fillStyle = theme.page;
    ctx.fillRect(this.w - MAP, 0, MAP, this.h);
    ctx.fillStyle = theme.panelLine;
    ctx.fillRect(this.w - MAP, 0, 1, this.h);
    for (const b of this.items) {
      ctx.fillStyle = b.mark ? theme[b.mark] : b.color ?? (b.group || b.blank ? theme.soft : theme.families[b.family]);
      ctx.fillRect(m.x0 + b.x * m.sx, m.y0 + b.y * sy, Math.max(2, b.w * m.sx), Math.max(1, b.h * sy));
    }
    this.drawMapHits(ctx, m);
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 1.5;
    ctx.setLineDash([]);
    const top = m.y0 + Math.max(0, cam.y) * sy, high = Math.max(6, (this.h / cam.k) * sy);
    ctx.strokeRect(this.w - MAP + 1.5, Math.min(top, this.h - 6), MAP - 3, Math.min(high, this.h - top));
  }

  /**
   * A mark at the left of the minimap for the hits of each item; beside it their number, where there is room.
   * @param {Context} ctx
   * @param {Minimap} m
   */
  drawMapHits(ctx, m) {
    const { found, theme } = this.owner;
    if (!found.size) return;
    let free = -Infinity;
    ctx.font = "9px system-ui, sans-serif";
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    for (const b of this.items) {
      const n = this.hitsOf(b.i), y = m.y0 + (b.y + b.h / 2) * m.sy;
      if (!n) continue;
      ctx.fillStyle = theme.found;
      ctx.fillRect(this.w - MAP + 3, y - 2, 7, 4);
      ctx.strokeStyle = theme.ink;
      ctx.lineWidth = 0.6;
      ctx.strokeRect(this.w - MAP + 3, y - 2, 7, 4);
      if (n < 2 || y < free) continue;
      free = y + 11;
      const text = n.toLocaleString("en"), x = Math.min(m.x0 + (b.x + b.w) * m.sx + 3, this.w - 4 - ctx.measureText(text).width);
      ctx.strokeStyle = theme.page;
      ctx.lineWidth = 3;
      ctx.strokeText(text, x, y);
      ctx.fillStyle = theme.ink;
      ctx.fillText(text, x, y);
    }
  }

  // For tests, and for driving the view from a console

  hook() {
    /** @type {(b: Place) => Place} */
    const onScreen = (b) => ({ x: (b.x - this.cam.x) * this.cam.k, y: (b.y - this.cam.y) * this.cam.k, w: b.w * this.cam.k, h: b.h * this.cam.k });
    return {
      pane: this,
      get stats() { return this.pane.stats; },
      get camera() { return { ...this.pane.cam }; },
      nodes: () => this.items.map((b) => ({
        id: b.id ?? null, key: b.key ?? null, kind: b.group ? "group" : "node", title: b.title, fact: b.fact, mark: b.mark ?? null,
        ...onScreen(b), world: [b.x, b.y, b.w, b.h], chips: b.chips.map((c) => c.label), color: b.color ?? null, hits: this.hitsOf(b.i), blank: !!b.blank,
      })),
      panels: () => this.panels.map((b) => ({ key: this.live.scene.data.groups.key[b.g], ...onScreen(b) })),
      edges: () => this.edges.map((e) => ({ source: e.source, user: e.user, dashed: e.dashed, points: e.points.slice() })),
      redraw: () => (this.draw(), this.stats.last),
      pan: (/** @type {number} */ dx, /** @type {number} */ dy) => this.pan(dx, dy),
    };
  }
}

/** `float 2×3` for `float_type, {2, 3}, {3, 1}`. @param {Version | undefined} n */
function shapeText(n) {
  const m = /^(\w+?)(_type)?, \{([^}]*)\}/.exec(n?.shape ?? "");
  return m ? `${m[1]} ${m[3].replaceAll(", ", "×")}` : n?.shape ?? "";
}

export { Pane };
