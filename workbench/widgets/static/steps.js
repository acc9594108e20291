// Navigation between the steps of a recording.

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

export { nextStep, within };
