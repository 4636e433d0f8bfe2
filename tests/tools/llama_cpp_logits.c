/*
 * Logits that llama.cpp gives: llama_cpp_logits FILE.gguf, token ids on stdin, f32 rows on stdout.
 *
 * llama_cpp_diff.py compiles it against the headers of the llama.cpp it is given (its structs
 * change with each version), so CMake knows nothing of it. Everything in f32 on the CPU, one
 * prefill.
 */
#include <llama.h>

#include <stdio.h>
#include <stdlib.h>

enum { TOKENS_MAX = 4096 };

static void log_errors(enum ggml_log_level level, const char *text, void *arg) {
    (void)arg;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static struct llama_model *open_model(const char *path) {
    struct llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.use_extra_bufts = false; /* no repacking into types that round otherwise */
    return llama_model_load_from_file(path, params);
}

static struct llama_context *open_context(struct llama_model *model, int32_t count) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(count + 255) / 256 * 256;
    params.n_batch = params.n_ubatch = params.n_outputs_max = params.n_ctx;
    params.n_threads = params.n_threads_batch = 1;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    return llama_init_from_model(model, params);
}

static int print_logits(struct llama_context *context, int32_t vocab, const int32_t *ids,
                        int32_t count) {
    struct llama_batch batch = llama_batch_init(count, 0, 1);
    batch.n_tokens = count;
    for (int32_t i = 0; i < count; i++) {
        batch.token[i] = ids[i];
        batch.pos[i] = i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    if (llama_decode(context, batch))
        return 1;
    for (int32_t i = 0; i < count; i++)
        fwrite(llama_get_logits_ith(context, i), sizeof(float), (size_t)vocab, stdout);
    llama_batch_free(batch);
    return 0;
}

int main(int argc, char **argv) {
    static int32_t ids[TOKENS_MAX];
    int32_t count = 0;
    llama_log_set(log_errors, NULL);
    while (count < TOKENS_MAX && scanf("%d", &ids[count]) == 1)
        count++;
    struct llama_model *model = argc == 2 && count ? open_model(argv[1]) : NULL;
    struct llama_context *context = model ? open_context(model, count) : NULL;
    int32_t vocab = model ? llama_vocab_n_tokens(llama_model_get_vocab(model)) : 0;
    return context ? print_logits(context, vocab, ids, count) : 2;
}
