// The page's modules that know of no browser, run in node: node test_page.mjs. One verdict a test.
import assert from 'node:assert/strict';
import { Answer, figuresOf, thoughtTitle, tokensPerSecond } from '../../gateway/page/answer.js';
import { EventReader, requestHeaders, streamChat } from '../../gateway/page/api.js';
import { callsOf } from '../../gateway/page/calls.js';
import { addUserTurn, cutFrom, messagesOf, newChat, repair, titleOf } from '../../gateway/page/chat.js';
import { parseMetrics, readLoad } from '../../gateway/page/metrics.js';

globalThis.crypto ??= (await import('node:crypto')).webcrypto; // node 18

// A fetch that answers with these texts, one after the other, and keeps what was asked.
function fakeFetch(pieces, status = 200) {
  const asked = [];
  globalThis.fetch = async (url, options) => {
    asked.push({ url, body: JSON.parse(options.body), headers: options.headers });
    const body = new ReadableStream({
      async start(controller) {
        for (const piece of pieces) controller.enqueue(new TextEncoder().encode(await piece));
        controller.close();
      },
    });
    return new Response(body, { status });
  };
  return asked;
}

const event = value => `data: ${JSON.stringify(value)}\n\n`;
const delta = (fields, tokens) => event({ choices: [{ delta: fields }], usage: tokens && { completion_tokens: tokens } });
const settings = { system: 'Be brief.', key: 'sesame', request: () => ({ temperature: 0.5 }) };

const tests = {
  lists_calls_with_their_fields() {
    const properties = {
      n: { type: ['integer', 'null'], minimum: 1, maximum: 128 },
      lora: { description: 'not offered: only values that change nothing are taken' },
      echo: { type: ['boolean', 'null'] },
      model: { type: ['string', 'null'], maxLength: 256 },
      prompt: {},
    };
    const body = { requestBody: { content: { 'application/json': { schema: { properties } } } }, security: [] };
    assert.deepEqual(callsOf({ paths: { '/v1/completions': { post: body }, '/health': { get: {} } } }), [
      { path: '/v1/completions', method: 'POST', open: false, fields: [['echo', 'boolean'], ['model', 'string, up to 256 bytes'], ['n', 'integer, 1 to 128'], ['prompt', 'any']] },
      { path: '/health', method: 'GET', open: true, fields: [] },
    ]);
  },

  events_survive_every_cut() {
    const text = 'data: {"a":"é"}\r\n\r\n: comment\nevent: x\ndata:[DONE]\n\n';
    for (let cut = 0; cut <= text.length; cut++)
      for (let next = cut; next <= text.length; next++) {
        const reader = new EventReader();
        const seen = [text.slice(0, cut), text.slice(cut, next), text.slice(next)].flatMap(t => reader.feed(t));
        assert.deepEqual(seen, ['{"a":"é"}', '[DONE]']);
      }
  },

  async an_answer_fills_its_turn_and_no_other() {
    const chat = newChat(1);
    addUserTurn(chat, 'Hi');
    let now = 0;
    const asked = fakeFetch([delta({ reasoning: 'Hm' }, 1), delta({ content: 'Hello' }, 3), delta({ content: ' you' }, 5),
      event({ choices: [{ delta: {}, finish_reason: 'length' }] }), 'data: [DONE]\n\n']);
    const answer = new Answer(chat, 'm', () => {}, () => (now += 500));
    await answer.run(settings);
    assert.equal(chat.turns.length, 2);
    assert.equal(answer.turn, chat.turns[1]);
    assert.deepEqual([answer.turn.content, answer.turn.reasoning, answer.turn.state, answer.turn.finish],
      ['Hello you', 'Hm', 'done', 'length']);
    assert.equal(tokensPerSecond(answer.turn), 4, '4 tokens in the second after the first');
    assert.equal(figuresOf(answer.turn), '5 tokens · 4.0 tok/s · first after 500 ms');
    assert.equal(thoughtTitle(answer.turn), 'Thought for 500 ms');
    const { body, headers } = asked[0];
    assert.deepEqual(body.messages, [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'Hi' }]);
    assert.equal(body.temperature, 0.5);
    assert.equal(headers.Authorization, 'Bearer sesame');
    assert.ok(!('Authorization' in requestHeaders('')));
  },

  async a_stream_that_ends_early_is_a_failure() {
    const ends = async pieces => {
      fakeFetch(pieces);
      const answer = new Answer(newChat(), 'm', () => {});
      await answer.run(settings);
      return [answer.turn.state, answer.turn.error, answer.turn.content];
    };
    assert.deepEqual(await ends([delta({ content: 'Half' })]), ['failed', 'the connection ended before the answer was complete', 'Half']);
    assert.deepEqual(await ends([event({ error: { message: 'gone' } })]), ['failed', 'gone', '']);
    fakeFetch(['{"error":{"message":"no such model"}}'], 404);
    await assert.rejects(streamChat({}, '', undefined, () => {}), { message: 'no such model' });
    fakeFetch(['<html>'], 502);
    await assert.rejects(streamChat({}, '', undefined, () => {}), { message: 'the server answered 502' });
  },

  async an_answer_that_is_stopped_is_no_failure() {
    const chat = newChat();
    let answer;
    globalThis.fetch = (_, { signal }) => new Promise((_, refuse) => signal.addEventListener('abort', () => refuse(signal.reason)));
    answer = new Answer(chat, 'm', () => {});
    const done = answer.run(settings);
    answer.stop();
    await done;
    assert.deepEqual([answer.turn.state, answer.turn.error], ['stopped', undefined]);
  },

  chats_cut_and_repair() {
    const chat = newChat(1);
    assert.equal(titleOf(chat), 'New chat');
    addUserTurn(chat, `  ${'a'.repeat(80)}\nb`, 2);
    assert.equal(titleOf(chat).length, 60);
    const failed = { role: 'assistant', content: '', state: 'failed' };
    chat.turns.push(failed);
    addUserTurn(chat, 'again', 3);
    assert.deepEqual(messagesOf(chat, '').map(m => m.role), ['user', 'assistant', 'user']);
    assert.equal(messagesOf(chat, '', failed).length, 1);
    const last = { role: 'assistant', content: 'x', state: 'running' };
    chat.turns.push(last);
    assert.equal(repair(chat).turns.at(-1).state, 'stopped');
    assert.deepEqual(cutFrom(chat, {}), []);
    assert.equal(cutFrom(chat, failed).length, 3);
    assert.equal(chat.turns.length, 1);
    assert.notEqual(newChat().id, newChat().id);
  },

  load_is_read_by_model_or_in_all_or_from_our_own() {
    const text = '# HELP x y\nvllm:num_requests_running{engine="0",model_name="m"} 3\nvllm:num_requests_running{model_name="n"} 4\n' +
      'vllm:num_requests_waiting{model_name="m"} 1.0\nvllm:kv_cache_usage_perc{model_name="m"} 2.5e-1\nodd NaN\n';
    assert.deepEqual(readLoad(text, 'm'), { running: 3, waiting: 1, blocks: 0.25 });
    assert.deepEqual(readLoad(text, 'other'), { running: 7, waiting: 1, blocks: 0.25 });
    assert.deepEqual(readLoad('trireme_gateway_requests_open 5\ntrireme_gateway_requests_waiting 2\n', 'm'),
      { running: 3, waiting: 2, blocks: null });
    assert.equal(readLoad('up 1\n', 'm'), null);
    assert.equal(parseMetrics(text).has('odd'), false);
  },
};

for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok page.${name}`);
  } catch (error) {
    console.log(`not ok page.${name}: ${String(error.message).split('\n')[0]}`);
    console.error(error);
    process.exitCode = 1;
  }
}
