/* SPDX-License-Identifier: Apache-2.0 */
/* One target: its heading, and the view that is chosen. */
import { getJson } from '/assets/api.js';
import { el } from '/assets/dom.js';
import { showMallctls } from '/assets/mallctls.js';
import { showMemory } from '/assets/memory.js';
import { showOverview } from '/assets/overview.js';
import { showProfile } from '/assets/profile.js';
import { showRuns } from '/assets/runs.js';

const VIEWS = [
  ['', 'Overview', showOverview],
  ['runs', 'Runs', showRuns],
  ['profile', 'Profile', showProfile],
  ['memory', 'Waste', showMemory],
  ['mallctl', 'Settings', showMallctls],
];

/* The way to a target in the gateway's addresses, and in the page's own. */
export class Target {
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

export async function showTarget(page, { target: name, view, values }) {
  const target = new Target(name);
  const status = await target.status();
  const place = el('section');
  document.querySelector('#crumbs a').textContent = status.name;
  document.title = `${status.name} \u2013 heapctl`;
  const chosen = VIEWS.find(([key]) => key === view) ?? VIEWS[0];
  page.append(
    el('div.heading', el('h1', status.name), el('p.quiet', `pid ${status.pid}, ${status.exe}, `,
      `${status.allocator.name} ${status.allocator.version.split('-')[0]}`)),
    el('nav.tabs', { 'aria-label': 'Views' }, VIEWS.map(([key, text]) =>
      el('a', { href: target.link(key), 'aria-current': key === chosen[0] ? 'page' : null }, text))),
    place);
  return chosen[2](place, target, status, values);
}
