/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fleet, at #//fleet: what the database of serve --store answers (docs/fleet.md). Values of the
 * address: show, service, version, host, last, ago, and those of the flame graph (picture.js).
 */
import { getJson, query } from '/assets/api.js';
import { fill, problemBox, select } from '/assets/controls.js';
import { button, el } from '/assets/dom.js';
import { FleetPicture } from '/assets/fleet_picture.js';
import { SiteList } from '/assets/fleet_sites.js';
import { bytes, count } from '/assets/format.js';
import { watchGateway } from '/assets/liveness.js';
import { PICTURE_KEYS } from '/assets/picture.js';
import { dateTime } from '/assets/time.js';
import { waitFor } from '/assets/waiting.js';

const ADDRESS = '#//fleet';
const VIEWS = [['', 'Hosts'], ['flame', 'In use'], ['diff', 'What changed'], ['growth', 'Growth'], ['versions', 'Versions'], ['outliers', 'Outliers']];
const HOUR = 3600000;
const TIMES = [['30m', '30 minutes', HOUR / 2], ['3h', '3 hours', 3 * HOUR], ['24h', 'day', 24 * HOUR], ['7d', '7 days', 168 * HOUR], ['30d', '30 days', 720 * HOUR]];
const FILTER_KEYS = ['service', 'version', 'host', 'last', 'ago'];
const HOSTS_SHOWN = 200, HOSTS_MAX = 5000;
const QUANTILE = 1.96;

/* Half of the 95% interval, as analysis/unsample.h has it. */
function halfInterval(value, error) {
  const step = value > 0 ? (QUANTILE * error) ** 2 / value / 2 : 0;
  return Math.hypot(QUANTILE * error, step);
}

/* Shown when it is known. */
const errorOf = ({ bytes: value, standard_error: error }) => error === null || Number.isNaN(error) ? '' : ` \u00b1 ${bytes(halfInterval(value, error))}`;

const find = (key, otherwise) => TIMES.find(([name]) => name === key) ?? TIMES.find(([name]) => name === otherwise);

class Fleet {
  constructor(page, values) {
    this.values = Object.fromEntries(['show', ...FILTER_KEYS, ...PICTURE_KEYS].map(key => [key, values.get(key) ?? '']));
    this.tabs = el('nav.tabs', { 'aria-label': 'Views' }, VIEWS.map(([key, text]) =>
      el('a', { href: this.link({ show: key }), 'aria-current': key === this.values.show ? 'page' : null }, text)));
    this.controls = el('div.controls');
    this.place = el('div');
    page.append(this.tabs, this.controls, this.place);
  }

  /* A view has its own filters of pictures, and all have the same service, version, host and times. */
  link(changes = {}) {
    const values = { ...this.values, ...('show' in changes ? Object.fromEntries(PICTURE_KEYS.map(key => [key, ''])) : {}), ...changes };
    return `${ADDRESS}${query(values)}`;
  }

  close() {
    this.request?.abort();
    this.view?.close();
    this.isClosed = true;
  }

  /* Of growth, versions and outliers it is a day. */
  get last() {
    return find(this.values.last, ['', 'flame', 'diff'].includes(this.values.show) ? '30m' : '24h');
  }

  get ago() {
    return find(this.values.ago, '24h');
  }

  scope() {
    const { service, version, host } = this.values;
    return { service, version, host, last_ms: this.last[2] };
  }

  go(changes) {
    location.hash = this.link(changes);
  }

  /* Names of services, versions and hosts come from the snapshots of that time. */
  async start() {
    const { show } = this.values;
    if (!VIEWS.some(([key]) => key === show)) {
      fill(this.place, problemBox({ message: `There is no view \u2018${show}\u2019 of the fleet`, hint: 'Choose one above.' }));
      return;
    }
    this.request = new AbortController();
    let hosts = [];
    try {
      const answer = await waitFor(this.place, 'Asking the fleet\u2019s database\u2026', this.request, button('Ask again', () => this.start()),
        options => getJson(`/api/v1/fleet/hosts${query({ last_ms: this.last[2], limit: HOSTS_MAX })}`, options));
      if (answer === null)
        return;
      ({ hosts } = answer);
    } catch (problem) {
      if (this.isClosed)
        return;
      this.drawControls([]);
      this.explain(problem);
      return;
    }
    if (this.isClosed)
      return;
    this.drawControls(hosts);
    this.draw(hosts);
  }

  drawControls(hosts) {
    const { values } = this;
    const isOf = (row, ...keys) => keys.every(key => !values[key] || row[key] === values[key]);
    const choices = (key, all, ...others) => [['', all], ...[...new Set([...hosts.filter(row => isOf(row, ...others)).map(row => row[key]), values[key]])]
      .filter(Boolean).sort().map(name => [name, name])];
    const times = TIMES.map(([key, text]) => [key, text]);
    fill(this.controls, el('div.row',
      select('Service', choices('service', 'all'), values.service, service => this.go({ service, version: '', host: '' })),
      /* The versions that are compared are the two that appeared last. */
      values.show === 'versions' ? null
        : select('version', choices('version', 'all', 'service'), values.version, version => this.go({ version, host: '' })),
      select('host', choices('host', 'all', 'service', 'version'), values.host, host => this.go({ host })),
      select('of the last', times, this.last[0], last => this.go({ last })),
      values.show === 'diff' ? select('compared with the same time', times.map(([key, text]) => [key, `${text} earlier`]), this.ago[0], ago => this.go({ ago })) : null));
  }

  /* A time without snapshots is no failure. */
  explain(problem) {
    if (problem.status === 404)
      fill(this.place, el('div.empty', el('h2', 'Nothing of that time'),
        el('p', problem.message.replace(/ \([^()]*\)$/, '')),
        el('p.quiet', 'Choose a longer time, another service or all of them. Hosts send by heapctl serve --history FOLDER --send URL.')));
    else
      fill(this.place, problemBox(problem, button('Try again', () => this.start())));
  }

  draw(hosts) {
    const { show, service } = this.values;
    if ((show === 'versions' || show === 'outliers') && !service)
      fill(this.place, el('p.empty', `${show === 'versions' ? 'Versions' : 'Hosts'} of one service are compared: choose a service.`));
    else if (show === 'flame' || show === 'diff')
      this.showView(new FleetPicture(this));
    else if (show === '')
      this.showHosts(hosts.filter(row => ['service', 'version', 'host'].every(key => !this.values[key] || row[key] === this.values[key])), hosts.length === HOSTS_MAX);
    else
      this.showView(new SiteList(this));
  }

  showView(view) {
    this.view = view;
    fill(this.place, view.element);
    view.start?.();
  }

  showHosts(hosts, isCut) {
    const groups = new Map();
    for (const row of hosts) {
      const key = JSON.stringify([row.service, row.version]);
      const group = groups.get(key) ?? { ...row, hosts: 0, processes: 0, bytes: 0, variance: 0, rss_bytes: 0, last_ms: 0 };
      group.hosts++;
      group.processes += row.processes;
      group.bytes += row.bytes;
      group.variance += row.standard_error === null ? NaN : row.standard_error ** 2;
      group.rss_bytes += row.rss_bytes ?? 0;
      group.last_ms = Math.max(group.last_ms, row.last_ms);
      groups.set(key, group);
    }
    const services = [...groups.values()].map(group => ({ ...group, standard_error: Math.sqrt(group.variance) })).sort((a, b) => b.bytes - a.bytes);
    fill(this.place,
      hosts.length === 0 ? el('p.empty', 'No snapshot of that service, version and host.') : el('section', el('h2', 'Services and versions'), this.table(services, false)),
      hosts.length === 0 ? null : el('section.ended', el('h2', 'Hosts'), this.table(hosts.slice(0, HOSTS_SHOWN), true),
        hosts.length > HOSTS_SHOWN ? el('p.quiet', `and ${count(hosts.length - HOSTS_SHOWN)} with less: choose a service or a version.`) : null),
      isCut ? el('p.quiet', `These are the ${count(HOSTS_MAX)} hosts with most in use; sums are of these. Choose a service for all of its hosts.`) : null);
  }

  /* The last snapshot of each process; \u00b1 is half of the 95% interval, of sampling. */
  table(rows, hasHosts) {
    const columns = ['Service', 'Version', hasHosts ? 'Host' : 'Hosts', 'In use', 'RSS', 'Processes', 'Last'];
    return el('table.cards', el('thead', el('tr', columns.map((text, i) => el(i > 2 && i < 6 || i === 2 && !hasHosts ? 'th.number' : 'th', { scope: 'col' }, text)))),
      el('tbody', rows.map(row => el('tr',
        el('td', { 'data-label': 'Service' }, el('a', { href: this.link({ show: 'flame', service: row.service, version: '', host: '' }) }, row.service)),
        el('td', { 'data-label': 'Version' }, row.version === '' ? el('span.quiet', 'none')
          : el('a', { href: this.link({ show: 'flame', service: row.service, version: row.version, host: '' }) }, row.version)),
        hasHosts ? el('td', { 'data-label': 'Host' }, el('a', { href: this.link({ show: 'flame', service: row.service, version: row.version, host: row.host }) }, row.host))
          : el('td.number', { 'data-label': 'Hosts' }, count(row.hosts)),
        el('td.number', { 'data-label': 'In use' }, el('span', el('b', bytes(row.bytes)), el('span.quiet', errorOf(row)))),
        el('td.number', { 'data-label': 'RSS' }, row.rss_bytes ? bytes(row.rss_bytes) : el('span.quiet', 'unknown')),
        el('td.number', { 'data-label': 'Processes' }, count(row.processes)),
        el('td.whole', { 'data-label': 'Last' }, dateTime(row.last_ms))))));
  }
}

/* Whether serve has --store; the link to the fleet is in the page's head from then on. */
let store;

export async function offerFleet() {
  if (store !== undefined)
    return;
  ({ store } = await getJson('/api/v1/fleet'));
  document.getElementById('fleet').hidden = store === null;
}

export async function showFleet(page, values) {
  await offerFleet();
  page.append(el('div.heading', el('h1', 'Fleet'), store === null ? null : el('p.quiet', store)));
  if (store === null) {
    page.append(el('div.empty', el('h2', 'This gateway shows no fleet'), el('p', 'It is read from the database that the gateways of all hosts send to:'),
      el('pre', 'heapctl serve --store clickhouse://USER@HOST:8123/DATABASE')));
    return () => {};
  }
  const trouble = el('div.trouble');
  page.append(trouble);
  const fleet = new Fleet(page, values);
  fleet.start();
  const endWatch = watchGateway(trouble);
  return () => {
    endWatch();
    fleet.close();
  };
}
