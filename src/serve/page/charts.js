/* Three small drawings in SVG: a value over time, a histogram, a map of pages. Colours are classes of the style
 * sheet. */
const charts = (() => {
  'use strict';
  const { el, svg, short, seconds, count, percent, isNumber } = util;

  const HEIGHT = 88;

  /* The next of 1, 2, 5 times a power of ten. */
  function nice(v) {
    if (!(v > 0)) return 1;
    const p = 10 ** Math.floor(Math.log10(v));
    return [1, 2, 5, 10].find(k => k * p >= v) * p;
  }

  /* label and the value of now above, the drawing below; the drawing is redrawn when its width changes. */
  function frame(label, draw) {
    const value = el('span', { class: 'now' });
    const picture = svg('svg', { class: 'plot', role: 'img', height: HEIGHT });
    const node = el('figure', { class: 'chart' }, el('figcaption', {}, el('span', { text: label }), value), picture);
    let width = 0;
    new ResizeObserver(() => {
      const w = Math.floor(picture.getBoundingClientRect().width);
      if (w === width || w === 0) return;
      width = w;
      draw(picture, width);
    }).observe(picture);
    return { node, value, picture, redraw: () => { if (width) draw(picture, width); } };
  }

  /* points: [{t: seconds, v: number or null}], ascending; null breaks the line. What is there is shown, but at
   * least a minute and at most `most` seconds. */
  function series(label, unit, most) {
    let points = [], span = 60;
    const f = frame(label, draw);
    const tip = el('span', { class: 'tip', hidden: true });
    f.node.append(tip);

    function draw(picture, w) {
      const h = HEIGHT, end = points.length ? points[points.length - 1].t : 0;
      const top = nice(Math.max(0, ...points.map(p => p.v ?? 0)));
      const x = t => w * (1 - (end - t) / span), y = v => h - 14 - (h - 20) * v / top;
      let line = '', area = '', from = null, prev = null;
      const close = () => {
        if (from !== null) area += `L${prev.toFixed(1)} ${y(0)}L${from.toFixed(1)} ${y(0)}Z`;
        from = null;
      };
      for (const p of points) {
        if (p.v === null) { close(); continue; }
        const at = `${x(p.t).toFixed(1)} ${y(p.v).toFixed(1)}`;
        line += (from === null ? 'M' : 'L') + at;
        area += (from === null ? 'M' : 'L') + at;
        if (from === null) from = x(p.t);
        prev = x(p.t);
      }
      close();
      picture.setAttribute('viewBox', `0 0 ${w} ${h}`);
      const text = (tx, ty, anchor, s) => svg('text', { x: tx, y: ty, 'text-anchor': anchor }, s);
      picture.replaceChildren(
        svg('path', { class: 'grid', d: `M0 ${y(0) + .5}H${w}M0 ${y(top / 2)}H${w}M0 ${y(top)}H${w}` }),
        svg('path', { class: 'area', d: area }), svg('path', { class: 'line', d: line }),
        text(0, 12, 'start', short(top)),
        text(0, h - 2, 'start', span < 120 ? `${Math.round(span)} s ago` : `${Math.round(span / 60)} min ago`),
        text(w, h - 2, 'end', 'now'));
    }

    f.picture.addEventListener('pointermove', e => {
      const box = f.picture.getBoundingClientRect();
      const end = points.length ? points[points.length - 1].t : 0;
      const t = end - span * (1 - (e.clientX - box.left) / box.width);
      const p = points.reduce((best, q) =>
        q.v !== null && (!best || Math.abs(q.t - t) < Math.abs(best.t - t)) ? q : best, null);
      tip.hidden = !p || Math.abs(p.t - t) > 3;
      if (!tip.hidden) tip.textContent = `${short(p.v)} ${unit}, ${Math.round(end - p.t)} s ago`;
    });
    f.picture.addEventListener('pointerleave', () => { tip.hidden = true; });

    return {
      node: f.node,
      set(p) {
        points = p;
        span = p.length ? Math.min(most, Math.max(60, p[p.length - 1].t - p[0].t)) : 60;
        const v = p.length ? p[p.length - 1].v : null;
        f.value.textContent = isNumber(v) ? `${short(v)} ${unit}` : '–';
        const known = p.filter(q => q.v !== null).map(q => q.v);
        f.picture.setAttribute('aria-label', known.length
          ? `${label}: now ${short(v)} ${unit}, at most ${short(Math.max(...known))} in the last ${seconds(span)}`
          : `${label}: no data`);
        f.redraw();
      },
    };
  }

  /* The value below which the part q of a histogram's observations lies, evenly spread inside a bucket. edges:
   * upper bounds; counts: one more. Infinity when it lies above the last edge, null without observations. */
  function quantile(edges, counts, q) {
    const all = counts.reduce((a, b) => a + b, 0);
    if (!all) return null;
    let below = 0;
    for (let i = 0; i < counts.length; i++) {
      if (below + counts[i] >= q * all && counts[i]) {
        if (i >= edges.length) return Infinity;
        const low = i ? edges[i - 1] : 0;
        return low + (edges[i] - low) * (q * all - below) / counts[i];
      }
      below += counts[i];
    }
    return Infinity;
  }
  const bound = (edges, v) =>
    v === null ? '–' : v === Infinity ? `> ${seconds(edges[edges.length - 1])}` : seconds(v);

  const key = (kind, text) => el('span', { class: 'key' }, el('i', { class: 'swatch ' + kind }), text);

  /* Light bars since the start, strong ones of the last minutes, each as parts of its own sum. */
  function histogram(label) {
    let data = null;
    const f = frame(label, draw);
    const foot = el('p', { class: 'legend' });
    f.node.append(foot);

    function draw(picture, w) {
      picture.setAttribute('viewBox', `0 0 ${w} ${HEIGHT}`);
      picture.replaceChildren();
      if (!data) return;
      const { edges, counts, recent } = data, n = counts.length;
      const share = a => { const s = a.reduce((x, y) => x + y, 0); return a.map(v => s ? v / s : 0); };
      const all = share(counts), now = share(recent);
      const top = Math.max(...all, ...now, 1e-9), h = HEIGHT - 16, step = w / n;
      picture.append(svg('path', { class: 'grid', d: `M0 ${h + .5}H${w}` }));
      for (let i = 0; i < n; i++) {
        const bar = (v, kind, inset) => picture.append(svg('rect', {
          class: kind, x: (i * step + inset).toFixed(1), width: Math.max(1, step - 2 * inset).toFixed(1),
          y: (h - (h - 4) * v / top).toFixed(1), height: ((h - 4) * v / top).toFixed(1),
        }));
        if (all[i]) bar(all[i], 'bar-all', 1);
        if (now[i]) bar(now[i], 'bar-now', Math.max(1, step / 4));
      }
      const every = Math.ceil(n / Math.max(2, Math.floor(w / 64)));
      for (let i = every - 1; i < edges.length; i += every) {
        const x = ((i + 1) * step).toFixed(1);
        picture.append(svg('text', { x, y: HEIGHT - 2, 'text-anchor': 'middle' }, seconds(edges[i])));
      }
    }

    return {
      node: f.node,
      /* recent: counts of the last minutes. */
      set(edges, counts, recent) {
        data = { edges, counts, recent };
        const of = c => [0.5, 0.95].map(q => bound(edges, quantile(edges, c, q)));
        const some = recent.some(v => v > 0);
        const [p50, p95] = of(some ? recent : counts), [a50, a95] = of(counts);
        f.value.replaceChildren(el('small', { text: 'p50 ' }), p50, el('small', { text: ' p95 ' }), p95);
        foot.replaceChildren(key('now', 'last 5 min'), key('all', `since start: ${a50}, ${a95}`));
        f.picture.setAttribute('aria-label',
          `${label}: median ${p50}, 95th percentile ${p95}, ${count(counts.reduce((a, b) => a + b, 0))} observations`);
        f.redraw();
      },
    };
  }

  /* Pages as a field of cells, each standing for an equal part; kinds: [[class, name, number]], the rest up to
   * `all` is free. */
  const CELLS = 160;
  function map(label) {
    const cells = el('div', { class: 'cells', role: 'img' }, ...Array.from({ length: CELLS }, () => el('i')));
    const legend = el('p', { class: 'legend' });
    const value = el('span', { class: 'now' });
    const title = el('span', { text: label });
    const node = el('figure', { class: 'chart' }, el('figcaption', {}, title, value), cells, legend);
    return {
      node,
      set(all, kinds, note) {
        const free = all - kinds.reduce((n, k) => n + k[2], 0), parts = [...kinds, ['free', 'free', free]];
        let i = 0, sum = 0;
        for (const [kind, , n] of parts) {
          sum += n;
          const end = all > 0 ? Math.round(CELLS * sum / all) : 0;
          /* A kind that exists shows at least one cell. */
          const stop = Math.min(CELLS, Math.max(end, n > 0 && kind !== 'free' ? i + 1 : 0));
          for (; i < stop; i++) cells.children[i].className = kind;
        }
        value.textContent = percent(all - free, all);
        legend.replaceChildren(...parts.map(([kind, name, n]) => key(kind, `${name} ${count(n)}`)));
        title.textContent = note ? `${label}, ${note}` : label;
        const said = parts.map(([, name, n]) => `${name} ${count(n)}`).join(', ');
        cells.setAttribute('aria-label', `${said} of ${count(all)} pages`);
      },
    };
  }

  return { series, histogram, map, quantile, bound };
})();
