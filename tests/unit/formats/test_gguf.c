#include "formats/gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "formats/gguf_types.h"
#include "gguf_build.h"

/* Three keys of different kinds, an array of strings, two tensors. */
static void build(struct buf *b, uint32_t version) {
    buf_init(b, 0);
    put_head(b, version, 2, 5);
    put_key_text(b, "general.architecture", "llama");
    put_key_u32(b, "llama.block_count", 7);
    put_text(b, "a.float");
    put_u32(b, 6);
    buf_add(b, &(float){1.5f}, 4);
    put_text(b, "tokens");
    put_u32(b, 9);
    put_u32(b, 8);
    put_u64(b, 3);
    put_text(b, "x");
    put_text(b, "");
    put_text(b, "yz");
    put_text(b, "signed");
    put_u32(b, 9);
    put_u32(b, 3);
    put_u64(b, 2);
    buf_add(b, (int16_t[]){-2, 300}, 4);
    put_tensor(b, "w", 64, 2, 2, 0); /* Q4_0: 4 blocks of 18 */
    put_tensor(b, "bias", 3, 0, 0, 96);
    put_padding(b, 32);
    put_zeros(b, 96 + 12);
}

/* The data begins at the first multiple of general.alignment (32 without one) behind the header, and
 * each tensor at a multiple of it from there. */
TEST(gguf_data_begins_where_the_alignment_says) {
    static const uint32_t ALIGNMENTS[] = {0, 8, 16, 32, 64, 4096};
    for (size_t i = 0; i < ARRAY_LEN(ALIGNMENTS); i++)
        for (size_t name_len = 1; name_len <= 64; name_len++) { /* headers of any length */
            uint32_t said = ALIGNMENTS[i], alignment = said ? said : 32;
            char name[65] = "";
            struct buf b;
            struct gguf g;
            struct error err = {0};
            memset(name, 'n', name_len);
            buf_init(&b, 0);
            put_head(&b, 3, 2, said ? 1 : 0);
            if (said)
                put_key_u32(&b, "general.alignment", said);
            put_tensor(&b, name, 1, 0, 0, 0);
            put_tensor(&b, "second", 1, 0, 0, alignment);
            put_padding(&b, alignment);
            size_t start = b.len;
            put_zeros(&b, alignment + 4);
            memcpy(b.data + start, &(float){1.25f}, 4);
            memcpy(b.data + start + alignment, &(float){-7}, 4);
            EXPECT_EQ(gguf_open_bytes(&g, buf_bytes(&b), "test", &err), 0);
            EXPECT_EQ(g.set.tensor_count, 2);
            for (size_t t = 0; t < 2; t++) {
                float value;
                bool second = !strcmp(g.set.tensors[t].name, "second");
                memcpy(&value, g.set.tensors[t].data, 4);
                EXPECT(value == (second ? -7 : 1.25f));
            }
            gguf_close(&g);
            if (alignment > 8) { /* half of it is not enough */
                buf_reset(&b);
                put_head(&b, 3, 1, said ? 1 : 0);
                if (said)
                    put_key_u32(&b, "general.alignment", said);
                put_tensor(&b, name, 1, 0, 0, alignment / 2);
                put_padding(&b, alignment);
                put_zeros(&b, alignment + 4);
                EXPECT_EQ(gguf_open_bytes(&g, buf_bytes(&b), "test", &err), ERR_INVALID);
                EXPECT(strstr(err.text, "not aligned"));
            }
            buf_release(&b);
        }
}

TEST(gguf_reads_keys_and_tensors) {
    for (uint32_t version = 2; version <= 3; version++) {
        struct buf b;
        struct gguf g;
        struct error err = {0};
        struct bytes s;
        int64_t i = 0;
        double d = 0;
        bool flag;
        build(&b, version);
        EXPECT_EQ(gguf_open_bytes(&g, buf_bytes(&b), "test", &err), 0);
        EXPECT_EQ(g.version, version);
        EXPECT(gguf_string(&g, "general.architecture", &s) && bytes_equal(s, bytes_str("llama")));
        EXPECT(gguf_int(&g, "llama.block_count", &i) && i == 7);
        EXPECT(gguf_double(&g, "llama.block_count", &d) && d == 7);
        EXPECT(gguf_double(&g, "a.float", &d) && d == 1.5);
        EXPECT(!gguf_int(&g, "a.float", &i) && !gguf_bool(&g, "a.float", &flag) &&
               !gguf_string(&g, "tokens", &s));
        EXPECT(!gguf_find(&g, "llama.block_counts") && !gguf_find(&g, "llama"));
        const struct gguf_kv *kv = gguf_find(&g, "signed");
        EXPECT(kv && kv->is_array && kv->count == 2);
        EXPECT(gguf_int_at(kv, 0, &i) && i == -2);
        EXPECT(gguf_int_at(kv, 1, &i) && i == 300);
        EXPECT(!gguf_int_at(kv, 2, &i));
        struct gguf_strings all = gguf_strings_of(gguf_find(&g, "tokens"));
        EXPECT(gguf_strings_next(&all, &s) && bytes_equal(s, bytes_str("x")));
        EXPECT(gguf_strings_next(&all, &s) && s.len == 0);
        EXPECT(gguf_strings_next(&all, &s) && bytes_equal(s, bytes_str("yz")));
        EXPECT(!gguf_strings_next(&all, &s));
        const struct tensor *w = safetensors_find(&g.set, "w"),
                            *bias = safetensors_find(&g.set, "bias");
        EXPECT(w && bias && g.set.tensor_count == 2);
        EXPECT(w->dim_count == 2 && w->dims[0] == 2 && w->dims[1] == 64 && w->byte_len == 72);
        EXPECT(w->type == TENSOR_Q4_0 && bias->type == TENSOR_F32 && bias->dims[0] == 3);
        EXPECT_EQ((const char *)bias->data - b.data, b.len - 12);
        gguf_close(&g);
        buf_release(&b);
    }
}

/* The last text of a list may have nothing but its length. */
TEST(gguf_lists_of_texts_end_with_their_bytes) {
    static const uint8_t NOTHING[16] = {0};
    for (size_t bytes = 0; bytes <= sizeof NOTHING; bytes++) {
        struct gguf_strings all = {NOTHING, NOTHING + bytes};
        struct bytes s = bytes_str("x");
        for (size_t i = 0; i < bytes / 8; i++)
            EXPECT(gguf_strings_next(&all, &s) && s.len == 0);
        EXPECT(!gguf_strings_next(&all, &s));
    }
}

/* Every beginning of a good file is refused, and so is every file with one byte more or less of a
 * length. */
TEST(gguf_refuses_every_cut_file) {
    struct buf b;
    struct gguf g;
    struct error err = {0};
    build(&b, 3);
    for (size_t len = 0; len < b.len; len++) {
        char *copy = malloc(len + 1); /* exactly so long, for the sanitizer */
        memcpy(copy, b.data, len);
        if (gguf_open_bytes(&g, bytes_of(copy, len), "test", &err) == 0)
            check_fail(__FILE__, __LINE__, "the first %zu of %zu bytes were accepted", len, b.len);
        free(copy);
    }
    buf_release(&b);
}

static void refused(const struct buf *b, const char *why) {
    struct gguf g;
    struct error err = {0};
    if (gguf_open_bytes(&g, buf_bytes(b), "test", &err) == 0)
        check_fail(__FILE__, __LINE__, "accepted, expected: %s", why);
    else if (!strstr(err.text, why))
        check_fail(__FILE__, __LINE__, "refused with '%s', expected: %s", err.text, why);
}

static void refuse_tensor(uint64_t cols, uint64_t rows, uint32_t type, uint64_t offset,
                          const char *why) {
    struct buf b;
    buf_init(&b, 0);
    put_head(&b, 3, 1, 0);
    put_tensor(&b, "w", cols, rows, type, offset);
    put_padding(&b, 32);
    put_zeros(&b, 64);
    refused(&b, why);
    buf_release(&b);
}

TEST(gguf_refuses_what_lies_about_sizes) {
    refuse_tensor(8, 3, 0, 0, "beyond the file's end");
    refuse_tensor(8, 2, 0, 32, "beyond the file's end");
    refuse_tensor(8, 1, 0, UINT64_MAX - 31, "beyond the file's end");
    refuse_tensor(8, 1, 0, 8, "not aligned");
    refuse_tensor(1ULL << 40, 1ULL << 40, 0, 0, "overflows");
    refuse_tensor(1ULL << 62, 1, 0, 0, "overflows");
    refuse_tensor(33, 1, 2, 0, "no multiple");
    refuse_tensor(32, 1, 9, 0, "type 9");
    refuse_tensor(32, 1, 4, 0, "type 4");
    refuse_tensor(32, 1, 1000, 0, "type 1000");
}

/* Where the head says as many as may be, the file is too short; where it says one more, nothing is read. */
TEST(gguf_has_so_many_keys_tensors_and_parts) {
    struct buf b;
    struct gguf g;
    struct error err;
    buf_init(&b, 0);
    put_head(&b, 3, GGUF_TENSORS_MAX, 0);
    refused(&b, "header is cut");
    buf_reset(&b);
    put_head(&b, 3, GGUF_TENSORS_MAX + 1, 0);
    refused(&b, "more than 65536 tensors");
    buf_reset(&b);
    put_head(&b, 3, 0, GGUF_KEYS_MAX);
    refused(&b, "header is cut");
    buf_reset(&b);
    put_head(&b, 3, 0, GGUF_KEYS_MAX + 1);
    refused(&b, "more than 65536 keys");
    EXPECT(gguf_open(&g, "/nowhere/m-00001-of-01024.gguf", &err));
    EXPECT(strstr(err.text, "/nowhere/m-00001-of-01024.gguf") && !strstr(err.text, "parts"));
    EXPECT_EQ(gguf_open(&g, "/nowhere/m-00001-of-01025.gguf", &err), ERR_LIMIT);
    EXPECT(strstr(err.text, "more than 1024 parts"));
    buf_release(&b);
}

TEST(gguf_refuses_bad_heads) {
    struct buf b;
    buf_init(&b, 0);
    put_head(&b, 1, 0, 0);
    refused(&b, "version 1");
    buf_reset(&b);
    put_head(&b, 0x03000000, 0, 0);
    refused(&b, "big-endian");
    buf_reset(&b);
    put_head(&b, 3, UINT64_MAX, 0);
    refused(&b, "tensors");
    buf_reset(&b);
    put_head(&b, 3, 0, UINT64_MAX);
    refused(&b, "keys");
    buf_reset(&b);
    put_head(&b, 3, 0, 2);
    put_key_u32(&b, "a", 1);
    put_key_u32(&b, "a", 1);
    refused(&b, "twice");
    buf_reset(&b);
    put_head(&b, 3, 0, 1);
    put_key_u32(&b, "split.count", 2);
    refused(&b, "2 parts");
    buf_reset(&b);
    put_head(&b, 3, 0, 1);
    put_key_u32(&b, "general.alignment", 24);
    refused(&b, "power of two");
    buf_reset(&b);
    put_head(&b, 3, 0, 1);
    put_text(&b, "nested");
    put_u32(&b, 9);
    put_u32(&b, 9);
    put_u64(&b, 1);
    refused(&b, "array of type 9");
    buf_reset(&b);
    put_head(&b, 3, 0, 1);
    put_text(&b, "long");
    put_u32(&b, 9);
    put_u32(&b, 10);
    put_u64(&b, 1ULL << 61);
    refused(&b, "cut");
    buf_reset(&b);
    put_head(&b, 3, 2, 0);
    put_tensor(&b, "w", 8, 0, 0, 0);
    put_tensor(&b, "w", 8, 0, 0, 32);
    put_padding(&b, 32);
    put_zeros(&b, 64);
    refused(&b, "twice");
    buf_release(&b);
}

/* Some converters say of every file how many parts it has. */
TEST(gguf_opens_one_part_by_any_name) {
    char dir[] = "/tmp/trm-gguf-XXXXXX";
    struct gguf g;
    struct error err = {0};
    struct buf b;
    EXPECT(mkdtemp(dir));
    buf_init(&b, 0);
    put_head(&b, 3, 0, 2);
    put_key_u32(&b, "split.count", 1);
    put_key_u32(&b, "split.tensors.count", 0);
    char *path = path_join(dir, "one.gguf");
    EXPECT_EQ(file_write_atomic(path, b.data, b.len, 0600, &err), 0);
    EXPECT_EQ(gguf_open(&g, path, &err), 0);
    EXPECT_EQ(g.set.tensor_count, 0);
    gguf_close(&g);
    unlink(path);
    rmdir(dir);
    mem_free(path);
    buf_release(&b);
}

/* A file of no tensors, a set of two parts found from either name, and one whose second part is
 * missing. */
TEST(gguf_opens_parts) {
    char dir[] = "/tmp/trm-gguf-XXXXXX";
    struct gguf g;
    struct error err = {0};
    EXPECT(mkdtemp(dir));
    for (int part = 1; part <= 2; part++) {
        struct buf b, name;
        buf_init(&b, 0);
        buf_init(&name, 0);
        put_head(&b, 3, 1, 2);
        put_key_u32(&b, "split.count", 2);
        put_key_u32(&b, "split.tensors.count", 2);
        put_tensor(&b, part == 1 ? "second" : "first", 8, 0, 0, 0);
        put_padding(&b, 32);
        put_zeros(&b, 32);
        buf_addf(&name, "%s/m-%05d-of-00002.gguf", dir, part);
        EXPECT_EQ(file_write_atomic(buf_text(&name), b.data, b.len, 0600, &err), 0);
        buf_release(&b);
        buf_release(&name);
    }
    char *first = path_join(dir, "m-00001-of-00002.gguf"),
         *second = path_join(dir, "m-00002-of-00002.gguf"), *lone = path_join(dir, "lone.gguf"),
         *found = gguf_path_of(dir);
    EXPECT(found && !strcmp(found, first));
    mem_free(found);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(gguf_open(&g, i ? second : first, &err), 0);
        EXPECT(g.set.tensor_count == 2 && g.set.file_count == 2 &&
               !strcmp(g.set.tensors[0].name, "first"));
        EXPECT_EQ(safetensors_find(&g.set, "first")->file_idx, 1);
        gguf_close(&g);
    }
    EXPECT_EQ(rename(second, lone), 0);
    EXPECT(gguf_open(&g, first, &err) != 0 && strstr(err.text, "00002-of-00002"));
    EXPECT(gguf_open(&g, lone, &err) != 0 && strstr(err.text, "one of 2 parts"));
    EXPECT(gguf_path_of(dir) == NULL); /* two that could be meant */
    EXPECT(unlink(lone) == 0 && unlink(first) == 0 && rmdir(dir) == 0);
    mem_free(first);
    mem_free(second);
    mem_free(lone);
}

TEST(gguf_reads_a_real_file) {
    const char *path = check_shared("weights/stories260k/stories260K.gguf");
    struct gguf g;
    struct error err = {0};
    struct bytes s;
    int64_t n = 0;
    if (!path)
        SKIP("shared", "weights/stories260k");
    EXPECT(gguf_is(path));
    EXPECT_EQ(gguf_open(&g, path, &err), 0);
    EXPECT(gguf_string(&g, "general.architecture", &s) && bytes_equal(s, bytes_str("llama")));
    EXPECT(gguf_int(&g, "llama.embedding_length", &n) && n == 64);
    const struct gguf_kv *tokens = gguf_find(&g, "tokenizer.ggml.tokens");
    EXPECT(tokens && tokens->is_array && tokens->count == 512);
    const struct tensor *t = safetensors_find(&g.set, "token_embd.weight");
    EXPECT(t && t->dim_count == 2 && t->dims[0] == 512 && t->dims[1] == 64);
    gguf_close(&g);
}

/* ggml's numbers (ggml.h); those between are of types that hold no weights or are gone. */
TEST(gguf_types_have_their_numbers) {
    static const struct {
        enum tensor_type type;
        uint32_t number;
    } ROWS[] = {
        {TENSOR_F32, 0},      {TENSOR_F16, 1},     {TENSOR_Q4_0, 2},     {TENSOR_Q4_1, 3},
        {TENSOR_Q5_0, 6},     {TENSOR_Q5_1, 7},    {TENSOR_Q8_0, 8},     {TENSOR_Q2_K, 10},
        {TENSOR_Q3_K, 11},    {TENSOR_Q4_K, 12},   {TENSOR_Q5_K, 13},    {TENSOR_Q6_K, 14},
        {TENSOR_IQ2_XXS, 16}, {TENSOR_IQ2_XS, 17}, {TENSOR_IQ3_XXS, 18}, {TENSOR_IQ1_S, 19},
        {TENSOR_IQ4_NL, 20},  {TENSOR_IQ3_S, 21},  {TENSOR_IQ2_S, 22},   {TENSOR_IQ4_XS, 23},
        {TENSOR_I8, 24},      {TENSOR_I16, 25},    {TENSOR_I32, 26},     {TENSOR_I64, 27},
        {TENSOR_F64, 28},     {TENSOR_IQ1_M, 29},  {TENSOR_BF16, 30},    {TENSOR_TQ1_0, 34},
        {TENSOR_TQ2_0, 35},   {TENSOR_MXFP4, 39},  {TENSOR_Q1_0, 41},
    };
    enum tensor_type type;
    size_t known = 0;
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        EXPECT(gguf_tensor_type(ROWS[i].number, &type) && type == ROWS[i].type);
        EXPECT_EQ(gguf_number_of(ROWS[i].type), ROWS[i].number);
    }
    for (uint32_t number = 0; number < 300; number++)
        known += gguf_tensor_type(number, &type);
    EXPECT_EQ(known, ARRAY_LEN(ROWS));
    EXPECT(gguf_number_of(TENSOR_BOOL) == UINT32_MAX);
}

#define ITEMS(type, ...) ((const type[]){__VA_ARGS__})

TEST(gguf_numbers_are_read_by_their_type) {
    const struct {
        enum gguf_type type;
        const void *data;
        double values[2]; /* NAN: no number */
        bool is_whole[2];
    } ROWS[] = {
        {GGUF_U8, ITEMS(uint8_t, 0, 255), {0, 255}, {true, true}},
        {GGUF_I8, ITEMS(int8_t, -128, 127), {-128, 127}, {true, true}},
        {GGUF_BOOL, ITEMS(uint8_t, 0, 7), {0, 1}, {true, true}},
        {GGUF_U16, ITEMS(uint16_t, 1, 65535), {1, 65535}, {true, true}},
        {GGUF_I16, ITEMS(int16_t, -32768, 32767), {-32768, 32767}, {true, true}},
        {GGUF_U32, ITEMS(uint32_t, 1, UINT32_MAX), {1, 4294967295.0}, {true, true}},
        {GGUF_I32, ITEMS(int32_t, INT32_MIN, 5), {-2147483648.0, 5}, {true, true}},
        {GGUF_U64, ITEMS(uint64_t, 1u, UINT64_C(1) << 63), {1, NAN}, {true, false}},
        {GGUF_I64, ITEMS(int64_t, INT64_MIN, 5), {-9223372036854775808.0, 5}, {true, true}},
        {GGUF_F32, ITEMS(float, 1.5f, -2), {1.5, -2}, {false, false}},
        {GGUF_F64, ITEMS(double, 0.1, 3), {0.1, 3}, {false, false}},
        {GGUF_STRING, ITEMS(uint64_t, 0, 0), {NAN, NAN}, {false, false}},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct gguf_kv kv = {.type = ROWS[i].type, .count = 2, .data = ROWS[i].data};
        for (uint64_t k = 0; k < 2; k++) {
            int64_t whole = 0;
            double number = 0;
            bool is_number = !isnan(ROWS[i].values[k]);
            if (gguf_int_at(&kv, k, &whole) != ROWS[i].is_whole[k] ||
                gguf_double_at(&kv, k, &number) != is_number ||
                (is_number && number != ROWS[i].values[k]) ||
                (ROWS[i].is_whole[k] && (double)whole != ROWS[i].values[k]))
                check_fail(__FILE__, __LINE__, "type %d, item %d: %lld, %g", (int)ROWS[i].type,
                           (int)k, (long long)whole, number);
        }
        int64_t whole;
        double number;
        EXPECT(!gguf_int_at(&kv, 2, &whole) && !gguf_double_at(&kv, 2, &number));
    }
}
