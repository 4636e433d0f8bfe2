#include "gateway/dialects/response.h"

#include <inttypes.h>

#include "base/hash.h"

/* OpenAI's two dialects differ in these words. */
struct shape {
    const char *id_prefix, *object, *chunk_object;
    const char *begin;      /* members of a choice in its first chunk; NULL: no such chunk */
    const char *text_open;  /* before a chunk's text, */
    const char *text_close; /* and behind it */
    const char *finish;     /* members of a choice in its last chunk, up to finish_reason */
    const char *full_open;  /* before the whole text, */
    const char *full_close; /* and behind it */
};

static const struct shape shapes[GENREQ_DIALECT_COUNT] = {
    [GENREQ_CHAT] = {"chatcmpl-", "chat.completion", "chat.completion.chunk",
                     ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]",
                     ",\"delta\":{\"content\":\"", "\"}",
                     ",\"delta\":{},\"logprobs\":null,\"finish_reason\":\"",
                     ",\"message\":{\"role\":\"assistant\",\"content\":\"", "\",\"refusal\":null}"},
    [GENREQ_COMPLETIONS] = {"cmpl-", "text_completion", "text_completion", NULL, ",\"text\":\"",
                            "\"", ",\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"",
                            ",\"text\":\"", "\""},
    /* of these the id alone: the rest is written by files of their own */
    [GENREQ_MESSAGES] = {.id_prefix = "msg_"},
    [GENREQ_OLLAMA_CHAT] = {.id_prefix = "ollama-"},
    [GENREQ_OLLAMA_GENERATE] = {.id_prefix = "ollama-"},
    [GENREQ_RESPONSES] = {.id_prefix = "resp_"},
    [GENREQ_COMPLETION] = {.id_prefix = "cmpl-"},
    [GENREQ_INFILL] = {.id_prefix = "cmpl-"},
    [GENREQ_EMBEDDINGS] = {.id_prefix = "embd-"},
    [GENREQ_LLAMA_EMBEDDING] = {.id_prefix = "embd-"},
    [GENREQ_OLLAMA_EMBED] = {.id_prefix = "ollama-"},
    [GENREQ_OLLAMA_EMBEDDINGS] = {.id_prefix = "ollama-"},
    [GENREQ_RERANK] = {.id_prefix = "rerank-"},
    [GENREQ_SCORE] = {.id_prefix = "score-"},
    [GENREQ_POOLING] = {.id_prefix = "pool-"},
    [GENREQ_CLASSIFY] = {.id_prefix = "classify-"},
    [GENREQ_COHERE_EMBED] = {.id_prefix = "embd-"},
    [GENREQ_GENERATE] = {.id_prefix = "gen-"},
    [GENREQ_TGI] = {.id_prefix = "gen-"},
    [GENREQ_TGI_STREAM] = {.id_prefix = "gen-"},
    [GENREQ_TGI_ROOT] = {.id_prefix = "gen-"},
    [GENREQ_TOKENS] = {.id_prefix = "generate-tokens-"},
    [GENREQ_ENCODE] = {.id_prefix = "embd-"},
    [GENREQ_INVOCATION] = {.id_prefix = "gen-"},
    [GENREQ_GENERATIVE_SCORING] = {.id_prefix = "generative-scoring-"},
    [GENREQ_LABEL_SCORES] = {.id_prefix = "score-"},
    [GENREQ_PPL] = {.id_prefix = "ppl-"},
};

#define ADD(out, literal) buf_add((out), (literal), sizeof(literal) - 1)

void response_id(enum genreq_dialect dialect, struct u128 number, char out[RESPONSE_ID_MAX]) {
    const char *prefix = shapes[dialect].id_prefix;
    size_t prefix_len = strlen(prefix);
    memcpy(out, prefix, prefix_len);
    u128_text(number, out + prefix_len);
}

void response_init(struct response_writer *r, enum genreq_dialect dialect, bool stream,
                   struct u128 number, int64_t created_s, struct bytes model) {
    const struct shape *shape = &shapes[dialect];
    *r = (struct response_writer){.dialect = dialect};
    response_id(dialect, number, r->id);
    buf_init(&r->head, 0);
    buf_addf(&r->head, "%s{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":\"",
             stream ? "data: " : "", r->id, stream ? shape->chunk_object : shape->object,
             (long long)created_s);
    buf_add_json(&r->head, model);
    ADD(&r->head, "\",\"choices\":[");
}

void response_tell_tier(struct response_writer *r) {
    static const char CHOICES[] = ",\"choices\":[";
    CHECK(r->head.len > sizeof CHOICES);
    r->head.len -= sizeof CHOICES - 1;
    ADD(&r->head, ",\"service_tier\":\"default\"");
    ADD(&r->head, CHOICES);
}

void response_release(struct response_writer *r) {
    buf_release(&r->head);
}

void response_usage(const struct usage *u, struct buf *out) {
    ADD(out, "\"usage\":{\"prompt_tokens\":");
    buf_add_u64(out, u->prompt_tokens);
    ADD(out, ",\"completion_tokens\":");
    buf_add_u64(out, u->completion_tokens);
    ADD(out, ",\"total_tokens\":");
    buf_add_u64(out, (uint64_t)u->prompt_tokens + u->completion_tokens);
    ADD(out, ",\"prompt_tokens_details\":{\"cached_tokens\":");
    buf_add_u64(out, u->cached_tokens);
    ADD(out, "}");
    if (u->reasons) {
        ADD(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":");
        buf_add_u64(out, u->reasoning_tokens);
        ADD(out, "}");
    }
    if (u->other_fingerprint)
        ADD(out, ",\"other_fingerprint\":true");
    ADD(out, "}");
}

static void chunk_open(const struct response_writer *r, uint32_t index, struct buf *out) {
    buf_add(out, r->head.data, r->head.len);
    ADD(out, "{\"index\":");
    buf_add_u64(out, index);
}

static void add_fingerprint(const struct response_writer *r, struct buf *out) {
    if (!u128_is_zero(r->fingerprint))
        buf_addf(out, ",\"system_fingerprint\":\"fp_%016" PRIx64 "\"",
                 r->fingerprint.hi ^ r->fingerprint.lo);
}

static void chunk_close(const struct response_writer *r, const struct usage *usage,
                        struct buf *out) {
    if (r->continuous_usage && usage) {
        ADD(out, ",");
        response_usage(usage, out);
    } else if (r->include_usage) {
        ADD(out, ",\"usage\":null");
    }
    ADD(out, "}\n\n");
}

void response_chunk_begin(const struct response_writer *r, uint32_t index, struct buf *out) {
    const struct shape *shape = &shapes[r->dialect];
    if (!shape->begin)
        return;
    chunk_open(r, index, out);
    buf_add_str(out, shape->begin);
    add_fingerprint(r, out);
    chunk_close(r, NULL, out);
}

/* Both names: older clients read reasoning_content, newer ones reasoning. */
static void add_reasoning(struct bytes reasoning, struct buf *out) {
    ADD(out, "\"reasoning\":\"");
    buf_add_json(out, reasoning);
    ADD(out, "\",\"reasoning_content\":\"");
    buf_add_json(out, reasoning);
    ADD(out, "\"");
}

static void add_calls(const struct response_writer *r, struct bytes calls, struct buf *out) {
    buf_add_str(out, r->bare_calls ? "\"function_call\":" : "\"tool_calls\":[");
    buf_add_bytes(out, calls);
    if (!r->bare_calls)
        ADD(out, "]");
}

static const char *finish_text(const struct response_writer *r, enum choice_finish finish) {
    return r->bare_calls && finish == CHOICE_CALLS ? "function_call" : choice_finish_text(finish);
}

/* The delta of a chat that thinks or calls. */
static void add_delta(const struct response_writer *r, const struct response_text *text,
                      struct buf *out) {
    ADD(out, ",\"delta\":{");
    if (text->reasoning.len)
        add_reasoning(text->reasoning, out);
    if (text->content.len) {
        if (text->reasoning.len)
            ADD(out, ",");
        ADD(out, "\"content\":\"");
        buf_add_json(out, text->content);
        ADD(out, "\"");
    }
    if (text->calls.len) {
        if (text->reasoning.len || text->content.len)
            ADD(out, ",");
        add_calls(r, text->calls, out);
    }
    ADD(out, "}");
}

void response_chunk_text(const struct response_writer *r, uint32_t index,
                         const struct response_text *text, struct bytes logprobs,
                         struct bytes extra, const struct usage *usage, struct buf *out) {
    const struct shape *shape = &shapes[r->dialect];
    chunk_open(r, index, out);
    if (text->reasoning.len || text->calls.len) {
        add_delta(r, text, out);
    } else {
        buf_add_str(out, shape->text_open);
        buf_add_json(out, text->content);
        buf_add_str(out, shape->text_close);
    }
    buf_add_bytes(out, extra);
    if (logprobs.len == 0) {
        ADD(out, ",\"logprobs\":null,\"finish_reason\":null}]");
    } else {
        ADD(out, ",\"logprobs\":");
        buf_add_bytes(out, logprobs);
        ADD(out, ",\"finish_reason\":null}]");
    }
    chunk_close(r, usage, out);
}

void response_chunk_finish(const struct response_writer *r, uint32_t index,
                           enum choice_finish finish, const struct usage *usage, struct buf *out) {
    chunk_open(r, index, out);
    buf_add_str(out, shapes[r->dialect].finish);
    buf_add_str(out, finish_text(r, finish));
    ADD(out, "\"}]");
    add_fingerprint(r, out);
    chunk_close(r, usage, out);
}

void response_chunk_usage(const struct response_writer *r, const struct usage *usage,
                          struct buf *out) {
    buf_add(out, r->head.data, r->head.len);
    ADD(out, "]");
    add_fingerprint(r, out);
    if (usage) {
        ADD(out, ",");
        response_usage(usage, out);
    }
    ADD(out, "}\n\n");
}

void response_chunk_error(const struct api_error *err, struct buf *out) {
    ADD(out, "data: ");
    api_error_write(err, out);
    ADD(out, "\n\n");
}

void response_done(struct buf *out) {
    ADD(out, "data: [DONE]\n\n");
}

void response_full_begin(const struct response_writer *r, struct buf *out) {
    buf_add(out, r->head.data, r->head.len);
}

/* The message of a chat that thinks or calls. */
static void add_message(const struct response_writer *r, const struct response_text *text,
                        struct buf *out) {
    ADD(out, ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (text->content.len || !text->calls.len) {
        ADD(out, "\"");
        buf_add_json(out, text->content);
        ADD(out, "\"");
    } else {
        ADD(out, "null");
    }
    ADD(out, ",\"refusal\":null");
    if (text->reasoning.len) {
        ADD(out, ",");
        add_reasoning(text->reasoning, out);
    }
    if (text->calls.len) {
        ADD(out, ",");
        add_calls(r, text->calls, out);
    }
    ADD(out, "}");
}

void response_full_choice(const struct response_writer *r, bool first, uint32_t index,
                          const struct response_text *text, struct bytes logprobs,
                          struct bytes extra, enum choice_finish finish, struct buf *out) {
    const struct shape *shape = &shapes[r->dialect];
    if (!first)
        ADD(out, ",");
    ADD(out, "{\"index\":");
    buf_add_u64(out, index);
    if (text->reasoning.len || text->calls.len) {
        add_message(r, text, out);
    } else {
        buf_add_str(out, shape->full_open);
        buf_add_json(out, text->content);
        buf_add_str(out, shape->full_close);
    }
    buf_add_bytes(out, extra);
    ADD(out, ",\"logprobs\":");
    if (logprobs.len == 0)
        ADD(out, "null");
    else
        buf_add_bytes(out, logprobs);
    ADD(out, ",\"finish_reason\":\"");
    buf_add_str(out, finish_text(r, finish));
    ADD(out, "\"}");
}

void response_full_end(const struct response_writer *r, const struct usage *usage,
                       struct buf *out) {
    ADD(out, "]");
    add_fingerprint(r, out);
    ADD(out, ",");
    response_usage(usage, out);
    ADD(out, "}");
}
