// Drives a running server with unchanged clients of Ollama, ollama-js and the AI SDK's provider: node client_ollama.mjs BASE_URL NODE_MODULES
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

globalThis.AI_SDK_LOG_WARNINGS = false;
const [url, modules] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { Ollama } = require("ollama");
const { createOllama } = require("ollama-ai-provider-v2");
const { generateObject, generateText, streamText, tool } = require("ai");
const { z } = require("zod");
const host = url.replace(/\/v1$/, "");
const schema = z.object({ stays: z.boolean(), nights: z.enum(["one", "seven"]) });

const client = new Ollama({ host });
const model = (await client.list()).models[0].name;
assert.ok((await client.show({ model })).capabilities.includes("completion"));
assert.equal((await client.ps()).models[0].name, model);
const options = { temperature: 0, num_predict: 24 };
const chat = { model, messages: [{ role: "user", content: "Hello!" }], options };
const whole = await client.chat(chat);
let text = "", last = null;
for await (const piece of await client.chat({ ...chat, stream: true })) (text += piece.message.content), (last = piece);
assert.equal(text, whole.message.content);
assert.deepEqual([last.done, last.eval_count], [true, whole.eval_count]);
const plain = { model, prompt: "Once upon a time", raw: true, options };
let gone = "";
for await (const piece of await client.generate({ ...plain, stream: true })) gone += piece.response;
assert.equal(gone, (await client.generate(plain)).response);
const form = await client.chat({ ...chat, format: z.toJSONSchema(schema), options: { num_predict: 120 } });
schema.parse(JSON.parse(form.message.content));
await assert.rejects(client.chat({ ...chat, model: "nobody" }), (e) => e.status_code === 404);
await assert.rejects(client.copy({ source: model, destination: "other" }), /not offered/);

// the provider says temperature and the bound beside options, and a tool choice
const ask = { model: createOllama({ baseURL: host + "/api" })(model), prompt: "Hello!", maxOutputTokens: 120, maxRetries: 0 };
const said = await generateText({ ...ask, temperature: 0 });
let pieces = "";
for await (const piece of streamText({ ...ask, temperature: 0 }).textStream) pieces += piece;
assert.ok(said.text.length > 0);
assert.equal(pieces, said.text);
const short = await generateText({ ...ask, temperature: 0, maxOutputTokens: 2 });
assert.ok(said.text.startsWith(short.text) && short.usage.outputTokens === 2);
schema.parse((await generateObject({ ...ask, schema })).object);
const tools = { book: tool({ description: "Books.", inputSchema: schema }) };
for (const toolChoice of ["required", { type: "tool", toolName: "book" }]) {
  const { toolCalls } = await generateText({ ...ask, tools, toolChoice });
  assert.ok(toolCalls.length > 0);
  for (const call of toolCalls) assert.equal(call.toolName, "book"), schema.parse(call.input);
}
const version = (name) => `${name} ${JSON.parse(readFileSync(`${modules}/${name}/package.json`)).version}`;
console.log(JSON.stringify({ version: `${version("ollama")}, ${version("ollama-ai-provider-v2")}, node ${process.version}` }));
