/* SPDX-License-Identifier: Apache-2.0 */
/* A run, what is in use now, or the difference of two. */
import { getJson, query } from '/assets/api.js';
import { problemBox, select } from '/assets/controls.js';
import { PICTURE_KEYS, PictureView } from '/assets/picture.js';
import { dateTime } from '/assets/time.js';

/* See picture.js. */
class RunSource {
  constructor(target, status, runs, values) {
    this.target = target;
    this.status = status;
    this.runs = runs.filter(run => run.state === 'finished').toReversed();
    this.values = {
      id: values.get('id') ?? String(this.runs[0]?.id ?? 'now'),
      base: values.get('base') ?? '',
      churn: values.get('churn') ?? '',
      ...Object.fromEntries(PICTURE_KEYS.map(key => [key, values.get(key) ?? ''])),
    };
  }

  isDifference() {
    return this.values.base !== '';
  }

  path(format, options) {
    const { id, base, churn } = this.values;
    return this.target.path(`/api/v1/profile${query({ id, base, churn, format, ...options })}`);
  }

  /* What goes on all the same. */
  get cancelled() {
    return [this.values.id, this.values.base].includes('now')
      ? 'If the server was writing its profile already, it writes it to the end; this gateway drops it.' : null;
  }

  fileName(extension) {
    const { id, base } = this.values;
    return `${this.status.name}.${id}${base ? `-${base}` : ''}.${extension}`;
  }

  link() {
    return this.target.link('profile', this.values);
  }

  /* The difference is one of the ends of runs. */
  sides() {
    const { id, base, churn } = this.values, names = new Map(this.choices(base));
    return [base, id].map(each => ({
      title: names.get(each) ?? `run ${each}`,
      path: (format, options) => this.target.path(`/api/v1/profile${query({ id: each, whole: 1, churn, format, ...options })}`),
    }));
  }

  choices(wanted) {
    const known = [['now', 'in use now'], ...this.runs.map(run => [String(run.id), `run of ${dateTime(run.started_ms)}`])];
    /* A link may name a run that was removed: the gateway reports that. */
    return !wanted || known.some(([key]) => key === wanted) ? known : [...known, [wanted, `run ${wanted}`]];
  }

  leading() {
    const { id, base } = this.values;
    return [select('Show', this.choices(id), id, chosen => this.view.set({ id: chosen })),
      select('compared with', [['', 'nothing'], ...this.choices(base)], base, chosen => this.view.set({ base: chosen })),
      ...(this.status.sampler ? [select('of', [['', 'all allocations'], ['1', 'temporary ones']], this.values.churn,
        churn => this.view.set({ churn }))] : [])];
  }
}

export async function showProfile(page, target, status, values) {
  if (!status.profiling.available) {
    page.append(problemBox({ message: status.profiling.reason, hint: status.profiling.hint ?? status.profiling.cure }));
    return () => {};
  }
  const { runs } = await getJson(target.path('/v1/runs'));
  const source = new RunSource(target, status, runs, values);
  const view = new PictureView(source);
  source.view = view;
  page.append(view.element);
  return () => view.close();
}
