// PassExplorer: a recording on a timeline, the graph before and after each pass, its edits and the text diff.

import { Tabs, button, decode, failure, h, take, walkRows } from "./dom.js";
import { count, number } from "./format.js";
import { diffRows, diffText, editList, lawList, loweredList, missList } from "./lists.js";
import { PASS_KEYS } from "./keys.js";
import { inspector } from "./inspector.js";
import { Layout } from "./layout.js";
import { Live, Scene } from "./scene.js";
import { MARKS } from "./items.js";
import { Pane } from "./pane.js";
import { slotsShown } from "./filter.js";
import { SceneShell } from "./scene_shell.js";
import { nextStep, within } from "./steps.js";
import { renderer } from "./shell.js";

const PATIENCE_MS = 8000, STORED_MS = 500;

class ExplorerShell extends SceneShell {
  /**
   * @param {Model} model
   * @param {HTMLElement} el
   * @param {ExplorerData} data
   */
  constructor(model, el, data) {
    super(model, el, data, "wb-explorer", 720);
    this.data = data;
    this.steps = data.steps;
    /** The details of the loaded steps. @type {Map<number, Detail>} */
    this.details = new Map((data.details ?? []).map((d) => [d.index, d]));
    /** @type {Detail | null} */
    this.detail = null;
    this.index = -1;
    /** @type {number | null} */
    this.edit = null;
    this.onlyChanged = this.keep = true;
    this.settled = false;
    this.tab = "edits";
    /** The layout of all steps, with the groups that were open in it. @type {{ open: string, slots: Set<number> | null, layout: Layout } | null} */
    this.kept = null;
    /** The replacement of each removed instruction, by id. @type {Map<number, number>} */
    this.newOf = new Map();
    /** The names of the two sides. @type {HTMLElement[]} */
    this.captions = [];
    /** @type {number | undefined} */
    this.late = undefined;
    /** The last scene that came after the first, and when it is read. @type {DataView | undefined} */
    this.more = undefined;
    /** @type {Promise<void> | undefined} */
    this.extended = undefined;
    const nothing = new Live(this.scene, []), layout = this.layoutOf(null);
    this.before = new Pane(this, "Graph before the pass", nothing, layout);
    this.after = new Pane(this, "Graph after the pass", nothing, layout);
    this.before.hasMap = false;
    this.panes = [this.before, this.after];
    this.dots = this.steps.map((s, k) => h("span", { class: "wb-dot" + (s.changed ? " wb-changed" : ""), title: `${k + 1} ${s.name}`, onclick: () => this.go(k, true) }));
    this.slider = h("div", {
      class: "wb-timeline", role: "slider", tabIndex: 0, "aria-label": "Pass", "aria-valuemin": 1, "aria-valuemax": this.steps.length,
      onkeydown: (/** @type {KeyboardEvent} */ e) => this.slide(e),
    }, this.dots);
    this.what = h("span", { class: "wb-what" });
    this.tabs = new Tabs("Of the pass", (key) => this.showTab(key));
    this.list = h("div", { class: "wb-list", tabIndex: 0, "aria-label": "Of the pass", onkeydown: (/** @type {KeyboardEvent} */ e) => this.listKey(e) });
    this.side = h("div", { class: "wb-inspect" });
    this.diff = h("div", { class: "wb-diff", tabIndex: 0, "aria-label": "Text diff", onkeydown: (/** @type {KeyboardEvent} */ e) => walkRows(this.diff, e) });
    this.diffHead = h("span", { class: "wb-soft" });
    this.root.append(...this.bars(), this.body(), this.legendEl, this.status);
    for (const trait of ["detail", "more"]) this.on(trait, () => this.received());
    this.on("step", () => this.go(model.get("step")));
    this.on("edit", () => this.showEdit(model.get("edit") ?? null, false));
  }

  // The frame

  bars() {
    const { data } = this;
    /** @type {(label: string, change: (on: boolean) => void) => HTMLElement} */
    const box = (label, change) => {
      const field = h("input", { type: "checkbox", checked: true, onchange: () => change(field.checked) });
      return h("label", { class: "wb-check" }, field, label);
    };
    return [
      h("div", { class: "wb-bar" },
        h("strong", { class: "wb-title" }, data.title || "program"), data.target ? h("span", { class: "wb-soft" }, "→ " + data.target) : null,
        h("span", { class: "wb-spring" }), this.searchBox(), this.menu.button, button("⤢", "Show everything (0)", () => this.after.fitAll()),
        this.linkButton(), this.themeButton(), this.saveButton(this.after, "Save the graph after the pass as PNG"), this.keysOf.button),
      h("div", { class: "wb-bar wb-steps", role: "toolbar", "aria-label": "Passes" },
        button("◀", "Previous pass that changed something (r)", () => this.skip(-1)),
        button("▶", "Next pass that changed something (f)", () => this.skip(1)),
        this.slider, this.what, h("span", { class: "wb-spring" }),
        box("changed", (on) => (this.onlyChanged = on)),
        box("keep places", (on) => { this.keep = on; this.relayout(); this.focusChange(); })),
    ];
  }

  body() {
    this.captions = [h("div", { class: "wb-caption" }, "before"), h("div", { class: "wb-caption" }, "after")];
    /** @type {(name: string, pane: Pane, caption: HTMLElement) => HTMLElement} */
    const half = (name, pane, caption) => h("div", { class: `wb-half wb-${name}` }, caption, pane.el);
    return h("div", { class: "wb-body" },
      h("div", { class: "wb-main" },
        h("div", { class: "wb-pair" }, half("before", this.before, this.captions[0]), half("after", this.after, this.captions[1])),
        h("div", { class: "wb-diffbar" }, h("strong", {}, "Text diff"), this.diffHead, h("span", { class: "wb-spring" }), button("Copy", "Copy the text diff", () => this.copy())),
        this.diff),
      h("div", { class: "wb-column" }, this.search.panel, this.tabs.el, this.list, this.side));
  }

  /**
   * @param {Live} live
   * @returns {HTMLElement[]}
   */
  keys(live) {
    return [...MARKS.map((m) => h("span", { class: `wb-key wb-mark-${m}` }, h("b", {}, PALETTE.glyphs[m]), " " + m)), ...super.keys(live)];
  }

  searched() { return this.after.live; }

  /** The hits after the pass, then those that it removed. @param {string} query */
  ids(query) {
    const { detail } = this, known = { ...this.known(), ...(detail ? ofStep(detail, this.steps) : {}) };
    /** @type {(pane: Pane, other: Pane | null) => number[]} */
    const side = ({ live }, other) => live.find(query, { ...known, marks: new Map([...live.marks].map(([v, mark]) => [this.scene.node(v).id, mark])) })
      .filter((id) => !other?.live.node(id));
    return [...side(this.after, null), ...side(this.before, this.after)];
  }

  keyRows() { return { Passes: PASS_KEYS, ...super.keyRows() }; }

  // Steps

  /**
   * Go to a step; its data is requested from Python if it is not loaded.
   * @param {number} k
   * @param {boolean} tell
   */
  go(k, tell = false) {
    k = within(k, this.steps.length);
    if (k === this.index) return;
    this.index = k;
    this.edit = null;
    if (tell) this.set({ step: k, edit: null });
    this.timeline();
    const detail = this.details.get(k);
    if (detail) return this.showStep(detail);
    this.what.append(h("span", { class: "wb-loading" }, " loading"));
    clearTimeout(this.late);
    this.late = setTimeout(() => this.details.has(k) || this.noKernel(), this.model.get("stored") ? STORED_MS : PATIENCE_MS);
  }

  noKernel() {
    this.what.querySelector(".wb-loading")?.remove();
    const text = "This step is not stored here and no kernel answers. Run the cell again.";
    this.diff.replaceChildren(h("div", { class: "wb-failure" }, text));
    this.say(text);
  }

  async received() {
    const detail = await decode(this.model.get("detail"));
    await this.extend();
    if (detail?.index === undefined || detail.versions > this.scene.data.nodes.id.length) return;
    this.details.set(detail.index, detail);
    if (detail.index === this.index) this.showStep(detail);
  }

  /** Take over what Python has laid out since. */
  async extend() {
    const more = this.model.get("more");
    if (more && more.byteLength !== 0 && more !== this.more) {
      this.more = more;
      this.extended = decode(more).then((data) => {
        this.scene = new Scene(data);
        this.slots = slotsShown(this.scene, this.only, this.hidden);
        this.kept = null;
      });
    }
    await this.extended;
  }

  /** Go to the next or previous step. @param {number} by */
  skip(by) {
    const k = nextStep(this.steps, this.index, by, this.onlyChanged);
    if (k !== undefined) this.go(k, true);
    else this.say(by > 0 ? "No later pass changed anything" : "No earlier pass changed anything");
  }

  timeline() {
    const s = this.steps[this.index], k = this.index + 1;
    this.dots.forEach((dot, i) => dot.classList.toggle("wb-here", i === this.index));
    this.slider.scrollLeft = this.dots[this.index].offsetLeft - this.slider.offsetLeft - this.slider.clientWidth / 2;
    this.slider.setAttribute("aria-valuenow", String(k));
    this.slider.setAttribute("aria-valuetext", `${k} of ${this.steps.length}, ${s.name}, ${count(s.edits, "edit")}`);
    this.what.replaceChildren(
      h("span", { class: "wb-soft" }, `${k}/${this.steps.length} `), h("strong", {}, s.name),
      h("span", { class: "wb-number" }, s.before === s.after ? count(s.after, "instruction") : `${s.before.toLocaleString("en")} → ${count(s.after, "instruction")}`),
      h("span", { class: "wb-number" }, count(s.edits, "edit")), h("span", { class: "wb-number" }, `${number(s.ms)} ms`));
  }

  /** @param {Detail} d */
  showStep(d) {
    const s = this.steps[this.index];
    /** @type {(order: Int32Array, marks: [number, number][]) => Live} */
    const live = (order, marks) => new Live(this.scene, order, new Map(marks.map(([v, m]) => [v, MARKS[m]])));
    this.what.querySelector(".wb-loading")?.remove();
    this.detail = d;
    this.data.sides?.slice(this.index, this.index + 2).forEach((name, k) => (this.captions[k].textContent = name));
    this.newOf = new Map(d.replaced);
    this.place(live(d.before, d.gone), live(d.after, d.come));
    for (const pane of this.panes) pane.resize();
    this.diffHead.textContent = d.summary;
    this.diff.replaceChildren(...diffRows(d.diff, (id) => this.show(id)));
    this.diff.scrollTop = 0;
    this.showTab(this.tab);
    this.inspect();
    this.legend();
    this.search.ask(this.model.get("query") ?? "");
    this.find();
    if (s.error) this.diff.prepend(h("div", { class: "wb-failure", role: "alert" }, `The pass failed: ${s.error}`));
    this.say(`${s.name}: ${d.summary}`);
    const wanted = this.model.get("edit") ?? null;
    if (d.edits[wanted]) this.showEdit(wanted, false);
    else if (!this.settled && !this.camera()) this.focusChange();
    this.settled = true;
  }

  /**
   * The places of all items: stable over all steps, or, if stability is off, for the visible ones.
   * @param {Set<number> | null} used
   */
  layoutOf(used) {
    const open = [...this.open].toSorted().join("|");
    if (!this.keep) return new Layout(this.scene, this.open, used);
    if (this.kept?.open !== open || this.kept.slots !== this.slots) this.kept = { open, slots: this.slots, layout: new Layout(this.scene, this.open, this.slots) };
    return this.kept.layout;
  }

  /**
   * Show the graphs before and after on one layout.
   * @param {Live} before
   * @param {Live} after
   */
  place(before, after) {
    const old = this.seen(before), now = this.seen(after), layout = this.layoutOf(new Set([...old.bySlot.keys(), ...now.bySlot.keys()]));
    this.before.show(old, layout);
    this.after.show(now, layout);
  }

  relayout() {
    if (this.detail) this.place(this.before.live, this.after.live);
  }

  /** Move the camera to the first change of this pass. */
  focusChange() {
    const pane = this.after, marked = [...pane.items, ...this.before.items].filter((b) => b.mark || /[+−~]\d/.test(b.own));
    const first = marked.toSorted((a, b) => a.y - b.y).at(0);
    if (!pane.w || !first) return;
    const k = Math.min(1, Math.max(0.8, pane.w / (pane.layout.width + 80)));
    this.before.placed = true;
    pane.move({ k, x: first.x + first.w / 2 - (pane.w - 56) / 2 / k, y: first.y - 90 / k });
  }

  /** Copy a pane's camera to the other side. @param {Pane} pane */
  moved(pane) {
    (pane === this.before ? this.after : this.before).setCamera(pane.cam);
    super.moved(pane);
  }

  /** Open or close a group without moving it on the screen. @param {string} key */
  toggle(key) {
    const { after, scene } = this, item = scene.itemOf(scene.data.groups.key.indexOf(key)), was = after.layout.boxes.get(item);
    if (!this.open.delete(key)) this.open.add(key);
    this.relayout();
    const is = after.layout.boxes.get(item), { cam } = after;
    if (was && is) after.setCamera({ ...cam, x: cam.x + is.cx - was.cx, y: cam.y + is.y - was.y });
    this.moved(after);
    this.tellOpen();
  }

  // Selection, shared by all parts

  /**
   * @param {number | null} id
   * @param {Pane | null} pane
   */
  select(id, pane) {
    if (id === this.selected) return;
    super.select(id, pane);
    for (const p of this.panes) p.cursor = undefined;
    if (pane) this.set({ selected: id });
    else if (id !== null) this.show(id);
    this.marked();
  }

  marked() {
    this.inspect();
    for (const row of this.diff.querySelectorAll("[data-id]")) row.classList.toggle("wb-chosen", row.getAttribute("data-id") === String(this.selected));
    this.redraw();
  }

  /** The side that shows an instruction: after the pass, unless it was removed. @param {number} id */
  sideOf(id) { return this.after.live.node(id) ? this.after : this.before; }

  /** Select an instruction of either side, open the groups around it and scroll to it. @param {number} id */
  show(id) {
    if (!this.detail) return;
    this.choose(id);
    this.uncover(id, this.sideOf(id));
    this.marked();
  }

  inspect() {
    if (!this.detail) return;
    const id = this.selected, { live } = id === null ? this.after : this.sideOf(id), panel = inspector(live, id, (k) => this.show(k));
    const value = id === null ? undefined : this.overlay?.values.get(id);
    if (this.overlay && value !== undefined) panel.append(h("p", {}, `${this.overlay.name} ${number(value)} ${this.overlay.unit}`));
    const lowered = this.detail.lowered?.find((r) => r.id === id);
    if (lowered) panel.append(h("p", { class: "wb-lowered" }, "became ", h("code", {}, lowered.became)));
    if (lowered?.place) panel.append(h("p", {}, "at ", h("code", {}, lowered.place)));
    if (id !== null && live === this.before.live && live.node(id)) panel.append(this.removal(this.newOf.get(id)));
    this.side.replaceChildren(panel);
  }

  /** The note that an instruction was removed, and its replacement. @param {number | undefined} next */
  removal(next) {
    const { live } = this.after;
    return h("p", { class: "wb-soft" }, "− removed by this pass", next === undefined ? "" : ["; replaced by ",
      h("button", { class: "wb-link", type: "button", onclick: () => this.show(next) }, `${live.name(next)} ${live.node(next)?.title ?? ""}`)]);
  }

  /** An instruction's name before the pass, or after it for a new one. @param {number} id */
  nameOf(id) { return (this.before.live.node(id) ? this.before : this.after).live.name(id); }

  // Edits

  /** Open a tab. The lowering has its own tab; other steps restore the previous one. @param {string} name */
  showTab(name) {
    const d = this.detail;
    if (!d) return;
    if (this.data.sides?.length) this.tabs.show({ edits: `Differences ${d.edits.length}` }, "edits");
    else if (d.lowered?.length) this.tabs.show({ lowered: `Lowering ${d.lowered.length}` }, "lowered");
    else {
      this.tab = name;
      this.tabs.show({ edits: `Edits ${d.edits.length}`, misses: `Near misses ${d.misses.length}`, laws: "Laws" }, name);
    }
    this.list.replaceChildren(...this.listOf(d, this.tabs.chosen));
    this.list.scrollTop = 0;
  }

  /**
   * @param {Detail} d
   * @param {string} tab
   */
  listOf(d, tab) {
    /** @type {(id: number) => void} */
    const show = (id) => this.show(id);
    if (tab === "lowered") return loweredList(d.lowered ?? [], d.summary, (id) => this.after.live.name(id), show);
    if (tab === "edits") return editList(d.edits, this.edit, (k) => this.showEdit(k));
    return tab === "misses" ? missList(d.misses, (id) => this.nameOf(id), show) : lawList(d.laws);
  }

  /**
   * Show one edit: mark its instructions on both sides, and scroll to the first.
   * @param {number | null} k
   * @param {boolean} tell
   */
  showEdit(k, tell = true) {
    const e = k === null ? undefined : this.detail?.edits[k];
    if (!e || !this.detail || (k === this.edit && !tell)) return;
    this.edit = k;
    if (tell) this.set({ edit: k });
    if (this.tab !== "edits") this.showTab("edits");
    this.found = new Set([...e.added, ...e.removed, ...e.changed]);
    for (const row of this.list.children) {
      const here = row.getAttribute("data-edit") === String(k);
      row.classList.toggle("wb-chosen", here);
      if (here) row.scrollIntoView({ block: "nearest" });
    }
    /** @type {(id: number) => boolean} */
    const drawn = (id) => this.panes.some((pane) => (pane.live.node(id)?.slot ?? -1) >= 0);
    const all = [...e.added, ...e.changed, ...e.removed], id = all.find(drawn) ?? all.at(0);
    if (id !== undefined) this.show(id);
    this.diff.querySelector(`[data-id="${id}"]`)?.scrollIntoView({ block: "nearest" });
    this.say(`Edit ${e.index + 1} of ${this.detail.edits.length}, ${e.rule}`);
  }

  /** @param {number} by */
  stepEdit(by) {
    const n = this.detail?.edits.length ?? 0;
    if (n) this.showEdit(within((this.edit ?? (by > 0 ? -1 : n)) + by, n));
  }

  // Keys

  /** @param {KeyboardEvent} e */
  key(e) {
    if (e.key === "f") this.skip(1);
    else if (e.key === "r") this.skip(-1);
    else if (e.key === "Home") this.go(0, true);
    else if (e.key === "End") this.go(this.steps.length - 1, true);
    else if (e.key === "ArrowRight") this.stepEdit(1);
    else if (e.key === "ArrowLeft") this.stepEdit(-1);
    else return super.key(e);
    return true;
  }

  /** Up and down step through the edits; in other lists they move the focus. @param {KeyboardEvent} e */
  listKey(e) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (this.tabs.chosen !== "edits" || by === undefined) return walkRows(this.list, e);
    this.stepEdit(by);
    take(e);
  }

  /** @param {KeyboardEvent} e */
  slide(e) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (by === undefined) return;
    this.skip(by);
    take(e);
  }

  copy() {
    const text = diffText(this.detail?.diff ?? []);
    navigator.clipboard?.writeText(text).then(() => this.say("Text diff copied"), () => this.say("The browser refused to copy; select the text"));
  }

  destroy() {
    super.destroy();
    clearTimeout(this.late);
  }
}

/**
 * What a step of a recording tells of instructions, for queries.
 * @param {Detail} detail
 * @param {Step[]} steps
 */
function ofStep({ edits, lowered }, steps) {
  /** @type {Map<number, string>} */
  const rules = new Map();
  for (const e of edits) for (const id of new Set([...e.added, ...e.removed, ...e.changed])) rules.set(id, rules.has(id) ? `${rules.get(id)}\n${e.rule}` : e.rule);
  const passes = new Map(steps.flatMap((s) => (s.made ?? []).map((id) => /** @type {[number, string]} */ ([id, s.name]))));
  const kernels = lowered?.length ? new Map(lowered.filter((r) => r.kind !== "part").map((r) => [r.id, r.became])) : null;
  return { rules, passes, kernels };
}

const render = renderer(async (model, el, data) => {
  const shell = new ExplorerShell(model, el, data);
  await shell.received();
  if (shell.steps.length) shell.go(model.get("step") ?? 0);
  else failure(el, "The recording has no steps: no pass ran while it listened.");
  return shell;
});

export { render };
