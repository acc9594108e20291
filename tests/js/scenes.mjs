// A small scene as Python sends it: in → (group a: one → two) → out, a weight beside `two`, a body in `two`.

const title = { in: 0, one: 1, two: 2, out: 3, weight: 4, inner: 5 };

/** The columns of the scene; slots 0 to 4 are in, one, two, out and inner, the weight is a chip. */
export const columns = () => ({
  title: "small",
  slots: { parent: [-1, 0, 0, -1, 1], left: [40, 40, 40, 40, 30], right: [40, 40, 90, 40, 30], height: [40, 40, 40, 40, 40] },
  groups: { key: ["a", "@3"], label: ["a", "two"], half: [50, 40], header: [60, 60], body: [0, 1], parent: [-1, 0], slot: [-1, 2], count: [2, 1] },
  // Items: slots 0 to 4, group a is 5, group @3 is slot 2, lane 7 passes group a.
  containers: [{ ranks: [[0], [5, 7], [3]], ties: [0, 5, 5, 3, 0, 7, 7, 3] }, { ranks: [[1], [2]], ties: [1, 2] }, { ranks: [[4]], ties: [] }],
  lanes: { container: [-1], key: [0] },
  nodes: {
    id: [1, 2, 3, 4, 9, 5], slot: [0, 1, 2, 3, -1, 4], module: [0, 0, 0, 0, 0, 1],
    title: [title.in, title.one, title.two, title.out, title.weight, title.inner], fact: [6, 6, 6, 6, 6, 6], family: [6, 1, 0, 5, 6, 1],
    width: [80, 80, 80, 80, 0, 60], opens: [0, 0, 1, 0, 0, 0],
    inputs: [[], [1], [2], [3, 1], [], []], arguments: [[], [1], [2, 9], [3, 1], [], []],
    chips: [[], [], [[title.weight, 9, 0]], [], [], []], shape: [6, 6, 6, 6, 6, 6], text: [7, 8, 8, 8, 8, 8], sources: [[], [9], [9], [], [], []],
  },
  strings: ["in", "one", "two", "out", "weight", "inner", "2×3", "@param:x", "op[axis=1,dims={2, 3}]", "/a/Conv"],
  sources: { 9: ["Conv", "a"] },
  modules: { 1: "main:pointwise0" },
});
export const ORDER = [0, 4, 1, 2, 3, 5];
