// The whole workbench: settings, actions with progress, and panes over one selection.

import { Form } from "./form.js";
import { Shell, renderer } from "./shell.js";
import { GRAPH_KEYS, KERNEL_KEYS, PASS_KEYS, QUERY_WORDS, keysDialog } from "./keys.js";
import { Table } from "./table.js";
import { Tabs, button, copyText, decode, div, h, isPlainKey, spring, take } from "./dom.js";
import { render as renderExplorer } from "./explorer.js";
import { render as renderGraph } from "./graph_view.js";
import { render as renderKernels } from "./kernel_view.js";

/** @type {Record<string, (rendering: Rendering) => Promise<(() => void) | undefined>>} */
const VIEWS = { graph: renderGraph, passes: renderExplorer, kernels: renderKernels };
const LABELS = { graph: "Graph", passes: "Passes", kernels: "Kernels", timings: "Timings", memory: "Memory", numbers: "Numbers", lint: "Lint", builds: "Builds" };
/** @type {Record<string, string>} */
const MISSING = {
  passes: "Compile to see each pass.", kernels: "This target runs no kernels. Choose the target gpu and compile.", timings: "Profile to see how long each part takes.",
  memory: "Compile to see the memory plan.", numbers: "Compare to see the error of each value.", lint: "Compile to see what is done needlessly.",
  builds: "Profile or compare builds of two settings or more to see them beside each other.",
};
/** @type {Record<string, [string, string]>} */
const ACTIONS = {
  compile: ["Compile", "Compile with these settings"], run: ["Run", "Run once"], profile: ["Profile", "Run several times and time each part"],
  compare: ["Compare", "Compare each value with the reference"], bisect: ["Bisect", "Find the pass that changes the results"],
};
const SHARED = new Set(["selected", "theme", "overlay", "stored", "bookmarks"]);
const NARROW = 900;

/** Whether a pane's data has come. @param {any} data */
const filled = (data) => !!data && (!("byteLength" in data) || data.byteLength > 0);

/** The traits of one pane: its own have its name before them, the selection is everybody's. */
class Part {
  /**
   * @param {Model} model
   * @param {string} pane
   */
  constructor(model, pane) {
    this.model = model;
    this.pane = pane;
  }

  /** @param {string} name */
  own(name) { return SHARED.has(name) ? name : `${this.pane}_${name}`; }
  /** @param {string} name */
  get(name) { return this.model.get(this.own(name)); }
  /**
   * @param {string} name
   * @param {unknown} value
   */
  set(name, value) { this.model.set(this.own(name), value); }
  save_changes() { this.model.save_changes(); }
  /** @param {string} event */
  event(event) { return event.startsWith("change:") ? "change:" + this.own(event.slice(7)) : event; }
  /**
   * @param {string} event
   * @param {() => void} callback
   */
  on(event, callback) { this.model.on(this.event(event), callback); }
  /**
   * @param {string} event
   * @param {() => void} callback
   */
  off(event, callback) { this.model.off(this.event(event), callback); }
}

class Frame extends Shell {
  /**
   * @param {Model} model
   * @param {HTMLElement} el
   * @param {FrameData} data
   */
  constructor(model, el, data) {
    super(model, el, "wb-frame", 760);
    this.data = data;
    this.stored = !!(data.stored || model.get("stored"));
    /** What is drawn in each pane: its data, and how to take it away. @type {Map<string, { data: unknown, end?: () => void }>} */
    this.drawn = new Map();
    /** @type {Map<string, Table>} */
    this.tables = new Map();
    this.form = new Form(data, (settings) => this.change(settings), this.stored);
    this.tabs = new Tabs("Panes", (pane) => this.open(pane, true));
    this.places = Object.fromEntries(Object.keys(LABELS).map((pane) => [pane, h("div", { class: "wb-place-of", role: "tabpanel", "aria-label": LABELS[/** @type {keyof typeof LABELS} */ (pane)], hidden: true })]));
    this.buttons = Object.fromEntries(data.actions.map((a) => [a, button(ACTIONS[a][0], this.stored ? "Needs a kernel: run the notebook" : ACTIONS[a][1], () => this.ask({ do: a }), { class: "wb-button wb-action", disabled: this.stored })]));
    this.stopper = button("Stop", "Stop what is running; what it found is kept", () => this.ask({ stop: true }), { class: "wb-button wb-stop", hidden: true });
    this.bar = h("div", { class: "wb-progress", role: "progressbar", "aria-label": "Progress", hidden: true }, h("i", {}));
    this.note = div("said wb-noteline");
    this.shade = h("select", { "aria-label": "Colour nodes by", onchange: () => this.set({ shade: this.shade.value }), disabled: this.stored }, data.shades.map((s) => h("option", { value: s }, s ? `colour: ${s}` : "colour: family")));
    this.side = h("aside", { class: "wb-settings", "aria-label": "Settings" }, this.form.el);
    this.toggle = button("☰", "Show or hide the settings", () => this.settle(!!this.side.hidden));
    this.build();
    for (const name of ["settings", "choices"]) this.on(name, () => this.showSettings());
    this.on("status", () => this.showStatus());
    this.on("pane", () => this.open(model.get("pane"), false));
    this.on("shade", () => (this.shade.value = model.get("shade") ?? ""));
    for (const pane of Object.keys(LABELS)) this.on(pane + "_data", () => pane === this.pane && this.fill(pane));
    this.shade.value = model.get("shade") ?? "";
    this.settle(!this.stored && (el.clientWidth || NARROW) >= NARROW);
    this.showSettings();
    this.showStatus();
    this.open(model.get("pane") in LABELS ? model.get("pane") : "graph", false);
  }

  build() {
    const keys = keysDialog({ Graph: GRAPH_KEYS, Passes: PASS_KEYS, Kernels: KERNEL_KEYS, Search: QUERY_WORDS });
    this.root.addEventListener("keydown", (e) => {
      if (e.key !== "?" || !isPlainKey(e)) return;
      keys.open();
      take(e);
    });
    this.root.append(keys.dialog,
      h("div", { class: "wb-bar wb-actions", role: "toolbar", "aria-label": "Workbench" },
        this.toggle, h("strong", { class: "wb-title" }, this.data.title), Object.values(this.buttons), this.stopper,
        spring(), this.shade, button("Copy as code", "Copy the Python that does the same", () => this.copy()), this.linkButton(), this.themeButton(), keys.button),
      this.bar, this.note,
      div("body", this.side,
        div("main", this.tabs.el, ...Object.values(this.places))),
      this.status);
  }

  /** Send a message, which takes the settings along: a change of them may still wait in the browser. @param {Record<string, unknown>} message */
  ask(message) {
    if (message.do) for (const b of Object.values(this.buttons)) b.disabled = true;
    this.model.send?.({ ...message, settings: this.model.get("settings") });
  }

  /** Show or hide the settings. @param {boolean} on */
  settle(on) {
    this.side.hidden = !on;
    this.toggle.setAttribute("aria-expanded", String(on));
  }

  copy() {
    const code = this.model.get("code") ?? "";
    copyText(code, "The code is in the clipboard", (words) => this.say(words), () => {
      this.note.replaceChildren(h("pre", { class: "wb-codecopy" }, code));
      this.say("The browser does not allow copying; the code is shown");
    });
  }

  // Settings and status

  /** Take settings; when passes are switched off or on, the build is made again with what was known of it. @param {Settings} settings */
  change(settings) {
    const again = settings.off.join() !== this.model.get("settings").off.join() && this.has("memory") && !this.state().doing;
    this.set({ settings });
    if (again) this.ask({ do: "again" });
  }

  showSettings() {
    const settings = this.model.get("settings"), choices = this.model.get("choices");
    if (settings && choices) this.form.show(settings, choices);
  }

  /** @returns {Status} */
  state() { return this.model.get("status") ?? {}; }

  showStatus() {
    const s = this.state(), busy = !!s.doing;
    for (const b of Object.values(this.buttons)) b.disabled = busy || this.stored;
    this.stopper.hidden = !busy;
    this.bar.hidden = !busy;
    const part = s.of ? (100 * s.done) / s.of : 0;
    /** @type {HTMLElement} */ (this.bar.firstElementChild).style.width = `${part}%`;
    this.bar.setAttribute("aria-valuenow", String(Math.round(part)));
    const text = busy ? `${ACTIONS[s.doing]?.[0] ?? s.doing}: ${s.what || "starting"}${s.of ? ` ${s.done} of ${s.of}` : ""}` : s.note ?? "";
    const stale = s.stale && !busy ? h("span", { class: "wb-stale" }, "Settings have changed since this was compiled. ") : null;
    this.note.replaceChildren(...(s.error ? [h("div", { class: "wb-failure", role: "alert" }, s.error)] : []), ...(stale ? [stale] : []), text);
    if (!busy) this.say(s.error || text);
    this.showTabs();
    if (this.pane && !this.drawn.has(this.pane)) this.fill(this.pane);
  }

  /** @param {string} pane */
  has(pane) { return (this.state().has ?? ["graph"]).includes(pane); }

  showTabs() {
    this.tabs.show(LABELS, this.pane ?? "graph");
    for (const tab of this.tabs.el.children) tab.classList.toggle("wb-absent", !this.has(tab.getAttribute("data-tab") ?? ""));
  }

  // Panes

  /**
   * @param {string} pane
   * @param {boolean} tell
   */
  open(pane, tell) {
    if (!(pane in this.places)) return;
    this.pane = pane;
    for (const [name, place] of Object.entries(this.places)) place.hidden = name !== pane;
    if (tell) this.set({ pane });
    this.showTabs();
    this.fill(pane);
  }

  /** Draw a pane's data, unless it is drawn. @param {string} pane */
  async fill(pane) {
    const place = this.places[pane], data = this.model.get(pane + "_data"), old = this.drawn.get(pane);
    if (old && old.data === data) return;
    if (!this.has(pane) || !filled(data)) {
      if (!this.has(pane)) this.empty(pane, this.state().why?.[pane] ?? MISSING[pane] ?? "There is nothing to show yet.");
      else if (!old) this.empty(pane, this.stored ? "This pane is not stored in the notebook: run it again." : "Loading");
      return;
    }
    old?.end?.();
    this.drawn.set(pane, { data });
    if (pane in VIEWS) {
      const end = await VIEWS[pane]({ model: new Part(this.model, pane), el: place });
      const now = this.drawn.get(pane);
      if (now && now.data === data) now.end = end;
      else end?.();
      return;
    }
    const table = this.tables.get(pane) ?? new Table(LABELS[/** @type {keyof typeof LABELS} */ (pane)], (id) => this.choose(id), (selected, traits) => this.go(selected, traits), (text) => this.say(text));
    this.tables.set(pane, table);
    table.show(await decode(data));
    table.select(this.selected);
    place.replaceChildren(table.el);
  }

  /**
   * @param {string} pane
   * @param {string} words
   */
  empty(pane, words) {
    this.drawn.get(pane)?.end?.();
    this.drawn.delete(pane);
    this.places[pane].replaceChildren(div("absence", words));
  }

  /** A row was clicked. @param {number} id */
  choose(id) { this.set({ selected: id }); }

  /**
   * Select in another pane.
   * @param {number | null} selected
   * @param {Record<string, unknown>} traits
   */
  go(selected, traits) {
    this.set({ selected, ...traits });
    this.open(this.model.get("pane"), false);
  }

  /** @param {number | null} id */
  select(id) {
    super.select(id, null);
    for (const table of this.tables?.values() ?? []) table.select(id);
  }

  destroy() {
    super.destroy();
    for (const { end } of this.drawn.values()) end?.();
  }
}

const render = renderer((model, el, data) => new Frame(model, el, data));

export { render };
