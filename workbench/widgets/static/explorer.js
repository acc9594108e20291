// PassExplorer: a recording on a timeline, the graph before and after each pass, its edits and the text diff.

import { Tabs, button, copyText, decode, div, failure, h, hint, soft, spring, take, walkRows } from "./dom.js";
import { count, number } from "./format.js";
import { diffRows, diffText, editList, lawList, loweredList, missList, stepFacts } from "./lists.js";
import { PASS_KEYS } from "./keys.js";
import { inspector, removal } from "./inspector.js";
import { Layout } from "./layout.js";
import { Live, Scene, grown } from "./scene.js";
import { MARKS } from "./items.js";
import { Pane } from "./pane.js";
import { slotsShown } from "./filter.js";
import { SceneShell } from "./scene_shell.js";
import { PassList } from "./pass_list.js";
import { idsOf } from "./refs.js";
import { keepStates, nextStep, ofStep, withEdits, within } from "./steps.js";
import { pairing } from "./why.js";
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
    this.details = new Map((data.details ?? []).map((d) => [d.index, withEdits(d)]));
    /** @type {Detail | null} */
    this.detail = null;
    this.index = -1;
    /** @type {number | null} */
    this.edit = null;
    this.onlyChanged = this.keep = true;
    this.settled = false;
    /** The instructions of which `why_not` is asked. @type {[number, number] | null} */
    this.pair = null;
    this.tab = "edits";
    /** The states within the steps, by edit. @type {Map<number, Map<number, State>>} */
    this.states = new Map();
    /** The layout of all steps, with the groups that were open in it. @type {{ open: string, slots: Set<number> | null, layout: Layout } | null} */
    this.kept = null;
    /** The replacement of each removed instruction, by id. @type {Map<number, number>} */
    this.newOf = new Map();
    /** The text diff that is shown. @type {DiffRow[]} */
    this.rows = [];
    /** The names of the two sides. @type {HTMLElement[]} */
    this.captions = [];
    /** @type {number | undefined} */
    this.late = undefined;
    /** The number of parts by which the scene has grown, and what it is then, without states within steps. */
    this.parts = 0;
    /** @type {Promise<SceneData> | undefined} */
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
    this.passes = new PassList(this);
    this.what = this.passes.button;
    this.tabs = new Tabs("Of the pass", (key) => this.showTab(key));
    this.list = h("div", { class: "wb-list", tabIndex: 0, "aria-label": "Of the pass", onkeydown: (/** @type {KeyboardEvent} */ e) => this.listKey(e) });
    this.side = div("inspect");
    this.diff = h("div", { class: "wb-diff", tabIndex: 0, "aria-label": "Text diff", onkeydown: (/** @type {KeyboardEvent} */ e) => walkRows(this.diff, e) });
    this.diffHead = soft();
    this.root.append(this.passes.panel, ...this.bars(), this.body(), this.legendEl, this.status);
    for (const trait of ["detail", "more"]) this.on(trait, () => this.received());
    this.on("step", () => this.go(model.get("step")));
    this.on("within", () => this.receivedStates());
    this.on("answer", () => this.inspect());
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
      div("bar",
        h("strong", { class: "wb-title" }, data.title || "program"), data.target ? soft("→ " + data.target) : null,
        spring(), this.searchBox(), this.menu.button, this.bookmarks.button, button("⤢", "Show everything (0)", () => this.after.fitAll()),
        this.linkButton(), this.themeButton(), this.saveButton(this.after, "Save the graph after the pass as PNG"), this.keysOf.button),
      h("div", { class: "wb-bar wb-steps", role: "toolbar", "aria-label": "Passes" },
        button("◀", "Previous pass that changed something (r)", () => this.skip(-1)),
        button("▶", "Next pass that changed something (f)", () => this.skip(1)),
        this.slider, this.what, spring(),
        box("changed", (on) => (this.onlyChanged = on)),
        box("keep places", (on) => { this.keep = on; this.relayout(); this.focusChange(); })),
    ];
  }

  body() {
    this.captions = [div("caption", "before"), div("caption", "after")];
    /** @type {(name: string, pane: Pane, caption: HTMLElement) => HTMLElement} */
    const half = (name, pane, caption) => h("div", { class: `wb-half wb-${name}` }, caption, pane.el);
    return div("body",
      div("main",
        div("pair", half("before", this.before, this.captions[0]), half("after", this.after, this.captions[1])),
        div("diffbar", h("strong", {}, "Text diff"), this.diffHead, spring(), button("Copy", "Copy the text diff", () => this.copy())),
        this.diff),
      div("column", this.search.panel, this.tabs.el, this.list, this.side));
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
    if (tell) this.set({ edit: null, step: k });
    this.timeline();
    const detail = this.details.get(k);
    if (detail) return this.showStep(detail);
    this.what.append(h("span", { class: "wb-loading" }, " loading"));
    clearTimeout(this.late);
    this.late = setTimeout(() => this.details.has(k) || this.noKernel(), this.model.get("stored") ? STORED_MS : PATIENCE_MS);
  }

  /** @param {Detail} d @param {Within} states */
  keepStates(d, states) { this.states.set(d.index, keepStates(this.scene, d.before, states, this.states.get(d.index) ?? new Map())); }

  async receivedStates() {
    const states = await decode(this.model.get("within"));
    await this.extend();
    const detail = states && this.details.get(states.index);
    if (!detail || states.scene !== this.scene.versions) return;
    this.keepStates(detail, states);
    if (detail !== this.detail) return;
    this.stage();
    this.marked();
    if (this.selected !== null) this.uncover(this.selected, this.sideOf(this.selected));
  }

  noKernel() {
    this.what.querySelector(".wb-loading")?.remove();
    const text = "This step is not stored here and no kernel answers. Run the cell again.";
    this.diff.replaceChildren(div("failure", text));
    this.say(text);
  }

  async received() {
    const detail = await decode(this.model.get("detail"));
    await this.extend();
    if (detail?.index === undefined || detail.versions > this.scene.versions) return;
    this.details.set(detail.index, withEdits(detail));
    if (detail.index === this.index) this.showStep(detail);
  }

  /** Take over what Python has laid out since. */
  async extend() {
    const more = (this.model.get("more") ?? []).slice(this.parts);
    this.parts += more.length;
    if (more.length) {
      this.extended = Promise.all([this.extended, ...more.map(decode)]).then(async ([old, ...parts]) => {
        const data = parts.reduce(grown, old ?? await decode(this.model.get("data")));
        this.scene = new Scene(structuredClone(data));
        this.states.clear();
        this.slots = slotsShown(this.scene, this.only, this.hidden);
        this.kept = null;
        return data;
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
    this.what.replaceChildren(...stepFacts(s, k, this.steps.length));
  }

  /** @param {Detail} d */
  showStep(d) {
    const s = this.steps[this.index];
    if (!d.partial) this.what.querySelector(".wb-loading")?.remove();
    this.detail = d;
    this.newOf = new Map(d.replaced);
    if (d.within && !this.states.has(d.index)) this.keepStates(d, d.within);
    this.stage();
    for (const pane of this.panes) pane.resize();
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
    this.bookmarks.arrive();
  }

  /** Show the programs before and after the chosen edit, or, without one or until they are here, the whole pass. */
  stage() {
    const { detail, edit, data, index } = this, states = this.states.get(index), k = edit ?? NaN, old = states?.get(k - 1), now = states?.get(k);
    if (!detail) return;
    this.scene.partial = !!detail.partial;
    /** @type {(order: Int32Array, marks: Marked) => Live} */
    const live = (order, marks) => new Live(this.scene, order, new Map(marks.map(([v, m]) => [v, MARKS[m]])));
    if (old && now?.marks) this.place(live(old.order, now.marks[0]), live(now.order, now.marks[1]));
    else this.place(live(detail.before, detail.gone), live(detail.after, detail.come));
    const words = edit === null || data.sides?.length ? "" : now ? ` edit ${edit + 1}` : ` the pass${data.details || this.model.get("stored") ? "; its edits are not stored" : `, edit ${edit + 1} is loading`}`;
    const [said, rows] = (old && now?.diff) || [detail.summary, detail.diff];
    this.rows = rows;
    this.diffHead.textContent = said;
    this.diff.replaceChildren(...diffRows(rows, (id) => this.show(id), [idsOf(this.before.live), idsOf(this.after.live)]));
    this.diff.scrollTop = 0;
    this.captions.forEach((el, side) => (el.textContent = data.sides?.[index + side] ?? (side ? "after" : "before") + words));
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
    pane.move({ k, x: first.x + first.w / 2 - (pane.w - 56) / 2 / k, y: Math.max(-14 / k, Math.min(first.y - 90 / k, pane.layout.height + (44 - pane.h) / k)) });
  }

  /** Copy a pane's camera to the other side. @param {Pane} pane */
  moved(pane) {
    (pane === this.before ? this.after : this.before).setCamera(pane.cam);
    super.moved(pane);
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
    this.pair = null;
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
    const id = this.selected, { live } = id === null ? this.after : this.sideOf(id), panel = inspector(live, id, (k) => this.show(k), (name) => this.follow(name));
    const value = this.overlay?.values.get(id ?? NaN), lowered = this.detail.lowered?.find((r) => r.id === id);
    /** @type {(kind: string, ...parts: Child[]) => void} */
    const tell = (kind, ...parts) => panel.append(h("p", { class: kind }, parts));
    if (this.overlay && value !== undefined) tell("", `${this.overlay.name} ${number(value)} ${this.overlay.unit}`);
    if (lowered) tell("wb-lowered", "became ", h("code", {}, lowered.became));
    if (lowered?.place) tell("", "at ", h("code", {}, lowered.place));
    if (id !== null && live === this.before.live && live.node(id)) panel.append(removal(this.after.live, this.newOf.get(id), (k) => this.show(k)));
    const pair = this.pair && pairing(this.pair, this.model.get("answer"), (k) => this.nameOf(k), (k) => this.show(k), (asked) => this.set({ asked }));
    this.side.replaceChildren(...(pair ? [pair] : []), panel);
  }

  // Why two are not one kernel

  /** Choose a second instruction beside the selected one. @param {number} id */
  pairWith(id) {
    if (!this.data.why || this.selected === null || id === this.selected) return;
    this.pair = [this.selected, id];
    this.found = new Set(this.pair);
    this.marked();
  }

  /** Ask about the two that are chosen, or about the last two selections. */
  whyNot() {
    if (!this.data.why) return;
    const { previous, selected } = this;
    if (!this.pair && previous !== null && selected !== null) this.pair = [previous, selected];
    if (!this.pair) return this.say("Select two instructions, one after the other");
    this.set({ asked: this.pair });
    this.inspect();
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
      this.tabs.show({ edits: `Edits ${d.partial ?? d.edits.length}`, misses: `Near misses ${d.partial ?? d.misses.length}`, laws: "Laws" }, name);
    }
    const hadFocus = this.list.contains(document.activeElement);
    this.list.replaceChildren(...this.listOf(d, this.tabs.chosen));
    this.list.scrollTop = 0;
    if (hadFocus) this.list.focus();
  }

  /**
   * @param {Detail} d
   * @param {string} tab
   */
  listOf(d, tab) {
    /** @type {(id: number) => void} */
    const show = (id) => this.show(id);
    if (d.partial) return [hint(d.summary)];
    if (tab === "lowered") return loweredList(d.lowered ?? [], d.summary, (id) => this.after.live.name(id), show);
    if (tab === "edits") return editList(d, this.edit, (k) => this.showEdit(k), !this.data.sides?.length);
    return tab === "misses" ? missList(d, (id) => this.nameOf(id), show) : lawList(d);
  }

  /**
   * Show one edit: the programs around it, its instructions marked, the first of them in view; or the whole pass.
   * @param {number | null} k
   * @param {boolean} tell
   */
  showEdit(k, tell = true) {
    const { detail } = this, e = k === null ? undefined : detail?.edits[k];
    if (!detail || (k !== null && !e) || (k === this.edit && !tell)) return;
    this.edit = k;
    if (tell) this.set({ edit: k });
    if (this.tab !== "edits") this.showTab("edits");
    const all = e ? [...e.added, ...e.changed, ...e.removed] : [];
    this.found = new Set(all);
    this.stage();
    for (const row of this.list.children) {
      const here = row.getAttribute("data-edit") === String(k ?? "");
      row.classList.toggle("wb-chosen", here);
      if (here) row.scrollIntoView({ block: "nearest" });
    }
    /** @type {(id: number) => boolean} */
    const drawn = (id) => this.panes.some(({ live }) => { const n = live.node(id); return n && n.slot >= 0 && !n.module; });
    // To show an instruction inside a kernel would open the kernel, and move all others.
    const main = all.find(drawn), id = main ?? all.at(0);
    if (main !== undefined) this.show(main);
    else if (id !== undefined) this.choose(id);
    this.marked();
    this.diff.querySelector(`[data-id="${id}"]`)?.scrollIntoView({ block: "nearest" });
    this.say(e ? `Edit ${e.index + 1} of ${detail.edits.length}, ${e.rule}` : "The whole pass");
  }

  /** Go to the next or previous edit; before the first is the whole pass. @param {number} by */
  stepEdit(by) {
    const n = this.detail?.edits.length ?? 0, to = Math.min(n - 1, (this.edit ?? -1) + by);
    if (n && (this.edit !== null || by > 0)) this.showEdit(to < 0 ? null : to);
  }

  // Keys

  /** @param {KeyboardEvent} e */
  key(e) {
    /** @type {Record<string, () => void>} */
    const acts = {
      f: () => this.skip(1), r: () => this.skip(-1), Home: () => this.go(0, true), End: () => this.go(this.steps.length - 1, true),
      ArrowRight: () => this.stepEdit(1), ArrowLeft: () => this.stepEdit(-1), l: () => this.passes.toggle(true), w: () => this.whyNot(), s: () => this.toggleSource(),
    };
    acts[e.key]?.();
    return e.key in acts || super.key(e);
  }

  /** Open or close the source of the rule of the row with the focus, or of the chosen edit. */
  toggleSource() {
    const source = /** @type {HTMLDetailsElement | null} */ (this.list.querySelector(".wb-item:focus details, .wb-chosen details"));
    if (source) source.open = !source.open;
    source?.scrollIntoView({ block: "nearest" });
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

  copy() { copyText(diffText(this.rows), "Text diff copied", (words) => this.say(words)); }

  destroy() {
    super.destroy();
    clearTimeout(this.late);
  }
}

const render = renderer(async (model, el, data) => {
  const shell = new ExplorerShell(model, el, data);
  await shell.received();
  if (shell.steps.length) shell.go(model.get("step") ?? 0);
  else failure(el, "The recording has no steps: no pass ran while it listened.");
  return shell;
});

export { render };
