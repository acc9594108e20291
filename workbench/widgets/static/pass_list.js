// The passes of a recording by name, in a panel: filtered by words, with edits and time of each.

import { breakable, h, hint, searchField, take, targetOf, walkRows } from "./dom.js";
import { duration, wordsOf } from "./format.js";
import { Menu } from "./menu.js";

class PassList extends Menu {
  /** @param {{ steps: Step[], index: number, onlyChanged: boolean, go(k: number, tell: boolean): void }} owner */
  constructor(owner) {
    super("Passes", "", "List of passes (l)", { class: "wb-button wb-what", "aria-label": null });
    this.owner = owner;
    this.panel.classList.add("wb-passes");
    this.filter = searchField("Filter passes", "Filter passes", () => this.fill(), (e) => this.key(e));
    this.rows = h("div", { class: "wb-passrows" });
  }

  parts() {
    this.fill();
    return [this.filter, this.rows];
  }

  /** The rows of the passes whose name has the filter's words; without any, of those that changed something if only these are stepped. */
  fill() {
    const { steps, index, onlyChanged } = this.owner, words = wordsOf(this.filter.value);
    const found = steps.flatMap((s, k) => ((k === index || s.changed || !onlyChanged) && words.every((w) => s.name.toLowerCase().includes(w)) ? [this.row(s, k)] : []));
    this.rows.replaceChildren(...(found.length ? found : [hint("No such pass.")]));
  }

  /** @param {Step} s @param {number} k */
  row(s, k) {
    const act = () => {
      this.toggle(false);
      this.button.focus();
      this.owner.go(k, true);
    };
    return h("div", { class: "wb-passrow" + (k === this.owner.index ? " wb-chosen" : ""), tabIndex: -1, "data-step": k, onclick: act },
      [k + 1, breakable(s.name), s.edits || (s.changed ? "" : "–"), duration(s.ms)].map((text) => h("span", {}, text)));
  }

  /** From the field, the arrow goes to the rows, and Enter to the first pass. @param {KeyboardEvent} e */
  key(e) {
    const inField = targetOf(e) === this.filter;
    super.key(e);
    if (inField && e.key === "Enter") {
      /** @type {HTMLElement | null} */ (this.rows.querySelector("[tabindex]"))?.click();
      take(e);
    } else if (!inField || e.key === "ArrowDown") walkRows(this.rows, e);
  }
}

export { PassList };
