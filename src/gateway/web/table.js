/* SPDX-License-Identifier: Apache-2.0 */
/* A profile as a table of its functions: heapctl report --json, docs/report-json.md. */
import { button, el } from '/assets/dom.js';
import { bytes, change, count, percent } from '/assets/format.js';

const ROWS = 50;

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

export function makeTable(report) {
  const isDifference = report.difference;
  const format = report.unit === 'B' ? bytes : count;
  const size = node => Math.abs(node.flat.value);
  const nodes = report.nodes.toSorted((a, b) => size(b) - size(a) || Math.abs(b.cumulative.value) - Math.abs(a.cumulative.value));
  /* Shares of a difference are of all changes. */
  const whole = isDifference ? nodes.reduce((sum, node) => sum + size(node), 0) : report.total.value;
  if (nodes.length === 0)
    return el('p.empty', 'Nothing was sampled, or no stack matches the patterns.');
  const row = node => el('tr',
    el('td.name', { 'data-label': 'Function' }, el('span', el('code', node.name), el('span.quiet.place', ` ${placeOf(node)}`))),
    el('td.number', { 'data-label': 'Flat' }, estimate(node.flat, format, isDifference)),
    el('td.number', { 'data-label': 'Share' }, size(node) > 0 ? percent(size(node), whole) : ''),
    el('td.bar-cell', size(node) > 0 ? shareBar(node.flat.value, whole, isDifference) : null),
    el('td.number', { 'data-label': 'Cumulative' }, estimate(node.cumulative, format, isDifference)));
  const body = el('tbody', nodes.slice(0, ROWS).map(row));
  const rest = nodes.slice(ROWS);
  const more = rest.length === 0 ? null : button(`Show ${count(rest.length)} smaller ones`, () => {
    body.append(...rest.map(row));
    more.remove();
  });
  return el('div.table-box',
    el('p.total', isDifference ? 'Change: ' : 'Total: ', estimate(report.total, format, isDifference), el('span.quiet', ` \u00b7 ${report.source}`)),
    el('table.cards', el('thead', el('tr', el('th', { scope: 'col' }, 'Function'), el('th.number', { scope: 'col' }, 'Flat'),
      el('th.number', { scope: 'col' }, isDifference ? 'of all changes' : 'Share'), el('th'), el('th.number', { scope: 'col' }, 'Cumulative'))),
    body), el('p.row', more));
}
