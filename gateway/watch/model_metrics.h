/*
 * model_metrics.h - what is counted for each model, under the names that vLLM's page has (so that
 * dashboards, autoscalers and routers made for it read ours), and beside them what it has no name
 * for.
 *
 * Every sample has the label model_name. What requests cost is counted here; queues, blocks, steps
 * and the like are the scheduler's figures, as its last Status told them. The meaning of each name is
 * vLLM's (docs/usage/metrics of vLLM); buckets are ours.
 *
 * A model's metrics stay while the process lives: a counter that went would come back from 0.
 *
 * Threading: any.
 */
#ifndef GATEWAY_WATCH_MODEL_METRICS_H
#define GATEWAY_WATCH_MODEL_METRICS_H

#include "base/metrics.h"
#include "proto/messages.h"

enum { MODEL_METRICS_MAX = 32 }; /* models; those past it share one, under the name "other" */

enum model_metric {
    /* told by the scheduler */
    MODEL_METRIC_RUNNING,
    MODEL_METRIC_WAITING,
    MODEL_METRIC_KV_USAGE,
    MODEL_METRIC_KV_USAGE_OLD,
    MODEL_METRIC_PREEMPTIONS,
    MODEL_METRIC_PREFIX_QUERIES,
    MODEL_METRIC_PREFIX_HITS,
    MODEL_METRIC_REPLICAS,
    MODEL_METRIC_SLOTS,
    MODEL_METRIC_BLOCKS,
    MODEL_METRIC_BLOCKS_USED,
    MODEL_METRIC_BLOCKS_CACHED,
    MODEL_METRIC_EVICTIONS,
    MODEL_METRIC_STEPS,
    MODEL_METRIC_STEP_TOKENS,
    MODEL_METRIC_STEP_OUTPUT,
    MODEL_METRIC_COMPUTE_SECONDS,
    MODEL_METRIC_ITERATION_TOKENS,
    /* counted here */
    MODEL_METRIC_PROMPT_TOKENS,
    MODEL_METRIC_CACHED_TOKENS,
    MODEL_METRIC_OUTPUT_TOKENS,
    MODEL_METRIC_SUCCESS, /* by enum model_finish */
    MODEL_METRIC_FIRST_TOKEN,
    MODEL_METRIC_NEXT_TOKEN,
    MODEL_METRIC_TOKEN_MEAN,
    MODEL_METRIC_DURATION,
    MODEL_METRIC_QUEUED,
    MODEL_METRIC_PREFILL,
    MODEL_METRIC_DECODE,
    MODEL_METRIC_INFERENCE,
    MODEL_METRIC_REQUEST_PROMPT,
    MODEL_METRIC_REQUEST_OUTPUT,
    MODEL_METRIC_REQUEST_OUTPUT_MAX,
    MODEL_METRIC_REQUEST_COMPUTED,
    MODEL_METRIC_PARAMS_N,
    MODEL_METRIC_PARAMS_MAX_TOKENS,
    MODEL_METRIC_COUNT
};
enum model_finish {
    MODEL_FINISH_STOP,
    MODEL_FINISH_LENGTH,
    MODEL_FINISH_ABORT,
    MODEL_FINISH_ERROR
};

/* A process that has them in /metrics, once. */
void model_metrics_register(void);
/* The metrics of the model of this name, MODEL_METRIC_COUNT rows; made when new. */
struct metric *model_metrics_of(const char *name);
/* Takes the figures of a Status. A model that it does not name has none now. */
void model_metrics_tell(const struct wire_status *status);
/* The scheduler is gone: nothing runs or waits, as far as anybody knows. Counters stay. */
void model_metrics_lost(void);
/* What the scheduler told last of a model, of all its replicas together; zeroes: nothing. */
struct model_load {
    uint32_t running, waiting;    /* sequences */
    uint32_t slots;               /* that can run at once */
    uint64_t tokens, tokens_used; /* that the KV cache holds, and that are of running sequences */
};
void model_metrics_load(const char *name, struct model_load *out);
/* Appends, as Prometheus text, what is told by labels alone: vllm:cache_config_info, for each model
 * whose blocks are known. */
void model_metrics_write_info(struct buf *out);

/* What one request cost, when all of its choices have ended. */
struct model_request {
    uint32_t prompt_tokens, cached_tokens, output_tokens; /* of all prompts and choices */
    uint32_t longest;                                     /* output tokens of the longest choice */
    uint32_t choice_count, max_tokens;                    /* as asked for */
    int64_t duration_us;
    int64_t queued_us;  /* until its first choice was placed; -1: not known, nor is prefill_us */
    int64_t prefill_us; /* from there to its first token */
    int64_t decode_us;  /* since its first token; -1: it had none, and queued_us is not known */
};
/* Counts it in the metrics of its model. */
void model_metrics_request(struct metric *metrics, const struct model_request *request);

#endif
