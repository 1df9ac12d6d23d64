/* SPDX-License-Identifier: Apache-2.0 */
/* Times for people. */

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
export function dateTime(ms) {
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
