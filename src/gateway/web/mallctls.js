/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator's settings and figures by name, as a tree to browse; those that can be written can be written. */
import { getJson, post } from '/assets/api.js';
import { actionButton, notify, sentence } from '/assets/controls.js';
import { el } from '/assets/dom.js';
import { bytes, count } from '/assets/format.js';

const ARENAS_SHOWN = 16;

/* They are actions, or their number is not a value. */
const UNREADABLE = new Set(['prof.dump', 'prof.reset', 'prof.log_start', 'prof.log_stop', 'prof.prefix', 'thread.tcache.flush',
  'thread.idle', 'arenas.create', 'arenas.lookup', 'tcache.create', 'tcache.flush', 'tcache.destroy']);

const path = (target, name) => target.path(`/v1/mallctl/${encodeURIComponent(name)}`);

function makeTree(names) {
  const root = new Map();
  for (const name of names) {
    let node = root;
    for (const part of name.split('.')) {
      if (!node.has(part))
        node.set(part, new Map());
      node = node.get(part);
    }
  }
  return root;
}

class Leaf {
  constructor(target, name, text) {
    this.target = target;
    this.name = name;
    this.value = el('span.value');
    this.element = el('li.leaf', el('button.plain', { type: 'button', onclick: () => this.read() }, text), this.value);
  }

  async read() {
    try {
      const { value, type } = await getJson(path(this.target, this.name));
      this.value.replaceChildren(el('code', String(value)), el('span.quiet', ` ${type} `), this.changer(value, type));
    } catch (problem) {
      this.value.replaceChildren(el('span.hint', sentence(problem.message)));
    }
  }

  /* Most can be read only, which jemalloc says when it is tried. */
  changer(value, type) {
    const input = el('input', { value: String(value), size: 16, 'aria-label': `new value of ${this.name}` });
    const change = actionButton('Write', async () => {
      await post(`${path(this.target, this.name)}?value=${encodeURIComponent(input.value)}&type=${type}`);
      notify(`${this.name} was written.`);
      await this.read();
    });
    return el('details', el('summary', 'change'), input, change);
  }
}

function branch(target, text, prefix, children) {
  const list = el('ul');
  const details = el('details.branch', el('summary', text), list);
  details.addEventListener('toggle', () => {
    if (list.childElementCount === 0)
      list.append(...items(target, prefix, children));
  }, { once: true });
  return el('li', details);
}

function items(target, prefix, node) {
  return [...node].map(([part, children]) => {
    const name = prefix ? `${prefix}.${part}` : part;
    return children.size === 0 ? new Leaf(target, name, part).element : branch(target, part, name, children);
  });
}

/* What is inside appears when it is opened, so this goes level by level. */
function openAll(element) {
  for (const details of element.querySelectorAll('details.branch:not([open])')) {
    details.open = true;
    details.dispatchEvent(new Event('toggle'));
    openAll(details);
  }
}

/* Names of the plain values below an object of malloc_stats_print. */
function namesIn(object, prefix) {
  return Object.entries(object).flatMap(([key, value]) => {
    const name = `${prefix}.${key}`;
    if (Array.isArray(value))
      return [];
    return typeof value === 'object' && value !== null ? namesIn(value, name) : [name];
  });
}

/* The statistics are made of mallctls, so they say which ones there are. */
async function allNames(target, status, jemalloc) {
  const arenas = await getJson(target.path('/v1/stats?options=Jmblxe'));
  const perArena = Object.entries(arenas.jemalloc['stats.arenas'] ?? {}).filter(([key]) => /^\d+$/.test(key)).slice(0, ARENAS_SHOWN);
  return [...new Set([...namesIn(jemalloc.config, 'config'), ...namesIn(jemalloc.opt, 'opt'), ...namesIn(jemalloc.arenas, 'arenas'),
    ...namesIn(jemalloc.stats, 'stats'), ...perArena.flatMap(([key, arena]) => namesIn(arena, `stats.arenas.${key}`)), ...status.mallctls])]
    .filter(name => !UNREADABLE.has(name)).sort();
}

/* Of another malloc: what it reports, and the variables that were set when it started. */
function mallocPanel(malloc) {
  const figures = Object.entries(malloc.figures ?? {});
  const rows = entries => el('div.scroll', el('table.figures', el('tbody', entries.map(([key, value]) =>
    el('tr', el('td', key), el('td.number', value))))));
  return el('div.panel', el('h2', `The malloc of ${malloc.name} ${malloc.version}`),
    figures.length > 0
      ? rows(figures.map(([key, value]) => [key.replaceAll('_', ' ').replace(/ bytes\b/, ''), /_bytes/.test(key) ? bytes(value) : count(value)]))
      : el('p.quiet', `No figures: ${malloc.reason}. `, el('code', 'heapctl account --walk'), ' asks for them.'),
    Object.keys(malloc.options).length > 0 ? rows(Object.entries(malloc.options)) : el('p.quiet', 'No option was set when it started.'));
}

export async function showMallctls(page, target, status) {
  const { jemalloc, malloc } = await getJson(target.path('/v1/stats?options=Jablxe'));
  if (malloc !== undefined) {
    page.append(mallocPanel(malloc));
    return () => {};
  }
  const names = await allNames(target, status, jemalloc);
  const tree = el('ul.tree');
  const draw = pattern => {
    const found = names.filter(name => name.includes(pattern));
    tree.replaceChildren(...items(target, '', makeTree(found)));
    if (pattern !== '' && found.length <= 40)
      openAll(tree);
  };
  const search = el('input', { type: 'search', placeholder: 'part of a name', oninput: () => draw(search.value.trim()), 'aria-label': 'part of a name' });
  const other = el('input', { placeholder: 'stats.arenas.0.small.nmalloc', size: 32, 'aria-label': 'full name' });
  const answer = el('ul.tree');
  page.append(el('div.panel', el('h2', 'Settings and figures of the allocator'),
    el('p.quiet', 'The names of jemalloc\u2019s mallctl. A click reads the value; ', el('code', 'opt'), ' is how it was started, ',
      el('code', 'stats'), ' what it counts.'),
    el('p.row', search), tree,
    el('form.row', {
      onsubmit: event => {
        event.preventDefault();
        const leaf = new Leaf(target, other.value.trim(), other.value.trim());
        answer.replaceChildren(leaf.element);
        leaf.read();
      },
    }, el('label', 'Any other name ', other), el('button', { type: 'submit' }, 'Read')), answer));
  draw('');
  return () => {};
}
