/*
 * bpe_unused.c - SentencePiece's unused pieces: merges make them, but they are not given out.
 */
#include <stdlib.h>

#include "text/tokenizer/bpe_internal.h"

static int compare_results(const void *a, const void *b) {
    const struct bpe_merge *x = a, *y = b;
    return (x->result > y->result) - (x->result < y->result);
}

static bool any_unused(const struct vocab *v) {
    for (size_t i = 0; i < v->entries.count; i++)
        if (v->flags[i] & VOCAB_UNUSED)
            return true;
    return false;
}

void bpe_collect_unused(struct bpe *b) {
    if (!any_unused(b->vocab))
        return;
    VEC(struct bpe_merge) found = {0};
    for (uint32_t i = 0; i < b->merge_count; i++)
        if (b->vocab->flags[b->merges[i].result] & VOCAB_UNUSED)
            vec_push(&found, b->merges[i]);
    if (found.count)
        qsort(found.items, found.count, sizeof *found.items, compare_results);
    b->unused = found.items;
    b->unused_count = found.count;
}

static void push_cut(const struct bpe *b, uint32_t id, struct token_vec *out) {
    const struct bpe_merge want = {.result = id}, *m = NULL;
    if (b->vocab->flags[id] & VOCAB_UNUSED)
        m = bsearch(&want, b->unused, b->unused_count, sizeof want, compare_results);
    if (!m) {
        vec_push(out, id);
        return;
    }
    push_cut(b, m->left, out); /* as deep as the token has symbols at most */
    push_cut(b, m->right, out);
}

void bpe_cut_unused(const struct bpe *b, size_t from, struct token_vec *out) {
    struct token_vec all = {0};
    for (size_t i = from; i < out->count; i++)
        vec_push(&all, out->items[i]);
    out->count = from;
    for (size_t i = 0; i < all.count; i++)
        push_cut(b, all.items[i], out);
    vec_release(&all);
}
