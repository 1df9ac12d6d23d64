/* SPDX-License-Identifier: Apache-2.0 */
/* Where memory is held without being used: by size class and by arena. */
import { download, getJson } from '/assets/api.js';
import { actionButton } from '/assets/controls.js';
import { el } from '/assets/dom.js';
import { bytes, count, percent } from '/assets/format.js';

const ROWS = 24;

/* A bar of parts: [class of its colour, bytes, what it is]. The widths are shares of `whole`. */
function bar(parts, whole) {
  const box = el('span.bar', { role: 'img', 'aria-label': parts.map(([, value, what]) => `${bytes(value)} ${what}`).join(', ') });
  for (const [kind, value, what] of parts) {
    const piece = el(`i.${kind}`, { title: `${bytes(value)} ${what}` });
    piece.style.width = `${100 * value / whole}%`;
    box.append(piece);
  }
  return box;
}

function summary(memory, rss) {
  const parts = [
    ['Allocated by the program', memory.allocated, 'used'],
    ['Lost inside pages', Math.max(0, memory.active - memory.allocated), 'fragmented'],
    ['Freed and kept for reuse', Math.max(0, memory.resident - memory.active - memory.metadata), 'kept'],
    ['The allocator\u2019s own', memory.metadata, 'own'],
    ['Not the allocator\u2019s', Math.max(0, rss - memory.resident), 'other'],
  ];
  const whole = parts.reduce((sum, [, value]) => sum + value, 0);
  return el('div.panel', el('h2', 'What the resident memory is'),
    bar(parts.map(([what, value, kind]) => [kind, value, what]), whole || 1),
    el('dl.parts', parts.map(([what, value, kind]) =>
      el('div', el('dt', el(`i.key.${kind}`), what), el('dd', `${bytes(value)} \u00b7 ${percent(value, whole)}`)))),
    /* jemalloc counts pages as resident that were never written to. */
    rss > 0 && rss < 0.95 * memory.resident
      ? el('p.hint', `The kernel has ${bytes(rss)} of it in memory: the rest was allocated but never touched, or is swapped out.`) : null);
}

function classesPanel(classes, profiling) {
  const used = classes.filter(item => item.held > 0);
  const freeBytes = used.reduce((sum, item) => sum + item.held - item.allocated, 0);
  const held = used.reduce((sum, item) => sum + item.held, 0);
  const worst = used.toSorted((a, b) => b.held - a.held).slice(0, ROWS);
  const largest = worst[0]?.held ?? 1;
  return el('div.panel', el('h2', 'Size classes'),
    el('p.quiet', `${bytes(freeBytes)} of ${bytes(held)} (${percent(freeBytes, held)}) is free space in slabs that are partly full. `,
      'A class whose bar has a long light end once had many more objects.',
      profiling.active ? ' While sampling is on, jemalloc gives each sampled object below 16 KiB a place of 16 KiB.' : ''),
    el('div.scroll', el('table.figures', el('thead', el('tr', [['Size', 'number'], ['Objects', 'number less'], ['Used', 'number'], ['Free', 'number'], ['Used and free', '']].map(([text, className]) =>
      el('th', { scope: 'col', className }, text)))),
    el('tbody', worst.map(item => el('tr', el('td.number', bytes(item.size)), el('td.number.less', count(item.objects)),
      el('td.number', bytes(item.allocated)), el('td.number', item.large ? '' : bytes(item.held - item.allocated)),
      el('td.wide', bar([['used', item.allocated, 'used'], ['fragmented', item.held - item.allocated, 'free']], largest))))))),
    used.length > ROWS ? el('p.quiet', `and ${used.length - ROWS} smaller ones`) : null);
}

function arenasPanel(arenas) {
  const sorted = arenas.toSorted((a, b) => b.resident - a.resident).slice(0, ROWS);
  const largest = Math.max(1, ...sorted.map(arena => arena.active + arena.dirty + arena.muzzy));
  return el('div.panel', el('h2', 'Arenas'),
    el('p.quiet', 'Each thread allocates from one arena. Freed pages stay with their arena until they decay.'),
    el('div.scroll', el('table.figures', el('thead', el('tr', [['Arena', 'number'], ['Threads', 'number less'], ['Used', 'number'], ['Free in pages', 'number'], ['Freed pages', 'number less'], ['Shares', '']]
      .map(([text, className]) => el('th', { scope: 'col', className }, text)))),
    el('tbody', sorted.map(arena => el('tr', el('td.number', arena.index), el('td.number.less', arena.threads),
      el('td.number', bytes(arena.allocated)), el('td.number', bytes(arena.active - arena.allocated)),
      el('td.number.less', bytes(arena.dirty + arena.muzzy)),
      el('td.wide', bar([['used', arena.allocated, 'used'], ['fragmented', Math.max(0, arena.active - arena.allocated), 'free in pages'],
        ['kept', arena.dirty + arena.muzzy, 'freed pages']], largest))))))),
    arenas.length > ROWS ? el('p.quiet', `and ${arenas.length - ROWS} smaller ones`) : null);
}

function otherAllocator({ allocator, pid }) {
  return el('div.empty', el('h2', `The malloc of ${allocator.name} reports no size classes or arenas`),
    el('p', 'The account divides the resident memory of the process among what uses it:'), el('pre', `heapctl account ${pid}`));
}

export async function showMemory(page, target, first) {
  if (first.allocator.name !== 'jemalloc') {
    page.append(otherAllocator(first));
    return () => {};
  }
  const load = async () => {
    const [status, details, history] = await Promise.all([target.status(), getJson(target.path('/api/v1/classes')),
      getJson(target.path('/api/v1/history'))]);
    const rss = history.samples.at(-1)?.[1 + history.figures.indexOf('rss')] ?? 0;
    page.replaceChildren(summary(status.memory, rss), classesPanel(details.classes, status.profiling), arenasPanel(details.arenas),
      el('p.row', actionButton('Read again', load),
        actionButton('Save figures (JSON)', () => download(target.path('/api/v1/classes'), `${status.name}.${status.pid}.classes.json`))));
  };
  await load();
  return () => {};
}
