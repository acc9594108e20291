// Placement: boxes in their ranks, groups open and closed, edges between what shows.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ORDER, columns } from "./scenes.mjs";
import { Layout, edgesOf } from "../../workbench/widgets/static/layout.js";
import { Live, Scene } from "../../workbench/widgets/static/scene.js";
import { itemsOf } from "../../workbench/widgets/static/items.js";
import { placeContainer } from "../../workbench/widgets/static/place.js";

globalThis.PALETTE = { glyphs: { added: "+", removed: "−", changed: "~" } };

const scene = new Scene(columns()), live = new Live(scene, ORDER);
const layout = (...open) => new Layout(scene, new Set(open));
const inside = (a, b) => a.x >= b.x && a.x + a.w <= b.x + b.w && a.y >= b.y && a.y + a.h <= b.y + b.h;

test("items of a rank keep their order and never touch", () => {
  const sizes = { left: [10, 30, 5], right: [20, 30, 5], height: [40, 40, 40] };
  const { x, width } = placeContainer({ ranks: [[2, 0, 1]], ties: [] }, sizes, 3);
  assert.ok(x.get(2) + 5 + 18 <= x.get(0) - 10);
  assert.ok(x.get(0) + 20 + 18 <= x.get(1) - 30);
  assert.equal(width, x.get(1) + 30);
});

test("an item stands under the one that it is tied to", () => {
  const sizes = { left: [10, 40], right: [10, 40], height: [40, 20] };
  const { x, y, bands, height } = placeContainer({ ranks: [[0], [1]], ties: [0, 1] }, sizes, 2);
  assert.ok(Math.abs(x.get(0) - x.get(1)) < 1e-9);
  assert.deepEqual([y.get(0), y.get(1), bands, height], [0, 66, [[0, 40], [66, 86]], 86]);
});

test("a container of nothing takes no room", () => {
  const { width, height, spine } = placeContainer({ ranks: [], ties: [] }, { left: [], right: [], height: [] }, 0);
  assert.deepEqual([width, height, spine], [0, 0, 0]);
});

test("a closed group is one box, an open one a panel around what is in it", () => {
  assert.equal(layout().panels.length, 0);
  assert.equal(layout().boxes.has(1), false);
  const open = layout("a"), panel = open.box(5);
  assert.deepEqual(open.panels.map((p) => p.g), [0]);
  for (const slot of [1, 2]) assert.ok(inside(open.box(slot), panel));
  assert.ok(layout("a", "@3").panels.some((p) => p.g === 1));
});

test("the body of an instruction in a closed group does not open", () => {
  assert.deepEqual(layout("@3").panels, []);
});

test("a slot is seen as the outermost closed group around it", () => {
  assert.deepEqual([layout("@3").shownAs(4), layout("a").shownAs(4), layout("a", "@3").shownAs(4)], [5, 2, 4]);
});

test("slots that are not used take no room", () => {
  const used = new Layout(scene, new Set(["a"]), new Set([0, 3]));
  assert.ok(used.height < layout().height);
  assert.deepEqual(used.panels, []);
});

test("edges join what shows and take the lanes that were kept for them", () => {
  const edges = edgesOf(layout(), live), ends = edges.map((e) => [e.start, e.end].join());
  assert.deepEqual(ends.toSorted(), ["0,3", "0,5", "5,3"]);
  const around = edges.find((e) => e.start === 0 && e.end === 3);
  assert.equal(around.points.length, 8);
  for (const e of edges) assert.ok(e.y0 === e.points[1] && e.y1 === e.points.at(-1) && e.x0 <= e.x1);
});

test("edges arrive at one box side by side", () => {
  const arriving = edgesOf(layout(), live).filter((e) => e.end === 3).map((e) => e.points.at(-2));
  assert.equal(new Set(arriving).size, 2);
});

test("a closed group says how much is in it, or how much of it changed", () => {
  const [group] = itemsOf(live, layout()).items.filter((b) => b.group);
  assert.deepEqual([group.title, group.fact, group.ids], ["a", "2 instructions", [2, 3, 5]]);
  const changed = new Live(scene, ORDER, new Map([[1, "added"], [2, "changed"]]));
  assert.equal(itemsOf(changed, layout()).items.find((b) => b.group).fact, "+1 ~1 of 2");
});

test("what is drawn goes from top to bottom, and an open body stands for its instruction", () => {
  const titles = (...open) => itemsOf(live, layout(...open)).items.map((b) => b.title);
  assert.deepEqual(titles("a"), ["in", "one", "two", "out"]);
  assert.deepEqual(titles("a", "@3"), ["in", "one", "inner", "out"]);
  assert.deepEqual([...itemsOf(live, layout("a")).within], [[0, 2], [1, 1]]);
});
