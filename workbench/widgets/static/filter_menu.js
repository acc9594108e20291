// The menu that limits a graph to a part of it: hits, selection, neighbourhood, path.

import { button, h } from "./dom.js";
import { count } from "./format.js";
import { Menu } from "./menu.js";

class FilterMenu extends Menu {
  /** @param {Filtered} owner */
  constructor(owner) {
    super("Filter", "Filter", "Show a part of the graph");
    this.owner = owner;
    this.hops = h("input", { type: "number", min: "1", max: "99", value: "1", class: "wb-search wb-hops", "aria-label": "Edges away" });
    this.way = h("select", { class: "wb-search wb-way", "aria-label": "Direction" },
      [["both", "up and down"], ["in", "up, inputs"], ["out", "down, users"]].map(([value, words]) => h("option", { value }, words)));
  }

  parts() {
    const { owner, hops, way } = this, { selected, previous } = owner, hits = owner.search.hits.length, live = owner.searched(), { ids, name } = owner.chosen();
    /** @type {(words: string, on: boolean, act: () => void) => HTMLElement} */
    const item = (words, on, act) => button(words, words, () => {
      this.toggle(false);
      act();
    }, { disabled: !on, class: "wb-button wb-do" });
    return [
      item(`Only the ${hits ? count(hits, "hit") : "hits"}${hits ? " (i)" : ""}`, hits > 0, () => owner.isolate(owner.search.hits)),
      item(`Only ${name}`, ids.length > 0, () => owner.isolate(ids)),
      item(`Hide ${name} (h)`, ids.length > 0, () => owner.hide()),
      h("div", { class: "wb-line wb-around" }, h("label", {}, "Within ", hops, " edges "), way, item("Show", ids.length > 0, () => owner.around(Math.max(1, +hops.value || 1), /** @type {any} */ (way.value)))),
      item(previous === null || selected === null ? "Paths between the last two selections (p)" : `Paths between ${live.name(previous)} and ${live.name(selected)} (p)`,
        previous !== null && selected !== null, () => owner.path()),
      item("Show all (a)", owner.only !== null || owner.hidden.length > 0, () => owner.showAll()),
    ];
  }
}

export { FilterMenu };
