/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile as a table of its functions (heapctl report --rows, docs/report-json.md). The gateway
 * sorts and searches, and gives the rows that are visible: `load` promises them for { sort, rows,
 * first, limit }. A profile that is taken now differs from request to request: rows of an earlier
 * one are dropped.
 */
import { fill, notify } from '/assets/controls.js';
import { button, el } from '/assets/dom.js';
import { bytes, change, count, percent } from '/assets/format.js';

const ROWS = 100;
const SEARCH_MS = 250;

/* Half of a 95% interval is shown when it is known. */
function estimate({ value, interval95, samples }, format, isDifference) {
  if (value === 0)
    return el('span.quiet', '0');
  const half = (interval95[1] - interval95[0]) / 2;
  return el('span', el('b', isDifference ? change(value, format) : format(value)),
    half > 0 ? el('span.quiet', { title: `95% interval; ${count(samples)} samples` }, ` \u00b1 ${format(half)}`) : null);
}

function placeOf({ file, line, module }) {
  return file ? `${file.split('/').at(-1)}${line ? `:${line}` : ''}` : module;
}

function shareBar(value, whole, isDifference) {
  const bar = el(`i.${isDifference && value < 0 ? 'shrunk' : 'used'}`);
  bar.style.width = `${whole > 0 ? Math.min(100, 100 * Math.abs(value) / whole) : 0}%`;
  return el('span.bar.small', bar);
}

export class RowTable {
  /* `chosen` has sort and rows, the pattern; changed() gets new ones; pick() gets a row that was
     clicked, hovered() the name of one that is pointed at, or null. */
  constructor(load, chosen, isDifference, { title, changed, pick, hovered }) {
    Object.assign(this, { load, isDifference, changed, pick, hovered });
    this.chosen = { sort: chosen.sort || (isDifference ? 'change' : 'flat'), rows: chosen.rows || '' };
    this.pages = new Map();
    this.total = el('p.total');
    this.body = el('tbody');
    this.heads = [['name', 'Function'], [isDifference ? 'change' : 'flat', 'Flat'], ['cum', 'Cumulative']].map(([sort, text]) =>
      el(sort === 'name' ? 'th' : 'th.number', { scope: 'col', 'data-sort': sort },
        button(text, () => this.choose({ sort }), { className: 'plain', title: `Sort by ${text.toLowerCase()}` })));
    this.heads.splice(2, 0, el('th.share', { scope: 'col' }, isDifference ? 'of all changes' : 'Share'));
    this.search = el('input', { type: 'search', placeholder: 'Search: a name or file', 'aria-label': 'Search rows', value: this.chosen.rows, spellcheck: false });
    this.search.addEventListener('input', () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.choose({ rows: this.search.value.trim() }), SEARCH_MS);
    });
    this.table = el('table.rows', el('thead', el('tr', this.heads)), this.body);
    this.scroller = el('div.row-scroller', { tabIndex: 0, role: 'region', 'aria-label': title ? `Functions, ${title}` : 'Functions' }, this.table);
    this.scroller.addEventListener('scroll', () => this.draw());
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.scroller);
    this.element = el('div.table-box', el('div.row', this.total, el('span.spring'), this.search), this.scroller);
    this.mark();
  }

  close() {
    clearTimeout(this.timer);
    this.isClosed = true;
    this.resized.disconnect();
  }

  async start() {
    await this.loadPage(0);
  }

  mark() {
    for (const head of this.heads.filter(({ dataset }) => dataset.sort))
      head.setAttribute('aria-sort', head.dataset.sort !== this.chosen.sort ? 'none' : head.dataset.sort === 'name' ? 'ascending' : 'descending');
  }

  choose(changes) {
    this.follow(changes);
    this.changed(this.chosen);
  }

  /* As another table was changed. */
  follow(changes) {
    Object.assign(this.chosen, changes);
    if (this.search.value.trim() !== this.chosen.rows)
      this.search.value = this.chosen.rows;
    this.mark();
    this.turn = (this.turn ?? 0) + 1;
    this.pages.clear();
    this.scroller.scrollTop = 0;
    this.loadPage(0).catch(notify);
  }

  async loadPage(page) {
    if (this.pages.has(page))
      return;
    this.pages.set(page, []);
    const turn = this.turn, { sort, rows } = this.chosen;
    let report;
    try {
      /* As in the flame graph: without regard to case unless there is a capital letter. */
      report = await this.load({ sort, rows: rows && rows === rows.toLowerCase() ? `(?i)${rows}` : rows, first: page * ROWS, limit: ROWS });
    } catch (problem) {
      if (turn === this.turn)
        this.pages.delete(page);
      throw problem;
    }
    if (turn !== this.turn || this.isClosed)
      return;
    if (this.report && (this.report.total.value !== report.total.value || this.report.count !== report.count))
      this.pages.clear();
    this.report = report;
    this.pages.set(page, report.rows);
    this.showTotal();
    this.draw();
  }

  showTotal() {
    const { report, isDifference } = this;
    this.format = report.unit === 'B' ? bytes : count;
    fill(this.total, isDifference ? 'Change: ' : 'Total: ', estimate(report.total, this.format, isDifference),
      el('span.quiet', ` \u00b7 ${count(report.count)} ${report.count === 1 ? 'row' : 'rows'} \u00b7 ${report.source}`));
  }

  nothing() {
    const { counter, total } = this.report;
    return counter.startsWith('alloc_') && total.value === 0
      ? 'Nothing, or not counted: jemalloc counts what was ever allocated where the program was started with prof_accum:true.'
      : 'Nothing was sampled, or nothing matches.';
  }

  /* The rows in sight, and room for the others above and below. */
  draw() {
    const { report, scroller } = this;
    if (!report || this.isClosed)
      return;
    if (report.count === 0) {
      this.body.replaceChildren(el('tr', el('td.name', { colSpan: 4 }, this.nothing())));
      return;
    }
    const height = parseFloat(getComputedStyle(this.table).getPropertyValue('--row')) || 34;
    const first = Math.max(0, Math.min(report.count - 1, Math.floor(scroller.scrollTop / height) - 5));
    const end = Math.min(report.count, first + Math.ceil(scroller.clientHeight / height) + 10);
    const room = () => el('tr.room', { 'aria-hidden': 'true' }, el('td'));
    const above = room(), below = room();
    above.style.height = `${first * height}px`;
    below.style.height = `${(report.count - end) * height}px`;
    const rows = Array.from({ length: end - first }, (_, i) => this.makeRow(first + i));
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.at : null;
    this.body.replaceChildren(above, ...rows, below);
    if (focused)
      this.body.querySelector(`[data-at="${focused}"]`)?.focus({ preventScroll: true });
    for (let page = Math.floor(first / ROWS); page <= Math.floor((end - 1) / ROWS); page++)
      this.loadPage(page).catch(notify);
  }

  /* Marks the row of that name where it is in sight; null: none. */
  point(name) {
    this.pointed = name;
    for (const row of this.body.rows)
      row.classList.toggle('pointed', row.dataset.name === name);
  }

  makeRow(at) {
    const node = this.pages.get(Math.floor(at / ROWS))?.[at % ROWS], { format, isDifference, report: { whole } } = this;
    if (!node)
      return el('tr', { 'aria-rowindex': at + 2 }, el('td', '\u2026'));
    const shown = this.chosen.sort === 'cum' ? node.cumulative : node.flat;
    return el(node.name === this.pointed ? 'tr.pointed' : 'tr', {
      'aria-rowindex': at + 2, 'data-name': node.name, onpointerenter: () => this.hovered(node.name), onpointerleave: () => this.hovered(null),
    },
      el('td.name', button(node.name, () => this.pick(node), { className: 'plain', title: `${node.name}: in the flame graph`, 'data-at': String(at) }),
        el('span.quiet.place', placeOf(node))),
      el('td.number', estimate(node.flat, format, isDifference)),
      el('td.share', shown.value === 0 ? '' : [el('span', percent(Math.abs(shown.value), whole)), shareBar(shown.value, whole, isDifference)]),
      el('td.number', estimate(node.cumulative, format, isDifference)));
  }
}
