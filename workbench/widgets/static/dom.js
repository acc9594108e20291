// The page around the canvas. Text is only ever set as text, never as markup.

/**
 * An element with properties and children; strings become text.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} props
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
function h(tag, props = {}, ...children) {
  const el = document.createElement(tag);
  if (tag === "button") el.setAttribute("type", "button");
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) el.addEventListener(key.slice(2), value);
    else if (key === "class") el.className = value;
    else if (key in el && !key.startsWith("aria") && key !== "list") Object.assign(el, { [key]: value });
    else el.setAttribute(key, value === true ? "" : value);
  }
  for (const child of /** @type {any[]} */ (children).flat(Infinity)) if (child !== null && child !== undefined && child !== false) el.append(child);
  return el;
}

/**
 * A part of a view.
 * @param {string} kind its class, without our prefix
 * @param {...Child} children
 */
const div = (kind, ...children) => h("div", { class: "wb-" + kind }, children);

/** Quiet text. @param {...Child} words */
const soft = (...words) => h("span", { class: "wb-soft" }, words);

/** What a place without content says. @param {...Child} words */
const hint = (...words) => h("p", { class: "wb-hint" }, words);

/** What pushes the rest of a bar to its end. */
const spring = () => h("span", { class: "wb-spring" });

/**
 * A button of a bar.
 * @param {string} text
 * @param {string} title what it does, also for screen readers
 * @param {() => void} onclick
 * @param {Record<string, any>} extra
 */
const button = (text, title, onclick, extra = {}) =>
  h("button", { class: "wb-button", title, "aria-label": /\w\w/.test(text) ? `${text}: ${title}` : title, onclick, ...extra }, text);

/**
 * The heading of a column, which sorts by it.
 * @param {string} kind the class
 * @param {string} name
 * @param {string} title
 * @param {number} way 1 where the rows ascend by it, -1 where they descend, 0 where they are sorted by another one
 * @param {() => void} onclick
 */
const heading = (kind, name, title, way, onclick) =>
  h("th", { scope: "col", class: kind, "aria-sort": way ? (way > 0 ? "ascending" : "descending") : "none" },
    h("button", { title: `${title}; sort`, "aria-label": `${name}: ${title}; sort`, onclick }, name, h("i", { "aria-hidden": "true" }, way ? (way > 0 ? "▴" : "▾") : "")));

/**
 * A field to search in; the view hears none of its keys, and Escape clears it.
 * @param {string} placeholder
 * @param {string} label
 * @param {() => void} oninput
 * @param {(event: KeyboardEvent) => void} onkeydown
 */
function searchField(placeholder, label, oninput, onkeydown = () => {}) {
  const field = h("input", { type: "search", class: "wb-search", placeholder, "aria-label": label, spellcheck: false, oninput, onkeydown: (/** @type {KeyboardEvent} */ e) => {
    onkeydown(e);
    e.stopPropagation();
    if (e.key !== "Escape" || !field.value) return;
    field.value = "";
    oninput();
  } });
  return field;
}

/**
 * Copy a text, and say so.
 * @param {string} text
 * @param {string} done
 * @param {(words: string) => void} say
 * @param {() => void} fail
 */
function copyText(text, done, say, fail = () => say("The browser refused to copy; select the text")) {
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => say(done), fail);
  else fail();
}

/** The element that an event came from. @param {Event} e */
const targetOf = (e) => /** @type {HTMLElement} */ (e.target);

/** Whether the view handles a key: not in an input field, and without modifiers. @param {KeyboardEvent} e */
const isPlainKey = (e) => !/^(INPUT|SELECT|TEXTAREA)$/.test(targetOf(e).tagName) && !e.altKey && !e.ctrlKey && !e.metaKey;

/**
 * Consume an event: stop its propagation and default action.
 * @param {Event} e
 */
function take(e) {
  e.preventDefault();
  e.stopPropagation();
}

/**
 * The index that a key leads to in a row of `n` items, within its ends; undefined for other keys.
 * @param {KeyboardEvent} e
 * @param {number} at
 * @param {number} n
 * @param {[back: string, on: string]} arrows
 */
function moved(e, at, n, [back, on] = ["ArrowUp", "ArrowDown"]) {
  /** @type {Record<string, number>} */
  const to = { [on]: at + 1, [back]: at - 1, Home: 0, End: n - 1, PageDown: at + 10, PageUp: at - 10 };
  return n && e.key in to ? Math.max(0, Math.min(n - 1, to[e.key])) : undefined;
}

/**
 * Handle a key in a list: arrows go from row to row, Enter and the space bar click.
 * @param {HTMLElement} list
 * @param {KeyboardEvent} e
 */
function walkRows(list, e) {
  const rows = [...list.querySelectorAll("[tabindex]:not(summary)")].filter((row) => row instanceof HTMLElement), at = rows.findIndex((row) => row === e.target);
  const to = moved(e, at, rows.length);
  if (to !== undefined) rows[to].focus();
  else if (at >= 0 && (e.key === "Enter" || e.key === " ")) rows[at].click();
  else return;
  take(e);
}

/** Tabs, one of them open; arrow keys cycle through them. */
class Tabs {
  /**
   * @param {string} label
   * @param {(key: string) => void} open
   */
  constructor(label, open) {
    this.open = open;
    this.el = h("div", { class: "wb-tabs", role: "tablist", "aria-label": label, onkeydown: (/** @type {KeyboardEvent} */ e) => this.key(e) });
    /** @type {string[]} */
    this.keys = [];
    this.chosen = "";
  }

  /**
   * Show the tabs: a label by key.
   * @param {Record<string, string>} labels
   * @param {string} chosen
   */
  show(labels, chosen) {
    const hadFocus = this.el.contains(this.el.ownerDocument.activeElement);
    this.keys = Object.keys(labels);
    this.chosen = chosen;
    this.el.replaceChildren(...this.keys.map((key) => h("button", {
      role: "tab", class: "wb-tab", "aria-selected": String(key === chosen), tabIndex: key === chosen ? 0 : -1, "data-tab": key, onclick: () => this.choose(key),
    }, labels[key])));
    if (hadFocus) this.focus();
  }

  focus() { /** @type {HTMLElement | null} */ (this.el.querySelector('[aria-selected="true"]'))?.focus(); }

  /** @param {string} key */
  choose(key) {
    this.open(key);
    this.focus();
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    const at = this.keys.indexOf(this.chosen), n = this.keys.length;
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1 }[e.key];
    if (to === undefined) return;
    this.choose(this.keys[(to + n) % n]);
    take(e);
  }
}

/**
 * Whether to use the dark theme: the view's own choice, or that of JupyterLab, VS Code, marimo, Colab, Sphinx or the system.
 * @param {string} choice
 */
function isDark(choice) {
  const { jpThemeLight, vscodeThemeKind, theme = document.documentElement.getAttribute("theme") } = document.body.dataset;
  const said = choice === "auto" ? vscodeThemeKind || theme : choice;
  if (choice === "auto" && jpThemeLight) return jpThemeLight === "false";
  return said && said !== "auto" ? /dark|contrast$/.test(said) : matchMedia("(prefers-color-scheme: dark)").matches;
}

/**
 * Follow the host's theme. Returns a function that stops following.
 * @param {() => void} callback
 */
function onTheme(callback) {
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", callback);
  const watch = new MutationObserver(callback);
  for (const el of [document.body, document.documentElement]) watch.observe(el, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind", "data-theme", "theme"] });
  return () => {
    media.removeEventListener("change", callback);
    watch.disconnect();
  };
}

/**
 * The data of a trait: a value, or deflated bytes, which a page holds as base64. Columns of numbers follow the JSON
 * that refers to them, as differences.
 * @param {any} value
 * @returns {Promise<any>}
 */
async function decode(value) {
  if (typeof value?.deflated === "string") return decode(Uint8Array.from(atob(value.deflated), (c) => c.charCodeAt(0)));
  if (!(value instanceof DataView || value instanceof ArrayBuffer || ArrayBuffer.isView(value))) return value;
  const stream = new Blob([/** @type {BlobPart} */ (value)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer()), end = bytes.indexOf(0), text = new TextDecoder();
  if (end < 0) return JSON.parse(text.decode(bytes));
  return filled(JSON.parse(text.decode(bytes.subarray(0, end))), new Int32Array(bytes.buffer, 4 * Math.ceil((end + 1) / 4)));
}

/**
 * A value with its columns in place: each is the numbers that start at the first and differ by the others.
 * @param {any} value
 * @param {Int32Array} ints
 * @returns {any}
 */
function filled(value, ints) {
  if (typeof value !== "object" || value === null || typeof value[0] === "string") return value;
  if (!Array.isArray(value.ints)) {
    for (const key of Object.keys(value)) if (typeof value[key] === "object") value[key] = filled(value[key], ints);
    return value;
  }
  const column = ints.subarray(...value.ints);
  for (let k = 1; k < column.length; k++) column[k] += column[k - 1];
  return column;
}

/**
 * Show why the view could not be drawn, and what to do.
 * @param {HTMLElement} el
 * @param {unknown} error
 */
function failure(el, error) {
  el.replaceChildren(
    h("div", { class: "wb-failure", role: "alert" },
      h("strong", {}, "This view could not be drawn. "),
      h("span", {}, error instanceof Error ? error.message : String(error)),
      h("p", {}, "Run the cell again; print(program) shows the same facts as text.")),
  );
  console.warn(error);
}

/** A name that may break behind underscores, brackets and equals signs. @param {string} name */
const breakable = (name) => name.split(/(?<=[_(=])/).flatMap((part) => [h("wbr"), part]);

export { Tabs, breakable, button, copyText, decode, div, failure, h, heading, hint, isDark, isPlainKey, moved, onTheme, searchField, soft, spring, take, targetOf, walkRows };
