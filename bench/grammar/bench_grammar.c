/*
 * bench_grammar.c - compiling constraints and making masks: microseconds of processor each, for
 * grammar_bench.py, which puts other libraries beside them.
 *
 * bench_grammar TOKENIZER. In: one JSON object a line: {"kind": "schema" | "regex" | "gbnf" |
 * "lark", "source": TEXT, "texts": [TEXT, ...]}. Out: {"compile_us" (negative: refused), "texts":
 * [{"ids": [...], "mask_us": [...], "accepted": BOOL, "served", "single", "forced"}, ...], "bytes"}:
 * a mask before each token; of texts that a server could write (members in order), its tokens, those
 * that were alone in their mask, and those whose whole text had to come; bytes of memory that program
 * and tables hold behind them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "grammar/grammar.h"
#include "text/template/value.h"
#include "text/tokenizer/open.h"

static double thread_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Without control tokens; the first of them, or the last token, ends a sequence. */
static struct vocab *make_vocab(const struct tokenizer *t) {
    uint32_t count = tokenizer_vocab_count(t), end = count - 1;
    struct bytes *tokens = mem_calloc(count, sizeof *tokens);
    for (uint32_t id = count; id-- > 0;) {
        if (tokenizer_is_special(t, id))
            end = id;
        else
            tokens[id] = tokenizer_token_bytes(t, id);
    }
    tokens[end] = (struct bytes){0};
    struct vocab *v = vocab_new(tokens, count, &end, 1);
    mem_free(tokens);
    return v;
}

static bool kind_of(struct bytes name, enum grammar_kind *out) {
    static const struct {
        const char *name;
        enum grammar_kind kind;
    } KINDS[] = {{"schema", GRAMMAR_JSON_SCHEMA},
                 {"regex", GRAMMAR_REGEX},
                 {"gbnf", GRAMMAR_GBNF},
                 {"lark", GRAMMAR_LARK}};
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++)
        if (bytes_equal(name, bytes_str(KINDS[i].name))) {
            *out = KINDS[i].kind;
            return true;
        }
    return false;
}

static void walk(struct grammar_run *run, const struct tokenizer *t, struct bytes text,
                 uint32_t *bits, struct buf *out) {
    struct token_vec ids = {0};
    struct matcher *m = matcher_new(run);
    struct buf times = {0};
    bool ok = !tokenizer_encode(t, text, 0, &ids, NULL);
    buf_add_str(out, "{\"ids\": [");
    for (size_t i = 0; i < ids.count && ok; i++) {
        double begin = thread_us();
        matcher_mask(m, bits);
        buf_addf(&times, "%s%.2f", i ? "," : "", thread_us() - begin);
        buf_addf(out, "%s%u", i ? "," : "", ids.items[i]);
        ok = (bits[ids.items[i] / 32] >> ids.items[i] % 32 & 1) && matcher_token(m, ids.items[i]);
    }
    buf_addf(out, "], \"accepted\": %s, \"mask_us\": [",
             ok && matcher_may_end(m) ? "true" : "false");
    buf_add_bytes(out, buf_bytes(&times));
    buf_add_byte(out, ']');
    buf_release(&times);
    vec_release(&ids);
    matcher_free(&m);
}

/* Of a text that the constraint accepts as it is served: tokens, those without another beside them in
 * the mask, and those that lie in text that has to come. */
static void count_forced(struct grammar_run *run, const struct tokenizer *t, const struct vocab *v,
                         struct bytes text, uint32_t *bits, struct buf *out) {
    struct token_vec ids = {0};
    struct matcher *m = matcher_new(run);
    struct buf forced = {0};
    size_t single_count = 0, forced_count = 0;
    bool ok = !tokenizer_encode(t, text, 0, &ids, NULL);
    for (size_t i = 0; i < ids.count && ok; i++) {
        uint32_t id = ids.items[i], allowed = 0;
        matcher_mask(m, bits);
        for (uint32_t w = 0; w < v->word_count; w++)
            allowed += (uint32_t)__builtin_popcount(bits[w]);
        forced.len = 0;
        matcher_forced(m, VOCAB_TOKEN_BYTES_MAX, &forced);
        single_count += allowed == 1;
        forced_count += forced.len >= v->tokens[id].len;
        ok = matcher_token(m, id);
    }
    ok = ok && matcher_may_end(m);
    buf_addf(out, ", \"served\": %zu, \"single\": %zu, \"forced\": %zu}", ok ? ids.count : 0,
             ok ? single_count : 0, ok ? forced_count : 0);
    buf_release(&forced);
    vec_release(&ids);
    matcher_free(&m);
}

static void bench_line(const struct tokenizer *t, const struct vocab *v, uint32_t *bits,
                       struct bytes line) {
    struct arena arena;
    struct tvalue request;
    struct error err;
    struct buf out = {0};
    struct program p = {0}, served = {0};
    struct grammar_run *run = NULL, *served_run = NULL;
    struct grammar_source source = {0};
    arena_init(&arena, 0, 0);
    bool ok = !tvalue_from_json(&arena, line, &request, &err) &&
              kind_of(tvalue_text(tvalue_get(request, "kind")), &source.kind);
    if (ok)
        source.text = tvalue_text(tvalue_get(request, "source"));
    double begin = thread_us();
    ok = ok && !grammar_compile(&source, NULL, &p, &err);
    if (ok)
        run = grammar_run_new(&p, v);
    buf_addf(&out, "{\"compile_us\": %.2f, \"texts\": [", ok ? thread_us() - begin : -1);
    source.ordered = source.plain = true;
    ok = ok && !grammar_compile(&source, NULL, &served, &err);
    if (ok)
        served_run = grammar_run_new(&served, v);
    struct tvalue texts = ok ? tvalue_get(request, "texts") : tvalue_none();
    for (size_t i = 0; i < tvalue_count(texts); i++) {
        if (i)
            buf_add_byte(&out, ',');
        struct bytes text = tvalue_text(tvalue_list_at(texts, i));
        walk(run, t, text, bits, &out);
        count_forced(served_run, t, v, text, bits, &out);
    }
    buf_addf(&out, "], \"bytes\": %zu}\n", ok ? program_size(&p) + grammar_run_size(run) : 0);
    fwrite(out.data, out.len, 1, stdout);
    fflush(stdout);
    grammar_run_free(&run);
    grammar_run_free(&served_run);
    program_release(&p);
    program_release(&served);
    buf_release(&out);
    arena_release(&arena);
}

int main(int argc, char **argv) {
    struct tokenizer *t;
    struct error err;
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    if (argc != 2 || tokenizer_open(argv[1], &t, &err)) {
        fprintf(stderr, "bench_grammar: %s\n", argc == 2 ? err.text : "needs a tokenizer");
        return 1;
    }
    struct vocab *v = make_vocab(t);
    uint32_t *bits = mem_calloc(v->word_count, sizeof *bits);
    while ((len = getline(&line, &cap, stdin)) > 0)
        bench_line(t, v, bits, bytes_of(line, (size_t)len));
    free(line);
    mem_free(bits);
    vocab_free(&v);
    tokenizer_free(&t);
    return 0;
}
