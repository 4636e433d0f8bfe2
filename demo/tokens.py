"""The tokenizer: byte-level BPE of 3072 entries, trained on our own text, and the files of a model folder that speak of text.

`python tokens.py` writes tokenizer.json, tokenizer_config.json, special_tokens_map.json and generation_config.json."""

import argparse
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import chats
import stories
from model import CONFIG, write_json

SPECIALS = ["<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|pad|>"]
BEGIN, END, SYSTEM, USER, ASSISTANT, PAD = range(CONFIG["vocab_size"] - len(SPECIALS), CONFIG["vocab_size"])
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ '<|system|>' + message['content'] | trim + '<|end|>' }}"
    "{% elif message['role'] == 'user' %}{{ '<|user|>' + message['content'] | trim + '<|end|>' }}"
    "{% elif message['role'] == 'assistant' %}{{ '<|assistant|>' + message['content'] | trim + '<|end|>' }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def sample_text(count):
    """Text to learn merges from: chats and plain stories from a seed of their own."""
    rng = random.Random("tokenizer")
    for _ in range(count):
        yield stories.plain_story(rng)
        for _, text in chats.chat(rng):
            yield text


def train_tokenizer(count=20000):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=CONFIG["vocab_size"] - len(SPECIALS), initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    tokenizer.train_from_iterator(sample_text(count), trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIALS])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A <|begin|> $B:1", special_tokens=[("<|begin|>", BEGIN)])])
    assert tokenizer.get_vocab_size() == CONFIG["vocab_size"], tokenizer.get_vocab_size()
    assert [tokenizer.token_to_id(text) for text in SPECIALS] == [BEGIN, END, SYSTEM, USER, ASSISTANT, PAD]
    return tokenizer


def token_config():
    added = {str(BEGIN + i): {"content": text, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True} for i, text in enumerate(SPECIALS)}
    return {
        "added_tokens_decoder": added, "bos_token": "<|begin|>", "eos_token": "<|end|>", "pad_token": "<|pad|>", "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"], "model_max_length": CONFIG["max_position_embeddings"], "tokenizer_class": "PreTrainedTokenizerFast", "chat_template": CHAT_TEMPLATE,
    }


def write_text_files(folder):
    os.makedirs(folder, exist_ok=True)
    train_tokenizer().save(os.path.join(folder, "tokenizer.json"))
    write_json(os.path.join(folder, "tokenizer_config.json"), token_config())
    write_json(os.path.join(folder, "special_tokens_map.json"), {"bos_token": "<|begin|>", "eos_token": "<|end|>", "pad_token": "<|pad|>"})
    write_json(os.path.join(folder, "generation_config.json"), {"bos_token_id": BEGIN, "eos_token_id": [END], "pad_token_id": PAD, "do_sample": True, "temperature": 0.7, "top_p": 0.9})


def render(messages, generate=False):
    """What the chat template renders, without its engine: messages are (role, text)."""
    text = "<|begin|>" + "".join(f"<|{role}|>{content.strip()}<|end|>" for role, content in messages)
    return text + ("<|assistant|>" if generate else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "model"))
    write_text_files(parser.parse_args().out)
