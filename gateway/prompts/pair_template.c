#include "gateway/prompts/pair_template.h"

#include <stdio.h>

/* The name under which a template that is no chat's is kept. */
static const char OWN[] = "pair of texts";

/* Jinja drops one end of line at the end of a template. */
#define LAST_LINE "\n"

/* Source: the card of Qwen3-Reranker. */
static const char QWEN3[] =
    "<|im_start|>system\n"
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
    "Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n"
    "<Instruct>: {{ messages | selectattr('role', 'eq', 'system') | map(attribute='content') | first "
    "| default('Given a web search query, retrieve relevant passages that answer the query') }}\n"
    "<Query>: {{ messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first }}\n"
    "<Document>: {{ messages | selectattr('role', 'eq', 'document') | map(attribute='content') | "
    "first }}<|im_end|>\n"
    "<|im_start|>assistant\n"
    "<think>\n\n</think>\n\n" LAST_LINE;

static bool has(struct bytes source, const char *text) {
    return source.len && memmem(source.data, source.len, text, strlen(text));
}

/* The word as a string of Jinja. */
static bool has_string(struct bytes source, const char *word) {
    char quoted[32];
    CHECK(strlen(word) + 3 <= sizeof quoted);
    for (const char *quote = "'\""; *quote; quote++) {
        snprintf(quoted, sizeof quoted, "%c%s%c", *quote, word, *quote);
        if (has(source, quoted))
            return true;
    }
    return false;
}

/* llama.cpp's: marks alone, which become Jinja's. */
static int add_marked(struct chat *chat, struct bytes source, struct error *err) {
    static const struct {
        const char *mark, *jinja;
    } MARKS[] = {{"{query}", "{{ messages[0].content }}"},
                 {"{document}", "{{ messages[1].content }}"}};
    struct buf jinja = {0};
    for (size_t at = 0; at < source.len;) {
        size_t i = 0;
        while (i < ARRAY_LEN(MARKS) &&
               (source.len - at < strlen(MARKS[i].mark) ||
                memcmp(source.data + at, MARKS[i].mark, strlen(MARKS[i].mark)) != 0))
            i++;
        if (i < ARRAY_LEN(MARKS)) {
            buf_add_str(&jinja, MARKS[i].jinja);
            at += strlen(MARKS[i].mark);
        } else {
            buf_add_byte(&jinja, source.data[at++]);
        }
    }
    buf_add_str(&jinja, LAST_LINE);
    int rc = chat_add_template(chat, OWN, buf_bytes(&jinja), err);
    buf_release(&jinja);
    return rc;
}

int pair_template_find(struct chat *chat, bool qwen3_writes, struct pair_template *out,
                       struct error *err) {
    static const char *const NAMES[] = {"rerank", "reranker", NULL};
    *out = (struct pair_template){.is_there = true};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        struct bytes source = chat_template_source(chat, NAMES[i], false);
        out->name = NAMES[i];
        out->takes_instruction = has_string(source, "system");
        if (has_string(source, "query") && has_string(source, "document"))
            return 0;
        if (!NAMES[i] || !has(source, "{query}") || !has(source, "{document}"))
            continue;
        *out = (struct pair_template){.is_there = true, .name = OWN};
        return add_marked(chat, source, err);
    }
    *out = (struct pair_template){.is_there = qwen3_writes, .takes_instruction = true, .name = OWN};
    return qwen3_writes ? chat_add_template(chat, OWN, bytes_str(QWEN3), err) : 0;
}

static void add_message(const char *role, struct bytes content, struct buf *out) {
    buf_addf(out, "%s{\"role\":\"%s\",\"content\":\"", out->len > 1 ? "," : "", role);
    buf_add_json(out, content);
    buf_add_str(out, "\"}");
}

int pair_template_tokens(const struct pair_template *template, const struct chat *chat,
                         const struct tokenizer *tokenizer, const struct text_pair *pair,
                         struct token_vec *out, struct error *err) {
    struct buf messages = {0};
    CHECK(template->is_there);
    buf_add_byte(&messages, '[');
    if (pair->instruction.len)
        add_message("system", pair->instruction, &messages);
    add_message("query", pair->query, &messages);
    add_message("document", pair->document, &messages);
    buf_add_byte(&messages, ']');
    struct chat_request request = {.messages = buf_bytes(&messages),
                                   .template_name = template->name,
                                   .add_generation_prompt = true};
    int rc = messages.failed ? error_set(err, ERR_LIMIT, "the texts are too large")
                             : chat_prompt(chat, tokenizer, &request, out, err);
    buf_release(&messages);
    return rc;
}
