#include "worker/settings.h"

#include "model/model.h"
#include "proto/link_key.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define ROW(field_, name_, type_, ...)                                                             \
    {                                                                                              \
        .name = name_, .type = type_, .offset = offsetof(struct worker_settings, field_),          \
        __VA_ARGS__                                                                                \
    }

static const struct option_row ROWS[] = {
    ROW(model, "model", OPTION_STRING, .short_name = 'm', .important = true,
        .aliases = "--model-path",
        .help = "folder of the model (config.json, safetensors, tokenizer.json), or a .gguf file"),
    ROW(served_name, "served-model-name", OPTION_STRING, .important = true, .many = true,
        .aliases = "-a --alias",
        .help = "name of the model; of several, with commas between, the first: the others are the "
                "gateways' business; default: the folder's or file's name"),
    ROW(connect, "connect", OPTION_STRING,
        .help = "where the scheduler listens: ipc:///path or tcp://host:port"),
    ROW(key_file, "key-file", OPTION_STRING, .help = LINK_KEY_FILE_HELP),
    ROW(allow_keys, "allow-keys", OPTION_STRING, .help = LINK_ALLOW_KEYS_HELP),
    ROW(instance, "instance", OPTION_STRING,
        .help = "32 hex digits naming this process on the wire; default: drawn"),
    ROW(run_dir, "run-dir", OPTION_STRING,
        .help = "folder for the pulse, and for the mark that a fault leaves"),
    ROW(name, "name", OPTION_STRING, .fallback = "worker", .help = "name in logs"),
    ROW(device, "device", OPTION_STRING, .fallback = "auto", .important = true,
        .aliases = "-dev -d", .alias_words = DEVICE_ALIAS_WORDS,
        .help = "auto (a GPU where there is one), cpu or cuda"),
    ROW(cpu, "cpu", OPTION_BOOL, .help = "as --device cpu"),
    ROW(vocab, "vocab", OPTION_STRING,
        .help = "vocabulary instead of the model's own: a file (tokenizer.json, tokenizer.model, "
                ".tiktoken), or a well-known one's name (llama3, cl100k_base, o200k_base, "
                "deepseek_v3, ...) whose file is in --vocab-dir"),
    ROW(vocab_dir, "vocab-dir", OPTION_STRING,
        .help = "folder where the files of well-known vocabularies lie, directly or one folder "
                "deeper"),
    ROW(layers_on_gpu, "layers-on-gpu", OPTION_INT, .fallback = "-1", .min = -1, .max = INT32_MAX,
        .unit = "layers", .aliases = "-ngl --n-gpu-layers --gpu-layers",
        .alias_words = "all=-1 auto=-1",
        .help =
            "layers on the GPU: all of them (-1, or a number that is not below the model's) or none "
            "(0, as with --device cpu); some on the GPU and some not is refused"),
    ROW(graphs, "graphs", OPTION_BOOL, .fallback = "true",
        .aliases = "!--enforce-eager !--disable-cuda-graph",
        .help = "on a GPU, record decode steps as graphs; changes no result"),
    ROW(isa, "isa", OPTION_STRING, .fallback = "auto",
        .help = "instruction set of the CPU device: auto, scalar, avx2, avx512, amx"),
    ROW(compute, "compute", OPTION_ENUM, .choices = "auto|f32|bf16|int8|fp8|fp8-prompts",
        .fallback = "auto",
        .help =
            "type that activations are rounded to before they meet the weights. On a CPU: f32: not rounded, "
            "slowest; int8: for quantized weights; bf16: for weights in bf16, with AMX for quantized "
            "ones too; auto: the fastest here for each matrix. A matrix that the type is not for is "
            "computed in f32. On a GPU activations are not rounded further but for weights in fp8, on "
            "Hopper: fp8: all of them, fp8-prompts: those of prompts, to fp8 with a scale for each "
            "token, which costs accuracy and doubles the rate of large products"),
    ROW(threads, "threads", OPTION_INT, .short_name = 't', .max = 1024,
        .help = "threads that compute; 0: one for each core"),
    ROW(slots, "slots", OPTION_INT, .fallback = "256", .min = 1, .max = 16384, .unit = "sequences",
        .important = true,
        .aliases = "-np --parallel --max-num-seqs --max-running-requests --max-batch-size",
        .help = "sequences that may run at once"),
    ROW(blocks, "blocks", OPTION_INT, .max = 1 << 24, .unit = "blocks",
        .aliases = "--num-gpu-blocks-override", .help = "KV blocks; 0: as many as --kv-bytes hold"),
    ROW(kv_bytes, "kv-bytes", OPTION_SIZE, .fallback = "0", .unit = "bytes",
        .aliases = "--kv-cache-memory-bytes --kv-cache-memory",
        .help = "memory for the KV cache; 0: chosen from the model and the machine"),
    ROW(memory_fraction, "memory-fraction", OPTION_FLOAT, .max = 1,
        .aliases = "--gpu-memory-utilization --mem-fraction-static",
        .help =
            "share of the device's memory that weights, buffers and KV cache may take together; "
            "0: as --kv-bytes says"),
    ROW(memory_sharers, "memory-sharers", OPTION_INT, .fallback = "1", .min = 1, .max = 4096,
        .unit = "replicas",
        .help =
            "replicas that start on this machine together, this one included: without --kv-bytes "
            "and --memory-fraction, all their KV caches take half of the memory that is free at "
            "the most, and each a quarter; trireme serve tells its own workers"),
    ROW(snapshot_bytes, "snapshot-bytes", OPTION_SIZE, .fallback = "1g", .unit = "bytes",
        .help = "models whose layers carry a state: memory for copies of it at the ends of "
                "prompts, so that what begins "
                "alike is not computed again; at most two a slot and an eighth of the free memory; "
                "0: none"),
    ROW(block_tokens, "block-tokens", OPTION_INT, .fallback = "32", .min = 16, .max = 256,
        .unit = "tokens", .aliases = "--block-size --page-size",
        .help = "positions of a KV block: 16, 32, 64, 128 or 256"),
    ROW(kv_type, "kv-type", OPTION_ENUM, .choices = KV_TYPE_CHOICES, .fallback = "auto",
        .aliases = "-ctk --cache-type-k -ctv --cache-type-v --kv-cache-dtype",
        .alias_words =
            "fp8_e4m3=fp8 float8_e4m3fn=fp8 q8_0=int8 float16=f16 half=f16 bfloat16=bf16 float32=f32 float=f32",
        .help = "how keys and values are stored; fp8: e4m3 without scales, int8: with a scale for "
                "each vector"),
    ROW(quantize, "quantize", OPTION_ENUM, .choices = "none|fp8|int8|int4", .fallback = "none",
        .important = true, .aliases = "-q --quantization",
        .alias_words =
            "awq=none awq_marlin=none gptq=none gptq_marlin=none compressed-tensors=none gguf=none mxfp4=none bitsandbytes=none w8a8_fp8=fp8 w8a8_int8=int8",
        .help = "what the matrices of layers become while they are loaded"),
    ROW(gemm, "gemm", OPTION_ENUM, .choices = "own|cublaslt", .fallback = "own",
        .help = "on a GPU, who multiplies the rows of prompts: our kernels, or NVIDIA's library, "
                "which is then to be "
                "there"),
    ROW(pooling, "pooling", OPTION_ENUM, .choices = "auto|none|last|mean|cls|max",
        .fallback = "auto",
        .help = "what of a prompt's positions becomes its embedding; auto: what the model's files "
                "say (a model whose files say nothing makes none), none: no embeddings"),
    ROW(score_tokens, "score-tokens", OPTION_STRING,
        .help =
            "two tokens with a comma between, as 'yes,no' of Qwen3-Reranker: a model that writes "
            "becomes one that scores pairs of texts, by how much likelier it goes on with the "
            "first token than with the second; it writes no text then"),
    ROW(max_step_tokens, "max-step-tokens", OPTION_INT, .max = 65536, .unit = "tokens",
        .aliases = "-ub --ubatch-size --max-num-batched-tokens",
        .help = "rows of one step; 0: 512, on a large GPU up to 2048"),
    ROW(max_context, "max-context", OPTION_INT, .max = 1 << 20, .unit = "tokens", .important = true,
        .aliases = "-c --ctx-size --max-model-len --context-length --max-seq-len --num-ctx",
        .alias_words = "auto=0 -1=0", .help = "longest sequence; 0: what the model was made for"),
    ROW(strict_config, "strict-config", OPTION_BOOL, .fallback = "false",
        .help = "refuse a config.json with any field that is not read; else what cannot change "
                "anything is passed over, with a warning"),
    ROW(min_step_ms, "min-step-ms", OPTION_INT, .max = 60000, .unit = "ms",
        .help =
            "a step takes at least so long: for tests that must catch a small model in mid-stream"),
    ROW(cache_dir, "cache-dir", OPTION_STRING,
        .help = "folder where packed weights are kept, to be mapped by all workers of a user; "
                "default XDG_CACHE_HOME/trireme or ~/.cache/trireme, none: keep nothing"),
    ROW(packed_bytes, "packed-bytes", OPTION_SIZE, .fallback = "32g", .unit = "bytes",
        .help =
            "most bytes of packed weights that are kept in --cache-dir, of all models together; "
            "those not used for longest go first; 0: none are kept. On the CPU a worker packs "
            "quantized weights at its start, and the next one maps what it left"),
    ROW(drain_ms, "drain-timeout", OPTION_DURATION, .fallback = "30s", .min = 0, .max = 86400000,
        .unit = "ms",
        .help = "how long, after SIGTERM, what runs here may go on; nothing new comes, and the "
                "process ends when nothing is left"),
    ROW(tp, "tp", OPTION_INT, .fallback = "1", .min = 1, .max = 64, .unit = "ranks",
        .help = "ranks that divide each layer (tensor parallel)"),
    ROW(rank, "rank", OPTION_INT, .max = 63,
        .help = "which of them this is, from 0; without --stage also counted through all stages"),
    ROW(pp, "pp", OPTION_INT, .fallback = "1", .min = 1, .max = 64, .unit = "stages",
        .help = "stages that divide the layers (pipeline parallel)"),
    ROW(stage, "stage", OPTION_INT, .max = 63, .help = "which of them this is, from 0"),
    ROW(stage_layers, "stage-layers", OPTION_STRING,
        .help = "layers of each stage, as 12,20; default: as equal as can be"),
    ROW(replica, "replica", OPTION_STRING,
        .help = "what the tp * pp ranks of one replica share, and no other: a name, or 32 hex "
                "digits"),
    ROW(gpu, "gpu", OPTION_INT, .fallback = "-1", .min = -1, .max = 63, .alone = "-1",
        .aliases = "-mg --main-gpu --base-gpu-id",
        .help = "which GPU, of those the process may see, modulo how many there are; -1: each "
                "worker of serve takes "
                "one, in turn"),
    ROW(comm, "comm", OPTION_ENUM, .choices = "auto|shm|nccl|peer", .fallback = "auto",
        .help = "how ranks exchange activations: by shared memory, by NCCL (every rank needs a GPU "
                "of its own), by writing to each other's memory (peer: 2 to 8 ranks on GPUs with "
                "NVLink or PCIe between them; what goes from stage to stage as with auto), or by "
                "the fastest that works; all give the same bits"),
    ROW(nccl, "nccl", OPTION_STRING,
        .help = "path of libnccl.so.2; default: where it is usually found"),
    ROW(comm_listen, "comm-listen", OPTION_STRING,
        .help =
            "ranks on several hosts: where this one listens for the others, as they reach it. Of "
            "rank 0 of stage 0 HOST:PORT, which has all ranks meet there; of others HOST or "
            "HOST:PORT, default: a free port of the address that leads to rank 0"),
    ROW(comm_form_ms, "comm-form-timeout", OPTION_DURATION, .fallback = "30s", .min = 100,
        .max = 3600000, .unit = "ms", .help = "how long a rank waits for all others to meet"),
    ROW(comm_timeout_ms, "comm-timeout", OPTION_DURATION, .fallback = "60s", .min = 100,
        .max = 3600000, .unit = "ms",
        .help = "how long a rank waits for another one in a step; longer than the longest step"),
    ROW(admin_host, "admin-host", OPTION_STRING, .fallback = "127.0.0.1",
        .help = "address of the admin port"),
    ROW(admin_port, "admin-port", OPTION_INT, .fallback = "-1", .min = -1, .max = 65535,
        .help = "port of /health and /metrics; 0: any free one; -1: none"),
    ROW(sandbox, "sandbox", OPTION_BOOL, .fallback = "true",
        .help =
            "give up what the process does not need once it has started (no_new_privs, seccomp)"),
    ROW(log_level, "log-level", OPTION_ENUM, .choices = "debug|info|warn|error", .fallback = "info",
        .help = "least important lines to log"),
    ROW(log_format, "log-format", OPTION_ENUM, .choices = "text|json", .fallback = "text",
        .help = "how log lines look"),
};

const struct option_table worker_options = {
    .program = "trireme worker",
    .synopsis = "[OPTIONS] --connect ENDPOINT MODEL",
    .summary =
        "One rank: owns weights and KV memory of one device and computes the scheduler's steps.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS),
    .title = "The model, its memory and its devices (worker)",
    .arguments = "model",
};

void worker_public_name(const struct worker_settings *settings, char out[WORKER_NAME_MAX]) {
    char path[PATH_MAX];
    bool given = settings->served_name && *settings->served_name;
    snprintf(out, WORKER_NAME_MAX, "%.*s", given ? (int)strcspn(settings->served_name, ",") : 5,
             given ? settings->served_name : "model");
    if (given || !settings->model || !realpath(settings->model, path))
        return;
    char *slash = strrchr(path, '/');
    if (slash && slash != path && !strcmp(slash, "/model")) {
        *slash = 0;
        slash = strrchr(path, '/');
    }
    if (!slash || !slash[1])
        return;
    size_t len = strlen(slash + 1);
    if (len > 5 && !strcmp(slash + 1 + len - 5, ".gguf"))
        len -= 5;
    snprintf(out, WORKER_NAME_MAX, "%.*s", (int)MIN(len, (size_t)WORKER_NAME_MAX - 1), slash + 1);
}
