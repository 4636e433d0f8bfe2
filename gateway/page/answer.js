// One answer while it is written. It belongs to one turn of one chat for all its life: what arrives
// late goes there, whichever chat the page shows by then.
//
// turn.state: running, then done, stopped (by the reader) or failed (turn.error says why).

import { streamChat } from './api.js';
import { messagesOf } from './chat.js';

export class Answer {
  #abort = new AbortController();
  #began;
  #first = null;
  #clock;

  // onChange(answer) runs after every change of the turn.
  constructor(chat, model, onChange, clock = () => performance.now()) {
    this.chat = chat;
    this.onChange = onChange;
    this.turn = {
      role: 'assistant',
      model,
      content: '',
      reasoning: '',
      state: 'running',
      tokens: 0,
    };
    this.#clock = clock;
    this.#began = clock();
    chat.turns.push(this.turn);
  }

  // Resolves when the turn has ended; never rejects.
  async run(settings) {
    const body = {
      ...settings.request(),
      model: this.turn.model,
      messages: messagesOf(this.chat, settings.system, this.turn),
      stream: true,
      stream_options: { include_usage: true, continuous_usage_stats: true },
    };
    try {
      await streamChat(body, settings.key, this.#abort.signal, event => this.#take(event));
      this.#end('done');
    } catch (error) {
      if (this.#abort.signal.aborted) {
        this.#end('stopped');
      } else {
        this.turn.error = error.message;
        this.#end('failed');
      }
    }
  }

  stop() {
    this.#abort.abort();
  }

  #take(event) {
    const choice = event.choices?.[0];
    const { content, reasoning } = choice?.delta ?? {};
    const now = this.#clock();
    const turn = this.turn;
    if (content || reasoning) {
      if (this.#first === null) {
        this.#first = now;
        turn.first_ms = now - this.#began;
        turn.first_tokens = event.usage?.completion_tokens ?? 1;
      }
      const thought = content && turn.reasoning && turn.thought_ms === undefined;
      if (thought) turn.thought_ms = now - this.#first;
      turn.reasoning += reasoning ?? '';
      turn.content += content ?? '';
      turn.stream_ms = now - this.#first;
    }
    if (event.usage) turn.tokens = event.usage.completion_tokens;
    if (choice?.finish_reason) turn.finish = choice.finish_reason;
    this.onChange(this);
  }

  #end(state) {
    this.turn.state = state;
    this.chat.updated = Date.now();
    this.onChange(this);
  }
}

// Tokens a second after the first ones; null when there is nothing to divide.
export function tokensPerSecond(turn) {
  const tokens = turn.tokens - (turn.first_tokens ?? 0);
  return tokens > 0 && turn.stream_ms > 0 ? (tokens * 1000) / turn.stream_ms : null;
}

function seconds(ms) {
  if (ms < 995) return `${Math.max(1, Math.round(ms))} ms`;
  return `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`;
}

// "120 tokens · 45 tok/s · first after 0.2 s"; empty while there is nothing to say.
export function figuresOf(turn) {
  const rate = tokensPerSecond(turn);
  const figures = [];
  if (turn.tokens) figures.push(turn.tokens === 1 ? '1 token' : `${turn.tokens} tokens`);
  if (rate !== null) figures.push(`${rate < 10 ? rate.toFixed(1) : Math.round(rate)} tok/s`);
  if (turn.first_ms !== undefined) figures.push(`first after ${seconds(turn.first_ms)}`);
  return figures.join(' · ');
}

export function thoughtTitle(turn) {
  if (turn.state === 'running' && !turn.content) return 'Thinking…';
  return turn.thought_ms === undefined ? 'Thoughts' : `Thought for ${seconds(turn.thought_ms)}`;
}
