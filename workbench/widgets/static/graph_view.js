// GraphView: one program, its groups to open, an inspector beside it.

import { Layout, Live, Scene } from "./scene.js";
import { count, decode, failure, h, inspector } from "./dom.js";
import { Pane } from "./pane.js";
import { Shell } from "./shell.js";

class GraphShell extends Shell {
  constructor(model, el, data) {
    super(model, el, "wb-graph");
    this.scene = new Scene(data);
    this.live = new Live(this.scene, data.steps[0]);
    this.open = new Set(model.get("expanded") ?? data.open);
    this.build();
    this.overlaid();
    this.layout();
    this.panes[0].resize();
    this.camera();
    this.on("expanded", () => this.reopen(model.get("expanded")));
    this.on("camera", () => this.camera());
    this.inspect();
    if (this.selected !== null && !model.get("camera")) this.show(this.selected);
  }

  build() {
    const { scene } = this;
    this.pane = new Pane(this, `Graph of ${scene.data.title || "the program"}`);
    this.panes = [this.pane];
    const scoped = scene.data.groups.key.length > 0;
    this.side = h("div", { class: "wb-side", hidden: true });
    this.legendEl = h("div", { class: "wb-legend" });
    const nodes = this.live.order.filter((v) => scene.node(v).module === 0).length;
    this.root.style.setProperty("--wb-height", (this.model.get("height") ?? 480) + "px");
    this.root.append(
      h("div", { class: "wb-bar", role: "toolbar", "aria-label": "Graph" },
        h("strong", { class: "wb-title" }, scene.data.title || "program"),
        h("span", { class: "wb-soft" }, count(nodes, "instruction")),
        h("span", { class: "wb-spring" }), this.searchBox(),
        scoped ? this.button("Open all", "Open all groups", () => this.reopen(scene.data.groups.key, true)) : null,
        scoped ? this.button("Close all", "Close all groups", () => this.reopen([], true)) : null,
        this.button("⤢", "Show everything (0)", () => this.pane.fitAll()),
        this.button("◐", "Light or dark", () => this.switchTheme()),
        this.button("⤓", "Save as PNG", () => this.save(this.pane, scene.data.title))),
      h("div", { class: "wb-body" }, this.pane.el, this.side), this.legendEl, this.status);
    this.root.addEventListener("keydown", (e) => e.key === "/" && e.target.tagName !== "INPUT" && this.key(e) && e.preventDefault());
  }

  legend() {
    this.legendEl?.replaceChildren(...(this.overlay ? [this.overlayLegend()] : this.familyLegend(this.live)));
  }

  retheme() {
    super.retheme();
    if (this.live) this.legend();
  }

  searched() { return this.live; }

  layout(anchor) {
    const pane = this.pane, before = anchor && pane.layout?.boxes.get(anchor);
    pane.show(this.live, new Layout(this.scene, this.open), { animate: false });
    const after = anchor && pane.layout.boxes.get(anchor);
    if (before && after && pane.w) {
      pane.cam.x += after.x + after.w / 2 - before.x - before.w / 2;
      pane.cam.y += after.y - before.y;
      pane.pan(0, 0);
    }
  }

  camera() {
    const [x, y, k] = (this.model.get("camera") ?? "").split(",").map(Number);
    if (k > 0) this.pane.setCamera({ x, y, k });
  }

  moved(pane) {
    clearTimeout(this.moving);
    this.moving = setTimeout(() => {
      const { x, y, k } = pane.cam;
      this.set({ camera: [x.toFixed(1), y.toFixed(1), k.toFixed(3)].join() });
    }, 250);
  }

  toggle(key) {
    const open = !this.open.has(key);
    open ? this.open.add(key) : this.open.delete(key);
    const g = this.scene.data.groups.key.indexOf(key);
    this.layout(this.scene.itemOf(g));
    if (open) this.pane.cursor = undefined;
    this.set({ expanded: [...this.open] });
    this.say(`${this.scene.data.groups.label[g]} ${open ? "opened" : "closed"}`);
  }

  reopen(keys, tell = false) {
    this.open = new Set(keys ?? this.scene.data.open);
    this.layout();
    if (!tell) return;
    this.pane.home();
    this.set({ expanded: [...this.open] });
  }

  /** Select an instruction, here and in Python. */
  select(id, pane) {
    if (id === this.selected) return;
    this.selected = id;
    if (id !== null) this.pane.cursor = undefined;
    if (pane) this.set({ selected: id });
    else if (id !== null) this.show(id);
    this.inspect();
    this.redraw();
  }

  /** Select an instruction, open what hides it and bring it into view. */
  show(id) {
    const n = this.live.node(id);
    if (!n) return;
    const slot = n.slot >= 0 ? n.slot : this.live.node((this.live.users.get(id) ?? [])[0])?.slot ?? -1;
    const shut = slot < 0 ? [] : this.scene.chain(slot).map((g) => this.scene.data.groups.key[g]).filter((key) => !this.open.has(key));
    if (shut.length) {
      for (const key of shut) this.open.add(key);
      this.layout();
      this.set({ expanded: [...this.open] });
    }
    if (this.selected !== id) {
      this.selected = id;
      this.set({ selected: id });
      this.inspect();
    }
    const item = this.pane.itemFor(id);
    if (item !== undefined) this.pane.reveal(item);
    this.redraw();
  }

  inspect() {
    this.side.hidden = this.selected === null;
    this.side.replaceChildren(
      this.button("×", "Close the inspector", () => this.select(null, this.pane), { class: "wb-close" }),
      inspector(this.live, this.selected, (id) => this.show(id)));
  }

  key(e) {
    if (e.key !== "/") return false;
    this.search.focus();
    return true;
  }
}

async function render({ model, el }) {
  try {
    const shell = new GraphShell(model, el, await decode(model.get("data")));
    return () => shell.destroy();
  } catch (error) {
    failure(el, error);
  }
}

export default { render };
