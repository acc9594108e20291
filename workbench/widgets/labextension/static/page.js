// Saved views on a page of its own, each below the script element that holds its form. See lesson_page.py.

import { StoredModel, link, viewsOf } from "./model.js";

/**
 * Draw the views of a form in place of their picture.
 * @param {Element} script
 * @param {Record<string, { render(place: { model: any, el: HTMLElement }): unknown }>} modules
 */
function draw(script, modules) {
  const views = viewsOf(JSON.parse(script.textContent ?? "")), models = views.map((view) => new StoredModel(view));
  if (!views.length) return;
  link(models);
  script.nextElementSibling?.remove();
  script.after(...views.map(({ entry }, k) => {
    const el = document.createElement("div");
    modules[entry.replace(".js", "")].render({ model: models[k], el });
    return el;
  }));
}

/** Draw all views, each when it comes near the window. @param {Parameters<typeof draw>[1]} modules */
function start(modules) {
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      const script = target.querySelector("script");
      if (!isIntersecting || !script) continue;
      seen.unobserve(target);
      draw(script, modules);
    }
  }, { rootMargin: "400px" });
  for (const place of document.querySelectorAll(".wb-saved")) seen.observe(place);
}

export { start };
