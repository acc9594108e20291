// TensorView: one value beside its reference.

import { TensorPanel } from "./tensor_panel.js";
import { Shell, renderer } from "./shell.js";
import { TENSOR_KEYS, keysDialog } from "./keys.js";
import { h, isPlainKey, soft, spring } from "./dom.js";

class TensorShell extends Shell {
  /**
   * @param {Model} model
   * @param {HTMLElement} el
   * @param {TensorData} data
   */
  constructor(model, el, data) {
    super(model, el, "wb-tensors", 620);
    this.panel = new TensorPanel(this);
    const keys = keysDialog({ Tensor: TENSOR_KEYS });
    this.root.append(
      h("div", { class: "wb-bar", role: "toolbar", "aria-label": "Tensor" },
        h("strong", { class: "wb-title" }, data.title), soft(data.form), spring(), this.themeButton(), keys.button),
      this.panel.el, this.status, keys.dialog);
    this.root.addEventListener("keydown", (e) => {
      if (e.key !== "?" || !isPlainKey(e)) return;
      keys.open();
      e.preventDefault();
    });
  }

  retheme() {
    super.retheme();
    this.panel?.draw();
  }
}

const render = renderer(async (model, el, data) => {
  const shell = new TensorShell(model, el, data);
  await shell.panel.load(data);
  return shell;
});

export { render };
