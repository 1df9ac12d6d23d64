/* SPDX-License-Identifier: Apache-2.0 */
/* The notes in a history: a list below its timeline, where they are also written and removed. */
import { post, query } from '/assets/api.js';
import { actionButton, fill, notify } from '/assets/controls.js';
import { el } from '/assets/dom.js';
import { count } from '/assets/format.js';
import { dateTime } from '/assets/time.js';

/* As src/store/note_text.h has it; in bytes. */
const TEXT_MAX = 200;
const SHOWN = 5;

export class NoteList {
  /* path: of the notes' address; changed() is called after a change; since(note) shows what grew since it */
  constructor(path, changed, since) {
    Object.assign(this, { path, changed, since, notes: [] });
    this.list = el('ul');
    const input = el('input', { maxLength: TEXT_MAX, placeholder: 'v7.3 rollout', 'aria-label': 'Text of the note', required: true });
    const form = el('form.row', {
      onsubmit: async event => {
        event.preventDefault();
        try {
          await post(`${path}${query({ text: input.value.trim() })}`);
          input.value = '';
          await changed();
        } catch (problem) {
          notify(problem);
        }
      },
    }, input, el('button', { type: 'submit' }, 'Note it now'));
    this.element = el('details.notes', el('summary', 'Notes'), this.list, form);
  }

  show(notes) {
    this.notes = notes;
    this.element.firstElementChild.textContent = notes.length === 0 ? 'Notes' : `Notes (${count(notes.length)})`;
    const shown = this.showsAll ? notes : notes.slice(-SHOWN);
    fill(this.list, shown.toReversed().map(note => el('li', el('span.quiet', dateTime(note.time_ms)), el('b', note.text),
      actionButton('What grew since', () => this.since(note), { className: 'plain', 'aria-label': `What grew since ${note.text}` }),
      actionButton('Remove', async () => {
        await post(`${this.path}/${note.id}/remove`);
        await this.changed();
      }, { className: 'plain', 'aria-label': `Remove the note ${note.text}` }))),
    shown.length < notes.length ? el('li', actionButton(`Show ${count(notes.length - shown.length)} older ones`, () => {
      this.showsAll = true;
      this.show(notes);
    }, { className: 'plain' })) : null);
  }
}
