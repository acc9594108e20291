// Saved views, drawn by the views' own modules from the server's files.

import { StoredModel, link, viewsOf } from "./model.js";

const FILES = new URL("../views/", import.meta.url);

/** @type {Promise<void> | undefined} */
let ready;

/** The palette and the style sheet, which the views' modules expect. */
async function prepare() {
  const answer = await fetch(new URL("palette.json", FILES));
  if (!answer.ok) throw new Error(`the files of the views cannot be read: ${answer.status}`);
  Object.assign(globalThis, { PALETTE: await answer.json() });
  const style = document.createElement("link");
  await new Promise((resolve, reject) => {
    Object.assign(style, { rel: "stylesheet", href: new URL("style.css", FILES).href, onload: resolve, onerror: reject });
    document.head.append(style);
  });
}

/**
 * Draw saved views one below the other.
 * @param {SavedView[]} views
 * @param {HTMLElement} el
 * @returns {Promise<() => void>} how to take them away
 */
async function draw(views, el) {
  await (ready ??= prepare().catch((error) => {
    ready = undefined;
    throw error;
  }));
  const models = views.map((view) => new StoredModel(view));
  link(models);
  const ends = await Promise.all(views.map(async ({ entry }, k) => {
    const host = el.appendChild(document.createElement("div"));
    const { render } = await import(new URL(entry, FILES).href);
    return render({ model: models[k], el: host });
  }));
  return () => ends.forEach((end) => end?.());
}

export { draw, viewsOf };
