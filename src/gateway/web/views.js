/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved views: addresses of this page with names. They are kept by this browser alone, for this gateway;
 * a link is what others get.
 */
import { fill, notify } from '/assets/controls.js';
import { button, el, menu } from '/assets/dom.js';

const KEY = 'heapctl-views';
const VIEWS_MAX = 100;
const NAME_MAX = 80;

/* [{ name, hash }]; what another program wrote there is left alone. */
function read() {
  try {
    const views = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(views) ? views.filter(({ name, hash }) => typeof name === 'string' && /^#\//.test(hash)) : [];
  } catch {
    return [];
  }
}

function write(views) {
  try {
    localStorage.setItem(KEY, JSON.stringify(views));
    return true;
  } catch {
    notify(new Error('This browser keeps no more views: its storage is full, or switched off.'));
    return false;
  }
}

/* What the page is called now: a name that can be changed before it is saved. */
function suggestName() {
  const tab = document.querySelector('.tabs [aria-current]')?.textContent;
  const shape = document.querySelector('[aria-label="as"] [aria-pressed="true"]')?.textContent;
  return [document.querySelector('h1')?.textContent ?? 'Targets', tab, shape].filter(Boolean).join(', ').slice(0, NAME_MAX);
}

export function startViews() {
  const list = el('ul');
  const name = el('input', { maxLength: NAME_MAX, 'aria-label': 'Name of this view', spellcheck: false });
  const form = el('form.row', {
    onsubmit: event => {
      event.preventDefault();
      const views = read().filter(view => view.name !== name.value.trim());
      if (name.value.trim() === '')
        return;
      if (views.length >= VIEWS_MAX)
        notify(new Error(`This browser keeps ${VIEWS_MAX} views at most: remove one first.`));
      else if (write([...views, { name: name.value.trim(), hash: location.hash || '#/' }]))
        draw();
    },
  }, name, el('button', { type: 'submit' }, 'Save this view'));
  const draw = () => {
    const views = read().toSorted((a, b) => a.name.localeCompare(b.name));
    fill(list, views.map(view => el('li', el('a', { href: view.hash, onclick: () => { element.open = false; } }, view.name),
      button('Remove', () => {
        write(read().filter(other => other.name !== view.name));
        draw();
        name.focus();
      }, { className: 'plain', 'aria-label': `Remove ${view.name}` }))));
  };
  const element = menu('views', el('summary', 'Views'), el('div.menu', list, form,
    el('p.quiet', 'Saved in this browser, for this gateway. Copy link is for others.')));
  element.id = 'views';
  element.addEventListener('toggle', () => {
    if (!element.open)
      return;
    name.value = suggestName();
    draw();
    (list.querySelector('a') ?? name).focus();
  });
  document.getElementById('keys').before(element);
}
