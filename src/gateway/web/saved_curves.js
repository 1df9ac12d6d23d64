/* SPDX-License-Identifier: Apache-2.0 */
/* Curves as a file of their own: the styles that the page applies are written into the picture. */
import { saveBlob } from '/assets/api.js';
import { svg } from '/assets/dom.js';

const HEADING = 46;
const STYLES = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linejoin', 'stroke-linecap', 'font-size', 'text-anchor'];

function withStyles(element) {
  const copy = element.cloneNode(true);
  const from = [element, ...element.querySelectorAll('*')];
  [copy, ...copy.querySelectorAll('*')].forEach((each, i) => {
    const style = getComputedStyle(from[i]);
    for (const name of STYLES)
      each.setAttribute(name, style.getPropertyValue(name));
    for (const name of ['class', 'tabindex', 'role', 'aria-describedby'])
      each.removeAttribute(name);
  });
  return copy;
}

/* title: what it shows, for people; legend: see figures.js */
export function saveCurves(picture, legend, title, name) {
  const { width, height } = picture.viewBox.baseVal;
  const style = getComputedStyle(document.documentElement);
  const colour = property => style.getPropertyValue(property).trim();
  const copy = withStyles(picture);
  copy.setAttribute('y', HEADING);
  copy.setAttribute('width', width);
  const keys = legend.shown.map((line, i) => svg('g', {},
    svg('rect', { x: 12 + i * 110, y: 34, width: 14, height: 3, fill: colour(`--line-${line.index}`) }),
    svg('text', { x: 32 + i * 110, y: 40, 'font-size': 12, fill: colour('--ink') }, line.name)));
  const whole = svg('svg', { viewBox: `0 0 ${width} ${height + HEADING}`, width, height: height + HEADING, 'font-family': 'system-ui, sans-serif' },
    svg('rect', { width: '100%', height: '100%', fill: colour('--raised') }),
    svg('text', { x: 12, y: 20, 'font-size': 14, 'font-weight': 600, fill: colour('--ink') }, title), ...keys, copy);
  saveBlob(new Blob([new XMLSerializer().serializeToString(whole)], { type: 'image/svg+xml' }), name);
}
