// PassExplorer: a recording on a timeline, the graph before and after each pass, its edits and the text diff.

import { Layout, Live, Scene } from "./scene.js";
import { count, decode, failure, h, inspector, number } from "./dom.js";
import { Pane } from "./pane.js";
import { Shell } from "./shell.js";
import { diffRows, editList, lawList, loweredList, missList } from "./lists.js";

class ExplorerShell extends Shell {
  constructor(model, el, data) {
    super(model, el, "wb-explorer");
    this.data = data;
    this.scene = new Scene(data);
    this.steps = data.steps;
    this.details = new Map((data.details ?? []).map((d) => [d.index, d]));
    this.open = new Set(model.get("expanded") ?? data.open);
    this.onlyChanged = true;
    this.keep = true;
    this.tab = "edits";
    this.edit = null;
    this.build();
    this.overlaid();
    this.on("detail", () => this.received());
    this.on("step", () => this.go(model.get("step")));
    this.on("edit", () => this.showEdit(model.get("edit") ?? null, false));
    this.on("expanded", () => this.reopen(model.get("expanded")));
    this.on("camera", () => this.camera());
  }

  // The frame

  build() {
    const { data } = this;
    this.before = new Pane(this, "Graph before the pass");
    this.after = new Pane(this, "Graph after the pass");
    this.panes = [this.before, this.after];
    this.dots = this.steps.map((s, k) => h("span", { class: "wb-dot" + (s.changed ? " wb-changed" : ""), title: `${k + 1} ${s.name}`, onclick: () => this.go(k, true) }));
    this.slider = h("div", {
      class: "wb-timeline", role: "slider", tabIndex: 0, "aria-label": "Pass", "aria-valuemin": 1, "aria-valuemax": this.steps.length,
      onkeydown: (e) => this.slide(e),
    }, this.dots);
    this.what = h("span", { class: "wb-what" });
    this.side = h("div", { class: "wb-inspect" });
    this.list = h("div", { class: "wb-list", tabIndex: 0, onkeydown: (e) => this.listKey(e) });
    this.tabs = h("div", { class: "wb-tabs", role: "tablist" });
    this.diff = h("div", { class: "wb-diff", tabIndex: 0, "aria-label": "Text diff" });
    this.diffHead = h("span", { class: "wb-soft" });
    this.legendEl = h("div", { class: "wb-legend" });
    this.root.style.setProperty("--wb-height", (this.model.get("height") ?? 720) + "px");
    const box = (label, on, change) => h("label", { class: "wb-check" }, h("input", { type: "checkbox", checked: on, onchange: (e) => change(e.target.checked) }), label);
    this.root.append(
      h("div", { class: "wb-bar" },
        h("strong", { class: "wb-title" }, data.title || "program"), data.target ? h("span", { class: "wb-soft" }, "→ " + data.target) : null,
        h("span", { class: "wb-spring" }), this.searchBox(), this.button("⤢", "Show everything (0)", () => this.after.fitAll()),
        this.button("◐", "Light or dark", () => this.switchTheme()), this.button("⤓", "Save the graph after the pass as PNG", () => this.save(this.after, data.title))),
      h("div", { class: "wb-bar wb-steps", role: "toolbar", "aria-label": "Passes" },
        this.button("◀", "Previous pass that changed something (r)", () => this.skip(-1)),
        this.button("▶", "Next pass that changed something (f)", () => this.skip(1)),
        this.slider, this.what, h("span", { class: "wb-spring" }),
        box("changed", true, (on) => (this.onlyChanged = on)),
        box("keep places", true, (on) => { this.keep = on; this.relayout(); this.focusChange(); })),
      h("div", { class: "wb-body" },
        h("div", { class: "wb-main" },
          h("div", { class: "wb-pair" },
            h("div", { class: "wb-half wb-before" }, h("div", { class: "wb-caption" }, "before"), this.before.el),
            h("div", { class: "wb-half wb-after" }, h("div", { class: "wb-caption" }, "after"), this.after.el)),
          h("div", { class: "wb-diffbar" }, h("strong", {}, "Text diff"), this.diffHead, h("span", { class: "wb-spring" }), this.button("Copy", "Copy the text diff", () => this.copy())),
          this.diff),
        h("div", { class: "wb-column" }, this.tabs, this.list, this.side)),
      this.legendEl, this.status);
    this.root.addEventListener("keydown", (e) => {
      if (e.target.tagName !== "INPUT" && !e.altKey && !e.ctrlKey && !e.metaKey && this.key(e)) e.preventDefault();
    });
  }

  legend() {
    if (!this.now) return;
    const marks = ["added", "removed", "changed"].map((m) => h("span", { class: `wb-key wb-mark-${m}` }, h("b", {}, PALETTE.glyphs[m]), " " + m));
    this.legendEl.replaceChildren(...marks, ...(this.overlay ? [this.overlayLegend()] : this.familyLegend(this.now.after)));
  }

  retheme() {
    super.retheme();
    if (this.now) this.legend();
  }

  searched() { return this.now.after; }

  // Steps

  /** Go to a step; its data comes from Python where it is not here yet. */
  go(k, tell = false) {
    k = Math.max(0, Math.min(this.steps.length - 1, k));
    if (k === this.index && this.now) return;
    this.index = k;
    this.edit = null;
    if (tell) this.set({ step: k, edit: null });
    this.timeline();
    if (this.details.has(k)) return this.showStep();
    this.what.append(" loading");
    clearTimeout(this.late);
    this.late = setTimeout(() => this.details.has(k) || this.say(this.noKernel()), 8000);
  }

  noKernel() {
    const text = "This step is not stored here and no kernel answers. Run the cell again.";
    this.diff.replaceChildren(h("div", { class: "wb-failure" }, text));
    return text;
  }

  async received() {
    const detail = await decode(this.model.get("detail"));
    if (detail?.index === undefined) return;
    this.details.set(detail.index, detail);
    if (detail.index === this.index) this.showStep();
  }

  skip(by) {
    let k = this.index + by;
    while (this.onlyChanged && this.steps[k] && !this.steps[k].changed) k += by;
    if (this.steps[k]) this.go(k, true);
    else this.say(by > 0 ? "No later pass changed anything" : "No earlier pass changed anything");
  }

  timeline() {
    const s = this.steps[this.index], k = this.index + 1;
    this.dots.forEach((dot, i) => dot.classList.toggle("wb-here", i === this.index));
    this.slider.setAttribute("aria-valuenow", k);
    this.slider.setAttribute("aria-valuetext", `${k} of ${this.steps.length}, ${s.name}, ${count(s.edits, "edit")}`);
    this.what.replaceChildren(
      h("span", { class: "wb-soft" }, `${k}/${this.steps.length} `), h("strong", {}, s.name),
      h("span", { class: "wb-number" }, s.before === s.after ? count(s.after, "instruction") : `${s.before.toLocaleString("en")} → ${count(s.after, "instruction")}`),
      h("span", { class: "wb-number" }, count(s.edits, "edit")), h("span", { class: "wb-number" }, `${number(s.ms)} ms`));
  }

  showStep() {
    const d = this.details.get(this.index), s = this.steps[this.index];
    this.detail = d;
    const marks = (pairs) => new Map(pairs.map(([v, m]) => [v, ["added", "removed", "changed"][m]]));
    this.now = { before: new Live(this.scene, d.before, marks(d.gone)), after: new Live(this.scene, d.after, marks(d.come)) };
    this.newOf = new Map(d.replaced);
    this.oldOf = new Map(d.replaced.map(([a, b]) => [b, a]));
    this.relayout();
    for (const pane of this.panes) pane.resize();
    this.diffHead.textContent = d.summary;
    diffRows(this);
    this.showTab(this.tab);
    this.inspect();
    this.legend();
    if (this.search.value) this.find(this.search.value);
    if (s.error) this.diff.prepend(h("div", { class: "wb-failure", role: "alert" }, `The pass failed: ${s.error}`));
    this.say(`${s.name}: ${d.summary}`);
    const wanted = this.model.get("edit") ?? null;
    if (wanted !== null && wanted < d.edits.length) this.showEdit(wanted, false);
    else if (!this.settled) this.camera() || this.focusChange();
    this.settled = true;
  }

  /** Lay both sides out: over all steps, or, when places need not be kept, over what these two show. */
  relayout() {
    if (!this.now) return;
    const used = this.keep ? null : new Set([...this.now.before.bySlot.keys(), ...this.now.after.bySlot.keys()]);
    const layout = this.keep && this.kept?.open === this.openKey() ? this.kept.layout : new Layout(this.scene, this.open, used);
    if (this.keep) this.kept = { open: this.openKey(), layout };
    this.before.show(this.now.before, layout);
    this.after.show(this.now.after, layout);
  }

  openKey() { return [...this.open].sort().join("|"); }

  /** Look at the first thing that this pass changed. */
  focusChange() {
    const pane = this.after, first = [...this.after.items, ...this.before.items].filter((b) => b.mark || /[+−~]\d/.test(b.fact)).sort((a, b) => a.y - b.y)[0];
    if (!pane.w || !first) return;
    const k = Math.min(1, Math.max(0.8, pane.w / (pane.layout.width + 80)));
    pane.cam = { k, x: first.x + first.w / 2 - (pane.w - 56) / 2 / k, y: first.y - 90 / k };
    pane.placed = this.before.placed = true;
    pane.moved();
  }

  // Camera: both sides look at the same place

  camera() {
    const [x, y, k] = (this.model.get("camera") ?? "").split(",").map(Number);
    if (!(k > 0)) return false;
    for (const pane of this.panes) pane.setCamera({ x, y, k });
    return true;
  }

  moved(pane) {
    const other = pane === this.before ? this.after : this.before;
    other.setCamera(pane.cam);
    clearTimeout(this.moving);
    this.moving = setTimeout(() => this.set({ camera: [pane.cam.x.toFixed(1), pane.cam.y.toFixed(1), pane.cam.k.toFixed(3)].join() }), 250);
  }

  toggle(key) {
    this.open.has(key) ? this.open.delete(key) : this.open.add(key);
    const item = this.scene.itemOf(this.scene.data.groups.key.indexOf(key)), was = this.after.layout.boxes.get(item);
    this.relayout();
    const is = this.after.layout.boxes.get(item);
    if (was && is) this.after.setCamera({ ...this.after.cam, x: this.after.cam.x + is.cx - was.cx, y: this.after.cam.y + is.y - was.y });
    this.moved(this.after);
    this.set({ expanded: [...this.open] });
  }

  reopen(keys) {
    this.open = new Set(keys ?? this.data.open);
    this.relayout();
  }

  // Selection: one, everywhere

  select(id, pane) {
    if (id === this.selected) return;
    this.selected = id;
    for (const p of this.panes) p.cursor = undefined;
    if (pane) this.set({ selected: id });
    else if (id !== null) this.show(id);
    this.marked();
  }

  marked() {
    this.inspect();
    for (const row of this.diff.querySelectorAll("[data-id]")) row.classList.toggle("wb-chosen", +row.dataset.id === this.selected);
    this.redraw();
  }

  /** Select an instruction of either side, open what hides it and bring it into view. */
  show(id) {
    if (!this.now) return;
    const live = this.now.after.node(id) ? this.now.after : this.now.before, n = live.node(id);
    if (this.selected !== id) {
      this.selected = id;
      this.set({ selected: id });
    }
    if (n) {
      const slot = n.slot >= 0 ? n.slot : live.node((live.users.get(id) ?? [])[0])?.slot ?? -1;
      const shut = slot < 0 ? [] : this.scene.chain(slot).map((g) => this.scene.data.groups.key[g]).filter((key) => !this.open.has(key));
      if (shut.length) {
        for (const key of shut) this.open.add(key);
        this.relayout();
        this.set({ expanded: [...this.open] });
      }
      const pane = live === this.now.after ? this.after : this.before, item = pane.itemFor(id);
      if (item !== undefined) pane.reveal(item);
    }
    this.marked();
  }

  inspect() {
    if (!this.now) return;
    const { before, after } = this.now, id = this.selected, live = id === null || after.node(id) ? after : before;
    const panel = inspector(live, id, (k) => this.show(k));
    const value = this.overlay?.values.get(id);
    if (value !== undefined) panel.append(h("p", {}, `${this.overlay.name} ${number(value)} ${this.overlay.unit}`));
    const lowered = this.detail.lowered?.find((r) => r.id === id);
    if (lowered) panel.append(h("p", { class: "wb-lowered" }, "became ", h("code", {}, lowered.became)), lowered.place ? h("p", {}, "at ", h("code", {}, lowered.place)) : "");
    if (id !== null && live === before && before.node(id)) {
      const next = this.newOf.get(id);
      panel.append(h("p", { class: "wb-soft" }, "− removed by this pass", next === undefined ? "" : ["; replaced by ",
        h("button", { class: "wb-link", type: "button", onclick: () => this.show(next) }, `${after.name(next)} ${after.node(next)?.title ?? ""}`)]));
    }
    this.side.replaceChildren(panel);
  }

  // Edits

  showTab(name) {
    const d = this.detail, isLowering = d.lowered?.length > 0;
    if (isLowering) name = "lowered";
    else this.tab = name;
    const made = isLowering ? { lowered: [`Lowering ${d.lowered.length}`, loweredList] } : { edits: [`Edits ${d.edits.length}`, editList], misses: [`Near misses ${d.misses.length}`, missList], laws: ["Laws", lawList] };
    this.tabs.replaceChildren(...Object.entries(made).map(([key, [label]]) =>
      h("button", { type: "button", role: "tab", class: "wb-tab", "aria-selected": key === name ? "true" : "false", onclick: () => this.showTab(key) }, label)));
    this.list.replaceChildren(...made[name][1](this));
    this.list.scrollTop = 0;
  }

  /** Show one edit: its instructions are marked on both sides and the first is brought into view. */
  showEdit(k, tell = true) {
    const e = this.detail?.edits[k];
    if (!e || (k === this.edit && !tell)) return;
    this.edit = k;
    if (tell) this.set({ edit: k });
    if (this.tab !== "edits") this.showTab("edits");
    this.found = new Set([...e.added, ...e.removed, ...e.changed]);
    for (const row of this.list.children) {
      const here = +row.dataset.edit === k;
      row.classList.toggle("wb-chosen", here);
      if (here) row.scrollIntoView({ block: "nearest" });
    }
    const drawn = (id) => [this.now.after, this.now.before].some((l) => l.node(id)?.slot >= 0);
    const all = [...e.added, ...e.changed, ...e.removed], id = all.find(drawn) ?? all[0];
    if (id !== undefined) this.show(id);
    this.diff.querySelector(`[data-id="${id}"]`)?.scrollIntoView({ block: "nearest" });
    this.say(`Edit ${k + 1} of ${this.detail.edits.length}, ${e.rule}`);
  }

  stepEdit(by) {
    const n = this.detail?.edits.length ?? 0;
    if (n) this.showEdit(Math.max(0, Math.min(n - 1, (this.edit ?? (by > 0 ? -1 : n)) + by)));
  }

  // Keys

  key(e) {
    if (e.key === "/") this.search.focus();
    else if (e.key === "f") this.skip(1);
    else if (e.key === "r") this.skip(-1);
    else if (e.key === "Home") this.go(0, true);
    else if (e.key === "End") this.go(this.steps.length - 1, true);
    else if (e.key === "ArrowRight") this.stepEdit(1);
    else if (e.key === "ArrowLeft") this.stepEdit(-1);
    else return false;
    return true;
  }

  listKey(e) {
    if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
    this.stepEdit(e.key === "ArrowDown" ? 1 : -1);
    e.preventDefault();
  }

  slide(e) {
    if (e.key !== "ArrowRight" && e.key !== "ArrowLeft") return;
    this.skip(e.key === "ArrowRight" ? 1 : -1);
    e.preventDefault();
    e.stopPropagation();
  }

  copy() {
    const text = this.detail.diff.flatMap(([kind, , a, b]) => (kind === "~" ? ["- " + a, "+ " + b] : kind === "…" ? [`@@ ${a} @@`] : [(kind === "=" ? " " : kind) + " " + a])).join("\n");
    navigator.clipboard?.writeText(text).then(() => this.say("Text diff copied"), () => this.say("The browser refused to copy; select the text"));
  }
}

async function render({ model, el }) {
  try {
    const shell = new ExplorerShell(model, el, await decode(model.get("data")));
    const stored = model.get("detail") ? await decode(model.get("detail")) : null;
    if (stored?.index !== undefined) shell.details.set(stored.index, stored);
    if (shell.steps.length) shell.go(model.get("step") ?? 0);
    else failure(el, "The recording has no steps: no pass ran while it listened.");
    return () => shell.destroy();
  } catch (error) {
    failure(el, error);
  }
}

export default { render };
