/* SPDX-License-Identifier: Apache-2.0 */
/* Elements from code: el('a.quiet', { href }, 'text', child). Nothing is ever parsed as HTML. */

export function el(name, ...rest) {
  const [tag, ...classes] = name.split('.');
  const element = document.createElement(tag || 'div');
  element.classList.add(...classes);
  for (const item of rest.flat(Infinity)) {
    if (item === null || item === undefined || item === false)
      continue;
    if (typeof item === 'object' && !(item instanceof Node))
      setProperties(element, item);
    else
      element.append(item);
  }
  return element;
}

function setProperties(element, properties) {
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith('on'))
      element.addEventListener(key.slice(2), value);
    else if (key in element && !key.startsWith('aria'))
      element[key] = value;
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(key, value === true ? '' : value);
  }
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes))
    element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function button(text, action, options = {}) {
  return el('button', { type: 'button', onclick: action, ...options }, text);
}

/* A details element below whose summary a box opens; closed by Escape, and by a click elsewhere. */
export function menu(name, summary, ...content) {
  const element = el(`details.${name}`, summary, ...content);
  const leave = event => {
    if (!element.contains(event.target))
      element.open = false;
  };
  element.addEventListener('toggle', () => document[element.open ? 'addEventListener' : 'removeEventListener']('pointerdown', leave));
  element.addEventListener('keydown', event => {
    if (event.key === 'Escape' && element.open) {
      element.open = false;
      element.firstElementChild.focus();
    }
  });
  return element;
}
