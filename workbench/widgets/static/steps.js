// Navigation between the steps of a recording.

/**
 * A place of `n`, the nearest one there is.
 * @param {number} k
 * @param {number} n
 */
const within = (k, n) => Math.max(0, Math.min(n - 1, Math.trunc(k) || 0));

/**
 * The index of the next step, or undefined where there is none.
 * @param {Step[]} steps
 * @param {number} index
 * @param {number} by 1 or −1
 * @param {boolean} onlyChanged whether steps without an edit are passed over
 */
function nextStep(steps, index, by, onlyChanged) {
  for (let k = index + by; steps[k]; k += by) if (steps[k].changed || !onlyChanged) return k;
  return undefined;
}

export { nextStep, within };
