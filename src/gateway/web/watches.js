/* SPDX-License-Identifier: Apache-2.0 */
/* The conditions of serve --watch-file for a target, and its captures. */
import { download, getJson, query } from '/assets/api.js';
import { actionButton, fill, keepTrying, select, sentence, startView } from '/assets/controls.js';
import { button, el } from '/assets/dom.js';
import { bytes, count } from '/assets/format.js';
import { PICTURE_KEYS, PictureView } from '/assets/picture.js';
import { dateTime, duration } from '/assets/time.js';

const REFRESH_MS = 2000;
const ROWS = 20;

const WORDS = [
  [/^rss>(.+%)$/, 'resident memory passes $1 of the machine\u2019s'],
  [/^rss>(.+)$/, 'resident memory passes $1'],
  [/^cgroup>(.+)$/, 'memory passes $1 of its control group\u2019s limit'],
  [/^psi>(.+)$/, 'more than $1 of the time is lost waiting for memory'],
  [/^growth>(.+)\/h$/, 'resident memory grows by $1 within an hour'],
  [/^growth>(.+)\/(.+)$/, 'resident memory grows by $1 within $2'],
  [/^growth>(.+)$/, 'resident memory grows by $1 after the last capture'],
  [/^peak>(.+)$/, 'resident memory passes its highest by $1'],
  [/^peak$/, 'resident memory passes its highest'],
  [/^every=(.+)$/, 'every $1'],
  [/^signal$/, 'the gateway gets SIGUSR1'],
];

/* "rss>2GiB and psi>10%" in words; an unknown condition is shown as it is. */
function conditionText(condition) {
  return condition.split(/\s+and\s+/).map(term => {
    const known = WORDS.find(([pattern]) => pattern.test(term));
    return known ? term.replace(...known) : term;
  }).join(', and at the same time ');
}

function stateLine({ state, pid, problem }) {
  switch (state) {
  case 'watching': return el('p', el('span.state.good', 'Watching'), pid ? ` pid ${pid}` : '');
  case 'waiting': return el('p', el('span.state.busy', 'Waiting'), ' for a process of this name to start');
  default: return el('div.warning', el('p', `It cannot be watched: ${problem?.message ?? 'the reason is not known'}`),
    problem?.hint ? el('p.hint', sentence(problem.hint)) : null, el('p.quiet', 'The gateway tries again every 10 s.'));
  }
}

function conditionItem({ when, armed, problem }) {
  return el('li', `${sentence(conditionText(when))} `, el('code', when),
    problem ? el('p.warning', `This never happens here: ${problem}`) : null,
    armed ? null : el('p.hint', 'It has fired, and applies again once the figure has fallen 5% below the threshold.'));
}

function lastCapture(watch) {
  const { last_capture: last, captures } = watch;
  if (!last)
    return el('p', 'Nothing was captured since the watch began.');
  return el('p', `${count(captures)} ${captures === 1 ? 'capture' : 'captures'} since the watch began; the last at `,
    el('b', dateTime(last.time_ms)), `, because ${last.reason}, ${bytes(last.bytes)}.`);
}

function lastFailure({ last_failure: last, failures }) {
  return last === null ? null : el('div.warning',
    el('p', `${failures > 0 ? `${count(failures)} failed; the last failure` : 'The last failure'}, at ${dateTime(last.time_ms)}: ${last.error.message}`),
    last.error.hint ? el('p.hint', sentence(last.error.hint)) : null);
}

function watchPanel(watch, file) {
  const { interval_ms: interval, conditions } = watch;
  const hasExceptions = conditions.some(({ when }) => /\b(every=|signal)/.test(when));
  const keep = watch.keep === 'history' ? 'into the history' : ['into ', el('code', watch.keep)];
  return el('div.panel', el('h2', 'A profile is captured when'),
    watch.conditions.length > 0 ? el('ul.conditions', watch.conditions.map(conditionItem)) : el('p', 'jemalloc writes one by itself.'),
    stateLine(watch), lastCapture(watch), lastFailure(watch),
    el('p.quiet', `Checked every ${interval < 1000 ? `${interval} ms` : duration(interval)}; captures are at least ${duration(watch.cool_down_ms)} apart${
      hasExceptions ? ', except those of every= and signal,' : ''} and go `, keep,
      watch.has_command ? '; a command is run for each' : '', '. Set in line ', String(watch.line), ' of ', el('code', file), '.'));
}

/* What may be opened: snapshots of the history, files of folders; newest first. */
async function readCaptures(target, watches) {
  const [{ captures }, { snapshots }] = await Promise.all([
    watches.some(({ keep }) => keep !== 'history') ? getJson(target.path('/api/v1/captures')) : { captures: [] },
    watches.some(({ keep }) => keep === 'history') ? getJson(target.path('/api/v1/timeline?captured=1')) : { snapshots: [] }]);
  return [...captures.map(({ number, line, time_ms: time, reason, pid, resident_bytes: rss }) => ({ number, line, time, reason, pid, rss })),
    ...snapshots.map(({ id, time_ms: time, reason, pid, rss }) => ({ id, time, reason, pid, rss }))].toSorted((a, b) => b.time - a.time);
}

class WatchesView {
  constructor(page, target, name, values) {
    this.target = target;
    this.name = name;
    this.values = Object.fromEntries(['line', 'number', 'base', ...PICTURE_KEYS].map(key => [key, values.get(key) ?? '']));
    this.shown = '';
    this.trouble = el('div.trouble');
    this.place = el('div');
    this.list = el('div');
    this.result = el('section.result');
    page.append(this.trouble, this.result, this.place, this.list);
  }

  close() {
    this.end?.();
    this.view?.close();
  }

  async start() {
    await this.load();
    this.drawResult();
    this.end = keepTrying(this.trouble, () => this.load(), REFRESH_MS);
  }

  async load() {
    const answer = await getJson(this.target.path('/watch'));
    const text = JSON.stringify(answer);
    if (text === this.shown)
      return;
    const captures = await readCaptures(this.target, answer.watches);
    this.shown = text;
    this.captures = captures;
    /* A target that does not answer may be known by its pid only. */
    this.name = answer.watches[0]?.target ?? this.name;
    const { file, problem, watches } = answer;
    fill(this.place,
      problem ? el('div.warning', el('p', `The watch file could not be read again; what it said before is in force: ${problem.message}`),
        problem.hint ? el('p.hint', sentence(problem.hint)) : null) : null,
      watches.length > 0 ? watches.map(watch => watchPanel(watch, file))
        : el('div.empty', el('h2', 'Nothing is watched here now'),
          el('p', 'A watch begins when a process starts that a section of ', el('code', file), ' names:'),
          el('pre', `[${this.name}]\nwhen = growth>10%/h\nactivate = yes`),
          el('p.quiet', 'The file is read again when the gateway gets SIGHUP.')));
    this.drawList();
  }

  link(changes = {}) {
    return this.target.link('watch', { ...this.values, ...changes });
  }

  linkOf({ id, line, number, time }) {
    return id ? `#/${encodeURIComponent(this.name)}/history${query({ last: 0, at: id, end: time })}`
      : this.target.link('watch', { line, number });
  }

  drawList() {
    const { captures } = this;
    const hasFocus = this.list.contains(document.activeElement) && document.activeElement.getAttribute('href');
    if (captures.length === 0) {
      this.list.replaceChildren();
      return;
    }
    fill(this.list, el('div.panel', el('h2', captures.length === 1 ? 'One capture is kept' : `${count(captures.length)} captures are kept`),
      el('table.cards', el('thead', el('tr', ['Taken', 'Because', 'Pid', 'RSS', 'Actions'].map((text, i) =>
        el(i === 2 || i === 3 ? 'th.number' : 'th', { scope: 'col' }, text)))),
      el('tbody', captures.slice(0, this.showsAll ? undefined : ROWS).map(capture => this.row(capture)))),
      captures.length > ROWS && !this.showsAll ? el('p.row', button(`Show ${count(captures.length - ROWS)} older ones`, () => {
        this.showsAll = true;
        this.drawList();
      })) : null,
      captures.some(({ id }) => id) ? el('p.row', el('a', { href: `#/${encodeURIComponent(this.name)}/history?last=0` }, 'On the timeline')) : null));
    if (hasFocus)
      this.list.querySelector(`a[href="${CSS.escape(hasFocus)}"]`)?.focus();
  }

  row(capture) {
    const { id, line, number, time, reason, pid, rss } = capture;
    const raw = id ? `/api/v1/snapshot${query({ id, format: 'raw' })}` : `/api/v1/capture${query({ line, number, format: 'raw' })}`;
    return el('tr',
      el('td', { 'data-label': 'Taken' }, el('a', { href: this.linkOf(capture) }, dateTime(time))),
      el('td', { 'data-label': 'Because' }, el('code', reason)),
      el('td.number', { 'data-label': 'Pid' }, pid ?? ''),
      el('td.number', { 'data-label': 'RSS' }, rss ? bytes(rss) : ''),
      el('td.actions', actionButton('Save', () => download(this.target.path(raw), `${this.name}.${id ?? number}.heap`), { className: 'plain' })));
  }

  /* A capture of a folder; those of the history are shown there. */
  drawResult() {
    this.view?.close();
    this.view = null;
    const { values } = this;
    if (!values.number) {
      this.result.replaceChildren();
      return;
    }
    const of = ({ line, number }) => String(line) === values.line && String(number);
    const found = this.captures.find(capture => of(capture) === values.number);
    this.view = new PictureView(this.picture());
    fill(this.result, el('h2', found ? dateTime(found.time) : `capture ${values.number}`,
      found ? el('span.quiet', ` captured because ${found.reason}`) : null),
    el('div.row', button('Close', () => { location.hash = this.target.link('watch'); })), this.view.element);
  }

  /* See picture.js. */
  picture() {
    const { values } = this;
    const others = this.captures.filter(({ line, number }) => String(line) === values.line && String(number) !== values.number);
    const choices = [['', 'nothing'], ...others.map(({ number, time }) => [String(number), `the capture of ${dateTime(time)}`])];
    const chosen = () => ({ line: values.line, number: values.number, base: values.base });
    return {
      values,
      isDifference: () => values.base !== '',
      path: (format, options) => this.target.path(`/api/v1/capture${query({ ...chosen(), format, ...options })}`),
      fileName: extension => `${this.name}.${values.number}${values.base ? `-${values.base}` : ''}.${extension}`,
      link: () => this.link(),
      sides: () => [values.base, values.number].map(number => ({
        title: `capture ${number}`,
        path: (format, options) => this.target.path(`/api/v1/capture${query({ line: values.line, number, format, ...options })}`),
      })),
      leading: () => others.length === 0 && !values.base ? null
        : select('compared with', choices, values.base, base => this.view.set({ base })),
    };
  }
}

const nothing = () => el('div.empty', el('h2', 'This gateway watches nothing'),
  el('p', 'Start it with a watch file, and it captures a profile whenever a condition in the file is met:'),
  el('pre', 'heapctl serve --watch-file /etc/heapctl/watch.conf'),
  el('p.quiet', 'For example when resident memory is above a threshold, or grows by 10% within an hour.'));

/* `name` is the target's, while the address may have its pid. */
export async function showWatches(page, target, name, values) {
  const { has_watch_file: hasFile } = await getJson('/api/v1/targets');
  if (!hasFile) {
    page.append(nothing());
    return () => {};
  }
  return startView(page, new WatchesView(page, target, name, values));
}
