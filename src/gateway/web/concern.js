/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the list of targets, by concern: significant growth first, the fastest of it before;
 * then targets that do not answer or cannot be profiled; then the others. Within both the larger before,
 * where sizes within a fifth count as the same, so that rows do not change places all the time;
 * then by name and pid.
 */

/* [class, -growth, -size]: smaller ones come first. */
function keyOf({ target, process }, hasFailed) {
  const growth = process?.growth;
  const size = target.rss || target.memory?.allocated || process?.points.at(-1)?.[1] || 1;
  const steps = -Math.round(Math.log2(size) * 4);
  if (growth?.is_significant)
    return [0, -growth.rate_per_hour, steps];
  return [hasFailed(target) ? 1 : 2, 0, steps];
}

/* entries: { target, process } with the gateway's target and, where the history has it, its process of /api/v1/overview */
export function sortByConcern(entries, hasFailed) {
  const keyed = entries.map(entry => ({ entry, key: keyOf(entry, hasFailed) }));
  return keyed.toSorted((a, b) => a.key[0] - b.key[0] || a.key[1] - b.key[1] || a.key[2] - b.key[2]
    || a.entry.target.name.localeCompare(b.entry.target.name) || (a.entry.target.pid ?? 0) - (b.entry.target.pid ?? 0)).map(({ entry }) => entry);
}
