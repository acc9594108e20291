// KernelView: the kernels of a run in a table; beside it source, module, machine code and log of one.

import { Code } from "./code.js";
import { count, decode, failure, h, number } from "./dom.js";
import { Shell } from "./shell.js";

const TABS = { source: ["Source", "c"], module: ["Module", "ir"], machine: ["Machine code", "asm"], log: ["Log", "text"] };
const bytes = (n) => (n === null ? "" : n < 1e3 ? `${n} B` : n < 1e6 ? `${number(n / 1e3)} kB` : n < 1e9 ? `${number(n / 1e6)} MB` : `${number(n / 1e9)} GB`);
const known = (n) => n !== null && n !== undefined;
const percent = (n) => (known(n) ? `${number(100 * n)} %` : "");

// key, heading, what it means, the cell's text, what is sorted by
const COLUMNS = [
  ["index", "#", "Place in the run", (r) => r.index + 1, (r) => r.index],
  ["what", "kernel", "Instruction, and what it computes", null, (r) => r.what],
  ["ms", "ms", "Median time", (r) => (known(r.ms) ? number(r.ms) : ""), (r) => r.ms],
  ["share", "share", "Part of the device's time", (r) => percent(r.share), (r) => r.share],
  ["bytes", "bytes", "Bytes that enter and leave the kernel", (r) => bytes(r.bytes), (r) => r.bytes],
  ["registers", "regs", "Registers of a work item", (r) => r.registers ?? "", (r) => r.registers],
  ["items", "grid × block", "Blocks, and work items of a block", (r) => `${r.grid} × ${r.block}`, (r) => r.items],
];

class KernelShell extends Shell {
  constructor(model, el, data) {
    super(model, el, "wb-kernels");
    this.rows = data.rows.map((r, index) => ({ ...r, index }));
    this.details = new Map((data.details ?? []).map((d) => [d.name, d]));
    this.stored = data.details !== undefined;
    this.kernel = Math.min(model.get("kernel") ?? 0, this.rows.length - 1);
    this.tab = TABS[model.get("tab")] ? model.get("tab") : "source";
    this.columns = COLUMNS.filter(([key, , , , by]) => this.rows.some((r) => known(by(r))) || key === "index");
    this.sorted = ["index", 1];
    this.build(data);
    this.on("kernel", () => this.choose(model.get("kernel"), false));
    this.on("tab", () => this.open(model.get("tab"), false));
    this.on("detail", () => this.received());
    this.list();
    this.show();
  }

  // The frame

  build(data) {
    const extra = data.facts ? h("span", { class: "wb-soft" }, data.facts) : null;
    this.root.style.setProperty("--wb-height", (this.model.get("height") ?? 560) + "px");
    this.filter = h("input", {
      type: "search", class: "wb-search", placeholder: "Filter kernels", "aria-label": "Filter kernels", spellcheck: false,
      oninput: () => this.list(), onkeydown: (e) => this.inFilter(e),
    });
    this.left = h("span", { class: "wb-hits" });
    this.table = h("div", { class: "wb-tableau" });
    this.tabs = h("div", { class: "wb-tabs", role: "tablist", "aria-label": "Of the kernel", onkeydown: (e) => this.tabKey(e) });
    this.facts = h("div", { class: "wb-facts" });
    this.code = new Code((text) => this.say(text));
    this.hits = h("span", { class: "wb-hits" });
    this.search = h("input", {
      type: "search", class: "wb-search", placeholder: "Find in this text", "aria-label": "Find in this text", spellcheck: false,
      oninput: () => this.find(), onkeydown: (e) => this.inSearch(e),
    });
    const tools = h("div", { class: "wb-tools" }, this.search, this.hits, this.button("Copy", "Copy this text", () => this.code.copy()));
    this.root.append(
      h("div", { class: "wb-bar", role: "toolbar", "aria-label": "Kernels" },
        h("strong", { class: "wb-title" }, data.title || "Kernels"), h("span", { class: "wb-soft" }, count(this.rows.length, "kernel")), extra,
        h("span", { class: "wb-spring" }), this.filter, this.left, this.button("◐", "Light or dark", () => this.switchTheme())),
      h("div", { class: "wb-body" }, this.table,
        h("div", { class: "wb-one" }, this.facts, h("div", { class: "wb-tabbar" }, this.tabs, h("span", { class: "wb-spring" }), tools), this.code.el)),
      this.status);
    this.root.addEventListener("keydown", (e) => {
      if (e.key !== "/" || e.target.tagName === "INPUT" || e.ctrlKey || e.metaKey || e.altKey) return;
      this.search.focus();
      e.preventDefault();
    });
  }

  // The table

  /** The rows that the filter lets through, in the order that was asked for. */
  visible() {
    const wanted = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean), [key, way] = this.sorted;
    const by = this.columns.find((c) => c[0] === key)[4];
    const text = (r) => `${r.instruction} ${r.what} ${r.name} ${r.sources.join(" ")}`.toLowerCase();
    const value = (r) => by(r) ?? -Infinity;
    return this.rows.filter((r) => wanted.every((w) => text(r).includes(w)))
      .sort((a, b) => way * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) || a.index - b.index);
  }

  list() {
    const rows = this.visible(), [by, way] = this.sorted;
    this.left.textContent = this.filter.value ? `${rows.length} of ${this.rows.length}` : "";
    const heads = this.columns.map(([key, text, title]) => h("th", { scope: "col", class: "wb-k-" + key, "aria-sort": key === by ? (way > 0 ? "ascending" : "descending") : "none" },
      h("button", { type: "button", title: `${title}; sort`, "aria-label": `${title}; sort`, onclick: () => this.sort(key) }, text, h("i", { "aria-hidden": "true" }, key === by ? (way > 0 ? "▴" : "▾") : ""))));
    const most = Math.max(...this.rows.map((r) => r.share ?? 0), 1e-9);
    this.lines = new Map(rows.map((r) => [r.index, this.line(r, most)]));
    const body = rows.length ? [...this.lines.values()] : [h("tr", {}, h("td", { colSpan: this.columns.length, class: "wb-hint" }, this.rows.length ? "No kernel has these words." : "The program launches no kernel."))];
    const table = h("table", { "aria-label": "Kernels", onkeydown: (e) => this.tableKey(e) }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, body));
    this.table.replaceChildren(table);
    this.mark();
  }

  line(r, most) {
    const cells = this.columns.map(([key, , , text]) => {
      if (key === "what") return h("td", { class: "wb-k-what", title: [r.what, r.name, ...r.sources].join("\n") }, h("span", { class: "wb-soft" }, r.instruction + " "), r.what);
      const bar = key === "ms" && known(r.share) ? `background: linear-gradient(90deg, var(--wb-share) ${(100 * r.share) / most}%, transparent 0)` : undefined;
      return h("td", { class: "wb-k-" + key, style: bar }, text(r));
    });
    return h("tr", { tabIndex: -1, "data-kernel": r.index, "data-id": r.id, onclick: () => this.choose(r.index, true) }, cells);
  }

  sort(key) {
    const [old, way] = this.sorted, first = key === "index" || key === "what" ? 1 : -1;
    this.sorted = [key, old === key ? -way : first];
    this.list();
    this.table.querySelector(`.wb-k-${key} button`)?.focus();
    this.say(`Sorted by ${COLUMNS.find((c) => c[0] === key)[2].toLowerCase()}, ${this.sorted[1] > 0 ? "ascending" : "descending"}`);
  }

  /** Mark the chosen row, and those of the same instruction. */
  mark() {
    const id = this.rows[this.kernel]?.id, inTable = this.lines.has(this.kernel);
    for (const [k, line] of this.lines) {
      const here = k === this.kernel;
      line.classList.toggle("wb-chosen", here);
      line.classList.toggle("wb-mate", !here && this.rows[k].id === id);
      line.setAttribute("aria-selected", here ? "true" : "false");
      line.tabIndex = here || (!inTable && k === [...this.lines.keys()][0]) ? 0 : -1;
    }
  }

  tableKey(e) {
    const keys = [...this.lines.keys()], at = keys.indexOf(this.kernel);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: keys.length - 1, PageDown: at + 10, PageUp: at - 10 }[e.key];
    if (e.key === "Enter" && e.target.tagName === "TR") {
      this.choose(+e.target.dataset.kernel, true);
      this.code.el.focus();
    } else if (to !== undefined && keys.length && e.target.tagName === "TR") {
      this.choose(keys[Math.max(0, Math.min(keys.length - 1, to))], true);
      this.lines.get(this.kernel).focus();
    } else return;
    e.preventDefault();
    e.stopPropagation();
  }

  inFilter(e) {
    e.stopPropagation();
    if (e.key === "Escape") this.filter.value = "";
    if (e.key === "Enter" && this.lines.size) this.choose([...this.lines.keys()][0], true);
    if (e.key === "Escape") this.list();
  }

  // One kernel

  /** Show a kernel; its instruction becomes the selected one, unless a part of it is. */
  choose(k, tell) {
    if (!this.rows[k] || (k === this.kernel && !tell)) return;
    this.kernel = k;
    const r = this.rows[k];
    if (tell) {
      if (!r.ids.includes(this.selected)) this.selected = r.id;
      this.set({ kernel: k, selected: this.selected });
    }
    this.mark();
    this.lines.get(k)?.scrollIntoView({ block: "nearest" });
    this.show();
    this.say(`Kernel ${k + 1} of ${this.rows.length}, ${r.instruction} ${r.what}`);
  }

  /** The selection came from outside: show the kernel that computes it. */
  select(id) {
    this.selected = id;
    if (id === null || !this.rows.length || this.rows[this.kernel].ids.includes(id)) return;
    const k = this.rows.findIndex((r) => r.ids.includes(id));
    if (k < 0) return this.say(`Instruction ${id} has no kernel`);
    this.choose(k, false);
    this.set({ kernel: k });
  }

  said(r) {
    const spilled = r.spills ? `${count(r.spills, "register")} spilled` : r.local ? `${bytes(r.local)} local per work item` : "";
    const fit = known(r.blocks) ? `${count(r.blocks, "block")} per unit` + (known(r.occupancy) ? ` (${percent(r.occupancy)} of its work items)` : "") : "";
    return [
      known(r.ms) ? `${number(r.ms)} ms, ${percent(r.share)} of the device's time` : "", `${r.grid} blocks × ${r.block} work items`, known(r.registers) ? count(r.registers, "register") : "",
      r.shared ? `${bytes(r.shared)} shared` : "", spilled, fit, `${bytes(r.bytes)} moved`, r.flops ? `${number(r.flops / 1e6)} MFLOP` : "", `${bytes(r.code)} of code`,
    ].filter(Boolean);
  }

  show() {
    const r = this.rows[this.kernel];
    if (!r) return this.code.set("", "text", 0);
    this.facts.replaceChildren(...[
      h("div", { class: "wb-line" }, h("strong", {}, `${r.instruction} ${r.what}`)),
      h("div", {}, h("code", {}, r.name)),
      h("div", { class: "wb-soft wb-said" }, this.said(r).map((text) => h("span", {}, text))),
      r.sources.length ? h("div", { class: "wb-soft" }, "from ", h("code", {}, r.sources.slice(0, 6).join(", ")), r.sources.length > 6 ? ` and ${r.sources.length - 6} more` : "") : null,
    ].filter(Boolean));
    this.open(this.tab, false);
  }

  open(tab, tell) {
    if (!TABS[tab]) return;
    this.tab = tab;
    this.tabs.replaceChildren(...Object.entries(TABS).map(([key, [label]]) => h("button", {
      type: "button", role: "tab", class: "wb-tab", "aria-selected": key === tab ? "true" : "false", tabIndex: key === tab ? 0 : -1, "data-tab": key, onclick: () => this.open(key, true),
    }, label)));
    if (tell) {
      this.set({ tab });
      this.tabs.querySelector('[aria-selected="true"]').focus();
    }
    this.fill();
  }

  tabKey(e) {
    const keys = Object.keys(TABS), at = keys.indexOf(this.tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: keys.length - 1 }[e.key];
    if (to === undefined) return;
    this.open(keys[(to + keys.length) % keys.length], true);
    e.preventDefault();
    e.stopPropagation();
  }

  /** The text of the open tab; what is not here yet comes from Python. */
  fill() {
    const r = this.rows[this.kernel], d = this.details.get(r.name), [label, language] = TABS[this.tab];
    const text = !d ? null : this.tab === "module" ? r.module : this.tab === "machine" ? d.assembly : this.tab === "log" ? d.log || "The compiler said nothing.\n" : d.source;
    clearTimeout(this.late);
    if (known(text)) this.code.set(text, language, this.tab === "source" ? d.prologue : 0, `${label} of ${r.name}`);
    else {
      this.code.set(this.stored ? "This text is not stored in this page; run the notebook to see it.\n" : "Loading\n", "text", 0, label);
      if (!this.stored) this.late = setTimeout(() => this.code.set("This text is not stored here and no kernel answers. Run the cell again.\n", "text", 0, label), 8000);
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
    this.hits.textContent = !this.search.value ? "" : n ? count(n, "line") : "none";
    if (n) this.hits.textContent = this.code.step(1);
    this.say(this.hits.textContent);
  }

  inSearch(e) {
    e.stopPropagation();
    if (e.key === "Enter") this.say((this.hits.textContent = this.code.step(e.shiftKey ? -1 : 1)));
    if (e.key !== "Escape") return;
    this.search.value = "";
    this.find();
    this.code.el.focus();
  }
}

async function render({ model, el }) {
  try {
    const shell = new KernelShell(model, el, await decode(model.get("data")));
    await shell.received();
    return () => shell.destroy();
  } catch (error) {
    failure(el, error);
  }
}

export default { render };
