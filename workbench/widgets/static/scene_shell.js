// The base of the graph views: panes, open groups, camera, search, overlay and legend.

import { Bookmarks } from "./bookmarks.js";
import { button, h, isPlainKey, take } from "./dom.js";
import { count, number } from "./format.js";
import { FilterMenu } from "./filter_menu.js";
import { GRAPH_KEYS, QUERY_WORDS, keysDialog } from "./keys.js";
import { hopsAround, limited, pathBetween, slotsShown } from "./filter.js";
import { isOver, readOverlay, share, valueOf } from "./overlay.js";
import { readCamera, writeCamera } from "./camera.js";
import { NOTHING, Scene } from "./scene.js";
import { Search } from "./search.js";
import { Shell } from "./shell.js";
import { sample } from "./draw.js";

const SETTLE_MS = 250, NOT_FINITE = "not finite", NO_VALUE = "no value";

/** @typedef {"in" | "out" | "both"} Way */

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
    /** The instruction that was selected before the current one. @type {number | null} */
    this.previous = null;
    /** Ids to which the graph is limited, or null. @type {number[] | null} */
    this.only = model.get("only") ?? null;
    /** Ids that are hidden. @type {number[]} */
    this.hidden = model.get("hidden") ?? [];
    this.slots = slotsShown(this.scene, this.only, this.hidden);
    this.overlay = readOverlay(model.get("overlay"));
    /** @type {number | undefined} */
    this.moving = undefined;
    this.legendEl = h("div", { class: "wb-legend" });
    this.search = new Search(this);
    this.menu = new FilterMenu(this);
    this.bookmarks = new Bookmarks(this);
    this.keysOf = keysDialog({ ...this.keyRows(), Search: QUERY_WORDS });
    this.root.append(this.menu.panel, this.bookmarks.panel, this.keysOf.dialog);
    this.root.addEventListener("keydown", (e) => {
      if (isPlainKey(e) && this.key(e)) take(e);
    });
    this.on("highlight", () => this.mark(null));
    this.on("query", () => this.search.ask(model.get("query") ?? ""));
    for (const trait of ["only", "hidden"]) this.on(trait, () => this.limits() && this.filtered());
    this.on("overlay", () => this.overlaid());
    this.on("bookmarks", () => this.redraw());
    this.on("expanded", () => this.reopen(model.get("expanded")));
    this.on("camera", () => this.camera());
  }

  /**
   * The side to search.
   * @returns {Live}
   */
  searched() { throw new Error("a view says what it searches"); }

  /** The keys of the view, in sections. @returns {Record<string, [string, string][]>} */
  keyRows() { return { Graph: GRAPH_KEYS }; }

  /** Whether the traits of the filter differ from what is shown. */
  limits() {
    const { model } = this;
    return JSON.stringify([model.get("only") ?? null, model.get("hidden") ?? []]) !== JSON.stringify([this.only, this.hidden]);
  }

  /** What the filter shows of one side. @param {Live} live */
  seen(live) { return limited(live, this.slots); }

  /**
   * @param {number | null} id
   * @param {Pane | null} pane
   */
  select(id, pane) {
    if (id !== null && this.selected !== null && id !== this.selected) this.previous = this.selected;
    super.select(id, pane);
  }

  /** Update the layout. */
  relayout() {}

  /** Show the selection outside the graph. */
  inspect() {}

  /** Make room for the list of hits. */
  arrange() {}

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
    this.search.destroy();
    for (const pane of this.panes) pane.destroy();
  }

  // Groups and selection

  /** Tell Python which groups are open. */
  tellOpen() { this.set({ expanded: [...this.open] }); }

  /** Open or close a group without moving it on the screen. @param {string} key */
  toggle(key) {
    const { panes, scene } = this, pane = panes[panes.length - 1], { groups } = scene.data, g = groups.key.indexOf(key), item = scene.itemOf(g);
    const was = pane.layout.boxes.get(item), opens = !this.open.delete(key);
    if (opens) this.open.add(key);
    this.relayout();
    const is = pane.layout.boxes.get(item), { cam } = pane;
    if (was && is && pane.w) {
      pane.setCamera({ ...cam, x: cam.x + is.x + is.w / 2 - was.x - was.w / 2, y: cam.y + is.y - was.y });
      if (!pane.pan(0, 0) && panes.length > 1) this.moved(pane);
    }
    if (opens) for (const p of panes) p.cursor = undefined;
    this.tellOpen();
    this.say(`${groups.label[g]} ${opens ? "opened" : "closed"}`);
  }

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
    SceneShell.prototype.select.call(this, id, null);
    this.set({ selected: id });
  }

  /**
   * Open the groups around an instruction and scroll to it.
   * @param {number} id
   * @param {Pane} pane
   */
  uncover(id, pane) {
    this.admit(id);
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

  searchBox() { return this.search.el; }

  /** What the view knows of instructions beyond the program. @returns {Known} */
  known() {
    const kernels = Object.entries(this.model.get("kernels") ?? {}).map(([id, words]) => /** @type {[number, string]} */ ([+id, words]));
    return { ...NOTHING, overlay: this.overlay, kernels: kernels.length ? new Map(kernels) : null };
  }

  /** The hits of a query. @param {string} query */
  ids(query) { return this.searched().find(query, this.known()); }

  /** Find again, after the program or the overlay has changed. */
  find() { if (this.search.text) this.search.run(); }

  /** Mark the hits of a search, or what Python has highlighted. @param {Set<number> | null} hits */
  mark(hits) {
    this.found = hits ?? new Set(this.model.get("highlight") ?? []);
    this.redraw();
  }

  /** Put an instruction in the middle. @param {number} id */
  centre(id) {
    const pane = this.panes.findLast((p) => p.live.node(id)), item = pane?.itemFor(id);
    if (pane && item !== undefined) pane.centre(item);
  }

  /** A hit in words. @param {number} id */
  hitText(id) {
    const live = this.panes.findLast((p) => p.live.node(id))?.live ?? this.searched(), n = live.node(id), slot = live.slotOf(id) ?? -1;
    const from = n?.sources[0]?.name ?? n?.shape ?? "", note = this.slots && !this.slots.has(slot) ? `hidden · ${from}` : from;
    const mark = n && live.marks.get(n.v);
    return { name: (mark ? PALETTE.glyphs[mark] + " " : "") + live.name(id), title: n?.title ?? "", fact: n?.fact ?? "", note };
  }

  // Filter

  /** Limit the graph to what the traits say. */
  filtered() {
    this.only = this.model.get("only") ?? null;
    this.hidden = this.model.get("hidden") ?? [];
    this.slots = slotsShown(this.scene, this.only, this.hidden);
    this.relayout();
    this.legend();
    this.search.fill();
  }

  /**
   * @param {number[] | null} only
   * @param {number[]} hidden
   */
  limit(only, hidden) {
    this.set({ only, hidden });
    this.filtered();
    for (const pane of this.panes) pane.home();
    this.say(this.shownText() || "All instructions are shown");
  }

  /** Show only some instructions. @param {number[]} ids */
  isolate(ids) { if (ids.length) this.limit(ids, []); }

  hide() { this.limit(this.only, [...this.hidden, ...this.chosen().ids]); }

  /** The selected instruction, or those of the closed group with the keyboard's focus; and its name. */
  chosen() {
    const { selected } = this, pane = this.panes.find((p) => p.cursor !== undefined), group = pane?.byItem.get(pane.cursor ?? -1);
    if (selected === null) return { ids: group?.ids ?? [], name: group?.title ?? "the selection" };
    const live = this.panes.findLast((p) => p.live.node(selected))?.live ?? this.searched();
    return { ids: [selected], name: `${live.name(selected)} ${live.node(selected)?.title ?? ""}`.trim() };
  }

  /**
   * Show only what is within `n` edges of what is chosen.
   * @param {number} n
   * @param {Way} way
   */
  around(n, way) {
    const { ids } = this.chosen();
    if (!ids.length) return this.say("Select an instruction first");
    this.limit(hopsAround(this.searched(), ids, n, way), []);
    this.centre(ids[0]);
  }

  /** Show only the paths between the last two selections. */
  path() {
    if (this.selected === null || this.previous === null) return this.say("Select two instructions, one after the other");
    const ids = pathBetween(this.searched(), this.previous, this.selected);
    if (ids.length) this.limit(ids, []);
    else this.say("There is no path between the last two selections");
  }

  showAll() { if (this.slots) this.limit(null, []); }

  /**
   * Mark the instructions that come from a node of the model, and go to the next of them.
   * @param {string} name
   */
  follow(name) {
    const ids = this.searched().facts.filter((f) => f.sources.some((s) => s.name === name)).map((f) => f.id);
    this.mark(new Set(ids));
    if (ids.length) this.show(ids[(ids.indexOf(this.selected ?? -1) + 1) % ids.length]);
    this.say(`${count(ids.length, "instruction")} from ${name}`);
  }

  /** Show an instruction that the filter hides, too. @param {number} id */
  admit(id) {
    const live = this.panes.findLast((p) => p.live.node(id))?.live, slot = live?.slotOf(id);
    if (!this.slots || slot === undefined || this.slots.has(slot)) return;
    const { nodes } = this.scene.data, same = nodes.id.filter((_, v) => nodes.slot[v] === slot);
    this.set({ only: this.only && [...this.only, id], hidden: this.hidden.filter((k) => !same.includes(k)) });
    this.filtered();
  }

  /** What the filter shows, in words; nothing if all is shown. */
  shownText() {
    if (!this.slots) return "";
    const live = this.searched(), all = [...(live.whole ?? live).bySlot.keys()], shown = all.filter((s) => this.slots?.has(s)).length;
    return `${shown.toLocaleString("en")} of ${count(all.length, "node")} shown`;
  }

  /** What is said in place of a graph without instructions. */
  empty() { return this.slots ? "The filter shows nothing of this graph. Press a to show all." : "This program has no instructions."; }

  // Keys

  /** @param {KeyboardEvent} e */
  key(e) {
    const { hits } = this.search;
    /** @type {Record<string, () => void>} */
    const acts = {
      "/": () => this.search.focus(), "?": () => this.keysOf.open(), m: () => this.toggleMap(), b: () => this.bookmarks.add(), n: () => this.search.step(1),
      N: () => this.search.step(-1), i: () => this.isolate(hits.length ? hits : this.chosen().ids), h: () => this.hide(), p: () => this.path(), a: () => this.showAll(),
    };
    const act = /^[1-9]$/.test(e.key) ? () => this.around(+e.key, "both") : acts[e.key];
    act?.();
    return !!act;
  }

  toggleMap() {
    const map = this.panes[this.panes.length - 1];
    map.hasMap = !map.hasMap;
    this.redraw();
  }

  // Overlay and legend

  overlaid() {
    this.overlay = readOverlay(this.model.get("overlay"));
    this.legend();
    this.find();
    this.redraw();
  }

  /**
   * The colour and text that the overlay gives an item, if any.
   * @param {Item} item
   */
  colorOf(item) {
    const o = this.overlay, value = o ? valueOf(o, item.ids) : undefined;
    if (!o || value === undefined) return null;
    /** @type {(v: number | undefined) => string} */
    const color = (v) => v === undefined ? this.theme.chip : sample(o.scale, share(o, v));
    const blocks = (item.blocks ?? []).map((ids) => valueOf(o, ids)), sizes = blocks.filter((v) => v !== undefined), over = isOver(o, value) ? " ▲" : "";
    const text = !Number.isFinite(value) ? NOT_FINITE : `${number(value)}${o.unit ? " " + o.unit : ""}${over}` + (sizes.length ? `, ${number(Math.min(...sizes))} to ${number(Math.max(...sizes))} each` : "");
    return { color: color(value), text, strip: blocks.map(color) };
  }

  /** Draw the legend, and in it what the filter shows. */
  legend() {
    const note = this.shownText(), all = h("button", { class: "wb-link", onclick: () => this.showAll() }, "Show all (a)");
    this.legendEl.replaceChildren(...(note ? [h("span", { class: "wb-shown" }, note, " ", all)] : []), ...this.keys(this.searched()));
  }

  /**
   * @param {Live} live
   * @returns {HTMLElement[]}
   */
  keys(live) {
    if (!this.overlay) return familyKeys(live, this.theme);
    const { values } = this.overlay, { id, slot } = live.scene.data.nodes, blank = live.order.some((v) => slot[v] >= 0 && !values.has(id[v]));
    return [...overlayKeys(this.overlay), ...(blank ? [h("span", { class: "wb-key" }, h("i", { class: "wb-blank" }), NO_VALUE)] : [])];
  }

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
