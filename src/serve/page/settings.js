/* The settings of a conversation: what is sent with its requests. An empty field sends nothing, so that the
 * server's own default holds; the placeholder shows it. New conversations begin with the settings that were
 * changed last, but for the system prompt. */
const settings = (() => {
  'use strict';
  const { $, el, button, isNumber, toast } = util;

  /* key: of the params and, unless `send` differs, of the request. */
  const NUMBERS = [
    { key: 'temperature', label: 'Temperature', min: 0, max: 2, step: 0.05,
      doc: '0 takes the likeliest token each time' },
    { key: 'top_p', label: 'Top p', min: 0, max: 1, step: 0.01,
      doc: 'Only the likeliest tokens that together have this probability' },
    { key: 'top_k', label: 'Top k', min: 0, max: 1000000, step: 1,
      doc: 'Only so many of the likeliest tokens; 0 takes all' },
    { key: 'min_p', label: 'Min p', min: 0, max: 1, step: 0.01,
      doc: 'Only tokens at least this likely, relative to the likeliest' },
    { key: 'max_tokens', send: 'max_completion_tokens', label: 'Most tokens', min: 1, max: 100000000, step: 1,
      doc: 'An answer ends after so many' },
    { key: 'seed', label: 'Seed', min: 0, max: Number.MAX_SAFE_INTEGER, step: 1,
      doc: 'The same seed gives the same answer' },
  ];
  const TOOLS_DOC = 'The model may call them; you write their results.';
  const EFFORT_NAMES = { none: 'None', minimal: 'Minimal', low: 'Low', medium: 'Medium', high: 'High' };

  let params = {};
  let changed = () => {};
  const fields = {};
  let wide = false; /* open */

  /* The number in a field: undefined when empty, null when it is none or out of bounds. */
  function number(f, text) {
    if (text.trim() === '') return undefined;
    const v = Number(text);
    const ok = isNumber(v) && v >= f.min && v <= f.max && (f.step !== 1 || Number.isInteger(v));
    return ok ? v : null;
  }

  function set(key, value) {
    if (value === undefined || value === '') delete params[key];
    else params[key] = value;
    store.setting('params', { ...params, system: undefined });
    changed(params);
  }

  function numberField(f) {
    const id = 'set-' + f.key;
    const input = el('input', {
      id, type: 'text', inputmode: f.step === 1 ? 'numeric' : 'decimal', autocomplete: 'off',
      'aria-describedby': id + '-doc',
    });
    const doc = el('p', { id: id + '-doc', class: 'doc', text: f.doc });
    input.addEventListener('input', () => {
      const v = number(f, input.value);
      input.setAttribute('aria-invalid', String(v === null));
      doc.textContent = v === null
        ? `Needs ${f.step === 1 ? 'a whole number' : 'a number'} from ${f.min} to ${f.max}` : f.doc;
      if (v !== null) set(f.key, v);
    });
    fields[f.key] = input;
    return el('div', { class: 'field' }, el('label', { for: id, text: f.label }), input, doc);
  }

  /* The tools of the request, from the text of the field; throws a sentence. */
  function parseTools(text) {
    let tools;
    try { tools = JSON.parse(text); } catch (e) { throw new Error(`Tools: ${e.message}`); }
    if (!Array.isArray(tools)) throw new Error('Tools: need a JSON array of {"type": "function", "function": {…}}');
    return tools;
  }

  function build() {
    const system = fields.system = el('textarea', { id: 'set-system', rows: '4', placeholder: 'None' });
    system.addEventListener('input', () => set('system', system.value));
    const effort = fields.effort = el('select', { id: 'set-effort' });
    effort.addEventListener('change', () => set('effort', effort.value));
    const tools = fields.tools = el('textarea', {
      id: 'set-tools', rows: '5', spellcheck: 'false', class: 'mono',
      placeholder: '[{"type": "function", "function": {"name": …}}]', 'aria-describedby': 'set-tools-doc',
    });
    const toolsDoc = el('p', { id: 'set-tools-doc', class: 'doc', text: TOOLS_DOC });
    tools.addEventListener('input', () => {
      let why = '';
      if (tools.value.trim()) try { parseTools(tools.value); } catch (e) { why = e.message; }
      tools.setAttribute('aria-invalid', String(why !== ''));
      toolsDoc.textContent = why || TOOLS_DOC;
      set('tools', tools.value.trim() ? tools.value : undefined);
    });
    const key = el('input', { id: 'set-key', type: 'password', autocomplete: 'off', spellcheck: 'false',
      placeholder: 'None' });
    const keep = el('input', { type: 'checkbox', id: 'set-keep' });
    const setKey = () => api.setKey(key.value.trim(), keep.checked);
    key.addEventListener('change', setKey);
    keep.addEventListener('change', setKey);
    fields.key = key;
    fields.keep = keep;

    $('settings').append(
      el('header', {}, el('h2', { text: 'Settings' }), button('Close settings', 'close', () => open(false))),
      el('div', { class: 'settings-body' },
        el('div', { class: 'field' }, el('label', { for: 'set-system', text: 'System prompt' }), system),
        el('div', { class: 'pairs' }, ...NUMBERS.map(numberField)),
        fields.effortBox = el('div', { class: 'field' },
          el('label', { for: 'set-effort', text: 'Reasoning effort' }), effort),
        fields.toolsBox = el('details', { class: 'field' }, el('summary', { text: 'Tools' }),
          el('label', { class: 'sr', for: 'set-tools', text: 'Tools, JSON' }), tools, toolsDoc),
        el('details', { class: 'field' }, el('summary', { text: 'API key' }),
          el('label', { class: 'sr', for: 'set-key', text: 'API key' }), key,
          el('label', { class: 'check' }, keep, 'Keep it in this browser')),
        el('button', { type: 'button', class: 'plain', text: 'The server’s defaults again', on: { click: reset } })));
  }

  function fill() {
    fields.system.value = params.system || '';
    for (const f of NUMBERS) {
      fields[f.key].value = params[f.key] ?? '';
      fields[f.key].removeAttribute('aria-invalid');
    }
    fields.effort.value = params.effort || '';
    fields.tools.value = params.tools || '';
    fields.key.value = api.key();
    fields.keep.checked = api.keyIsKept();
  }

  function reset() {
    const p = params, before = { ...p };
    for (const k of Object.keys(p)) delete p[k];
    set('system', undefined);
    fill();
    const undo = () => {
      if (params !== p) return; /* another conversation is open by now */
      Object.assign(p, before);
      set('system', before.system);
      fill();
    };
    toast('Settings are the server’s defaults.', { label: 'Undo', run: undo });
  }

  /* What the server says of itself: defaults become placeholders, what the model cannot do is not offered. */
  function know(props) {
    const defaults = props.default_generation_settings?.params || {};
    for (const f of NUMBERS) {
      const v = defaults[f.key];
      fields[f.key].placeholder = isNumber(v) && v >= f.min ? String(Number(v.toPrecision(6))) : 'default';
    }
    const chat = props.glim?.chat || {};
    const efforts = chat.efforts || Object.keys(EFFORT_NAMES);
    fields.effort.replaceChildren(el('option', { value: '', text: 'Default' }),
      ...efforts.map(e => el('option', { value: e, text: EFFORT_NAMES[e] || e })));
    fields.effort.value = params.effort || '';
    fields.effortBox.hidden = efforts.length === 0;
    fields.toolsBox.hidden = chat.tools === false;
  }

  /* p is changed in place. */
  function show(p, onChange) {
    params = p;
    changed = onChange;
    fill();
  }

  function open(yes, focus = true) {
    wide = yes;
    $('settings').hidden = !yes;
    document.body.classList.toggle('with-settings', yes);
    $('settings-open').setAttribute('aria-expanded', String(yes));
    if (yes) fill();
    if (focus) (yes ? fields.system : $('settings-open')).focus();
  }

  /* The fields of a request; throws a sentence. */
  function request(p) {
    const body = {};
    for (const f of NUMBERS) if (p[f.key] !== undefined) body[f.send || f.key] = p[f.key];
    if (p.effort) body.reasoning_effort = p.effort;
    if (p.tools) body.tools = parseTools(p.tools);
    return body;
  }

  return { build, show, know, open, isOpen: () => wide, request,
    initial: () => ({ ...(store.setting('params') || {}) }) };
})();
