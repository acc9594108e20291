// ReportView: a graph coloured by error; the inspector has the numbers of a node, and its values open below.

import { button, decode, h, hint, soft, spring } from "./dom.js";
import { GraphShell } from "./graph_shell.js";
import { TensorPanel } from "./tensor_panel.js";
import { idsOf, linked } from "./refs.js";
import { renderer } from "./shell.js";

class ReportShell extends GraphShell {
  /**
   * @param {Model} model
   * @param {HTMLElement} el
   * @param {ReportData} data
   */
  constructor(model, el, data) {
    super(model, el, data);
    this.panel = new TensorPanel(this);
    this.title = h("strong", { class: "wb-title" });
    this.form = soft();
    this.values = h("div", { class: "wb-values", hidden: true },
      h("div", { class: "wb-bar" }, this.title, this.form, spring(), button("×", "Close the values", () => this.ask(null))), this.panel.el);
    this.root.insertBefore(this.values, this.legendEl);
    this.on("parts", () => this.inspect());
    this.on("values", () => this.valued());
  }

  retheme() {
    super.retheme();
    this.panel?.draw();
  }

  /** The numbers of an instruction: of its row, or of what was evaluated inside a kernel. @param {number} id */
  about(id) {
    const { facts, live, ...rest } = /** @type {ReportData} */ (this.scene.data), stored = rest.stored || this.model.get("stored"), own = facts[id], found = own ?? this.model.get("parts")?.[id];
    if (!found && !this.live.node(id)?.module) return null;
    return h("section", { class: "wb-numbers", "aria-label": "Numbers" },
      found ? [found.said.map((/** @type {string} */ text) => h("p", {}, linked(text, null, idsOf(this.live), (k) => this.show(k)))), h("dl", {}, found.rows.map((/** @type {[string, string]} */ [name, text]) => [h("dt", {}, name), h("dd", {}, text)]))]
        : hint(stored ? "Not evaluated in this page; run the notebook." : "Evaluating what is inside."),
      own && live && !stored ? button("Inspect values", "Show both tensors element by element", () => this.ask(id), { class: "wb-button wb-look" }) : null);
  }

  /** Ask Python for the values of an instruction, or close them. @param {number | null} id */
  ask(id) {
    this.set({ inspected: id });
    if (id === null) return this.valued();
    this.head(`${this.live.name(id)} ${this.live.node(id)?.title ?? ""}: both sides run once more`);
    this.panel.el.replaceChildren();
  }

  /** @param {string} title @param {string} form */
  head(title, form = "") {
    this.values.hidden = false;
    this.root.classList.add("wb-inspecting");
    this.title.textContent = title;
    this.form.textContent = form;
    this.say(title);
  }

  /** Show the values that Python sent. */
  async valued() {
    const data = this.model.get("inspected") === null ? null : await decode(this.model.get("values"));
    this.values.hidden = !data;
    this.root.classList.toggle("wb-inspecting", Boolean(data));
    if (!data) return;
    this.head(data.error ? "No values" : data.title, data.form);
    if (data.error) this.panel.el.replaceChildren(hint(data.error));
    else await this.panel.load(data);
  }
}

const render = renderer(async (model, el, data) => {
  const shell = new ReportShell(model, el, data);
  await shell.valued();
  return shell;
});

export { render };
