#include "gateway/calls/refused.h"

#include <stdio.h>

#define AUDIO  "this server has no models for speech"
#define IMAGES "this server makes no images, videos or sound"
#define LORA   "adapters are not loaded while it runs: a model is served as its files are"
#define WEIGHTS                                                                                    \
    "weights are not replaced in place: POST /models/add brings up a new version beside the old one, and /models/remove ends that when its streams have"
#define SLEEP                                                                                      \
    "workers do not sleep: POST /models/unload ends those of a model, and the next request or POST /models/load starts them again"
#define CACHE                                                                                      \
    "it drops computed prefixes by itself, when their room is needed; send another 'cache_salt' for requests that shall not find those of before"
#define PROFILE                                                                                    \
    "profiles are taken from outside, with perf or nsys; GET /metrics has times of steps, queues and tokens"
#define EXPERTS "how tokens went to experts is not recorded"
#define PAUSE                                                                                      \
    "generation is not paused: SIGTERM drains a process, POST /abort_request ends requests"
#define RANKS  "how ranks are placed is decided when a worker starts"
#define DISAGG "prompts and outputs are computed by the same worker, so no cache is handed over"
#define FILES  "it keeps no files of clients: send a request for each line of a batch"
#define SESSION                                                                                    \
    "it has no sessions: beginnings of prompts that it has computed are found by their tokens"
#define COHERE                                                                                     \
    "of Cohere's calls it has /v2/embed and /v2/rerank; chats are at /v1/chat/completions"
#define FORMS "it takes the bodies of POST /invocations, and not those of KServe and Vertex"
#define STREAMS                                                                                    \
    "streams are not listed, so that nobody learns of another's: whoever knows a stream's name asks for it with GET /v1/stream/NAME, and reads 404 where it is over"
#define TOOLS "it runs no tools: their calls are handed to the client"
#define LOG   "what is logged is set when it starts (--log-level)"
#define STOP  "it is ended by whoever started it, not by a client"
#define CHATS                                                                                      \
    "chats are not kept; POST /v1/responses keeps what it answers, for GET /v1/responses/ID"
#define HOSTED "it keeps and runs nothing for its clients: send all that the model shall see"
#define DERENDER                                                                                   \
    "POST /detokenize gives the text of tokens, and POST /separate_reasoning and /parse_function_call take it apart"
#define ACCOUNTS "it has no accounts, and asks no other server"
#define MODELS                                                                                     \
    "the operator's calls are POST /models/add and /models/remove (a model and its workers), /models/load and /models/unload (its workers)"

static const struct {
    const char *path; /* ending in '/': a prefix */
    const char *why;
} CALLS[] = {
    {"/v1/audio/", AUDIO},
    {"/v1/realtime", AUDIO},
    {"/v1/images/", IMAGES},
    {"/v1/videos", IMAGES},
    {"/v1/videos/", IMAGES},
    {"/audio/", AUDIO},
    {"/v1/realtime/", AUDIO},
    {"/v1/uploads", FILES},
    {"/v1/uploads/", FILES},
    {"/v1/messages/batches", FILES},
    {"/v1/messages/batches/", FILES},
    {"/v1/files", FILES},
    {"/v1/files/", FILES},
    {"/v1/batches", FILES},
    {"/v1/batches/", FILES},
    {"/v1/moderations", "it has no model that moderates; POST /classify asks a classifier"},
    {"/v1/fine_tuning/", "it trains no models"},
    {"/v1/assistants", HOSTED},
    {"/v1/assistants/", HOSTED},
    {"/v1/threads", HOSTED},
    {"/v1/threads/", HOSTED},
    {"/v1/vector_stores", HOSTED},
    {"/v1/vector_stores/", HOSTED},
    {"/v1/containers", HOSTED},
    {"/v1/containers/", HOSTED},
    {"/v1/evals", HOSTED},
    {"/v1/evals/", HOSTED},
    {"/v1/complete", "of Anthropic's calls it has /v1/messages and /v1/messages/count_tokens"},
    {"/api/blobs/", MODELS},
    {"/api/me", ACCOUNTS},
    {"/api/signout", ACCOUNTS},
    {"/api/status", ACCOUNTS},
    {"/api/web_search", ACCOUNTS},
    {"/api/web_fetch", ACCOUNTS},
    {"/v1/load_lora_adapter", LORA},
    {"/v1/unload_lora_adapter", LORA},
    {"/v1/lora_adapters", LORA},
    {"/load_lora_adapter", LORA},
    {"/load_lora_adapter_from_tensors", LORA},
    {"/unload_lora_adapter", LORA},
    {"/sleep", SLEEP},
    {"/wake_up", SLEEP},
    {"/wakeup", SLEEP},
    {"/is_sleeping", SLEEP},
    {"/release_memory_occupation", SLEEP},
    {"/resume_memory_occupation", SLEEP},
    {"/pause", PAUSE},
    {"/resume", PAUSE},
    {"/is_paused", PAUSE},
    {"/pause_generation", PAUSE},
    {"/continue_generation", PAUSE},
    {"/slow_down", PAUSE},
    {"/flush_cache", CACHE},
    {"/slots/",
     "it has no slots to save, restore or erase; it finds the beginnings of prompts that it has computed by itself, and GET /slots only counts requests"},
    {"/reset_prefix_cache", CACHE},
    {"/reset_mm_cache", CACHE},
    {"/reset_encoder_cache", CACHE},
    {"/clear_hicache_storage_backend", CACHE},
    {"/kv_cache_events",
     "KV blocks are not told of; GET /metrics counts those cached, used and evicted"},
    {"/update_weights", WEIGHTS},
    {"/start_weight_update", WEIGHTS},
    {"/finish_weight_update", WEIGHTS},
    {"/weights_checker", WEIGHTS},
    {"/update_weights_from_disk", WEIGHTS},
    {"/update_weights_from_tensor", WEIGHTS},
    {"/update_weights_from_distributed", WEIGHTS},
    {"/update_weights_from_ipc", WEIGHTS},
    {"/update_weight_version", WEIGHTS},
    {"/init_weights_update_group", WEIGHTS},
    {"/destroy_weights_update_group", WEIGHTS},
    {"/init_weight_transfer_engine", WEIGHTS},
    {"/init_weights_send_group_for_remote_instance", WEIGHTS},
    {"/send_weights_to_remote_instance", WEIGHTS},
    {"/get_weights_by_name", "weights are not handed out: they are the model's own files"},
    {"/re_isq", "weights are quantized when a worker starts (--quantize)"},
    {"/start_profile", PROFILE},
    {"/stop_profile", PROFILE},
    {"/perf_metrics", PROFILE},
    {"/energy_metrics", "it does not measure power; nvidia-smi does"},
    {"/steady_clock_offset", PROFILE},
    {"/freeze_gc", "it collects no garbage"},
    {"/start_expert_distribution_record", EXPERTS},
    {"/stop_expert_distribution_record", EXPERTS},
    {"/dump_expert_distribution_record", EXPERTS},
    {"/scale_elastic_ep", RANKS},
    {"/is_scaling_elastic_ep", RANKS},
    {"/collective_rpc", RANKS},
    {"/get_world_size", RANKS},
    {"/v1/fault_tolerance/", "faults are dealt with by itself: docs/architecture.md says how"},
    {"/cluster_info", DISAGG},
    {"/v1/data_transceiver_state", DISAGG},
    {"/distserve/", DISAGG},
    {"/nodes/",
     "it has no proxy to register with: gateways find the scheduler, and it the workers"},
    {"/v1/streams", STREAMS},
    {"/v1/streams/", STREAMS},
    {"/open_session", SESSION},
    {"/close_session", SESSION},
    {"/v1/sessions", SESSION},
    {"/v1/sessions/", SESSION},
    {"/v1/conversations", SESSION},
    {"/v1/conversations/", SESSION},
    {"/v1/skills", TOOLS},
    {"/v1/skills/", TOOLS},
    {"/v1/embed", COHERE},
    {"/v1/chat", COHERE},
    {"/v2/chat", COHERE},
    {"/vertex", FORMS},
    {"/vertex_generate", FORMS},
    {"/v2/models/", FORMS},
    {"/v2/health/", FORMS},
    {"/calibration/",
     "weights are quantized when a worker starts (--quantize), by what they are and without examples"},
    {"/v1/system/",
     "GET /server_info and GET /metrics tell what a server has, and `trireme doctor` whether a model fits a machine"},
    {"/ui", "the page is at /"},
    {"/redoc", "the page of its calls is at /docs"},
    {"/abort_requests", "POST /abort_request ends requests"},
    {"/set_internal_state", LOG},
    {"/get_internal_state", "GET /server_info and GET /metrics tell what it does"},
    {"/configure_logging", LOG},
    {"/terminate", STOP},
    {"/tools", TOOLS},
    {"/cors-proxy", TOOLS},
    {"/v1/systemone",
     "it has no models for decisions; POST /generative_scoring tells how likely answers are"},
    {"/v1/chat/completions/control",
     "what was begun goes on as it was asked: send 'thinking_token_budget' with the request to bound its reasoning"},
    {"/v1/chat/completions/derender", DERENDER},
    {"/v1/completions/derender", DERENDER},
    {"/v1/chat/completions/", CHATS}, /* behind those that are longer */
};

/* Of paths that are here, methods that are not. */
static const struct {
    enum http_method method;
    const char *path; /* as above */
    const char *why;
} METHODS[] = {
    {HTTP_POST, "/models", MODELS},
    {HTTP_DELETE, "/models", MODELS},
    {HTTP_DELETE, "/v1/models/", MODELS},
    {HTTP_POST, "/props", "what a request does not say comes from the model's own files"},
    {HTTP_POST, "/lora-adapters", LORA},
    {HTTP_GET, "/v1/chat/completions", CHATS},
    {HTTP_POST, "/v1/responses/compact",
     "conversations are not made shorter by it: 'truncation' auto leaves out their oldest turns"},
};

static bool is_of(struct bytes path, const char *call) {
    size_t len = strlen(call);
    bool prefix = call[len - 1] == '/';
    return (prefix ? path.len > len : path.len == len) && !memcmp(path.data, call, len);
}

static bool refuse(const char *method, const char *call, const char *why, struct api_error *err) {
    api_error_set(err, API_UNSUPPORTED, NULL, "this server does not offer '%s%s': %s", method, call,
                  why);
    err->status = 501;
    err->type = "not_supported_error";
    return true;
}

bool refused_call(struct bytes path, struct api_error *err) {
    for (size_t i = 0; i < ARRAY_LEN(CALLS); i++)
        if (is_of(path, CALLS[i].path))
            return refuse("", CALLS[i].path, CALLS[i].why, err);
    return false;
}

bool refused_method(enum http_method method, struct bytes path, struct api_error *err) {
    for (size_t i = 0; i < ARRAY_LEN(METHODS); i++)
        if (METHODS[i].method == method && is_of(path, METHODS[i].path)) {
            char said[16];
            snprintf(said, sizeof said, "%s ", http_method_text(method));
            return refuse(said, METHODS[i].path, METHODS[i].why, err);
        }
    return false;
}
