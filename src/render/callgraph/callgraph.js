/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves the picture by mouse, fingers, wheel and keys by changing what the viewBox shows. A click
 * on a box dims all that it neither calls nor is called by.
 */
(() => {
  'use strict';
  const svg = document.currentScript ? document.currentScript.closest('svg') : document.documentElement;
  const whole = svg.viewBox.baseVal;
  const home = { x: whole.x, y: whole.y, width: whole.width, height: whole.height };
  let shown = { ...home };
  const pointers = new Map();
  let travelled = 0;

  const show = box => {
    const scale = Math.min(Math.max(box.width, home.width / 200), home.width * 4) / box.width;
    shown = { x: box.x, y: box.y, width: box.width * scale, height: box.height * scale };
    svg.setAttribute('viewBox', `${shown.x} ${shown.y} ${shown.width} ${shown.height}`);
  };

  /* Pixels of the screen in units of the picture. */
  const unit = () => 1 / svg.getScreenCTM().a;

  const pointAt = (x, y) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM().inverse());

  const zoom = (factor, x, y) => {
    const at = pointAt(x, y);
    const width = Math.min(Math.max(shown.width * factor, home.width / 200), home.width * 4);
    const real = width / shown.width;
    show({
      x: at.x - (at.x - shown.x) * real,
      y: at.y - (at.y - shown.y) * real,
      width,
      height: shown.height * real,
    });
  };

  const zoomMiddle = factor => {
    const { left, top, width, height } = svg.getBoundingClientRect();
    zoom(factor, left + width / 2, top + height / 2);
  };

  const pan = (x, y) => show({ ...shown, x: shown.x - x * unit(), y: shown.y - y * unit() });

  svg.addEventListener('wheel', event => {
    event.preventDefault();
    zoom(Math.exp((event.deltaMode ? 30 : 1) * event.deltaY * 0.0015), event.clientX, event.clientY);
  }, { passive: false });

  svg.addEventListener('pointerdown', event => {
    pointers.set(event.pointerId, event);
    travelled = 0;
  });

  svg.addEventListener('pointermove', event => {
    const last = pointers.get(event.pointerId);
    if (!last)
      return;
    const x = event.clientX - last.clientX, y = event.clientY - last.clientY;
    travelled += Math.abs(x) + Math.abs(y);
    if (travelled > 4 && !svg.hasPointerCapture(event.pointerId)) {
      svg.setPointerCapture(event.pointerId);
      svg.classList.add('dragging');
    }
    pan(x / pointers.size, y / pointers.size);
    if (pointers.size === 2) {
      const other = [...pointers.values()].find(pointer => pointer.pointerId !== event.pointerId);
      const distance = one => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
      zoom(distance(last) / distance(event), (event.clientX + other.clientX) / 2,
        (event.clientY + other.clientY) / 2);
    }
    pointers.set(event.pointerId, event);
  });

  const release = event => {
    pointers.delete(event.pointerId);
    svg.classList.remove('dragging');
  };
  svg.addEventListener('pointerup', release);
  svg.addEventListener('pointercancel', release);

  const keys = {
    '+': () => zoomMiddle(1 / 1.25),
    '=': () => zoomMiddle(1 / 1.25),
    '-': () => zoomMiddle(1.25),
    0: () => show(home),
    Home: () => show(home),
    ArrowLeft: () => pan(60, 0),
    ArrowRight: () => pan(-60, 0),
    ArrowUp: () => pan(0, 60),
    ArrowDown: () => pan(0, -60),
    Escape: () => pick(null),
  };
  (svg === document.documentElement ? window : svg).addEventListener('keydown', event => {
    const action = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
    if (!action)
      return;
    event.preventDefault();
    action();
  });

  /* graphviz keeps the names of nodes ("N1") and edges ("N1->N2") as titles. */
  const titles = new Map();
  for (const part of svg.querySelectorAll('.node, .edge')) {
    const title = part.querySelector('title'), link = part.querySelector('a');
    titles.set(part, title.textContent.split('->'));
    title.textContent = link ? link.getAttribute('xlink:title') : '';
    if (link)
      link.removeAttribute('xlink:title');
  }

  const pick = node => {
    const name = node && titles.get(node)[0];
    const edges = [...titles].filter(([, ends]) => ends.length === 2 && ends.includes(name));
    const near = new Set([name, ...edges.flatMap(([, ends]) => ends)]);
    svg.classList.toggle('picked', Boolean(node));
    for (const [part, ends] of titles)
      part.classList.toggle('near', ends.length === 2 ? ends.includes(name) : near.has(ends[0]));
  };
  svg.addEventListener('click', event => {
    if (travelled <= 4)
      pick(event.target.closest('.node'));
  });
})();
