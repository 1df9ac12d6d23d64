/* SPDX-License-Identifier: Apache-2.0 */
/* The dialog that lists the keys of all views, and the keys that work in each. */
import { button, el } from '/assets/dom.js';
import { loadFlame } from '/assets/flame_script.js';

const EVERYWHERE = [
  ['?', 'this list'],
  ['1 2 3 4 5 6 7', 'the views of a server, from left to right'],
  ['0', 'the list of targets'],
  ['v', 'saved views'],
  ['Tab Enter', 'move to what can be pressed, and press it'],
  ['Escape', 'close a menu or this list'],
];
const TIMELINE = [
  ['\u2190 \u2192', 'the snapshot before and after'],
  ['PageUp PageDown', 'ten snapshots'],
  ['Home End', 'the first and the last snapshot'],
  ['Enter', 'choose the snapshot'],
  ['Shift', 'with the keys above: choose a range'],
];
const GRAPH = [
  ['\u2190 \u2191 \u2192 \u2193', 'move the picture'],
  ['+ - 0', 'zoom in and out; show everything'],
  ['n N', 'the next and the previous function by size'],
  ['Home', 'the largest function'],
  ['Escape', 'choose no function'],
];

const row = ([keys, what]) => el('tr', el('th', { scope: 'row' }, keys.split(/\s+/).map(key => el('kbd', key))), el('td', what));
const list = (title, keys) => el('section', el('h3', title), el('table', el('tbody', keys.map(row))));

let dialog = null;
let isOpening = false;

export async function showKeys() {
  if (dialog || isOpening)
    return;
  isOpening = true;
  const flameKeys = await loadFlame().then(({ keys }) => keys, () => []);
  isOpening = false;
  dialog = el('dialog.keys', { 'aria-labelledby': 'keys-title' }, el('h2', { id: 'keys-title' }, 'Keys'), el('div.key-lists', list('Everywhere', EVERYWHERE),
    list('Timeline', TIMELINE), list('Call graph', GRAPH), flameKeys.length > 0 ? list('Flame graph', flameKeys) : null),
  button('Close', () => dialog.close(), { autofocus: true }));
  dialog.addEventListener('click', event => event.target === dialog && dialog.close());
  dialog.addEventListener('close', () => {
    dialog.remove();
    dialog = null;
  });
  document.body.append(dialog);
  dialog.showModal();
}

const isText = element => element.closest?.('input:not([type=checkbox], [type=radio], [type=button]), select, textarea, dialog');

export function startKeys() {
  document.getElementById('keys').addEventListener('click', showKeys);
  document.addEventListener('keydown', event => {
    /* The flame graph and the call graph come first. */
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isText(event.target))
      return;
    const tab = document.querySelectorAll('.tabs a')[Number(event.key) - 1];
    if (event.key === '?')
      showKeys();
    else if (event.key === '0')
      location.hash = '#/';
    else if (event.key === 'v')
      document.querySelector('#views summary').click();
    else if (/^[1-9]$/.test(event.key) && tab)
      tab.click();
    else
      return;
    event.preventDefault();
    event.stopImmediatePropagation();
  });
}
