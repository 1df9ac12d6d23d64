/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of one name. */
import { el } from '/assets/dom.js';

const COMMAND_SHOWN = 64;

const shortened = text => text.length > COMMAND_SHOWN ? `${text.slice(0, COMMAND_SHOWN - 1)}\u2026` : text;

/* What tells processes of one name apart: where two of them differ. */
export function apart(target, targets) {
  const twins = targets.filter(({ name }) => name === target.name);
  const differ = key => twins.some(twin => twin[key] !== target[key]);
  if (twins.length < 2 || !target.command)
    return [];
  const parts = [
    differ('command') ? el('code', shortened(target.command)) : null,
    differ('user') ? `user ${target.user}` : null,
    differ('container') ? (target.container ? `container ${target.container.slice(0, 12)}` : 'no container') : null,
  ].filter(part => part !== null);
  if (twins.some(({ pid }) => pid !== null && pid === target.parent) || (parts.length === 0 && differ('parent')))
    parts.push(`child of ${target.parent}`);
  return parts.flatMap((part, i) => [i > 0 ? ' \u00b7 ' : '', part]);
}
