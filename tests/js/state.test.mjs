// State without a page: cameras, overlays, steps, the search, the table of kernels, and texts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ORDER, columns } from "./scenes.mjs";
import { Live, Scene } from "../../workbench/widgets/static/scene.js";
import { attributes, bytes, count, duration, number, percent } from "../../workbench/widgets/static/format.js";
import { columnsOf, factsOf, ordered, visibleRows } from "../../workbench/widgets/static/kernel_table.js";
import { diffText } from "../../workbench/widgets/static/lists.js";
import { centring, fitted, home, leastZoom, panned, readCamera, revealing, writeCamera, zoomed } from "../../workbench/widgets/static/camera.js";
import { hashOf, traitsOf } from "../../workbench/widgets/static/link.js";
import { isOver, readOverlay, share, valueOf } from "../../workbench/widgets/static/overlay.js";
import { nextStep, within } from "../../workbench/widgets/static/steps.js";
import { pieces } from "../../workbench/widgets/static/code.js";

const VIEW = { w: 480, h: 400 };
const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);

test("a camera survives being written and read", () => {
  const camera = { x: 10.5, y: -20, k: 0.75 };
  assert.deepEqual(readCamera(writeCamera(camera)), camera);
});

test("what is no camera is none", () => {
  for (const text of ["", null, undefined, "1,2", "a,b,c", "1,2,0", "1,2,-1", "NaN,2,1", "1,Infinity,1"]) assert.equal(readCamera(text), null);
  assert.equal(readCamera("0,0,1e9").k, 3);
});

test("zooming leaves the point under the mouse where it is", () => {
  const camera = { x: 5, y: 7, k: 1 }, after = zoomed(camera, 1.5, 100, 50);
  near(100 / after.k + after.x, 105);
  near(50 / after.k + after.y, 57);
  assert.equal(zoomed(camera, 1e9, 0, 0).k, 3);
  assert.equal(zoomed(camera, 1e-9, 0, 0).k, 0.02);
});

test("panning never loses the graph", () => {
  const far = panned({ x: 0, y: 0, k: 1 }, 1e6, -1e6, VIEW, { width: 300, height: 300 });
  assert.deepEqual([far.x, far.y], [300 - 96, -320]);
});

test("the first view shows all that is readable, else the top", () => {
  assert.equal(home(VIEW, { width: 200, height: 200 }, undefined).k, 1);
  const tall = home(VIEW, { width: 200, height: 9000 }, undefined);
  assert.deepEqual([tall.k, tall.y], [1, -14]);
  const wide = home(VIEW, { width: 9000, height: 9000 }, { x: 1000, y: 0, w: 80, h: 40 });
  near(wide.x + 212 / wide.k, 1040);
  assert.ok(fitted(VIEW, { width: 9000, height: 9000 }).k < 0.05);
});

test("a box in view moves no camera, another one comes to the middle", () => {
  const camera = { x: 0, y: 0, k: 1 };
  assert.equal(revealing(camera, { x: 50, y: 50, w: 80, h: 40 }, VIEW), camera);
  const moved = revealing(camera, { x: 50, y: 5000, w: 80, h: 40 }, VIEW);
  near(moved.y + 200, 5020);
  assert.equal(revealing({ ...camera, k: 0.1 }, { x: 50, y: 50, w: 80, h: 40 }, VIEW).k, 0.8);
});

test("whatever its size, a graph fits, and may be seen so again", () => {
  const size = { width: 4000, height: 400_000 }, all = fitted(VIEW, size);
  assert.ok(all.k < 0.02 && size.height * all.k <= VIEW.h && size.width * all.k <= VIEW.w);
  assert.equal(zoomed(all, 1e-3, 0, 0, leastZoom(VIEW, size)).k, all.k);
  assert.ok(Math.abs(readCamera(writeCamera(all)).k / all.k - 1) < 0.01);
  assert.equal(fitted(VIEW, { width: 0, height: 0 }).k, 1);
});

test("a box is put in the middle of what no minimap covers", () => {
  const { x, y, k } = centring({ x: 0, y: 0, k: 0.01 }, { x: 100, y: 900, w: 80, h: 40 }, { ...VIEW, side: 0 });
  near(x + VIEW.w / 2 / k, 140);
  near(y + VIEW.h / 2 / k, 920);
});

test("an overlay has the ends of its scale", () => {
  const plain = readOverlay({ values: { 1: 2, 2: 6 }, scale: "viridis", total: true, tolerance: 5 });
  assert.deepEqual([plain.low, plain.high, share(plain, 3)], [0, 6, 0.5]);
  assert.deepEqual([valueOf(plain, [1, 2]), valueOf(plain, [7])], [8, undefined]);
  assert.deepEqual([isOver(plain, 5), isOver(plain, 5.1), isOver(plain, NaN)], [false, true, true]);
  const log = readOverlay({ values: { 1: 0.01, 2: 1, 3: 0 }, scale: "magma" });
  near(share(log, 0.1), 0.5);
  assert.equal(share(log, 0), 0);
  const far = readOverlay({ values: { 1: 0.01, 2: 0 }, scale: "magma", tolerance: 1 });
  assert.deepEqual([share(far, 0.01), share(far, 1), share(far, 0), far.lost], [0, 1, 0, 0]);
  const zero = readOverlay({ values: { 1: 0 }, scale: "magma", tolerance: 1 });
  assert.equal(share(zero, 0), 0);
  const both = readOverlay({ values: { 1: -2, 2: 1 }, scale: "puor" });
  assert.deepEqual([both.low, both.high], [-2, 2]);
});

test("what is not a number is the worst of all", () => {
  const overlay = readOverlay({ values: { 1: null, 2: 3 }, scale: "viridis", tolerance: null });
  assert.ok(Number.isNaN(valueOf(overlay, [1, 2])));
  assert.deepEqual([share(overlay, NaN), overlay.lost], [1, 1]);
  assert.equal(isOver(overlay, NaN), false);
  assert.deepEqual([readOverlay({}), readOverlay(null)], [null, null]);
});

test("steps that changed nothing are passed over where that is wanted", () => {
  const steps = [true, false, false, true].map((changed) => ({ changed }));
  assert.deepEqual([nextStep(steps, 0, 1, true), nextStep(steps, 0, 1, false), nextStep(steps, 3, -1, true)], [3, 1, 0]);
  assert.deepEqual([nextStep(steps, 3, 1, true), nextStep(steps, 0, -1, false)], [undefined, undefined]);
  assert.deepEqual([within(9, 4), within(-1, 4), within(NaN, 4), within(1.5, 4)], [3, 0, 0, 1]);
});

test("one side of a view knows names, users and what hides an instruction", () => {
  const live = new Live(new Scene(columns()), ORDER);
  assert.deepEqual([live.name(1), live.name(9), live.name(2), live.name(5), live.name(77)], ["x", "@1", "@2", "main:pointwise0:@0", "#77"]);
  assert.deepEqual(live.users.get(1), [2, 4]);
  assert.deepEqual([live.shutAround(9, new Set()), live.shutAround(5, new Set(["a"])), live.shutAround(77, new Set())], [["a"], ["@3"], []]);
});

test("the search wants all words, in any field", () => {
  const live = new Live(new Scene(columns()), ORDER);
  assert.deepEqual([live.find("  "), live.find("TWO"), live.find("/a/conv one"), live.find("nothing")], [[], [3], [2], []]);
});

const kernel = (index, given) => ({
  index, id: index, ids: [index], instruction: `@${index}`, what: `op ${index}`, name: `k${index}`, sources: [`/l${index}`], ms: null, share: null,
  bytes: 10, flops: 0, grid: "4", block: "256", items: 1024, registers: null, shared: 0, local: 0, spills: null, blocks: null, occupancy: null, code: 1, ...given,
});

test("kernels are sorted by a column, those without a number as the least", () => {
  const rows = [kernel(0, { ms: 2 }), kernel(1, {}), kernel(2, { ms: 5 }), kernel(3, { ms: 2 })];
  const shown = (words, order) => visibleRows(rows, words, order).map((r) => r.index);
  assert.deepEqual(shown("", { key: "ms", way: -1 }), [2, 0, 3, 1]);
  assert.deepEqual(shown("", { key: "ms", way: 1 }), [1, 0, 3, 2]);
  assert.deepEqual(shown("OP /l2", { key: "index", way: 1 }), [2]);
  assert.deepEqual(rows.map((r) => r.index), [0, 1, 2, 3]);
});

test("a second click on a head turns the order round", () => {
  const first = ordered({ key: "index", way: 1 }, "ms");
  assert.deepEqual([first, ordered(first, "ms"), ordered(first, "what")], [{ key: "ms", way: -1 }, { key: "ms", way: 1 }, { key: "what", way: 1 }]);
});

test("columns and facts of which nothing is known are left out", () => {
  assert.deepEqual(columnsOf([kernel(0, {})]).map((c) => c.key), ["index", "what", "bytes", "items"]);
  assert.deepEqual(columnsOf([]).map((c) => c.key), ["index"]);
  assert.deepEqual(factsOf(kernel(0, { registers: 1 })), ["4 blocks × 256 work items", "1 register", "10 B moved", "1 B of code"]);
});

test("colouring a line loses none of it", () => {
  const lines = ["const f32 x = 0x1p3f; // a \"comment\"", "#define A(b) \"s\\\"\" /* c */ + b", "  1004: vmulss xmm1,[rip+0x2ff4]", "@9 = add[a=1](x) -> float_type", "", "<b>"];
  for (const language of ["c", "ir", "asm", "text"]) for (const line of lines) assert.equal(pieces(line, language).map(([text]) => text).join(""), line);
  assert.deepEqual(pieces("if x", "c"), [["if", "keyword"], [" x", ""]]);
});

test("attributes are split where they end, not within lists", () => {
  assert.deepEqual(attributes("op[a={1, 2},b=x=y,c=[3]]"), [["a", "{1, 2}"], ["b", "x=y"], ["c", "[3]"]]);
  assert.deepEqual(attributes("relu"), []);
});

test("numbers have three digits, counts their plural, sizes their unit", () => {
  assert.deepEqual([0, 0.0123, 3.14159, 42, 4567, 1e-6, 12345, NaN, -Infinity].map(number), ["0", "0.0123", "3.14", "42", "4,567", "1.00e-6", "1.23e4", "NaN", "−∞"]);
  assert.deepEqual([count(1, "match", "matches"), count(2, "match", "matches"), count(1000, "row")], ["1 match", "2 matches", "1,000 rows"]);
  assert.deepEqual([duration(0.5), duration(999), duration(24700)], ["0.5 ms", "999 ms", "24.7 s"]);
  assert.deepEqual([bytes(999), bytes(1024), bytes(2e6), bytes(3e9), percent(0.5), percent(null)], ["999 B", "1.02 kB", "2 MB", "3 GB", "50 %", ""]);
});

test("the diff is copied with its marks", () => {
  assert.equal(diffText([["=", 1, "a"], ["-", 2, "b"], ["~", 3, "c", "d"], ["…", null, "2 rows"]]), "  a\n- b\n- c\n+ d\n@@ 2 rows @@");
});

globalThis.PALETTE = { letters: { selected: "s", expanded: "o", theme: "t", passes_step: "pk", graph_expanded: "go", pane: "p", only: "i", hidden: "h", bookmarks: "m" } };
const linked = (values) => traitsOf(hashOf({ get: (name) => values[name] }));

test("an address brings back what it was made of", () => {
  const values = { selected: 31, expanded: ["a b", "c|d&e=%7C", "é"], pane: "numbers", passes_step: 4, graph_expanded: [], only: [3, 5, 6, 7], hidden: [9], bookmarks: [[3, null, "a|b=&%"], [null, 4, ""]] };
  const back = linked(values);
  assert.deepEqual({ ...back, expanded: back.expanded.toSorted() }, { ...values, expanded: values.expanded.toSorted() });
});

test("what an address says of no trait, or not as a number, is left out", () => {
  assert.deepEqual(traitsOf("#zz=1&s=abc&s=&pk=1e3&__proto__=1&p=graph"), { pane: "graph" });
  assert.deepEqual(traitsOf("#o=%25zz%7Ca"), { expanded: ["%zz", "a"] });
  assert.deepEqual(traitsOf("#i=5-&h=1-99999999"), {});
  for (const wrong of ["[", "1", "null", "{}", "[1]"]) assert.deepEqual(traitsOf("#m=" + wrong), { bookmarks: [] });
  assert.deepEqual(traitsOf('#m=[["x",1.5,3]]'), { bookmarks: [[null, null, "3"]] });
  assert.deepEqual(traitsOf(""), {});
});
