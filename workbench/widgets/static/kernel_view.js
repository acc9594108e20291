// KernelView: a table of a run's kernels; beside it the source, module, machine code, log and search of one.

import { Code } from "./code.js";
import { KERNEL_KEYS, keysDialog } from "./keys.js";
import { Tabs, button, decode, div, h, heading, isPlainKey, moved, searchField, soft, spring, take, targetOf } from "./dom.js";
import { columnsOf, factsOf, ordered, visibleRows } from "./kernel_table.js";
import { count, known } from "./format.js";
import { Shell, renderer } from "./shell.js";
import { within } from "./steps.js";

/** @type {Record<string, { label: string, language: string }>} */
const TABS = {
  source: { label: "Source", language: "c" }, module: { label: "Module", language: "ir" },
  machine: { label: "Machine code", language: "asm" }, log: { label: "Log", language: "text" },
  search: { label: "Search", language: "text" },
};
const PATIENCE_MS = 8000;

class KernelShell extends Shell {
  /**
   * @param {Model} model
   * @param {HTMLElement} el
   * @param {KernelData} data
   */
  constructor(model, el, data) {
    super(model, el, "wb-kernels", 560);
    this.title = data.title || "Kernels";
    this.rows = data.rows.map((r, index) => ({ ...r, index }));
    /** The loaded texts, by the kernel's name. @type {Map<string, Partial<KernelTexts>>} */
    this.details = new Map((data.details ?? []).map((d) => [d.name, d]));
    this.stored = data.details !== undefined || !!model.get("stored");
    this.kernel = within(model.get("kernel") ?? 0, this.rows.length);
    this.tab = model.get("tab");
    const shown = Object.entries(TABS).filter(([key]) => key !== "search" || this.rows.some((r) => r.search));
    this.labels = Object.fromEntries(shown.map(([key, { label }]) => [key, label]));
    this.columns = columnsOf(this.rows);
    /** @type {import("./kernel_table.js").Order} */
    this.order = { key: "index", way: 1 };
    /** The table's rows by index. @type {Map<number, HTMLElement>} */
    this.lines = new Map();
    /** @type {number | undefined} */
    this.late = undefined;
    this.filter = searchField("Filter kernels", "Filter kernels", () => this.list(), (e) => this.inFilter(e));
    this.left = h("span", { class: "wb-hits" });
    this.table = div("tableau");
    this.keysOf = keysDialog({ Kernels: KERNEL_KEYS });
    this.tabs = new Tabs("Of the kernel", (key) => this.open(key, true));
    this.facts = div("facts");
    this.code = new Code((text) => this.say(text));
    this.hits = h("span", { class: "wb-hits" });
    this.search = searchField("Find in this text", "Find in this text", () => this.find(), (e) => this.inSearch(e));
    this.build();
    this.on("kernel", () => this.choose(model.get("kernel"), false));
    this.on("tab", () => this.open(model.get("tab"), false));
    this.on("detail", () => this.received());
    this.list();
    this.show();
  }

  build() {
    const tools = div("tools", this.search, this.hits, button("Copy", "Copy this text", () => this.code.copy()));
    this.root.append(
      h("div", { class: "wb-bar", role: "toolbar", "aria-label": "Kernels" },
        h("strong", { class: "wb-title" }, this.title), soft(count(this.rows.length, "kernel")),
        spring(), this.filter, this.left, this.linkButton(), this.themeButton(), this.keysOf.button),
      div("body", this.table,
        div("one", this.facts, div("tabbar", this.tabs.el, spring(), tools), this.code.el)),
      this.status, this.keysOf.dialog);
    this.root.addEventListener("keydown", (e) => {
      if (!["/", "?"].includes(e.key) || !isPlainKey(e)) return;
      if (e.key === "/") this.search.focus();
      else this.keysOf.open();
      take(e);
    });
  }

  // The table

  list() {
    const rows = visibleRows(this.rows, this.filter.value, this.order), most = Math.max(...this.rows.map((r) => r.share ?? 0), 1e-9);
    this.left.textContent = this.filter.value ? `${rows.length} of ${this.rows.length}` : "";
    this.lines = new Map(rows.map((r) => [r.index, this.line(r, most)]));
    const none = h("tr", {}, h("td", { colSpan: this.columns.length, class: "wb-hint" }, this.rows.length ? "No kernel has these words." : "The program launches no kernel."));
    this.table.replaceChildren(h("table", { "aria-label": "Kernels", onkeydown: (/** @type {KeyboardEvent} */ e) => this.tableKey(e) },
      h("thead", {}, h("tr", {}, this.columns.map((c) => heading("wb-k-" + c.key, c.heading, c.title, c.key === this.order.key ? this.order.way : 0, () => this.sort(c.key))))), h("tbody", {}, rows.length ? [...this.lines.values()] : none)));
    this.mark();
  }

  /**
   * @param {Kernel} r
   * @param {number} most the largest share, whose bar fills its cell
   */
  line(r, most) {
    const cells = this.columns.map(({ key, text }) => {
      if (key === "what") return h("td", { class: "wb-k-what", title: [r.what, r.name, ...r.sources].join("\n") }, soft(r.instruction + " "), r.what);
      const bar = key === "ms" && known(r.share) ? `background: linear-gradient(90deg, var(--wb-share) ${(100 * r.share) / most}%, transparent 0)` : undefined;
      return h("td", { class: "wb-k-" + key, style: bar }, text(r));
    });
    return h("tr", { tabIndex: -1, "data-kernel": r.index, "data-id": r.id, onclick: () => this.choose(r.index, true) }, cells);
  }

  /** @param {string} key */
  sort(key) {
    this.order = ordered(this.order, key);
    this.list();
    /** @type {HTMLElement | null} */ (this.table.querySelector(`.wb-k-${key} button`))?.focus();
    const title = this.columns.find((c) => c.key === key)?.title ?? key;
    this.say(`Sorted by ${title.toLowerCase()}, ${this.order.way > 0 ? "ascending" : "descending"}`);
  }

  /** Mark the current row, and the rows of the same instruction. */
  mark() {
    const id = this.rows[this.kernel]?.id, [first] = this.lines.keys(), entry = this.lines.has(this.kernel) ? this.kernel : first;
    for (const [k, line] of this.lines) {
      const here = k === this.kernel;
      line.classList.toggle("wb-chosen", here);
      line.classList.toggle("wb-mate", !here && this.rows[k].id === id);
      line.setAttribute("aria-selected", String(here));
      line.tabIndex = k === entry ? 0 : -1;
    }
  }

  /** @param {KeyboardEvent} e */
  tableKey(e) {
    const row = targetOf(e), keys = [...this.lines.keys()], to = moved(e, keys.indexOf(this.kernel), keys.length);
    if (row.tagName !== "TR") return;
    if (e.key === "Enter") {
      this.choose(Number(row.dataset.kernel), true);
      this.code.el.focus();
    } else if (to !== undefined) {
      this.choose(keys[to], true);
      this.lines.get(this.kernel)?.focus();
    } else return;
    take(e);
  }

  /** @param {KeyboardEvent} e */
  inFilter(e) {
    const [first] = this.lines.keys();
    if (e.key === "Enter" && first !== undefined) this.choose(first, true);
  }

  // One kernel

  /**
   * Show a kernel, and select its instruction unless a part of it is selected.
   * @param {number} k
   * @param {boolean} tell
   */
  choose(k, tell) {
    const r = this.rows[k];
    if (!r || (k === this.kernel && !tell)) return;
    this.kernel = k;
    if (tell) {
      if (this.selected === null || !r.ids.includes(this.selected)) super.select(r.id, null);
      this.set({ kernel: k, selected: this.selected });
    }
    this.mark();
    this.lines.get(k)?.scrollIntoView({ block: "nearest" });
    this.show();
    this.say(`Kernel ${k + 1} of ${this.rows.length}, ${r.instruction} ${r.what}`);
  }

  /** Handle a selection from outside: show the kernel that computes the instruction. @param {number | null} id */
  select(id) {
    super.select(id, null);
    if (id === null || !this.rows.length || this.rows[this.kernel].ids.includes(id)) return;
    const k = this.rows.findIndex((r) => r.ids.includes(id));
    if (k < 0) return this.say(`Instruction ${id} has no kernel`);
    this.choose(k, false);
    this.set({ kernel: k });
  }

  show() {
    const r = this.rows[this.kernel];
    if (!r) return this.code.set("", "text", 0);
    const more = r.sources.length > 6 ? ` and ${r.sources.length - 6} more` : "";
    this.facts.replaceChildren(
      div("line", h("strong", {}, `${r.instruction} ${r.what}`)),
      h("div", {}, h("code", {}, r.name)),
      div("soft wb-said", factsOf(r).map((text) => h("span", {}, text))),
      ...(r.sources.length ? [div("soft", "from ", h("code", {}, r.sources.slice(0, 6).join(", ")), more)] : []));
    this.open(this.tab, false);
  }

  /**
   * @param {string} tab
   * @param {boolean} tell
   */
  open(tab, tell) {
    this.tab = Object.hasOwn(this.labels, tab) ? tab : "source";
    this.tabs.show(this.labels, this.tab);
    if (tell) this.set({ tab: this.tab });
    this.fill();
  }

  /** The text of the open tab, if it is loaded. @param {Kernel} r */
  textOf(r) {
    const d = this.details.get(r.name);
    if (!d) return undefined;
    return this.tab === "module" ? r.module : this.tab === "search" ? r.search || "Nothing was measured for this kernel.\n" : this.tab === "machine" ? d.assembly : this.tab === "log" ? d.log || "The compiler said nothing.\n" : d.source;
  }

  /** Show the text of the open tab; request it from Python if it is not loaded. */
  fill() {
    const r = this.rows[this.kernel], { label, language } = TABS[this.tab], text = this.textOf(r);
    /** @type {(words: string) => void} */
    const note = (words) => this.code.set(words + "\n", "text", 0, label);
    clearTimeout(this.late);
    if (known(text)) this.code.set(text, language, this.tab === "source" ? this.details.get(r.name)?.prologue ?? 0 : 0, `${label} of ${r.name}`);
    else if (this.stored) note("This text is not stored in this page; run the notebook to see it.");
    else {
      note("Loading");
      this.late = setTimeout(() => note("This text is not stored here and no kernel answers. Run the cell again."), PATIENCE_MS);
    }
    if (this.search.value) this.find();
  }

  async received() {
    const detail = await decode(this.model.get("detail"));
    if (detail?.name === undefined) return;
    this.details.set(detail.name, { ...this.details.get(detail.name), ...detail });
    if (detail.name === this.rows[this.kernel]?.name) this.fill();
  }

  find() {
    const n = this.code.find(this.search.value);
    this.hits.textContent = !this.search.value ? "" : n ? this.code.step(1) : "none";
    this.say(this.hits.textContent);
  }

  /** @param {KeyboardEvent} e */
  inSearch(e) {
    if (e.key === "Enter") this.say((this.hits.textContent = this.code.step(e.shiftKey ? -1 : 1)));
    if (e.key === "Escape") this.code.el.focus();
  }

  destroy() {
    super.destroy();
    clearTimeout(this.late);
  }
}

const render = renderer(async (model, el, data) => {
  const shell = new KernelShell(model, el, data);
  await shell.received();
  return shell;
});

export { render };
