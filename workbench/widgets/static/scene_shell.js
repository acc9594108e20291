// The base of the graph views: panes, open groups, camera, search, overlay and legend.

import { button, h, searchField } from "./dom.js";
import { count, number, wordsOf } from "./format.js";
import { isOver, readOverlay, share, valueOf } from "./overlay.js";
import { readCamera, writeCamera } from "./camera.js";
import { Scene } from "./scene.js";
import { Shell } from "./shell.js";
import { sample } from "./draw.js";

const SETTLE_MS = 250, NOT_FINITE = "not finite";

class SceneShell extends Shell {
  /**
   * @param {Model} model
   * @param {HTMLElement} el
   * @param {GraphData | ExplorerData} data
   * @param {string} kind
   * @param {number} height
   */
  constructor(model, el, data, kind, height) {
    super(model, el, kind, height);
    this.scene = new Scene(data);
    this.fresh = data.open;
    /** Keys of the open groups. @type {Set<string>} */
    this.open = new Set(model.get("expanded") ?? data.open);
    /** @type {Pane[]} */
    this.panes = [];
    /** Ids that are marked. @type {Set<number>} */
    this.found = new Set(model.get("highlight") ?? []);
    /** Ids that match the search. @type {number[]} */
    this.matches = [];
    this.at = -1;
    this.overlay = readOverlay(model.get("overlay"));
    /** @type {number | undefined} */
    this.moving = undefined;
    this.legendEl = h("div", { class: "wb-legend" });
    this.hits = h("span", { class: "wb-hits" });
    this.search = searchField("Search", "Search instructions", () => this.find(this.search.value), (e) => this.inSearch(e));
    this.on("highlight", () => {
      this.found = new Set(model.get("highlight") ?? []);
      this.redraw();
    });
    this.on("overlay", () => this.overlaid());
    this.on("expanded", () => this.reopen(model.get("expanded")));
    this.on("camera", () => this.camera());
  }

  /**
   * The side to search.
   * @returns {Live}
   */
  searched() { throw new Error("a view says what it searches"); }

  /** Update the layout. */
  relayout() {}

  /** Show the selection outside the graph. */
  inspect() {}

  redraw() { for (const pane of this.panes) pane.dirty(); }

  retheme() {
    super.retheme();
    if (!this.panes) return;
    this.legend();
    this.redraw();
  }

  destroy() {
    super.destroy();
    clearTimeout(this.moving);
    for (const pane of this.panes) pane.destroy();
  }

  // Groups and selection

  /** Tell Python which groups are open. */
  tellOpen() { this.set({ expanded: [...this.open] }); }

  /** Open the groups that Python has set. @param {string[] | null} keys */
  reopen(keys) {
    this.open = new Set(keys ?? this.fresh);
    this.relayout();
  }

  /**
   * Select an instruction, in the browser and in Python.
   * @param {number} id
   */
  choose(id) {
    if (this.selected === id) return;
    super.select(id, null);
    this.set({ selected: id });
  }

  /**
   * Open the groups around an instruction and scroll to it.
   * @param {number} id
   * @param {Pane} pane
   */
  uncover(id, pane) {
    const shut = pane.live.shutAround(id, this.open);
    if (shut.length) {
      for (const key of shut) this.open.add(key);
      this.relayout();
      this.tellOpen();
    }
    const item = pane.itemFor(id);
    if (item !== undefined) pane.reveal(item);
  }

  /** Select an instruction and scroll to it. @param {number} id */
  show(id) { this.choose(id); }

  // Camera

  /** Set the camera from the trait; returns whether it has one. */
  camera() {
    const camera = readCamera(this.model.get("camera"));
    if (camera) for (const pane of this.panes) pane.setCamera(camera);
    return camera !== null;
  }

  /** Send the camera to Python, once it rests. @param {Pane} pane */
  moved(pane) {
    clearTimeout(this.moving);
    this.moving = setTimeout(() => this.set({ camera: writeCamera(pane.cam) }), SETTLE_MS);
  }

  // Search

  searchBox() { return h("span", { class: "wb-searching" }, this.search, this.hits); }

  /** @param {KeyboardEvent} e */
  inSearch(e) {
    e.stopPropagation();
    if (e.key === "Enter") this.step(e.shiftKey ? -1 : 1);
    if (e.key !== "Escape") return;
    this.search.value = "";
    this.find("");
    this.panes[0].tree.focus();
  }

  /** Mark the instructions that match all words. @param {string} words */
  find(words) {
    const searching = wordsOf(words).length > 0;
    this.matches = this.searched().find(words);
    this.found = new Set(searching ? this.matches : this.model.get("highlight") ?? []);
    this.at = -1;
    this.hits.textContent = !searching ? "" : this.matches.length ? count(this.matches.length, "match", "matches") : "none";
    this.say(this.hits.textContent);
    this.redraw();
  }

  /** Go to the next match. @param {number} by */
  step(by) {
    const n = this.matches.length;
    if (!n) return;
    this.at = (this.at + by + n) % n;
    this.hits.textContent = `${this.at + 1} of ${n}`;
    this.show(this.matches[this.at]);
  }

  // Overlay and legend

  overlaid() {
    this.overlay = readOverlay(this.model.get("overlay"));
    this.legend();
    this.redraw();
  }

  /**
   * The colour and text that the overlay gives an item, if any.
   * @param {Item} item
   */
  colorOf(item) {
    const o = this.overlay, value = o ? valueOf(o, item.ids) : undefined;
    if (!o || value === undefined) return null;
    const text = Number.isFinite(value) ? `${number(value)}${o.unit ? " " + o.unit : ""}${isOver(o, value) ? " ▲" : ""}` : NOT_FINITE;
    return { color: sample(o.scale, share(o, value)), text };
  }

  /** Draw the legend. */
  legend() { this.legendEl.replaceChildren(...this.keys(this.searched())); }

  /**
   * @param {Live} live
   * @returns {HTMLElement[]}
   */
  keys(live) { return this.overlay ? overlayKeys(this.overlay) : familyKeys(live, this.theme); }

  /**
   * Save the canvas of a pane as PNG.
   * @param {Pane} pane
   */
  save(pane) {
    const name = (this.scene.data.title || "graph").replace(/[^\w.-]+/g, "_") + ".png";
    pane.draw();
    pane.canvas.toBlob((blob) => {
      if (!blob) return this.say("The browser made no picture");
      const link = h("a", { href: URL.createObjectURL(blob), download: name });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 5000);
    });
  }

  /**
   * @param {Pane} pane
   * @param {string} title
   */
  saveButton(pane, title) { return button("⤓", title, () => this.save(pane)); }
}

/** @param {Overlay} o */
function overlayKeys(o) {
  const stops = PALETTE.scales[o.scale].join(", "), tolerance = o.tolerance ?? null;
  const mark = tolerance === null ? null
    : h("i", { style: `left: ${100 * Math.min(1, Math.max(0, share(o, tolerance)))}%`, title: `tolerance ${number(tolerance)}` });
  const ramp = h("span", { class: "wb-scale" }, `${o.name} ${number(o.low)} `,
    h("span", { class: "wb-ramp", style: `background: linear-gradient(90deg, ${stops})` }, mark),
    ` ${number(o.high)} ${o.unit ?? ""}${o.log ? " (log)" : ""}`, tolerance === null ? null : `, ┃ tolerance ${number(tolerance)}, ▲ over it`);
  if (!o.lost) return [ramp];
  return [ramp, h("span", { class: "wb-key" }, h("i", { style: `background:${sample(o.scale, 1)}` }), `${o.lost.toLocaleString("en")} ${NOT_FINITE}`)];
}

/**
 * @param {Live} live
 * @param {Theme} theme
 */
function familyKeys(live, theme) {
  const { nodes, looks } = live.scene.data, present = new Set();
  for (const v of live.order) if (nodes.slot[v] >= 0) present.add(looks.family[nodes.look[v]]);
  return Object.keys(PALETTE.families).flatMap((name, k) => present.has(k)
    ? [h("span", { class: "wb-key" }, h("i", { style: `background:${theme.families[k]}` }), PALETTE.words[name])] : []);
}

export { SceneShell };
