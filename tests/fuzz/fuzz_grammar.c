/* Any bytes as a schema, a pattern or a grammar, with small limits: compiled or refused; what
 * compiles is walked along its own masks, and patterns are sought in themselves. The first byte says which of the five; TRIREME_FUZZ_KIND=N
 * (enum grammar_kind) makes all of them the same. */
#include "formats/json.h"
#include "fuzz.h"
#include "grammar/finder.h"
#include "grammar/grammar.h"
#include "text/unicode.h"

#include <limits.h>
#include <stdlib.h>

static struct vocab *make_vocab(void) {
    static uint8_t bytes[256];
    static const uint32_t ENDS[] = {256};
    struct bytes tokens[257] = {{0}};
    for (uint32_t i = 0; i < 256; i++) {
        bytes[i] = (uint8_t)i;
        tokens[i] = bytes_of(&bytes[i], 1);
    }
    return vocab_new(tokens, 257, ENDS, 1);
}

/* Its lines as patterns that are sought in it: whole, and in two pieces. */
static void seek(struct bytes text) {
    struct bytes patterns[4];
    struct finder *f;
    struct error err;
    size_t count = 0, from = 0, len = 0, idx = 0, part = 0, part_idx = 0;
    for (size_t i = 0; i <= text.len && count < ARRAY_LEN(patterns); i++)
        if (i == text.len || text.data[i] == '\n') {
            patterns[count++] = bytes_of(text.data + from, i - from);
            from = i + 1;
        }
    if (finder_new(patterns, count, &f, &err)) {
        CHECK(err.text[0] && !f);
        return;
    }
    uint32_t state = FINDER_BEGIN, again = FINDER_BEGIN;
    size_t half = text.len / 2;
    bool found = finder_read(f, &state, text, &len, &idx);
    bool early = finder_read(f, &again, bytes_of(text.data, half), &part, &part_idx);
    if (!early &&
        finder_read(f, &again, bytes_of(text.data + half, text.len - half), &part, &part_idx)) {
        part += half;
        early = true;
    }
    CHECK(found == early && (!found || (len == part && idx == part_idx && len <= text.len)));
    CHECK(!found || bytes_equal(finder_pattern(f, idx), patterns[idx]));
    finder_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    static struct vocab *vocab;
    struct program p;
    struct error err;
    static unsigned kind = UINT_MAX; /* 5: the first byte says */
    if (!vocab)
        vocab = make_vocab();
    if (kind == UINT_MAX) {
        const char *only = getenv("TRIREME_FUZZ_KIND");
        kind = only ? (unsigned)strtoul(only, NULL, 10) % 5 : 5;
    }
    if (len < 2)
        return 0;
    struct grammar_limits limits = {.states = 5000, .exprs = 5000, .bytes = 1 << 16, .depth = 32};
    struct grammar_source source = {.kind = (enum grammar_kind)(kind < 5 ? kind : data[0] % 5u),
                                    .text =
                                        len > 2 ? bytes_of(data + 2, len - 2) : bytes_of(NULL, 0),
                                    .ordered = data[1] & 1,
                                    .compact = data[1] & 2,
                                    .plain = data[1] & 4};
    if (source.kind == GRAMMAR_REGEX && source.text.len)
        seek(source.text);
    if (grammar_compile(&source, &limits, &p, &err)) {
        CHECK(err.text[0]);
        return 0;
    }
    struct grammar_run *run = grammar_run_new(&p, vocab);
    struct matcher *m = matcher_new(run);
    uint32_t bits[9];
    uint64_t random = data[1];
    for (int i = 0; i < 60; i++) {
        matcher_mask(m, bits);
        uint32_t first =
                     (uint32_t)(random = random * 6364136223846793005u + 1442695040888963407u) >>
                     24,
                 id = 257;
        for (uint32_t k = 0; k < 256 && id == 257; k++)
            if (bits[(first + k) % 256 / 32] >> (first + k) % 256 % 32 & 1)
                id = (first + k) % 256;
        if (id == 257)
            break;
        CHECK(matcher_token(m, id) || matcher_failed(m));
    }
    matcher_free(&m);
    grammar_run_free(&run);
    program_release(&p);
    return 0;
}
