#!/usr/bin/env python3
"""Makes tests/goldens/embeddings/: folders of tiny random models as sentence-transformers saves them, and what it makes of some texts.

Each folder is a whole model: config.json, safetensors, tokenizer.json, modules.json and the modules' own files. expected.json has, for each
folder, texts, their token ids and the vectors that SentenceTransformer.encode gives in float32.

    python3 tests/goldens/embeddings/make.py        (needs torch, transformers 5, sentence-transformers, tokenizers)
"""
import json
import os
import shutil
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
import transformers
from safetensors.torch import save_file
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.models import Dense, Normalize, Pooling, Transformer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = ["the quick brown fox", "A fox jumps over the lazy dog, twice.", "fox", "", "Ünïcode tëxt and 12345 numbers!",
         " ".join(f"word{i % 7} jumps" for i in range(30))]
WORDS = "the quick brown fox jumps over lazy dog twice and numbers text unicode word a".split()


def wordpiece():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + WORDS + list("abcdefghijklmnopqrstuvwxyz0123456789,.!")
    pieces += ["##" + c for c in "abcdefghijklmnopqrstuvwxyz0123456789"]
    vocab = {p: i for i, p in enumerate(dict.fromkeys(pieces))}
    t = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
                                                mask_token="[MASK]", model_max_length=64), len(vocab)


def unigram():
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -3.0)]
    pieces += [("▁" + w, -4.0 - i / 10) for i, w in enumerate(WORDS)]
    pieces += [(c, -6.0 - i / 10) for i, c in enumerate("abcdefghijklmnopqrstuvwxyzAÜï ë0123456789,.!".replace(" ", ""))]
    t = Tokenizer(models.Unigram(pieces, unk_id=3))
    t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    t.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>",
                                                unk_token="<unk>", pad_token="<pad>", model_max_length=64), len(pieces) + 1


def byte_pairs():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"],
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.TemplateProcessing("$A <|endoftext|>", None, [("<|endoftext|>", 0)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|endoftext|>", pad_token="<|endoftext|>", padding_side="left",
                                                model_max_length=256), t.get_vocab_size()


def cls_and_sep():
    """ModernBERT's: pieces of bytes between [CLS] and [SEP], and no segments."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=300, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"],
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", [("[CLS]", 1), ("[SEP]", 2)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]",
                                                mask_token="[MASK]", model_max_length=256), t.get_vocab_size()


def bos_and_eos():
    """Gemma's: <bos> before a text, <eos> behind it."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=300, special_tokens=["<pad>", "<eos>", "<bos>"],
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.TemplateProcessing("<bos> $A <eos>", None, [("<bos>", 2), ("<eos>", 1)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", model_max_length=256), \
        t.get_vocab_size()


IDS = dict(pad_token_id=3, bos_token_id=1, cls_token_id=1, eos_token_id=2, sep_token_id=2)  # of cls_and_sep
SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
CASES = {
    "bert-mean": (wordpiece, transformers.BertConfig, dict(SMALL, max_position_embeddings=64), "mean", True),
    "bert-max": (wordpiece, transformers.BertConfig, dict(SMALL, max_position_embeddings=64), "max", False),
    "xlm-roberta-cls": (unigram, transformers.XLMRobertaConfig, dict(SMALL, max_position_embeddings=66, type_vocab_size=1), "cls", True),
    "qwen3-last": (byte_pairs, transformers.Qwen3Config,
                   dict(SMALL, num_key_value_heads=2, head_dim=16, max_position_embeddings=256, tie_word_embeddings=True), "lasttoken", True),
    # windows far narrower than the longest text
    "modernbert-mean": (cls_and_sep, transformers.ModernBertConfig,
                        dict(SMALL, **IDS, num_hidden_layers=5, max_position_embeddings=256, local_attention=12, global_attn_every_n_layers=3), "mean", True),
    "gemma-dense": (bos_and_eos, transformers.Gemma3TextConfig,
                    dict(SMALL, num_hidden_layers=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=256, sliding_window=16,
                         query_pre_attn_scalar=16, use_bidirectional_attention=True,
                         layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]), "mean", True),
    # as its files are published: GPT-2's names of fields
    "nomic-mean": (wordpiece, transformers.NomicBertConfig, dict(SMALL, max_position_embeddings=64), "mean", True),
}
# What follows the pooling: (values in, values out, bias, what it goes through) each.
DENSE = {"gemma-dense": [(32, 48, False, torch.nn.Identity()), (48, 24, True, torch.nn.Tanh())]}


def draw(model, seed):
    """Every tensor matters: norms and biases too."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        norm = "norm" in name.lower() and name.endswith("weight")
        scale = 0.2 if norm else p.shape[-1] ** -0.5 if p.ndim == 2 and "embed" not in name else 0.3
        p.data = torch.randn(p.shape, generator=generator) * scale + (1.0 if norm else 0.0)


def nomic_as_published(path):
    """NomicBertModel's fields as the author's own class has them."""
    config = json.load(open(path))
    names = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "intermediate_size": "n_inner",
             "max_position_embeddings": "n_positions", "layer_norm_eps": "layer_norm_epsilon"}
    kept = {field: config[field] for field in ("architectures", "model_type", "vocab_size", "type_vocab_size")}
    kept |= {new: config[field] for field, new in names.items()}
    kept |= {"activation_function": "swiglu", "attn_pdrop": 0.0, "causal": False, "dense_seq_output": True, "fused_bias_fc": True,
             "mlp_fc1_bias": False, "mlp_fc2_bias": False, "qkv_proj_bias": False, "parallel_block": False, "prenorm": False, "use_rms_norm": False,
             "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
             "rotary_scaling_factor": None, "scale_attn_weights": True, "use_flash_attn": True, "torch_dtype": "float32"}
    json.dump(kept, open(path, "w"), indent=2)


def make(name, seed):
    tokens, config_class, options, way, normalize = CASES[name]
    tokenizer, vocab = tokens()
    config = config_class(vocab_size=vocab, **options)
    model = transformers.AutoModel.from_config(config).eval()
    draw(model, seed)
    out = os.path.join(HERE, name)
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as plain:
        model.save_pretrained(plain)
        tokenizer.save_pretrained(plain)
        modules = [Transformer(plain), Pooling(config.hidden_size, pooling_mode=way)]
        for i, (width, out_width, bias, activation) in enumerate(DENSE.get(name, [])):
            modules.append(Dense(width, out_width, bias=bias, activation_function=activation))
            draw(modules[-1], seed + 1000 * (i + 1))
        whole = SentenceTransformer(modules=modules + ([Normalize()] if normalize else []), device="cpu")
        whole.save(out)
    again = SentenceTransformer(out, device="cpu")  # what was saved is what is compared with
    assert all(abs(again.encode(t) - whole.encode(t)).max() < 1e-6 for t in TEXTS if t)
    if name == "nomic-mean":
        nomic_as_published(os.path.join(out, "config.json"))
    for root, _, files in os.walk(out):
        for f in files:
            if f.endswith(".md"):
                os.remove(os.path.join(root, f))
    texts = [t for t in TEXTS if t or way != "lasttoken"]
    vectors = [whole.encode(t, convert_to_numpy=True).astype("float32") for t in texts]
    ids = [tokenizer(t)["input_ids"] for t in texts]
    return {"texts": texts, "ids": ids, "vectors": [[float(f"{x:.8g}") for x in v] for v in vectors]}


# Its class is published with its weights (jinaai/jina-bert-implementation), not in transformers: what it computes is written down here.
JINA = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=6, intermediate_size=40)


def jina_tensors(vocab, seed):
    """Every tensor matters, as in draw()."""
    hidden, width, generator = JINA["hidden_size"], JINA["intermediate_size"], torch.Generator().manual_seed(seed)
    shapes = {"embeddings.word_embeddings.weight": (vocab, hidden), "embeddings.token_type_embeddings.weight": (2, hidden), "embeddings.LayerNorm": hidden}
    for i in range(JINA["num_hidden_layers"]):
        at = f"encoder.layer.{i}."
        shapes |= {f"{at}attention.self.{n}": (hidden, hidden) for n in ("query", "key", "value")}
        shapes |= {f"{at}attention.output.dense": (hidden, hidden), f"{at}attention.output.LayerNorm": hidden, f"{at}mlp.gated_layers.weight": (2 * width, hidden),
                   f"{at}mlp.wo": (hidden, width), f"{at}mlp.layernorm": hidden}
    drawn = {}
    for name, shape in shapes.items():
        if name.endswith("weight"):
            drawn[name] = torch.randn(shape, generator=generator) * (0.3 if "embed" in name else shape[1] ** -0.5)
        elif isinstance(shape, int):
            drawn[name + ".weight"] = 1 + torch.randn(shape, generator=generator) * 0.2
            drawn[name + ".bias"] = torch.randn(shape, generator=generator) * 0.3
        else:
            drawn[name + ".weight"] = torch.randn(shape, generator=generator) * shape[1] ** -0.5
            drawn[name + ".bias"] = torch.randn(shape[0], generator=generator) * 0.3
    return drawn


def alibi_slopes(heads):
    """Press et al. 2022; of 6 heads those of 4, then every other one of 8."""
    low = 1 << (heads.bit_length() - 1)
    return [2 ** (-8 * (i + 1) / low) for i in range(low)] + [2 ** (-4 * (2 * i + 1) / low) for i in range(heads - low)]


def jina_vector(w, ids):
    """[T] ids -> [hidden], in float64: the mean of all positions, of length 1."""
    w = {name: value.double() for name, value in w.items()}
    heads, eps = JINA["num_attention_heads"], 1e-12
    linear = lambda x, name: torch.nn.functional.linear(x, w[name + ".weight"], w.get(name + ".bias"))
    norm = lambda x, name: torch.nn.functional.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], eps)
    x = norm(w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    at = torch.arange(len(ids))
    away = -torch.tensor(alibi_slopes(heads), dtype=torch.float64)[:, None, None] * (at[:, None] - at[None, :]).abs()
    for i in range(JINA["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        q, k, v = (linear(x, f"{layer}attention.self.{n}").view(len(ids), heads, -1).transpose(0, 1) for n in ("query", "key", "value"))
        shares = torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5 + away, -1)
        x = norm(linear((shares @ v).transpose(0, 1).reshape(len(ids), -1), f"{layer}attention.output.dense") + x, f"{layer}attention.output.LayerNorm")
        gate, up = linear(x, f"{layer}mlp.gated_layers").chunk(2, -1)
        x = norm(linear(torch.nn.functional.gelu(gate) * up, f"{layer}mlp.wo") + x, f"{layer}mlp.layernorm")
    return torch.nn.functional.normalize(x.mean(0), dim=0)


def make_jina(name, seed):
    """The folder of a BERT of the same vocabulary, with Jina's config and tensors."""
    out = os.path.join(HERE, name)
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(os.path.join(HERE, "bert-mean"), out)
    tokenizer, vocab = wordpiece()
    tensors = jina_tensors(vocab, seed)
    save_file({n: t.contiguous() for n, t in tensors.items()}, os.path.join(out, "model.safetensors"), {"format": "pt"})
    config = {"architectures": ["JinaBertForMaskedLM"], "model_type": "bert", "vocab_size": vocab, "type_vocab_size": 2, "max_position_embeddings": 64,
              "position_embedding_type": "alibi", "feed_forward_type": "geglu", "emb_pooler": "mean", "hidden_act": "gelu", "layer_norm_eps": 1e-12,
              "attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.1, "initializer_range": 0.02, "pad_token_id": 0, "classifier_dropout": None,
              "gradient_checkpointing": False, "use_cache": True, "torch_dtype": "float32", "transformers_version": "4.26.0", **JINA}
    json.dump(config, open(os.path.join(out, "config.json"), "w"), indent=2)
    pooling = os.path.join(out, "1_Pooling", "config.json")
    fields = json.load(open(pooling))
    json.dump({f: JINA["hidden_size"] if "dimension" in f else v for f, v in fields.items()}, open(pooling, "w"), indent=4)
    ids = [tokenizer(t)["input_ids"] for t in TEXTS]
    return {"texts": TEXTS, "ids": ids, "vectors": [short(jina_vector(tensors, i[:63] + i[-1:] if len(i) > 64 else i)) for i in ids]}


PAIRS = [("the quick fox", "A fox jumps over the lazy dog."), ("numbers", "12345"), ("dog", "text and numbers " * 6), ("a", "fox")]


RANKS = {
    "xlm-roberta-rank": (unigram, transformers.XLMRobertaConfig, dict(SMALL, max_position_embeddings=66, type_vocab_size=1), None),
    # two segments, of which the second begins behind the first [SEP]
    "bert-rank": (wordpiece, transformers.BertConfig, dict(SMALL, max_position_embeddings=64), None),
    # shown as the model gives it, as its files say
    "bert-rank-bare": (wordpiece, transformers.BertConfig, dict(SMALL, max_position_embeddings=64), torch.nn.Identity()),
    "modernbert-rank": (cls_and_sep, transformers.ModernBertConfig,
                        dict(SMALL, **IDS, num_hidden_layers=5, max_position_embeddings=256, local_attention=12, classifier_pooling="mean"), None),
    "modernbert-rank-cls": (cls_and_sep, transformers.ModernBertConfig,
                            dict(SMALL, **IDS, max_position_embeddings=256, local_attention=12, classifier_pooling="cls", classifier_bias=True, norm_bias=True),
                            None),
    "qwen3-rank": (byte_pairs, transformers.Qwen3Config,
                   dict(SMALL, num_key_value_heads=2, head_dim=16, max_position_embeddings=256, tie_word_embeddings=True, pad_token_id=0), None),
}


def as_published(path):
    """ModernBERT's fields as transformers 4 wrote them and most files have them, with those that its configuration class passes over."""
    config = json.load(open(path))
    for field in ("layer_types", "rope_parameters", "dtype"):
        config.pop(field, None)
    config |= {"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "layer_norm_eps": 1e-05,
               "position_embedding_type": "absolute", "reference_compile": False, "repad_logits_with_grad": False, "torch_dtype": "float32"}
    json.dump(config, open(path, "w"), indent=2)


def add_field(path, field, value):
    content = json.load(open(path)) | {field: value}
    json.dump(content, open(path, "w"), indent=2)


def make_pairs(name, seed):
    """A cross-encoder: one label, whose sigmoid is the score, unless its files say otherwise."""
    tokens, config_class, options, activation = RANKS[name]
    tokenizer, vocab = tokens()
    config = config_class(vocab_size=vocab, num_labels=1, **options)
    model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    draw(model, seed)
    out = os.path.join(HERE, name)
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    if config_class is transformers.BertConfig:  # as BertTokenizer has it
        add_field(os.path.join(out, "tokenizer_config.json"), "model_input_names", ["input_ids", "token_type_ids", "attention_mask"])
    if name == "modernbert-rank":
        as_published(os.path.join(out, "config.json"))
    if activation is not None:  # where releases before 5 wrote it, and most files have it
        add_field(os.path.join(out, "config.json"), "sentence_transformers", {"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.1.0"})
    scores = CrossEncoder(out, device="cpu").predict(PAIRS, convert_to_numpy=True)
    return {"pairs": PAIRS, "scores": [float(f"{x:.8g}") for x in scores]}


CLASSES = {
    # one of three, by name
    "bert-classes": (wordpiece, transformers.BertConfig, dict(SMALL, max_position_embeddings=64, id2label={0: "cross", 1: "calm", 2: "glad"}), "softmax"),
    # each of four, or none
    "modernbert-tags": (cls_and_sep, transformers.ModernBertConfig,
                        dict(SMALL, **IDS, max_position_embeddings=256, local_attention=12, classifier_pooling="mean", num_labels=4,
                             problem_type="multi_label_classification"), "sigmoid"),
    # two numbers, by the last position
    "qwen3-numbers": (byte_pairs, transformers.Qwen3Config,
                      dict(SMALL, num_key_value_heads=2, head_dim=16, max_position_embeddings=256, tie_word_embeddings=True, num_labels=2,
                           problem_type="regression"), "none"),
}


def save_folder(name, model, tokenizer):
    out = os.path.join(HERE, name)
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return out


def short(tensor):
    return [float(f"{x:.8g}") for x in tensor.tolist()]


def make_classes(name, seed):
    """A classifier: what its problem makes of the values of its labels."""
    tokens, config_class, options, way = CLASSES[name]
    tokenizer, vocab = tokens()
    model = transformers.AutoModelForSequenceClassification.from_config(config_class(vocab_size=vocab, **options)).eval()
    draw(model, seed)
    save_folder(name, model, tokenizer)
    texts = [t for t in TEXTS if 0 < len(t) < 64]
    with torch.no_grad():
        values = [model(**tokenizer(t, return_tensors="pt", return_token_type_ids=False)).logits[0] for t in texts]
    shown = [{"softmax": torch.softmax(v, -1), "sigmoid": torch.sigmoid(v), "none": v}[way] for v in values]
    labels = [model.config.id2label[i] for i in range(model.config.num_labels)]
    return {"texts": texts, "labels": labels, "values": [short(v) for v in values], "classes": [short(v) for v in shown]}


# As the card of Qwen3-Reranker has it.
JUDGE = ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only "
         "be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
         "<|im_start|>assistant\n<think>\n\n</think>\n\n")
USUAL = "Given a web search query, retrieve relevant passages that answer the query"
# vLLM's form: messages of roles of its own.
ROLES = ("{%- for m in messages %}{{ {'query': 'Q: ', 'document': 'D: ', 'system': 'S: '}[m.role] + m.content + '\n' }}{%- endfor %}A:")


def judge_tokens():
    """byte_pairs with the tokens that a judge needs."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train_from_iterator(TEXTS + ["yes", "no"] * 100, trainers.BpeTrainer(vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                                         special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))
    assert t.token_to_id("yes") and t.token_to_id("no")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left",
                                                model_max_length=1024), t.get_vocab_size()


# name: (tied, chat template or none, instruction's mark, prompt of a pair)
JUDGES = {
    "qwen3-yes-no": (True, None, lambda q, d, i: JUDGE.format(instruction=i or USUAL, query=q, document=d)),
    "qwen3-yes-no-roles": (False, ROLES, lambda q, d, i: (f"S: {i}\n" if i else "") + f"Q: {q}\nD: {d}\nA:"),
}


def make_judge(name, seed):
    """A model that writes, asked for "yes" or "no"."""
    tied, template, prompt = JUDGES[name]
    tokenizer, vocab = judge_tokens()
    if template:
        tokenizer.chat_template = template
    config = transformers.Qwen3Config(vocab_size=vocab, num_key_value_heads=2, head_dim=16, max_position_embeddings=1024, tie_word_embeddings=tied, **SMALL)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    draw(model, seed)
    save_folder(name, model, tokenizer)
    yes, no = (tokenizer.convert_tokens_to_ids(t) for t in ("yes", "no"))

    def scores(instruction):
        with torch.no_grad():
            ends = [model(**tokenizer(prompt(q, d, instruction), return_tensors="pt", return_token_type_ids=False)).logits[0, -1] for q, d in PAIRS]
        return [float(f"{torch.sigmoid(e[yes] - e[no]).item():.8g}") for e in ends]
    instruction = "Find a text about a fox"
    made = {"judged": PAIRS, "args": ["--score-tokens", "yes,no"], "scores": scores(""), "instruction": instruction, "instructed": scores(instruction)}
    return made | {"modules": by_modules(os.path.join(HERE, name), made["scores"])} if template else made


def by_modules(folder, scores):
    """sentence-transformers' own form of such a model: the module LogitScore, of two tokens and of one, through the sigmoid and bare."""
    judge = CrossEncoder(folder, device="cpu")
    score = judge[1]
    assert abs(judge.predict(PAIRS) - scores).max() < 1e-6
    tokens = {"true_token_id": score.true_token_id, "false_token_id": score.false_token_id}
    bare = judge.predict(PAIRS, activation_fn=torch.nn.Identity())
    score.false_token_id = None
    return {"tokens": tokens, "bare": short(bare), "of_one": short(judge.predict(PAIRS))}


def main():
    names = sys.argv[1:] or [*CASES, *RANKS, *CLASSES, *JUDGES, "jina-mean"]
    path = os.path.join(HERE, "expected.json")
    expected = json.load(open(path)) if os.path.exists(path) else {}
    for i, name in enumerate(CASES):
        if name in names:
            expected[name] = make(name, 100 + i)
    for i, name in enumerate(RANKS):
        if name in names:
            expected[name] = make_pairs(name, 200 + i)
    for i, name in enumerate(CLASSES):
        if name in names:
            expected[name] = make_classes(name, 300 + i)
    for i, name in enumerate(JUDGES):
        if name in names:
            expected[name] = make_judge(name, 400 + i)
    if "jina-mean" in names:
        expected["jina-mean"] = make_jina("jina-mean", 500)
    with open(path, "w") as f:
        json.dump(expected, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
