// Small helpers for the page around the canvas. Text is only ever set as text, never as markup.

/** An element with properties and children; strings become text. */
function h(tag, props = {}, ...children) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) el.addEventListener(key.slice(2), value);
    else if (key === "class") el.className = value;
    else if (key in el && !key.startsWith("aria") && key !== "list") el[key] = value;
    else el.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) el.append(child);
  return el;
}

/** Three significant digits; no exponent from 0.01 to 9,999. */
function number(value) {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size >= 1e4 || size < 0.01) return value.toExponential(2).replace("e+", "e");
  const digits = Math.max(0, 2 - Math.floor(Math.log10(size)));
  return size >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toFixed(digits));
}

const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

/** Whether the host page is dark: the view's own choice, else JupyterLab's, VS Code's, else the system's. */
function isDark(choice) {
  if (choice === "dark" || choice === "light") return choice === "dark";
  const body = document.body, lab = body.dataset.jpThemeLight;
  if (lab !== undefined) return lab === "false";
  if (body.dataset.vscodeThemeKind) return body.dataset.vscodeThemeKind.includes("dark");
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Follow the host's theme. */
function onTheme(callback) {
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", callback);
  const watch = new MutationObserver(callback);
  watch.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"] });
  return () => {
    media.removeEventListener("change", callback);
    watch.disconnect();
  };
}

/** The data of a trait: JSON, or JSON as deflated bytes. */
async function decode(value) {
  if (!(value instanceof DataView || value instanceof ArrayBuffer || ArrayBuffer.isView(value))) return value;
  const stream = new Blob([value]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** Say why there is no picture, and what to do. */
function failure(el, error) {
  el.replaceChildren(
    h("div", { class: "wb-failure", role: "alert" },
      h("strong", {}, "This view could not be drawn. "),
      h("span", {}, String(error?.message ?? error)),
      h("p", {}, "Run the cell again; print(program) shows the same facts as text.")),
  );
  console.warn(error);
}

/** The attributes in an operation's text form, `name[key=value,...]`, as pairs. */
function attributes(text) {
  const open = text.indexOf("["), found = [];
  if (open < 0 || !text.endsWith("]")) return found;
  let depth = 0, start = open + 1;
  for (let k = start; k < text.length; k++) {
    const c = text[k];
    if (c === "{" || c === "[") depth++;
    if (c === "}" || (c === "]" && k < text.length - 1)) depth--;
    if ((c === "," && depth === 0) || k === text.length - 1) {
      const [key, ...value] = text.slice(start, k).split("=");
      found.push([key.trim(), value.join("=")]);
      start = k + 1;
    }
  }
  return found;
}

/** All there is to know of an instruction: attributes, shape, where it came from, inputs and users. */
function inspector(live, id, select) {
  const n = id === null ? undefined : live.node(id);
  if (!n)
    return h("div", { class: "wb-inspector", "data-id": id },
      h("p", { class: "wb-hint" }, id === null ? "Select an instruction to see its attributes, shape and origin." : `Instruction ${id} is not in this program.`));
  const link = (k) => h("button", { class: "wb-link", type: "button", onclick: () => select(k) }, [...new Set([live.name(k), live.node(k)?.title ?? ""])].join(" "));
  const rows = [["shape", h("code", {}, n.shape || "none")]];
  for (const [key, value] of attributes(n.text)) rows.push([key, h("code", {}, value)]);
  if (n.sources.length)
    rows.push(["from", n.sources.slice(0, 12).map((s) => h("div", { class: "wb-source" }, h("code", {}, s.name), s.op ? h("span", { class: "wb-soft" }, " " + s.op) : null))]);
  if (n.sources.length > 12) rows.push(["", `and ${n.sources.length - 12} more`]);
  if (n.arguments.length) rows.push(["inputs", n.arguments.slice(0, 16).map((k) => h("div", {}, link(k)))]);
  const users = live.users.get(id) ?? [];
  if (users.length) rows.push(["users", users.slice(0, 16).map((k) => h("div", {}, link(k)))]);
  if (users.length > 16) rows.push(["", `and ${users.length - 16} more`]);
  return h("div", { class: "wb-inspector", "data-id": id },
    h("h3", {}, `${live.name(id)} ${n.title}`),
    n.fact ? h("p", { class: "wb-soft" }, n.fact) : null,
    h("dl", {}, rows.map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)])));
}

export { attributes, count, decode, failure, h, inspector, isDark, number, onTheme };
