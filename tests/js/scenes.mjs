// A small scene as Python sends it: in → (group a: one → two) → out, a weight beside `two`, a body in `two`.

const ints = (...list) => Int32Array.from(list);
const label = { weight: 0 };

/** The columns of the scene; slots 0 to 4 are in, one, two, out and inner, the weight is a chip. */
export const columns = () => ({
  title: "small",
  slots: { parent: ints(-1, 0, 0, -1, 1), position: ints(0, 1, 2, 3, 4) },
  groups: {
    key: ["a", "@3"], label: ["a", "two"], half: ints(50, 40), header: [60, 60], body: ints(0, 1), parent: ints(-1, 0), slot: ints(-1, 2), count: ints(2, 1),
  },
  // Items: slots 0 to 4, group a is 5, group @3 is slot 2, a lane passes group a.
  edges: ints(0, 1, 1, 2, 2, 3, 0, 3), firm: 4,
  nodes: {
    id: ints(1, 2, 3, 4, 9, 5), slot: ints(0, 1, 2, 3, -1, 4), module: ints(0, 0, 0, 0, 0, 1), look: ints(0, 1, 2, 3, 4, 5),
    size: ints(0, 0, 1, 0, 0, 2), opens: ints(0, 0, 1, 0, 0, 0),
    arguments: ints(1, 2, 9, 3, 1), argumentEnds: ints(0, 1, 3, 5, 5, 5), chips: ints(label.weight, 9, 0), chipEnds: ints(0, 0, 3, 3, 3, 3),
    sources: ints(0, 0), sourceEnds: ints(0, 1, 2, 2, 2, 2),
  },
  looks: {
    title: ["in", "one", "two", "out", "weight", "inner"], fact: Array(6).fill("2×3"), family: [6, 1, 0, 5, 6, 1], width: [80, 80, 80, 80, 0, 60],
    shape: Array(6).fill("2×3"), text: ["@param:x", ...Array(5).fill("op[axis=1,dims={2, 3}]")],
  },
  sizes: { left: [40, 40, 30], right: [40, 90, 30], height: [40, 40, 40] },
  strings: ["weight", "/a/Conv", "Conv", "a"],
  sources: { name: ints(1), op: ints(2), scope: ints(3) },
  modules: { 1: "main:pointwise0" },
});
export const ORDER = [0, 4, 1, 2, 3, 5];
