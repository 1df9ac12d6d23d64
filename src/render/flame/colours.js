/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colours of boxes. They are chosen in OKLCH (lightness, chroma, hue as people see them), so that
 * all hues are equally strong and the text on them is equally easy to read.
 */
const HUES = [62, 250, 155, 330, 205, 25, 290, 110];

function oklch(lightness, chroma, hue) {
  const a = chroma * Math.cos(hue * Math.PI / 180), b = chroma * Math.sin(hue * Math.PI / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
  ].map(linear => {
    const part = Math.min(1, Math.max(0, linear));
    return Math.round(255 * (part <= 0.0031308 ? 12.92 * part : 1.055 * part ** (1 / 2.4) - 0.055));
  });
}

function css([red, green, blue]) {
  return `rgb(${red},${green},${blue})`;
}

/* -1 to 1 by the text's hash: so that neighbours of one hue differ. */
function shade(hash) {
  return (hash >>> 8 & 0xff) / 127.5 - 1;
}

class Colours {
  constructor(model, isDark) {
    this.model = model;
    this.isDark = isDark;
    this.caches = { module: new Map(), function: new Map() };
    this.paper = isDark ? '#171614' : '#fdfcfa'; /* as colours.css has it */
    this.text = isDark ? '#f3f1ec' : '#1d1b18';
    this.rest = css(isDark ? oklch(0.36, 0.008, 80) : oklch(0.9, 0.008, 80));
  }

  /* Hues go to modules by the area they cover: the biggest get the hues that differ most. */
  rankModules(measure) {
    const sizes = measure.moduleAreas(this.model);
    sizes.delete('');
    this.modules = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a) || (a < b ? -1 : 1));
    this.moduleRanks = new Map(this.modules.map((module, rank) => [module, rank]));
  }

  tone(chroma, hue, lift) {
    return this.isDark ? oklch(0.495 + 0.03 * lift, chroma * 0.9, hue)
      : oklch(0.82 + 0.04 * lift, chroma, hue);
  }

  ofModule(module, lift = 0) {
    const rank = this.moduleRanks.get(module);
    if (rank === undefined)
      return this.tone(0.015, 80, lift);
    const round = Math.floor(rank / HUES.length);
    return this.tone(Math.max(0.03, 0.105 - 0.03 * round), HUES[rank % HUES.length] + 17 * round, lift);
  }

  ofFunction(name) {
    const hash = hashText(name);
    return this.tone(0.115, 28 + (hash & 0xff) * 60 / 255, shade(hash));
  }

  /* Vermilion for growth, bluish green for shrinking: two that are not confused by the colour-blind. */
  ofChange(part) {
    const strength = Math.min(1, Math.abs(part)) ** 0.6;
    const hue = part === 0 ? 80 : part > 0 ? 45 : 172, chroma = (part > 0 ? 0.145 : 0.1) * strength;
    return this.isDark ? oklch(0.4 + 0.12 * strength, 0.006 + chroma, hue)
      : oklch(0.92 - 0.17 * strength, 0.006 + chroma, hue);
  }

  /* From blue, what is freed soon, to vermilion, what stays. */
  ofAge(part) {
    const share = Math.min(1, Math.max(0, part)), hue = share < 0.5 ? 250 : 45, chroma = 0.02 + 0.22 * Math.abs(share - 0.5);
    return this.tone(chroma, hue, 0);
  }

  fill(box, mode) {
    if (!this.model.isFunction(box.node))
      return this.rest;
    if (mode === 'age')
      return css(this.ofAge(box.shareInUse));
    if (mode === 'difference')
      return css(this.ofChange(box.size > 0 ? box.change / box.size : 0));
    const cache = this.caches[mode];
    let colour = cache.get(box.node);
    if (colour === undefined) {
      const { names, modules } = this.model, name = names[box.node];
      colour = css(mode === 'module' ? this.ofModule(modules[box.node], shade(hashText(name)))
        : this.ofFunction(name));
      cache.set(box.node, colour);
    }
    return colour;
  }
}
