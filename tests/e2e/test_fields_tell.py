"""No field is accepted and ignored: each one that a path takes, by /openapi.json, changes the answer, or is in a short list of those that do not."""
import http.client
import json
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor

from serve import Serve

WORDS = "A fox ran home. A fox ran home. A fox ran home. The old fox saw the little bird, and the little bird saw the old fox. A fox ran"
CHAT = [{"role": "user", "content": WORDS}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}]
# Says all that a template is given, and shows the marks of reasoning and calls.
TEMPLATE = """{# <tool_call> </tool_call> #}{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{{ tools }} {{ documents }}{% for said in [reasoning_effort, enable_thinking, verbosity, mood] %}{% if said is defined and said is not none %} {{ loop.index }} it is said to be {{ said }}{% endif %}{% endfor %}
{% if add_generation_prompt %}assistant:{% if "Think" in messages[-1].content %} <think>{% endif %}{% endif %}{# </think> #}"""
THINKS = {"messages": [{"role": "user", "content": "Think. " + WORDS}]}
BASES = {"/v1/chat/completions": {"messages": CHAT}, "/v1/completions": {"prompt": WORDS}, "/v1/messages": {"messages": CHAT},
         "/v1/responses": {"input": WORDS}, "/api/chat": {"messages": CHAT}, "/api/generate": {"prompt": WORDS}, "/completion": {"prompt": WORDS},
         "/generate": {"text": WORDS}, "/": {"inputs": WORDS, "details": True}, "/generate_stream": {"inputs": WORDS}, "/inference/v1/generate": {"token_ids": []}}
SCHEMA, REGEX, GBNF = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, "[0-9]{3}", 'root ::= "7" [0-9]'
# field: (value, what stands beside it with and without it). T is the id of a token that is made likely, END that of the end, LINE of a line's.
LIKELY, ENDING = {"logit_bias": {"T": 100}}, {"logit_bias": {"END": 100}}
STEERED = {"mirostat": 2}
DRY = {**LIKELY, "dry_multiplier": 5, "dry_allowed_length": 1}
TELLING = {
    "adaptive_target": (0.2, {}), "adaptive_decay": (0, {"adaptive_target": 0.35, "max_tokens": 120, "ignore_eos": True}), "mirostat": (1, {}), "mirostat_tau": (0.5, STEERED), "mirostat_eta": (1, STEERED),
    "add_generation_prompt": (False, {}), "add_special_tokens": (None, {}), "allowed_token_ids": (["T"], {}), "bad_words": (["WORD"], LIKELY),
    "cache_salt": (None, {}), "extra_key": (None, {}), "chat_template": ("{{ messages[0].content }}", {}), "chat_template_kwargs": ({"mood": "sad"}, {}),
    "continue_final_message": (True, {"add_generation_prompt": False}), "do_sample": (False, {}), "documents": ([{"title": "a", "text": "b"}], {}),
    "dry_multiplier": (100, {**LIKELY, "dry_allowed_length": 1}), "dry_base": (50, DRY), "dry_allowed_length": (40, DRY), "dry_penalty_last_n": (0, DRY),
    "dry_sequence_breakers": (["WORD"], DRY), "dynatemp_range": (1, {}), "dynatemp_exponent": (9, {"dynatemp_range": 1}),
    "enable_thinking": (False, {}), "ebnf": (GBNF, {}), "grammar": (GBNF, {}), "guided_grammar": (GBNF, {}), "guided_choice": (["aa", "bb"], {}), "guided_json": (SCHEMA, {}),
    "guided_json_object": (True, {}), "guided_regex": (REGEX, {}), "regex": (REGEX, {}), "json_schema": (SCHEMA, {}), "response_format": ({"type": "json_object"}, {}),
    "format": ("json", {}), "structured_outputs": ({"regex": REGEX}, {}), "structural_tag": (json.dumps({"type": "structural_tag", "format": {"type": "regex", "pattern": REGEX}}), {}),
    "frequency_penalty": (100, LIKELY), "presence_penalty": (100, LIKELY), "repetition_penalty": (5, {}), "repeat_penalty": (5, {}), "repeat_last_n": (0, {"repeat_penalty": 5}),
    "ignore_eos": (True, ENDING), "skip_special_tokens": (False, {**ENDING, "ignore_eos": True}), "include_reasoning": (False, THINKS), "separate_reasoning": (False, THINKS),
    "reasoning_format": ("none", THINKS), "include_stop_str_in_output": (True, {"stop": "e"}), "no_stop_trim": (True, {"stop": "e"}), "stop": ("e", {}), "stop_sequences": (["e"], {}),
    "stop_regex": ("e", {}), "stop_token_ids": (["T"], LIKELY), "logit_bias": ({"T": 100}, {}), "min_tokens": (3, {**LIKELY, "stop_token_ids": ["T"]}),
    "min_new_tokens": (3, {**LIKELY, "stop_token_ids": ["T"]}), "logprobs": (True, {}), "top_logprobs": (2, {"logprobs": True}), "prompt_logprobs": (1, {}),
    "max_tokens": (3, {}), "max_completion_tokens": (3, {}), "max_new_tokens": (3, {}), "max_output_tokens": (3, {}), "n_predict": (3, {}), "num_predict": (3, {}),
    "min_p": (0.9, {}), "top_k": (1, {}), "top_p": (0.01, {}), "top_n_sigma": (0.01, {}), "typical_p": (0.05, {}), "temperature": (0, {}), "seed": (8, {}), "sampling_seed": (8, {}),
    "xtc_probability": (1, {"xtc_threshold": 0.01}), "xtc_threshold": (0.01, {"xtc_probability": 1}), "samplers": (["temperature"], {"top_k": 1}),
    "model": ("no such model", {}), "n": (2, {}), "n_cmpl": (2, {}), "best_of": (2, {}), "nvext": ({"greed_sampling": True}, {}), "priority": (-1, {}),
    "reasoning": ({"effort": "low"}, {}), "reasoning_effort": ("low", {}), "reasoning_budget": (2, THINKS), "reasoning_budget_tokens": (2, THINKS), "thinking_budget_tokens": (2, THINKS), "thinking_token_budget": (2, THINKS),
    "thinking": ({"type": "disabled"}, {}), "think": (False, {}), "verbosity": ("low", {}), "request_id": ("mine", {}), "rid": ("mine", {}), "return_token_ids": (True, {}),
    "return_tokens_as_token_ids": (True, {"logprobs": True}), "service_tier": ("auto", {}), "stream": (True, {}), "stream_options": ({"include_usage": True}, {"stream": True}),
    "timings_per_token": (True, {}), "return_progress": (True, {"stream": True}), "verbose": (True, {}), "tools": (TOOLS, {}), "functions": ([t["function"] for t in TOOLS], {}),
    "tool_choice": ("required", {"tools": TOOLS, "max_tokens": 60}), "function_call": ({"name": "f"}, {"functions": [TOOLS[0]["function"]], "max_tokens": 60}),
    "truncate_prompt_tokens": (5, {}), "truncate": (5, {}), "truncation_side": ("right", {"truncate_prompt_tokens": 5}), "echo": (True, {}), "suffix": ("end", {}),
    "options": ({"temperature": 0}, {}), "raw": (True, {}), "system": ("Be sad.", {}), "n_probs": (2, {}), "return_tokens": (True, {}), "response_fields": (["content"], {}),
    "return_logprob": (True, {}), "top_logprobs_num": (2, {"return_logprob": True}), "logprob_start_len": (0, {"return_logprob": True}),
    "return_text_in_logprobs": (True, {"return_logprob": True}), "sampling_params": ({"temperature": 0}, {}), "parameters": ({"temperature": 0.01}, {}), "details": (False, {}),
    "decoder_input_details": (True, {}), "return_full_text": (None, {}), "top_n_tokens": (2, {}), "input_ids": ([5, 6], {}), "metadata": ({"a": "b"}, {}), "store": (False, {}),
    "background": (True, {}), "include": (["message.output_text.logprobs"], {}), "instructions": ("Be sad.", {}), "previous_response_id": ("resp_none", {}),
    "text": ({"format": {"type": "json_object"}}, {}), "output_config": ({"format": {"type": "json_schema", "schema": SCHEMA}}, {}), "output_format": ({"type": "json_schema", "schema": SCHEMA}, {})}
# What has no effect that shows here, and where it is said or shown.
SILENT = {"timeout": "test_token_fields.py: takes time", "t_max_predict_ms": "tests/unit/gateway/test_llama.c: takes time", "user": "docs/api.md: the client's name for its own user", "parallel_tool_calls": "test_tools.py", "truncation": "test_responses.py"}
SILENT_ON = {("/v1/responses", "service_tier"),  # a response always says which one it had
             ("/generate_stream", "stream"), ("/generate_stream", "return_full_text"), ("/generate_stream", "decoder_input_details"), ("/generate_stream", "details")}
SILENT_ON |= {(path, name) for path in ("/", "/generate_stream", "/inference/v1/generate", "/api/chat", "/api/generate") for name in ("cache_salt", "extra_key")}  # do not tell what was cached
# By path, where a field is another one than elsewhere.
TELLING_ON = {("/v1/completions", "logprobs"): (2, {}), ("/v1/completions", "return_tokens_as_token_ids"): (True, {"logprobs": 2}), ("/inference/v1/generate", "logprobs"): (1, {}),
              ("/completion", "return_tokens_as_token_ids"): (True, {"n_probs": 2}), ("/v1/messages", "thinking"): ({"type": "disabled"}, {}),
              ("/", "stop"): (["e"], {}), ("/generate_stream", "stop"): (["e"], {}), ("/", "best_of"): (2, {"do_sample": True}), ("/v1/responses", "reasoning"): ({"effort": "low"}, {}),
              ("/v1/responses", "top_logprobs"): (2, {"include": ["message.output_text.logprobs"]}), ("/v1/messages", "system"): ("Be sad.", {}),
              ("/v1/messages", "tool_choice"): ({"type": "any"}, {"tools": [{"name": "f", "input_schema": SCHEMA}], "max_tokens": 60}),
              ("/v1/messages", "tools"): ([{"name": "f", "input_schema": SCHEMA}], {}), ("/v1/responses", "tools"): ([{"type": "function", "name": "f", "parameters": SCHEMA}], {}),
              ("/v1/responses", "tool_choice"): ("required", {"tools": [{"type": "function", "name": "f", "parameters": SCHEMA}]}),
              ("/api/generate", "system"): ("Be sad.", {}), ("/v1/responses", "store"): (True, {}), ("/api/generate", "reasoning_format"): ("none", {"prompt": "Think. " + WORDS})}
TELLING_ON |= {(path, "do_sample"): (True, {"temperature": 1}) for path in ("/", "/generate_stream")}
TELLING_ON |= {(path, "bad_words"): (["WORD"], {"allowed_token_ids": ["T", "LINE"]}) for path in ("/api/chat", "/api/generate")}
TELLING_ON |= {(path, "min_new_tokens"): (12, {"allowed_token_ids": ["T", "END"]}) for path in ("/api/chat", "/api/generate")}
TELLING_ON |= {(path, name): (value, {**extras, "allowed_token_ids": ["T", "LINE"]}) for path in ("/api/chat", "/api/generate") for name, value, extras in (
    ("dry_multiplier", 100, {"dry_allowed_length": 1}), ("dry_base", 50, {"dry_multiplier": 1, "dry_allowed_length": 1}), ("dry_allowed_length", 40, {"dry_multiplier": 100}),
    ("dry_penalty_last_n", 0, {"dry_multiplier": 100, "dry_allowed_length": 1}), ("dry_sequence_breakers", ["WORD"], {"dry_multiplier": 100, "dry_allowed_length": 1}))}
LENGTH = {"/v1/responses": "max_output_tokens", "/completion": "n_predict", "/generate": "max_new_tokens", "/": "max_new_tokens", "/generate_stream": "max_new_tokens"}
SAYS_NO = {"add_special_tokens": ("/v1/completions", "/completion", "/generate", "/", "/generate_stream"), "return_full_text": ("/",)}  # true unless it is given
SAME = [{"max_tokens", "max_completion_tokens", "max_new_tokens", "max_output_tokens", "n_predict", "num_predict"}, {"seed", "sampling_seed"}]  # names of one field
OF_REQUEST = {"messages", "prompt", "input", "inputs", "token_ids"}  # what is asked
MEASURED = re.compile(r'"(id|created|created_at|completed_at|item_id|e2e_latency|request_id|signature|call_id|\w+_duration|\w+_ms|\w+_per_second)": ?("[^"]*"|[\d.e-]+)')


class Asker:
    def __init__(self, server):
        self.port = server.port
        tokens = lambda text: server.post("/tokenize", {"content": text, "parse_special": True})[1]["tokens"]
        info = json.loads(server.get("/tokenizer_info")[1])
        self.tokens = {"T": tokens("fox")[0], "END": tokens(info["eos_token"])[0], "LINE": tokens("\n")[0]}
        self.tokens["WORD"] = server.post("/detokenize", {"tokens": [self.tokens["T"]]})[1]["content"].strip()
        BASES["/inference/v1/generate"]["token_ids"] = tokens(WORDS)

    def fill(self, value):
        if isinstance(value, dict):
            return {str(self.fill(k)): self.fill(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.fill(v) for v in value]
        return self.tokens.get(value, value) if isinstance(value, str) else value

    def ask(self, path, body):
        """All that a client sees but for what differs each time."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", path, json.dumps(self.fill(body)), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        given = answer.headers.get("X-Request-Id")
        return answer.status, answer.headers.get_content_type(), given if given == "mine" else None, MEASURED.sub(r'"\1":0', text)

    def base(self, path):
        """Sampled with a seed, so that whatever samples shows."""
        seeded = {"seed": 7, "temperature": 2}
        if path.startswith("/api/"):
            return {**BASES[path], "stream": False, "options": {**seeded, "num_predict": 12}}
        body = {**BASES[path], **seeded, LENGTH.get(path, "max_tokens"): 12}
        return {**body, "store": False} if path == "/v1/responses" else body


def beside(path, body, extras):
    """Extras under the names that the path has for them."""
    for name, value in extras.items():
        if path.startswith("/api/") and name in ("logit_bias", "max_tokens", "stop", "top_k", "ignore_eos"):
            name = {"max_tokens": "num_predict"}.get(name, name)
            body = {**body, "options": {**body["options"], name: value}}
        elif name == "max_tokens":
            body = {**body, LENGTH.get(path, "max_tokens"): value}
        else:
            body = {**body, "stop_sequences" if (path, name) == ("/v1/messages", "stop") else name: [value] if name == "stop" and path != "/v1/completions" else value}
    return body


def case_of(asker, path, name):
    """(path, field, the request without it, the request with it)"""
    value, extras = TELLING_ON.get((path, name)) or TELLING[name]
    body = beside(path, asker.base(path), extras)
    names = next((n for n in SAME if name in n), ())
    if name in ("cache_salt", "extra_key"):
        value = f"{path} {name}"
    elif value is None:
        value = name in SAYS_NO and path not in SAYS_NO[name]
    asked = {k: v for k, v in body.items() if k not in names}
    if "options" in asked:  # of Ollama's: what stands beside them says it alone
        asked["options"] = {k: v for k, v in asked["options"].items() if k != name and k not in names}
    return path, name, body, {**asked, name: value}


def test_no_field_is_ignored():
    template = tempfile.NamedTemporaryFile("w", suffix=".jinja")
    template.write(TEMPLATE)
    template.flush()
    with Serve(args=["--chat-template", template.name, "--trust-request-chat-template"]) as s:
        asker, cases = Asker(s), []
        document = json.loads(s.get("/openapi.json")[1])
        for path in BASES:
            fields = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
            for name, schema in sorted(fields.items()):
                if schema.get("description", "").startswith(("not offered", "taken")) or name in OF_REQUEST or name in SILENT or (path, name) in SILENT_ON:
                    continue
                assert (path, name) in TELLING_ON or name in TELLING, f"{path}: {name} has no row here: give it a value that changes the answer"
                cases.append(case_of(asker, path, name))
        with ThreadPoolExecutor(8) as pool:
            bases = list({json.dumps([path, body]): (path, body) for path, _, body, _ in cases}.items())
            ask = lambda base: asker.ask(*base[1])
            list(pool.map(ask, bases))  # so that what is cached is the same
            without = dict(zip((key for key, _ in bases), pool.map(ask, bases)))
            answers = pool.map(lambda case: asker.ask(case[0], case[3]), cases)
            ignored = [f"{path} {name}" for (path, name, body, _), answer in zip(cases, answers) if answer == without[json.dumps([path, body])]]
        assert not ignored, f"{len(ignored)} fields change nothing: " + ", ".join(ignored)
    return f"{len(cases)} fields"
