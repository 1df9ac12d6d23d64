/* SPDX-License-Identifier: Apache-2.0 */
/* Where the history of a name has holes, and why: within them nothing is known, and no line is drawn. */
import { dateTime } from '/assets/time.js';

/* A gap of this many times the usual one is a hole. */
const TOLERANCE = 3;
/* The usual gap where it is unknown: heapctl serve's default. */
const USUAL_MS = 15 * 60000;

export const processKey = ({ pid, started_ms: started }) => `${pid}-${started}`;

const seriesKey = snapshot => `${processKey(snapshot)}/${snapshot.gateway_ms}`;

/* How far the regular snapshots of a process are apart, kept by one gateway: the median. */
function usualSteps(snapshots) {
  const last = new Map(), steps = new Map();
  for (const snapshot of snapshots.filter(({ reason }) => !reason)) {
    const key = seriesKey(snapshot);
    if (last.has(key))
      steps.set(key, [...steps.get(key) ?? [], snapshot.time_ms - last.get(key)]);
    last.set(key, snapshot.time_ms);
  }
  return new Map([...steps].map(([key, values]) => [key, values.sort((a, b) => a - b)[values.length >> 1]]));
}

/* (before, after) => whether something is missing between two snapshots. */
export function holeTest(snapshots) {
  const usual = usualSteps(snapshots);
  const other = usual.size > 0 ? Math.max(...usual.values()) : USUAL_MS;
  const step = snapshot => usual.get(seriesKey(snapshot)) ?? other;
  return (before, after) => after.time_ms - before.time_ms > TOLERANCE * Math.max(step(before), step(after));
}

function reason(before, after) {
  if (after.gateway_ms !== before.gateway_ms && after.gateway_ms > before.time_ms)
    return `no gateway ran until ${dateTime(after.gateway_ms)}`;
  return processKey(after) === processKey(before) ? 'it gave no profile' : 'no process of this name was seen';
}

/* [from, to, why] where no process has snapshots. */
export function findHoles(snapshots) {
  const isHole = holeTest(snapshots);
  return snapshots.slice(1).flatMap((after, i) => isHole(snapshots[i], after) ? [[snapshots[i].time_ms, after.time_ms, reason(snapshots[i], after)]] : []);
}
