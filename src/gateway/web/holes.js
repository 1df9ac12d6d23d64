/* SPDX-License-Identifier: Apache-2.0 */
/* Where the history of a name has holes, and why: between them nothing is known, and no line is drawn. */
import { moment as momentText } from '/assets/time.js';

/* So many times as long as usual between two moments is a hole. */
const TOLERANCE = 3;
/* How often moments are kept where that cannot be seen: heapctl serve's default. */
const USUAL_MS = 15 * 60000;

export const processKey = ({ pid, started_ms: started }) => `${pid}-${started}`;

const seriesKey = moment => `${processKey(moment)}/${moment.gateway_ms}`;

/* How far the regular moments of a process are apart, kept by one gateway: the median. */
function usualSteps(moments) {
  const last = new Map(), steps = new Map();
  for (const moment of moments.filter(({ reason }) => !reason)) {
    const key = seriesKey(moment);
    if (last.has(key))
      steps.set(key, [...steps.get(key) ?? [], moment.time_ms - last.get(key)]);
    last.set(key, moment.time_ms);
  }
  return new Map([...steps].map(([key, values]) => [key, values.sort((a, b) => a - b)[values.length >> 1]]));
}

/* (before, after) => whether something is missing between two moments. */
export function holeTest(moments) {
  const usual = usualSteps(moments);
  const other = usual.size > 0 ? Math.max(...usual.values()) : USUAL_MS;
  const step = moment => usual.get(seriesKey(moment)) ?? other;
  return (before, after) => after.time_ms - before.time_ms > TOLERANCE * Math.max(step(before), step(after));
}

function reason(before, after) {
  if (after.gateway_ms !== before.gateway_ms && after.gateway_ms > before.time_ms)
    return `no gateway ran until ${momentText(after.gateway_ms)}`;
  return processKey(after) === processKey(before) ? 'it gave no profile' : 'no process of this name was seen';
}

/* [from, to, why] where no process has moments. */
export function findHoles(moments) {
  const isHole = holeTest(moments);
  return moments.slice(1).flatMap((after, i) => isHole(moments[i], after) ? [[moments[i].time_ms, after.time_ms, reason(moments[i], after)]] : []);
}
