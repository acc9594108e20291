// GraphView: one program with groups to open, and an inspector.

import { button, h, isPlainKey } from "./dom.js";
import { count } from "./format.js";
import { inspector } from "./inspector.js";
import { Layout } from "./layout.js";
import { Live } from "./scene.js";
import { Pane } from "./pane.js";
import { SceneShell } from "./scene_shell.js";
import { renderer } from "./shell.js";

class GraphShell extends SceneShell {
  /**
   * @param {Model} model
   * @param {HTMLElement} el
   * @param {GraphData} data
   */
  constructor(model, el, data) {
    super(model, el, data, "wb-graph", 480);
    this.live = new Live(this.scene, data.steps[0]);
    this.side = h("div", { class: "wb-side", hidden: true });
    this.pane = new Pane(this, `Graph of ${data.title || "the program"}`, this.live, new Layout(this.scene, this.open));
    this.panes = [this.pane];
    this.build(data);
    this.overlaid();
    this.pane.show(this.live, this.pane.layout);
    this.pane.resize();
    this.camera();
    this.inspect();
    if (this.selected !== null && !model.get("camera")) this.show(this.selected);
  }

  /** @param {GraphData} data */
  build(data) {
    const { scene, pane } = this, { key, label } = scene.data.groups;
    const nodes = data.steps[0].filter((v) => data.nodes.module[v] === 0).length;
    this.root.append(
      h("div", { class: "wb-bar", role: "toolbar", "aria-label": "Graph" },
        h("strong", { class: "wb-title" }, scene.data.title || "program"),
        h("span", { class: "wb-soft" }, count(nodes, "instruction")),
        h("span", { class: "wb-spring" }), this.searchBox(),
        label.length ? button("Open all", "Open all groups", () => this.openOnly(key)) : null,
        label.length ? button("Close all", "Close all groups", () => this.openOnly([])) : null,
        button("⤢", "Show everything (0)", () => pane.fitAll()), this.themeButton(), this.saveButton(pane, "Save as PNG")),
      h("div", { class: "wb-body" }, pane.el, this.side), this.legendEl, this.status);
    this.root.addEventListener("keydown", (e) => {
      if (isPlainKey(e) && this.key(e)) e.preventDefault();
    });
  }

  searched() { return this.live; }

  relayout() { this.pane.show(this.live, new Layout(this.scene, this.open)); }

  /** Open or close a group without moving it on the screen. @param {string} key */
  toggle(key) {
    const { pane, scene } = this, { groups } = scene.data, g = groups.key.indexOf(key), item = scene.itemOf(g), opens = !this.open.has(key);
    const was = pane.layout.boxes.get(item);
    if (opens) this.open.add(key);
    else this.open.delete(key);
    this.relayout();
    const is = pane.layout.boxes.get(item), { cam } = pane;
    if (was && is && pane.w) {
      pane.setCamera({ ...cam, x: cam.x + is.x + is.w / 2 - was.x - was.w / 2, y: cam.y + is.y - was.y });
      pane.pan(0, 0);
    }
    if (opens) pane.cursor = undefined;
    this.tellOpen();
    this.say(`${groups.label[g]} ${opens ? "opened" : "closed"}`);
  }

  /** Open exactly these groups, and show the whole graph. @param {string[]} keys */
  openOnly(keys) {
    this.reopen(keys);
    this.pane.home();
    this.tellOpen();
  }

  /**
   * @param {number | null} id
   * @param {Pane | null} pane
   */
  select(id, pane) {
    if (id === this.selected) return;
    super.select(id, pane);
    if (id !== null) this.pane.cursor = undefined;
    if (pane) this.set({ selected: id });
    else if (id !== null) this.show(id);
    this.inspect();
    this.redraw();
  }

  /** @param {number} id */
  show(id) {
    if (!this.live.node(id)) return;
    this.uncover(id, this.pane);
    this.choose(id);
    this.inspect();
    this.redraw();
  }

  inspect() {
    this.side.hidden = this.selected === null;
    this.side.replaceChildren(
      button("×", "Close the inspector", () => this.select(null, this.pane), { class: "wb-close" }),
      inspector(this.live, this.selected, (id) => this.show(id)));
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    if (e.key !== "/") return false;
    this.search.focus();
    return true;
  }
}

const render = renderer((model, el, data) => new GraphShell(model, el, data));

export default { render };
