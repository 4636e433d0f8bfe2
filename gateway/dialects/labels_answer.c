/*
 * The answers to requests that ask how likely tokens are: one object, when all of them are known.
 *
 * Sources: github.com/vllm-project/vllm, vllm/entrypoints/generate/generative_scoring;
 * github.com/sgl-project/sglang, python/sglang/srt/entrypoints/openai/protocol.py (ScoringResponse);
 * github.com/InternLM/lmdeploy, lmdeploy/serve/openai/protocol.py (PPLResponse).
 */
#include "gateway/dialects/labels.h"

#include <math.h>

#define ADD(out, literal) buf_add((out), (literal), sizeof(literal) - 1)

static void init(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                 struct u128 number, int64_t created_s, struct bytes model) {
    (void)stream;
    *r = (struct response_writer){.dialect = dialect};
    response_id(dialect, number, r->id);
    if (dialect == GENREQ_GENERATIVE_SCORING)
        buf_addf(&r->head, "\"id\":\"%s\",\"object\":\"list\",\"created\":%lld,", r->id,
                 (long long)created_s);
    ADD(&r->head, "\"model\":\"");
    buf_add_json(&r->head, model);
    ADD(&r->head, "\"");
}

static void settings(struct answer *a, const struct genreq *g, const struct wire_sampling *s) {
    (void)s;
    a->labels.count = (uint32_t)g->labels.ids.count;
    a->labels.softmax = g->labels.softmax;
}

static double logprob_of(const struct answer *a, uint32_t submission) {
    return a->submissions[submission].choices[0].logprob_sum;
}

/* What item i's labels are shown as, [count]: their probabilities among all tokens, or among each
 * other. */
static void probabilities(const struct answer *a, uint32_t item, double *out) {
    uint32_t count = a->labels.count, first = item * count;
    for (uint32_t i = 0; i < count; i++) {
        double logprob = logprob_of(a, first + i);
        out[i] = a->labels.softmax ? logprob : exp(logprob);
    }
    if (a->labels.softmax)
        answer_softmax(out, count);
}

/* One label of each item was a prompt's last token, and no more is counted of the others. */
static void add_usage(const struct answer *a, uint32_t items, struct buf *out) {
    struct usage usage = {.completion_tokens = items};
    for (uint32_t i = 0; i < items; i++) {
        const struct submission *sub = &a->submissions[i * a->labels.count];
        usage.prompt_tokens += (uint32_t)sub->prompt.count - 1;
        usage.cached_tokens += sub->cached_tokens;
    }
    response_usage(&usage, out);
}

static void scores_whole(struct answer *a, struct buf *out) {
    uint32_t items = a->submission_count / a->labels.count;
    bool lists = a->writer.dialect == GENREQ_LABEL_SCORES;
    double *shown = mem_calloc(a->labels.count, sizeof *shown);
    ADD(out, "{");
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    buf_add_str(out, lists ? ",\"object\":\"scoring\",\"scores\":[" : ",\"data\":[");
    for (uint32_t i = 0; i < items; i++) {
        probabilities(a, i, shown);
        if (i)
            ADD(out, ",");
        if (!lists)
            buf_addf(out, "{\"index\":%u,\"object\":\"score\",\"score\":%.9g}", i, shown[0]);
        for (uint32_t k = 0; k < a->labels.count && lists; k++)
            buf_addf(out, "%s%.9g", k ? "," : "[", shown[k]);
        if (lists)
            ADD(out, "]");
    }
    ADD(out, "],");
    add_usage(a, items, out);
    ADD(out, "}");
    mem_free(shown);
}

/* The mean cross-entropy, which LMDeploy calls by this name. */
static void ppl_whole(struct answer *a, struct buf *out) {
    size_t scored = a->submissions[0].prompt.count - 1;
    buf_addf(out, "{\"ppl\":%.9g}", -logprob_of(a, 0) / (double)scored);
}

static void whole(struct answer *a, struct buf *out) {
    if (a->writer.dialect == GENREQ_PPL)
        ppl_whole(a, out);
    else
        scores_whole(a, out);
}

/* There is never a stream. */
const struct answer_form answer_labels = {.init = init, .settings = settings, .whole = whole};
