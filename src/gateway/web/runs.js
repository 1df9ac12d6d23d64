/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a target: to show one, to compare two, to save and to remove them. */
import { download, getJson, post } from '/assets/api.js';
import { actionButton, keepTrying, sentence } from '/assets/controls.js';
import { el } from '/assets/dom.js';
import { bytes } from '/assets/format.js';
import { dateTime, duration } from '/assets/time.js';

const ENDED = { deadline: 'on time', stop: 'stopped', exit: 'the server ended' };

function outcome(run) {
  if (run.state === 'running')
    return el('span.state.busy', `${duration(run.remaining_ms)} left`);
  if (run.state === 'failed')
    return el('span.state.bad', sentence(run.error || 'failed'));
  const notes = [ENDED[run.ended_by] ?? 'ended'];
  if (run.sampling_gaps > 0)
    notes.push('sampling was switched off meanwhile');
  if (run.resets > 0)
    notes.push('samples were discarded meanwhile');
  return sentence(notes.join('; '));
}

export async function showRuns(page, target, status, values) {
  const chosen = { base: values.get('base') ?? '', id: values.get('id') ?? '' };
  const body = el('tbody');
  const compare = el('button.primary', {
    type: 'button', disabled: true,
    onclick: () => { location.hash = target.link('profile', { id: chosen.id, base: chosen.base }); },
  }, 'Compare');
  const empty = el('p.quiet', 'No run yet. ', el('a', { href: target.link() }, 'Start one on the overview.'));
  const table = el('table.cards', el('thead', el('tr',
    ['From', 'To', 'Begun', 'Length', 'End', 'Profile', 'Actions'].map(text => el(text === 'Profile' ? 'th.number' : 'th', { scope: 'col' }, text)))), body);

  const pick = (run, which) => el('input', {
    type: 'radio', name: which, value: run.id, checked: chosen[which] === String(run.id), disabled: run.state !== 'finished',
    'aria-label': `${which === 'base' ? 'compare from' : 'compare to'} the run of ${dateTime(run.started_ms)}`,
    onchange: () => {
      chosen[which] = String(run.id);
      update();
    },
  });
  const remove = run => actionButton('Remove', async () => {
    if (confirm('Remove this run and its profiles from the agent, for all users?'))
      await post(target.path(`/v1/runs/${run.id}/remove`));
    await load();
  }, { className: 'plain' });
  const row = run => el('tr',
    el('td', { 'data-label': 'Compare from' }, pick(run, 'base')),
    el('td', { 'data-label': 'Compare to' }, pick(run, 'id')),
    el('td', { 'data-label': 'Begun' }, run.state === 'finished'
      ? el('a', { href: target.link('profile', { id: run.id }) }, dateTime(run.started_ms)) : dateTime(run.started_ms)),
    el('td', { 'data-label': 'Length' }, duration((run.ended_ms ?? Date.now()) - run.started_ms)),
    el('td', { 'data-label': 'End' }, outcome(run)),
    el('td.number', { 'data-label': 'Profile' }, run.state === 'finished' ? bytes(run.profile_bytes) : ''),
    el('td.actions', run.state !== 'finished' ? null : [
      actionButton('Save', () => download(target.path(`/v1/runs/${run.id}/profile`), `${status.name}.${run.id}.heap`), { className: 'plain' }),
      remove(run)]));
  const update = () => { compare.disabled = !chosen.base || !chosen.id || chosen.base === chosen.id; };
  let shown = '';
  const load = async () => {
    const { runs } = await getJson(target.path('/v1/runs'));
    const text = JSON.stringify(runs);
    if (text !== shown && !body.contains(document.activeElement))
      body.replaceChildren(...runs.toReversed().map(row));
    else if (text !== shown)
      return;
    shown = text;
    empty.hidden = runs.length > 0;
    table.hidden = runs.length === 0;
    foot.hidden = runs.filter(run => run.state === 'finished').length < 2;
    update();
  };
  const trouble = el('div.trouble');
  const foot = el('p.row', compare, el('span.quiet', 'Pick one run under From and one under To to see what changed between their ends.'));
  page.append(trouble, el('div.panel', el('h2', 'Runs'), empty, table, foot));
  await load();
  return keepTrying(trouble, load, 2000);
}
