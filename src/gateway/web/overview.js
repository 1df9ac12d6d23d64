/* SPDX-License-Identifier: Apache-2.0 */
/* What a target does now: its memory, whether it is sampled, and the run that is on. */
import { download, getJson, post, query } from '/assets/api.js';
import { actionButton, fill, keepTrying, notify, sentence } from '/assets/controls.js';
import { Curves } from '/assets/curves.js';
import { el } from '/assets/dom.js';
import { showFindings } from '/assets/findings.js';
import { bytes, count } from '/assets/format.js';
import { saveCurves } from '/assets/saved_curves.js';
import { saveMenu } from '/assets/saving.js';
import { dateTime, duration } from '/assets/time.js';

const LENGTHS = [['30s', '30 s'], ['1mins', '1 min'], ['5mins', '5 min'], ['15mins', '15 min'], ['1hrs', '1 h'], ['24hrs', '24 h']];
const MS = { '30s': 30000, '1mins': 60000, '5mins': 300000, '15mins': 900000, '1hrs': 3600000, '24hrs': 86400000 };

/* What stands behind the live curves. */
const KEPT_MS = 3600000, KEPT_MAX = 200;

function warnings(status) {
  return status.warnings.map(({ message, cure, hint = cure }) => el('div.warning', el('p', sentence(message)), hint ? el('p.hint', sentence(hint)) : null));
}

/* Started without prof:true: nothing can be done now, so say what to do the next time. */
function unavailable({ profiling, exe }) {
  return el('div.panel.problem-box', el('h2', 'This process cannot be profiled'), el('p', `${sentence(profiling.reason)}.`),
    profiling.hint ?? profiling.cure ? el('p', `${sentence(profiling.hint ?? profiling.cure)}.`) : null,
    el('p', 'Or let heapctl set this up:'), el('pre', `heapctl run -- ${exe} \u2026`));
}

class RunPanel {
  constructor(target, refresh) {
    this.target = target;
    this.refresh = refresh;
    this.bar = el('progress', { max: 1, value: 0, 'aria-label': 'time of the run' });
    this.left = el('p.countdown');
    this.length = el('select', { id: 'run-length' }, LENGTHS.map(([value, text]) =>
      el('option', { value, selected: value === '5mins' }, text)));
    this.element = el('div.panel');
    this.timer = setInterval(() => this.tick(), 250);
  }

  close() {
    clearInterval(this.timer);
  }

  update(status) {
    const { run, profiling } = status;
    const isOn = run?.state === 'running';
    if (isOn)
      this.ends = performance.now() + run.remaining_ms;
    this.run = run;
    if (this.isOn !== isOn || this.wasActive !== profiling.active) {
      if (this.isOn && !isOn)
        notify('The run has ended.');
      fill(this.element, isOn ? this.running() : this.idle(status));
    }
    this.isOn = isOn;
    this.wasActive = profiling.active;
    this.tick();
  }

  running() {
    return [el('h2', 'A run is on'), this.bar, this.left,
      actionButton('Stop it now', async () => {
        const run = await post(this.target.path('/v1/runs/stop'));
        location.hash = this.target.link('profile', { id: run.id });
      }, { className: 'primary' })];
  }

  idle({ profiling }) {
    return [el('h2', 'Run'),
      el('p.quiet', profiling.active
        ? 'Keeps what is in use at the end. Sampling is on already and stays on, so older samples are in that profile, too.'
        : 'Samples allocations for a while, keeps what is still alive at the end, and switches sampling off again.'),
      el('p.row', el('label', { htmlFor: 'run-length' }, 'For'), this.length, actionButton('Start', async () => {
        await post(this.target.path(`/v1/runs?duration_ms=${MS[this.length.value]}&keep_active=true`));
        await this.refresh();
      }, { className: 'primary' }))];
  }

  tick() {
    if (!this.isOn)
      return;
    const left = Math.max(0, this.ends - performance.now());
    this.bar.value = 1 - left / this.run.duration_ms;
    this.left.textContent = `${duration(left)} left of ${duration(this.run.duration_ms)}`;
  }
}

function samplingPanel(target, status, refresh) {
  const { profiling } = status;
  const change = word => async () => {
    await post(target.path(`/v1/${word}`));
    await refresh();
  };
  const running = status.run?.state === 'running';
  return el('div.panel', el('h2', 'Sampling'),
    el('p', el(`span.state.${profiling.active ? 'busy' : 'good'}`, profiling.active ? 'on' : 'off'),
      profiling.active && profiling.active_since_ms ? ` since ${dateTime(profiling.active_since_ms)}` : '',
      running && !status.run.was_active ? ', because of the run' : ''),
    status.attached ? el('p.quiet', `Attached ${dateTime(status.started_ms)}: profiles show what was allocated since and is still in use.`) : null,
    el('p.quiet', `One sample every ${bytes(profiling.sample_interval)} on average.`),
    el('p.row', running ? null : actionButton(profiling.active ? 'Switch off' : 'Switch on', change(profiling.active ? 'deactivate' : 'activate')),
      actionButton('Discard all samples', async () => {
        if (confirm('All samples are discarded and will be missing from later profiles. Continue?'))
          await change('reset')();
      })));
}

function dumpPanel(target, status) {
  const dump = status.last_dump;
  return el('div.panel', el('h2', 'Profile now'),
    el('p.quiet', dump
      ? `The last one had ${count(dump.stacks)} stacks and ${bytes(dump.bytes)}, and took ${dump.ms < 1 ? 'less than 1' : dump.ms} ms (${dateTime(dump.time_ms)}).`
      : 'None was taken yet. It usually takes a few milliseconds and does not stop the server.'),
    el('p.row', el('a.button.primary', { href: target.link('profile', { id: 'now' }) }, 'Draw what is in use')));
}

/* What was kept of the last hour; the page does not depend on it. */
async function showKept(curves, { name, pid }) {
  if (!(await getJson('/api/v1/targets')).keeps_history)
    return;
  const range = query({ from_ms: Date.now() - KEPT_MS, pid, max: KEPT_MAX });
  curves.showKept((await getJson(`/targets/${encodeURIComponent(name)}/api/v1/timeline${range}`)).snapshots);
}

export async function showOverview(page, target, first) {
  if (!first.profiling.available)
    page.append(unavailable(first));
  /* Another allocator reports no figures. */
  const curves = new Curves(first.memory?.resident > 0 ? undefined : ['rss'], () => showKept(curves, first).catch(() => {}));
  const trouble = el('div.trouble');
  const findings = el('div');
  const panels = el('div.panels');
  const noted = el('div');
  const saved = saveMenu([
    ['Curves (SVG)', () => saveCurves(curves.picture, curves.legend, `${first.name}[${first.pid}]`, `${first.name}.${first.pid}.curves.svg`)],
    ['Figures (JSON)', options => download(target.path('/api/v1/history'), `${first.name}.${first.pid}.figures.json`, options)]]);
  page.append(trouble, findings, el('div.panel.curves-panel', curves.element, saved), noted, panels);
  let last = '';
  const refresh = async () => draw(await target.status());
  const run = new RunPanel(target, refresh);
  const draw = status => {
    if (!status.profiling.available) {
      noted.replaceChildren(...warnings(status));
      return;
    }
    run.update(status);
    const { run: now, memory, ...rest } = status;
    const text = JSON.stringify([rest, now?.state]);
    if (text !== last) {
      noted.replaceChildren(...warnings(status));
      panels.replaceChildren(run.element, samplingPanel(target, status, refresh), dumpPanel(target, status));
    }
    last = text;
  };
  draw(first);
  const endFindings = showFindings(findings, first);
  showKept(curves, first).catch(() => {});
  const end = keepTrying(trouble, async () => {
    await curves.ask(() => getJson(target.path(`/api/v1/history?since_ms=${curves.lastTime}`)));
    await refresh();
  }, 1000);
  return () => {
    end();
    endFindings();
    run.close();
    curves.close();
  };
}
