/*
 * trireme perplexity: how well a model foretells a text.
 *
 * The text is tokenized whole, without special tokens. It is cut into windows that follow each
 * other without overlap; each begins with what the tokenizer puts before a text (BOS, or nothing)
 * and is computed alone, at most --max-context positions long. Scored is every token of the text that has
 * something before it in its window, with the negative natural logarithm of its probability;
 * perplexity is e to the mean. Logits are f32, sums double.
 */
#include "cli/commands.h"
#include "cli/model_path.h"
#include "cli/progress.h"
#include "cli/scorer_settings.h"

#include "base/fsutil.h"
#include "formats/json.h"
#include "text/tokenizer/tokenizer.h"

#include <math.h>
#include <stdio.h>

struct perplexity_settings {
    const char *model, *file;
    int64_t ctx;
    struct scorer_settings scorer;
};

enum { CTX_DEFAULT = 2048 };
#define TEXT_MAX ((size_t)1 << 30)

#define ROW(field_, name_, type_, ...)                                                             \
    {                                                                                              \
        .name = name_, .type = type_, .offset = offsetof(struct perplexity_settings, field_),      \
        __VA_ARGS__                                                                                \
    }
static const struct option_row ROWS[] = {
    ROW(model, "model", OPTION_STRING, .short_name = 'm', .help = "folder of the model"),
    ROW(file, "file", OPTION_STRING, .short_name = 'f', .help = "text to score, UTF-8"),
    ROW(ctx, "max-context", OPTION_INT, .max = 1 << 20, .unit = "tokens",
        .aliases = "--ctx -c --ctx-size --max-model-len --context-length --max-seq-len --num-ctx",
        .alias_words = "auto=0 -1=0",
        .help = "longest window; 0: the model's context, at most 2048"),
    SCORER_ROWS(struct perplexity_settings),
};
const struct option_table perplexity_options = {
    .program = "trireme perplexity",
    .synopsis = "[OPTIONS] MODEL FILE",
    .summary = "Scores a text: prints tokens, their mean negative log-likelihood "
               "(natural) and its exponential as one JSON object.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS),
    .arguments = "model file"};

struct score {
    const uint32_t *ids; /* of the window */
    uint32_t count, prefix, vocab;
    double sum;
    uint64_t tokens;
};

static double surprise(const float *logits, uint32_t vocab, uint32_t id) {
    float top = logits[0];
    double sum = 0;
    for (uint32_t i = 1; i < vocab; i++)
        top = MAX(top, logits[i]);
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - (double)top);
    return log(sum) + (double)top - (double)logits[id];
}

static bool add_scores(void *ctx, uint32_t first, const float *logits, uint32_t count) {
    struct score *s = ctx;
    for (uint32_t i = 0; i < count && first + i + 1 < s->count; i++) {
        if (first + i + 1 < s->prefix)
            continue;
        s->sum += surprise(logits + (size_t)i * s->vocab, s->vocab, s->ids[first + i + 1]);
        s->tokens++;
    }
    return true;
}

static int score_windows(struct scorer *m, struct tokens prefix, const struct token_vec *text,
                         uint32_t ctx, struct score *score, uint64_t *windows,
                         struct progress *progress, struct error *err) {
    uint32_t *ids = mem_calloc(ctx, sizeof *ids);
    int rc = 0;
    for (size_t i = 0; i < prefix.count; i++)
        ids[i] = prefix.ids[i];
    for (size_t at = 0; !rc && at < text->count;) {
        uint32_t n = (uint32_t)MIN(text->count - at, (size_t)(ctx - prefix.count));
        memcpy(ids + prefix.count, text->items + at, n * sizeof *ids);
        score->ids = ids;
        score->count = (uint32_t)prefix.count + n;
        rc = scorer_run(m, ids, score->count, NULL, 0, add_scores, score, err);
        at += n;
        ++*windows;
        progress_show(progress, at, text->count);
    }
    mem_free(ids);
    return rc;
}

static int load_tokenizer(const char *model, struct tokenizer **out, struct error *err) {
    struct buf packed;
    struct bundle bundle;
    buf_init(&packed, 0);
    int rc = bundle_pack(model, &packed, err);
    if (!rc)
        rc = bundle_open(&bundle, buf_bytes(&packed), err);
    if (!rc)
        rc = tokenizer_load_bundle(&bundle, out, err);
    buf_release(&packed);
    return rc;
}

static void print_score(const struct score *s, uint64_t windows, uint32_t ctx) {
    struct buf out;
    struct json_writer w;
    double mean = s->sum / (double)s->tokens;
    buf_init(&out, 0);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_key(&w, "tokens");
    json_uint(&w, s->tokens);
    json_key(&w, "mean_nll");
    json_double(&w, mean);
    json_key(&w, "perplexity");
    json_double(&w, exp(mean));
    json_key(&w, "windows");
    json_uint(&w, windows);
    json_key(&w, "ctx");
    json_uint(&w, ctx);
    json_end_object(&w);
    printf("%s\n", buf_text(&out));
    buf_release(&out);
}

/* Longest window: what was asked for, within what the model can. */
static int choose_ctx(const struct perplexity_settings *o, const struct model_spec *spec,
                      size_t prefix, uint32_t *ctx, struct error *err) {
    *ctx = o->ctx ? (uint32_t)o->ctx : MIN(spec->max_context, (uint32_t)CTX_DEFAULT);
    if (*ctx > spec->max_context)
        return error_set(err, ERR_INVALID,
                         "--max-context %u is more than the model's context of %u", *ctx,
                         spec->max_context);
    if (*ctx < 2 || *ctx <= prefix)
        return error_set(err, ERR_INVALID, "--max-context %u leaves no token to score", *ctx);
    return 0;
}

static int perplexity(const struct perplexity_settings *o, struct scorer *m, struct tokenizer **t,
                      struct buf *text, struct token_vec *ids, struct error *err) {
    struct score score = {0};
    uint64_t windows = 0;
    uint32_t ctx = 0;
    int rc = file_read_any(o->file, TEXT_MAX, text, err);
    if (!rc)
        rc = load_tokenizer(o->model, t, err);
    if (!rc)
        rc = tokenizer_encode(*t, buf_bytes(text), 0, ids, err);
    if (rc)
        return rc;
    struct tokens prefix = tokenizer_prefix(*t);
    rc = choose_ctx(o, &m->model.spec, prefix.count, &ctx, err);
    score.prefix = (uint32_t)prefix.count;
    score.vocab = m->model.spec.vocab;
    if (rc)
        return rc;
    struct progress progress;
    progress_begin(&progress, "scoring");
    rc = score_windows(m, prefix, ids, ctx, &score, &windows, &progress, err);
    int64_t took_ms = progress_end(&progress);
    if (!rc && !score.tokens)
        rc = error_set(err, ERR_INVALID, "'%s' has no token to score", o->file);
    if (rc)
        return rc;
    print_score(&score, windows, ctx);
    if (progress.on_terminal)
        fprintf(stderr, "perplexity %.4f over %llu tokens, in %.1f s (%.0f tokens a second)\n",
                exp(score.sum / (double)score.tokens), (unsigned long long)score.tokens,
                (double)took_ms / 1000, (double)score.tokens * 1000 / (double)MAX(took_ms, 1));
    return rc;
}

int perplexity_main(int argc, char **argv) {
    struct error err = {0};
    struct perplexity_settings o;
    struct scorer m = {.dev = NULL};
    struct tokenizer *t = NULL;
    struct buf text;
    struct token_vec ids = {0};
    int rc = option_parse(&perplexity_options, &o, argc, argv, NULL, 0, NULL, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (!rc && (!o.model || !o.file))
        rc = error_set(&err, ERR_INVALID,
                       "give a model and a text: MODEL FILE, or --model and --file");
    if (rc)
        return command_misused("perplexity", &perplexity_options, &o, &err);
    buf_init(&text, 0);
    rc = model_path_of_option(&o.model, &err);
    const struct scorer_options options = scorer_options_of(&o.scorer, o.model, 0);
    if (!rc)
        rc = scorer_open(&m, &options, &err);
    if (!rc)
        rc = perplexity(&o, &m, &t, &text, &ids, &err);
    if (rc)
        fprintf(stderr, "trireme perplexity: %s\n", err.text);
    tokenizer_free(&t);
    vec_release(&ids);
    buf_release(&text);
    scorer_close(&m);
    option_free(&perplexity_options, &o);
    return rc ? 1 : 0;
}
