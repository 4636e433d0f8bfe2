"""EleutherAI's lm-evaluation-harness, unchanged, on /v1/completions: its likelihoods are those of `trireme logits`, its answers those of the model."""
import json
import math
import os
import subprocess
import tempfile
from pathlib import Path

from run import Skip
from serve import Serve, binary, bundled_model

try:
    os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import lm_eval
except ImportError:
    lm_eval = None

DOCUMENTS = [
    {"context": "One day, a little girl named Lily found a", "said": " needle in her room.", "other": " zebra of purest quartz;"},
    {"context": "Tom and his dog went to the", "said": " park.", "other": " éclair\nshop"},
    {"context": "The sun was", "said": " hot and the sky was blue. The birds sang in the tree.", "other": "\t\t!"},
]
LIKELIHOOD = """
task: local_choices
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{context}}"
doc_to_choice: "{{[said, other]}}"
doc_to_target: 0
target_delimiter: ""
metric_list: [{metric: acc}]
"""
ROLLING = """
task: local_rolling
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{context}}{{said}}"
metric_list: [{metric: word_perplexity}]
"""
GENERATE = """
task: local_generate
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: generate_until
doc_to_text: "{{context}}"
doc_to_target: "{{said}}"
generation_kwargs: {until: ["."], max_gen_toks: 24, do_sample: false}
metric_list: [{metric: exact_match}]
"""


def evaluated(server, folder, task, text, **more):
    """{(argument, ...): what the harness took as the answer} of a task."""
    data = Path(folder, "data.jsonl")
    data.write_text("".join(json.dumps(d) + "\n" for d in DOCUMENTS))
    Path(folder, f"{task}.yaml").write_text(text.replace("DATA", str(data)))
    model = json.loads(server.get("/v1/models")[1])["data"][0]["id"]
    args = {"model": model, "base_url": f"http://127.0.0.1:{server.port}/v1/completions", "max_retries": 1, **more}
    told = lm_eval.simple_evaluate(model="local-completions", model_args=args, tasks=[task], batch_size=args.pop("batch", 1), log_samples=True,
                                   task_manager=lm_eval.tasks.TaskManager(include_path=folder, include_defaults=False), bootstrap_iters=0)
    return {r[:2] if task == "local_choices" else r[0]: a for s in told["samples"][task] for r, a in zip(s["arguments"], s["resps"])}


def logits(sequences):
    """[[log-probabilities of each position], ...] by another way through the model."""
    lines = "".join(json.dumps({"ids": ids}) + "\n" for ids in sequences)
    out = subprocess.run([binary(), "logits", "--model", bundled_model(), "--compute", "auto"], input=lines, capture_output=True, text=True, check=True)
    return [[log_softmax(row) for row in json.loads(line)["logits"]] for line in out.stdout.splitlines()]


def log_softmax(row):
    top = max(row)
    whole = top + math.log(sum(math.exp(x - top) for x in row))
    return [x - whole for x in row]


def scored(server, prefix, context, said):
    """(likelihood, greedy) of one text behind another, as the harness defines them on ids."""
    def ids(text):
        return server.post("/tokenize", {"prompt": text, "add_special_tokens": False})[1]["tokens"]
    whole, begin = ids(context + said), len(ids(context))
    if prefix is not None:
        whole, begin = [prefix, *whole], begin + 1
    rows = logits([whole])[0]
    return (sum(rows[i - 1][whole[i]] for i in range(begin, len(whole))),
            all(rows[i - 1][whole[i]] == max(rows[i - 1]) for i in range(begin, len(whole))))


def close(answer, wanted, what):
    assert abs(answer[0] - wanted[0]) < 1e-3, f"{what}: {answer} is not {wanted}"


def needs():
    if lm_eval is None:
        raise Skip("lm_eval", "lm_eval is not installed")


def test_likelihoods_are_those_of_the_logits():
    needs()
    with Serve() as s, tempfile.TemporaryDirectory(prefix="trm-") as folder:
        for what in ({}, {"batch": 4}, {"batch": 2, "num_concurrent": 4}):
            told = evaluated(s, folder, "local_choices", LIKELIHOOD, **what)
            assert {said for _, said in told} == {d[k] for d in DOCUMENTS for k in ("said", "other")}, told
            for (context, said), answer in told.items():
                wanted = scored(s, None, context, said)
                close(answer[0], wanted, (what, context, said))
                assert answer[0][1] == wanted[1], (what, context, said, answer, wanted)


def test_rolling_likelihood():
    needs()
    with Serve() as s, tempfile.TemporaryDirectory(prefix="trm-") as folder:
        eos = json.loads(s.get("/tokenizer_info")[1])
        first = s.post("/tokenize", {"prompt": eos["bos_token"] or eos["eos_token"], "add_special_tokens": False})[1]["tokens"][0]
        for text, answer in evaluated(s, folder, "local_rolling", ROLLING).items():
            value = answer[0] if isinstance(answer[0], float) else answer[0][0]
            close((value, None), scored(s, first, "", text), text)


def test_generate_until():
    needs()
    with Serve() as s, tempfile.TemporaryDirectory(prefix="trm-") as folder:
        for batch in (1, 3):
            for context, answer in evaluated(s, folder, "local_generate", GENERATE, batch=batch).items():
                ids = s.post("/tokenize", {"prompt": context, "add_special_tokens": False})[1]["tokens"]
                said = []
                while len(said) < 24 and "." not in s.post("/detokenize", {"tokens": said or ids[:1]})[1]["prompt"]:
                    row = logits([ids + said])[0][-1]
                    said.append(row.index(max(row)))
                text = s.post("/detokenize", {"tokens": said})[1]["prompt"].split(".")[0]
                assert answer[0] == text, (batch, context, answer, text)
