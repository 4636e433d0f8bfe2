// The page: one chat is shown, each chat may have one answer under way. What is drawn follows from
// `chats`, `current` and `answers`; nothing else remembers what was said.

import { Answer } from './answer.js';
import { listModels } from './api.js';
import { addUserTurn, cutFrom, newChat, repair } from './chat.js';
import { $ } from './dom.js';
import { Follow } from './follow.js';
import { History } from './history.js';
import { watchLoad } from './load.js';
import { bindSettings, Settings } from './settings.js';
import { Store } from './store.js';
import { TurnList } from './turns.js';

const DRAW_MS = 50, SAVE_MS = 2000;
const ANSWERS_MAX = 4; // a browser opens six connections to a server; the page needs some itself

const settings = new Settings();
const store = new Store();
const answers = new Map(); // chat -> Answer
const turns = new TurnList($('turns'), { regenerate, edit });
const history = new History($('chats'), { open: showChat, remove: removeChat });
const follow = new Follow($('scroller'), $('turns'), $('newest'));
let chats = [];
let current = newChat();

// What a screen reader says; `unseen`: who sees the page knows it anyway.
function note(text, unseen = false) {
  $('note').textContent = text;
  $('note').classList.toggle('unseen', unseen);
}

function drawFrame() {
  const running = answers.has(current);
  $('empty').hidden = current.turns.length > 0;
  $('stop').hidden = !running;
  $('send').hidden = running;
  history.show(chats, current, chat => answers.has(chat));
}

function showChat(chat) {
  current = chat;
  turns.show(chat);
  follow.toEnd();
  note('');
  drawFrame();
  history.slide(false);
  $('text').focus();
}

async function save(chat) {
  if (!chats.includes(chat)) return;
  if (!(await store.put(chat))) note('The browser has no room to keep this chat.');
}

async function removeChat(chat) {
  answers.get(chat)?.stop();
  chats = chats.filter(each => each !== chat);
  await store.delete(chat);
  if (chat === current) showChat(newChat());
  else drawFrame();
}

async function removeAll() {
  if (!confirm('Delete all chats from this browser?')) return;
  for (const answer of answers.values()) answer.stop();
  chats = [];
  await store.clear();
  $('settings').close();
  showChat(newChat());
}

// ---- answers ----

// At most one drawing and one saving for each period, however fast the pieces come.
function everySoOften(run, ms) {
  let timer = null;
  return () => {
    timer ??= setTimeout(() => {
      timer = null;
      run();
    }, ms);
  };
}

function ended(answer) {
  answers.delete(answer.chat);
  turns.update(answer.turn);
  save(answer.chat);
  drawFrame();
  if (answer.chat !== current) return;
  note(answer.turn.state === 'failed' ? 'The answer failed.' : 'The answer is complete.', true);
}

function canAnswer() {
  if (answers.has(current)) note('The answer is still being written. Stop ends it.');
  else if (answers.size >= ANSWERS_MAX) note('Four chats are being answered. Please wait for one.');
  else return true;
  return false;
}

function answer(chat) {
  const drawSoon = everySoOften(() => turns.update(started.turn), DRAW_MS);
  const saveSoon = everySoOften(() => save(chat), SAVE_MS);
  const started = new Answer(chat, $('model').value, () => {
    drawSoon();
    saveSoon();
  });
  answers.set(chat, started);
  turns.add(started.turn);
  follow.toEnd();
  note('');
  drawFrame();
  save(chat);
  started.run(settings).then(() => ended(started));
}

function ask(text) {
  chats = [current, ...chats.filter(chat => chat !== current)];
  addUserTurn(current, text);
  turns.add(current.turns.at(-1));
  answer(current);
}

function regenerate(turn) {
  if (!canAnswer()) return;
  turns.remove(cutFrom(current, turn));
  answer(current);
  $('text').focus();
}

function edit(turn, text) {
  if (!canAnswer()) return;
  turns.remove(cutFrom(current, turn));
  ask(text);
  $('text').focus();
}

// ---- the box ----

function grow() {
  const box = $('text');
  box.style.height = 'auto';
  box.style.height = `${box.scrollHeight + 2}px`;
}

// Does not send while an answer is written, and keeps what was typed.
function send() {
  const text = $('text').value.trim();
  if (!text || !canAnswer()) return;
  $('text').value = '';
  grow();
  ask(text);
}

function bindBox() {
  const touch = matchMedia('(pointer: coarse)').matches; // there Enter begins a line
  $('ask').onsubmit = event => {
    event.preventDefault();
    send();
  };
  $('text').oninput = grow;
  $('text').onkeydown = event => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || touch) return;
    event.preventDefault();
    send();
  };
  $('stop').onclick = () => {
    answers.get(current)?.stop();
    $('text').focus();
  };
}

async function loadModels() {
  const { status, names } = await listModels(settings.key).catch(() => ({ status: 0, names: [] }));
  $('model').replaceChildren(...names.map(name => new Option(name, name)));
  if (names.includes(settings.model)) $('model').value = settings.model;
  settings.model = $('model').value;
  $('model').hidden = !names.length;
  if (status === 401) note('This server needs an API key: see Settings.');
  else if (status !== 200) note('The server does not answer.');
  else if (!names.length) note('The server has no model yet. Please load the page again.');
  else note('');
}

async function start() {
  bindBox();
  $('new').onclick = () => showChat(newChat());
  $('forget').onclick = removeAll;
  const openSettings = bindSettings($('settings'), $('settings-form'), settings, loadModels);
  $('open-settings').onclick = openSettings;
  $('model').onchange = () => {
    settings.model = $('model').value;
    settings.save();
  };
  await store.open();
  chats = (await store.all()).map(repair);
  showChat(chats[0] ?? current);
  await loadModels();
  watchLoad(settings);
}

start();
