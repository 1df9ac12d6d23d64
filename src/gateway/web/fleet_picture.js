/* SPDX-License-Identifier: Apache-2.0 */
/* What the fleet has in use, or what changed, as a flame graph, a call graph or a table. */
import { download, query } from '/assets/api.js';
import { actionButton, copyLink, fill, segments } from '/assets/controls.js';
import { el } from '/assets/dom.js';
import { PictureView } from '/assets/picture.js';
import { saveMenu } from '/assets/saving.js';

const SHAPES = [['flame', 'Flame graph'], ['graph', 'Call graph'], ['text', 'Table']];
const SAVED = [['flame', 'Flame graph (HTML)', 'html'], ['graph', 'Call graph (SVG)', 'svg'], ['text', 'Table (text)', 'txt'],
  ['collapsed', 'Collapsed stacks', 'txt'], ['json', 'JSON', 'json']];
const SHOWN = [['png', 'What is shown (PNG)'], ['svg', 'What is shown (SVG)'], ['speedscope', 'What is shown (speedscope)']];

/* See picture.js. */
class FleetSource {
  constructor(fleet) {
    this.fleet = fleet;
    this.values = fleet.values;
  }

  isDifference() {
    return this.values.show === 'diff';
  }

  path(format, options) {
    const ago = this.isDifference() ? { ago_ms: this.fleet.ago[2] } : {};
    return `/api/v1/fleet/picture${query({ question: this.values.show, ...this.fleet.scope(), ...ago, format, ...options })}`;
  }

  fileName(extension) {
    return `${this.values.service || 'fleet'}.${this.isDifference() ? 'diff.' : ''}${extension}`;
  }

  link() {
    return this.fleet.link();
  }

  explain(problem) {
    this.fleet.explain(problem);
    return true;
  }
}

/* Without filters, other figures and source: the database has names and bytes in use. */
export class FleetPicture extends PictureView {
  constructor(fleet) {
    super(new FleetSource(fleet));
  }

  get hasSource() {
    return false;
  }

  get shapes() {
    return SHAPES;
  }

  drawControls() {
    fill(this.controls, el('div.row', segments('as', SHAPES, this.shape, shape => this.set({ shape })), el('span.spring'), actionButton('Copy link', copyLink),
      saveMenu(SAVED.map(([format, text, extension]) => [text, options => download(this.path(format), this.source.fileName(extension), options)])
        .concat(this.shape !== 'flame' ? [] : SHOWN.map(([format, text]) => [text, () => this.saveShown(format)])))));
    this.controls.querySelectorAll('button').forEach((element, i) => { element.dataset.place = i; });
  }

  path(format, options = {}) {
    return this.source.path(format, options);
  }
}
