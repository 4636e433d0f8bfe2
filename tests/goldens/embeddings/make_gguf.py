#!/usr/bin/env python3
"""Makes the GGUF files of tests/goldens/embeddings/ of folders there, as llama.cpp's converter makes them: its names of tensors and keys are those of
its own package, its changes to tensors and vocabularies are written down here. expected.json says which folder each is of.

    python3 tests/goldens/embeddings/make_gguf.py        (needs gguf, numpy, safetensors)
"""
import json
import os
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
POOLING = {"mean": 1, "cls": 2, "last": 3, "rank": 4}
# As the converter adds it to Qwen3-Reranker.
RERANK = ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "
          "\"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
          "<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")


def read(folder, name):
    return json.load(open(os.path.join(HERE, folder, name)))


def add_vocabulary(w, folder, kinds):
    t = read(folder, "tokenizer.json")
    special = {a["id"] for a in t["added_tokens"] if a["special"]}
    kind = t["model"]["type"]
    if kind == "Unigram":
        words = [p[0] for p in t["model"]["vocab"]]
    else:
        size = max(t["model"]["vocab"].values()) + 1
        words = [""] * size
        for word, i in t["model"]["vocab"].items():
            words[i] = word
    for a in sorted(t["added_tokens"], key=lambda a: a["id"]):
        if a["id"] == len(words):
            words.append(a["content"])
    if kind == "WordPiece":  # a word begins with a mark, what goes on has none
        words = [x if x.startswith("[") and x.endswith("]") else x[2:] if x.startswith("##") else "\u2581" + x for x in words]
    w.add_tokenizer_model({"WordPiece": "bert", "Unigram": "t5", "BPE": "gpt2"}[kind])
    w.add_token_list(words)
    unknown = t["model"].get("unk_id")
    w.add_token_types([2 if i == unknown else 3 if i in special else 1 for i in range(len(words))])
    if kind == "Unigram":
        scores = [p[1] for p in t["model"]["vocab"]]
        w.add_token_scores(scores + [0.0] * (len(words) - len(scores)))
        w.add_add_space_prefix(True)
        w.add_remove_extra_whitespaces(False)
    if kind == "BPE":
        w.add_tokenizer_pre("gpt-2")
        w.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in t["model"]["merges"]])
    if kinds:
        w.add_token_type_count(kinds)
    config = read(folder, "tokenizer_config.json")
    for name, add in (("cls_token", w.add_bos_token_id), ("bos_token", w.add_bos_token_id), ("sep_token", w.add_sep_token_id), ("eos_token", w.add_eos_token_id),
                      ("unk_token", w.add_unk_token_id), ("pad_token", w.add_pad_token_id), ("mask_token", w.add_mask_token_id)):
        token = config.get(name)
        if token and not (name == "bos_token" and config.get("cls_token")):
            add(words.index(token))
    if kind == "BPE" and "eos_token" not in config:  # then the converter takes those of config.json
        w.add_eos_token_id(read(folder, "config.json")["eos_token_id"])


def add_tensors(w, folder, arch, layers, change):
    names = gguf.get_tensor_name_map(arch, layers)
    for name, value in load_file(os.path.join(HERE, folder, "model.safetensors")).items():
        for name, value in change(name, value):
            new = names.get_name(name, try_suffixes=(".weight", ".bias"))
            assert new, f"the converter has no name for '{name}'"
            matrix = value.ndim > 1 and not any(x in new for x in ("position_embd", "token_types"))
            w.add_tensor(new, value.astype(np.float32) if matrix else value.astype(np.float32))


def encoder(folder, out, arch_name, pooling, change, kinds=2, more=lambda w, c: None, labels=()):
    arch = {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[arch_name]
    c = read(folder, "config.json")
    c |= {field: c[own] for own, field in NOMIC.items() if own in c}
    w = gguf.GGUFWriter(os.path.join(HERE, out), arch_name)
    layers = c["num_hidden_layers"]
    w.add_block_count(layers)
    w.add_context_length(c["max_position_embeddings"] - (2 if "roberta" in c["model_type"] else 0))
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_layer_norm_eps(c.get("layer_norm_eps") or c.get("norm_eps"))
    w.add_causal_attention(False)
    w.add_pooling_type(gguf.PoolingType(POOLING[pooling]))
    if labels:
        w.add_classifier_output_labels(list(labels))
    more(w, c)
    add_vocabulary(w, folder, kinds)
    w.add_add_bos_token(True)
    w.add_add_eos_token(True)
    add_tensors(w, folder, arch, layers, change)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def bert(name, value):
    """Without the pooler of a model that makes embeddings, and RoBERTa's first positions."""
    for prefix in ("bert.", "roberta."):
        name = name.removeprefix(prefix)
    if name.startswith("pooler.") or name.endswith("position_ids"):
        return []
    return [(name, value)]


def xlm_roberta(name, value):
    return [(n, v[2:] if "position_embeddings" in n else v) for n, v in bert(name, value)]


def modern(name, value):
    name = name.removeprefix("model.")
    return [(name, value)]


def modern_keys(w, c):
    w.add_sliding_window(c["local_attention"])
    rope = c.get("rope_parameters") or {}
    w.add_rope_freq_base(c.get("global_rope_theta") or rope["full_attention"]["rope_theta"])
    w.add_rope_freq_base_swa(c.get("local_rope_theta") or rope["sliding_attention"]["rope_theta"])
    w.add_sliding_window_pattern(3)


# the author's names of fields
NOMIC = {"n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads", "n_inner": "intermediate_size",
         "n_positions": "max_position_embeddings", "layer_norm_epsilon": "layer_norm_eps"}


def reranker(folder, out):
    """Qwen3-Reranker's form: two rows of the head, and a template for pairs."""
    c = read(folder, "config.json")
    w = gguf.GGUFWriter(os.path.join(HERE, out), "qwen3")
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_key_length(c["head_dim"])
    w.add_value_length(c["head_dim"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_freq_base(c.get("rope_theta") or c["rope_parameters"]["rope_theta"])
    w.add_pooling_type(gguf.PoolingType(POOLING["rank"]))
    w.add_classifier_output_labels(["yes", "no"])
    w.add_chat_template([{"name": "default", "template": "{{ messages[0].content }}"}, {"name": "rerank", "template": RERANK}])
    add_vocabulary(w, folder, 0)
    vocabulary = read(folder, "tokenizer.json")["model"]["vocab"]
    tensors = load_file(os.path.join(HERE, folder, "model.safetensors"))
    head = tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3, c["num_hidden_layers"])
    for name, value in tensors.items():
        if name != "lm_head.weight":
            w.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), value.astype(np.float32))
    w.add_tensor("cls.output.weight", np.stack([head[vocabulary["yes"]], head[vocabulary["no"]]]).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


FILES = {
    "bert-mean.gguf": ("bert-mean", lambda f, o: encoder(f, o, "bert", "mean", bert)),
    "xlm-roberta-cls.gguf": ("xlm-roberta-cls", lambda f, o: encoder(f, o, "bert", "cls", xlm_roberta, kinds=1)),
    "xlm-roberta-rank.gguf": ("xlm-roberta-rank", lambda f, o: encoder(f, o, "bert", "rank", xlm_roberta, kinds=1, labels=["LABEL_0"])),
    "modernbert-mean.gguf": ("modernbert-mean", lambda f, o: encoder(f, o, "modern-bert", "mean", modern, kinds=0, more=modern_keys)),
    "nomic-mean.gguf": ("nomic-mean", lambda f, o: encoder(f, o, "nomic-bert", "mean", lambda n, v: [(n, v)], more=lambda w, c: w.add_rope_freq_base(c["rotary_emb_base"]))),
    "jina-mean.gguf": ("jina-mean", lambda f, o: encoder(f, o, "jina-bert-v2", "mean", bert)),
    "qwen3-yes-no.gguf": ("qwen3-yes-no", lambda f, o: reranker(f, o)),
}


def main():
    path = os.path.join(HERE, "expected.json")
    expected = json.load(open(path))
    for name in sys.argv[1:] or FILES:
        folder, make = FILES[name]
        make(folder, name)
        expected[name] = {"of": folder}
    with open(path, "w") as f:
        json.dump(expected, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
