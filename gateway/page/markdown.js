// An answer's markdown as elements, while it grows: blocks whose source has not changed are kept as
// they are, so a long answer costs its last block for each piece, and a selection survives.
//
// The text comes from a model, so from anybody. Its HTML is shown as text, but for a few tags that
// carry no attribute; what marked makes of the rest goes through DOMPurify, which gives elements.
// No image is ever loaded: an image is a link to it.

import { Marked, purify, highlight } from './libraries.js';
import { make, copyButton } from './dom.js';

const HARMLESS = /^<\/?(?:br|b|i|em|strong|u|s|sub|sup|kbd|mark)\s*\/?>$/i;
const HIGHLIGHT_MAX = 20000;

const CLEAN = {
  ALLOWED_TAGS: (
    'a b blockquote br code del em h1 h2 h3 h4 h5 h6 hr i input kbd li mark ol p pre s span ' +
    'strong sub sup table tbody td th thead tr u ul'
  ).split(' '),
  ALLOWED_ATTR: ['align', 'checked', 'class', 'disabled', 'href', 'start', 'title', 'type'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ADD_URI_SAFE_ATTR: ['align', 'checked', 'disabled', 'start', 'type'], // these are no addresses
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

const escape = text => text.replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);

const marked = Marked && new Marked({
  gfm: true,
  renderer: {
    html: ({ text }) => (HARMLESS.test(text.trim()) ? text : escape(text)),
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
  },
});

// With colours, where the language is known.
function colour(code, language) {
  const text = code.textContent;
  if (!highlight?.getLanguage(language) || text.length > HIGHLIGHT_MAX) return;
  const html = highlight.highlight(text, { language, ignoreIllegals: true }).value;
  code.replaceChildren(purify.sanitize(html, CLEAN));
}

function dressCode(pre) {
  const code = pre.querySelector('code') ?? pre;
  const language = /language-(\S+)/.exec(code.className)?.[1] ?? '';
  const copied = code.textContent;
  colour(code, language);
  pre.tabIndex = 0; // so that the keyboard can scroll it
  const copy = copyButton(() => copied, 'Copy code');
  const box = make('div', { class: 'code' });
  pre.replaceWith(box);
  box.append(make('div', { class: 'code-head' }, make('span', {}, language), copy), pre);
}

function dress(fragment) {
  fragment.querySelectorAll('pre').forEach(dressCode);
  fragment.querySelectorAll('table').forEach(table => {
    const box = make('div', { class: 'table', tabindex: 0, role: 'region', 'aria-label': 'Table' });
    table.replaceWith(box);
    box.append(table);
  });
  fragment.querySelectorAll('a').forEach(link => {
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
  });
  return fragment;
}

function drawBlock(block) {
  const element = make('div', { class: 'block' });
  element.append(dress(purify.sanitize(marked.parser([block]), CLEAN)));
  return element;
}

export class MarkdownView {
  #sources = [];

  constructor() {
    this.root = make('div', { class: marked ? 'markdown' : 'markdown plain' });
  }

  // `done`: all of it is drawn anew, since a link's address may stand below the link.
  update(text, done) {
    if (!marked) {
      this.root.textContent = text;
      return;
    }
    const blocks = marked.lexer(text);
    const same = done ? 0 : this.#countSame(blocks);
    while (this.root.childNodes.length > same) this.root.lastChild.remove();
    for (const block of blocks.slice(same)) this.root.append(drawBlock(block));
    this.#sources = blocks.map(block => block.raw);
  }

  #countSame(blocks) {
    let same = 0;
    while (same < blocks.length && this.#sources[same] === blocks[same].raw) same++;
    return same;
  }
}
