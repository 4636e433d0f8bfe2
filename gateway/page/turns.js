// The turns of the chat that is shown, as elements. Each is an article that says who speaks.

import { figuresOf, thoughtTitle } from './answer.js';
import { make, button, copyButton } from './dom.js';
import { MarkdownView } from './markdown.js';

const ENDS = {
  stopped: 'Stopped.',
  length: 'Ended at the limit of tokens.',
};

function article(turn, name) {
  return make('article', { class: `turn ${turn.role}` }, make('h2', { class: 'who' }, name));
}

// {element, update()}. hooks: regenerate(turn).
class AssistantView {
  constructor(turn, hooks) {
    this.turn = turn;
    this.content = new MarkdownView();
    this.summary = make('summary');
    this.thought = make('div', { class: 'thought-text' });
    this.thoughts = make('details', { class: 'thought' }, this.summary, this.thought);
    this.figures = make('span', { class: 'figures' });
    this.end = make('p', { class: 'end' });
    this.tools = make('div', { class: 'tools' },
      copyButton(() => turn.content),
      button('Regenerate', () => hooks.regenerate(turn)),
      this.figures);
    this.element = article(turn, turn.model || 'Assistant');
    this.element.append(this.thoughts, this.content.root, this.end, this.tools);
    this.update();
  }

  update() {
    const turn = this.turn, running = turn.state === 'running';
    this.element.setAttribute('aria-busy', String(running));
    this.element.classList.toggle('waiting', running && !turn.content && !turn.reasoning);
    this.thoughts.hidden = !turn.reasoning;
    this.summary.textContent = thoughtTitle(turn);
    this.thought.textContent = turn.reasoning;
    this.content.update(turn.content, !running);
    const failed = turn.state === 'failed';
    this.end.textContent = failed ? turn.error : (ENDS[turn.state] ?? ENDS[turn.finish] ?? '');
    this.end.classList.toggle('error', failed);
    this.end.hidden = running || !this.end.textContent;
    this.tools.querySelectorAll('button').forEach(each => (each.hidden = running));
    this.figures.textContent = figuresOf(turn);
  }
}

// hooks: edit(turn, text).
class UserView {
  constructor(turn, hooks) {
    this.turn = turn;
    this.hooks = hooks;
    this.text = make('div', { class: 'said' });
    this.tools = make('div', { class: 'tools' },
      copyButton(() => turn.content),
      button('Edit', () => this.#edit()));
    this.element = article(turn, 'You');
    this.element.append(this.text, this.tools);
    this.update();
  }

  update() {
    this.text.textContent = this.turn.content;
  }

  #edit() {
    const box = make('textarea', { 'aria-label': 'Edit message', rows: 3 });
    box.value = this.turn.content;
    const close = () => {
      form.remove();
      this.text.hidden = this.tools.hidden = false;
      this.tools.lastChild.focus();
    };
    const send = () => box.value.trim() && this.hooks.edit(this.turn, box.value.trim());
    const again = button('Send again', send, { class: '' });
    const form = make('div', { class: 'edit' }, box,
      make('div', { class: 'actions' }, button('Cancel', close), again));
    box.onkeydown = event => {
      if (event.key === 'Escape') close();
    };
    this.text.hidden = this.tools.hidden = true;
    this.element.append(form);
    box.focus();
  }
}

export class TurnList {
  #views = new Map();

  constructor(root, hooks) {
    this.root = root;
    this.hooks = hooks;
  }

  // Shows a chat's turns; what was shown of another is gone.
  show(chat) {
    this.#views.clear();
    this.root.replaceChildren();
    for (const turn of chat.turns) this.add(turn);
  }

  add(turn) {
    const View = turn.role === 'user' ? UserView : AssistantView;
    const view = new View(turn, this.hooks);
    this.#views.set(turn, view);
    this.root.append(view.element);
  }

  // Does nothing for a turn that is not shown.
  update(turn) {
    this.#views.get(turn)?.update();
  }

  remove(turns) {
    for (const turn of turns) {
      this.#views.get(turn)?.element.remove();
      this.#views.delete(turn);
    }
  }
}
