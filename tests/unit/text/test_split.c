/*
 * Stages of a splitter that one scanner does: the same pieces as by the stages themselves.
 */
#include "text/tokenizer/fast/fast.h"
#include "text/tokenizer/known_splits.h"
#include "text/tokenizer/split.h"

#include <stdio.h>

#include "base/utf8.h"
#include "check.h"
#include "golden.h"
#include "text/unicode.h"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *patterns[3];
    scan_fn *scan;
} CASES[] = {{{"\\p{N}", GPT2}, scan_digits_gpt2},
             {{SCAN_DEEPSEEK3_DIGITS, SCAN_DEEPSEEK3_ASIAN, SCAN_DEEPSEEK3_REST}, scan_deepseek3}};

/* Known to us by its text; with something behind that changes nothing it is left to PCRE2. */
static bool load(struct splitter *s, struct arena *arena, const char *const patterns[3],
                 const char *behind) {
    struct buf json = {0};
    buf_add_str(&json, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (size_t i = 0; i < 3 && patterns[i]; i++) {
        struct buf regex = {0};
        buf_add_str(&regex, patterns[i]);
        buf_add_str(&regex, behind);
        buf_add_str(&json, i ? "," : "");
        buf_add_str(&json, "{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"
                           "\"pattern\":{\"Regex\":\"");
        buf_add_json(&json, bytes_of(regex.data, regex.len));
        buf_add_str(&json, "\"}}");
        buf_release(&regex);
    }
    buf_add_str(&json, "]}");
    bool good = !splitter_load(s, golden_json(arena, bytes_of(json.data, json.len)), NULL);
    buf_release(&json);
    return good;
}

struct ends {
    const uint8_t *text;
    size_t ends[512], count;
};

static int note_piece(void *ctx, struct bytes piece, const uint8_t *limit) {
    struct ends *e = ctx;
    if (piece.data + piece.len > limit)
        return ERR_INVALID;
    if (e->count < ARRAY_LEN(e->ends))
        e->ends[e->count++] = (size_t)(piece.data + piece.len - e->text);
    return 0;
}

static void note_batch(void *ctx, const struct piece_batch *pieces, const uint8_t *limit) {
    for (unsigned i = 0; i < pieces->count; i++)
        EXPECT_EQ(note_piece(ctx, bytes_of(pieces->at[i], pieces->len[i]), limit), 0);
}

/* Characters whose class is the same in Unicode 16 and in the older tables of PCRE2. */
static size_t random_text(uint8_t *text, size_t max) {
    static const uint32_t CHARS[] = {
        'a',    'B',    's',    't',    'l',    '\'',   ' ',    ' ',    '\t',    '\n',   '\r',
        '1',    '2',    '!',    '.',    '$',    0x01,   0x7F,   0xE9,   0xA0,    0x85,   0x3000,
        0x301,  0x660,  0xBD,   0x4E2D, 0x9FA5, 0x9FA6, 0x3042, 0x30A2, 0x30FB,  0x309B, 0x3099,
        0x3040, 0x3097, 0x30A0, 0x3002, 0xFF11, 0xAC00, 0x416,  0x2019, 0x1F642, 0x200D, 0x378};
    size_t len = 0;
    for (size_t n = check_random() % 160; n && len + 4 < max; n--) {
        size_t few = check_random() % 2 ? 13 : ARRAY_LEN(CHARS);
        len += utf8_encode(CHARS[check_random() % few], (char *)text + len);
    }
    return len;
}

/* Where the pieces of "a中!文" end, by a pattern of Han characters that no scanner knows. */
TEST(han_is_read_in_every_form) {
    static const struct {
        const char *pattern;
        size_t ends[4], count;
    } ROWS[] = {{"\\p{Han}", {1, 4, 5, 8}, 4},   {"\\P{Han}", {1, 4, 5, 8}, 4},
                {"\\p{^Han}+", {1, 4, 5, 8}, 4}, {"[\\p{Han}!]+", {1, 8}, 2},
                {"[^\\p{Han}a]", {4, 5, 8}, 3},  {"[\\P{Han}]", {1, 4, 5, 8}, 4},
                {"[a\\p{Han}]+", {4, 5, 8}, 3}};
    unicode_init();
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        static const char TEXT[] = "a中!文";
        const char *const patterns[3] = {ROWS[i].pattern};
        struct arena arena = {0};
        struct splitter s;
        struct split_scratch scratch = {0};
        struct ends e = {.text = (const uint8_t *)TEXT};
        EXPECT(load(&s, &arena, patterns, ""));
        EXPECT(!splitter_run(&s, &scratch, bytes_str(TEXT), true, note_piece, &e, NULL, NULL));
        if (e.count != ROWS[i].count || memcmp(e.ends, ROWS[i].ends, e.count * sizeof *e.ends))
            check_fail(__FILE__, __LINE__, "%s: %zu pieces", ROWS[i].pattern, e.count);
        split_scratch_release(&scratch);
        splitter_release(&s);
        arena_release(&arena);
    }
}

TEST(stages_in_one_scanner_make_the_pieces_of_the_stages) {
    unicode_init();
    for (size_t k = 0; k < ARRAY_LEN(CASES); k++) {
        struct arena arena = {0};
        struct splitter joined, apart;
        struct split_scratch scratch[2] = {0};
        EXPECT(load(&joined, &arena, CASES[k].patterns, "") &&
               load(&apart, &arena, CASES[k].patterns, "(?:)"));
        EXPECT(joined.stage_count == 1 && joined.stages[0].scan == CASES[k].scan);
        EXPECT(apart.stage_count > 1 && !apart.stages[0].scan);
        for (int round = 0; round < 6000; round++) {
            uint8_t text[700];
            struct bytes whole = bytes_of(text, random_text(text, sizeof text));
            struct ends by_one = {.text = text}, by_stages = {.text = text};
            if (round % 2) /* by blocks */
                fast_split(&joined.stages[0], whole, note_batch, &by_one);
            else
                EXPECT(!splitter_run(&joined, &scratch[0], whole, true, note_piece, &by_one, NULL,
                                     NULL));
            EXPECT(!splitter_run(&apart, &scratch[1], whole, true, note_piece, &by_stages, NULL,
                                 NULL));
            bool same = by_one.count == by_stages.count &&
                        !memcmp(by_one.ends, by_stages.ends, by_one.count * sizeof *by_one.ends);
            if (!same)
                check_fail(__FILE__, __LINE__, "case %zu, round %d: other pieces", k, round);
        }
        for (int i = 0; i < 2; i++)
            split_scratch_release(&scratch[i]);
        splitter_release(&joined);
        splitter_release(&apart);
        arena_release(&arena);
    }
}

/* What goes with each name: "i", a piece that is a token by itself is that token, and "b", a sequence begins with BOS. */
static const struct {
    const char *names, *more;
} NAMED[] = {
    {"gpt2 gpt-2 r50k_base p50k_base mpt olmo jais phi-2 trillion granite-docling exaone4 "
     "roberta-bpe modern-bert jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code "
     "gigachat a.x-4.0 mellum cl100k cl100k_base dbrx smaug-bpe chatglm-bpe glm4 o200k "
     "o200k_base gpt-4o llama4 minimax-m2 kanana2 talkie qwen2 stablelm2 hunyuan "
     "deepseek-r1-qwen megrez grok-2 kormo solar-open f2llmv2 laguna ufakzeka qwen35 "
     "exaone-moe tiny_aya cohere2moe afmoe spark2_5 deepseek-v3 deepseek_v3 hunyuan-dense "
     "joyai-llm hy_v4 deepseek-llm deepseek-coder falcon starcoder refact command-r smollm "
     "codeshell exaone minerva-7b mellum2 poro-chat bloom gpt3-finnish viking superbpe "
     "bailingmoe bailingmoe2 llada-moe seed-coder kimi-k2 default ",
     ""},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano tekken ",
     "ib"},
    {"minicpm5 granite-embed-multi-97m youtu ", "i"},
    {"chameleon ", "b"},
};

TEST(named_splits_say_what_goes_with_them) {
    for (size_t i = 0; i < ARRAY_LEN(NAMED); i++) {
        for (const char *at = NAMED[i].names; *at; at += strcspn(at, " ") + 1) {
            struct bytes name = bytes_of(at, strcspn(at, " "));
            struct known_split more = {0};
            struct buf json = {0};
            bool known = known_split_json(name, &json, &more);
            if (!known || more.ignore_merges != !!strchr(NAMED[i].more, 'i') ||
                more.add_bos != !!strchr(NAMED[i].more, 'b'))
                check_fail(__FILE__, __LINE__, "%.*s: known %d, merges %d, bos %d", (int)name.len,
                           at, known, more.ignore_merges, more.add_bos);
            buf_release(&json);
        }
    }
    EXPECT(!known_split_json(bytes_str("gpt"), NULL, NULL));
    EXPECT(!known_split_json(bytes_str(""), NULL, NULL));
}
