/*
 * vocab.c - sorting tokens into tries.
 */
#include "grammar/vocab.h"

#include "grammar/program.h"

#include <stdlib.h>

struct entry {
    uint64_t head; /* the first eight bytes, so that most comparisons are one */
    struct bytes text;
    struct trie_token token;
};

static int compare_entries(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    size_t shared = MIN(x->text.len, y->text.len);
    int order = shared ? memcmp(x->text.data, y->text.data, shared) : 0;
    if (order)
        return order;
    if (x->text.len != y->text.len)
        return x->text.len < y->text.len ? -1 : 1;
    return x->token.id < y->token.id ? -1 : x->token.id > y->token.id;
}

static uint64_t head_of(struct bytes text) {
    uint64_t head = 0;
    for (size_t i = 0; i < 8; i++)
        head = head << 8 | (i < text.len ? text.data[i] : 0);
    return head;
}

static void trie_build(struct trie *t, struct entry *entries, size_t count) {
    uint32_t open[VOCAB_TOKEN_BYTES_MAX + 2]; /* nodes on the way to the last text */
    size_t depth = 0;
    for (size_t i = 0; i < count; i++)
        entries[i].head = head_of(entries[i].text);
    qsort(entries, count, sizeof *entries, compare_entries);
    vec_push(&t->nodes, ((struct trie_node){0}));
    open[0] = 0;
    struct bytes last = {0};
    for (size_t i = 0; i < count; i++) {
        struct bytes text = entries[i].text;
        size_t same = 0;
        while (same < MIN(last.len, text.len) && last.data[same] == text.data[same])
            same++;
        for (; depth > same; depth--)
            t->nodes.items[open[depth]].end = (uint32_t)t->nodes.count;
        for (; depth < text.len; depth++) {
            open[depth + 1] = (uint32_t)t->nodes.count;
            vec_push(&t->nodes, ((struct trie_node){0, (uint32_t)t->tokens.count, text.data[depth],
                                                    (uint8_t)(depth + 1)}));
        }
        vec_push(&t->tokens, entries[i].token);
        last = text;
    }
    for (; depth > 0; depth--)
        t->nodes.items[open[depth]].end = (uint32_t)t->nodes.count;
    t->nodes.items[0].end = (uint32_t)t->nodes.count;
    vec_push(&t->nodes,
             ((struct trie_node){(uint32_t)t->nodes.count + 1, (uint32_t)t->tokens.count, 0, 0}));
}

/* next[state][byte] of the states of a string; 0: nothing (no byte leads to STATE_STRING). */
typedef uint8_t string_table[STATE_BEHIND_STRING][256];

static void make_table(string_table next) {
    struct builder b;
    struct program p;
    struct error err;
    struct grammar_limits limits = grammar_limits_default();
    builder_init(&b, &limits);
    uint32_t rule = builder_rule(&b);
    builder_set_rule(&b, rule, expr_string(&b, 0, REPEAT_NO_END));
    CHECK(program_compile(&b, rule, &p, &err) == 0);
    for (uint32_t s = 0; s < STATE_BEHIND_STRING; s++)
        for (uint32_t c = 0; c < 256; c++) {
            uint32_t to = program_step(&p, s, (uint8_t)c);
            next[s][c] = to == FA_NONE ? 0 : (uint8_t)to;
        }
    program_release(&p);
    builder_release(&b);
}

static int compare_needs(const void *a, const void *b) {
    const struct vocab_need *x = a, *y = b;
    if (x->chars != y->chars)
        return x->chars < y->chars ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* What each token does inside a string: stays (then into `needs`), or closes it. */
static void read_in_strings(struct vocab *v) {
    static const uint32_t ONE = 1;
    uint8_t(*next)[256] = mem_calloc(STATE_BEHIND_STRING, 256);
    struct entry *entries = mem_calloc(v->token_count + 1, sizeof *entries);
    size_t count = 0;
    make_table(next);
    for (uint32_t id = 0; id < v->token_count; id++) {
        struct bytes text = v->tokens[id];
        uint32_t state = STATE_BODY, chars = 0;
        size_t i = 0;
        while (i < text.len && state && state != STATE_STRING_END) {
            state = next[state][text.data[i++]];
            chars += state == STATE_BODY;
        }
        if (!text.len || !state)
            continue;
        if (state == STATE_STRING_END) {
            entries[count++] =
                (struct entry){.text = bytes_of(text.data + i, text.len - i), .token = {id, chars}};
            continue;
        }
        v->stay[id / 32] |= ONE << id % 32;
        vec_push(&v->needs, ((struct vocab_need){id, chars + (state != STATE_BODY)}));
    }
    if (v->needs.count)
        qsort(v->needs.items, v->needs.count, sizeof *v->needs.items, compare_needs);
    trie_build(&v->behind_string, entries, count);
    mem_free(entries);
    mem_free(next);
}

struct vocab *vocab_new(const struct bytes *tokens, uint32_t token_count, const uint32_t *ends,
                        uint32_t end_count) {
    struct vocab *v = mem_alloc(sizeof *v);
    size_t total = 0, count = 0;
    v->token_count = token_count;
    v->word_count = (token_count + 31) / 32;
    for (uint32_t i = 0; i < token_count; i++)
        total += tokens[i].len <= VOCAB_TOKEN_BYTES_MAX ? tokens[i].len : 0;
    v->text = mem_alloc(total + 1);
    v->tokens = mem_calloc(token_count + 1, sizeof *v->tokens);
    v->stay = mem_calloc(v->word_count + 1, sizeof *v->stay);
    v->ends = mem_calloc(end_count + 1, sizeof *v->ends);
    v->end_count = end_count;
    for (uint32_t i = 0; i < end_count; i++) {
        CHECK(ends[i] < token_count);
        v->ends[i] = ends[i];
    }
    struct entry *entries = mem_calloc(token_count + 1, sizeof *entries);
    size_t at = 0;
    for (uint32_t i = 0; i < token_count; i++) {
        if (!tokens[i].len || tokens[i].len > VOCAB_TOKEN_BYTES_MAX)
            continue;
        memcpy(v->text + at, tokens[i].data, tokens[i].len);
        v->tokens[i] = bytes_of(v->text + at, tokens[i].len);
        at += tokens[i].len;
        entries[count++] = (struct entry){.text = v->tokens[i], .token = {i, 0}};
    }
    trie_build(&v->all, entries, count);
    mem_free(entries);
    read_in_strings(v);
    return v;
}

void vocab_free(struct vocab **vocab) {
    struct vocab *v = *vocab;
    *vocab = NULL;
    if (!v)
        return;
    mem_free(v->tokens);
    mem_free(v->text);
    mem_free(v->ends);
    mem_free(v->stay);
    vec_release(&v->needs);
    vec_release(&v->all.nodes);
    vec_release(&v->all.tokens);
    vec_release(&v->behind_string.nodes);
    vec_release(&v->behind_string.tokens);
    mem_free(v);
}
