// SPDX-License-Identifier: Apache-2.0
// A browser for tests/support/browser.py: Playwright drives Debian's Chromium. Requests are lines of JSON on
// standard input, {"do": NAME, "in": NUMBER, ...}; each is answered by one, {"value": ...} or {"error": TEXT}. Ends with
// its input. A number stands for a page that shares nothing with the others: "create" makes it, "close" removes it.
//
//     node browser.mjs FOLDER-OF-PACKAGES OPTIONS

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const packages = createRequire(`${process.argv[2]}/`);
const { chromium } = packages('playwright-core');
const { program, flags, deadline_ms: timeout } = JSON.parse(process.argv[3]);

const browser = await chromium.launch({ executablePath: program, args: flags, timeout });
const tabs = new Map();

/* `init` is a script that runs in each document before its own. */
async function create({ in: number, init, ...options }) {
  const context = await browser.newContext(options);
  if (init)
    await context.addInitScript(init);
  const page = await context.newPage();
  const tab = { context, page, complaints: [], requests: [] };
  page.setDefaultTimeout(timeout);
  page.on('console', message => tab.complaints.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', error => tab.complaints.push(String(error.stack ?? error)));
  page.on('request', request => tab.requests.push(request.url()));
  tabs.set(number, tab);
  return browser.version();
}

const escaped = text => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/* The first that can be seen; `text` is all of its text, without blanks at the ends. */
function find({ page }, { selector, text }) {
  const wanted = text === undefined ? {} : { hasText: new RegExp(`^\\s*${escaped(text)}\\s*$`) };
  return page.locator(selector).filter({ visible: true, ...wanted }).first();
}

const actions = {
  async open(tab, { url }) {
    /* A new document even when only the fragment differs. */
    await tab.page.goto('about:blank');
    tab.complaints = [];
    tab.requests = [];
    await tab.page.goto(url);
  },
  evaluate: ({ page }, { expression }) => page.evaluate(expression),
  /* x and y, where they are given, are inside of the element. */
  click: (tab, { x, y, ...what }) => find(tab, what).click(x === undefined ? {} : { position: { x, y } }),
  choose: (tab, { label, ...what }) => find(tab, what).selectOption({ label }),
  focus: (tab, what) => find(tab, what).focus(),
  press: ({ page }, { key }) => page.keyboard.press(key),
  type: ({ page }, { text }) => page.keyboard.type(text),
  /* Along the element's middle, in steps as a hand makes them. */
  async drag(tab, { from, to, ...what }) {
    const place = find(tab, what), { mouse } = tab.page;
    await place.hover();
    const { x, y, height } = await place.boundingBox();
    await mouse.move(x + from, y + height / 2);
    await mouse.down();
    await mouse.move(x + to, y + height / 2, { steps: 5 });
    await mouse.up();
  },
  async download(tab, { path, ...what }) {
    const [file] = await Promise.all([tab.page.waitForEvent('download'), find(tab, what).click()]);
    await file.saveAs(path);
    return file.suggestedFilename();
  },
  back: ({ page }) => page.goBack(),
  emulate: ({ page }, media) => page.emulateMedia(media),
  resize: ({ page }, { width, height }) => page.setViewportSize({ width, height }),
  /* What axe-core finds, as text. */
  async axe({ page }, { rules: chosen }) {
    if (!await page.evaluate('"axe" in globalThis'))
      await page.evaluate(readFileSync(packages.resolve('axe-core/axe.min.js'), 'utf8'));
    /* Of the rules that are off by default, this one is wanted: targets have 24 px. */
    const options = chosen.length > 0 ? { runOnly: chosen } : { rules: { 'target-size': { enabled: true } } };
    const { violations } = await page.evaluate(each => globalThis.axe.run(document, each), { resultTypes: ['violations'], ...options });
    return violations.flatMap(({ id, help, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html}: ${failureSummary}`));
  },
  screenshot: ({ page }, { path }) => page.screenshot({ path, fullPage: true }),
  complaints: ({ complaints }) => complaints,
  requests: ({ requests }) => requests,
  close: ({ context }) => context.close(),
};

const answer = result => process.stdout.write(`${JSON.stringify(result)}\n`);

for await (const line of createInterface({ input: process.stdin })) {
  const { do: action, in: number, ...parameters } = JSON.parse(line);
  try {
    const value = action === 'create' ? create({ in: number, ...parameters }) : actions[action](tabs.get(number), parameters);
    answer({ value: await value ?? null });
  } catch (error) {
    /* Without its colours. */
    answer({ error: error.message.replace(/\x1b\[\d+m/g, '') });
  }
}
await browser.close();
