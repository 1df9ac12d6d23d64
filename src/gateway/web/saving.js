/* SPDX-License-Identifier: Apache-2.0 */
/* Saves what the gateway makes, which may take long. */
import { actionButton, notify } from '/assets/controls.js';
import { el, menu } from '/assets/dom.js';
import { QUICK_MS, Waiting } from '/assets/waiting.js';

/* `work` gets options for its request; a notice shows it when it takes long, and cancels it. */
async function save(text, work) {
  const request = new AbortController();
  const waiting = new Waiting(text, () => request.abort());
  const notice = el('div.notice', waiting.element);
  const timer = setTimeout(() => document.getElementById('notices').append(notice), QUICK_MS / 2);
  try {
    await work(waiting.options(request.signal));
  } catch (problem) {
    if (!request.signal.aborted)
      throw problem;
    notify('Cancelled: nothing was saved.');
  } finally {
    clearTimeout(timer);
    notice.remove();
  }
}

/* [text, action] for each way to save what is shown; the action gets options for its request. */
export function saveMenu(ways) {
  const made = menu('save', el('summary.button', 'Save as'), el('div.menu', ways.map(([text, action]) =>
    actionButton(text, async () => {
      made.open = false;
      await save(`Saving: ${text}\u2026`, action);
    }, { className: 'plain' }))));
  return made;
}
