/* Flags as people type them for llama-server, vLLM and SGLang: which of ours each sets, which are
 * taken with a note, which are refused and how. */
#include "check.h"
#include "cli/commands.h"
#include "cli/foreign_flags.h"
#include "cli/merged_options.h"
#include "gateway/gateway_main.h"
#include "model/model.h"
#include "scheduler/scheduler_main.h"
#include "worker/settings.h"

#include <stdio.h>

/* Fails with the words that were tried, and goes on with the next. */
#define EXPECT_MSG(cond, ...)                                                                      \
    do {                                                                                           \
        if (!(cond))                                                                               \
            check_fail(__FILE__, __LINE__, __VA_ARGS__);                                           \
    } while (0)

enum spelling_class { SETS, NOTED, REFUSED };

static const struct {
    const char *words;
    enum spelling_class class;
    const char *shows; /* the flag that it becomes; part of the note or of the error */
} CASES[] = {
    /* llama-server */
    {"-m demo/model", SETS, "--model=demo/model"},
    {"--host 0.0.0.0", SETS, "--host=0.0.0.0"},
    {"--port 8080", SETS, "--port=8080"},
    {"-c 4096", SETS, "--max-context=4096"},
    {"--ctx-size 4096", SETS, "--max-context=4096"},
    {"-c=4096", SETS, "--max-context=4096"},
    {"-ngl 99", SETS, "--layers-on-gpu=99"},
    {"-ngl 999", SETS, "--layers-on-gpu=999"},
    {"-ngl 0", SETS, "--layers-on-gpu=0"},
    {"--n-gpu-layers 0", SETS, "--layers-on-gpu=0"},
    {"--gpu-layers all", SETS, ""},
    {"--n-gpu-layers -1", SETS, ""},
    {"-ngl 20", SETS, "--layers-on-gpu=20"}, /* the model says whether it can be */
    {"-ngl some", REFUSED, "whole number"},
    {"-dev none", SETS, "--device=cpu"},
    {"-d cpu", SETS, "--device=cpu"},
    {"--cpu", SETS, "--cpu=true"},
    {"--gpu", SETS, ""},
    {"--gpu --cpu", SETS, "--cpu=true"},
    {"--gpu 1", SETS, "--gpu=1"},
    {"--gpu -1 --cpu", SETS, "--cpu=true"},
    {"-mg", REFUSED, "needs a value"},
    {"-np 4", SETS, "--slots=4"},
    {"--parallel 4", SETS, "--slots=4"},
    {"-t 8", SETS, "--threads=8"},
    {"-t8", SETS, "--threads=8"},
    {"--threads 8", SETS, "--threads=8"},
    {"--threads-http 4", SETS, "--http-threads=4"},
    {"-tb 8", REFUSED, "--threads"},
    {"-b 256", SETS, "--step-tokens=256"},
    {"--batch-size 256", SETS, "--step-tokens=256"},
    {"-ub 128", SETS, "--max-step-tokens=128"},
    {"--ubatch-size 128", SETS, "--max-step-tokens=128"},
    {"-ctk q8_0 -ctv q8_0", SETS, "--kv-type=int8"},
    {"-ctk q8_0 -ctv f16", REFUSED, "one setting"},
    {"--cache-type-k f16", SETS, "--kv-type=f16"},
    {"--cache-type-v bf16", SETS, "--kv-type=bf16"},
    {"-ctk q4_0", REFUSED, "none of"},
    {"-mg 1", SETS, "--gpu=1"},
    {"--main-gpu 1", SETS, "--gpu=1"},
    {"--alias a", SETS, "--served-model-name=a"},
    {"-a a", SETS, "--served-model-name=a"},
    {"-s 42", SETS, "--seed=42"},
    {"--seed 42", SETS, "--seed=42"},
    {"-to 600", SETS, "--slow-client-timeout=600000ms"},
    {"--timeout 600", SETS, "--slow-client-timeout=600000ms"},
    {"--sse-ping-interval 30", SETS, "--keep-alive=30000ms"},
    {"--api-key k", SETS, "--api-key=k"},
    {"--api-key-file /f", SETS, "--api-key-file=/f"},
    {"--chat-template-file /f", SETS, "--chat-template=/f"},
    {"--reasoning-format none", SETS, "--reasoning-parser=none"},
    {"--reasoning-format deepseek", SETS, ""},
    {"--reasoning-format deepseek-legacy", REFUSED, "means nothing here"},
    {"-fa", NOTED, "attention"},
    {"-fa on", NOTED, "attention"},
    {"--flash-attn auto", NOTED, "attention"},
    {"-fa off", REFUSED, "no other kind of attention"},
    {"--jinja", NOTED, "Jinja"},
    {"--no-jinja", REFUSED, "Jinja"},
    {"-cb", NOTED, "batches"},
    {"--cont-batching", NOTED, "batches"},
    {"-nocb", REFUSED, "batches"},
    {"--metrics", NOTED, "/metrics"},
    {"-kvu", NOTED, "pool of blocks"},
    {"--no-context-shift", NOTED, "ends"},
    {"--context-shift", REFUSED, "--max-context"},
    {"--fit on", NOTED, "KV cache"},
    {"--fit off", REFUSED, "--kv-bytes"},
    {"--cache-prompt", NOTED, "always kept"},
    {"--webui", NOTED, "page"},
    {"--no-webui", REFUSED, "page"},
    {"--slots-save-path /x", REFUSED, "unknown"},
    {"--slot-save-path /x", REFUSED, "not here"},
    {"--no-slots", REFUSED, "GET /slots is always there"},
    {"--cache-reuse 256", REFUSED, "computed again"},
    {"--cache-ram 8192", REFUSED, "--kv-bytes"},
    {"--ctx-checkpoints 32", REFUSED, "--snapshot-bytes"},
    {"-hf org/model:Q4_K_M", SETS, "--model=org/model:Q4_K_M"},
    {"--hf-repo org/model", SETS, "--model=org/model"},
    {"--hf-file x.gguf", REFUSED, "ORG/NAME"},
    {"--hf-token x", REFUSED, "HF_TOKEN"},
    {"--download-dir /x", REFUSED, "HF_HUB_CACHE"},
    {"-mu http://x/y.gguf", REFUSED, "by name"},
    {"-sm row", REFUSED, "--tp"},
    {"-ts 3,1", REFUSED, "--stage-layers"},
    {"--cpu-moe", REFUSED, "--stage-devices"},
    {"-ncmoe 10", REFUSED, "--stage-devices"},
    {"-ot exps=CPU", REFUSED, "--stage-devices"},
    {"-md draft.gguf", REFUSED, "--drafts"},
    {"--draft-max 8", SETS, "--drafts=8"},
    {"--lora a.gguf", REFUSED, "adapters"},
    {"--mmproj p.gguf", REFUSED, "text only"},
    {"--rope-scaling yarn", REFUSED, "config.json"},
    {"--mlock", REFUSED, "mapped"},
    {"--no-mmap", REFUSED, "mapped"},
    {"--temp 0.6", REFUSED, "generation_config.json"},
    {"--top-k 40", REFUSED, "generation_config.json"},
    {"-n 512", REFUSED, "requests say it"},
    {"--embeddings", NOTED, "/v1/embeddings"},
    {"--pooling mean", SETS, "--pooling=mean"},
    {"--reranking", REFUSED, "none ranks"},
    {"--verbose", REFUSED, "--log-level"},
    {"--log-jsonl", REFUSED, "--log-format json"},
    {"--ssl-key-file k", SETS, "--tls-key=k"},
    {"--ssl-certfile c", SETS, "--tls-cert=c"},
    {"--ssl-ca-certs c", REFUSED, "API keys"},
    {"--no-warmup", REFUSED, "warm"},
    /* vLLM */
    {"demo/model --served-model-name a b", SETS, "--served-model-name=a,b"},
    {"--model x --served-model-name a b --port 1", SETS, "--served-model-name=a,b"},
    {"--served-model-name a demo/model", SETS, "--model=demo/model"},
    {"--served-model-name a,b", SETS, "--served-model-name=a,b"},
    {"--max-model-len 4096", SETS, "--max-context=4096"},
    {"--max-model-len auto", SETS, ""},
    {"--max-num-seqs 64", SETS, "--slots=64"},
    {"--max-num-batched-tokens 1024", SETS, "--max-step-tokens=1024"},
    {"-tp 2", SETS, "--tp=2"},
    {"--tensor-parallel-size 2", SETS, "--tp=2"},
    {"--tensor_parallel_size 2", REFUSED, "did you mean --tp?"},
    {"--pipeline-parallel-size 2", SETS, "--pp=2"},
    {"-pp 2", SETS, "--pp=2"},
    {"--data-parallel-size 2", SETS, "--workers=2"},
    {"-dp 2", SETS, "--workers=2"},
    {"--api-server-count 2", SETS, "--gateways=2"},
    {"--gpu-memory-utilization 0.5", SETS, "--memory-fraction=0.5"},
    {"--kv-cache-memory-bytes 4g", SETS, "--kv-bytes=4294967296"},
    {"--num-gpu-blocks-override 100", SETS, "--blocks=100"},
    {"--block-size 16", SETS, "--block-tokens=16"},
    {"--kv-cache-dtype fp8", SETS, "--kv-type=fp8"},
    {"--kv-cache-dtype fp8_e4m3", SETS, "--kv-type=fp8"},
    {"--kv-cache-dtype fp8_e5m2", REFUSED, "none of"},
    {"--kv-cache-dtype auto", SETS, ""},
    {"--quantization fp8", SETS, "--quantize=fp8"},
    {"-q awq", NOTED, "--quantize none"},
    {"--quantization squeezellm", REFUSED, "none of"},
    {"--dtype auto", NOTED, "weights"},
    {"--dtype bfloat16", REFUSED, "trireme convert --type"},
    {"--enforce-eager", SETS, "--graphs=false"},
    {"--seed 0", SETS, "--seed=0"},
    {"--chat-template /f", SETS, "--chat-template=/f"},
    {"--trust-request-chat-template", SETS, "--trust-request-chat-template=true"},
    {"--reasoning-parser qwen3", SETS, "--reasoning-parser=qwen3"},
    {"--tool-call-parser hermes", SETS, "--tool-call-parser=hermes"},
    {"--enable-auto-tool-choice", NOTED, "tools"},
    {"--enable-prefix-caching", NOTED, "beginnings of prompts"},
    {"--no-enable-prefix-caching", REFUSED, "beginnings of prompts"},
    {"--enable-chunked-prefill", NOTED, "pieces"},
    {"--long-prefill-token-threshold 64", SETS, "--chunk-tokens=64"},
    {"--trust-remote-code", NOTED, "no code"},
    {"--disable-log-requests", NOTED, "never logged"},
    {"--load-format auto", NOTED, "files"},
    {"--load-format dummy", REFUSED, "safetensors"},
    {"--generation-config auto", NOTED, "generation_config.json"},
    {"--generation-config vllm", REFUSED, "generation_config.json"},
    {"--override-generation-config {}", REFUSED, "generation_config.json"},
    {"--task generate", NOTED, "what its files say"},
    {"--runner pooling", NOTED, "what its files say"},
    {"--task embed", NOTED, "what its files say"},
    {"--task classify", REFUSED, "make embeddings"},
    {"--distributed-executor-backend mp", NOTED, "process"},
    {"--distributed-executor-backend ray", REFUSED, "of its own"},
    {"--async-scheduling", NOTED, "planned"},
    {"--shutdown-timeout 10", SETS, "--drain-timeout=10000ms"},
    {"--scheduling-policy priority", REFUSED, "priority"},
    {"--swap-space 4", REFUSED, "swapped"},
    {"--cpu-offload-gb 4", REFUSED, "--stage-devices"},
    {"--enable-lora", REFUSED, "adapters"},
    {"--speculative-config {}", REFUSED, "--drafts"},
    {"--speculative-num-draft-tokens 4", SETS, "--drafts=4"},
    {"--num-speculative-tokens 4", SETS, "--drafts=4"},
    {"--enable-expert-parallel", REFUSED, "--tp"},
    {"--tokenizer x", REFUSED, "--model"},
    {"--revision main", REFUSED, "@REVISION"},
    {"--guided-decoding-backend xgrammar", REFUSED, "one way"},
    {"--allowed-origins *", SETS, "--allow-origins=*"},
    {"--uds /s", REFUSED, "proxy"},
    {"--uvicorn-log-level info", REFUSED, "--log-level"},
    /* SGLang */
    {"--model-path demo/model", SETS, "--model=demo/model"},
    {"--context-length 4096", SETS, "--max-context=4096"},
    {"--mem-fraction-static 0.8", SETS, "--memory-fraction=0.8"},
    {"--tp-size 2", SETS, "--tp=2"},
    {"--dp-size 2", SETS, "--workers=2"},
    {"--pp-size 2", SETS, "--pp=2"},
    {"--max-running-requests 8", SETS, "--slots=8"},
    {"--max-queued-requests 8", SETS, "--queue-max=8"},
    {"--chunked-prefill-size 64", SETS, "--chunk-tokens=64"},
    {"--max-prefill-tokens 64", SETS, "--step-tokens=64"},
    {"--page-size 64", SETS, "--block-tokens=64"},
    {"--random-seed 1", SETS, "--seed=1"},
    {"--disable-cuda-graph", SETS, "--graphs=false"},
    {"--base-gpu-id 1", SETS, "--gpu=1"},
    {"--watchdog-timeout 300", SETS, "--stuck=300000ms"},
    {"--log-level warn", SETS, "--log-level=warn"},
    {"--enable-metrics", NOTED, "/metrics"},
    {"--enable-deterministic-inference", NOTED, "never depend"},
    {"--stream-interval 1", NOTED, "token"},
    {"--stream-interval 8", REFUSED, "token"},
    {"--disable-radix-cache", REFUSED, "each API key apart"},
    {"--attention-backend triton", REFUSED, "one of each"},
    {"--schedule-policy lpm", REFUSED, "tenant"},
    {"--max-total-tokens 1000", REFUSED, "--blocks"},
    {"--enable-torch-compile", REFUSED, "compiled"},
    {"--nnodes 2", REFUSED, "--comm-listen"},
    /* typing errors */
    {"--max-contxt 1", REFUSED, "did you mean --max-context?"},
    {"--max-modle-len 1", REFUSED, "did you mean --max-context?"},
    {"--worker 2", REFUSED, "did you mean --workers?"},
    {"--slot 2", REFUSED, "did you mean --slots?"},
    {"--zzzzzzzz", REFUSED, "see trireme serve --help"},
    {"-Z", REFUSED, "see trireme serve --help"},
    {"--max-model-len 1 --max-context 2", REFUSED, "one setting"},
};

struct parsed {
    struct merged_options options;
    struct buf notes;
    char text[512]; /* the words, cut */
    int rc;
    struct error err;
};

static void parse(struct parsed *p, const char *words) {
    char *argv[16] = {"serve"};
    int argc = 1;
    *p = (struct parsed){.rc = 0};
    snprintf(p->text, sizeof p->text, "%s", words);
    for (char *word = strtok(p->text, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    serve_options_merge(&p->options, &p->notes);
    p->rc =
        option_parse(&p->options.table, p->options.settings, argc, argv, NULL, 0, NULL, &p->err);
}

static void drop(struct parsed *p) {
    merged_options_release(&p->options);
    buf_release(&p->notes);
}

/* Whether the settings that are not at their defaults are this one, or hold it beside others. */
static bool sets(const struct parsed *p, const char *flag) {
    char *flags[256];
    size_t count = option_to_flags(&p->options.table, p->options.settings, flags, ARRAY_LEN(flags));
    bool found = !*flag && count == 0;
    for (size_t i = 0; i < count; i++) {
        found = found || !strcmp(flags[i], flag);
        if (!strncmp(flags[i], flag, strcspn(flag, ".")) && strchr(flag, '.'))
            found = true; /* a fraction has more digits */
        mem_free(flags[i]);
    }
    return found;
}

TEST(every_spelling_does_it_or_says_why_not) {
    size_t taken = 0;
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct parsed p;
        parse(&p, CASES[i].words);
        bool good = false;
        switch (CASES[i].class) {
        case SETS: good = p.rc == 0 && sets(&p, CASES[i].shows); break;
        case NOTED:
            good = p.rc == 0 && sets(&p, "") && strstr(buf_text(&p.notes), CASES[i].shows);
            break;
        case REFUSED: good = p.rc == ERR_INVALID && strstr(p.err.text, CASES[i].shows); break;
        }
        EXPECT_MSG(good, "%s: %d %s / %s", CASES[i].words, p.rc, p.rc ? p.err.text : "",
                   buf_text(&p.notes));
        taken += CASES[i].class != REFUSED;
        drop(&p);
    }
    EXPECT(ARRAY_LEN(CASES) > 160 && taken > 92);
}

TEST(a_flag_of_others_is_in_one_list_only) {
    struct parsed p;
    parse(&p, "");
    for (size_t i = 0; i < p.options.table.count; i++) {
        const char *at = p.options.table.rows[i].aliases;
        char own[80];
        snprintf(own, sizeof own, " --%s ", p.options.table.rows[i].name);
        for (size_t j = 0; j < foreign_flag_count; j++) {
            char all[1024];
            snprintf(all, sizeof all, " %s ", foreign_flags[j].flags);
            EXPECT_MSG(!strstr(all, own), "%s", own);
        }
        while (at && *at) {
            size_t len = strcspn(at, " "), skip = *at == '!';
            char flag[80];
            snprintf(flag, sizeof flag, " %.*s ", (int)(len - skip), at + skip);
            for (size_t j = 0; j < foreign_flag_count; j++) {
                char all[1024];
                snprintf(all, sizeof all, " %s ", foreign_flags[j].flags);
                EXPECT_MSG(!strstr(all, flag), "%s", flag);
            }
            at += len + strspn(at + len, " ");
        }
    }
    drop(&p);
}

TEST(a_gpu_takes_all_layers_or_says_so) {
    struct error err;
    EXPECT_EQ(model_check_layers_on_gpu(model_layers_wanted(-1), 32, &err), 0);
    EXPECT_EQ(model_check_layers_on_gpu(model_layers_wanted(32), 32, &err), 0);
    EXPECT_EQ(model_check_layers_on_gpu(model_layers_wanted(33), 32, &err), 0);
    EXPECT_EQ(model_check_layers_on_gpu(model_layers_wanted(999), 32, &err), 0);
    EXPECT_EQ(model_check_layers_on_gpu(model_layers_wanted(31), 32, &err), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "31 of the model's 32 layers") && strstr(err.text, "--stage-devices"));
    EXPECT(!strcmp(model_device_kind("auto", 0), "cpu") &&
           !strcmp(model_device_kind("cuda", 0), "cpu") &&
           !strcmp(model_device_kind("emulated", 0), "emulated") &&
           !strcmp(model_device_kind("auto", -1), "auto") &&
           !strcmp(model_device_kind("cuda", 99), "cuda"));
}

static bool has_letter(const struct option_table *table, const char *name) {
    for (size_t i = 0; i < table->count; i++)
        if (!strcmp(table->rows[i].name, name) && table->rows[i].short_name)
            return true;
    return false;
}

/* One letter, or one short word, means one option in every command. */
TEST(short_flags_mean_one_thing_everywhere) {
    static const struct option_table *const TABLES[] = {
        &serve_options,  &gateway_options, &scheduler_options, &worker_options, &perplexity_options,
        &logits_options, &convert_options, &quantize_options,  &doctor_options, &tokenize_options,
        &decode_options, &render_options,  &grammar_options,   &run_options,    &chat_options,
        &status_options, &info_options};
    struct {
        char flag[80];
        const char *name;
    } known[256];
    size_t known_count = 0;
    for (size_t i = 0; i < ARRAY_LEN(TABLES); i++)
        for (size_t j = 0; j < TABLES[i]->count; j++) {
            const struct option_row *row = &TABLES[i]->rows[j];
            char words[512];
            snprintf(words, sizeof words, "%c%c %s", row->short_name ? '-' : ' ',
                     row->short_name ? row->short_name : ' ', row->aliases ? row->aliases : "");
            for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
                size_t k = 0;
                while (k < known_count && strcmp(known[k].flag, word) != 0)
                    k++;
                if (k == known_count) {
                    CHECK(known_count < ARRAY_LEN(known));
                    snprintf(known[k].flag, sizeof known[k].flag, "%s", word);
                    known[known_count++].name = row->name;
                }
                /* those that mean two: llama-cli's -p, in commands whose port has no letter; and -q, the
                 * type that weights become, while they are loaded and when they are converted */
                if (!strcmp(word, "-p") && !strcmp(row->name, "prompt") &&
                    !has_letter(TABLES[i], "port"))
                    continue;
                if (!strcmp(word, "-q") && TABLES[i] == &convert_options)
                    continue;
                EXPECT_MSG(!strcmp(known[k].name, row->name), "%s is --%s and --%s", word,
                           known[k].name, row->name);
            }
        }
    EXPECT(known_count > 50);
}
