// Instructions in texts, as links.

import { h, targetOf } from "./dom.js";

/**
 * A text with a link in place of each `#id`, and of each known name. A link that nothing listens to has its id
 * in `data-ref`, for the row around it.
 * @param {string} text
 * @param {((id: number) => string) | null} name
 * @param {Map<string, number> | null} [ids] by name
 * @param {(id: number) => void} [show]
 * @returns {Child[]}
 */
const linked = (text, name, ids, show) => text.split(/(#\d+\b|[^\s(),;]+?(?=:?(?:[\s(),;]|$)))/).map((part) => {
  const id = name && /^#\d+$/.test(part) ? Number(part.slice(1)) : ids?.get(part);
  if (id === undefined) return part;
  const words = name && part[0] === "#" ? name(id) : part;
  return show ? h("button", { class: "wb-link", onclick: () => show(id) }, words)
    : h("u", { class: "wb-ref", "data-ref": id }, words);
});

/** The ids of a side's instructions, by name. @param {Live} live @returns {Map<string, number>} */
const idsOf = (live) => new Map([...live.names].map(([id, name]) => [name, id]));

/** The instruction of the link that was clicked, or of the row around it. @param {Event} e @param {number} own */
const refOf = (e, own) => Number(targetOf(e).dataset.ref ?? own);

export { idsOf, linked, refOf };
