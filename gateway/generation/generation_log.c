#include "gateway/generation/generation_log.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "gateway/watch/request_log.h"
#include "gateway/watch/trace_export.h"

/* A text into a record: cut where it is too long, between characters. */
static void put_text(char out[TRACE_NAME_MAX], const char *text) {
    size_t len = MIN(strlen(text), (size_t)TRACE_NAME_MAX - 1);
    len = utf8_valid_prefix(text, len);
    memcpy(out, text, len);
    out[len] = 0;
}

static void tell_trace(const struct generation *gen, const struct request_line *line) {
    struct trace_record r = {.context = gen->trace,
                             .begin_us = wall_ms() * 1000 - line->duration_us,
                             .duration_us = line->duration_us,
                             .first_us = line->ttft_us,
                             .queued_us = gen->queued_us,
                             .prefill_us = gen->prefill_us,
                             .path = line->path,
                             .finish = line->finish,
                             .prompt_tokens = line->prompt_tokens,
                             .cached_tokens = line->cached_tokens,
                             .output_tokens = line->output_tokens,
                             .status = line->status};
    put_text(r.model, line->model ? line->model : "");
    put_text(r.request_id, line->id);
    trace_export_add(gen->thread->gw->traces, &r);
}

int generation_dialect_label(enum genreq_dialect dialect) {
    return genreq_is_tgi(dialect)          ? GENREQ_TGI
           : genreq_scores_tokens(dialect) ? GENREQ_SCORE
           : dialect == GENREQ_ENCODE      ? GENREQ_EMBEDDINGS
           : dialect == GENREQ_INVOCATION  ? GENREQ_CHAT
                                           : (int)dialect;
}

void generation_log(const struct generation *gen, const char *finish, int status) {
    static const char *const PATHS[GENREQ_DIALECT_COUNT] = {
        [GENREQ_CHAT] = "/v1/chat/completions",
        [GENREQ_COMPLETIONS] = "/v1/completions",
        [GENREQ_MESSAGES] = "/v1/messages",
        [GENREQ_OLLAMA_CHAT] = "/api/chat",
        [GENREQ_OLLAMA_GENERATE] = "/api/generate",
        [GENREQ_RESPONSES] = "/v1/responses",
        [GENREQ_COMPLETION] = "/completion",
        [GENREQ_INFILL] = "/infill",
        [GENREQ_EMBEDDINGS] = "/v1/embeddings",
        [GENREQ_LLAMA_EMBEDDING] = "/embedding",
        [GENREQ_OLLAMA_EMBED] = "/api/embed",
        [GENREQ_OLLAMA_EMBEDDINGS] = "/api/embeddings",
        [GENREQ_RERANK] = "/v1/rerank",
        [GENREQ_SCORE] = "/v1/score",
        [GENREQ_POOLING] = "/pooling",
        [GENREQ_CLASSIFY] = "/classify",
        [GENREQ_COHERE_EMBED] = "/v2/embed",
        [GENREQ_GENERATE] = "/generate",
        [GENREQ_TGI] = "/generate",
        [GENREQ_TGI_STREAM] = "/generate_stream",
        [GENREQ_TGI_ROOT] = "/",
        [GENREQ_TOKENS] = "/inference/v1/generate",
        [GENREQ_ENCODE] = "/encode",
        [GENREQ_INVOCATION] = "/invocations",
        [GENREQ_GENERATIVE_SCORING] = "/generative_scoring",
        [GENREQ_LABEL_SCORES] = "/v1/score",
        [GENREQ_PPL] = "/get_ppl",
    };
    const struct usage usage = answer_usage(&gen->answer);
    const struct served_model *model = gen->terms.model;
    char response[RESPONSE_ID_MAX];
    response_id(gen->request.dialect, gen->number, response);
    const struct request_line line = {.id = gen->id,
                                      .response = strcmp(response, gen->id) != 0 ? response : NULL,
                                      .trace = gen->trace.trace_id,
                                      .path = PATHS[gen->request.dialect],
                                      .model = model ? model->name : NULL,
                                      .prompt_tokens = usage.prompt_tokens,
                                      .cached_tokens = usage.cached_tokens,
                                      .output_tokens = usage.completion_tokens,
                                      .ttft_us = gen->first_us ? gen->first_us - gen->start_us : 0,
                                      .duration_us = gen->thread->now_us - gen->start_us,
                                      .finish = finish,
                                      .status = status};
    request_log_generation(&line);
    if (*gen->trace.trace_id)
        tell_trace(gen, &line);
}
