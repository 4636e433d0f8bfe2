// The list of chats at the side; on a phone it slides in over the chat.

import { titleOf } from './chat.js';
import { $, make, button } from './dom.js';

// hooks: open(chat), remove(chat).
export class History {
  constructor(root, hooks) {
    this.root = root;
    this.hooks = hooks;
    $('menu').onclick = () => this.slide(!document.body.classList.contains('side'));
    $('shade').onclick = () => this.slide(false);
    $('side').onkeydown = event => {
      if (event.key === 'Escape') this.slide(false);
    };
  }

  slide(out) {
    const was = document.body.classList.contains('side');
    document.body.classList.toggle('side', out);
    $('shade').hidden = !out;
    $('menu').setAttribute('aria-expanded', String(out));
    if (out) $('new').focus();
    else if (was) $('menu').focus();
  }

  #row(chat, current, running) {
    const open = button(titleOf(chat), () => this.hooks.open(chat), {
      class: 'quiet open',
      title: titleOf(chat),
      'aria-current': chat === current ? 'true' : null,
    });
    if (running) open.append(make('span', { class: 'running' }, ' (writing)'));
    const remove = button('×', () => this.hooks.remove(chat), {
      class: 'quiet remove',
      'aria-label': `Delete chat: ${titleOf(chat)}`,
    });
    return make('li', {}, open, remove);
  }

  // Newest first; isRunning(chat): an answer is being written in it.
  show(chats, current, isRunning) {
    this.root.replaceChildren(...chats.map(chat => this.#row(chat, current, isRunning(chat))));
  }
}
