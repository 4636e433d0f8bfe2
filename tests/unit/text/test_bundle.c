#include "text/bundle.h"

#include <unistd.h>

#include "base/fsutil.h"
#include "check.h"
#include "golden.h"

static struct bundle_file file(const char *name, const char *data) {
    return (struct bundle_file){bytes_str(name), bytes_str(data)};
}

TEST(bundle_keeps_files_and_order_does_not_matter) {
    struct bundle_file files[] = {file("tokenizer.json", "{}"), file("a/b.jinja", ""),
                                  file("config.json", "x")};
    struct bundle_file turned[] = {files[2], files[0], files[1]};
    struct buf one = {0}, two = {0};
    struct bundle b;
    EXPECT_EQ(bundle_pack_files(files, 3, &one, NULL), 0);
    EXPECT_EQ(bundle_pack_files(turned, 3, &two, NULL), 0);
    EXPECT(bytes_equal(buf_bytes(&one), buf_bytes(&two)));
    EXPECT(u128_equal(bundle_hash(buf_bytes(&one)), bundle_hash(buf_bytes(&two))));
    EXPECT_EQ(bundle_open(&b, buf_bytes(&one), NULL), 0);
    EXPECT_EQ(b.file_count, 3);
    EXPECT(bytes_equal(bundle_find(&b, "config.json"), bytes_str("x")));
    EXPECT(bundle_find(&b, "a/b.jinja").data && !bundle_find(&b, "a/b.jinja").len);
    EXPECT(!bundle_find(&b, "missing").data);
    turned[0].data = bytes_str("y");
    EXPECT_EQ(bundle_pack_files(turned, 3, &two, NULL), 0);
    EXPECT(!u128_equal(bundle_hash(buf_bytes(&one)), bundle_hash(buf_bytes(&two))));
    buf_release(&one);
    buf_release(&two);
}

TEST(bundle_refuses_bad_names) {
    static const char *const BAD[] = {"",    "/etc/passwd", "../x",    "a/../b",
                                      "a b", "a\\b",        "\xC3\xA9"};
    struct buf out = {0};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct bundle_file f = file(BAD[i], "x");
        EXPECT(bundle_pack_files(&f, 1, &out, NULL) < 0);
    }
    struct bundle_file twice[] = {file("a", "1"), file("a", "2")};
    EXPECT(bundle_pack_files(twice, 2, &out, NULL) < 0);
    buf_release(&out);
}

/* Every prefix and every changed byte is either refused or still obeys the invariants. */
TEST(bundle_survives_any_damage) {
    struct bundle_file files[] = {file("tokenizer.json", "{\"a\": 1}"), file("config.json", "{}")};
    struct buf packed = {0};
    struct bundle b;
    struct error err;
    EXPECT_EQ(bundle_pack_files(files, 2, &packed, NULL), 0);
    for (size_t len = 0; len < packed.len; len++) {
        uint8_t *copy = malloc(len + 1); /* exact size, so that a read past the end is found */
        memcpy(copy, packed.data, len);
        EXPECT(bundle_open(&b, bytes_of(copy, len), &err) < 0);
        free(copy);
    }
    for (size_t i = 0; i < packed.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            packed.data[i] ^= (char)(1 << bit);
            if (!bundle_open(&b, buf_bytes(&packed), &err))
                for (size_t k = 0; k < b.file_count; k++)
                    EXPECT(b.files[k].data.data + b.files[k].data.len <=
                           (uint8_t *)packed.data + packed.len);
            packed.data[i] ^= (char)(1 << bit);
        }
    buf_add_byte(&packed, 'x');
    EXPECT(bundle_open(&b, buf_bytes(&packed), &err) < 0);
    buf_release(&packed);
}

/* Another vocabulary stands in for all files of the folder's own; the rest stays. */
TEST(bundle_packs_a_vocabulary_of_the_callers) {
    char dir[] = "/tmp/test_bundle_XXXXXX";
    struct buf packed = {0};
    struct bundle b;
    struct error err;
    EXPECT(mkdtemp(dir));
    static const char *const NAMES[] = {"tokenizer.json", "tokenizer_config.json", "config.json",
                                        "other.tiktoken"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        char *path = path_join(dir, NAMES[i]);
        EXPECT_EQ(file_write_atomic(path, NAMES[i], strlen(NAMES[i]), 0600, &err), 0);
        mem_free(path);
    }
    char *other = path_join(dir, "other.tiktoken"), *nowhere = path_join(dir, "nowhere");
    EXPECT_EQ(bundle_pack_with(dir, other, &packed, &err), 0);
    EXPECT_EQ(bundle_open(&b, buf_bytes(&packed), NULL), 0);
    EXPECT_EQ(b.file_count, 2);
    EXPECT(bytes_equal(bundle_find(&b, "tokenizer.model"), bytes_str("other.tiktoken")));
    EXPECT(bytes_equal(bundle_find(&b, "config.json"), bytes_str("config.json")));
    EXPECT_EQ(bundle_pack_with(dir, nowhere, &packed, &err), ERR_NOT_FOUND);
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        char *path = path_join(dir, NAMES[i]);
        unlink(path);
        mem_free(path);
    }
    rmdir(dir);
    mem_free(other);
    mem_free(nowhere);
    buf_release(&packed);
}

/* Its readers take JSON only. */
TEST(bundle_packs_a_config_that_python_wrote_as_json) {
    char dir[] = "/tmp/test_bundle_XXXXXX";
    static const char *const FILES[][2] = {
        {"tokenizer.json", "{}"},
        {"config.json", "{\"time_step_limit\":[0.0, Infinity],\"eos_token_id\":2}"}};
    struct buf packed = {0};
    struct bundle b;
    struct error err;
    EXPECT(mkdtemp(dir));
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        char *path = path_join(dir, FILES[i][0]);
        EXPECT_EQ(file_write_atomic(path, FILES[i][1], strlen(FILES[i][1]), 0600, &err), 0);
        mem_free(path);
    }
    EXPECT_EQ(bundle_pack(dir, &packed, &err), 0);
    EXPECT_EQ(bundle_open(&b, buf_bytes(&packed), NULL), 0);
    EXPECT(bytes_equal(bundle_find(&b, "config.json"),
                       bytes_str("{\"time_step_limit\":[0.0, \"Infinity\"],\"eos_token_id\":2}")));
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        char *path = path_join(dir, FILES[i][0]);
        unlink(path);
        mem_free(path);
    }
    rmdir(dir);
    buf_release(&packed);
}

TEST(bundle_packs_a_folder) {
    char dir[] = "/tmp/trireme-bundle-XXXXXX", path[256];
    struct buf out = {0};
    struct bundle b;
    struct error err;
    EXPECT(mkdtemp(dir));
    EXPECT_EQ(bundle_pack(dir, &out, &err), ERR_NOT_FOUND);
    snprintf(path, sizeof path, "%s/additional_chat_templates", dir);
    EXPECT_EQ(dir_make(path, 0700, &err), 0);
    static const char *const NAMES[] = {"tokenizer.json", "chat_template.jinja",
                                        "additional_chat_templates/rag.jinja", "model.safetensors"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, NAMES[i]);
        EXPECT_EQ(file_write_atomic(path, NAMES[i], strlen(NAMES[i]), 0600, &err), 0);
    }
    EXPECT_EQ(bundle_pack(dir, &out, &err), 0);
    EXPECT_EQ(bundle_open(&b, buf_bytes(&out), &err), 0);
    EXPECT_EQ(b.file_count, 3);
    for (size_t i = 0; i < 3; i++)
        EXPECT(bytes_equal(bundle_find(&b, NAMES[i]), bytes_str(NAMES[i])));
    for (size_t i = ARRAY_LEN(NAMES); i-- > 0;) {
        snprintf(path, sizeof path, "%s/%s", dir, NAMES[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/additional_chat_templates", dir);
    rmdir(path);
    rmdir(dir);
    buf_release(&out);
}
