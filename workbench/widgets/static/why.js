// Two instructions that are chosen together, and the answer why they are not one kernel.

import { button, h } from "./dom.js";
import { linked } from "./refs.js";

/**
 * The pair, with a button that asks, or with the answer.
 * @param {[number, number]} pair
 * @param {{ pair?: number[], text?: string } | undefined} answer to the pair that was asked for last
 * @param {(id: number) => string} name
 * @param {(id: number) => void} show
 * @param {(pair: number[]) => void} ask
 */
function pairing(pair, answer, name, show, ask) {
  const { pair: asked, text = "" } = answer ?? {};
  return h("div", { class: "wb-why", role: "status" }, linked(`#${pair[0]} and #${pair[1]} `, name, null, show),
    asked?.join() === pair.join() ? h("p", {}, linked(text, name, null, show)) : button("Why not one kernel?", "Ask why these two are not one kernel (w)", () => ask(pair)));
}

export { pairing };
