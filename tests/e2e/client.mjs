// Drives a running server with the unchanged openai-node client: node client.mjs BASE_URL NODE_MODULES
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [url, modules] = process.argv.slice(2);
const require = createRequire(modules + "/");
const OpenAI = require("openai").default ?? require("openai");
const client = new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 0 });

const model = (await client.models.list()).data[0].id;
const chat = { model, messages: [{ role: "user", content: "Hello!" }], temperature: 0, max_tokens: 24 };
const whole = await client.chat.completions.create(chat);
assert.equal(whole.choices[0].message.role, "assistant");
let text = "", usage = null;
for await (const piece of await client.chat.completions.create({ ...chat, stream: true, stream_options: { include_usage: true } })) {
  text += piece.choices[0]?.delta?.content ?? "";
  usage = piece.usage ?? usage;
}
assert.equal(text, whole.choices[0].message.content);
assert.equal(usage.total_tokens, whole.usage.total_tokens);

const plain = { model, prompt: "Once upon a time", temperature: 0, max_tokens: 16 };
const done = await client.completions.create(plain);
let streamed = "";
for await (const piece of await client.completions.create({ ...plain, stream: true })) streamed += piece.choices[0]?.text ?? "";
assert.equal(streamed, done.choices[0].text);
await assert.rejects(client.chat.completions.create({ ...chat, temperature: 101 }), (e) => e.status === 400 && e.param === "temperature");

// responses: whole, by the helper, gone on from, forced calls
const ask = { model, input: "Hello!", temperature: 0, max_output_tokens: 24 };
const response = await client.responses.create(ask);
assert.equal(response.output_text, whole.choices[0].message.content);
let deltas = "";
const helper = client.responses.stream(ask).on("response.output_text.delta", (event) => (deltas += event.delta));
assert.equal((await helper.finalResponse()).output[0].content[0].text, response.output_text);
assert.equal(deltas, response.output_text);
const next = await client.responses.create({ ...ask, input: "And?", previous_response_id: response.id });
assert.ok(next.usage.input_tokens > response.usage.input_tokens);
const parameters = { type: "object", properties: { on: { type: "boolean" } }, required: ["on"], additionalProperties: false };
const forced = await client.responses.create({ ...ask, tools: [{ type: "function", name: "turn", parameters, strict: true }], tool_choice: "required", max_output_tokens: 60 });
assert.equal(forced.output[0].type, "function_call");
assert.equal(typeof JSON.parse(forced.output[0].arguments).on, "boolean");
await client.responses.delete(next.id);
await assert.rejects(client.responses.retrieve(next.id), (e) => e.status === 404);
const { version } = JSON.parse(readFileSync(modules + "/openai/package.json"));
console.log(JSON.stringify({ version: `openai-node ${version}, node ${process.version}` }));
