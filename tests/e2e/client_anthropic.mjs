// Drives a running server with the unchanged anthropic-sdk-typescript: node client_anthropic.mjs BASE_URL NODE_MODULES
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [url, modules] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { Anthropic } = require("@anthropic-ai/sdk");
const { betaZodTool } = require("@anthropic-ai/sdk/helpers/beta/zod");
const { zodOutputFormat } = require("@anthropic-ai/sdk/helpers/zod");
const { z } = require("zod");
const client = new Anthropic({ baseURL: url.replace(/\/v1$/, ""), apiKey: "none", maxRetries: 0 });

const model = (await client.models.list()).data[0].id;
assert.equal((await client.models.retrieve(model)).type, "model");
const say = { model, max_tokens: 24, temperature: 0, system: "You are brief.", messages: [{ role: "user", content: "Hello! Who are you?" }] };
const told = (message) => message.content.map(({ id, ...block }) => block); // the ids of calls differ from answer to answer

// messages: whole, as events, and by the helper, whose sum of the events is the whole answer
const whole = await client.messages.create(say);
assert.equal(whole.role, "assistant");
assert.deepEqual(whole.content.map((block) => block.type), ["text"]);
let text = "";
const events = [];
for await (const event of await client.messages.create({ ...say, stream: true })) {
  events.push(event.type);
  if (event.type === "content_block_delta") text += event.delta.text;
}
assert.equal(text, whole.content[0].text);
assert.deepEqual([events[0], ...events.slice(-3)], ["message_start", "content_block_stop", "message_delta", "message_stop"]);
let pieces = "";
const helper = client.messages.stream(say).on("text", (piece) => (pieces += piece));
const summed = await helper.finalMessage();
assert.deepEqual([told(summed), summed.stop_reason, summed.usage.output_tokens], [told(whole), whole.stop_reason, whole.usage.output_tokens]);
assert.equal(pieces, text);

// what the prompt has, counted without an answer
const { max_tokens, temperature, ...prompt } = say;
const counted = await client.messages.countTokens(prompt);
assert.equal(counted.input_tokens, whole.usage.input_tokens + (whole.usage.cache_read_input_tokens ?? 0));

// a call that is forced, whole and streamed; then what it said goes back
const Trip = z.object({ stays: z.boolean(), nights: z.enum(["one", "seven"]) });
const input_schema = { type: "object", properties: { stays: { type: "boolean" }, nights: { enum: ["one", "seven"] } }, required: ["stays", "nights"], additionalProperties: false };
const tools = [{ name: "book", description: "Books.", input_schema }];
const forced = { ...say, max_tokens: 120, tools, tool_choice: { type: "tool", name: "book" } };
const called = await client.messages.create(forced);
assert.equal(called.stop_reason, "tool_use");
const call = called.content.find((block) => block.type === "tool_use");
assert.equal(call.name, "book");
Trip.parse(call.input);
let json = "";
const calling = client.messages.stream(forced).on("inputJson", (piece) => (json += piece));
assert.deepEqual(told(await calling.finalMessage()), told(called));
assert.deepEqual(JSON.parse(json), call.input);
const back = [...say.messages, { role: "assistant", content: called.content }, { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "booked" }] }];
assert.ok((await client.messages.countTokens({ ...prompt, messages: back, tools })).input_tokens > counted.input_tokens);
assert.equal((await client.messages.create({ ...say, messages: back, tools })).role, "assistant");

// the helper that calls a function itself, and a form
let booked = null;
const run = async (input) => ((booked = input), "booked");
const runner = client.beta.messages.toolRunner({ ...forced, max_iterations: 1, tools: [betaZodTool({ name: "book", description: "Books.", inputSchema: Trip, run })] });
await runner.runUntilDone();
Trip.parse(booked);
const parsed = await client.messages.parse({ ...say, max_tokens: 120, output_config: { format: zodOutputFormat(Trip) } });
Trip.parse(parsed.parsed_output);

// errors are the package's own
await assert.rejects(client.messages.create({ ...say, model: "nobody" }), (e) => e instanceof Anthropic.NotFoundError && e.error.error.type === "not_found_error");
await assert.rejects(client.messages.create({ ...say, temperature: -1 }), (e) => e instanceof Anthropic.BadRequestError && /temperature/.test(e.message));
const { version } = JSON.parse(readFileSync(modules + "/@anthropic-ai/sdk/package.json"));
console.log(JSON.stringify({ version: `anthropic-sdk-typescript ${version}, node ${process.version}` }));
