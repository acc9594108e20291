// The mouse and fingers on a pane: dragging, the wheel, two fingers, clicks, the minimap, and the tooltip.

import { h } from "./dom.js";
import { chipRows } from "./draw.js";

/** @typedef {{ sx: number, sy: number }} Point */
/** @typedef {{ box?: Item, chip?: Chip, panel?: Box & { g: number } }} Hit */
/** @typedef {{ onMap: boolean, far: boolean }} Drag */

/**
 * @param {Place} b
 * @param {number} x
 * @param {number} y
 */
const holds = (b, x, y) => x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + b.h;

/**
 * @param {Point} a
 * @param {Point} b
 */
const distance = (a, b) => Math.hypot(a.sx - b.sx, a.sy - b.sy) || 1;

class Mouse {
  /** @param {Pane} pane */
  constructor(pane) {
    this.pane = pane;
    this.tip = h("div", { class: "wb-tip", hidden: true });
    /** @type {Drag | null} */
    this.drag = null;
    /** Where the mouse or each finger is that is down. @type {Map<number, Point>} */
    this.points = new Map();
    const c = pane.canvas;
    c.addEventListener("pointerdown", (e) => this.down(e));
    c.addEventListener("pointermove", (e) => (this.drag ? this.dragged(e, this.drag) : this.hovering(e)));
    c.addEventListener("pointerup", (e) => this.up(e));
    c.addEventListener("pointercancel", () => this.end());
    c.addEventListener("pointerleave", () => this.leave());
    c.addEventListener("dblclick", (e) => {
      const box = this.pick(this.at(e))?.box;
      if (box?.key && !box.group) pane.owner.toggle(box.key);
    });
    c.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
  }

  /**
   * @param {MouseEvent} event
   * @returns {Point}
   */
  at(event) {
    const r = this.pane.canvas.getBoundingClientRect();
    return { sx: event.clientX - r.left, sy: event.clientY - r.top };
  }

  /** @param {Point} p */
  isOnMap(p) { return !!this.pane.map && p.sx > this.pane.w - this.pane.side; }

  /**
   * Find the object under a point of the screen: a node, a chip, or the header of an open panel.
   * @param {Point} p
   * @returns {Hit | null}
   */
  pick({ sx, sy }) {
    const { cam, visible, panels } = this.pane, x = sx / cam.k + cam.x, y = sy / cam.k + cam.y;
    for (const box of visible.toReversed()) {
      if (holds(box, x, y)) return { box };
      const chip = cam.k >= 0.45 && chipRows(box).find((c) => holds({ ...c, w: c.w || 60 }, x, y));
      if (chip) return { box, chip: chip.chip };
    }
    const panel = panels.findLast((b) => holds({ ...b, h: 24 }, x, y));
    return panel ? { panel } : null;
  }

  /** @param {PointerEvent} e */
  down(e) {
    const p = this.at(e), onMap = this.isOnMap(p);
    this.points.set(e.pointerId, p);
    this.drag = { onMap, far: this.points.size > 1 };
    this.pane.canvas.setPointerCapture(e.pointerId);
    if (onMap) this.jump(p);
  }

  /**
   * @param {PointerEvent} e
   * @param {Drag} drag
   */
  dragged(e, drag) {
    const { pane, points } = this, p = this.at(e), was = points.get(e.pointerId) ?? p;
    if (distance(p, was) < 4 && !drag.far) return;
    drag.far = true;
    this.tip.hidden = true;
    points.set(e.pointerId, p);
    if (drag.onMap) return this.jump(p);
    pane.canvas.classList.add("wb-dragging");
    const other = [...points.values()].find((one) => one !== p), share = other ? 0.5 : 1;
    if (other) pane.zoom(distance(p, other) / distance(was, other), (p.sx + other.sx) / 2, (p.sy + other.sy) / 2);
    pane.pan((was.sx - p.sx) * share, (was.sy - p.sy) * share);
  }

  /** @param {PointerEvent} e */
  up(e) {
    this.points.delete(e.pointerId);
    if (this.points.size) return;
    if (this.drag && !this.drag.far && !this.drag.onMap) this.click(e);
    this.end();
  }

  end() {
    this.pane.canvas.classList.remove("wb-dragging");
    this.points.clear();
    this.drag = null;
  }

  /** @param {WheelEvent} e */
  wheel(e) {
    const { sx, sy } = this.at(e), lines = e.deltaMode ? 16 : 1;
    if (e.ctrlKey || e.metaKey) {
      e.preventDefault();
      this.pane.zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.004)), sx, sy);
    } else if (this.pane.pan(e.deltaX * lines, e.deltaY * lines)) e.preventDefault();
  }

  /** Move the camera to the location of a point of the minimap. @param {Point} p */
  jump({ sx, sy }) {
    const { pane } = this, { cam, map: m } = pane;
    if (m) pane.move({ k: cam.k, x: (sx - m.x0) / m.sx - (pane.w - pane.side) / cam.k / 2, y: (sy - m.y0) / m.sy - pane.h / cam.k / 2 });
  }

  /** @param {PointerEvent} e */
  click(e) {
    const { pane } = this, { owner } = pane, hit = this.pick(this.at(e));
    pane.tree.focus();
    if (hit?.panel) owner.toggle(pane.live.scene.data.groups.key[hit.panel.g]);
    else if (hit?.box?.group && hit.box.key !== undefined) owner.toggle(hit.box.key);
    else {
      const id = hit?.chip?.id ?? hit?.box?.id ?? null;
      if (e.shiftKey && id !== null && owner.pairWith) owner.pairWith(id);
      else owner.select(id, pane);
    }
  }

  leave() {
    this.pane.canvas.style.cursor = "";
    this.over(null);
  }

  /** @param {PointerEvent} e */
  hovering(e) {
    const { pane, tip } = this, p = this.at(e), hit = this.isOnMap(p) ? null : this.pick(p), box = hit?.box;
    pane.canvas.style.cursor = hit ? "pointer" : "";
    this.over(box ?? null);
    if (!box) return;
    tip.textContent = box.group ? `${box.title}: ${box.fact}` : this.describe(hit.chip?.id ?? box.id);
    tip.style.left = Math.max(4, Math.min(p.sx + 14, pane.w - tip.offsetWidth - 8)) + "px";
    tip.style.top = (p.sy + 24 + tip.offsetHeight > pane.h ? p.sy - tip.offsetHeight - 10 : p.sy + 18) + "px";
  }

  /** @param {Item | null} box */
  over(box) {
    this.tip.hidden = !box;
    if (box === this.pane.hover) return;
    this.pane.hover = box;
    this.pane.dirty();
  }

  /** @param {number | undefined} id */
  describe(id) {
    const { live } = this.pane, n = id === undefined ? undefined : live.node(id);
    if (!n) return "";
    const lines = [`${live.name(n.id)} = ${n.text}`], mark = live.marks.get(n.v);
    if (n.shape) lines.push(n.shape);
    if (mark) lines.push(`${PALETTE.glyphs[mark]} ${mark} by this pass`);
    if (n.chips.length > 2) lines.push("with " + n.chips.map((c) => c.label).join(", "));
    return lines.join("\n");
  }
}

export { Mouse };
