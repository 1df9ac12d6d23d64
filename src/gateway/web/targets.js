/* SPDX-License-Identifier: Apache-2.0 */
/* The list of targets. */
import { apart } from '/assets/apart.js';
import { getJson } from '/assets/api.js';
import { sortByConcern } from '/assets/concern.js';
import { hint, keepTrying, sentence } from '/assets/controls.js';
import { el, svg } from '/assets/dom.js';
import { bytes, change, count } from '/assets/format.js';
import { dateTime, duration } from '/assets/time.js';

function stateOf(target) {
  if (!target.reachable)
    return { kind: 'bad', text: target.error.message, hint: target.error.hint };
  const { profiling, run } = target;
  if (!profiling?.available)
    return { kind: 'bad', text: profiling?.reason || 'cannot be profiled', hint: profiling?.hint ?? profiling?.cure ?? '' };
  if (run?.state === 'running')
    return { kind: 'busy', text: `run, ${duration(run.remaining_ms)} left` };
  return profiling.active ? { kind: 'busy', text: 'sampling' } : { kind: 'good', text: 'ready, sampling is off' };
}

function watchLink(target, watches) {
  const own = watches.filter(({ pid }) => pid !== null && pid === target.pid);
  if (own.length === 0)
    return null;
  const last = Math.max(...own.map(watch => watch.last_capture?.time_ms ?? 0));
  return el('p.hint', el('a', { href: `#/${target.pid}/watch` }, own.every(({ state }) => state === 'refused') ? 'cannot be watched' : 'watched'),
    last > 0 ? `, last capture ${dateTime(last)}` : '');
}

const SPARK = { width: 120, height: 28, pad: 2 };

/* From 0, so that a small change looks small. */
function sparkline({ points, figure, growth }) {
  const { width, height, pad } = SPARK;
  const first = points[0][0], span = points.at(-1)[0] - first || 1;
  const top = points.reduce((max, [, value]) => Math.max(max, value), 1);
  const d = points.map(([time, value], i) => `${i === 0 ? 'M' : 'L'}${(pad + (time - first) / span * (width - 2 * pad)).toFixed(1)},${
    (pad + (1 - value / top) * (height - 2 * pad)).toFixed(1)}`).join('');
  return svg('svg', { class: 'curves target-spark', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img',
    'aria-label': `${figure} from ${bytes(points[0][1])} to ${bytes(points.at(-1)[1])} in ${duration(span)}` },
  svg('path', { class: `line line-${growth?.is_significant ? 'grown' : figure === 'rss' ? 0 : 3}`, d }));
}

function growthCell(process) {
  const growth = process?.growth;
  if (!growth)
    return process ? el('span.quiet', { title: 'Growth takes about an hour of figures.' }, 'unknown') : '';
  const half = (growth.interval95[1] - growth.interval95[0]) / 2;
  if (half === 0 && growth.rate_per_hour === 0)
    return el('span', { title: 'No figure of the last day differs from another.' }, '0 B/h');
  return el('span', { title: '95% interval, of the figures of the last day' }, el(growth.is_significant ? 'b.grown' : 'span', `${change(growth.rate_per_hour)}/h`),
    el('span.quiet', ` \u00b1 ${bytes(half)}`));
}

function lastKept(process) {
  if (!process)
    return '';
  const view = `#/${encodeURIComponent(process.name)}/history?${new URLSearchParams({ pid: process.pid })}`;
  return el('div', el('a', { href: view }, dateTime(process.last_ms)), process.last_reason ? el('p.hint', 'because ', el('code', process.last_reason)) : null);
}

const hasFailed = target => stateOf(target).kind === 'bad';

function row({ target, process }, targets, watches, hasHistory) {
  const state = stateOf(target);
  const difference = apart(target, targets);
  const name = target.url
    ? el('a', { href: `#/${encodeURIComponent(target.pid ?? target.name)}` }, target.name) : target.name;
  return el('tr',
    el('td', { 'data-label': 'Server' }, el('div', name, difference.length > 0 ? el('p.hint.apart', { title: target.command }, difference) : null, target.allocator ? el('p.hint.quiet', `${target.allocator.name} ${target.allocator.version.split('-')[0]}`) : null)),
    el('td.number', { 'data-label': 'Pid' }, target.pid ?? ''),
    hasHistory ? el('td', { 'data-label': 'Last day' }, process?.points.length > 1 ? sparkline(process) : '') : null,
    el('td.number', { 'data-label': 'Heap' }, target.memory ? bytes(target.memory.allocated) : target.reachable ? el('span.quiet', { title: 'Its malloc does not say what it has allocated.' }, 'unknown') : ''),
    el('td.number', { 'data-label': 'RSS' }, target.rss ? bytes(target.rss) : ''),
    hasHistory ? el('td.number', { 'data-label': 'Growth' }, growthCell(process)) : null,
    hasHistory ? el('td', { 'data-label': 'Last kept' }, lastKept(process)) : null,
    el('td', { 'data-label': 'Profiling' }, el('div', el(`span.state.${state.kind}`, sentence(state.text)), state.hint ? hint(state.hint) : null,
      watchLink(target, watches))));
}

const HEADS = [['Server', 'th'], ['Pid', 'th.number'], ['Last day', 'th', true], ['Heap', 'th.number'], ['RSS', 'th.number'], ['Growth', 'th.number', true],
  ['Last kept', 'th', true], ['Profiling', 'th']];

function table(targets, watches, processes) {
  const hasHistory = processes !== null;
  const entries = targets.map(target => ({ target, process: processes?.findLast(({ name, pid }) => name === target.name && pid === (target.pid ?? 0)) }));
  return el('table.cards.targets',
    el('thead', el('tr', HEADS.filter(([, , isOfHistory]) => hasHistory || !isOfHistory).map(([text, kind]) => el(kind, { scope: 'col' }, text)))),
    el('tbody', sortByConcern(entries, hasFailed).map(entry => row(entry, targets, watches, hasHistory))));
}

const noTarget = () => el('div.empty', el('h2', 'No target yet'),
  el('p', 'Start a server so that it can be profiled:'),
  el('pre', 'heapctl run -- redis-server'),
  el('p', 'or load the agent into one that runs already; heapctl ps --all lists them:'),
  el('pre', 'heapctl attach PID'),
  el('p.quiet', 'It appears here automatically. A gateway of an ordinary user sees that user\u2019s servers only.'));

/* Names that have a history and no process any more. */
function endedTable(names) {
  return el('section.ended', el('h2', 'Ended, with a history'), el('table.cards',
    el('thead', el('tr', ['Server', 'Last seen', 'Profiles', 'On disk'].map((text, i) => el(i > 1 ? 'th.number' : 'th', { scope: 'col' }, text)))),
    el('tbody', names.map(entry => el('tr',
      el('td', { 'data-label': 'Server' }, el('a', { href: `#/${encodeURIComponent(entry.name)}/history?last=0` }, entry.name)),
      el('td.whole', { 'data-label': 'Last seen' }, dateTime(entry.last_ms)),
      el('td.number', { 'data-label': 'Profiles' }, count(entry.snapshots)),
      el('td.number', { 'data-label': 'On disk' }, bytes(entry.bytes)))))));
}

/* Names that are watched and have no process yet. */
function waitingTable(watches) {
  const names = [...new Set(watches.map(({ target }) => target))];
  return el('section.ended', el('h2', 'Watched, not running now'), el('table.cards',
    el('thead', el('tr', ['Server', 'Captured when', 'Captures'].map((text, i) => el(i > 1 ? 'th.number' : 'th', { scope: 'col' }, text)))),
    el('tbody', names.map(name => {
      const own = watches.filter(({ target }) => target === name);
      return el('tr',
        el('td', { 'data-label': 'Server' }, el('a', { href: `#/${encodeURIComponent(name)}/watch` }, name)),
        el('td', { 'data-label': 'Captured when' }, el('div', own.flatMap(({ conditions }) => conditions).map(({ when }, i) => [i > 0 ? ', ' : '', el('code', when)]))),
        el('td.number', { 'data-label': 'Captures' }, count(own.reduce((sum, { captures }) => sum + captures, 0))));
    }))));
}

/* Without --history there is none. */
async function ended(targets) {
  const live = new Set(targets.filter(({ reachable }) => reachable).map(({ name }) => name));
  try {
    return (await getJson('/api/v1/archive')).targets.filter(({ name }) => !live.has(name));
  } catch (problem) {
    if (problem.status === 404)
      return [];
    throw problem;
  }
}

export async function showTargets(page) {
  const trouble = el('div.trouble');
  const place = el('div');
  let shown = '';
  page.append(el('h1', 'Targets'), trouble, place);
  const update = async () => {
    const { targets, keeps_history: hasHistory, has_watch_file: hasWatches } = await getJson('/api/v1/targets');
    const names = hasHistory ? await ended(targets) : [];
    const processes = hasHistory ? (await getJson('/api/v1/overview')).processes : null;
    const watches = hasWatches ? (await getJson('/api/v1/watches')).watches : [];
    const waiting = watches.filter(({ state }) => state === 'waiting');
    const text = JSON.stringify([targets, names, watches, processes]);
    /* Unchanged rows keep the focus and the selection. */
    if (text !== shown) {
      const focused = document.activeElement?.getAttribute('href');
      place.replaceChildren(targets.length === 0 ? noTarget() : table(targets, watches, processes),
        waiting.length > 0 ? waitingTable(waiting) : '', names.length > 0 ? endedTable(names) : '');
      if (focused?.startsWith('#/'))
        place.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    }
    shown = text;
  };
  await update();
  return keepTrying(trouble, update, 2000);
}
