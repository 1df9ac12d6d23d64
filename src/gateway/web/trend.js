/* SPDX-License-Identifier: Apache-2.0 */
/* What grew over a range of kept snapshots: docs/trend-json.md. */
import { download, getJson, query } from '/assets/api.js';
import { actionButton, copyLink, fill, filters, patternInput, problemBox, pushAddress, select } from '/assets/controls.js';
import { button, el, svg } from '/assets/dom.js';
import { bytes, change, count } from '/assets/format.js';
import { saveMenu } from '/assets/saving.js';
import { dateTime, duration } from '/assets/time.js';
import { waitFor } from '/assets/waiting.js';

const UNITS = [['', 'functions'], ['cumulative', 'functions with callees'], ['lines', 'source lines'], ['stacks', 'stacks']];
const COUNTERS = [['', 'bytes in use'], ['inuse_objects', 'objects in use'], ['alloc_space', 'bytes allocated'],
  ['alloc_objects', 'objects allocated']];
const SAVED = [['svg', 'Curves (SVG)', 'svg'], ['html', 'Page with curves and table (HTML)', 'html'], ['text', 'Text', 'txt'],
  ['json', 'JSON', 'json'], ['raw', 'All profiles (tar)', 'tar']];

const HOUR = 3600000;

export const TREND_KEYS = ['by', 'counter', 'focus', 'ignore', 'exclude'];

/* Hours of growth up to a snapshot. */
function course(site, hour) {
  if (site.kind !== 'steady' && site.kind !== 'falling')
    return 0;
  const grown = Math.min(hour, site.end_hours ?? hour);
  return site.onset_hours === undefined ? grown : Math.max(grown - site.onset_hours, 0);
}

/* What was fitted to the profiles of one run: the mean of each stretch between steps, and the growth beside them. */
function fittedPoints(site, hours, run) {
  const steps = site.steps ?? [];
  const rate = site.rate_per_hour;
  const stretch = hour => steps.filter(step => step.hours < hour).length;
  const between = run.filter(i => !steps.some(step => Math.abs(hours[i] - step.hours) < 0.499 * step.lasted_hours));
  const levels = steps.concat({}).map((_, at) => {
    const rests = between.filter(i => stretch(hours[i]) === at).map(i => site.values[i] - rate * course(site, hours[i]));
    return rests.reduce((sum, rest) => sum + rest, 0) / rests.length;
  });
  return between.map(i => [hours[i], levels[stretch(hours[i])] + rate * course(site, hours[i])]);
}

/* As blocks from before the attach are replaced by sampled ones, the profiles rise, too. */
function attachText({ attached_ms: attached, attach_count: again, warm_up: warmUp }) {
  const early = warmUp.filter(Boolean).length;
  const since = again === 0 ? `Attached ${dateTime(attached)}` : `Attached anew ${again === 1 ? 'once' : `${count(again)} times`}, last ${dateTime(attached)}`;
  return `${since}: what lives longer than that looks like a leak${early > 0 ? `, and ${count(early)} profiles soon after an attach count for no growth` : ''}.`;
}

/* A small picture of a series with its error, the growth or the steps that were fitted, and when it began and ended. */
function sparkline(trend, site, format, isLarge) {
  const width = isLarge ? 900 : 300, height = isLarge ? 180 : 44, pad = 3;
  const { hours, runs } = trend;
  const span = hours.at(-1) - hours[0] || 1;
  const errors = site.standard_errors.map(error => 1.96 * error);
  const top = site.values.reduce((max, value, i) => Math.max(max, value + errors[i]), 1e-9);
  const least = site.values.reduce((a, value, i) => Math.min(a, value - errors[i]), 0);
  const x = hour => pad + (hour - hours[0]) / span * (width - 2 * pad);
  const y = value => pad + (1 - (value - least) / (top - least)) * (height - 2 * pad);
  const at = (hour, value) => `${x(hour).toFixed(1)},${y(value).toFixed(1)}`;
  const isFitted = ['steady', 'falling', 'jump'].includes(site.kind);
  let line = '', bands = '', fit = '';
  for (let first = 0; first < hours.length;) {
    let end = first + 1;
    while (end < hours.length && runs[end] === runs[first])
      end++;
    const run = Array.from({ length: end - first }, (_, i) => first + i);
    line += `M${at(hours[first], site.values[first])}L${run.map(i => at(hours[i], site.values[i])).join('L')}`;
    bands += `M${run.map(i => at(hours[i], site.values[i] + errors[i])).join('L')}L${
      run.toReversed().map(i => at(hours[i], site.values[i] - errors[i])).join('L')}Z`;
    if (isFitted && run.length > 1)
      fit += `M${fittedPoints(site, hours, run).map(([hour, value]) => at(hour, value)).join('L')}`;
    first = end;
  }
  return el('div.spark', svg('svg', {
    class: isLarge ? 'curves large' : 'curves', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img',
    'aria-label': `from ${format(site.values[0])} to ${format(site.values.at(-1))}`,
  }, svg('path', { class: 'base', d: `M0,${y(0).toFixed(1)}H${width}` }), svg('path', { class: 'spread', d: bands }), svg('path', { class: 'line line-3', d: line }),
  ...(fit ? [svg('path', { class: site.is_suspect ? 'fit leak' : 'fit', d: fit })] : []),
  ...[site.onset_hours, site.end_hours].filter(hour => hour !== undefined)
    .map(hour => svg('path', { class: 'onset', d: `M${x(hour).toFixed(1)},${pad}V${height - pad}` })),
  ...(isLarge ? trend.notes : []).map(note => svg('path', { class: 'note', d: `M${x(note.hours).toFixed(1)},${pad}V${height - pad}` }, svg('title', {}, `${dateTime(note.time_ms)}: ${note.text}`)))),
  isLarge ? el('p.spark-ends.quiet', el('span', `${dateTime(trend.first_ms)}: ${format(site.values[0])}`), el('span', `at most ${format(top)}`),
    el('span', `${dateTime(trend.first_ms + hours.at(-1) * HOUR)}: ${format(site.values.at(-1))}`)) : null);
}

function chance(p) {
  return p < 0.0001 ? 'less than 0.01 %' : `${(100 * p).toFixed(p < 0.01 ? 2 : 1)} %`;
}

const after = hours => `${duration(hours * HOUR)} after the start`;

/* The words name two steps at most. */
function describeManySteps({ steps = [] }, format) {
  const own = steps.filter(step => !step.is_of_onset);
  return own.length < 3 ? '' : `Its steps: ${
    own.map(step => `${change(step.size, format)} ${after(step.hours)}${step.is_restart ? ' (restart)' : ''}`).join('; ')}.`;
}

/* Above the suspected sites: the title, and what it means. */
function verdict(trend, suspectCount) {
  const growth = 'steadily, beyond what sampling and chance among all sites explain';
  const intervals = '\u00b1 is half of the 95% interval, [ to ] one whose sides differ.';
  if (trend.total.kind === 'unknown')
    return ['No site can be tested', 'That takes three profiles of one process, or more, that count what is shown.'];
  if (suspectCount === 0)
    return ['No leak is suspected', 'No site grows steadily beyond what sampling, turnover and chance explain. More profiles, over a longer time, find slower leaks.'];
  return suspectCount === 1 ? ['One suspected leak', `It grows ${growth}. ${intervals}`]
    : [`${suspectCount} suspected leaks`, `They grow ${growth}; the surest first. ${intervals}`];
}

export class TrendView {
  /* source: name, values (with those of TREND_KEYS), range() => parameters of the route, link(), difference(site) => a page address,
     shown(trend), where there is one, once it is drawn */
  constructor(source) {
    this.source = source;
    this.controls = el('div.controls');
    this.place = el('div');
    this.element = el('div', this.controls, this.place);
    this.drawControls();
    this.draw();
  }

  close() {
    this.request?.abort();
  }

  path(format, more = {}) {
    const { values } = this.source;
    const chosen = Object.fromEntries(TREND_KEYS.map(key => [key, values[key]]));
    return `/targets/${encodeURIComponent(this.source.name)}/api/v1/trend${query({ ...this.source.range(), ...chosen, format, ...more })}`;
  }

  set(changes) {
    Object.assign(this.source.values, changes);
    pushAddress(this.source.link());
    this.draw();
  }

  drawControls() {
    const { values } = this.source;
    const pattern = (key, label, title) => patternInput(label, values[key], title, value => this.set({ [key]: value }));
    fill(this.controls, el('div.row',
      select('What grew, by', UNITS, values.by ?? '', by => this.set({ by })),
      select('in', COUNTERS, values.counter ?? '', counter => this.set({ counter })),
      el('span.spring'), actionButton('Copy link', copyLink),
      saveMenu(SAVED.map(([format, text, extension]) =>
        [text, options => download(this.path(format), `${this.source.name}.trend.${extension}`, options)]))),
    filters(Boolean(values.focus || values.ignore || values.exclude),
      pattern('focus', 'only', 'only stacks with a function or file that matches'),
      pattern('ignore', 'without', 'no stacks with a function or file that matches'),
      pattern('exclude', 'see through', 'leave these functions out of the stacks: a wrapper of malloc such as ^zmalloc')));
  }

  async draw() {
    this.request?.abort();
    const request = new AbortController();
    this.request = request;
    try {
      const trend = await waitFor(this.place, 'Reading the profiles and fitting their growth\u2026', request, button('Compute again', () => this.draw()),
        options => getJson(this.path('json'), options));
      if (request.signal.aborted)
        return;
      this.show(trend);
      this.source.shown?.(trend);
    } catch (problem) {
      if (!request.signal.aborted)
        this.place.replaceChildren(problemBox(problem, ...this.source.remedies(problem),
          actionButton('Try again', () => this.draw())));
    }
  }

  show(trend) {
    const format = (this.source.values.counter ?? '').endsWith('objects') ? count : bytes;
    const suspects = trend.sites.filter(site => site.is_suspect);
    const others = trend.sites.filter(site => !site.is_suspect);
    const restarts = Math.max(0, ...trend.runs) - trend.attach_count;
    const rest = trend.site_count - trend.sites.length + trend.left_out;
    const [title, meaning] = verdict(trend, suspects.length);
    fill(this.place,
      el('div.panel', el('h2', `${count(trend.hours.length)} profiles, ${dateTime(trend.first_ms)} to ${
        dateTime(trend.first_ms + trend.hours.at(-1) * HOUR)}`),
      trend.damaged > 0 ? el('p', trend.damaged === 1 ? 'One more profile is damaged and was left out.'
        : `${count(trend.damaged)} more profiles are damaged and were left out.`) : null,
      restarts > 0 ? el('p.quiet', restarts === 1 ? 'The program was started again in between, or its samples were discarded.'
        : `The program was started again ${restarts} times, or its samples were discarded.`) : null,
      trend.attached_ms ? el('p.quiet', attachText(trend)) : null,
      el('p', el('b', `first ${format(trend.total.values[0])}, last ${format(trend.total.values.at(-1))}`), `: ${trend.total.words}.`),
      sparkline(trend, trend.total, format, true)),
      el('div.panel', el('h2', title), el('p.quiet', meaning),
        suspects.map(site => this.row(trend, site, format))),
      others.length === 0 ? null : el('div.panel', el('h2', 'Other sites'), others.map(site => this.row(trend, site, format)),
        rest > 0 ? el('p.quiet', `and ${count(rest)} smaller ones: Save as JSON has more`) : null));
  }

  seeThrough({ name }) {
    const { exclude } = this.source.values;
    const pattern = `^${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`;
    this.set({ exclude: exclude ? `${exclude}|${pattern}` : pattern });
    this.drawControls();
  }

  row(trend, site, format) {
    const steps = describeManySteps(site, format);
    const details = el('details.site', el('summary',
      el('span.site-name', el('code', site.name)),
      el('span.site-now', format(site.values.at(-1)), el('span.quiet', ' now')),
      el('span.site-rate', el(site.is_suspect ? 'b' : 'span', site.words)),
      sparkline(trend, site, format, false)));
    details.addEventListener('toggle', () => {
      if (!details.open || details.childElementCount > 1)
        return;
      details.append(el('div.site-more', sparkline(trend, site, format, true), steps ? el('p', steps) : null,
        site.stack && site.stack !== site.name ? el('p', 'Most of it is allocated by this stack:') : null,
        site.stack && site.stack !== site.name ? el('ol.stack', site.stack.split(' > ').map(frame => el('li', el('code', frame)))) : null,
        site.is_suspect ? el('p.quiet', `Chance that a site without growth looks like this, among all sites that were tested: ${chance(site.adjusted_p)}.`) : null,
        el('p.row', el('a.button', { href: this.source.difference(site) }, 'Find it in the difference'),
          button('See through it', () => this.seeThrough(site), { title: 'blame its callers instead: for wrappers of malloc' }))));
    });
    return details;
  }
}
