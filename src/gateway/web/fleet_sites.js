/* SPDX-License-Identifier: Apache-2.0 */
/* Sites of the fleet that grow or differ between versions, and hosts that deviate, each with its error. */
import { download, getJson, query } from '/assets/api.js';
import { actionButton, copyLink, fill } from '/assets/controls.js';
import { button, el } from '/assets/dom.js';
import { bytes, change, count } from '/assets/format.js';
import { saveMenu } from '/assets/saving.js';
import { waitFor } from '/assets/waiting.js';

const CHANCE_MAX = 0.05, OTHERS_SHOWN = 20;
const TITLES = { growth: 'grow', versions: 'differ', outliers: 'grow as other hosts do not' };

const MEANING = {
  growth: 'Bytes per hour of a host: the slope of each process, averaged over hosts. \u00b1 is half of the 95% interval, between hosts. The chance is that a fleet without growth '
    + 'has a site that looks like this, among all sites that were tested.',
  versions: 'Mean bytes of a process in the later version, against the earlier one. \u00b1 is half of the 95% interval of the change, between hosts. The chance is that two equal '
    + 'versions differ like this at any site.',
  outliers: 'Growth of a host at a site, relative to what it has there, against the median of the hosts that have the site. The chance is that a service whose hosts are alike has a '
    + 'host and site that look like this, among all that were tested.',
};

/* Of hosts that have much nothing else is known: how sizes of hosts are spread is not. */
const OTHERS = {
  growth: () => el('h2', 'Within chance'),
  versions: () => el('h2', 'Within chance'),
  outliers: () => [el('h2', 'Far above the median'), el('p.quiet', 'Mean bytes of a process at a site, against the median of the hosts that have it, on a logarithmic scale: those above 3.5 '
    + 'robust standard deviations. That is not tested, as sizes of hosts may differ by nature. \u00b1 is of sampling.')],
};

function chance(p) {
  if (p === null)
    return 'not tested: it takes two hosts';
  return `chance ${p < 0.0001 ? 'less than 0.01 %' : `${(100 * p).toFixed(p < 0.01 ? 2 : 1)} %`}`;
}

const isSure = site => site.adjusted_p !== null && site.adjusted_p < CHANCE_MAX;

const halfOf = ([low, high]) => low === null || high === null ? '' : ` \u00b1 ${bytes((high - low) / 2)}`;

/* What a site has, and how sure that is. */
const FIGURES = {
  growth: site => [el('b', `${change(site.rate_per_hour)}/h`), el('span', halfOf(site.interval95))],
  versions: site => [el('b', change(site.bytes - site.base_bytes)), el('span', `${halfOf(site.interval95)}: from ${bytes(site.base_bytes)} to ${bytes(site.bytes)}`)],
  outliers: site => {
    const more = `${halfOf(site.interval95)}, median ${bytes(site.median_bytes)}`;
    return isSure(site) ? [el('b', `${change(site.rate_per_hour)}/h`), el('span', `usual ${change(site.usual_rate_per_hour)}/h; in use ${bytes(site.bytes)}${more}`)]
      : [el('b', bytes(site.bytes)), el('span', more)];
  },
};

export class SiteList {
  /* fleet: values, scope(), link(changes), explain(problem) */
  constructor(fleet) {
    this.fleet = fleet;
    this.question = fleet.values.show;
    this.place = el('div');
    this.element = el('div', el('div.row.controls', el('span.spring'), actionButton('Copy link', copyLink),
      saveMenu([['JSON', options => download(this.path(1000), `${fleet.values.service || 'fleet'}.${this.question}.json`, options)]])), this.place);
  }

  close() {
    this.request?.abort();
  }

  path(limit) {
    const { version, ...scope } = this.fleet.scope();
    return `/api/v1/fleet/sites${query({ question: this.question, ...scope, version: this.question === 'versions' ? '' : version, limit })}`;
  }

  async start() {
    const request = new AbortController();
    this.request = request;
    try {
      const answer = await waitFor(this.place, 'Asking the fleet\u2019s database\u2026', request, button('Ask again', () => this.start()),
        options => getJson(this.path(100), options));
      if (!request.signal.aborted)
        this.show(answer);
    } catch (problem) {
      if (!request.signal.aborted)
        this.fleet.explain(problem);
    }
  }

  show(answer) {
    const { question } = this;
    const sure = answer.sites.filter(isSure), others = answer.sites.filter(site => !isSure(site));
    const things = question === 'outliers' ? ['host and site', 'hosts and sites'] : ['site', 'sites'];
    const title = sure.length === 0 ? `No ${question === 'outliers' ? 'host' : 'site'} is known to ${TITLES[question]}`
      : `${count(sure.length)} ${sure.length === 1 ? things[0] : things[1]} ${sure.length === 1 ? TITLES[question].replace(/^(grow|differ)/, '$1s') : TITLES[question]}`;
    fill(this.place, el('div.panel', el('h2', title), this.describe(answer), el('p.quiet', MEANING[question]), sure.map(site => this.row(answer, site))),
      others.length === 0 ? null : el('div.panel', OTHERS[question](), others.slice(0, OTHERS_SHOWN).map(site => this.row(answer, site)),
        others.length > OTHERS_SHOWN ? el('p.quiet', `and ${count(others.length - OTHERS_SHOWN)} more: Save as JSON has them`) : null));
  }

  describe({ base_version: base, version, source, missing_days: missing }) {
    if (this.question === 'versions')
      return el('p', `Version ${version} against ${base}.`);
    return source === 'days' ? el('p', `From the sums of whole days${missing > 0 ? `; ${count(missing)} days of processes are not summed yet` : ''}.`) : null;
  }

  /* The function and its caller; all of the stack when it is opened. */
  row(answer, site) {
    const { frames } = site, name = frames.at(-1) ?? '[no stack]', caller = frames.at(-2);
    const of = [site.service ?? '', site.version ?? '', site.host ?? ''].filter(Boolean).join(' ');
    const pattern = `^${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`;
    const link = this.fleet.link({ show: 'flame', service: site.service ?? this.fleet.values.service, version: site.version ?? '', host: site.host ?? '', last: '',
      view: new URLSearchParams({ search: pattern }).toString() });
    return el('details.site', el('summary',
      el('span.site-name', el('code', name), caller ? [' under ', el('code', caller)] : null),
      el('span.site-now', site.host ? '' : `${count(site.hosts)} ${site.hosts === 1 ? 'host' : 'hosts'}`),
      el('span.site-rate', FIGURES[this.question](site)),
      el('span.quiet', of, of ? ', ' : '', this.question === 'outliers' && !isSure(site) ? `${count(site.robust_z)} deviations` : chance(site.adjusted_p))),
    el('div.site-more', el('ol.stack', frames.map(frame => el('li', el('code', frame)))), el('p.row', el('a.button', { href: link }, 'Find it in the flame graph'))));
  }
}
