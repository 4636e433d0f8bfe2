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
            vec_push(&t->nodes, ((struct trie_node){.token_first = (uint32_t)t->tokens.count,
                                                    .byte = text.data[depth],
                                                    .depth = (uint8_t)(depth + 1)}));
        }
        vec_push(&t->tokens, entries[i].token);
        last = text;
    }
    for (; depth > 0; depth--)
        t->nodes.items[open[depth]].end = (uint32_t)t->nodes.count;
    t->nodes.items[0].end = (uint32_t)t->nodes.count;
    vec_push(&t->nodes, ((struct trie_node){.end = (uint32_t)t->nodes.count + 1,
                                            .token_first = (uint32_t)t->tokens.count}));
    for (uint32_t i = 1; i < t->nodes.count; i = t->nodes.items[i].end) {
        const struct trie_node *node = &t->nodes.items[i];
        vec_push(&t->children, ((struct trie_child){i, node->token_first, node->byte}));
    }
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

/* The state behind the first byte of a character above ASCII. */
static uint8_t text_lead(uint8_t byte) {
    switch (byte) {
    case 0xe0: return TEXT_E0;
    case 0xe2: return TEXT_E2;
    case 0xed: return TEXT_ED;
    case 0xf0: return TEXT_F0;
    case 0xf4: return TEXT_F4;
    default: break;
    }
    if (byte < 0xc2 || byte > 0xf4)
        return TEXT_NONE;
    return byte < 0xe0 ? TEXT_1 : byte < 0xf0 ? TEXT_2 : TEXT_3;
}

uint8_t text_step(enum text_state state, uint8_t byte) {
    if (state == TEXT_BEGIN && byte < 0x80)
        return vocab_is_plain(byte) ? TEXT_BEGIN : TEXT_NONE;
    if (state == TEXT_BEGIN)
        return text_lead(byte);
    if (byte < 0x80 || byte > 0xbf)
        return TEXT_NONE;
    switch (state) {
    case TEXT_1: return TEXT_BEGIN;
    case TEXT_2: return TEXT_1;
    case TEXT_3: return TEXT_2;
    case TEXT_E0: return byte >= 0xa0 ? TEXT_1 : TEXT_NONE;
    case TEXT_E2: return byte == 0x80 ? TEXT_E2_80 : TEXT_1;
    case TEXT_E2_80: return byte == 0xa8 || byte == 0xa9 ? TEXT_NONE : TEXT_BEGIN;
    case TEXT_ED: return byte < 0xa0 ? TEXT_1 : TEXT_NONE;
    case TEXT_F0: return byte >= 0x90 ? TEXT_2 : TEXT_NONE;
    case TEXT_F4: return byte < 0x90 ? TEXT_2 : TEXT_NONE;
    default: return TEXT_NONE;
    }
}

bool vocab_is_text(struct bytes text) {
    uint8_t state = TEXT_BEGIN;
    for (size_t i = 0; i < text.len && state != TEXT_NONE; i++)
        state = text_step((enum text_state)state, text.data[i]);
    return state == TEXT_BEGIN;
}

/* ---- what lies below a node ---- */

static uint32_t group_of(uint32_t c) {
    enum { LARGE = 'z' - 'a' + 1, DIGITS, SPACE, PLAIN, NO_TEXT, ABOVE };
    uint32_t byte = c - TEXT_CONTROLS + 0x20;
    if (c < TEXT_CONTROLS || c == TEXT_OTHER)
        return NO_TEXT;
    if (c >= TEXT_WITHIN)
        return ABOVE;
    if (byte >= 'a' && byte <= 'z')
        return byte - 'a';
    if (byte >= 'A' && byte <= 'Z')
        return LARGE;
    if (byte >= '0' && byte <= '9')
        return DIGITS;
    if (byte == ' ')
        return SPACE;
    return vocab_is_plain((uint8_t)byte) ? PLAIN : NO_TEXT;
}

uint32_t text_bytes_groups(struct text_bytes b) {
    uint32_t groups = 0;
    for (size_t w = 0; w < ARRAY_LEN(b.bits); w++)
        for (uint64_t left = b.bits[w]; left; left &= left - 1)
            groups |= UINT32_C(1) << group_of((uint32_t)w * 64 + (uint32_t)__builtin_ctzll(left));
    return groups;
}

/* The state behind a byte, also of what is no text: it begins behind ASCII. */
static uint8_t text_behind(uint8_t state, uint8_t byte) {
    return byte < 0x80 ? TEXT_BEGIN : text_step((enum text_state)state, byte);
}

static void look_below(struct trie *t) {
    struct trie_node *nodes = t->nodes.items;
    t->below = mem_calloc(t->nodes.count, sizeof *t->below);
    t->groups = mem_calloc(t->nodes.count, sizeof *t->groups);
    for (uint32_t n = 0; n < nodes[0].end; n++)
        for (uint32_t i = n + 1; i < nodes[n].end; i = nodes[i].end)
            nodes[i].text = text_behind(nodes[n].text, nodes[i].byte);
    for (uint32_t n = nodes[0].end; n-- > 0;) {
        struct text_bytes *below = &t->below[n];
        for (uint32_t i = n + 1; i < nodes[n].end; i = nodes[i].end) {
            bool whole = nodes[i].text != TEXT_NONE &&
                         (nodes[i].byte >= 0x80 || nodes[n].text == TEXT_BEGIN);
            for (size_t k = 0; k < ARRAY_LEN(below->bits); k++)
                below->bits[k] |= t->below[i].bits[k];
            text_bytes_add(below, whole ? text_class(nodes[i].byte) : TEXT_OTHER);
            nodes[n].height = MAX(nodes[n].height, (uint8_t)(nodes[i].height + 1));
        }
        t->groups[n] = text_bytes_groups(*below);
    }
}

/* Calls for each node whose byte and the one in front of it are plain: counts them, or lists them. */
static void list_pairs(struct trie *t, bool count) {
    const struct trie_node *nodes = t->nodes.items;
    for (uint32_t n = 1; n < nodes[0].end; n++)
        for (uint32_t i = n + 1; i < nodes[n].end; i = nodes[i].end) {
            if (!vocab_is_plain(nodes[n].byte) || !vocab_is_plain(nodes[i].byte))
                continue;
            uint32_t pair = byte_pair(nodes[n].byte, nodes[i].byte);
            if (count)
                t->pair_first[pair + 2]++;
            else
                t->pair_nodes[t->pair_first[pair + 1]++] = i;
        }
}

static void find_pairs(struct trie *t) {
    t->pair_first = mem_calloc(BYTE_PAIRS + 2, sizeof *t->pair_first);
    list_pairs(t, true);
    for (uint32_t p = 2; p < BYTE_PAIRS + 2; p++)
        t->pair_first[p] += t->pair_first[p - 1];
    t->pair_nodes = mem_calloc(t->pair_first[BYTE_PAIRS + 1] + 1, sizeof *t->pair_nodes);
    list_pairs(t, false);
}

static bool is_short(struct bytes text) {
    return text.len <= VOCAB_SHORT_BYTES;
}

/* entries: all that have bytes. */
static void build_class(struct vocab *v, struct token_class *c, bool (*has)(struct bytes text),
                        const struct entry *entries, size_t count) {
    struct entry *others = mem_calloc(count + 1, sizeof *others);
    size_t other_count = 0;
    c->bits = mem_calloc(v->word_count + 1, sizeof *c->bits);
    for (size_t i = 0; i < count; i++) {
        uint32_t id = entries[i].token.id;
        if (has(entries[i].text))
            c->bits[id / 32] |= 1u << id % 32;
        else
            others[other_count++] = entries[i];
    }
    trie_build(&c->others, others, other_count);
    mem_free(others);
}

static void note_commas(struct vocab *v, uint32_t id) {
    struct bytes text = v->tokens[id];
    const uint8_t *comma = memchr(text.data, ',', text.len);
    const uint8_t *quote = memchr(text.data, '"', text.len);
    if (comma && comma + 1 == text.data + text.len)
        vec_push(&v->last_commas, id);
    if (!comma || comma + 1 == text.data + text.len)
        return;
    vec_push(&v->commas, id);
    if (quote && memchr(quote, ',', (size_t)(text.data + text.len - 1 - quote)))
        vec_push(&v->quoted_commas, id);
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
        v->longest = MAX(v->longest, (uint32_t)tokens[i].len);
        entries[count++] = (struct entry){.text = v->tokens[i], .token = {i, 0}};
        note_commas(v, i);
    }
    build_class(v, &v->texts, vocab_is_text, entries, count);
    build_class(v, &v->shorts, is_short, entries, count);
    trie_build(&v->all, entries, count);
    look_below(&v->all);
    find_pairs(&v->all);
    mem_free(entries);
    read_in_strings(v);
    return v;
}

static void trie_release(struct trie *t) {
    vec_release(&t->children);
    vec_release(&t->nodes);
    vec_release(&t->tokens);
    mem_free(t->below);
    mem_free(t->groups);
    mem_free(t->pair_first);
    mem_free(t->pair_nodes);
}

static void class_release(struct token_class *c) {
    mem_free(c->bits);
    trie_release(&c->others);
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
    class_release(&v->texts);
    class_release(&v->shorts);
    vec_release(&v->needs);
    vec_release(&v->commas);
    vec_release(&v->quoted_commas);
    vec_release(&v->last_commas);
    trie_release(&v->all);
    trie_release(&v->behind_string);
    mem_free(v);
}
