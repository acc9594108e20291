// The button that checks an answer. The click takes along what the field holds: a change of the field waits
// in the browser until Python has taken the change before, and a click does not.

import { h } from "./dom.js";

const LOOK = "jupyter-widgets jupyter-button widget-button mod-primary";

/** @param {Rendering} rendering */
async function render({ model, el }) {
  const holds = model.get("holds"), field = await model.widget_manager?.get_model(model.get("field")).catch(() => null);
  el.append(h("button", { class: LOOK, onclick: () => model.send?.(field && { [holds]: field.get(holds) }) }, "Check"));
}

export { render };
