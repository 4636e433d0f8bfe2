#include "gateway/dialects/labels.h"

enum { LABELS_TOKENS_MAX = 8 << 20 }; /* of all prompts of a request */

/* Adds a text's tokens, or ids. */
static int add_tokens(const struct genreq_prompt *from, const struct text_model *text, bool special,
                      struct token_vec *out, struct api_error *api) {
    struct error err;
    unsigned flags = TOKENIZE_PARSE_SPECIAL | (special ? TOKENIZE_ADD_SPECIAL : 0u);
    for (size_t i = 0; i < from->ids.count && from->is_ids; i++)
        vec_push(out, from->ids.ids[i]);
    int rc = from->is_ids ? 0 : tokenizer_encode(text->tokenizer, from->text, flags, out, &err);
    return rc ? prepare_refuse(api, "items", rc, &err) : 0;
}

/* Two texts as one, as SGLang has it. */
static int add_joined(const struct genreq_prompt *first, const struct genreq_prompt *second,
                      const struct text_model *text, struct token_vec *out, struct api_error *err) {
    struct buf joined = {0};
    buf_add_bytes(&joined, first->text);
    buf_add_bytes(&joined, second->text);
    int rc = joined.failed ? api_error_out_of_memory(err)
                           : add_tokens(&(struct genreq_prompt){.text = buf_bytes(&joined)}, text,
                                        true, out, err);
    buf_release(&joined);
    return rc;
}

static int item_tokens(const struct genreq *g, uint32_t item, const struct served_model *m,
                       struct token_vec *out, struct api_error *err) {
    const struct genreq_prompt *query = &g->prompts[0], *other = &g->prompts[1 + item];
    bool swapped = g->labels.item_first;
    const struct genreq_prompt *first = swapped ? other : query, *second = swapped ? query : other;
    if (prepare_check_bytes(m, query->text.len, m->max_context, "query", err) ||
        prepare_check_bytes(m, other->text.len, m->max_context, "items", err))
        return -1;
    if (g->labels.joins_texts && !first->is_ids && !second->is_ids)
        return add_joined(first, second, m->text, out, err);
    /* the query alone gets tokens of the model's own */
    int rc = add_tokens(first, m->text, first == query && g->add_special_tokens, out, err);
    return rc ? rc
              : add_tokens(second, m->text, second == query && g->add_special_tokens, out, err);
}

/* What the prompts of all items before and of this one take, each as often as there are labels. */
static int check_sum(const struct genreq *g, uint32_t item, const struct prepared *p,
                     struct api_error *err) {
    size_t sum = 0, count = g->labels.ids.count;
    for (uint32_t k = 0; k <= item; k++)
        sum += (p->prompts[k * count].count + 1) * count;
    return sum <= LABELS_TOKENS_MAX
               ? 0
               : api_error_set(err, API_TOO_LARGE, "items",
                               "the prompts of the first %u items, one for each label, have %zu "
                               "tokens; at most %d are taken at once",
                               item + 1, sum, LABELS_TOKENS_MAX);
}

int labels_prompt(const struct genreq *g, uint32_t i, const struct served_model *m,
                  struct prepared *p, struct api_error *err) {
    uint32_t count = (uint32_t)g->labels.ids.count;
    struct token_vec *out = &p->prompts[i];
    if (i % count) {
        const struct token_vec *before = &p->prompts[i - 1];
        for (size_t k = 0; k + 1 < before->count; k++)
            vec_push(out, before->items[k]);
    } else if (item_tokens(g, i / count, m, out, err) || check_sum(g, i / count, p, err)) {
        return -1;
    }
    if (!out->count)
        return api_error_set(err, API_BAD_REQUEST, "items", "item %u and the query have no tokens",
                             i / count);
    vec_push(out, g->labels.ids.items[i % count]);
    /* all labels with the first of them */
    return i ? 0 : prepare_check_ids(g->labels.ids.items, count, m, "label_token_ids", err);
}
