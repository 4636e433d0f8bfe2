/* Safetensors: what is right opens with the right views; every way of being wrong is refused with a
 * text that names it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fsutil.h"
#include "check.h"
#include "formats/safetensors.h"

/* A file image: header text and so many data bytes (0, 1, 2, ...). */
static struct buf image(const char *header, size_t data_len) {
    struct buf b;
    uint64_t len = strlen(header);
    buf_init(&b, 0);
    buf_add(&b, &len, 8);
    buf_add_str(&b, header);
    for (size_t i = 0; i < data_len; i++)
        buf_add_byte(&b, (char)i);
    return b;
}

static void check_refused(const char *header, size_t data_len, const char *why) {
    struct safetensors set;
    struct error err = {0};
    struct buf b = image(header, data_len);
    if (!safetensors_open_bytes(&set, buf_bytes(&b), "x.safetensors", &err)) {
        check_fail(__FILE__, __LINE__, "taken: %s", header);
        safetensors_close(&set);
    } else if (!strstr(err.text, why) || !strstr(err.text, "x.safetensors")) {
        check_fail(__FILE__, __LINE__, "'%s' does not say '%s'", err.text, why);
    }
    buf_release(&b);
}

TEST(a_file_opens_with_views_of_its_tensors) {
    struct safetensors set;
    struct error err = {0};
    struct buf b = image("{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,"
                         "28]},"
                         "\"__metadata__\":{\"format\":\"pt\"},"
                         "\"a\\u0031\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,"
                         "4]},"
                         "\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[28,"
                         "36]},"
                         "\"none\":{\"dtype\":\"U8\",\"shape\":[0,7],\"data_offsets\":[36,"
                         "36]}}   ",
                         36);
    EXPECT(!safetensors_open_bytes(&set, buf_bytes(&b), "x", &err));
    EXPECT_EQ(set.tensor_count, 4);
    const struct tensor *a = safetensors_find(&set, "a1"), *t = safetensors_find(&set, "b"),
                        *s = safetensors_find(&set, "scalar"), *n = safetensors_find(&set, "none");
    EXPECT(a && t && s && n && !safetensors_find(&set, "c") && !safetensors_find(&set, ""));
    EXPECT(a->type == TENSOR_BF16 && a->dim_count == 1 && a->dims[0] == 2 && a->byte_len == 4 &&
           a->data[0] == 0);
    EXPECT(t->type == TENSOR_F32 && t->dim_count == 2 && t->dims[1] == 3 && t->byte_len == 24 &&
           t->data[0] == 4);
    EXPECT(s->dim_count == 0 && s->byte_len == 8 && n->byte_len == 0);
    EXPECT_STR(tensor_type_name(a->type), "BF16");
    safetensors_close(&set);
    buf_release(&b);
}

TEST(an_empty_set_is_a_file_too) {
    struct safetensors set;
    struct buf b = image("{}", 0);
    EXPECT(!safetensors_open_bytes(&set, buf_bytes(&b), "x", NULL));
    EXPECT(set.tensor_count == 0 && !safetensors_find(&set, "a"));
    safetensors_close(&set);
    buf_release(&b);
}

#define T(name, type, shape, offsets)                                                              \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST(hostile_headers_are_refused) {
    static const struct {
        const char *header;
        size_t data_len;
        const char *why;
    } cases[] = {
        {"{" T("a", "F32", "[1]", "[4,0]") "}", 4, "reversed"},
        {"{" T("a", "F32", "[1]", "[-4,0]") "}", 4, "bad offset"},
        {"{" T("a", "F32", "[1]", "[0.5,4]") "}", 4, "bad offset"},
        {"{" T("a", "F32", "[1]", "[0,1e40]") "}", 4, "bad offset"},
        {"{" T("a", "F32", "[-1]", "[0,4]") "}", 4, "bad dimension"},
        {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[2,6]") "}", 6, "overlap"},
        {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[0,4]") "}", 4, "overlap"},
        {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[5,9]") "}", 9, "hole"},
        {"{" T("a", "F32", "[1]", "[1,5]") "}", 5, "hole"},
        {"{" T("a", "F32", "[1]", "[0,4]") "}", 5, "behind the last"},
        {"{" T("a", "F32", "[2]", "[0,8]") "}", 7, "the file is cut"},
        {"{" T("a", "F32", "[2]", "[0,4]") "}", 4, "need 8"},
        {"{" T("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0, "overflows"},
        {"{" T("a", "F64", "[2305843009213693952]", "[0,0]") "}", 0, "overflows"},
        {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "dimensions"},
        {"{" T("a", "F31", "[1]", "[0,4]") "}", 4, "unknown dtype"},
        {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8,
         "appears twice"},
        {"{" T("a", "F32", "[1]", "[0,4]") "," T("\\u0061", "F32", "[1]", "[4,8]") "}", 8,
         "appears twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 0, "lacks"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4,
         "unknown field"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "repeated field"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[[1]],\"data_offsets\":[0,4]}}", 4, ""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}", 4, ""},
        {"{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, ""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, ""},
        {"{\"a\":[]}", 0, ""},
        {"{\"__metadata__\":{\"a\":1}}", 0, ""},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "repeated __metadata__"},
        {"{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "name of 0 bytes"},
        {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ""},
        {"{\"\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, ""},
        {"[]", 0, "no JSON object"},
        {"", 0, "no JSON object"},
        {" {}", 0, "no JSON object"},
        {"{} x", 0, ""},
        {"{", 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(cases[i].header, cases[i].data_len, cases[i].why);
}

/* A name of 1024 bytes, and a tensor of eight dimensions, are the largest. */
TEST(names_and_shapes_are_taken_up_to_their_bounds) {
    struct safetensors set;
    struct error err = {0};
    for (int more = 0; more < 2; more++) {
        struct buf header = {0};
        buf_addf(
            &header,
            "{\"%0*d\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
            1024 + more, 7);
        struct buf b = image(buf_text(&header), 4);
        EXPECT_EQ(safetensors_open_bytes(&set, buf_bytes(&b), "x", &err) != 0, more);
        if (more)
            EXPECT(strstr(err.text, "name of 1025 bytes"));
        else
            safetensors_close(&set);
        buf_release(&header);
        buf_release(&b);
    }
}

TEST(lengths_that_lie_are_refused) {
    struct safetensors set;
    struct error err = {0};
    uint64_t lies[] = {0,
                       1,
                       3,
                       (uint64_t)100 * 1000 * 1000,
                       SAFETENSORS_HEADER_MAX + 1,
                       UINT64_MAX,
                       UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct buf b = image("{}", 0);
        memcpy(b.data, &lies[i], 8);
        EXPECT(safetensors_open_bytes(&set, buf_bytes(&b), "x", &err));
        buf_release(&b);
    }
    EXPECT(safetensors_open_bytes(&set, bytes_of("1234567", 7), "x", &err));
    EXPECT(safetensors_open_bytes(&set, bytes_of(NULL, 0), "x", &err));
}

TEST(headers_have_a_limit) {
    struct safetensors set;
    struct error err = {0};
    for (uint64_t i = 0; i < 2; i++) {
        struct buf b = image("{}", 0);
        uint64_t said = SAFETENSORS_HEADER_MAX + i;
        memcpy(b.data, &said, 8);
        EXPECT(safetensors_open_bytes(&set, buf_bytes(&b), "x", &err));
        EXPECT(strstr(err.text, i ? "past the limit" : "longer than the file"));
        buf_release(&b);
    }
}

TEST(deep_nesting_is_refused_and_cheap) {
    struct buf b, header;
    buf_init(&header, 0);
    buf_add_str(&header, "{\"a\":");
    for (int i = 0; i < 1000000; i++)
        buf_add_byte(&header, '[');
    b = image(buf_text(&header), 0);
    struct safetensors set;
    EXPECT(safetensors_open_bytes(&set, buf_bytes(&b), "x", NULL));
    buf_release(&b);
    buf_release(&header);
}

/* ---- folders ---- */

static char folder[64];
static void put(const char *name, const char *header, size_t data_len) {
    struct buf b = image(header, data_len);
    char *path = path_join(folder, name);
    if (file_write_atomic(path, b.data, b.len, 0600, NULL))
        check_fail(__FILE__, __LINE__, "cannot write %s", path);
    mem_free(path);
    buf_release(&b);
}
static void put_index(const char *text) {
    char *path = path_join(folder, "model.safetensors.index.json");
    if (file_write_atomic(path, text, strlen(text), 0600, NULL))
        check_fail(__FILE__, __LINE__, "cannot write %s", path);
    mem_free(path);
}
static void new_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/trireme-st-XXXXXX");
    if (!mkdtemp(folder))
        abort();
}
static void drop_folder(void) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "a.safetensors", "b.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = path_join(folder, names[i]);
        unlink(path);
        mem_free(path);
    }
    rmdir(folder);
}

TEST(shards_open_as_one_set) {
    struct safetensors set;
    struct error err = {0};
    new_folder();
    EXPECT(safetensors_open(&set, folder, &err) && strstr(err.text, "neither"));
    put("a.safetensors", "{" T("x", "F32", "[1]", "[0,4]") "," T("y", "F32", "[1]", "[4,8]") "}",
        8);
    put("b.safetensors", "{" T("z", "U8", "[2]", "[0,2]") "}", 2);
    put_index("{\"metadata\":{\"total_size\":10},\"weight_map\":{\"z\":\"b.safetensors\",\"x\":\"a."
              "safetensors\",\"y\":"
              "\"a.safetensors\"}}");
    int rc = safetensors_open(&set, folder, &err);
    if (rc)
        check_fail(__FILE__, __LINE__, "%s", err.text);
    EXPECT(!rc && set.file_count == 2 && set.tensor_count == 3);
    EXPECT(safetensors_find(&set, "y")->data[0] == 4 &&
           safetensors_find(&set, "z")->file_idx != safetensors_find(&set, "x")->file_idx);
    safetensors_close(&set);
    drop_folder();
}

/* Without the usual names: the only file, or the one that a training run names last; what is no
 * safetensors file does not count. */
TEST(a_file_of_another_name_is_found_where_it_is_sure) {
    static const struct {
        const char *names[4];
        const char *found; /* the tensor in it is named so */
    } CASES[] = {
        {{"notes.txt"}, NULL},
        {{".safetensors"}, NULL},
        {{"a.safetensors.bak", "b.safetensor"}, NULL},
        {{"a.safetensors"}, "a.safetensors"},
        {{"a.safetensors", "notes.txt", "z.txt"}, "a.safetensors"},
        {{"a.safetensors", "b.safetensors"}, NULL}, /* which one? */
        {{"m_step_9.safetensors", "m_step_10.safetensors", "other.safetensors"},
         "m_step_10.safetensors"},
        {{"m_step_9.safetensors", "m_final.safetensors"}, "m_final.safetensors"},
        {{"a_final.safetensors", "b_final.safetensors"}, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct safetensors set;
        struct error err = {0};
        new_folder();
        for (size_t k = 0; k < 4 && CASES[i].names[k]; k++) {
            char head[128];
            snprintf(head, sizeof head,
                     "{\"%s\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
                     CASES[i].names[k]);
            put(CASES[i].names[k], head, 2);
        }
        int rc = safetensors_open(&set, folder, &err);
        if ((rc == 0) != (CASES[i].found != NULL) ||
            (rc == 0 && !safetensors_find(&set, CASES[i].found)))
            check_fail(__FILE__, __LINE__, "case %zu: %s", i, rc ? err.text : "another file");
        if (rc == 0)
            safetensors_close(&set);
        drop_folder();
    }
}

TEST(an_index_that_lies_is_refused) {
    static const struct {
        const char *index, *why;
    } cases[] = {
        {"{\"weight_map\":{\"x\":\"b.safetensors\",\"z\":\"b.safetensors\"}}",
         "which does not have it"},
        {"{\"weight_map\":{\"x\":\"a.safetensors\",\"q\":\"a.safetensors\"}}",
         "which does not have it"},
        {"{\"weight_map\":{\"x\":\"../a.safetensors\"}}", "bad file name"},
        {"{\"weight_map\":{\"x\":\"/etc/passwd\"}}", "bad file name"},
        {"{\"weight_map\":{\"x\":\".safetensors\"}}", "bad file name"},
        {"{\"weight_map\":{\"x\":\"a.bin\"}}", "bad file name"},
        {"{\"weight_map\":{\"x\":7}}", ""},
        {"{\"weight_map\":{\"x\":\"c.safetensors\"}}", "c.safetensors"},
        {"{\"metadata\":{}}", "no weight_map"},
        {"{\"weight_map\":{},\"weight_map\":{}}", "repeated"},
        {"{", ""},
    };
    struct safetensors set;
    struct error err = {0};
    new_folder();
    put("a.safetensors", "{" T("x", "F32", "[1]", "[0,4]") "}", 4);
    put("b.safetensors", "{" T("z", "U8", "[2]", "[0,2]") "}", 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_index(cases[i].index);
        if (!safetensors_open(&set, folder, &err) || !strstr(err.text, cases[i].why))
            check_fail(__FILE__, __LINE__, "%s: '%s'", cases[i].index, err.text);
    }
    put("b.safetensors", "{" T("x", "U8", "[2]", "[0,2]") "}", 2);
    put_index("{\"weight_map\":{\"x\":\"a.safetensors\",\"z\":\"b.safetensors\"}}");
    EXPECT(safetensors_open(&set, folder, &err) && strstr(err.text, "twice"));
    drop_folder();
}

/* Each type's name, the bytes of its smallest piece (scales, then numbers), and how many numbers that has. */
TEST(types_have_the_sizes_of_their_pieces) {
    static const struct {
        enum tensor_type type;
        const char *name;
        size_t bytes;
        uint32_t numbers;
    } ROWS[] = {{TENSOR_BOOL, "BOOL", 1, 1},
                {TENSOR_U8, "U8", 1, 1},
                {TENSOR_I8, "I8", 1, 1},
                {TENSOR_F8_E5M2, "F8_E5M2", 1, 1},
                {TENSOR_F8_E4M3, "F8_E4M3", 1, 1},
                {TENSOR_I16, "I16", 2, 1},
                {TENSOR_U16, "U16", 2, 1},
                {TENSOR_F16, "F16", 2, 1},
                {TENSOR_BF16, "BF16", 2, 1},
                {TENSOR_I32, "I32", 4, 1},
                {TENSOR_U32, "U32", 4, 1},
                {TENSOR_F32, "F32", 4, 1},
                {TENSOR_F64, "F64", 8, 1},
                {TENSOR_I64, "I64", 8, 1},
                {TENSOR_U64, "U64", 8, 1},
                {TENSOR_F8_E8M0, "F8_E8M0", 1, 1},
                {TENSOR_Q4_0, "Q4_0", 2 + 32 / 2, 32},
                {TENSOR_Q4_1, "Q4_1", 2 + 2 + 32 / 2, 32},
                {TENSOR_Q5_0, "Q5_0", 2 + 32 / 8 + 32 / 2, 32},
                {TENSOR_Q5_1, "Q5_1", 2 + 2 + 32 / 8 + 32 / 2, 32},
                {TENSOR_Q8_0, "Q8_0", 2 + 32, 32},
                {TENSOR_Q2_K, "Q2_K", 2 + 2 + 256 / 16 + 256 / 4, 256},
                {TENSOR_Q3_K, "Q3_K", 2 + 12 + 256 / 8 + 256 / 4, 256},
                {TENSOR_Q4_K, "Q4_K", 2 + 2 + 12 + 256 / 2, 256},
                {TENSOR_Q5_K, "Q5_K", 2 + 2 + 12 + 256 / 8 + 256 / 2, 256},
                {TENSOR_Q6_K, "Q6_K", 2 + 256 / 16 + 256 / 4 + 256 / 2, 256},
                {TENSOR_IQ1_S, "IQ1_S", 2 + 256 / 8 + 256 / 16, 256},
                {TENSOR_IQ1_M, "IQ1_M", 256 / 8 + 256 / 16 + 256 / 32, 256},
                {TENSOR_IQ2_XXS, "IQ2_XXS", 2 + 256 / 4, 256},
                {TENSOR_IQ2_XS, "IQ2_XS", 2 + 256 / 4 + 256 / 32, 256},
                {TENSOR_IQ2_S, "IQ2_S", 2 + 256 / 4 + 256 / 32 + 256 / 32, 256},
                {TENSOR_IQ3_XXS, "IQ3_XXS", 2 + 256 / 4 + 256 / 8, 256},
                {TENSOR_IQ3_S, "IQ3_S", 2 + 256 / 4 + 256 / 32 + 256 / 8 + 256 / 64, 256},
                {TENSOR_IQ4_NL, "IQ4_NL", 2 + 32 / 2, 32},
                {TENSOR_IQ4_XS, "IQ4_XS", 2 + 2 + 256 / 64 + 256 / 2, 256},
                {TENSOR_TQ1_0, "TQ1_0", 2 + 240 / 5 + 16 / 4, 256},
                {TENSOR_TQ2_0, "TQ2_0", 2 + 256 / 4, 256},
                {TENSOR_MXFP4, "MXFP4", 1 + 32 / 2, 32},
                {TENSOR_Q1_0, "Q1_0", 2 + 128 / 8, 128},
                {TENSOR_U4, "int4", 1, 2},
                {TENSOR_NF4, "nf4", 1, 2}};
    EXPECT_EQ(ARRAY_LEN(ROWS), TENSOR_TYPE_COUNT - 1); /* all but the mark between both sorts */
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        if (strcmp(tensor_type_name(ROWS[i].type), ROWS[i].name) ||
            tensor_type_size(ROWS[i].type) != ROWS[i].bytes ||
            tensor_type_block(ROWS[i].type) != ROWS[i].numbers)
            check_fail(__FILE__, __LINE__, "%s: '%s', %zu bytes of %u", ROWS[i].name,
                       tensor_type_name(ROWS[i].type), tensor_type_size(ROWS[i].type),
                       tensor_type_block(ROWS[i].type));
}
