/* SPDX-License-Identifier: Apache-2.0 */
/* Controls and notices of the page. */
import { button, el } from '/assets/dom.js';

/* Replaces the children of the element; null and false are left out. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
}

/* A step that Back undoes; none where the address stays. */
export function pushAddress(hash) {
  if (hash !== location.hash)
    history.pushState(null, '', hash);
}

/* A button that is disabled while its action runs, and reports a failure. */
export function actionButton(text, action, options = {}) {
  const element = button(text, async () => {
    element.disabled = true;
    try {
      await action();
    } catch (problem) {
      notify(problem);
    } finally {
      element.disabled = Boolean(options.disabled);
    }
  }, options);
  return element;
}

/* A line at the bottom that disappears after a while; problems stay until they are closed. */
export function notify(message) {
  const isProblem = message instanceof Error;
  const box = el(isProblem ? 'div.notice.problem' : 'div.notice',
    el('p', isProblem ? sentence(message.message) : message),
    isProblem && message.hint ? el('p.hint', sentence(message.hint)) : null,
    button('Close', () => box.remove(), { className: 'plain' }));
  const notices = document.getElementById('notices');
  while (notices.children.length > 2)
    notices.firstElementChild.remove();
  notices.append(box);
  if (!isProblem)
    setTimeout(() => box.remove(), 5000);
}

/* Shown in place of something that failed to load. */
export function problemBox(problem, ...actions) {
  return el('div.problem-box', { role: 'alert' },
    el('h2', sentence(problem.message)),
    problem.hint ? hint(problem.hint, 'p') : null, actions.length > 0 ? el('p.row', actions) : null);
}

/* Starts a view, which has start() and close(), and returns a function that closes it. A view that fails to start is replaced by its problem. */
export async function startView(place, view) {
  try {
    await view.start();
  } catch (problem) {
    view.close();
    place.replaceChildren(problemBox(problem));
    return () => {};
  }
  return () => view.close();
}

export function select(label, options, value, change) {
  return el('label', label, ' ', el('select', { onchange: event => change(event.target.value) },
    options.map(([key, text]) => el('option', { value: key, selected: key === value }, text))));
}

/* One of several, as buttons side by side. */
export function segments(label, options, value, change) {
  return el('div.segments', { role: 'group', 'aria-label': label }, options.map(([key, text]) =>
    button(text, () => change(key), { 'aria-pressed': String(key === value) })));
}

/* Rarely used inputs; open when one of them is set. */
export function filters(isUsed, ...inputs) {
  return el('details.filters', { open: isUsed }, el('summary', 'Filter'), el('div.row', inputs));
}

export function patternInput(label, value, title, change) {
  return el('label', `${label} `, el('input', {
    value: value ?? '', placeholder: 'pattern', size: 16, spellcheck: false, title, onchange: event => change(event.target.value.trim()),
  }));
}

async function copyText(name, text) {
  try {
    await navigator.clipboard.writeText(text);
    notify(`The ${name} is on the clipboard.`);
  } catch {
    prompt(`The ${name}:`, text);
  }
}

export const copyLink = () => copyText('link', location.href);

/* A complete command in it has a button that copies it: the page runs no command. */
export function hint(text, kind = 'p.hint') {
  const command = /heapctl attach \d+/.exec(text)?.[0];
  return el(kind, sentence(text), command ? [' ', button('Copy command', () => copyText('command', command), { className: 'plain' })] : null);
}

/* What failed is tried again after this time: what is shown is said to be old within seconds. */
const RETRY_MS = 1000;

const ofFigures = ({ status }) => status === 404 ? 'The figures below are its last ones.'
  : `The figures below are old. They are updated as soon as the ${status === 0 ? 'gateway' : 'target'} answers again.`;

/* Like repeat(); after three failures `place` shows the problem, with what remark() says of what is below, until a step succeeds. */
export function keepTrying(place, step, period_ms, remark = ofFigures) {
  let failures = 0, shown = '';
  return repeat(async () => {
    try {
      await step();
      if (shown !== '')
        place.replaceChildren();
      failures = 0;
      shown = '';
    } catch (problem) {
      if (++failures >= 3 && problem.message !== shown)
        place.replaceChildren(problemBox(problem, el('p.quiet', remark(problem)), el('a', { href: '#/' }, 'All targets')));
      shown = failures >= 3 ? problem.message : '';
    }
    return failures > 0 ? RETRY_MS : period_ms;
  }, period_ms);
}

/* Calls `step` now and every `period_ms`, or after the time that it returns, while the page is visible. Returns a function that stops it. */
export function repeat(step, period_ms) {
  let timer = 0;
  let stopped = false;
  const run = async () => {
    clearTimeout(timer);
    const wait_ms = document.hidden ? period_ms : await step() ?? period_ms;
    if (!stopped)
      timer = setTimeout(run, wait_ms);
  };
  const wake = () => !document.hidden && !stopped && run();
  document.addEventListener('visibilitychange', wake);
  run();
  return () => {
    stopped = true;
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', wake);
  };
}

/* The gateway's messages begin in lower case; names and commands keep theirs. */
export const sentence = text => /^(?!heapctl\b)[a-z]+(?:[ ,:;]|$)/.test(text ?? '') ? text[0].toUpperCase() + text.slice(1) : text;
