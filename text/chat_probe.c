/*
 * chat_probe.c - well-known templates for models that come without one, told by the tokens of their
 * vocabulary.
 *
 * The first row whose tokens are all there is taken; the rows that any SentencePiece vocabulary
 * would fit also ask for config.json's model_type.
 */
#include "text/chat.h"

enum { PROBE_TOKENS = 3 };

#define SYSTEM_FIRST                                                                               \
    "{% set system = messages[0].content if messages[0].role == 'system' else '' %}"               \
    "{% set turns = messages[1:] if system else messages %}"
#define TURNS(open, middle, close)                                                                 \
    "{% for m in messages %}" open "{{ m.role }}" middle "{{ m.content }}" close "{% endfor %}"
#define GENERATE(text) "{% if add_generation_prompt %}" text "{% endif %}"

static const struct probe {
    const char *name;
    const char *tokens[PROBE_TOKENS];
    const char *model_type; /* NULL: any */
    const char *source;
} PROBES[] = {
    {"chatml",
     {"<|im_start|>", "<|im_end|>"},
     NULL,
     TURNS("<|im_start|>", "{{ '\n' }}", "<|im_end|>{{ '\n' }}")
         GENERATE("<|im_start|>assistant{{ '\n' }}")},
    {"llama3",
     {"<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"},
     NULL,
     "<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>{{ "
     "'\n\n' }}"
     "{{ m.content | trim }}<|eot_id|>{% endfor %}" GENERATE(
         "<|start_header_id|>assistant<|end_header_id|>{{ '\n\n' }}")},
    {"phi3",
     {"<|end|>", "<|user|>", "<|assistant|>"},
     NULL,
     TURNS("<|", "|>{{ '\n' }}", "<|end|>{{ '\n' }}") GENERATE("<|assistant|>{{ '\n' }}")},
    {"gemma",
     {"<start_of_turn>", "<end_of_turn>"},
     NULL,
     "<bos>" SYSTEM_FIRST "{% for m in turns %}<start_of_turn>{{ 'model' if m.role == 'assistant' "
     "else m.role }}{{ '\n' }}"
     "{{ system + '\n\n' if system and loop.first }}{{ m.content | trim }}<end_of_turn>{{ '\n' "
     "}}{% endfor %}" GENERATE("<start_of_turn>model{{ '\n' }}")},
    {"deepseek",
     {"<｜User｜>", "<｜Assistant｜>"},
     NULL,
     "{{ bos_token }}" SYSTEM_FIRST
     "{{ system }}{% for m in turns %}{% if m.role == 'assistant' %}<｜Assistant｜>"
     "{{ m.content }}{{ eos_token }}{% else %}<｜User｜>{{ m.content }}{% endif %}{% endfor "
     "%}" GENERATE("<｜Assistant｜>")},
    {"command-r",
     {"<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"},
     NULL,
     "{{ bos_token }}{% for m in messages %}<|START_OF_TURN_TOKEN|><|{{ 'CHATBOT' if m.role == "
     "'assistant' else m.role "
     "| "
     "upper }}_TOKEN|>{{ m.content }}<|END_OF_TURN_TOKEN|>{% endfor %}" GENERATE(
         "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>")},
    {"zephyr",
     {"<|user|>", "<|assistant|>", "</s>"},
     NULL,
     TURNS("<|", "|>{{ '\n' }}", "</s>{{ '\n' }}") GENERATE("<|assistant|>{{ '\n' }}")},
    {"mistral",
     {"[INST]", "[/INST]"},
     NULL,
     "<s>" SYSTEM_FIRST "{% for m in turns %}{% if m.role == 'assistant' %} {{ m.content | trim "
     "}}</s>{% else %}[INST] "
     "{{ system + '\n\n' if system and loop.first }}{{ m.content }} [/INST]{% endif %}{% endfor "
     "%}"},
    {"mistral",
     {"<s>", "</s>", "<0x0A>"},
     "mistral",
     "<s>" SYSTEM_FIRST
     "{% for m in turns %}{% if m.role == 'assistant' %}{{ m.content | trim }}</s>{% else %}[INST] "
     "{{ system + '\n\n' if system and loop.first }}{{ m.content }} [/INST]{% endif %}{% endfor "
     "%}"},
    {"llama2",
     {"<s>", "</s>", "<0x0A>"},
     "llama",
     SYSTEM_FIRST "{% for m in turns %}{% if m.role == 'assistant' %} {{ m.content | trim }} "
                  "</s>{% else %}<s>[INST] "
                  "{{ '<<SYS>>\n' + system + '\n<</SYS>>\n\n' if system and loop.first }}{{ "
                  "m.content | trim }} [/INST]"
                  "{% endif %}{% endfor %}"},
};

static bool has_tokens(const struct tokenizer *t, const struct probe *p) {
    for (size_t i = 0; i < PROBE_TOKENS && p->tokens[i]; i++)
        if (tokenizer_find(t, bytes_str(p->tokens[i])) == TOKEN_NONE)
            return false;
    return true;
}

const char *chat_probe(struct chat *chat, const struct tokenizer *tokenizer,
                       struct bytes model_type) {
    if (chat_has_template(chat))
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(PROBES); i++) {
        const struct probe *p = &PROBES[i];
        if (!has_tokens(tokenizer, p) ||
            (p->model_type && !bytes_equal(model_type, bytes_str(p->model_type))))
            continue;
        int rc = chat_set_template(chat, bytes_str(p->source), NULL);
        CHECK_MSG(rc == 0, "the template '%s'", p->name);
        return p->name;
    }
    return NULL;
}
