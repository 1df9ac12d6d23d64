/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The snapshots of serve --history of a name: its timeline, a snapshot, two compared, the trend between
 * them. In the address: `last` (or from, to) is the time that is shown, pid and started the process,
 * base and at the snapshots that are chosen, begin and end their times, show what is made of two.
 */
import { download, getJson, query } from '/assets/api.js';
import { actionButton, copyLink, fill, keepTrying, problemBox, pushAddress, segments, select, startView } from '/assets/controls.js';
import { button, el } from '/assets/dom.js';
import { processKey } from '/assets/holes.js';
import { NoteList } from '/assets/notes.js';
import { PICTURE_KEYS, PictureView } from '/assets/picture.js';
import { saveCurves } from '/assets/saved_curves.js';
import { saveMenu } from '/assets/saving.js';
import { dateTime, duration, zone } from '/assets/time.js';
import { Timeline } from '/assets/timeline.js';
import { TREND_KEYS, TrendView } from '/assets/trend.js';

const HOUR = 3600000;
const SPANS = [[HOUR, 'hour'], [6 * HOUR, '6 hours'], [24 * HOUR, 'day'], [7 * 24 * HOUR, 'week'], [0, 'all']];
const DEFAULT_SPAN = 24 * HOUR;
const SNAPSHOTS_MAX = 2000;
const REFRESH_MS = 5000;
const KEYS = ['live', 'last', 'from', 'to', 'pid', 'started', 'base', 'at', 'begin', 'end', 'show'];

/* When the suspected leaks began, as far as they did so after the first profile. */
function onsetsOf(trend) {
  return trend.sites.filter(site => site.is_suspect && site.onset_hours !== undefined)
    .map(site => ({ time_ms: trend.first_ms + site.onset_hours * HOUR, name: site.name }));
}

class HistoryView {
  constructor(page, name, values, isRunning) {
    this.name = name;
    this.isRunning = isRunning;
    this.values = Object.fromEntries([...KEYS, ...PICTURE_KEYS, ...TREND_KEYS].map(key => [key, values.get(key) ?? '']));
    this.shown = '';
    this.bar = el('div.controls');
    this.trouble = el('div.trouble');
    this.timeline = new Timeline((first, last) => this.choose(first, last));
    this.help = el('p.quiet', { id: 'timeline-help' }, 'Click a snapshot to see what was in use then. Drag over the curves to see what grew. ',
      'Keys: arrows move, Enter chooses, Shift makes a range.');
    this.notes = new NoteList(this.path('notes', {}), () => this.load(), note => this.showSince(note));
    this.chart = el('div.panel', this.timeline.element, this.help, this.notes.element);
    this.result = el('section.result');
    page.append(this.bar, this.trouble, this.chart, this.result);
  }

  close() {
    this.endRefresh?.();
    this.timeline.close();
    this.view?.close();
  }

  link(changes = {}) {
    const given = Object.entries({ ...this.values, ...changes }).filter(([, value]) => value !== '');
    return `#/${encodeURIComponent(this.name)}/history${given.length > 0 ? `?${new URLSearchParams(given)}` : ''}`;
  }

  path(route, values) {
    return `/targets/${encodeURIComponent(this.name)}/api/v1/${route}${query(values)}`;
  }

  get process() {
    return { pid: this.values.pid, started_ms: this.values.started };
  }

  get range() {
    if (this.values.from || this.values.to)
      return { from_ms: this.values.from, to_ms: this.values.to };
    const span = this.values.last === '' ? DEFAULT_SPAN : Number(this.values.last);
    return { from_ms: span > 0 ? Date.now() - span : '' };
  }

  async start() {
    await this.load();
    this.endRefresh = keepTrying(this.trouble, () => this.load(), REFRESH_MS);
  }

  async load() {
    const [{ snapshots, notes }, { processes }] = await Promise.all([
      getJson(this.path('timeline', { ...this.range, ...this.process, max: SNAPSHOTS_MAX })),
      getJson(this.path('timeline', { max: 2 }))]);
    const key = JSON.stringify([snapshots.length, snapshots[0]?.id, snapshots.at(-1)?.id, processes.length, notes.map(({ id }) => id)]);
    if (key === this.shown)
      return;
    const isFirst = this.shown === '';
    this.shown = key;
    this.snapshots = snapshots;
    this.processes = processes;
    this.drawBar();
    const seen = new Set(snapshots.map(processKey));
    this.timeline.show(snapshots, processes.filter(process => seen.has(processKey(process))), this.selection());
    this.timeline.setNotes(notes);
    this.notes.show(notes);
    this.chart.hidden = snapshots.length === 0;
    if (isFirst || snapshots.length === 0)
      this.drawResult();
  }

  find(id) {
    return this.snapshots.find(snapshot => String(snapshot.id) === id);
  }

  /* What is chosen, as far as it is among what is shown. */
  selection() {
    const last = this.find(this.values.at);
    const first = this.values.base ? this.find(this.values.base) : last;
    return first && last ? [first, last] : null;
  }

  change(changes) {
    Object.assign(this.values, changes);
    pushAddress(this.link());
  }

  /* Shows another part of the timeline; the selection stays. */
  async look(changes) {
    this.change(changes);
    this.shown = 'anew';
    try {
      await this.load();
    } catch (problem) {
      this.trouble.replaceChildren(problemBox(problem));
    }
  }

  choose(first, last) {
    const isRange = first !== last;
    this.change({
      base: isRange ? String(first.id) : '', at: String(last.id), begin: isRange ? String(first.time_ms) : '', end: String(last.time_ms),
      show: isRange ? this.values.show || 'trend' : '', view: '',
    });
    this.timeline.show(this.snapshots, this.timeline.processes, [first, last]);
    this.drawResult();
  }

  /* From the last snapshot before the note, so that a step at once is in it. */
  showSince(note) {
    const before = this.snapshots.findLast(snapshot => snapshot.time_ms <= note.time_ms) ?? this.snapshots[0];
    const last = this.snapshots.at(-1);
    if (before === last)
      throw new Error('No snapshot was taken since this note.');
    this.choose(before, last);
  }

  /* Nothing is known of that name: it may have been mistyped. */
  get isUnknown() {
    return this.processes.length === 0 && !this.isRunning;
  }

  drawBar() {
    const { values } = this;
    const all = this.processes.map(process => [processKey(process),
      `pid ${process.pid}${process.started_ms ? `, ${process.attached ? 'attached' : 'since'} ${dateTime(process.started_ms)}` : ''} (${process.snapshots})`]);
    const chosen = values.pid ? this.processes.find(({ pid, started_ms: started }) =>
      String(pid) === values.pid && (!values.started || String(started) === values.started)) : null;
    const span = values.from || values.to ? 'range' : String(values.last === '' ? DEFAULT_SPAN : values.last);
    fill(this.bar, el('div.row',
      segments('the last', SPANS.map(([ms, text]) => [String(ms), text]), span, last => this.look({ last: last === String(DEFAULT_SPAN) ? '' : last, from: '', to: '' })),
      span === 'range' ? el('span.quiet', this.rangeText()) : null,
      this.processes.length > 1 || values.pid ? select('process', [['', `all ${this.processes.length}`], ...all], chosen ? processKey(chosen) : '',
        key => this.chooseProcess(this.processes.find(process => processKey(process) === key))) : null,
      el('span.quiet', `times in ${zone()}`), el('span.spring'), actionButton('Copy link', copyLink),
      this.snapshots.length === 0 ? null : saveMenu([
        ['Curves (SVG)', () => saveCurves(this.timeline.picture, this.timeline.legend,
          `${this.name}, ${dateTime(this.snapshots[0].time_ms)} to ${dateTime(this.snapshots.at(-1).time_ms)}`, `${this.name}.history.svg`)],
        ['Figures (JSON)', options => download(this.path('timeline', { ...this.range, ...this.process }), `${this.name}.history.json`, options)]])));
    if (this.snapshots.length === 0)
      this.bar.append(el('div.empty', el('h2', this.isUnknown ? `There is no target \u2018${this.name}\u2019, and nothing was kept of that name` : this.processes.length === 0 ? 'Nothing was kept yet' : 'Nothing was kept in this time'),
        el('p.quiet', this.isUnknown ? ['Names that are running or have a history: ', el('a', { href: '#/' }, 'all targets')] : this.processes.length === 0 ? 'The first snapshot follows soon.' : `The last snapshot is of ${dateTime(Math.max(...this.processes.map(process => process.last_ms)))}.`),
        this.processes.length > 0 ? el('p.row', button('Show all', () => this.look({ last: '0', from: '', to: '', pid: '', started: '' }))) : null));
  }

  rangeText() {
    const { from_ms: from, to_ms: to } = this.range;
    return `${from ? dateTime(Number(from)) : 'the first'} to ${to ? dateTime(Number(to)) : 'now'}`;
  }

  chooseProcess(process) {
    return this.look({ pid: process ? String(process.pid) : '', started: process?.started_ms ? String(process.started_ms) : '' });
  }

  /* The chosen snapshots may have been left out of the timeline, or have become too old. */
  async drawResult() {
    this.view?.close();
    this.view = null;
    this.timeline.setOnsets([]);
    const { values } = this;
    if (!values.at) {
      this.result.replaceChildren();
      return;
    }
    const title = el('h2');
    const tools = el('div.row');
    const place = el('div');
    fill(this.result, title, tools, place);
    const selection = this.selection();
    const [begin, end] = [Number(values.begin), Number(values.end)];
    title.textContent = values.base ? `${dateTime(begin)} to ${dateTime(end)}: ${duration(end - begin)}`
      : `${values.end ? dateTime(end) : `snapshot ${values.at}`}${selection ? `, pid ${selection[1].pid}` : ''}`;
    if (selection?.[1].reason && !values.base)
      title.append(el('span.quiet', ` captured because ${selection[1].reason}`));
    fill(tools,
      values.base ? segments('show', [['trend', 'What grew'], ['difference', 'Difference of the two ends']], values.show || 'trend', show => {
        this.change({ show, view: '' });
        this.drawResult();
      }) : null,
      values.base ? button('Zoom in', () => this.look({ from: values.begin, to: values.end, last: '' })) : null,
      button('Close', () => {
        this.change({ base: '', at: '', begin: '', end: '', show: '', view: '' });
        this.timeline.show(this.snapshots, this.timeline.processes, null);
        this.drawResult();
      }));
    this.view = values.base && values.show !== 'difference' ? this.trend() : new PictureView(this.picture());
    place.append(this.view.element);
  }

  trend() {
    const between = { from_ms: this.values.begin, to_ms: this.values.end };
    return new TrendView({
      name: this.name,
      values: this.values,
      range: () => ({ ...between, ...this.process }),
      link: () => this.link(),
      shown: trend => this.timeline.setOnsets(onsetsOf(trend)),
      difference: site => this.link({ show: 'difference', shape: 'flame', view: new URLSearchParams({ search: site.name }).toString() }),
      remedies: problem => problem.status !== 409 ? [] : this.processes.filter(process => process.first_ms <= between.to_ms && process.last_ms >= between.from_ms)
        .slice(0, 8).map(process => button(`Only pid ${process.pid}`, async () => {
          this.change({ base: '', at: '', begin: '', end: '', show: '' });
          await this.chooseProcess(process);
          const inside = this.snapshots.filter(snapshot => snapshot.time_ms >= between.from_ms && snapshot.time_ms <= between.to_ms);
          if (inside.length > 1)
            this.choose(inside[0], inside.at(-1));
          else
            this.drawResult();
        })),
    });
  }

  /* See picture.js. */
  picture() {
    const { values } = this;
    return {
      values,
      isDifference: () => values.base !== '',
      path: (format, options) => this.path('snapshot', { id: values.at, base: values.base, format, ...options }),
      fileName: extension => `${this.name}.${values.at}${values.base ? `-${values.base}` : ''}.${extension}`,
      link: () => this.link(),
      leading: () => null,
      sides: () => [[values.base, values.begin], [values.at, values.end]].map(([id, time]) => ({
        title: time ? dateTime(Number(time)) : `snapshot ${id}`,
        path: (format, options) => this.path('snapshot', { id, format, ...options }),
      })),
    };
  }
}

const noHistory = () => el('div.empty', el('h2', 'This gateway has no history'),
  el('p', 'Start it with a folder, and it keeps a profile of every target every 15 minutes for 30 days:'),
  el('pre', 'heapctl serve --history /var/lib/heapctl/history'),
  el('p.quiet', 'Then any two snapshots can be compared, and growth over any range measured.'));

export async function showHistory(page, name, values, hasHistory, isRunning) {
  if (!hasHistory) {
    page.append(noHistory());
    return () => {};
  }
  return startView(page, new HistoryView(page, name, values, isRunning));
}
