// SPDX-License-Identifier: Apache-2.0
// A browser for tests/support/browser.py: Playwright drives Debian's Chromium. Requests are lines of JSON on
// standard input, {"do": NAME, ...}; each is answered by one, {"value": ...} or {"error": TEXT}. Ends with its input.
//
//     node browser.mjs FOLDER-OF-PACKAGES OPTIONS

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const { chromium } = createRequire(`${process.argv[2]}/`)('playwright-core');
const { program, flags, deadline_ms: timeout, ...context } = JSON.parse(process.argv[3]);

const browser = await chromium.launch({ executablePath: program, args: flags, timeout });
const page = await (await browser.newContext(context)).newPage();
page.setDefaultTimeout(timeout);

let complaints = [];
let requests = [];
page.on('console', message => complaints.push(`${message.type()}: ${message.text()}`));
page.on('pageerror', error => complaints.push(String(error.stack ?? error)));
page.on('request', request => requests.push(request.url()));

const escaped = text => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/* The first that can be seen; `text` is all of its text, without blanks at the ends. */
function find({ selector, text }) {
  const wanted = text === undefined ? {} : { hasText: new RegExp(`^\\s*${escaped(text)}\\s*$`) };
  return page.locator(selector).filter({ visible: true, ...wanted }).first();
}

const actions = {
  async open({ url }) {
    /* A new document even when only the fragment differs. */
    await page.goto('about:blank');
    complaints = [];
    requests = [];
    await page.goto(url);
  },
  evaluate: ({ expression }) => page.evaluate(expression),
  /* x and y, where they are given, are inside of the element. */
  click: ({ x, y, ...what }) => find(what).click(x === undefined ? {} : { position: { x, y } }),
  choose: ({ label, ...what }) => find(what).selectOption({ label }),
  focus: what => find(what).focus(),
  press: ({ key }) => page.keyboard.press(key),
  type: ({ text }) => page.keyboard.type(text),
  /* Along the element's middle, in steps as a hand makes them. */
  async drag({ from, to, ...what }) {
    const place = find(what);
    await place.hover();
    const { x, y, height } = await place.boundingBox();
    await page.mouse.move(x + from, y + height / 2);
    await page.mouse.down();
    await page.mouse.move(x + to, y + height / 2, { steps: 5 });
    await page.mouse.up();
  },
  async download({ path, ...what }) {
    const [file] = await Promise.all([page.waitForEvent('download'), find(what).click()]);
    await file.saveAs(path);
    return file.suggestedFilename();
  },
  back: () => page.goBack(),
  emulate: media => page.emulateMedia(media),
  screenshot: ({ path }) => page.screenshot({ path, fullPage: true }),
  complaints: () => complaints,
  requests: () => requests,
};

const answer = result => process.stdout.write(`${JSON.stringify(result)}\n`);

answer({ value: browser.version() });
for await (const line of createInterface({ input: process.stdin })) {
  const { do: action, ...parameters } = JSON.parse(line);
  try {
    answer({ value: await actions[action](parameters) ?? null });
  } catch (error) {
    /* Without its colours. */
    answer({ error: error.message.replace(/\x1b\[\d+m/g, '') });
  }
}
await browser.close();
