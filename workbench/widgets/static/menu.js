// A panel that a button opens under itself; it closes when the focus leaves it.

import { button, h, take } from "./dom.js";

class Menu {
  /**
   * @param {string} label
   * @param {string} text of the button
   * @param {string} title of the button
   * @param {Record<string, any>} extra
   */
  constructor(label, text, title, extra = {}) {
    this.panel = h("div", {
      class: "wb-menu", hidden: true, role: "group", "aria-label": label,
      onkeydown: (/** @type {KeyboardEvent} */ e) => this.key(e), onfocusout: (/** @type {FocusEvent} */ e) => this.left(e),
    });
    this.button = button(text, title, () => this.toggle(), { "aria-expanded": "false", ...extra });
  }

  /** What the panel shows. @returns {HTMLElement[]} */
  parts() { return []; }

  toggle(on = this.panel.hidden) {
    const { panel, button: opener } = this;
    panel.hidden = !on;
    opener.setAttribute("aria-expanded", String(on));
    if (!on) return;
    panel.style.top = opener.offsetTop + opener.offsetHeight + 4 + "px";
    panel.replaceChildren(...this.parts());
    /** @type {HTMLElement | null} */ (panel.querySelector("button:enabled, input"))?.focus();
  }

  /** @param {FocusEvent} e */
  left(e) {
    const to = /** @type {Node | null} */ (e.relatedTarget);
    if (to && to !== this.button && !this.panel.contains(to)) this.toggle(false);
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    e.stopPropagation();
    if (e.key !== "Escape") return;
    this.toggle(false);
    this.button.focus();
    take(e);
  }
}

export { Menu };
