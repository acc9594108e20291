// The frame of one graph: a program with groups to open, and an inspector; GraphView, and the base of ReportView.

import { button, div, h, soft, spring } from "./dom.js";
import { count } from "./format.js";
import { inspector } from "./inspector.js";
import { Layout } from "./layout.js";
import { Live } from "./scene.js";
import { Pane } from "./pane.js";
import { SceneShell } from "./scene_shell.js";

class GraphShell extends SceneShell {
  /**
   * @param {Model} model
   * @param {HTMLElement} el
   * @param {GraphData} data
   */
  constructor(model, el, data) {
    super(model, el, data, "wb-graph", 480);
    this.live = new Live(this.scene, data.steps[0]);
    this.facts = div("chosenfacts");
    this.side = h("div", { class: "wb-side", hidden: true }, this.search.panel, this.facts);
    this.pane = new Pane(this, `Graph of ${data.title || "the program"}`, this.live, new Layout(this.scene, this.open, this.slots));
    this.panes = [this.pane];
    this.build();
    this.overlaid();
    this.relayout();
    this.pane.resize();
    this.camera();
    this.search.ask(model.get("query") ?? "");
    this.inspect();
    if (this.selected !== null && !model.get("camera")) this.show(this.selected);
  }

  build() {
    const { scene, pane } = this, { key, label } = scene.data.groups;
    const nodes = this.live.order.filter((v) => scene.data.nodes.module[v] === 0).length;
    this.root.append(
      h("div", { class: "wb-bar", role: "toolbar", "aria-label": "Graph" },
        h("strong", { class: "wb-title" }, scene.data.title || "program"),
        soft(count(nodes, "instruction")),
        spring(), this.searchBox(), this.menu.button, this.bookmarks.button,
        label.length ? button("Open all", "Open all groups", () => this.openOnly(key)) : null,
        label.length ? button("Close all", "Close all groups", () => this.openOnly([])) : null,
        button("⤢", "Show everything (0)", () => pane.fitAll()), this.linkButton(), this.themeButton(), this.saveButton(pane, "Save as PNG"), this.keysOf.button),
      div("body", pane.el, this.side), this.legendEl, this.status);
  }

  searched() { return this.live; }

  relayout() { this.pane.show(this.seen(this.live), new Layout(this.scene, this.open, this.slots)); }

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
    this.arrange();
    this.facts.replaceChildren(
      button("×", "Close the inspector", () => this.select(null, this.pane), { class: "wb-button wb-close" }),
      inspector(this.live, this.selected, (id) => this.show(id), (name) => this.follow(name), this.selected === null ? null : this.about(this.selected)));
  }

  /** More to say of an instruction. @param {number} _id @returns {Child} */
  about(_id) { return null; }

  arrange() {
    this.facts.hidden = this.selected === null;
    this.side.hidden = this.facts.hidden && this.search.panel.hidden;
  }
}

export { GraphShell };
