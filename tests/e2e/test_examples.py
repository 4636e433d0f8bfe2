"""The requests that the manuals of llama.cpp, vLLM, SGLang and TGI type with curl, with their fields and headers: each is answered in its form.

llama-server serves whatever model a request names; here the manuals' names are further names of the model."""
import json
import shutil
import subprocess

from run import Skip
from serve import Serve

CHAT = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": "Write a limerick about exceptions"}]
NAMES = "trireme-demo,gpt-3.5-turbo,gpt-4.1,gpt-4,davinci-002,Qwen/Qwen2.5-1.5B-Instruct,facebook/opt-125m"
ITEM = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}}, "required": ["name"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "of a place", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"], "additionalProperties": False}}}
JSON, KEY = "Content-Type: application/json", "Authorization: Bearer no-key"

# path, headers, body, what the answer has: dotted members
EXAMPLES = [
    # llama.cpp
    ("/completion", [JSON], {"prompt": "Building a website can be done in 10 simple steps:", "n_predict": 16}, "content stop_type timings.predicted_n generation_settings.top_k"),
    ("/completion", [], {"prompt": "Once", "n_predict": 4, "logit_bias": [[15, 1.0], [16, False]], "samplers": ["dry", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"],
                         "n_probs": 2, "id_slot": -1, "cache_prompt": True, "lora": [], "n_keep": 0, "t_max_predict_ms": 0, "min_keep": 0}, "completion_probabilities.0.top_logprobs"),
    ("/tokenize", [], {"content": "Hello world!", "with_pieces": True}, "tokens.0.piece"),
    ("/detokenize", [], {"tokens": [5, 6]}, "content"),
    ("/apply-template", [JSON], {"messages": CHAT}, "prompt"),
    ("/v1/completions", [JSON, KEY], {"model": "davinci-002", "prompt": "I believe the meaning of life is", "max_tokens": 8}, "choices.0.text usage.total_tokens"),
    ("/v1/chat/completions", [JSON, KEY], {"model": "gpt-3.5-turbo", "messages": CHAT, "max_tokens": 16}, "choices.0.message.content"),
    ("/v1/chat/completions", [JSON], {"messages": CHAT, "max_tokens": 60, "timings_per_token": True, "response_format": {"type": "json_object", "schema": ITEM}},
     "choices.0.message.content timings.prompt_n"),
    ("/v1/chat/completions", [JSON], {"messages": CHAT, "max_tokens": 60, "response_format": {"type": "json_schema", "schema": ITEM}}, "choices.0.message.content"),
    ("/v1/chat/completions", [JSON], {"model": "gpt-3.5-turbo", "messages": CHAT, "max_tokens": 60, "tools": [TOOL], "tool_choice": "required"},
     "choices.0.message.tool_calls.0.function.arguments"),
    ("/v1/responses", [JSON, KEY], {"model": "gpt-4.1", "instructions": "Be brief.", "input": "Write a limerick", "max_output_tokens": 8}, "output.0.content.0.text"),
    ("/v1/messages", [JSON, "x-api-key: your-api-key"], {"model": "gpt-4", "max_tokens": 8, "system": "You are helpful.", "messages": CHAT[1:]}, "content.0.text stop_reason"),
    ("/v1/messages/count_tokens", [JSON], {"model": "gpt-4", "messages": CHAT[1:]}, "input_tokens"),
    ("/v1/chat/completions/input_tokens", [JSON], {"messages": CHAT}, "input_tokens"),
    # vLLM
    ("/v1/completions", [JSON], {"model": "Qwen/Qwen2.5-1.5B-Instruct", "prompt": "San Francisco is a", "max_tokens": 7, "temperature": 0}, "choices.0.text"),
    ("/v1/chat/completions", [JSON], {"model": "facebook/opt-125m", "messages": CHAT, "max_tokens": 8, "structured_outputs": {"choice": ["positive", "negative"]}},
     "choices.0.message.content"),
    ("/v1/chat/completions", [JSON], {"messages": CHAT, "max_tokens": 8, "guided_choice": ["positive", "negative"], "top_k": 20, "chat_template_kwargs": {"enable_thinking": False}},
     "choices.0.message.content"),
    ("/v1/completions", [JSON], {"prompt": "San Francisco", "max_tokens": 1, "logprobs": 1, "prompt_logprobs": 1, "return_token_ids": True},
     "choices.0.prompt_logprobs choices.0.token_ids choices.0.prompt_token_ids"),
    ("/tokenize", [JSON], {"model": "facebook/opt-125m", "prompt": "Hello", "return_token_strs": True}, "token_strs.0 max_model_len"),
    ("/v1/chat/completions/render", [JSON], {"messages": CHAT}, "token_ids sampling_params"),
    ("/v1/completions/render", [JSON], {"prompt": ["Hello", "there"]}, "1.token_ids 1.sampling_params"),
    # SGLang
    ("/generate", [JSON], {"text": "The capital of France is", "sampling_params": {"temperature": 0, "max_new_tokens": 8}}, "text output_ids.0 meta_info.finish_reason.type"),
    ("/generate", [JSON], {"text": ["The president is", "The capital is"], "sampling_params": {"temperature": 0.8, "top_p": 0.95, "n": 2, "max_new_tokens": 4}}, "3.text"),
    ("/generate", [JSON], {"text": "Say yes.", "sampling_params": {"max_new_tokens": 8, "regex": "(yes|no)"}}, "text meta_info.completion_tokens"),
    ("/generate", [JSON], {"text": "A person:", "sampling_params": {"max_new_tokens": 60, "json_schema": json.dumps(ITEM)}}, "text"),
    ("/generate", [JSON], {"input_ids": [5, 6, 7], "return_logprob": True, "top_logprobs_num": 2, "logprob_start_len": -1, "sampling_params": {"max_new_tokens": 2}},
     "meta_info.output_token_logprobs.1.0 meta_info.output_top_logprobs.1.1.1"),
    # vLLM's token ids
    ("/inference/v1/generate", [JSON], {"model": "facebook/opt-125m", "token_ids": [5, 6, 7], "sampling_params": {"max_tokens": 3, "logprobs": 1}},
     "request_id choices.0.token_ids.2 choices.0.logprobs.content.2.top_logprobs.0"),
    # TGI
    ("/generate", [JSON], {"inputs": "What is Deep Learning?", "parameters": {"max_new_tokens": 20}}, "generated_text"),
    ("/", [JSON], {"inputs": "What is Deep Learning?", "parameters": {"max_new_tokens": 4, "details": True, "top_n_tokens": 2}}, "0.generated_text 0.details.tokens.3.logprob 0.details.top_tokens.3.1"),
    ("/generate", [JSON], {"inputs": "I saw a puppy a cat and a raccoon during my bike ride in the park", "parameters": {"repetition_penalty": 1.3, "grammar": {"type": "json", "value": ITEM}}}, "generated_text"),
    ("/generate", [JSON], {"inputs": "Say yes.", "parameters": {"max_new_tokens": 8, "details": True, "grammar": {"type": "regex", "value": "(yes|no)"}}}, "details.finish_reason"),
]


def member(answer, path):
    for name in path.split("."):
        answer = answer[int(name)] if isinstance(answer, list) else answer[name]
    return answer


def test_as_curl_types_them():
    if not shutil.which("curl"):
        raise Skip("curl", "curl is not installed")
    with Serve(args=["--served-model-name", NAMES, "--tool-call-parser", "hermes", "--seed", 7]) as s:
        for path, headers, body, members in EXAMPLES:
            words = [w for header in headers for w in ("-H", header)]
            out = subprocess.run(["curl", "-sS", f"http://127.0.0.1:{s.port}{path}", *words, "-d", json.dumps(body)], capture_output=True, text=True, timeout=60)
            try:
                answer = json.loads(out.stdout)
                got = [member(answer, m) for m in members.split()]
            except (ValueError, KeyError, IndexError, TypeError):
                got = []
            assert got and None not in got, (path, body, out.stdout, out.stderr)
        # as SGLang's manual and its benchmark read a stream: each object has the whole text
        body = {"text": "Once upon a time", "sampling_params": {"temperature": 0, "max_new_tokens": 12}}
        out = subprocess.run(["curl", "-sSN", f"http://127.0.0.1:{s.port}/generate", "-H", JSON, "-d", json.dumps(body | {"stream": True})], capture_output=True, text=True, timeout=60)
        events = [line[len("data: "):] for line in out.stdout.splitlines() if line.startswith("data:")]
        told = [json.loads(e) for e in events[:-1]]
        assert events[-1] == "[DONE]" and [t["meta_info"]["completion_tokens"] for t in told] == [*range(1, 13), 12], out
        assert all(b["text"].startswith(a["text"]) for a, b in zip(told, told[1:])) and told[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 12}, out
        whole = s.post("/generate", body)[1]
        assert (whole["text"], whole["output_ids"]) == (told[-1]["text"], told[-1]["output_ids"]), (whole, out)
        out = subprocess.run(["curl", "-sS", f"http://127.0.0.1:{s.port}/slots/0?action=save", "-d", '{"filename": "a.bin"}'], capture_output=True, text=True, timeout=60)
        assert json.loads(out.stdout)["error"]["code"] == 501, out
    return f"{len(EXAMPLES)} requests"
