/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page: what is shown follows from the address behind '#'.
 *
 *	#/			all targets
 *	#//file			profile files that were dropped onto the page
 *	#//fleet		what the hosts of a fleet sent to a database
 *	#/4711			a target; /runs, /profile, /memory, /watch and /mallctl are its other views
 *	#/redis-server/history	what was kept of all targets of that name, ended ones as well
 *
 * A view is a function that fills an element and may return a function that ends it.
 */
import { hasToken, setToken } from '/assets/api.js';
import { problemBox } from '/assets/controls.js';
import { button, el } from '/assets/dom.js';
import { showFiles, startDrop } from '/assets/files.js';
import { offerFleet, showFleet } from '/assets/fleet.js';
import { startKeys } from '/assets/keys.js';
import { showTarget } from '/assets/target.js';
import { showTargets } from '/assets/targets.js';
import { startViews } from '/assets/views.js';

const content = document.getElementById('content');
const crumbs = document.getElementById('crumbs');

let endView = () => {};
let turns = 0;

/* A link that was cut may end within a character. */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function parseAddress(hash) {
  const [path, search = ''] = hash.replace(/^#\/?/, '').split('?');
  const [target = '', view = ''] = path.split('/').map(decode);
  return { target, view, values: new URLSearchParams(search) };
}

function askForToken(again) {
  const input = el('input', { type: 'password', autocomplete: 'off', id: 'token', size: 40 });
  const form = el('form.token', {
    onsubmit: event => {
      event.preventDefault();
      setToken(input.value.trim());
      again();
    },
  }, el('h1', 'This gateway asks for a token'),
  hasToken() ? el('p.warning', { role: 'alert' }, 'The token that was entered is not the one of this gateway.') : null,
  el('p', 'It is the first line of the file that heapctl serve was given with --token-file.'),
  el('label', { htmlFor: 'token' }, 'Token'), input,
  el('button.primary', { type: 'submit' }, 'Continue'));
  content.replaceChildren(form);
  input.focus();
}

function showProblem(problem) {
  if (problem.status === 401)
    askForToken(show);
  else
    content.replaceChildren(problemBox(problem, button('Try again', show), el('a', { href: '#/' }, 'All targets')));
}

const OWN_VIEWS = { '': showTargets, file: showFiles, fleet: showFleet };

/* A view that is of no target. */
function showOwn(page, { view, values }) {
  if (!Object.hasOwn(OWN_VIEWS, view))
    throw new Error(`There is no view \u2018${view}\u2019`);
  return OWN_VIEWS[view](page, values);
}

async function show() {
  const address = parseAddress(location.hash);
  endView();
  endView = () => {};
  crumbs.replaceChildren(...(address.target === '' ? [] : [el('span', { 'aria-hidden': 'true' }, '/'),
    el('a', { href: `#/${encodeURIComponent(address.target)}` }, address.target)]));
  document.title = address.target === '' ? 'heapctl' : `${address.target} \u2013 heapctl`;
  const page = el('div.page');
  const turn = ++turns;
  content.replaceChildren(page);
  try {
    const end = await (address.target !== '' ? showTarget(page, address) : showOwn(page, address)) ?? (() => {});
    offerFleet().catch(() => {});
    /* The user has navigated meanwhile. */
    if (turn !== turns)
      end();
    else
      endView = end;
  } catch (problem) {
    if (turn === turns)
      showProblem(problem);
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById('theme').textContent = theme === 'dark' ? 'Light' : 'Dark';
}

function startTheme() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const wanted = () => localStorage.getItem('heapctl-theme') ?? (dark.matches ? 'dark' : 'light');
  setTheme(wanted());
  const follow = () => {
    setTheme(wanted());
    dispatchEvent(new Event('themechange'));
  };
  dark.addEventListener('change', follow);
  document.getElementById('theme').addEventListener('click', () => {
    localStorage.setItem('heapctl-theme', document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
    follow();
  });
}

/* "#token=TOKEN" in a link; it does not stay in the address. */
function takeToken() {
  const [, token] = location.hash.match(/^#token=(.+)$/) ?? [];
  if (!token)
    return;
  setToken(decode(token));
  history.replaceState(null, '', `${location.pathname}${location.search}`);
}

takeToken();
startTheme();
startDrop();
startViews();
startKeys();
addEventListener('hashchange', show);
show();
