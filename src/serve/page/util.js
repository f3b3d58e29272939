/* Small things every part uses: making elements, writing numbers, telling people something. */
const util = (() => {
  'use strict';

  const $ = id => document.getElementById(id);

  /* An element. props: class, text, on: {event: handler}, and attributes; null and false leave an attribute out. */
  function el(tag, props = {}, ...children) {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(props)) {
      if (k === 'class') e.className = v;
      else if (k === 'text') e.textContent = v;
      else if (k === 'on') for (const [event, f] of Object.entries(v)) e.addEventListener(event, f);
      else if (v !== null && v !== undefined && v !== false) e.setAttribute(k, v === true ? '' : v);
    }
    e.append(...children.filter(c => c !== null && c !== undefined));
    return e;
  }

  const SVG = 'http://www.w3.org/2000/svg';
  function svg(tag, attributes = {}, ...children) {
    const e = document.createElementNS(SVG, tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    e.append(...children);
    return e;
  }
  const icon = name => svg('svg', { 'aria-hidden': 'true' }, svg('use', { href: '#i-' + name }));

  function button(label, iconName, onClick, props = {}) {
    return el('button', { type: 'button', class: 'icon', 'aria-label': label, title: label, on: { click: onClick },
      ...props }, icon(iconName));
  }

  const isNumber = v => typeof v === 'number' && Number.isFinite(v);

  /* 1234567 -> 1,234,567; nothing for what is no number. */
  const count = v => isNumber(v) ? Math.round(v).toLocaleString('en-US') : '–';
  /* Three digits or so: 0.042, 4.23, 42.3, 423, 4,230; whole numbers as they are. */
  function short(v) {
    if (!isNumber(v)) return '–';
    const a = Math.abs(v);
    return a >= 100 || Number.isInteger(v) ? count(v) : v.toFixed(a >= 10 ? 1 : a >= 1 ? 2 : 3);
  }
  function seconds(v) {
    if (!isNumber(v)) return '–';
    if (v < 1) return short(v * 1000) + ' ms';
    if (v < 100) return short(v) + ' s';
    const s = Math.round(v), m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
    if (m < 60) return `${m} min ${s % 60} s`;
    return h < 48 ? `${h} h ${m % 60} min` : `${d} d ${h % 24} h`;
  }
  const percent = (part, all) => isNumber(part) && isNumber(all) && all > 0
    ? (100 * part / all).toFixed(part === all || part === 0 ? 0 : 1) + ' %' : '–';
  function bytes(v) {
    if (!isNumber(v)) return '–';
    const unit = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let i = 0;
    while (v >= 1024 && i < unit.length - 1) { v /= 1024; i++; }
    return (i ? short(v) : v) + ' ' + unit[i];
  }
  const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many || one + 's'}`;

  /* For screen readers: said once, politely. */
  function say(text) {
    $('live').textContent = '';
    requestAnimationFrame(() => { $('live').textContent = text; });
  }

  /* A note at the bottom; action: {label, run}. */
  function toast(text, action) {
    const t = el('div', { class: 'toast' }, el('span', { text }));
    const close = () => t.remove();
    const timer = setTimeout(close, action ? 10000 : 6000);
    if (action) t.append(el('button',
      { type: 'button', text: action.label, on: { click: () => { clearTimeout(timer); close(); action.run(); } } }));
    t.append(button('Dismiss', 'close', close));
    const box = $('toasts');
    while (box.children.length > 2) box.firstChild.remove();
    box.append(t);
  }

  /* Plain pages on other machines have no clipboard object; there the old way still works. */
  async function copy(text, from) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = el('textarea', { class: 'sr' });
      area.value = text;
      document.body.append(area);
      area.select();
      const ok = document.execCommand('copy');
      area.remove();
      if (from) from.focus();
      if (!ok) return toast('Could not copy: the browser refused.');
    }
    say('Copied');
    if (!from) return;
    from.classList.add('done');
    setTimeout(() => from.classList.remove('done'), 1200);
  }

  return { $, el, svg, icon, button, isNumber, count, short, seconds, percent, bytes, plural, say, toast, copy };
})();
