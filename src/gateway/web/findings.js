/* SPDX-License-Identifier: Apache-2.0 */
/* What the kept snapshots of a process say in words, with a way to the evidence. */
import { getJson, query } from '/assets/api.js';
import { repeat } from '/assets/controls.js';
import { el } from '/assets/dom.js';
import { bytes, count } from '/assets/format.js';
import { dateTime } from '/assets/time.js';

const DAY = 86400000;
const SUSPECTS_SHOWN = 3;
const REFRESH_MS = 60000;

/* "lpInsert under lpAppend": the function, and who calls it in most of what grew. */
function describeSite({ name, stack = '' }) {
  const frames = stack.split(' > ');
  const at = frames.lastIndexOf(name);
  const caller = at < 0 ? undefined : frames[at === 0 ? 1 : at - 1];
  return [el('code', name), ...(caller ? [' under ', el('code', caller)] : [])];
}

function describe(trend, last, evidence) {
  const suspects = trend.sites.filter(site => site.is_suspect);
  const { values, words } = trend.total;
  const more = suspects.length - SUSPECTS_SHOWN;
  return el('div.panel.findings',
    el('h2', `${bytes(values.at(-1))} in use at ${dateTime(last.time_ms)}`),
    el('p', `Since ${dateTime(trend.first_ms)}, in ${count(trend.hours.length)} kept profiles: ${words}.`),
    suspects.length === 0 ? el('p.quiet', 'No leak is suspected.')
      : [el('p', suspects.length === 1 ? 'One suspected leak:' : `${count(suspects.length)} suspected leaks, the surest first:`),
        el('ul', suspects.slice(0, SUSPECTS_SHOWN).map(site => el('li', ...describeSite(site), `: ${site.words}`)),
          more > 0 ? el('li', `and ${count(more)} more`) : null)],
    el('p.row', el('a.button', { href: evidence }, 'What grew')));
}

/* Where nothing can be said yet: what would be here, and what it needs. */
function expectation(...words) {
  return el('p.quiet.findings', ...words);
}

/* Of the last day; null where nothing has changed since the snapshots with that key. */
async function findingsOf(status, known, signal) {
  const { keeps_history: hasHistory } = await getJson('/api/v1/targets', { signal });
  if (!hasHistory)
    return [expectation('With a history this page says what grows: start ', el('code', 'heapctl serve --history FOLDER'), '.'), ''];
  const path = `/targets/${encodeURIComponent(status.name)}/api/v1`;
  const process = { pid: status.pid };
  const { snapshots } = await getJson(`${path}/timeline${query({ from_ms: Date.now() - DAY, ...process, max: 100 })}`, { signal });
  const first = snapshots[0], last = snapshots.at(-1);
  const key = `${first?.id}-${last?.id}`;
  if (key === known)
    return null;
  if (snapshots.length < 3)
    return [expectation(`Growth is shown from three kept profiles on; there are ${count(snapshots.length)} of the last day.`), key];
  const range = { from_ms: first.time_ms, to_ms: last.time_ms };
  const trend = await getJson(`${path}/trend${query({ ...range, ...process, format: 'json' })}`, { signal });
  if (trend.total.kind === 'unknown')
    return [expectation(`The ${count(snapshots.length)} kept profiles of the last day are too few to tell growth from chance.`), key];
  const view = { ...process, base: first.id, at: last.id, begin: first.time_ms, end: last.time_ms, show: 'trend' };
  return [describe(trend, last, `#/${encodeURIComponent(status.name)}/history?${new URLSearchParams(view)}`), key];
}

/*
 * It takes as long as reading the profiles does, and the page does not depend on it. A new snapshot brings
 * new findings. Returns a function that ends it, with the request that runs.
 */
export function showFindings(place, status) {
  const request = new AbortController();
  let known = null;
  const end = repeat(async () => {
    try {
      const found = await findingsOf(status, known, request.signal);
      if (found !== null && !request.signal.aborted) {
        place.replaceChildren(found[0]);
        known = found[1];
      }
    } catch (problem) {
      if (!request.signal.aborted)
        place.replaceChildren(el('p.quiet', `The kept profiles could not be compared: ${problem.message}`));
    }
  }, REFRESH_MS);
  return () => {
    end();
    request.abort();
  };
}
