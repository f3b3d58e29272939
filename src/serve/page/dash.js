/* The dashboard: /telemetry once a second, /props when it is opened. The stream runs while the page can be seen;
 * what it brought in the last five minutes is kept for the drawings. src/serve/page.h has the format. */
const dash = (() => {
  'use strict';
  const { $, el, isNumber, count, short, seconds, percent, bytes, plural, toast } = util;

  const SPAN = 300;     /* seconds of history */
  const STALE = 4;      /* seconds without a frame until the page says so */
  const RETRY_MAX = 10; /* seconds between attempts to connect */

  let frames = [];      /* {t, frame}: t of the server's clock, seconds */
  let lastAt = -Infinity, controller = null, retry = 1, timer = null;
  let trouble = '';     /* why there is no stream */
  let onLoad = () => {};
  let parts = null;

  const clock = () => performance.now() / 1000;

  /* ---- the stream ---- */

  async function listen() {
    const c = controller = new AbortController();
    try {
      const reply = await api.request('/telemetry', { signal: c.signal, quiet: $('dash').hidden });
      trouble = '';
      await api.events(reply, data => { if (controller === c) take(data); });
    } catch (e) {
      if (e.name === 'AbortError') return;
      trouble = e.status === 401 ? 'needs a key' : e.status === 404 || e.status === 501 ? 'no telemetry' : '';
    }
    if (controller !== c) return;
    controller = null;
    timer = setTimeout(watch, 1000 * retry);
    retry = Math.min(RETRY_MAX, retry * 2);
  }

  function take(data) {
    let frame;
    try { frame = JSON.parse(data); } catch { return; }
    if (!frame || typeof frame !== 'object') return;
    retry = 1;
    lastAt = clock();
    const t = isNumber(frame.time) ? frame.time : lastAt;
    if (frames.length && t <= frames[frames.length - 1].t) frames = []; /* its clock was set back: begin anew */
    frames.push({ t, frame });
    while (frames[0].t < t - SPAN) frames.shift();
    paint();
    badge();
    onLoad(frame);
  }

  /* Connects when the page can be seen, and lets go when not. */
  function watch() {
    clearTimeout(timer);
    if (document.hidden) {
      if (controller) controller.abort();
      controller = null;
    } else if (!controller) listen();
  }

  /* ---- the badge in the head line ---- */

  function badge() {
    const b = $('badge');
    const age = clock() - lastAt;
    const [state, text] = age <= STALE ? ['live', 'live']
      : frames.length ? ['stale', `stale, ${seconds(Math.floor(age))}`] : ['off', trouble || 'connecting'];
    if (b.textContent !== text) b.textContent = text;
    b.className = 'badge ' + state;
    $('dash').classList.toggle('stale', state === 'stale');
  }

  /* ---- history ---- */

  /* Values over time with a gap where frames are missing. */
  function points(get) {
    const out = [];
    let last = null;
    for (const { t, frame } of frames) {
      if (last !== null && t - last > STALE) out.push({ t: last + 1, v: null });
      const v = get(frame);
      out.push({ t, v: isNumber(v) ? v : null });
      last = t;
    }
    return out;
  }

  /* A histogram's counts since the oldest frame in memory; all of them after a restart of the server. */
  function recent(name, counts) {
    const old = frames[0].frame[name]?.counts || [];
    const diff = counts.map((n, i) => n - (old[i] || 0));
    return diff.some(n => n < 0) ? counts : diff;
  }

  function change(get) {
    const a = get(frames[0].frame), b = get(frames[frames.length - 1].frame);
    return isNumber(a) && isNumber(b) && b >= a ? b - a : b;
  }

  /* ---- parts ---- */

  const TILES = [
    ['Answers running', f => count(f.queue?.running),
      f => f.queue?.max_running ? `of ${count(f.queue.max_running)}` : ''],
    ['Waiting', f => count(f.queue?.waiting), f => f.queue?.max_waiting ? `of ${count(f.queue.max_waiting)}` : ''],
    ['Prefix-cache hits', () => percent(change(f => f.tokens?.cached_total), change(f => f.tokens?.prompt_total)),
      f => `${percent(f.tokens?.cached_total, f.tokens?.prompt_total)} since start`],
    ['Drafts accepted', () => percent(change(f => f.drafts?.accepted_total), change(f => f.drafts?.proposed_total)),
      f => f.drafts?.proposed_total ? `${count(f.drafts.accepted_total)} of ${count(f.drafts.proposed_total)}`
      : 'none made'],
    ['Rows a step', f => short(f.steps?.rows_mean ?? NaN), f => isNumber(f.steps?.last_age_s)
      ? `last step ${seconds(f.steps.last_age_s)} ago` : 'no step yet'],
    ['Answers done', f => count(done(f)), f => faults(f)],
    ['Tokens generated', f => count(f.tokens?.generated_total), f => `${count(f.tokens?.prompt_total)} read`],
    ['Up', f => seconds(f.uptime_s), f => isNumber(f.rss_bytes) ? bytes(f.rss_bytes) + ' of memory' : ''],
  ];
  const done = f => f.finished
    ? ['length', 'end', 'stop', 'cancelled', 'deadline', 'error'].reduce((n, k) => n + (f.finished[k] || 0), 0) : NaN;
  function faults(f) {
    const some = [['cancelled', 'cancelled'], ['deadline', 'too late'], ['error', 'failed'],
      ['refused', 'refused']].filter(([k]) => f.finished?.[k]);
    return some.map(([k, name]) => `${count(f.finished[k])} ${name}`).join(', ');
  }

  function tiles() {
    const made = TILES.map(([name, value, note]) => {
      const dd = el('dd'), small = el('dd', { class: 'small' });
      return { node: el('div', {}, el('dt', { text: name }), dd, small),
        set(f) { dd.textContent = value(f); small.textContent = note(f); } };
    });
    return { node: el('dl', { class: 'tiles' }, ...made.map(m => m.node)), set: f => made.forEach(m => m.set(f)) };
  }

  const STATES = { queued: 'waiting', prefill: 'reading', decode: 'writing' };
  const COLUMNS = ['Request', 'State', 'Prompt', 'Cached', 'Generated', 'tok/s', 'Age', ''];
  const numeric = i => i >= 2 && i <= 6 ? 'n' : '';

  function requestRow(id) {
    const cells = COLUMNS.slice(0, -1).map((name, i) =>
      i ? el('td', { 'data-name': name, class: numeric(i) }) : el('th', { scope: 'row' }));
    const cancel = el('button', {
      type: 'button', text: 'Cancel', 'aria-label': `Cancel request ${id}`, on: { click: async () => {
      if (cancel.ariaDisabled === 'true') return;
      cancel.ariaDisabled = 'true'; /* a disabled button would lose the focus */
      cancel.textContent = 'Cancelling';
      try {
        await api.request(`/v1/requests/${encodeURIComponent(id)}/cancel`, { method: 'POST' });
      } catch (e) {
        if (e.status === 404) return;
        toast(`Request ${id} was not cancelled: ${e.message}`);
        cancel.ariaDisabled = 'false';
        cancel.textContent = 'Cancel';
      }
    } } });
    const row = el('tr', {}, ...cells, el('td', { class: 'act' }, cancel));
    let was = null;
    return {
      row,
      set(r, t) {
        const speed = was && t > was.t ? (r.generated - was.n) / (t - was.t) : null;
        was = { n: r.generated, t };
        const state = STATES[r.state] || r.state || '';
        const text = [`${id}${r.api ? ' ' + r.api : ''}`,
          r.state === 'prefill' && r.prompt ? `${state} ${percent(r.done, r.prompt)}` : state,
          count(r.prompt), count(r.cached), count(r.generated),
          r.state === 'decode' && isNumber(speed) ? short(speed) : '–', seconds(r.age_s)];
        text.forEach((s, i) => { if (cells[i].textContent !== s) cells[i].textContent = s; });
        row.dataset.state = r.state;
      },
    };
  }

  function requests() {
    const body = el('tbody');
    const rows = new Map();
    const none = el('p', { class: 'none', text: 'Nothing is running.' });
    const table = el('table', {},
      el('thead', {}, el('tr', {}, ...COLUMNS.map((c, i) =>
        c ? el('th', { scope: 'col', text: c, class: numeric(i) }) : el('td')))), body);
    return {
      node: el('section', { class: 'wide' }, el('h2', { text: 'Requests' }), none,
        el('div', { class: 'table', tabindex: '0', role: 'group', 'aria-label': 'Running requests' }, table)),
      set(f) {
        const list = Array.isArray(f.requests) ? f.requests : [];
        const ids = new Set(list.map(r => String(r.id)));
        for (const [id, r] of rows) if (!ids.has(id)) {
          if (r.row.contains(document.activeElement)) $('dash').focus();
          r.row.remove();
          rows.delete(id);
        }
        for (const r of list) {
          const id = String(r.id);
          if (!rows.has(id)) {
            rows.set(id, requestRow(id));
            body.append(rows.get(id).row);
          }
          rows.get(id).set(r, frames[frames.length - 1].t);
        }
        none.hidden = list.length > 0;
        table.parentNode.hidden = list.length === 0;
      },
    };
  }

  /* ---- what does not change while the server runs ---- */

  function factTable(head, rows) {
    return el('div', { class: 'table fact', tabindex: '0', role: 'group', 'aria-label': head.join(', ') },
      el('table', {}, el('thead', {}, el('tr', {}, ...head.map(h => el('th', { scope: 'col', text: h })))),
      el('tbody', {}, ...rows.map(r => el('tr', {},
        ...r.map((v, i) => el(i ? 'td' : 'th', { scope: i ? null : 'row', text: v })))))));
  }

  function facts() {
    const levers = el('div'), kernels = el('div'), model = el('p', { class: 'facts' });
    return {
      model,
      nodes: [el('section', {}, el('h2', { text: 'Levers in force' }), levers),
        el('section', {}, el('h2', { text: 'Kernels in use' }), kernels)],
      set(props) {
        const g = props.glim || {}, m = g.model || {};
        model.textContent = [m.name, m.family, isNumber(m.params) ? `${short(m.params / 1e9)} B weights` : '',
          isNumber(m.weight_bytes) ? bytes(m.weight_bytes) : '', 
          isNumber(m.ctx) ? `${count(m.ctx)} tokens of context` : '',
          g.backend, isNumber(g.threads) ? plural(g.threads, 'thread') : '', 
          g.version ? `glim ${g.version}` : ''].filter(Boolean).join(' · ');
        const text = v => v === null || v === undefined ? '' : typeof v === 'object' ? JSON.stringify(v) : String(v);
        const all = Array.isArray(g.levers) ? g.levers : [];
        const set = all.filter(l => l.origin && l.origin !== 'default'), rest = all.filter(l => !set.includes(l));
        const row = l => [l.key, text(l.value), l.origin === 'default' ? '' : text(l.origin), 
          l.bits === 'changes' ? 'changes answers' : '', text(l.doc)];
        const head = ['Lever', 'Value', 'From', 'Bits', 'What it does'];
        levers.replaceChildren(
          set.length ? factTable(head, set.map(row))
            : el('p', { class: 'none', text: 'All levers have their defaults.' }),
          ...(rest.length ? [el('details', {},
            el('summary', { text: `${plural(rest.length, 'lever')} at the default` }),
            factTable(head, rest.map(row)))] : []));
        const k = Array.isArray(g.kernels) ? g.kernels : [];
        kernels.replaceChildren(k.length
          ? factTable(['Op', 'Kernel', 'Why'], k.map(x => [text(x.op), text(x.kernel), text(x.why)]))
          : el('p', { class: 'none', text: 'The server names none.' }));
      },
    };
  }

  function build() {
    parts = {
      facts: facts(), tiles: tiles(), requests: requests(),
      generated: charts.series('Generated', 'tok/s', SPAN), prompt: charts.series('Prompts read', 'tok/s', SPAN),
        queue: charts.series('Running and waiting', 'answers', SPAN),
      ttft: charts.histogram('Time to first token'), itl: charts.histogram('Between tokens'),
        kv: charts.map('KV pages'),
    };
    const p = parts;
    $('dash').tabIndex = -1;
    $('dash').append(el('div', { class: 'dash-in' }, p.facts.model, p.tiles.node,
      el('div', { class: 'charts' }, p.generated.node, p.prompt.node, p.queue.node, p.ttft.node, p.itl.node,
        p.kv.node), p.requests.node, ...p.facts.nodes));
  }

  function paint() {
    if ($('dash').hidden || !frames.length) return;
    const f = frames[frames.length - 1].frame, p = parts;
    p.tiles.set(f);
    p.generated.set(points(x => x.tokens?.generated_per_s));
    p.prompt.set(points(x => x.tokens?.prompt_per_s));
    p.queue.set(points(x => x.queue ? x.queue.running + x.queue.waiting : null));
    for (const name of ['ttft', 'itl']) {
      const h = f[name];
      if (h && Array.isArray(h.edges) && Array.isArray(h.counts)) p[name].set(h.edges, h.counts,
        recent(name, h.counts));
    }
    if (f.kv && isNumber(f.kv.pages)) p.kv.set(f.kv.pages,
      [['used', 'in use', f.kv.used || 0], ['cached', 'cached', f.kv.cached || 0]], 
      f.kv.page_tokens ? `${f.kv.page_tokens} tokens each` : '');
    p.requests.set(f);
  }

  function show() {
    $('title').textContent = 'Dashboard';
    retry = 1;
    if (!controller) watch();
    paint();
    api.json('/props').then(parts.facts.set, e => { parts.facts.model.textContent = `/props: ${e.message}`; });
  }

  function start(load) {
    onLoad = load;
    build();
    setInterval(badge, 500);
    document.addEventListener('visibilitychange', watch);
    watch();
    badge();
  }

  return { start, show };
})();
