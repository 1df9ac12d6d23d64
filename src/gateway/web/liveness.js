/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the target, or the gateway, is still there: for views that ask for nothing until their user does. */
import { getText } from '/assets/api.js';
import { keepTrying } from '/assets/controls.js';

const PERIOD_MS = 2000;
const remark = () => 'What is shown below was read before.';

/* An agent that writes a profile answers afterwards, and what waits for it in `view` says itself when that fails. */
export const watchTarget = (place, target, view) => keepTrying(place, async () => {
  if (!view.querySelector('.waiting'))
    await target.status();
}, PERIOD_MS, remark);

/* By a small file that needs no token. */
export const watchGateway = place => keepTrying(place, () => getText('/assets/icon.svg', { cache: 'no-store' }), PERIOD_MS, remark);
