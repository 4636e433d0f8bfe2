/*
 * The answers to requests for embeddings: one object, when all vectors are there.
 *
 * Sources: platform.openai.com/docs/api-reference/embeddings; github.com/ggml-org/llama.cpp,
 * tools/server/README.md; github.com/ollama/ollama, docs/api.md; docs.vllm.ai (pooling API);
 * docs.cohere.com/reference/embed.
 */
#include <math.h>

#include "gateway/dialects/embed.h"

#define ADD(out, literal) buf_add((out), (literal), sizeof(literal) - 1)

/* ---- a vector ---- */

static enum embed_activation activation_of(const struct genreq *g, const struct wire_vectors *v) {
    if (g->embed.normalize == EMBED_AS_IT_IS)
        return EMBED_BARE;
    if (v->softmax)
        return EMBED_SOFTMAX;
    return g->embed.normalize == EMBED_AS_THE_MODEL && v->bare ? EMBED_BARE : EMBED_SIGMOID;
}

void embed_form_init(struct embed_form *form, const struct genreq *g,
                     const struct served_model *m) {
    const struct wire_vectors *v = &m->vectors;
    bool own = g->embed.normalize == EMBED_AS_THE_MODEL;
    *form = (struct embed_form){
        .base64 = g->embed.base64,
        .normalize = own ? v->normalize : g->embed.normalize == EMBED_NORMALIZE,
        .width = g->embed.dimensions ? (uint32_t)g->embed.dimensions : v->width,
        .keeps_values = g->embed.first_count > 0 || g->dialect == GENREQ_CLASSIFY,
        .list = g->answers_list,
        .scores = v->scores,
        .activation = activation_of(g, v),
        .labels = &m->text->labels,
        .first_count = g->embed.first_count,
        .top_count = (uint32_t)g->embed.top_count};
}

/* RFC 4648 */
static void add_base64(const uint8_t *data, size_t len, struct buf *out) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < len; i += 3) {
        size_t n = MIN(len - i, (size_t)3);
        uint32_t bits = (uint32_t)data[i] << 16;
        bits |= n > 1 ? (uint32_t)data[i + 1] << 8 : 0;
        bits |= n > 2 ? (uint32_t)data[i + 2] : 0;
        char text[4] = {DIGITS[bits >> 18], DIGITS[bits >> 12 & 63],
                        n > 1 ? DIGITS[bits >> 6 & 63] : '=', n > 2 ? DIGITS[bits & 63] : '='};
        buf_add(out, text, sizeof text);
    }
}

/* Nine digits give a float back. */
static void add_number(float v, struct buf *out) {
    buf_addf(out, "%.9g", (double)v);
}

/* 1 over the length; of no length: it stays as it is. */
static double scale_of(const float *values, uint32_t width) {
    double sum = 0;
    for (uint32_t i = 0; i < width; i++)
        sum += (double)values[i] * (double)values[i];
    return sum > 0 ? 1 / sqrt(sum) : 1;
}

void embed_activate(const struct embed_form *form, const float *values, uint32_t width,
                    double *out) {
    for (uint32_t i = 0; i < width; i++) {
        double x = (double)values[i];
        out[i] = form->activation == EMBED_SIGMOID ? 1 / (1 + exp(-x)) : x;
    }
    if (form->activation == EMBED_SOFTMAX)
        answer_softmax(out, width);
}

/* A classifier's scores as an array. */
static void write_scores(const struct embed_form *form, const float *values, uint32_t width,
                         struct buf *out) {
    double *shown = mem_calloc(width, sizeof *shown);
    embed_activate(form, values, width, shown);
    for (uint32_t i = 0; i < width; i++)
        buf_addf(out, "%s%.9g", i ? "," : "[", shown[i]);
    ADD(out, "]");
    mem_free(shown);
}

void embed_write(const struct embed_form *form, const float *values, uint32_t width,
                 struct buf *out) {
    uint32_t count = MIN(form->width, width);
    if (form->keeps_values) {
        buf_add(out, values, width * sizeof *values);
        return;
    }
    if (form->scores) {
        write_scores(form, values, width, out);
        return;
    }
    double scale = form->normalize ? scale_of(values, count) : 1;
    struct buf bytes = {0};
    if (!form->base64)
        ADD(out, "[");
    for (uint32_t i = 0; i < count; i++) {
        float v = (float)((double)values[i] * scale);
        if (form->base64) {
            buf_add(&bytes, &v, sizeof v); /* little-endian, as all our machines are */
            continue;
        }
        if (i)
            ADD(out, ",");
        add_number(v, out);
    }
    if (form->base64) {
        ADD(out, "\"");
        add_base64((const uint8_t *)bytes.data, bytes.len, out);
        ADD(out, "\"");
        buf_release(&bytes);
    } else {
        ADD(out, "]");
    }
}

/* ---- the answers ---- */

static void init(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                 struct u128 number, int64_t created_s, struct bytes model) {
    (void)stream;
    *r = (struct response_writer){.dialect = dialect};
    response_id(dialect, number, r->id);
    if (dialect == GENREQ_POOLING)
        buf_addf(&r->head, "\"created\":%lld,", (long long)created_s);
    ADD(&r->head, "\"model\":\"");
    buf_add_json(&r->head, model);
    ADD(&r->head, "\"");
}

static struct bytes vector_of(const struct answer *a, uint32_t i) {
    return buf_bytes(&a->submissions[i].choices[0].text);
}

static void openai_whole(struct answer *a, struct buf *out) {
    struct usage u = answer_usage(a);
    bool pooling = a->writer.dialect == GENREQ_POOLING;
    ADD(out, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < a->submission_count; i++) {
        buf_addf(out, "%s{\"object\":\"%s\",\"index\":%u,\"%s\":", i ? "," : "",
                 pooling ? "pooling" : "embedding", i, pooling ? "data" : "embedding");
        buf_add_bytes(out, vector_of(a, i));
        ADD(out, "}");
    }
    buf_addf(out, "],\"id\":\"%s\",", a->writer.id);
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    buf_addf(out,
             ",\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u,"
             "\"prompt_tokens_details\":{\"cached_tokens\":%u}}}",
             u.prompt_tokens, u.prompt_tokens, u.cached_tokens);
}

static void llama_whole(struct answer *a, struct buf *out) {
    ADD(out, "[");
    for (uint32_t i = 0; i < a->submission_count; i++) {
        buf_addf(out, "%s{\"index\":%u,\"embedding\":[", i ? "," : "", i);
        buf_add_bytes(out, vector_of(a, i));
        ADD(out, "]}");
    }
    ADD(out, "]");
}

static void ollama_whole(struct answer *a, struct buf *out) {
    bool one = a->writer.dialect == GENREQ_OLLAMA_EMBEDDINGS;
    if (one) {
        ADD(out, "{\"embedding\":");
        buf_add_bytes(out, vector_of(a, 0));
        ADD(out, "}");
        return;
    }
    ADD(out, "{");
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    ADD(out, ",\"embeddings\":[");
    for (uint32_t i = 0; i < a->submission_count; i++) {
        if (i)
            ADD(out, ",");
        buf_add_bytes(out, vector_of(a, i));
    }
    buf_addf(out, "],\"total_duration\":%lld,\"load_duration\":0,\"prompt_eval_count\":%u}",
             (long long)(a->times.end_us - a->times.start_us) * 1000,
             answer_usage(a).prompt_tokens);
}

/* SGLang's: the id is the request's own, if it has one. */
static void encode_settings(struct answer *a, const struct genreq *g,
                            const struct wire_sampling *s) {
    (void)s;
    buf_add_bytes(&a->embed.texts, g->request_id.len ? g->request_id : bytes_str(a->writer.id));
    a->is_short |= a->embed.texts.failed;
}

static void encode_whole(struct answer *a, struct buf *out) {
    if (a->embed.list)
        ADD(out, "[");
    for (uint32_t i = 0; i < a->submission_count; i++) {
        const struct submission *sub = &a->submissions[i];
        buf_add_str(out, i ? ",{\"embedding\":" : "{\"embedding\":");
        buf_add_bytes(out, vector_of(a, i));
        ADD(out, ",\"meta_info\":{\"id\":\"");
        buf_add_json(out, buf_bytes(&a->embed.texts));
        buf_addf(out,
                 "\",\"finish_reason\":null,\"prompt_tokens\":%zu,\"cached_tokens\":%u,"
                 "\"e2e_latency\":%.6f}}",
                 sub->prompt.count, sub->cached_tokens,
                 (double)(a->times.end_us - a->times.start_us) * 1e-6);
    }
    if (a->embed.list)
        ADD(out, "]");
}

/* Cohere's answers repeat their texts. */
static void cohere_settings(struct answer *a, const struct genreq *g,
                            const struct wire_sampling *s) {
    (void)s;
    for (uint32_t i = 0; i < g->prompt_count; i++) {
        ADD(&a->embed.texts, "\"");
        buf_add_json(&a->embed.texts, g->prompts[i].text);
        buf_add_str(&a->embed.texts, i + 1 < g->prompt_count ? "\"," : "\"");
    }
    a->is_short |= a->embed.texts.failed;
    if (g->embed.has_input_type)
        ADD(&a->writer.head, ",\"warnings\":[\"input_type has no effect here: a model's words for "
                             "it have to stand in the texts\"]");
}

static void cohere_whole(struct answer *a, struct buf *out) {
    buf_addf(out,
             "{\"id\":\"%s\",\"response_type\":\"embeddings_by_type\",\"embeddings\":{\"%s\":[",
             a->writer.id, a->embed.base64 ? "base64" : "float");
    for (uint32_t i = 0; i < a->submission_count; i++) {
        if (i)
            ADD(out, ",");
        buf_add_bytes(out, vector_of(a, i));
    }
    ADD(out, "]},\"texts\":[");
    buf_add_bytes(out, buf_bytes(&a->embed.texts));
    buf_addf(out,
             "],\"meta\":{\"api_version\":{\"version\":\"2\"},\"billed_units\":{"
             "\"input_tokens\":%u}",
             answer_usage(a).prompt_tokens);
    buf_add_bytes(out, buf_bytes(&a->writer.head));
    ADD(out, "}}");
}

static void bare_init(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                      struct u128 number, int64_t created_s, struct bytes model) {
    (void)stream, (void)created_s, (void)model;
    *r = (struct response_writer){.dialect = dialect};
    response_id(dialect, number, r->id);
}

/* There is never a stream, so only what writes a whole answer is there. */
const struct answer_form answer_embeddings = {.init = init, .whole = openai_whole};
const struct answer_form answer_pooling = {.init = init, .whole = openai_whole};
const struct answer_form answer_cohere_embed = {
    .init = bare_init, .settings = cohere_settings, .whole = cohere_whole};
const struct answer_form answer_encode = {
    .init = bare_init, .settings = encode_settings, .whole = encode_whole};
const struct answer_form answer_llama_embedding = {.init = init, .whole = llama_whole};
const struct answer_form answer_ollama_embed = {.init = init, .whole = ollama_whole};
