#include "gateway/watch/gateway_metrics.h"

#define COUNTER(id, n, h) [id] = {.name = "trireme_gateway_" n, .kind = METRIC_COUNTER, .help = h}
#define LABELLED(id, n, l, v, h)                                                                   \
    [id] = {.name = "trireme_gateway_" n,                                                          \
            .kind = METRIC_COUNTER,                                                                \
            .label = l,                                                                            \
            .label_values = v,                                                                     \
            .help = h}
#define GAUGE(id, n, h) [id] = {.name = "trireme_gateway_" n, .kind = METRIC_GAUGE, .help = h}
#define HISTOGRAM(id, n, h)                                                                        \
    [id] = {.name = "trireme_gateway_" n, .kind = METRIC_HISTOGRAM, .help = h}

struct metric gateway_metrics[GATEWAY_METRIC_COUNT] = {
    LABELLED(GATEWAY_METRIC_REQUESTS, "requests_total", "dialect",
             "chat|completions|messages|ollama_chat|ollama_generate|responses|completion|infill|"
             "embeddings|llama_embedding|ollama_embed|ollama_embeddings|rerank|score|pooling|"
             "classify|cohere_embed|generate|tokens|tgi",
             "Generation requests received."),
    LABELLED(GATEWAY_METRIC_ANSWERS, "answers_total", "status",
             "200|400|401|404|405|409|413|422|429|499|500|503|504|other",
             "Answers by HTTP status; 499: the client went away first."),
    LABELLED(GATEWAY_METRIC_FINISHES, "finishes_total", "reason",
             "stop|length|error|deadline|cancelled", "Choices by how they ended."),
    COUNTER(GATEWAY_METRIC_PROMPT_TOKENS, "prompt_tokens_total",
            "Prompt tokens of requests that were answered."),
    COUNTER(GATEWAY_METRIC_CACHED_TOKENS, "cached_prompt_tokens_total",
            "Prompt tokens found in the prefix cache."),
    COUNTER(GATEWAY_METRIC_OUTPUT_TOKENS, "output_tokens_total",
            "Output tokens taken, but for probes'."),
    GAUGE(GATEWAY_METRIC_OPEN, "requests_open", "Generation requests running or waiting."),
    GAUGE(GATEWAY_METRIC_WAITING, "requests_waiting",
          "Generation requests that wait for a model or a scheduler."),
    GAUGE(GATEWAY_METRIC_PAUSED, "streams_paused",
          "Streams paused because their client reads too slowly."),
    HISTOGRAM(GATEWAY_METRIC_FIRST_TOKEN, "time_to_first_token_seconds",
              "From the request's first byte to its first token."),
    HISTOGRAM(GATEWAY_METRIC_NEXT_TOKEN, "inter_token_seconds",
              "Between two runs of tokens of a choice."),
    HISTOGRAM(GATEWAY_METRIC_DURATION, "request_seconds",
              "From the request's first byte to the end of its answer."),
    COUNTER(GATEWAY_METRIC_RESUBMITS, "resubmits_total",
            "Requests submitted again after a scheduler was lost."),
    COUNTER(GATEWAY_METRIC_GAPS, "gaps_total",
            "Runs of tokens that came before their predecessors."),
    COUNTER(GATEWAY_METRIC_DUPLICATES, "duplicates_total",
            "Runs of tokens that were already there."),
    COUNTER(GATEWAY_METRIC_STALE, "stale_total",
            "Runs of tokens of a dead attempt, an old scheduler or an unknown request."),
    COUNTER(GATEWAY_METRIC_SENDS_DROPPED, "sends_dropped_total",
            "Messages dropped because the queue to the scheduler was full."),
    COUNTER(GATEWAY_METRIC_MAIL_DROPPED, "mail_dropped_total",
            "Batches of tokens dropped because an event thread was too slow."),
    [GATEWAY_METRIC_TRACES] = {.name = "trireme_gateway_traces_total",
                               .kind = METRIC_COUNTER,
                               .help = "Sampled requests, by what became of their spans: sent, or "
                                       "dropped because too many waited or a batch failed.",
                               .label = "outcome",
                               .label_values = "sent|full|failed"},
    [GATEWAY_METRIC_SCHEDULER] = {.name = "trireme_gateway_scheduler_up",
                                  .kind = METRIC_GAUGE,
                                  .told = true,
                                  .help = "1 while a scheduler answers."},
};

void gateway_metrics_register(void) {
    metrics_register(gateway_metrics, GATEWAY_METRIC_COUNT);
}

void gateway_metrics_answer(int status) {
    static const int statuses[] = {200, 400, 401, 404, 405, 409, 413, 422, 429, 499, 500, 503, 504};
    int label = 0;
    while (label < (int)ARRAY_LEN(statuses) && statuses[label] != status)
        label++;
    metric_add_label(&gateway_metrics[GATEWAY_METRIC_ANSWERS], label, 1);
}

void gateway_metrics_cancelled(int64_t choice_count) {
    enum { CANCELLED = 4 }; /* behind the finishes of a choice */
    metric_add_label(&gateway_metrics[GATEWAY_METRIC_FINISHES], CANCELLED, choice_count);
}
