/* SPDX-License-Identifier: Apache-2.0 */
/* One target: its heading, and the view that is chosen. */
import { apart } from '/assets/apart.js';
import { getJson } from '/assets/api.js';
import { fill, problemBox, repeat, sentence } from '/assets/controls.js';
import { button, el } from '/assets/dom.js';
import { showHistory } from '/assets/history.js';
import { watchTarget } from '/assets/liveness.js';
import { showMallctls } from '/assets/mallctls.js';
import { showMemory } from '/assets/memory.js';
import { showOverview } from '/assets/overview.js';
import { showProfile } from '/assets/profile.js';
import { showRuns } from '/assets/runs.js';
import { showWatches } from '/assets/watches.js';

const VIEWS = [
  ['', 'Overview', showOverview],
  ['runs', 'Runs', showRuns],
  ['profile', 'Profile', showProfile],
  ['memory', 'Fragmentation', showMemory],
  ['history', 'History'],
  ['watch', 'Watches', (place, target, status, values) => showWatches(place, target, status.name, values)],
  ['mallctl', 'Settings', showMallctls],
];

/* They ask for their target by themselves. */
const UPDATED = ['', 'runs', 'watch'];

/* How often a history asks which processes have its name. */
const NAMES_MS = 5000;

/* The path of a target in the gateway's addresses, and in the page's own. */
class Target {
  constructor(name) {
    this.name = name;
    this.prefix = `/targets/${encodeURIComponent(name)}`;
  }

  path(rest) {
    return this.prefix + rest;
  }

  link(view = '', values = {}) {
    const search = new URLSearchParams(Object.entries(values).filter(([, value]) => value)).toString();
    return `#/${encodeURIComponent(this.name)}${view ? `/${view}` : ''}${search ? `?${search}` : ''}`;
  }

  status() {
    return getJson(this.path('/v1/status'));
  }
}

function tabs(links, chosen) {
  return el('nav.tabs', { 'aria-label': 'Views' }, VIEWS.map(([key, text]) =>
    el('a', { href: links(key), 'aria-current': key === chosen ? 'page' : null }, text)));
}

function setName(name) {
  const crumb = document.querySelector('#crumbs a');
  if (crumb)
    crumb.textContent = name;
  document.title = `${name} \u2013 heapctl`;
}

/* The processes that have the name now, and the views of the one that is chosen; drawn again when they change. */
class HistoryHead {
  constructor(name, values) {
    this.name = name;
    this.chosen = [values.get('live'), values.get('pid')];
    this.shown = '';
    this.element = el('div');
  }

  show(targets) {
    const { name } = this;
    const own = targets.filter(target => target.name === name), live = own.filter(({ reachable }) => reachable);
    const text = JSON.stringify(own.map(({ pid, error }) => [pid, error]));
    if (text === this.shown)
      return;
    this.shown = text;
    const current = live.find(({ pid }) => this.chosen.includes(String(pid))) ?? (live.length === 1 ? live[0] : null);
    const links = current === null ? null : new Target(String(current.pid ?? current.name));
    const difference = target => (parts => parts.length > 0 ? [' (', parts, ')'] : '')(apart(target, live));
    const running = live.slice(0, 8).map(({ pid }, i) => [i > 0 ? ', ' : '', el('a', { href: `#/${pid ?? name}` }, pid ? `pid ${pid}` : name), difference(live[i])]);
    fill(this.element, el('div.heading', el('h1', name), el('p.quiet', live.length > 0 ? ['running now: ', running]
      : own.length > 0 ? sentence(own[0].error.message) : 'no process of this name is running now')),
    links === null ? el('h2.alone', 'History') : tabs(view => view === 'history' ? new Target(name).link('history', { live: String(current.pid ?? '') })
      : links.link(view), 'history'));
  }

  async update() {
    try {
      this.show((await getJson('/api/v1/targets')).targets);
    } catch {
      /* The history below says that the gateway does not answer. */
    }
  }
}

/* A history is of a name: an address with a pid becomes one with the name of that process. */
async function showHistoryOf(page, name, values) {
  const { targets, keeps_history: hasHistory } = await getJson('/api/v1/targets');
  const byPid = targets.find(({ pid, reachable }) => reachable && String(pid) === name);
  if (byPid) {
    values.set('live', name);
    /* Where other processes have its name, this process' history is shown. */
    if (!values.has('pid') && targets.filter(target => target.name === byPid.name && target.reachable).length > 1)
      values.set('pid', name);
    history.replaceState(null, '', new Target(byPid.name).link('history', Object.fromEntries(values)));
    return showHistoryOf(page, byPid.name, values);
  }
  const head = new HistoryHead(name, values);
  const place = el('section');
  setName(name);
  head.show(targets);
  page.append(head.element, place);
  const end = await showHistory(place, name, values, hasHistory, targets.some(target => target.reachable && target.name === name));
  const endHead = repeat(() => head.update(), NAMES_MS);
  return () => {
    endHead();
    end();
  };
}

/* For a target that has ended or does not answer: its captures are still shown. */
function showWatchesOf(page, target, values, problem) {
  const place = el('section');
  page.append(el('div.heading', el('h1', target.name), el('p.quiet', sentence(problem.message))), el('h2.alone', 'Watches'), place);
  return showWatches(place, target, target.name, values);
}

export async function showTarget(page, { target: name, view, values }) {
  if (view === 'history')
    return showHistoryOf(page, name, values);
  const target = new Target(name);
  let status;
  try {
    status = await target.status();
  } catch (problem) {
    if (view === 'watch' && problem.status !== 401)
      return showWatchesOf(page, target, values, problem);
    throw problem;
  }
  const trouble = el('div.trouble'), place = el('section');
  setName(status.name);
  const chosen = VIEWS.find(([key]) => key === view);
  page.append(
    el('div.heading', el('h1', status.name), el('p.quiet', `pid ${status.pid}, ${status.exe}, `,
      `${status.allocator.name} ${status.allocator.version.split('-')[0]}`)),
    tabs(each => target.link(each), view),
    trouble, place);
  if (!chosen) {
    place.append(problemBox({ message: `There is no view \u2018${view}\u2019 of a target`, hint: 'Choose one above.' }));
    return () => {};
  }
  try {
    const end = await chosen[2](place, target, status, values);
    if (UPDATED.includes(view))
      return end;
    const endWatch = watchTarget(trouble, target, place);
    return () => {
      endWatch();
      end();
    };
  } catch (problem) {
    if (problem.status === 401)
      throw problem;
    place.replaceChildren(problemBox(problem, button('Try again', () => dispatchEvent(new Event('hashchange')))));
    return () => {};
  }
}
