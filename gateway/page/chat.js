// A chat as data: {id, title, created, updated, turns}. A turn of the user is {role, content}; one
// of the assistant has {role, content, reasoning, model, state, ...}, see answer.js.

const TITLE_MAX = 60;

// Not crypto.randomUUID: browsers have it on localhost and https alone.
function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');
}

export function newChat(now = Date.now()) {
  return { id: randomId(), title: '', created: now, updated: now, turns: [] };
}

export function titleOf(chat) {
  return chat.title || 'New chat';
}

export function addUserTurn(chat, content, now = Date.now()) {
  if (!chat.title) {
    const line = content.trim().split('\n')[0];
    chat.title = line.length > TITLE_MAX ? `${line.slice(0, TITLE_MAX - 1)}…` : line;
  }
  chat.updated = now;
  chat.turns.push({ role: 'user', content });
}

// Takes a turn and all behind it out of the chat. Returns what was taken.
export function cutFrom(chat, turn) {
  const index = chat.turns.indexOf(turn);
  return index < 0 ? [] : chat.turns.splice(index);
}

// The request's messages: the system prompt and the turns up to and without `end`. Thoughts are not
// sent back. An answer that failed before its first word is sent as an empty one, since many
// templates want user and assistant to take turns.
export function messagesOf(chat, system, end = null) {
  const messages = system ? [{ role: 'system', content: system }] : [];
  for (const turn of chat.turns) {
    if (turn === end) break;
    messages.push({ role: turn.role, content: turn.content });
  }
  return messages;
}

// What a page that was closed in the middle of an answer left behind.
export function repair(chat) {
  for (const turn of chat.turns) if (turn.state === 'running') turn.state = 'stopped';
  return chat;
}
