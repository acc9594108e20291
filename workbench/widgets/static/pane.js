// One canvas with a graph on it: camera, mouse, keyboard, minimap, tooltip, and the tree for screen readers.

import { Layout, edgesOf } from "./scene.js";
import { chipRows, drawEdgeLabel, drawEdges, drawHeader, drawNode, drawPanel } from "./draw.js";
import { count, h } from "./dom.js";
import { Tree } from "./tree.js";

const STILL = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const MIN_ZOOM = 0.02, MAX_ZOOM = 3, MAP = 56;

/**
 * A pane shows `live` (what is there, with marks) at the places of `layout`. `owner` gets what happens:
 * `select(id)`, `toggle(key)`, `moved(pane)`, `key(event)`; and says `selected`, `found`, `colorOf(node)`.
 */
class Pane {
  constructor(owner, label) {
    this.owner = owner;
    this.label = label;
    this.cam = { x: 0, y: 0, k: 1 };
    this.items = [];
    this.edges = [];
    this.hover = null;
    this.stats = { frames: 0, last: 0, worst: 0, firstPaint: null };
    this.canvas = h("canvas", { class: "wb-canvas", "aria-hidden": "true" });
    this.tip = h("div", { class: "wb-tip", hidden: true });
    this.tree = new Tree(this);
    this.el = h("div", { class: "wb-pane" }, this.canvas, this.tree.el, this.tip);
    this.canvas.__wb = this.hook();
    this.listen();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.el);
  }

  destroy() {
    this.observer.disconnect();
    this.gone = true;
  }

  /** Show other versions or another layout; places that both have stay where they are. */
  show(live, layout, { animate = true } = {}) {
    const before = this.live;
    this.layout = layout;
    this.fading = animate && before && before !== live && !STILL() ? { start: performance.now(), live: before } : null;
    this.live = live;
    this.edges = edgesOf(layout, live);
    const ghosts = this.fading ? this.collect(before).filter((b) => !b.group) : [];
    this.items = this.collect(live);
    this.byItem = new Map(this.items.map((b) => [b.i, b]));
    this.ghosts = ghosts.filter((b) => !this.sameIn(b));
    if (this.waiting) this.waiting();
    this.map = null;
    this.dirty();
  }

  sameIn(b) {
    const now = this.byItem.get(b.i);
    return now && now.v === b.v;
  }

  /** The boxes to draw: nodes at this step, and closed groups with what changed inside them. */
  collect(live) {
    const { scene } = live, found = [], groups = scene.data.groups, inside = new Map();
    const body = (b) => b.i >= scene.slots || (live.bySlot.has(b.i) && scene.node(live.bySlot.get(b.i)).opens);
    this.panels = this.layout.panels.filter(body);
    this.within = new Map();
    for (const [slot, v] of live.bySlot) {
      const main = scene.node(v).module === 0;
      for (const g of scene.chain(slot)) if (main || groups.body[g]) this.within.set(g, (this.within.get(g) ?? 0) + 1);
      const seen = this.layout.shownAs(slot), box = this.layout.boxes.get(seen);
      if (seen === slot) {
        if (box.open && scene.node(v).opens) continue;
        found.push(this.nodeBox(live, scene.node(v), box));
      } else if (seen >= scene.slots) {
        if (!inside.has(seen)) inside.set(seen, { box, total: 0, added: 0, removed: 0, changed: 0, ids: [] });
        const g = inside.get(seen), mark = live.marks.get(v);
        if (main) g.total++;
        g.ids.push(scene.node(v).id);
        if (mark) g[mark]++;
      }
    }
    for (const [i, g] of inside) {
      const k = i - scene.slots;
      const marks = ["added", "removed", "changed"].filter((m) => g[m]).map((m) => PALETTE.glyphs[m] + g[m]);
      found.push({
        i, key: groups.key[k], group: true, opens: true, title: groups.label[k], ids: g.ids,
        fact: marks.length ? `${marks.join(" ")} of ${g.total.toLocaleString("en")}` : count(g.total, "instruction"), ...place(g.box, g.box.w),
      });
    }
    return found.sort((a, b) => a.y - b.y || a.x - b.x);
  }

  nodeBox(live, n, box) {
    const g = live.scene.bodyOf.get(n.slot), has = g !== undefined && n.opens;
    return {
      i: box.i, v: n.v, id: n.id, title: n.title, fact: n.fact, family: n.family, chips: n.chips, shape: n.shape,
      key: has ? live.scene.data.groups.key[g] : undefined, opens: has, mark: live.marks.get(n.v), ...place(box, n.width),
    };
  }

  // Camera

  resize() {
    const { width, height } = this.el.getBoundingClientRect();
    if (!width || !height) return;
    this.w = width;
    this.h = height;
    this.dpr = Math.min(3, window.devicePixelRatio || 1);
    this.canvas.width = Math.round(width * this.dpr);
    this.canvas.height = Math.round(height * this.dpr);
    if (!this.placed && this.layout) this.home();
    this.map = null;
    this.draw();
  }

  /** The first view: everything if it is readable so, else the top at a readable size. */
  home() {
    if (!this.w || !this.layout) return;
    const { width, height } = this.layout, room = this.w - MAP - 24;
    const all = Math.min(room / width, (this.h - 24) / height, 1);
    const k = all >= 0.6 ? all : Math.max(0.6, Math.min(1, room / width));
    const wide = width * k > room;
    const first = wide && this.items.length ? this.items[0].x + this.items[0].w / 2 : width / 2;
    this.cam = { k, x: first - (this.w - MAP) / 2 / k, y: all >= 0.6 ? height / 2 - this.h / 2 / k : -14 / k };
    this.placed = true;
    this.moved();
  }

  /** Everything at once, however small. */
  fitAll() {
    const { width, height } = this.layout;
    const k = Math.max(MIN_ZOOM, Math.min((this.w - MAP - 24) / width, (this.h - 24) / height, 1));
    this.cam = { k, x: width / 2 - (this.w - MAP) / 2 / k, y: height / 2 - this.h / 2 / k };
    this.moved();
  }

  setCamera(cam) {
    this.cam = { ...cam };
    this.placed = true;
    this.dirty();
  }

  moved() {
    this.owner.moved?.(this);
    this.dirty();
  }

  zoom(factor, sx = this.w / 2, sy = this.h / 2) {
    const k = Math.min(MAX_ZOOM, Math.max(MIN_ZOOM, this.cam.k * factor));
    this.cam.x += sx / this.cam.k - sx / k;
    this.cam.y += sy / this.cam.k - sy / k;
    this.cam.k = k;
    this.moved();
  }

  pan(dx, dy) {
    const { cam, layout } = this, x = cam.x, y = cam.y;
    const clamp = (v, low, high) => Math.min(Math.max(low, high), Math.max(Math.min(low, high), v));
    cam.x = clamp(cam.x + dx / cam.k, -this.w / cam.k * 0.8, layout.width - (this.w * 0.2) / cam.k);
    cam.y = clamp(cam.y + dy / cam.k, -this.h / cam.k * 0.8, layout.height - (this.h * 0.2) / cam.k);
    const changed = cam.x !== x || cam.y !== y;
    if (changed) this.moved();
    return changed;
  }

  /** Bring an item into view without moving more than it takes. */
  reveal(i) {
    const b = this.byItem.get(i) ?? this.layout.boxes.get(i);
    if (!b || !this.w) return;
    const { cam } = this, k = cam.k < 0.45 ? 0.8 : cam.k;
    const inside = k === cam.k && b.x >= cam.x + 20 / k && b.x + b.w <= cam.x + (this.w - MAP - 20) / k &&
      b.y >= cam.y + 20 / k && b.y + b.h <= cam.y + (this.h - 20) / k;
    if (inside) return;
    this.cam = { k, x: b.x + b.w / 2 - (this.w - MAP) / 2 / k, y: b.y + b.h / 2 - this.h / 2 / k };
    this.moved();
  }

  /** The item that an instruction is seen as: its box, its group's, or a node that has it as a chip. */
  itemFor(id) {
    const n = this.live?.node(id);
    if (!n) return undefined;
    if (n.slot >= 0) return this.layout.shownAs(n.slot);
    const user = (this.live.users.get(id) ?? []).map((u) => this.live.node(u)).find((u) => u && u.slot >= 0);
    return user && this.layout.shownAs(user.slot);
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
    if (!this.w || !this.layout || this.gone) return;
    const start = performance.now(), ctx = this.canvas.getContext("2d"), { cam, dpr, owner } = this, theme = owner.theme;
    let age = 1;
    if (this.fading && (age = Math.min(1, (start - this.fading.start) / 150)) >= 1) this.fading = null;
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.clearRect(0, 0, this.w, this.h);
    ctx.setTransform(dpr * cam.k, 0, 0, dpr * cam.k, -cam.x * dpr * cam.k, -cam.y * dpr * cam.k);
    const v = { x0: cam.x, y0: cam.y, x1: cam.x + this.w / cam.k, y1: cam.y + this.h / cam.k };
    const seen = (b, right = 140) => b.x < v.x1 && b.x + b.w + right > v.x0 && b.y < v.y1 && b.y + b.h > v.y0;
    this.drawPanels(ctx, theme, seen);
    const chosen = owner.selected, over = this.hover?.id;
    const strong = (e) => (chosen !== null && (e.source === chosen || e.user === chosen)) || (over !== undefined && (e.source === over || e.user === over));
    const edges = this.edges.filter((e) => e.x0 < v.x1 && e.x1 > v.x0 && e.y0 < v.y1 && e.y1 > v.y0);
    drawEdges(ctx, edges, theme, cam.k, strong);
    const g = this.live.scene.data.groups;
    const titleOf = (b) => (b.i < this.live.scene.slots ? this.live.scene.node(this.live.bySlot.get(b.i)).title : g.label[b.g]);
    if (cam.k >= 0.3) for (const b of this.panels) if (seen(b, 0)) drawHeader(ctx, b, titleOf(b), String(this.within.get(b.g) ?? 0), theme);
    ctx.globalAlpha = 1 - age;
    if (age < 1) for (const b of this.ghosts) if (seen(b)) drawNode(ctx, b, theme, cam.k);
    const item = chosen === null ? undefined : this.itemFor(chosen);
    this.visible = this.items.filter((b) => seen(b));
    for (const b of this.visible) {
      const fresh = age < 1 && !b.group && this.fading.live.bySlot.get(b.i) !== b.v;
      ctx.globalAlpha = fresh ? age : 1;
      drawNode(ctx, this.dress(b, item, chosen), theme, cam.k);
    }
    ctx.globalAlpha = 1;
    if (cam.k > 0.5 && over !== undefined)
      for (const e of edges) if (e.source === over || e.user === over) drawEdgeLabel(ctx, e, shapeText(this.live.node(e.source)), theme);
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    this.drawMap(ctx, theme);
    this.tree.update();
    this.measure(start);
    if (this.fading) this.dirty();
  }

  measure(start) {
    const s = this.stats, now = performance.now();
    s.frames++;
    s.last = now - start;
    s.worst = Math.max(s.worst, s.last);
    s.firstPaint ??= now;
  }

  dress(b, item, chosen) {
    b.selected = b.i === item && (b.group || b.id === chosen);
    b.selectedChip = b.i === item && !b.group && b.id !== chosen ? chosen : null;
    b.hovered = this.hover === b;
    b.found = b.id !== undefined && this.owner.found?.has(b.id);
    const overlay = this.owner.colorOf?.(b, this.live);
    b.color = overlay?.color;
    if (overlay?.text) b.fact = overlay.text;
    return b;
  }

  drawPanels(ctx, theme, seen) {
    for (const b of this.panels) {
      if (!seen(b, 0)) continue;
      const v = this.live.bySlot.get(b.i), n = v === undefined ? null : this.live.scene.node(v);
      drawPanel(ctx, b, theme, this.cam.k, n && theme.families[n.family]);
      if (n && (n.id === this.owner.selected || this.live.marks.get(v)))
        drawNode(ctx, { ...b, title: "", family: n.family, mark: this.live.marks.get(v), selected: n.id === this.owner.selected, color: "#00000000" }, theme, 0.25);
    }
  }

  /** The whole graph in a strip, with what is in view; drag it to get about. */
  drawMap(ctx, theme) {
    const { layout } = this, tall = this.h - 16, k = Math.min((MAP - 12) / layout.width, tall / layout.height);
    if (layout.height * this.cam.k < this.h && layout.width * this.cam.k < this.w) return void (this.map = null);
    const x0 = this.w - MAP + 2, sx = (MAP - 12) / layout.width, sy = tall / layout.height;
    this.map = { x0, y0: 8, sx: Math.min(sx, k * 4), sy };
    const m = this.map;
    ctx.fillStyle = theme.page;
    ctx.globalAlpha = 0.85;
    ctx.fillRect(this.w - MAP - 2, 0, MAP + 2, this.h);
    ctx.globalAlpha = 1;
    for (const b of this.items) {
      ctx.fillStyle = b.mark ? theme[b.mark] : b.color ?? (b.group ? theme.soft : theme.families[b.family]);
      ctx.fillRect(x0 + b.x * m.sx, m.y0 + b.y * sy, Math.max(2, b.w * m.sx), Math.max(1, b.h * sy));
    }
    ctx.strokeStyle = theme.accent;
    ctx.lineWidth = 1.5;
    const top = m.y0 + Math.max(0, this.cam.y) * sy, high = Math.max(6, (this.h / this.cam.k) * sy);
    ctx.strokeRect(x0 - 4, Math.min(top, this.h - 6), MAP - 4, Math.min(high, this.h - top));
  }

  // Mouse

  at(event) {
    const r = this.canvas.getBoundingClientRect();
    return { sx: event.clientX - r.left, sy: event.clientY - r.top };
  }

  /** What is under a point of the screen: a node, a chip of one, or the header of an open panel. */
  pick({ sx, sy }) {
    const { cam } = this, x = sx / cam.k + cam.x, y = sy / cam.k + cam.y;
    const items = this.visible ?? this.items;
    for (let k = items.length - 1; k >= 0; k--) {
      const b = items[k];
      if (x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + b.h) return { box: b };
      if (b.chips?.length && cam.k >= 0.45)
        for (const c of chipRows(b)) if (x >= c.x && x <= c.x + (c.w || 60) && y >= c.y && y <= c.y + c.h) return { box: b, chip: c.chip };
    }
    for (let k = this.panels.length - 1; k >= 0; k--) {
      const b = this.panels[k];
      if (x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + 24) return { panel: b };
    }
    return null;
  }

  listen() {
    const c = this.canvas;
    let drag = null;
    c.addEventListener("pointerdown", (e) => {
      const p = this.at(e), onMap = this.map && p.sx > this.w - MAP - 2;
      drag = { ...p, x: e.clientX, y: e.clientY, onMap, far: false };
      c.setPointerCapture(e.pointerId);
      if (onMap) this.jump(p);
    });
    c.addEventListener("pointermove", (e) => {
      if (!drag) return this.hovering(e);
      const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
      if (Math.abs(e.clientX - drag.x) + Math.abs(dy) < 4 && !drag.far) return;
      drag.far = true;
      this.tip.hidden = true;
      if (drag.onMap) return this.jump(this.at(e));
      c.classList.add("wb-dragging");
      this.pan(-dx, -dy);
      drag.x = e.clientX;
      drag.y = e.clientY;
    });
    c.addEventListener("pointerup", (e) => {
      c.classList.remove("wb-dragging");
      if (drag && !drag.far && !drag.onMap) this.click(e);
      drag = null;
    });
    c.addEventListener("pointercancel", () => (drag = null));
    c.addEventListener("pointerleave", () => this.hovering(null));
    c.addEventListener("dblclick", (e) => {
      const hit = this.pick(this.at(e));
      if (hit?.box?.key && !hit.box.group) this.owner.toggle(hit.box.key, this);
    });
    c.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
  }

  wheel(e) {
    const { sx, sy } = this.at(e);
    if (e.ctrlKey || e.metaKey) {
      e.preventDefault();
      this.zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.004)), sx, sy);
    } else if (this.pan(e.deltaX * (e.deltaMode ? 16 : 1), e.deltaY * (e.deltaMode ? 16 : 1))) e.preventDefault();
  }

  jump({ sx, sy }) {
    const m = this.map;
    this.cam.y = (sy - m.y0) / m.sy - this.h / this.cam.k / 2;
    this.cam.x = (sx - m.x0) / m.sx - (this.w - MAP) / this.cam.k / 2;
    this.moved();
  }

  click(e) {
    const hit = this.pick(this.at(e));
    this.tree.focus();
    if (!hit) return this.owner.select(null, this);
    if (hit.panel) return this.owner.toggle(this.live.scene.data.groups.key[hit.panel.g], this);
    if (hit.chip) return this.owner.select(hit.chip.id, this);
    if (hit.box.group) return this.owner.toggle(hit.box.key, this);
    this.owner.select(hit.box.id, this);
  }

  hovering(e) {
    const p = e && this.at(e), hit = e && !(this.map && p.sx > this.w - MAP) ? this.pick(p) : null;
    const box = hit?.box ?? null;
    this.canvas.style.cursor = hit ? "pointer" : "";
    if (box !== this.hover) {
      this.hover = box;
      this.dirty();
    }
    this.tip.hidden = !box;
    if (!box) return;
    this.tip.textContent = hit.chip ? this.describe(this.live.node(hit.chip.id)) : box.group ? `${box.title}: ${box.fact}` : this.describe(this.live.node(box.id));
    this.tip.style.left = Math.max(4, Math.min(p.sx + 14, this.w - this.tip.offsetWidth - 8)) + "px";
    this.tip.style.top = (p.sy + 24 + this.tip.offsetHeight > this.h ? p.sy - this.tip.offsetHeight - 10 : p.sy + 18) + "px";
  }

  describe(n) {
    if (!n) return "";
    const lines = [`${this.live.name(n.id)} = ${n.text}`];
    if (n.shape) lines.push(n.shape);
    const mark = this.live.marks.get(n.v);
    if (mark) lines.push(`${PALETTE.glyphs[mark]} ${mark} by this pass`);
    if (n.chips.length > 2) lines.push("with " + n.chips.map((c) => c.label).join(", "));
    return lines.join("\n");
  }

  // For tests, and for whoever wants to drive the view from a console

  hook() {
    return {
      pane: this,
      get stats() { return this.pane.stats; },
      get camera() { return { ...this.pane.cam }; },
      nodes: () => this.items.map((b) => ({
        id: b.id ?? null, key: b.key ?? null, kind: b.group ? "group" : "node", title: b.title, fact: b.fact, mark: b.mark ?? null,
        x: (b.x - this.cam.x) * this.cam.k, y: (b.y - this.cam.y) * this.cam.k, w: b.w * this.cam.k, h: b.h * this.cam.k,
        world: [b.x, b.y, b.w, b.h], chips: (b.chips ?? []).map((c) => c.label), color: b.color ?? null,
      })),
      panels: () => this.panels.map((b) => ({ key: this.live.scene.data.groups.key[b.g], x: (b.x - this.cam.x) * this.cam.k, y: (b.y - this.cam.y) * this.cam.k, w: b.w * this.cam.k })),
      edges: () => this.edges.map((e) => ({ source: e.source, user: e.user, points: e.points.slice() })),
      redraw: () => (this.draw(), this.stats.last),
      pan: (dx, dy) => this.pan(dx, dy),
    };
  }
}

/** The box of one version in its slot's box. */
function place(box, width) {
  const w = Math.min(width, box.w) || width;
  return { x: box.cx - w / 2, y: box.y, w, h: box.open ? 40 : box.h };
}

function shapeText(n) {
  const m = /^(\w+?)(_type)?, \{([^}]*)\}/.exec(n?.shape ?? "");
  return m ? `${m[1]} ${m[3].replaceAll(", ", "×")}` : n?.shape ?? "";
}

export { Pane };
