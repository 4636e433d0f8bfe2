// Small help with elements.

export const $ = id => document.getElementById(id);

// make('button', {type: 'button', class: 'quiet', onclick: f}, 'Copy', child)
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element[key] = value;
    else if (value === true) element.setAttribute(key, '');
    else if (value !== false && value !== null) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

export function button(label, onclick, attributes = {}) {
  return make('button', { type: 'button', class: 'quiet', onclick, ...attributes }, label);
}

// Over plain http from another machine there is no navigator.clipboard.
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = make('textarea', { class: 'aside', 'aria-hidden': 'true' });
  document.body.append(area);
  area.value = text;
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  if (!copied) throw new Error('the browser refused');
}

// A button that copies what text() gives, and says that it did.
export function copyButton(text, label = 'Copy') {
  const copy = button(label, async () => {
    try {
      await copyText(text());
      copy.textContent = 'Copied';
    } catch {
      copy.textContent = 'Could not copy';
    }
    setTimeout(() => (copy.textContent = label), 1500);
  });
  return copy;
}
