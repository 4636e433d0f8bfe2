#include "cli/foreign_flags.h"

#define ON "true 1 on yes auto enabled"

/* Always so here. */
#define NOTED(flags_, note_)                                                                       \
    { .flags = flags_, .note = note_ }
/* So with these values, and not to be had with others. */
#define NOTED_FOR(flags_, values_, note_, reason_)                                                 \
    { .flags = flags_, .values = values_, .note = note_, .reason = reason_ }
#define REFUSED(flags_, reason_)                                                                   \
    { .flags = flags_, .values = "?*", .reason = reason_ }

const struct option_foreign foreign_flags[] = {
    /* how steps are made */
    NOTED_FOR("-fa --flash-attn", "?" ON, "attention never writes its scores to memory",
              "there is no other kind of attention"),
    NOTED("-cb --cont-batching", "batches always take and give up sequences at every step"),
    REFUSED("-nocb --no-cont-batching", "batches always take and give up sequences at every step"),
    NOTED("--enable-chunked-prefill --enable-mixed-chunk",
          "prompts are always computed in pieces, beside answers"),
    REFUSED("--no-enable-chunked-prefill", "prompts are always computed in pieces; --chunk-tokens "
                                           "and --max-step-tokens say how large"),
    NOTED("--enable-prefix-caching --cache-prompt", "beginnings of prompts are always kept"),
    NOTED("--paged-attention", "keys and values always lie in blocks"),
    REFUSED("--no-enable-prefix-caching --disable-radix-cache --no-cache-prompt",
            "beginnings of prompts are always kept, for each API key apart; it changes no token. A "
            "request's cache_salt keeps its own apart"),
    NOTED("--async-scheduling --enable-overlap-schedule",
          "the next step is always planned while one runs"),
    REFUSED("--disable-overlap-schedule --no-async-scheduling",
            "the next step is always planned while one runs"),
    NOTED("--enable-deterministic-inference", "answers never depend on what else is computed"),
    NOTED("-kvu --kv-unified", "all sequences share one pool of blocks"),
    REFUSED("--no-kv-unified", "all sequences share one pool of blocks"),
    NOTED("--no-context-shift", "a sequence that fills the context ends"),
    REFUSED("--context-shift", "a sequence that fills the context ends; see --max-context"),
    NOTED_FOR("--fit -fit", "?" ON, "the KV cache is always chosen by what is free",
              "--kv-bytes sets the KV cache by hand"),
    NOTED_FOR("--stream-interval", "1", "every token is sent as soon as it is known",
              "every token is sent as soon as it is known"),
    REFUSED("-tb --threads-batch", "prompts and answers are computed by the same threads; see "
                                   "--threads"),
    REFUSED("--no-warmup --warmup", "there is nothing to warm up"),
    REFUSED("--schedule-policy --scheduling-policy",
            "tenants share first, priority orders within one, then who came first"),
    REFUSED("--schedule-conservativeness --max-num-partial-prefills "
            "--max-long-partial-prefills",
            "see --chunk-tokens and --step-tokens"),
    REFUSED("--cuda-graph-max-bs --max-seq-len-to-capture --cuda-graph-bs",
            "graphs are recorded for every size of step; --no-graphs turns them off"),
    REFUSED("--compilation-config -O --enable-torch-compile", "nothing is compiled at run time"),
    REFUSED("--attention-backend --sampling-backend --mm-attention-backend --moe-runner-backend",
            "there is one of each; see --gemm for the products of prompts on a GPU"),
    REFUSED("-md --model-draft --draft-min --spec-type --speculative-config "
            "--speculative-algorithm --speculative-draft-model-path --speculative-num-steps",
            "tokens are guessed ahead from the text alone: see --drafts"),

    /* the model */
    REFUSED("-hff --hf-file --revision",
            "it is said in the name: ORG/NAME@REVISION:FILE, or ORG/NAME:QUANT"),
    REFUSED("--hf-token", "set HF_TOKEN: what is on the command line, others can read"),
    REFUSED("--download-dir", "set HF_HUB_CACHE, or HF_HOME"),
    REFUSED("-mu --model-url", "models are downloaded by name (ORG/NAME); a file of another host "
                               "must be there before"),
    REFUSED("--tokenizer --tokenizer-path --skip-tokenizer-init --hf-config-path",
            "the tokenizer is the one in the model's folder; see --model"),
    NOTED_FOR("--tokenizer-mode", "auto", "the tokenizer is the one in the model's folder",
              "the tokenizer is the one in the model's folder"),
    NOTED("--trust-remote-code", "no code of a model is ever run"),
    NOTED_FOR("--load-format", "auto safetensors gguf", "formats are told by the files",
              "models are folders of safetensors, or .gguf files"),
    NOTED_FOR("--dtype", "auto", "weights keep the type of their files",
              "weights keep the type of their files; trireme convert --type makes another model, "
              "and --compute says what products compute in"),
    NOTED_FOR("--generation-config", "auto", "generation_config.json of the model is read",
              "generation_config.json of the model's folder is read; change it there"),
    REFUSED("--override-generation-config --temp --temperature --top-k --top-p --min-p "
            "--repeat-penalty --repetition-penalty --presence-penalty --frequency-penalty "
            "-n --n-predict --predict --samplers --mirostat --grammar -j --json-schema",
            "requests say it, and generation_config.json of the model's folder for those that do "
            "not"),
    NOTED_FOR("--task --runner", "auto generate embed pooling",
              "each model does what its files say it can",
              "models generate, or make embeddings; there is nothing else to serve yet"),
    NOTED("--embedding --embeddings --is-embedding",
          "a model whose files say how its vectors are made answers /v1/embeddings; --pooling says "
          "it for one whose files do not"),
    REFUSED("--reranking --rerank", "models generate, or make embeddings; none ranks yet"),
    REFUSED("--lora --lora-scaled --lora-modules --lora-paths --enable-lora --max-loras "
            "--max-lora-rank --control-vector",
            "there are no adapters yet; merge them into the model"),
    REFUSED("--mmproj -mm --limit-mm-per-prompt --image-min-tokens --enable-multimodal",
            "models see text only"),
    REFUSED("--rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx "
            "--yarn-ext-factor --yarn-attn-factor --hf-overrides --override-kv "
            "--json-model-override-args",
            "config.json (or the .gguf file) says how positions are scaled; change it there"),

    /* memory and devices */
    REFUSED("-sm --split-mode", "--tp divides layers among GPUs, --pp puts whole layers on each"),
    REFUSED("-ts --tensor-split", "with --pp, --stage-layers says how many layers each stage has"),
    REFUSED("-ot --override-tensor -cmoe --cpu-moe -ncmoe --n-cpu-moe --cpu-offload-gb",
            "whole stages run on a device: --pp 2 --stage-devices cuda,cpu"),
    REFUSED("--swap-space --kv-offloading-size -cram --cache-ram --cache-reuse",
            "nothing is swapped; a preempted sequence is computed again. See --kv-bytes"),
    REFUSED("--ctx-checkpoints --swa-checkpoints", "see --snapshot-bytes"),
    REFUSED("--max-total-tokens --num-tokens", "see --blocks and --block-tokens"),
    REFUSED("--mlock --no-mmap --numa --no-kv-offload -nkvo --swa-full --no-repack --poll --prio",
            "weights are mapped from their files, and threads stay where the system puts them"),
    REFUSED("--enable-expert-parallel --ep-size --expert-parallel-size --enable-dp-attention",
            "experts are divided as all other layers are: --tp"),
    NOTED_FOR("--distributed-executor-backend", "mp", "each rank is a process of its own",
              "each rank is a process of its own"),
    REFUSED("--nnodes --node-rank --dist-init-addr --master-addr --master-port --rpc",
            "each rank on another machine is begun by itself: trireme worker --connect, "
            "--comm-listen"),
    REFUSED("--disable-custom-all-reduce --enable-p2p-check", "see --comm"),
    REFUSED("--kv-transfer-config --disaggregation-mode", "prompts and answers are computed by the "
                                                          "same workers"),

    /* the API */
    NOTED("--jinja", "chat templates are always Jinja, and run by our own reader"),
    REFUSED("--no-jinja", "chat templates are always Jinja"),
    NOTED("--enable-auto-tool-choice",
          "tools are offered to every model whose template takes them"),
    NOTED_FOR("--chat-template-content-format", "auto", "told by the template",
              "it is told by the template"),
    NOTED_FOR("--response-role", "assistant", "answers are the assistant's",
              "answers are the assistant's"),
    NOTED("--metrics --enable-metrics", "/metrics is always there"),
    NOTED("--webui", "the page at / is always there"),
    REFUSED("--no-webui --path --webui-config", "the page at / is built in"),
    REFUSED("--slot-save-path --models-dir --models-preset --sleep-idle-seconds",
            "that part of llama-server's API is not here; /metrics and trireme status tell what "
            "runs"),
    REFUSED("--no-slots", "GET /slots is always there"),
    REFUSED("--props", "GET /props is always there, and nothing can be changed by it"),
    REFUSED("--guided-decoding-backend --grammar-backend --structured-outputs-config",
            "there is one way to hold an answer to a grammar"),
    REFUSED("--tool-parser-plugin --reasoning-parser-plugin --logits-processors",
            "nothing is plugged in; docs/parsers.md lists the parsers that are there"),
    REFUSED("--reasoning-budget --max-logprobs", "it is not built"),
    REFUSED("--reuse-port", "several gateways share the port: --gateways"),
    REFUSED("--uds --root-path --api-prefix", "put a proxy in front"),
    REFUSED("--ssl-ca-certs", "clients are known by API keys; a proxy in front may ask for "
                              "certificates"),
    REFUSED("--middleware", "put a proxy in front"),

    /* logs */
    NOTED("--disable-log-requests --no-enable-log-requests --log-disable-prompts",
          "texts of requests are never logged"),
    REFUSED("--enable-log-requests --log-requests --log-requests-level",
            "texts of requests are never logged"),
    REFUSED("-v --verbose --log-verbose -lv --verbosity --log-verbosity --uvicorn-log-level",
            "see --log-level debug"),
    REFUSED("--log-jsonl", "see --log-format json"),
    REFUSED("--log-file --log-disable --log-prefix --log-timestamps --log-colors",
            "the log goes to standard error"),
    REFUSED("--disable-log-stats --decode-log-interval --show-time-cost --crash-dump-folder",
            "figures are at /metrics, not in the log"),
    REFUSED("--otlp-traces-endpoint", "see --otlp-endpoint, which speaks OTLP over HTTP"),
};
const size_t foreign_flag_count = ARRAY_LEN(foreign_flags);
