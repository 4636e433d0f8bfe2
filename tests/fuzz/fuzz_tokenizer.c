/*
 * fuzz_tokenizer.c - any text through tokenizers of known behaviour: byte level gives the text
 * back, streams give what whole decoding gives, stop strings do not depend on the cuts, ids out of
 * range do no harm.
 */
// see: text formats base
#include "base/utf8.h"
#include "fuzz.h"
#include "text/stop.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/known_splits.h"
#include "text/tokenizer/vocab.h"

static const char *const SPLITS[] = {
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}",
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|"
    "'t|'re|'ve|'m|'ll|'"
    "d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},"
    "\"behavior\":\"Isolated\","
    "\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}",
    "{\"type\":\"Sequence\","
    "\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},{\"type\":\"Punctuation\","
    "\"behavior\":\"MergedWithPrevious\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a-c]+|x\"},"
    "\"behavior\":\"MergedWithNext\",\"invert\":false},{\"type\":\"ByteLevel\","
    "\"add_prefix_space\":false,\"use_regex\":false},{\"type\":\"Digits\",\"individual_digits\":"
    "false}]}",
};
/* Of vocabularies with many merges: those that are scanned by blocks. */
static const char *const WIDE_SPLITS[] = {"qwen35", "o200k_base", "deepseek-v3", "smollm"};
enum { WIDE_FIRST = ARRAY_LEN(SPLITS), SPACED = WIDE_FIRST + ARRAY_LEN(WIDE_SPLITS), KINDS };

/* All bytes, some merges, two added tokens. */
static struct tokenizer *make_byte_level(const char *split) {
    static const char *const MERGES[][2] = {{"a", "b"},
                                            {"ab", "c"},
                                            {"a", "a"},
                                            {"aa", "aa"},
                                            {"\xC4\xA0", "a"},
                                            {"\xC4\xA0", "\xC4\xA0"},
                                            {"\xC3\xB0", "\xC5\x81"},
                                            {"1", "2"}};
    struct buf json = {0}, name = {0};
    struct tokenizer *t;
    struct error err;
    buf_add_str(
        &json,
        "{\"added_tokens\":[{\"id\":300,\"content\":\"<s>\",\"special\":true},{\"id\":301,"
        "\"content\":"
        "\"ab\",\"single_word\":true}],\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":");
    buf_addf(&json, "%s,\"model\":{\"type\":\"BPE\",\"vocab\":{", split);
    for (unsigned b = 0; b < 256; b++) {
        uint8_t byte = (uint8_t)b;
        buf_reset(&name);
        byte_alphabet_to_text(bytes_of(&byte, 1), &name);
        buf_addf(&json, "%s\"", b ? "," : "");
        buf_add_json(&json, buf_bytes(&name));
        buf_addf(&json, "\":%u", b);
    }
    for (unsigned i = 0; i < ARRAY_LEN(MERGES); i++)
        buf_addf(&json, ",\"%s%s\":%u", MERGES[i][0], MERGES[i][1], 256 + i);
    buf_add_str(&json, "},\"merges\":[");
    for (unsigned i = 0; i < ARRAY_LEN(MERGES); i++)
        buf_addf(&json, "%s[\"%s\",\"%s\"]", i ? "," : "", MERGES[i][0], MERGES[i][1]);
    buf_add_str(&json, "]}}");
    CHECK_MSG(!tokenizer_load(buf_bytes(&json), bytes_of(NULL, 0), bytes_of(NULL, 0), &t, &err),
              "%s", err.text);
    buf_release(&json);
    buf_release(&name);
    return t;
}

struct vocab_text {
    struct buf vocab, merges;
    unsigned count;
};

/* The token of left and right, merged from them unless right is empty. */
static void add_token(struct vocab_text *v, struct bytes left, struct bytes right) {
    struct buf names[2] = {{0}, {0}};
    byte_alphabet_to_text(left, &names[0]);
    byte_alphabet_to_text(right, &names[1]);
    buf_add_str(&v->vocab, v->count ? ",\"" : "\"");
    buf_add_json(&v->vocab, buf_bytes(&names[0]));
    if (right.len)
        buf_add_json(&v->vocab, buf_bytes(&names[1]));
    buf_addf(&v->vocab, "\":%u", v->count++);
    if (right.len) {
        buf_add_str(&v->merges, v->merges.len ? ",[\"" : "[\"");
        buf_add_json(&v->merges, buf_bytes(&names[0]));
        buf_add_str(&v->merges, "\",\"");
        buf_add_json(&v->merges, buf_bytes(&names[1]));
        buf_add_str(&v->merges, "\"]");
    }
    for (int i = 0; i < 2; i++)
        buf_release(&names[i]);
}

/* All bytes, 64 characters of three, each two of them, and a few tokens that end inside of a
 * character: so many that the tables of bytes and characters are made. */
static struct tokenizer *make_wide(const char *split) {
    struct vocab_text v = {0};
    struct buf json = {0};
    struct tokenizer *t;
    struct error err;
    uint8_t text[6] = {0xE3, 0x81, 0, 0xE3, 0x81, 0};
    for (unsigned b = 0; b < 256; b++)
        add_token(&v, bytes_of(&(uint8_t){(uint8_t)b}, 1), bytes_of("", 0));
    add_token(&v, bytes_of(text, 1), bytes_of(text + 1, 1));
    for (unsigned i = 0; i < 64; i++) {
        text[2] = (uint8_t)(0x80 + i);
        add_token(&v, bytes_of(text, 2), bytes_of(text + 2, 1));
    }
    for (unsigned i = 0; i < 64 * 64; i++) {
        text[2] = (uint8_t)(0x80 + i / 64);
        text[5] = (uint8_t)(0x80 + i % 64);
        /* some are never joined */
        if (i % 64 != 5)
            add_token(&v, bytes_of(text, 3), bytes_of(text + 3, 3));
    }
    for (unsigned i = 0; i < 64; i++)
        add_token(&v, bytes_of(&(uint8_t){(uint8_t)(0x80 + i)}, 1), bytes_of("\xE4", 1));
    add_token(&v, bytes_str("a"), bytes_of("\xE3\x81", 2));
    add_token(&v, bytes_str(" "), bytes_str("a"));
    add_token(&v, bytes_str("'"), bytes_str("s"));
    buf_add_str(&json, "{\"decoder\":{\"type\":\"ByteLevel\"},\"normalizer\":{\"type\":\"NFC\"},"
                       "\"pre_tokenizer\":");
    CHECK(known_split_json(bytes_str(split), &json, NULL));
    buf_addf(&json, ",\"model\":{\"type\":\"BPE\",\"vocab\":{%s},\"merges\":[%s]}}",
             buf_text(&v.vocab), buf_text(&v.merges));
    CHECK_MSG(!tokenizer_load(buf_bytes(&json), bytes_of(NULL, 0), bytes_of(NULL, 0), &t, &err),
              "%s", err.text);
    buf_release(&v.vocab);
    buf_release(&v.merges);
    buf_release(&json);
    return t;
}

static struct tokenizer *make_spaced(void) {
    struct buf json = {0};
    struct tokenizer *t;
    struct error err;
    buf_add_str(
        &json, "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true}],"
               "\"normalizer\":{\"type\":"
               "\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Prepend\",\"prepend\":"
               "\"\xE2\x96\x81\"},"
               "{\"type\":\"Replace\",\"pattern\":{\"String\":\" "
               "\"},\"content\":\"\xE2\x96\x81\"}]},\"decoder\":{\"type\":\"Sequence\","
               "\"decoders\":[{\"type\":"
               "\"Replace\",\"pattern\":{\"String\":\"\xE2\x96\x81\"},\"content\":\" \"},"
               "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" "
               "\",\"start\":1,\"stop\":0}]},\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\","
               "\"fuse_unk\":true,"
               "\"byte_fallback\":true,\"vocab\":{\"<unk>\":0");
    for (unsigned b = 0; b < 256; b++)
        buf_addf(&json, ",\"<0x%02X>\":%u", b, 1 + b);
    buf_add_str(&json, ",\"a\":257,\"b\":258,\"\xE2\x96\x81\":259,\"\xE2\x96\x81\x61\":260,\"ab\":"
                       "261,\"\xC3\xA9\":262}"
                       ",\"merges\":[\"\xE2\x96\x81 a\",\"a b\"]}}");
    CHECK_MSG(!tokenizer_load(buf_bytes(&json), bytes_of(NULL, 0), bytes_of(NULL, 0), &t, &err),
              "%s", err.text);
    buf_release(&json);
    return t;
}

static const struct tokenizer *tokenizer(unsigned kind) {
    static struct tokenizer *made[KINDS];
    if (!made[kind])
        made[kind] = kind < WIDE_FIRST ? make_byte_level(SPLITS[kind])
                     : kind < SPACED   ? make_wide(WIDE_SPLITS[kind - WIDE_FIRST])
                                       : make_spaced();
    return made[kind];
}

static void check_stream(const struct tokenizer *t, struct tokens ids, unsigned flags,
                         const struct buf *whole, bool exact) {
    struct buf out = {0};
    struct detok d;
    detok_init(&d, t, flags);
    for (size_t i = 0; i < ids.count; i++) {
        detok_push(&d, ids.ids[i], &out);
        CHECK(utf8_valid(out.data, out.len));
    }
    detok_flush(&d, &out);
    CHECK(utf8_valid(out.data, out.len));
    if (exact)
        CHECK(bytes_equal(buf_bytes(&out), buf_bytes(whole)));
    buf_release(&out);
}

/* What is known from the first time gives the same. */
static void check_again(const struct tokenizer *t, unsigned flags, struct bytes text,
                        const struct token_vec *ids) {
    struct token_vec again = {0};
    CHECK(!tokenizer_encode(t, text, flags & 3, &again, NULL));
    CHECK(again.count == ids->count &&
          (!ids->count || !memcmp(again.items, ids->items, ids->count * sizeof *ids->items)));
    vec_release(&again);
}

static void check_text(const struct tokenizer *t, unsigned kind, unsigned flags,
                       struct bytes text) {
    struct token_vec ids = {0};
    struct buf whole = {0};
    struct error err = {0};
    int rc = tokenizer_encode(t, text, flags & 3, &ids, &err);
    CHECK(rc == 0 || (err.text[0] && ids.count == 0));
    if (!rc) {
        tokenizer_detokenize(t, (struct tokens){ids.items, ids.count}, 0, &whole);
        check_again(t, flags, text, &ids);
        if (kind < WIDE_FIRST)
            CHECK(bytes_equal(buf_bytes(&whole), text) || (!text.len && !whole.len));
        check_stream(t, (struct tokens){ids.items, ids.count}, 0, &whole, true);
    }
    vec_release(&ids);
    buf_release(&whole);
}

/* Bytes as ids, cut characters and all. */
static void check_ids(const struct tokenizer *t, unsigned kind, struct bytes data) {
    struct token_vec ids = {0};
    struct buf whole = {0};
    for (size_t i = 0; i + 1 < data.len; i += 2)
        vec_push(&ids, (uint32_t)(data.data[i] | (data.data[i + 1] & 3) << 8));
    tokenizer_detokenize(t, (struct tokens){ids.items, ids.count}, DETOKENIZE_SKIP_SPECIAL, &whole);
    CHECK(utf8_valid(whole.data, whole.len));
    check_stream(t, (struct tokens){ids.items, ids.count}, DETOKENIZE_SKIP_SPECIAL, &whole,
                 kind < WIDE_FIRST);
    vec_release(&ids);
    buf_release(&whole);
}

static void check_stop(struct bytes text) {
    struct bytes stops[] = {bytes_str("ab"), bytes_str("aab"), bytes_str("</s>"),
                            bytes_str("\xC3\xA9")};
    struct stop once, often;
    struct buf a = {0}, b = {0};
    CHECK(!stop_init(&once, stops, ARRAY_LEN(stops), false, NULL) &&
          !stop_init(&often, stops, ARRAY_LEN(stops), false, NULL));
    bool hit = stop_push(&once, text, &a), other = false;
    for (size_t i = 0; i < text.len; i++)
        other = stop_push(&often, bytes_of(text.data + i, 1), &b);
    stop_flush(&once, &a);
    stop_flush(&often, &b);
    CHECK(hit == other && bytes_equal(buf_bytes(&a), buf_bytes(&b)));
    stop_release(&once);
    stop_release(&often);
    buf_release(&a);
    buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    unsigned kind = data[0] % KINDS, flags = data[0] / KINDS;
    struct bytes rest = bytes_of(data + 1, size - 1);
    check_text(tokenizer(kind), kind, flags, rest);
    check_ids(tokenizer(kind), kind, rest);
    check_stop(rest);
    return 0;
}
