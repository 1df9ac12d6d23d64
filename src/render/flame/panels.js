/* SPDX-License-Identifier: Apache-2.0 */
/* The panels around the picture: the figures of one box, the biggest functions, the help. */
const TABLE_ROWS = 200;

const makeButton = (label, title, action, properties = {}) => button(label, action, { title, ...properties });

function placeOf(model, node) {
  const file = model.files[node], line = model.lines[node];
  return file === '' ? '' : line > 0 ? `${file}:${line}` : file;
}

/* Figures of a box as [label, value, share] rows. */
function figuresOf(model, measure, box) {
  const isChange = model.isDifference, whole = measure.sum;
  const of = isChange ? whole.size : whole.now;
  const rows = [];
  const add = (label, value, share = '') => rows.push([label, value, share]);
  const total = isChange ? box.change : box.now, flat = box.flat;
  add(isChange ? 'change' : 'total', formatValue(measure, total, isChange), percent(total, of));
  if (flat !== null)
    add('itself', formatValue(measure, flat, isChange), percent(flat, of));
  if (isChange) {
    add('now', formatValue(measure, box.now), percent(box.now, whole.now));
    add('base', formatValue(measure, box.base), percent(box.base, whole.base));
  }
  if (box.parent && box.parent.size > 0 && !isChange)
    add('of parent', percent(box.now, box.parent.now));
  if (box.variance + box.baseVariance > 0)
    add('95% interval', formatInterval(measure, box, isChange));
  if (box.samples > 0)
    add('samples', count(box.samples));
  return rows;
}

class Tooltip {
  constructor() {
    this.element = el('div.fg-tooltip', { hidden: true, 'aria-hidden': 'true' });
  }

  show(box, event, model, measure, name) {
    this.element.hidden = !box;
    if (!box)
      return;
    if (box !== this.box) {
      const figures = figuresOf(model, measure, box);
      this.element.replaceChildren(el('strong', name),
        el('table', ...figures.map(([label, value, share]) => el('tr',
          el('th', label), el('td', value), el('td', share)))));
      if (box.node >= 0 && placeOf(model, box.node))
        this.element.append(el('small', placeOf(model, box.node)));
    }
    this.box = box;
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const left = event.clientX + 16, top = event.clientY + 18;
    const x = left + width + 8 > innerWidth ? Math.max(8, innerWidth - width - 8) : left;
    const y = top + height + 8 > innerHeight ? event.clientY - height - 12 : top;
    this.element.style.transform = `translate(${Math.round(x)}px, ${Math.round(Math.max(8, y))}px)`;
  }
}

class Details {
  constructor(actions) {
    this.actions = actions;
    this.element = el('section.fg-details', { 'aria-label': 'Selected function' });
  }

  show(box, model, measure, colour) {
    if (!box || box.node < 0) {
      this.showAll(model, measure);
      return;
    }
    const { actions } = this, { node } = box, name = model.names[node];
    const swatch = el('i.fg-swatch');
    swatch.style.backgroundColor = colour;
    const place = [placeOf(model, node), model.modules[node] && `in ${model.modules[node]}`,
      model.inlined[node] ? 'inlined' : ''].filter(Boolean);
    if (node === model.rest) {
      this.element.replaceChildren(el('h2', swatch, el('span', name)),
        el('p.fg-place', 'Boxes that are too small to be drawn one by one.'), this.makeFigures(box, model, measure),
        el('p.fg-actions', makeButton('Zoom', 'Let this box fill the width (Enter)', () => actions.zoom(box))));
      return;
    }
    this.element.replaceChildren(
      el('h2', swatch, el('span', name)),
      el('p.fg-place', place.join(' \u00b7 ')),
      this.makeFigures(box, model, measure),
      el('p.fg-actions',
        makeButton('Zoom', 'Let this box fill the width (Enter)', () => actions.zoom(box)),
        makeButton('Callers', 'All callers of this function (c)', () => actions.focus(node, 'callers')),
        makeButton('Callees', 'All callees of this function (e)', () => actions.focus(node, 'callees')),
        makeButton('Both', 'All callers above it, all callees below (s)', () => actions.focus(node, 'both')),
        ...(actions.source ? [makeButton('Source', 'Its source with the figures of each line', () => actions.source(name))] : []),
        makeButton('Copy name', 'Copy the function\u2019s full name (y)', () => actions.copy(name)),
        makeButton('Copy stack', 'Copy the names on the way to this box (Y)', () => actions.copyStack(box))));
  }

  /* The box's figures, and the function's where it stands in other places too. */
  makeFigures(box, model, measure) {
    const { flat, cumulative } = measure.functions, { node } = box, isChange = model.isDifference;
    const value = sums => isChange ? sums.now[node] - sums.base[node] : sums.now[node];
    const of = isChange ? measure.sum.size : measure.sum.now, rows = figuresOf(model, measure, box);
    const add = (label, sum) =>
      rows.push([label, formatValue(measure, sum, isChange), percent(sum, of)]);
    if (cumulative.size[node] > box.size * 1.0001)
      add('everywhere', value(cumulative));
    if (cumulative.size[node] > box.size * 1.0001 && value(flat) !== 0)
      add('itself everywhere', value(flat));
    return el('table', ...rows.map(([label, text, share]) => el('tr',
      el('th', { scope: 'row' }, label), el('td', text), el('td', share))));
  }

  showAll(model, measure) {
    const { sum } = measure;
    const change = model.isDifference ? sum.now - sum.base : sum.now;
    const rows = [[measure.counter.label, formatValue(measure, change, model.isDifference)]];
    if (model.isDifference)
      rows.push(['now', formatValue(measure, sum.now)], ['base', formatValue(measure, sum.base)]);
    if (sum.variance + sum.baseVariance > 0)
      rows.push(['95% interval', formatInterval(measure, sum, model.isDifference)]);
    if (sum.samples > 0)
      rows.push(['samples', count(sum.samples)]);
    rows.push(['functions', count(model.functionCount)], ['stacks', count(model.stackCount)]);
    this.element.replaceChildren(
      el('h2', el('span', 'Everything')),
      el('p.fg-place', 'Choose a box to see its figures here.'),
      el('table', ...rows.map(([label, value]) =>
        el('tr', el('th', { scope: 'row' }, label), el('td', { colSpan: 2 }, value)))));
  }
}

/* The biggest functions, sorted by a click on a column's head. */
class FunctionTable {
  constructor(actions) {
    this.actions = actions;
    this.key = 'flat';
    this.body = el('tbody');
    this.heads = [
      ['name', 'Function', 'Sort by name'],
      ['flat', 'Flat', 'Sort by flat: what the function allocates itself'],
      ['cumulative', 'Cum', 'Sort by cumulative: with all it calls'],
    ].map(([key, label, title]) => el('th', { scope: 'col', 'data-key': key },
      makeButton(label, title, () => this.sortBy(key))));
    this.caption = el('p.fg-caption');
    this.element = el('section.fg-functions', { 'aria-label': 'Functions' },
      el('table', el('thead', el('tr', ...this.heads)), this.body), this.caption);
    this.body.addEventListener('keydown', event => this.handleKey(event));
  }

  sortBy(key) {
    this.key = key;
    this.show(this.shown);
  }

  show(shown) {
    this.shown = shown;
    const { model, measure, matches } = shown, { flat, cumulative } = measure.functions;
    const change = model.isDifference;
    const value = (sums, node) => change ? sums.now[node] - sums.base[node] : sums.now[node];
    const compare = {
      name: (a, b) => model.names[a] < model.names[b] ? -1 : 1,
      flat: (a, b) => Math.abs(value(flat, b)) - Math.abs(value(flat, a)),
      cumulative: (a, b) => Math.abs(value(cumulative, b)) - Math.abs(value(cumulative, a)),
    };
    const nodes = model.names.map((_, node) => node)
      .filter(node => cumulative.size[node] > 0 && model.isFunction(node) && (!matches || matches[node]))
      .sort((a, b) => compare[this.key](a, b) || compare.cumulative(a, b) || compare.name(a, b));
    for (const head of this.heads)
      head.setAttribute('aria-sort', head.dataset.key !== this.key ? 'none'
        : this.key === 'name' ? 'ascending' : 'descending');
    this.element.dataset.rows = nodes.length;
    this.body.replaceChildren(...nodes.slice(0, TABLE_ROWS).map((node, i) =>
      this.makeRow(node, i, value(flat, node), value(cumulative, node))));
    this.caption.textContent = nodes.length > TABLE_ROWS
      ? `The first ${TABLE_ROWS} of ${count(matches ? nodes.length : Math.max(nodes.length, model.functionCount))} functions; a search finds the others.`
      : nodes.length === 0 ? 'No function matches.' : '';
    this.mark(shown.selectedNode);
  }

  makeRow(node, i, flat, cumulative) {
    const { model, measure } = this.shown, name = model.names[node];
    const of = model.isDifference ? measure.sum.size : measure.sum.now;
    const cell = value => {
      const bar = el('i');
      bar.style.width = `${Math.min(100, 100 * Math.abs(value) / (of || 1))}%`;
      return el('td', {
        className: value === 0 ? 'fg-zero' : !model.isDifference ? '' : value < 0 ? 'fg-shrunk' : 'fg-grown',
        title: percent(value, of),
      }, bar, el('span', formatValue(measure, value, model.isDifference)));
    };
    const button = makeButton(shortenName(name), name, () => this.actions.select(node),
      { tabIndex: i === 0 ? 0 : -1 });
    button.addEventListener('dblclick', () => this.actions.focus(node, 'both'));
    return el('tr', { 'data-node': node }, el('th', { scope: 'row' }, button),
      cell(flat), cell(cumulative));
  }

  mark(node) {
    for (const row of this.body.rows)
      row.setAttribute('aria-selected', String(Number(row.dataset.node) === node));
  }

  /* One stop of the tab key for the whole table; arrows move inside. */
  handleKey(event) {
    const row = event.target.closest('tr');
    const next = event.key === 'ArrowDown' ? row.nextElementSibling
      : event.key === 'ArrowUp' ? row.previousElementSibling : null;
    if (!next)
      return;
    event.preventDefault();
    event.stopPropagation();
    row.querySelector('button').tabIndex = -1;
    const button = next.querySelector('button');
    button.tabIndex = 0;
    button.focus();
    button.click();
  }
}

const KEYS = [
  ['\u2190 \u2191 \u2192 \u2193', 'move between boxes'],
  ['Enter', 'zoom into the chosen box'],
  ['Escape', 'zoom out one step; clear the search'],
  ['Home', 'show everything'],
  ['/', 'search'],
  ['n  N', 'next and previous match'],
  ['c  e', 'callers and callees of the chosen function, from everywhere'],
  ['s', 'both at once: callers above, callees below'],
  ['i', 'turn around: callees or callers'],
  ['f', 'flame (up) or icicle (down)'],
  ['y  Y', 'copy the name of the chosen function; the whole stack'],
  ['t', 'light or dark'],
];

function makeHelp() {
  const dialog = el('dialog.fg-help', { 'aria-label': 'Keys' });
  dialog.append(
    el('h2', 'Keys'),
    el('table', ...KEYS.map(([key, what]) => el('tr',
      el('th', { scope: 'row' }, ...key.split(/\s+/).map(part => el('kbd', part))),
      el('td', what)))),
    el('h2', 'Reading the picture'),
    el('p', 'A box is a function, its width is what it and everything it calls allocate. Boxes ' +
      'touch where one calls the other. Striped boxes rest on so few samples that their error is ' +
      'as large as their value. The address of this page keeps what you see: copy it to share it.'),
    makeButton('Close', 'Close (Escape)', () => dialog.close()));
  dialog.addEventListener('click', event => event.target === dialog && dialog.close());
  return dialog;
}
