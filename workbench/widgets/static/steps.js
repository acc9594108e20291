// Navigation between the steps of a recording.

import { slice } from "./scene.js";

/**
 * An index clamped to `n` steps.
 * @param {number} k
 * @param {number} n
 */
const within = (k, n) => Math.max(0, Math.min(n - 1, Math.trunc(k) || 0));

/**
 * The index of the next step, or undefined if there is none.
 * @param {Step[]} steps
 * @param {number} index
 * @param {number} by 1 or −1
 * @param {boolean} onlyChanged whether to skip steps without edits
 */
function nextStep(steps, index, by, onlyChanged) {
  for (let k = index + by; steps[k]; k += by) if (steps[k].changed || !onlyChanged) return k;
  return undefined;
}

/**
 * Keep the states within a step: the versions after each edit, its marks and its text diff.
 * @param {Scene} scene
 * @param {Int32Array} order before the step
 * @param {Within} within
 * @param {Map<number, State>} kept by edit
 */
function keepStates(scene, order, { first, states, marks, diffs, versions, modules }, kept) {
  scene.add(versions);
  Object.assign(scene.data.modules, modules);
  for (const [k, [head, tail, middle]] of states.entries()) {
    order = Int32Array.from([...order.slice(0, head), ...middle, ...order.slice(order.length - tail)]);
    kept.set(first + k, { ...kept.get(first + k), order, ...(k ? { marks: marks[k - 1], diff: diffs[k - 1] } : {}) });
  }
  return kept;
}

/**
 * The details of a step with an object for each edit, in place of columns.
 * @param {any} detail
 * @returns {Detail}
 */
function withEdits(detail) {
  const { rules, rule, time, ids, ends, said } = detail.edits, part = (/** @type {number} */ k) => slice(ids, ends, k);
  detail.edits = Array.from(rule, (r, index) => {
    const [name, law, file, line] = rules[r], k = 3 * index;
    return { index, rule: name, law, file, line, ms: time[index] / 1e4, added: part(k), removed: part(k + 1), changed: part(k + 2), what: said[index] };
  });
  return detail;
}

/**
 * What a step of a recording tells of instructions, for queries.
 * @param {Detail} detail
 * @param {Step[]} steps
 */
function ofStep({ edits, lowered }, steps) {
  /** @type {Map<number, string>} */
  const rules = new Map();
  for (const e of edits) for (const id of new Set([...e.added, ...e.removed, ...e.changed])) rules.set(id, rules.has(id) ? `${rules.get(id)}\n${e.rule}` : e.rule);
  const passes = new Map(steps.flatMap((s) => (s.made ?? []).map((id) => /** @type {[number, string]} */ ([id, s.name]))));
  const kernels = lowered?.length ? new Map(lowered.filter((r) => r.kind !== "part").map((r) => [r.id, r.became])) : null;
  return { rules, passes, kernels };
}

export { keepStates, nextStep, ofStep, withEdits, within };
