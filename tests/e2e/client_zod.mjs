// Structured output as openai-node's helpers for zod ask for it, unchanged: node client_zod.mjs BASE_URL NODE_MODULES
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [url, modules] = process.argv.slice(2);
const require = createRequire(modules + "/");
const OpenAI = require("openai").default ?? require("openai");
const { zodResponseFormat, zodFunction, zodTextFormat, zodResponsesFunction } = require("openai/helpers/zod");
const { z } = require("zod/v3"); // what the helpers of this openai-node read
const client = new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 0 });

const model = (await client.models.list()).data[0].id;
const Trip = z.object({ stays: z.boolean(), nights: z.union([z.literal(1), z.literal(7)]), way: z.enum(["there", "back"]), stop: z.object({ days: z.array(z.boolean()).min(1).max(3) }).nullable() });
const chat = { model, messages: [{ role: "user", content: "Hello!" }], temperature: 1, seed: 11, max_tokens: 200 };
const fits = (told) => (assert.ok(told), Trip.parse(told));

const format = { ...chat, response_format: zodResponseFormat(Trip, "trip") };
const whole = fits((await client.chat.completions.parse(format)).choices[0].message.parsed);
const stream = await client.chat.completions.stream(format).finalChatCompletion();
assert.deepEqual(fits(stream.choices[0].message.parsed), whole);

const tools = { ...chat, tools: [zodFunction({ name: "book", parameters: Trip })], tool_choice: "required" };
const [call] = (await client.chat.completions.parse(tools)).choices[0].message.tool_calls;
assert.equal(call.function.name, "book");
fits(call.function.parsed_arguments);
let booked = null;
const run = client.chat.completions.runTools({ ...chat, tools: [zodFunction({ name: "book", parameters: Trip, function: (told) => ((booked = told), "done") })], tool_choice: { type: "function", function: { name: "book" } } });
await run.finalChatCompletion();
fits(booked);

const ask = { model, input: "Hello!", temperature: 0, max_output_tokens: 200 };
fits((await client.responses.parse({ ...ask, text: { format: zodTextFormat(Trip, "trip") } })).output_parsed);
const forced = await client.responses.parse({ ...ask, tools: [zodResponsesFunction({ name: "book", parameters: Trip })], tool_choice: "required" });
fits(JSON.parse(forced.output[0].arguments)); // this openai-node parses the whole item into parsed_arguments
const { version } = JSON.parse(readFileSync(modules + "/zod/package.json"));
console.log(JSON.stringify({ version: `zod ${version}, node ${process.version}` }));
