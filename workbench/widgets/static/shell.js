// What all views share: the frame, theme, search, overlay colours, messages, and traits kept in step.

import { colors, inkOn, sample } from "./draw.js";
import { count, h, isDark, number, onTheme } from "./dom.js";

class Shell {
  constructor(model, el, kind) {
    this.model = model;
    this.el = el;
    this.cleanup = [];
    this.status = h("div", { class: "wb-live", role: "status", "aria-live": "polite" });
    this.root = h("div", { class: `wb-root ${kind}` });
    el.replaceChildren(this.root);
    this.selected = model.get("selected") ?? null;
    this.found = new Set(model.get("highlight") ?? []);
    this.choice = model.get("theme") ?? "auto";
    this.retheme();
    this.cleanup.push(onTheme(() => this.retheme()));
    this.on("theme", () => {
      this.choice = model.get("theme");
      this.retheme();
    });
    this.on("selected", () => this.select(model.get("selected") ?? null, null));
    this.on("highlight", () => {
      this.found = new Set(model.get("highlight") ?? []);
      this.redraw();
    });
    this.on("overlay", () => this.overlaid());
  }

  on(name, callback) {
    this.model.on("change:" + name, callback);
    this.cleanup.push(() => this.model.off("change:" + name, callback));
  }

  set(values) {
    for (const [key, value] of Object.entries(values)) this.model.set(key, value);
    this.model.save_changes();
  }

  retheme() {
    const dark = isDark(this.choice);
    this.theme = colors(dark);
    this.root.classList.toggle("wb-dark", dark);
    this.root.classList.toggle("wb-light", !dark);
    this.redraw();
  }

  switchTheme() {
    this.choice = this.theme.dark ? "light" : "dark";
    this.set({ theme: this.choice });
    this.retheme();
  }

  redraw() { for (const pane of this.panes ?? []) pane.dirty(); }
  say(text) { this.status.textContent = text; }

  button(text, title, onclick, extra = {}) {
    return h("button", { type: "button", class: "wb-button", title, "aria-label": title, onclick, ...extra }, text);
  }

  destroy() {
    for (const undo of this.cleanup) undo();
    for (const pane of this.panes ?? []) pane.destroy();
  }

  // Search

  searchBox() {
    this.hits = h("span", { class: "wb-hits" });
    this.search = h("input", {
      type: "search", class: "wb-search", placeholder: "Search", "aria-label": "Search instructions", spellcheck: false,
      oninput: () => this.find(this.search.value),
      onkeydown: (e) => {
        e.stopPropagation();
        if (e.key === "Enter") this.step(e.shiftKey ? -1 : 1);
        if (e.key === "Escape") {
          this.search.value = "";
          this.find("");
          this.panes[0].tree.focus();
        }
      },
    });
    return h("span", { class: "wb-searching" }, this.search, this.hits);
  }

  /** Mark what has the words in its operation, name, fact, attributes, shape or source names. */
  find(words) {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean), live = this.searched();
    this.matches = !wanted.length ? [] : live.order.filter((v) => {
      const n = live.scene.node(v), sources = n.sources.map((s) => s.name).join(" ");
      const text = `${live.name(n.id)} ${n.title} ${n.fact} ${n.text} ${n.shape} ${sources}`.toLowerCase();
      return wanted.every((w) => text.includes(w));
    }).map((v) => live.scene.node(v).id);
    this.found = new Set(wanted.length ? this.matches : this.model.get("highlight") ?? []);
    this.at = -1;
    this.hits.textContent = !wanted.length ? "" : this.matches.length ? count(this.matches.length, "match").replace("matchs", "matches") : "none";
    this.say(this.hits.textContent);
    this.redraw();
  }

  step(by) {
    if (!this.matches?.length) return;
    this.at = (this.at + by + this.matches.length) % this.matches.length;
    this.hits.textContent = `${this.at + 1} of ${this.matches.length}`;
    this.show(this.matches[this.at]);
  }

  // Overlay: a number an instruction, shown as colour and text

  overlaid() {
    const o = this.model.get("overlay");
    this.overlay = null;
    if (o && o.values) {
      const values = new Map(Object.entries(o.values).map(([k, v]) => [+k, v === null ? NaN : v]));
      const sizes = [...values.values()].filter(Number.isFinite), log = o.scale === "magma";
      const span = Math.max(...sizes.map(Math.abs), 0);
      let low = log ? Math.min(...sizes.filter((v) => v > 0), span) : Math.min(...sizes, 0), high = log ? span : Math.max(...sizes, 0);
      if (o.scale === "puor") [low, high] = [-span, span];
      this.overlay = { ...o, values, low, high, log };
    }
    this.legend?.();
    this.redraw();
  }

  share(value) {
    const { low, high, log } = this.overlay;
    if (Number.isNaN(value) || value === Infinity) return 1;
    if (high <= low) return high > 0 ? 1 : 0;
    if (!log) return (value - low) / (high - low);
    return value <= 0 ? 0 : Math.log(value / low) / Math.log(high / low || 2);
  }

  colorOf(b) {
    const o = this.overlay;
    if (!o) return null;
    const values = (b.group ? b.ids : [b.id]).map((id) => o.values.get(id)).filter((v) => v !== undefined);
    if (!values.length) return null;
    const value = b.group ? (o.total ? values.reduce((p, q) => p + q) : values.reduce((p, q) => (Number.isNaN(p) || p >= q ? p : q))) : values[0];
    const over = o.tolerance !== null && o.tolerance !== undefined && !(value <= o.tolerance);
    return { color: sample(o.scale, this.share(value)), text: `${number(value)}${o.unit ? " " + o.unit : ""}${over ? " over tolerance" : ""}` };
  }

  overlayLegend() {
    const o = this.overlay;
    const stops = PALETTE.scales[o.scale].join(", "), tolerance = o.tolerance ?? null;
    return h("span", { class: "wb-scale" }, `${o.name} ${number(o.low)} `,
      h("span", { class: "wb-ramp", style: `background: linear-gradient(90deg, ${stops})` },
        tolerance === null ? null : h("i", { style: `left: ${100 * Math.min(1, Math.max(0, this.share(tolerance)))}%`, title: `tolerance ${number(tolerance)}` })),
      ` ${number(o.high)} ${o.unit ?? ""}${o.log ? " (log)" : ""}`, tolerance === null ? null : ` tolerance ${number(tolerance)}`);
  }

  familyLegend(live) {
    const present = new Set(live.order.map((v) => live.scene.node(v)).filter((n) => n.slot >= 0).map((n) => n.family));
    return Object.keys(PALETTE.families).flatMap((name, k) => present.has(k)
      ? [h("span", { class: "wb-key" }, h("i", { style: `background:${this.theme.families[k]}` }), PALETTE.words[name])] : []);
  }

  /** Save what the canvas shows. */
  save(pane, name) {
    pane.draw();
    pane.canvas.toBlob((blob) => {
      const link = h("a", { href: URL.createObjectURL(blob), download: (name || "graph").replace(/[^\w.-]+/g, "_") + ".png" });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 5000);
    });
  }
}

export { Shell };
