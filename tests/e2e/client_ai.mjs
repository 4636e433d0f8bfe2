// Drives a running server with the unchanged AI SDK: node client_ai.mjs BASE_URL NODE_MODULES
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

globalThis.AI_SDK_LOG_WARNINGS = false;
const [url, modules] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { generateObject, generateText, streamObject, streamText, tool } = require("ai");
const { createAnthropic } = require("@ai-sdk/anthropic");
const { createOpenAI } = require("@ai-sdk/openai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { z } = require("zod");

const openai = createOpenAI({ baseURL: url, apiKey: "none" });
const anthropic = createAnthropic({ baseURL: url, apiKey: "none" });
const compatible = createOpenAICompatible({ name: "trireme", baseURL: url, supportsStructuredOutputs: true });
const name = (await (await fetch(url + "/models")).json()).data[0].id;
const schema = z.object({ stays: z.boolean(), nights: z.enum(["one", "seven"]) });

// openai(name) speaks to /v1/responses, anthropic(name) to /v1/messages, the others to /v1/chat/completions
for (const model of [openai(name), openai.chat(name), compatible(name), anthropic(name)]) {
  const ask = { model, prompt: "Hello!", maxOutputTokens: 120, maxRetries: 0 };
  const { text } = await generateText({ ...ask, temperature: 0 });
  let pieces = "";
  for await (const piece of streamText({ ...ask, temperature: 0 }).textStream) pieces += piece;
  assert.ok(text.length > 0);
  assert.equal(pieces, text);
  const { response } = await generateText({ ...ask, temperature: 0 }); // of /v1/responses: the next request only names what it said
  const messages = [{ role: "user", content: "Hello!" }, ...response.messages, { role: "user", content: "And you?" }];
  assert.ok((await generateText({ model, messages, maxOutputTokens: 20, maxRetries: 0 })).text.length > 0);
  schema.parse((await generateObject({ ...ask, schema })).object);
  const { partialObjectStream, object } = streamObject({ ...ask, schema });
  let last = {};
  for await (const partial of partialObjectStream) last = partial;
  assert.deepEqual(last, await object);
  schema.parse(last);
  const { toolCalls } = await generateText({ ...ask, tools: { book: tool({ description: "Books.", inputSchema: schema }) }, toolChoice: "required" });
  assert.ok(toolCalls.length > 0);
  for (const call of toolCalls) assert.equal(call.toolName, "book"), schema.parse(call.input);
}
const { version } = JSON.parse(readFileSync(modules + "/ai/package.json"));
console.log(JSON.stringify({ version: `ai ${version}, node ${process.version}` }));
