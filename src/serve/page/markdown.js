/* Markdown of answers into nodes, also while they grow.
 *
 * An answer is the model's text: nothing in it may run, load, vanish or look like a part of the page. marked makes
 * HTML of it, in which tags that the text itself contains are shown as text, but for a few plain ones. DOMPurify
 * keeps a short list of tags and attributes, and the hook below looks at what is left: links of three schemes,
 * images that are inside the text, `class` only for a code block's language. The result is a fragment, never a
 * string. */
const markdown = (() => {
  'use strict';
  const { el, button, copy, isNumber } = util;

  const TAGS = [
    'a', 'b', 'blockquote', 'br', 'code', 'del', 'details', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'i',
    'img', 'input', 'ins', 'kbd', 'li', 'mark', 'ol', 'p', 'pre', 's', 'small', 'strong', 'sub', 'summary', 'sup',
    'table', 'tbody', 'td', 'th', 'thead', 'tr', 'u', 'ul'];
  const ATTRIBUTES = ['align', 'alt', 'checked', 'class', 'disabled', 'href', 'src', 'start', 'title', 'type'];
  const LINK = /^(https?|mailto):/i;
  const IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,/i;

  /* Tags of the text that are meant: those without attributes, of this list. */
  const OTHER_TAG = /<(?!\/?(?:b|br|details|i|ins|kbd|mark|s|small|sub|summary|sup|u)\s*\/?>)/gi;

  const renderer = new marked.Renderer();
  renderer.html = text => {
    const safe = text.replace(OTHER_TAG, '&lt;');
    return safe === text || !text.endsWith('\n') ? safe : `<p>${safe}</p>\n`; /* a block ends its line */
  };
  marked.setOptions({ gfm: true, breaks: false, mangle: false, headerIds: false, renderer });

  DOMPurify.addHook('afterSanitizeAttributes', node => {
    const tag = node.nodeName;
    const language = tag === 'CODE' && /^language-[\w+#.-]{1,20}$/.test(node.className);
    if (!language) node.removeAttribute('class');
    if (tag === 'A') {
      if (!LINK.test(node.getAttribute('href') || '')) node.removeAttribute('href');
      else { node.setAttribute('target', '_blank'); node.setAttribute('rel', 'noopener noreferrer nofollow'); }
    } else node.removeAttribute('href');
    if (tag === 'IMG' && !IMAGE.test(node.getAttribute('src') || '')) {
      const src = node.getAttribute('src') || '';
      const text = node.getAttribute('alt') || 'image';
      node.replaceWith(/^https?:/i.test(src) ? el('a', { href: src, text: `${text} (image, not loaded)` }) : text);
    } else if (tag !== 'IMG') node.removeAttribute('src');
    if (tag === 'INPUT') {
      if (node.getAttribute('type') !== 'checkbox') node.remove();
      else node.setAttribute('disabled', '');
    }
  });

  function clean(html) {
    return DOMPurify.sanitize(html, {
      RETURN_DOM_FRAGMENT: true, ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ATTRIBUTES, ALLOW_DATA_ATTR: false,
      ALLOW_ARIA_ATTR: false, ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/)/i,
      ADD_URI_SAFE_ATTR: ATTRIBUTES.filter(a => a !== 'href' && a !== 'src'),
    });
  }

  /* Words, strings, numbers and comments of a program in whatever language: enough to read by. */
  const COMMENT = {
    hash: ['python', 'py', 'sh', 'bash', 'shell', 'zsh', 'ruby', 'rb', 'yaml', 'yml', 'toml', 'perl', 'r', 'cmake',
      'makefile', 'make', 'dockerfile', 'nix', 'elixir', 'ini', 'conf'],
    dash: ['sql', 'lua', 'haskell', 'hs', 'ada', 'elm'],
    none: ['', 'text', 'txt', 'plaintext', 'markdown', 'md', 'diff', 'console', 'output', 'log', 'csv', 'tex',
      'latex', 'html', 'xml', 'svg'],
  };
  const WORDS = new Set((
    'abstract and as assert async await begin bool boolean break byte case catch char class const continue ' +
    'def default defer del delete do double elif else end enum except export extends extern false False final ' +
    'finally float fn for foreach from func function go goto if impl implements import in inline int ' +
    'interface is lambda let local long loop match mod module mut namespace new nil None nonlocal not null ' +
    'NULL nullptr or override package pass private protected pub public raise ref return select self short ' +
    'signed sizeof static string struct super switch then this throw throws trait true True try type typedef ' +
    'typeof union unless unsafe unsigned until use using var virtual void volatile where while with yield ' +
    'SELECT FROM WHERE INSERT INTO UPDATE SET DELETE JOIN LEFT INNER ON GROUP BY ORDER LIMIT CREATE TABLE AND ' +
    'OR NOT AS VALUES').split(' '));
  const STRINGS = '"(?:\\\\.|[^"\\\\\\n])*"|\'(?:\\\\.|[^\'\\\\\\n])*\'|`(?:\\\\.|[^`\\\\])*`';
  const REST = '|\\b(?:0[xXbB][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\w*\\b|[A-Za-z_$][\\w$]*';
  const GRAMMAR = {
    hash: new RegExp('#[^\\n]*|"""[^]*?"""|' + STRINGS + REST, 'g'),
    dash: new RegExp('--[^\\n]*|' + STRINGS + REST, 'g'),
    slash: new RegExp('//[^\\n]*|/\\*[^]*?\\*/|' + STRINGS + REST, 'g'),
  };
  const HIGHLIGHT_MAX = 40000; /* characters; longer code stays plain */

  function kindOf(token) {
    if (/^(#|--|\/[/*])/.test(token)) return 'c-comment';
    if (/^["'`]/.test(token)) return 'c-string';
    if (/^\d/.test(token)) return 'c-number';
    return WORDS.has(token) ? 'c-word' : null;
  }

  function highlight(code, language) {
    const text = code.textContent;
    if (COMMENT.none.includes(language) || text.length > HIGHLIGHT_MAX) return;
    const kind = COMMENT.hash.includes(language) ? 'hash' : COMMENT.dash.includes(language) ? 'dash' : 'slash';
    const out = document.createDocumentFragment();
    let at = 0;
    for (const m of text.matchAll(GRAMMAR[kind])) {
      const name = kindOf(m[0]);
      if (!name) continue;
      out.append(text.slice(at, m.index), el('span', { class: name, text: m[0] }));
      at = m.index + m[0].length;
    }
    out.append(text.slice(at));
    code.replaceChildren(out);
  }

  /* A bar with language and copy button over each code block; tables may scroll sideways. */
  function furnish(fragment) {
    for (const pre of fragment.querySelectorAll('pre')) {
      const code = pre.querySelector('code');
      if (!code) continue;
      const language = (code.className.match(/^language-(.*)/) || [])[1] || '';
      const text = code.textContent;
      highlight(code, language.toLowerCase());
      const box = el('div', { class: 'code' });
      const copyButton = button('Copy code', 'copy', () => copy(text, copyButton));
      pre.replaceWith(box);
      pre.tabIndex = 0;
      pre.setAttribute('aria-label', language ? `Code, ${language}` : 'Code');
      box.append(el('div', { class: 'code-head' }, el('span', { text: language }), copyButton), pre);
    }
    for (const table of fragment.querySelectorAll('table')) {
      const box = el('div', { class: 'table', tabindex: '0', role: 'group', 'aria-label': 'Table' });
      table.replaceWith(box);
      box.append(table);
    }
    return fragment;
  }

  /* What marked does to line ends and tabs before it reads, done beforehand, so that the lengths of its tokens are
   * ours. */
  const normal = text =>
    text.replace(/\r\n|\r/g, '\n').replace(/^( *)(\t+)/gm, (_, a, b) => a + '    '.repeat(b.length));

  /* Normal text with its last line ended and its last code block closed: marked takes a block without end for a
   * paragraph. */
  function closed(text) {
    let fence = null; /* [indentation, marker] of the block that is open */
    for (const line of text.split('\n')) {
      const m = line.match(/^(\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)*)(`{3,}|~{3,})(.*)$/);
      if (!m) continue;
      if (!fence) { if (m[2][0] !== '`' || !m[3].includes('`')) fence = [' '.repeat(m[1].length), m[2]]; }
      else if (m[2].startsWith(fence[1]) && m[3].trim() === '' && m[1].trim() === '') fence = null;
    }
    return (text.endsWith('\n') ? text : text + '\n') + (fence ? fence.join('') + '\n' : '');
  }

  /* Of a text that still grows: what its last paragraph has opened, bold text or code, ends here, so that it is
   * not seen as asterisks and grave accents first. */
  function finished(text) {
    if (closed(text).length > text.length + 1) return text; /* inside a code block */
    const paragraph = text.slice(text.lastIndexOf('\n\n') + 1).replace(/(`+)(?!`)[^]*?[^`]\1(?!`)/g, '');
    const end = text.trimEnd();
    if (/(^|[^`])`[^`]+$/.test(paragraph)) return end + '`';
    if (paragraph.split('**').length % 2) return text;
    if (/(^|\n)[ *]*$/.test(end)) return text; /* a line, or an item of a list */
    return end.endsWith('**') ? end.slice(0, -2) : end + (end.endsWith('*') ? '*' : '**');
  }

  const parsed = text => furnish(clean(marked.parse(text)));
  const render = text => parsed(closed(normal(text)));

  /* Text that grows: blocks that are over are rendered once, only the last is rendered again. */
  class Growing {
    constructor(box) {
      this.box = box;
      this.over = 0;  /* characters of the text whose blocks are final */
      this.tail = []; /* nodes of the rest */
    }
    set(text) {
      const rest = closed(finished(normal(text).slice(this.over)));
      const tokens = marked.lexer(rest);
      let last = tokens.length - 1;
      while (last > 0 && tokens[last].type === 'space') last--;
      /* An element may go on over blocks: it ends with the text. */
      const html = tokens.findIndex(t => t.type === 'html');
      if (html >= 0) last = Math.min(last, html);
      const done = tokens.slice(0, Math.max(0, last)).reduce((n, t) => n + t.raw.length, 0);
      const exact = isNumber(done) && tokens.reduce((n, t) => n + t.raw, '') === rest;
      this.tail.forEach(n => n.remove());
      this.tail = [];
      if (exact && done > 0) {
        this.box.append(parsed(rest.slice(0, done)));
        this.over += done;
      }
      const fragment = parsed(exact ? rest.slice(done) : rest);
      this.tail = [...fragment.childNodes];
      this.box.append(fragment);
    }
    /* The whole text at once: references to links that came later are found now. */
    end(text) {
      this.box.replaceChildren(render(text));
    }
  }

  return { render, clean, Growing };
})();
