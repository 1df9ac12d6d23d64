/* SPDX-License-Identifier: Apache-2.0 */
/* A call graph in SVG, moved with the mouse or fingers and zoomed with the wheel and keys. */
import { button, el } from '/assets/dom.js';

const SCALE_MAX = 2;

/* The picture's own script and style are for a file of its own; the page's policy allows neither. */
function parse(text) {
  const bare = text.replace(/<(script|style)\b[^]*?<\/\1>/g, '');
  const root = new DOMParser().parseFromString(bare, 'image/svg+xml').documentElement;
  if (root.nodeName !== 'svg')
    throw new Error('The call graph could not be read.');
  return document.importNode(root, true);
}

export class GraphView {
  constructor(text) {
    this.picture = parse(text);
    this.home = this.picture.viewBox.baseVal;
    this.home = { x: this.home.x, y: this.home.y, width: this.home.width, height: this.home.height };
    this.shown = { ...this.home };
    this.picture.removeAttribute('width');
    this.picture.removeAttribute('height');
    this.picture.setAttribute('tabindex', '0');
    this.picture.setAttribute('role', 'img');
    this.element = el('div.graph', el('div.graph-tools',
      button('+', () => this.zoom(0.8), { title: 'Larger (+)', 'aria-label': 'Larger' }),
      button('\u2212', () => this.zoom(1.25), { title: 'Smaller (-)', 'aria-label': 'Smaller' }),
      button('All', () => this.fit(), { title: 'All of it (0)' })), this.picture);
    this.listen();
  }

  listen() {
    const { picture } = this;
    picture.addEventListener('wheel', event => {
      event.preventDefault();
      this.zoom(Math.exp((event.deltaMode ? 30 : 1) * event.deltaY * 0.0015), event.clientX, event.clientY);
    }, { passive: false });
    picture.addEventListener('pointerdown', event => {
      picture.setPointerCapture(event.pointerId);
      this.dragged = { x: event.clientX, y: event.clientY };
    });
    picture.addEventListener('pointermove', event => {
      if (!this.dragged)
        return;
      this.pan(event.clientX - this.dragged.x, event.clientY - this.dragged.y);
      this.dragged = { x: event.clientX, y: event.clientY };
    });
    for (const end of ['pointerup', 'pointercancel'])
      picture.addEventListener(end, () => { this.dragged = null; });
    picture.addEventListener('keydown', event => {
      const steps = {
        '+': () => this.zoom(0.8), '=': () => this.zoom(0.8), '-': () => this.zoom(1.25), '0': () => this.fit(),
        ArrowLeft: () => this.pan(60, 0), ArrowRight: () => this.pan(-60, 0), ArrowUp: () => this.pan(0, 60), ArrowDown: () => this.pan(0, -60),
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !steps[event.key])
        return;
      event.preventDefault();
      steps[event.key]();
    });
  }

  show(box) {
    this.shown = box;
    this.picture.setAttribute('viewBox', `${box.x} ${box.y} ${box.width} ${box.height}`);
  }

  /* All of it; a small graph is not blown up beyond twice the size of its text. */
  fit() {
    const { width, height } = this.picture.getBoundingClientRect();
    const { home } = this;
    const scale = Math.max(1, Math.min(width / home.width, height / home.height) / SCALE_MAX);
    this.show({
      x: home.x - home.width * (scale - 1) / 2,
      y: home.y - home.height * (scale - 1) / 2,
      width: home.width * scale,
      height: home.height * scale,
    });
  }

  zoom(factor, clientX, clientY) {
    const bounds = this.picture.getBoundingClientRect();
    const matrix = this.picture.getScreenCTM().inverse();
    const at = new DOMPoint(clientX ?? bounds.x + bounds.width / 2, clientY ?? bounds.y + bounds.height / 2).matrixTransform(matrix);
    const width = Math.min(Math.max(this.shown.width * factor, this.home.width / 100), this.home.width * 4);
    const real = width / this.shown.width;
    this.show({
      x: at.x - (at.x - this.shown.x) * real,
      y: at.y - (at.y - this.shown.y) * real,
      width,
      height: this.shown.height * real,
    });
  }

  pan(x, y) {
    const unit = 1 / this.picture.getScreenCTM().a;
    this.show({ ...this.shown, x: this.shown.x - x * unit, y: this.shown.y - y * unit });
  }
}
