// The list of calls at /docs: what openapi.json says, to be read by a person.

import { $, make } from './dom.js';

// Of a field that is taken: its type, and its bounds.
export function kindOf(schema) {
  const types = [schema.type ?? 'any'].flat().filter(type => type !== 'null');
  const kind = types.join(' or ');
  if (schema.minimum !== undefined) return `${kind}, ${schema.minimum} to ${schema.maximum}`;
  if (schema.maxLength !== undefined) return `${kind}, up to ${schema.maxLength} bytes`;
  return kind;
}

// [[name, kind]] of the fields that change something.
export function fieldsOf(call) {
  const schema = call.requestBody?.content['application/json'].schema;
  return Object.entries(schema?.properties ?? {})
    .filter(([, field]) => !field.description)
    .map(([name, field]) => [name, kindOf(field)])
    .sort(([a], [b]) => (a < b ? -1 : 1));
}

// Every call, in the order of the document.
export function callsOf(document) {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, call]) => ({ path, method: method.toUpperCase(), open: !call.security, fields: fieldsOf(call) })));
}

function table(fields) {
  const rows = fields.map(([name, kind]) => make('tr', {}, make('td', {}, name), make('td', {}, kind)));
  const head = make('tr', {}, make('th', { scope: 'col' }, 'field'), make('th', { scope: 'col' }, 'value'));
  return make('div', { class: 'wide' }, make('table', {}, make('thead', {}, head), make('tbody', {}, ...rows)));
}

function show(call) {
  const head = make('summary', {}, make('span', { class: 'method' }, call.method), make('code', {}, call.path));
  if (call.open) head.append(make('span', { class: 'open' }, 'without a key'));
  return make('details', {}, head, call.fields.length ? table(call.fields) : make('p', {}, 'no body'));
}

async function start() {
  const answer = await fetch('openapi.json');
  const calls = callsOf(await answer.json());
  const shown = calls.map(show);
  $('calls').append(...shown);
  const find = () => {
    const word = $('find').value.trim().toLowerCase();
    let count = 0;
    calls.forEach((call, i) => {
      const found = call.path.includes(word) || (word && call.fields.some(([name]) => name === word));
      shown[i].hidden = !found;
      count += found ? 1 : 0;
    });
    $('count').textContent = `${count} calls`;
  };
  $('find').addEventListener('input', find);
  find();
}

if (globalThis.document) start().catch(error => ($('calls').textContent = `openapi.json could not be read: ${error.message}`));
