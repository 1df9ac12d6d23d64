/* SPDX-License-Identifier: Apache-2.0 */
/* Figures for people. */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

const powerOf = size => size < 1024 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(size) / 10));

export function bytes(value) {
  if (!Number.isFinite(value))
    return '-';
  const power = powerOf(Math.abs(value));
  const scaled = value / 1024 ** power;
  return `${scaled.toFixed(power === 0 || Math.abs(scaled) >= 100 ? 0 : 1)} ${UNITS[power]}`;
}

export function count(value) {
  return Number.isFinite(value) ? Math.round(value).toLocaleString('en') : '-';
}

/* With its sign; `format` is bytes or count. */
export function change(value, format = bytes) {
  const text = format(Math.abs(value));
  return /^0\b/.test(text) && !/[1-9]/.test(text) ? text : (value > 0 ? '+' : value < 0 ? '\u2212' : '') + text;
}

/* "+1.7 ± 0.8 MiB": both in one unit. */
export function changeWithError(value, error, format = bytes) {
  if (format !== bytes)
    return `${change(value, format)} \u00b1 ${format(error)}`;
  const power = powerOf(Math.max(Math.abs(value), error));
  const [shown, spread] = [Math.abs(value), error].map(size => (size / 1024 ** power).toFixed(power === 0 ? 0 : 1));
  return `${Number(shown) === 0 ? '' : value > 0 ? '+' : '\u2212'}${shown} \u00b1 ${spread} ${UNITS[power]}`;
}

export function share(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(part / whole < 0.1 ? 1 : 0)}%` : '-';
}

/* "4 min 59 s" */
export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const parts = [[Math.floor(seconds / 86400), 'd'], [Math.floor(seconds / 3600) % 24, 'h'], [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's']].filter(([number]) => number > 0).slice(0, 2);
  return parts.map(([number, unit]) => `${number} ${unit}`).join(' ') || '0 s';
}

const two = number => String(number).padStart(2, '0');
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

export const clock = date => `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
export const day = date => `${date.getDate()} ${MONTHS[date.getMonth()]}`;

/* "03:10:05" of today, else "22 Nov 03:10:05"; of the browser's time zone. */
export function moment(ms) {
  const date = new Date(ms), now = new Date();
  if (date.toDateString() === now.toDateString())
    return clock(date);
  return `${day(date)}${date.getFullYear() === now.getFullYear() ? '' : ` ${date.getFullYear()}`} ${clock(date)}`;
}

/* "UTC+1" */
export function zone() {
  const minutes = -new Date().getTimezoneOffset();
  const size = Math.abs(minutes);
  return `UTC${minutes === 0 ? '' : `${minutes < 0 ? '\u2212' : '+'}${Math.floor(size / 60)}${size % 60 ? `:${two(size % 60)}` : ''}`}`;
}

/* The gateway's messages begin in lower case, to stand behind something; names and commands stay as they are. */
export const sentence = text => /^(?!heapctl\b)[a-z]+(?:[ ,:;]|$)/.test(text ?? '') ? text[0].toUpperCase() + text.slice(1) : text;
