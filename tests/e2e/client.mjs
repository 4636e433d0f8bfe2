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
await assert.rejects(client.chat.completions.create({ ...chat, temperature: 9 }), (e) => e.status === 400 && e.param === "temperature");
const { version } = JSON.parse(readFileSync(modules + "/openai/package.json"));
console.log(JSON.stringify({ version: `openai-node ${version}, node ${process.version}` }));
