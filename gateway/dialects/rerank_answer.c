/*
 * The answers that compare texts: documents by relevance, or the scores of pairs. With embeddings a
 * score is the cosine of two vectors, with a model made for it the sigmoid of what it gives a pair. And
 * those that say which class a text is of.
 *
 * Sources: docs.cohere.com/reference/rerank, api.jina.ai (rerank); docs.vllm.ai (score, rerank, classify API).
 */
#include <math.h>
#include <stdlib.h>

#include "gateway/dialects/embed.h"

#define ADD(out, literal) buf_add((out), (literal), sizeof(literal) - 1)

static void init(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                 struct u128 number, int64_t created_s, struct bytes model) {
    (void)stream;
    *r = (struct response_writer){.dialect = dialect};
    response_id(dialect, number, r->id);
    buf_addf(&r->head, "{\"id\":\"%s\",\"object\":\"list\",\"created\":%lld,\"model\":\"", r->id,
             (long long)created_s);
    buf_add_json(&r->head, model);
    ADD(&r->head, "\"");
}

/* What the answer shows of its documents. */
static void settings(struct answer *a, const struct genreq *g, const struct wire_sampling *s) {
    (void)s;
    for (uint32_t i = g->embed.first_count; i < g->prompt_count && g->embed.shows_texts; i++) {
        buf_addf(&a->embed.texts, "%s\"", a->embed.texts.len ? ",{\"text\":" : "{\"text\":");
        buf_add_json(&a->embed.texts, g->prompts[i].text);
        ADD(&a->embed.texts, "\"}");
        vec_push(&a->embed.text_ends, a->embed.texts.len);
    }
}

/* The values that submission i became, as they came. */
static const float *values_of(const struct answer *a, uint32_t i, uint32_t *width) {
    const struct buf *text = &a->submissions[i].choices[0].text;
    *width = (uint32_t)(text->len / sizeof(float));
    return (const float *)(const void *)text->data;
}

static double cosine(const struct answer *a, uint32_t i, uint32_t j) {
    uint32_t width, other;
    const float *x = values_of(a, i, &width), *y = values_of(a, j, &other);
    double dot = 0, xx = 0, yy = 0;
    CHECK(width == other);
    for (uint32_t k = 0; k < width; k++) {
        dot += (double)x[k] * (double)y[k];
        xx += (double)x[k] * (double)x[k];
        yy += (double)y[k] * (double)y[k];
    }
    return xx > 0 && yy > 0 ? dot / sqrt(xx * yy) : 0;
}

struct scored {
    uint32_t index;
    double score;
};

static int by_score(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static double score_of(const struct answer *a, uint32_t i) {
    uint32_t width, first = a->embed.first_count;
    double score;
    if (!a->embed.scores)
        return cosine(a, first == 1 ? 0 : i, first + i);
    const float *value = values_of(a, i, &width);
    CHECK(width == 1); /* embed_prepare refuses models of several labels */
    embed_activate(&a->embed, value, 1, &score);
    return score;
}

static void add_usage(const struct answer *a, struct buf *out) {
    struct usage u = answer_usage(a);
    buf_addf(out, "],\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u}}", u.prompt_tokens,
             u.prompt_tokens);
}

/* What the model's files call a class; else as transformers does. */
static void add_label(const struct text_labels *labels, uint32_t i, struct buf *out) {
    if (i < labels->count)
        buf_add_json(out, bytes_str(labels->names[i]));
    else
        buf_addf(out, "LABEL_%u", i);
}

/* The classes of text i, and the likeliest one. */
static void add_classes(const struct answer *a, uint32_t i, struct buf *out) {
    uint32_t width, best = 0;
    const float *values = values_of(a, i, &width);
    double *shown = mem_calloc(width, sizeof *shown);
    embed_activate(&a->embed, values, width, shown);
    for (uint32_t k = 1; k < width; k++)
        best = values[k] > values[best] ? k : best;
    buf_addf(out, "%s{\"index\":%u,\"label\":\"", i ? "," : "", i);
    add_label(a->embed.labels, best, out);
    for (uint32_t k = 0; k < width; k++)
        buf_addf(out, "%s%.9g", k ? "," : "\",\"probs\":[", shown[k]);
    buf_addf(out, "],\"num_classes\":%u}", width);
    mem_free(shown);
}

static void classify_whole(struct answer *a, struct buf *out) {
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    ADD(out, ",\"data\":[");
    for (uint32_t i = 0; i < a->submission_count; i++)
        add_classes(a, i, out);
    add_usage(a, out);
}

/* Returns owned [*count]. */
static struct scored *all_scores(const struct answer *a, uint32_t *count) {
    *count = a->submission_count - (a->embed.scores ? 0 : a->embed.first_count);
    struct scored *all = mem_calloc(*count, sizeof *all);
    for (uint32_t i = 0; i < *count; i++)
        all[i] = (struct scored){i, score_of(a, i)};
    return all;
}

static void add_document(const struct answer *a, uint32_t i, struct buf *out) {
    size_t end = a->embed.text_ends.items[i], at = i ? a->embed.text_ends.items[i - 1] + 1 : 0;
    ADD(out, ",\"document\":");
    buf_add(out, a->embed.texts.data + at, end - at);
}

static void rerank_whole(struct answer *a, struct buf *out) {
    uint32_t count;
    struct scored *all = all_scores(a, &count);
    qsort(all, count, sizeof *all, by_score);
    if (a->embed.top_count)
        count = MIN(count, a->embed.top_count);
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    ADD(out, ",\"results\":[");
    for (uint32_t i = 0; i < count; i++) {
        buf_addf(out, "%s{\"index\":%u,\"relevance_score\":%.9g", i ? "," : "", all[i].index,
                 all[i].score);
        if (a->embed.text_ends.count)
            add_document(a, all[i].index, out);
        ADD(out, "}");
    }
    add_usage(a, out);
    mem_free(all);
}

static void score_whole(struct answer *a, struct buf *out) {
    uint32_t count;
    struct scored *all = all_scores(a, &count);
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    ADD(out, ",\"data\":[");
    for (uint32_t i = 0; i < count; i++)
        buf_addf(out, "%s{\"index\":%u,\"object\":\"score\",\"score\":%.9g}", i ? "," : "", i,
                 all[i].score);
    add_usage(a, out);
    mem_free(all);
}

const struct answer_form answer_rerank = {
    .init = init, .settings = settings, .whole = rerank_whole};
const struct answer_form answer_score = {.init = init, .whole = score_whole};
const struct answer_form answer_classify = {.init = init, .whole = classify_whole};
