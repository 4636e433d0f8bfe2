/*
 * Folders in the forms of older models, and tekken.json: what the references make of them
 * (make_folder_goldens.py).
 */
#include "text/bundle.h"

#include "check.h"
#include "golden.h"
#include "text/template/value_data.h"
#include "text/tokenizer/tokenizer.h"

enum { FILES_MAX = 8 };

/* The golden's files as a bundle. */
static void pack(struct tvalue files, struct buf *packed) {
    struct bundle_file list[FILES_MAX];
    struct error err;
    size_t count = MIN(files.dict->count, (uint32_t)FILES_MAX);
    for (size_t i = 0; i < count; i++)
        list[i] = (struct bundle_file){tvalue_text(files.dict->entries[i].key),
                                       tvalue_text(files.dict->entries[i].value)};
    if (bundle_pack_files(list, count, packed, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
}

static int load(struct tvalue files, struct tokenizer **t, struct error *err) {
    struct buf packed = {0};
    struct bundle bundle;
    *t = NULL;
    pack(files, &packed);
    int rc = bundle_open(&bundle, buf_bytes(&packed), err);
    if (!rc)
        rc = tokenizer_load_bundle(&bundle, t, err);
    buf_release(&packed);
    return rc;
}

static void check_case(const struct tokenizer *t, const char *name, struct tvalue c) {
    struct tvalue text = golden_member(c, "text"), want = golden_member(c, "offsets");
    unsigned flags =
        TOKENIZE_PARSE_SPECIAL | (golden_member(c, "special").boolean ? TOKENIZE_ADD_SPECIAL : 0u);
    struct token_vec ids = {0};
    struct offset_map offsets = {0};
    bool ok = !tokenizer_encode_offsets(t, tvalue_text(text), flags, &ids, &offsets, NULL);
    if (!ok || !golden_is_list(golden_member(c, "ids"), ids.items, ids.count))
        check_fail(__FILE__, __LINE__, "%s: '%.*s' is encoded otherwise", name, (int)text.len,
                   text.text);
    if (want.kind == TVALUE_LIST &&
        !golden_is_list(want, (const uint32_t *)offsets.spans.items, 2 * offsets.spans.count))
        check_fail(__FILE__, __LINE__, "%s: '%.*s' has other offsets", name, (int)text.len,
                   text.text);
    vec_release(&ids);
    vec_release(&offsets.spans);
}

TEST(folders_without_tokenizer_json_are_read_as_transformers_does) {
    struct arena a;
    struct buf json = golden_read_source("tests/goldens/text/folders.json");
    arena_init(&a, 0, 0);
    struct tvalue list = golden_parse(&a, buf_bytes(&json));
    EXPECT(tvalue_count(list) == 6);
    for (size_t i = 0; i < tvalue_count(list); i++) {
        struct tvalue folder = tvalue_list_at(list, i), cases = golden_member(folder, "cases");
        char name[32];
        struct tokenizer *t;
        struct error err;
        snprintf(name, sizeof name, "%.*s", (int)golden_member(folder, "name").len,
                 golden_member(folder, "name").text);
        if (load(golden_member(folder, "files"), &t, &err))
            check_fail(__FILE__, __LINE__, "%s: %s", name, err.text);
        for (size_t k = 0; t && k < tvalue_count(cases); k++)
            check_case(t, name, tvalue_list_at(cases, k));
        tokenizer_free(&t);
    }
    arena_release(&a);
    buf_release(&json);
}

/* Whether a folder of these files is refused with these words. */
static bool refused(const char *files_json, const char *why) {
    struct arena a;
    struct tokenizer *t;
    struct error err = {0};
    arena_init(&a, 0, 0);
    bool is = load(golden_parse(&a, bytes_str(files_json)), &t, &err) && strstr(err.text, why);
    if (!is)
        fprintf(stderr, "%s: '%s'\n", files_json, err.text);
    tokenizer_free(&t);
    arena_release(&a);
    return is;
}

TEST(what_is_wrong_with_a_folder_is_said) {
    EXPECT(refused("{\"config.json\": \"{}\"}", "vocab.json with merges.txt"));
    EXPECT(refused("{\"vocab.json\": \"{\\\"a\\\": 0}\"}", "vocab.json with merges.txt"));
    EXPECT(refused("{\"vocab.json\": \"{\\\"a\\\": 0}\", \"merges.txt\": \"a b\\n\"}", "merge"));
    EXPECT(refused("{\"vocab.json\": \"[1]\", \"merges.txt\": \"a b\\n\"}", "vocab"));
    EXPECT(refused("{\"vocab.txt\": \"a\\nb\\n\"}", "vocab.txt lacks '[CLS]'"));
    EXPECT(refused("{\"vocab.txt\": \"a\\n\", \"tokenizer_config.json\": \"{\"}",
                   "tokenizer_config.json"));
    EXPECT(refused("{\"tekken.json\": \"{\\\"vocab\\\": [{\\\"rank\\\": 0, \\\"token_bytes\\\": "
                   "\\\"AA==\\\"}]}\"}",
                   "no \"config\""));
    EXPECT(refused("{\"tekken.json\": \"{\\\"config\\\": {}, \\\"vocab\\\": [{\\\"token_bytes\\\": "
                   "\\\"AA==\\\"}]}\"}",
                   "needs pattern"));
    EXPECT(refused("{\"tekken.json\": \"{\\\"config\\\": {\\\"pattern\\\": \\\"a\\\", "
                   "\\\"default_vocab_size\\\": 9, "
                   "\\\"default_num_special_tokens\\\": 3}, \\\"vocab\\\": [{\\\"token_bytes\\\": "
                   "\\\"AA==\\\"}]}\"}",
                   "without rank"));
}

/* The ids of added tokens are the members' names: what is no number, or says nothing, adds none. */
TEST(added_tokens_of_a_folder_have_a_number_and_a_text) {
    static const char FILES[] =
        "{\"vocab.json\": \"{\\\"a\\\": 0, \\\"b\\\": 1, \\\"<x>\\\": 2, \\\"ab\\\": 3}\", \"merges.txt\": \"a b\\n\","
        " \"tokenizer_config.json\": \"{\\\"tokenizer_class\\\": \\\"GPT2Tokenizer\\\","
        " \\\"added_tokens_decoder\\\": {\\\"2\\\": {\\\"content\\\": \\\"<x>\\\"},"
        " \\\"none\\\": {\\\"content\\\": \\\"<y>\\\"}, \\\"1\\\": {\\\"content\\\": \\\"\\\"}}}\"}";
    struct arena a;
    struct tokenizer *t;
    struct error err = {0};
    arena_init(&a, 0, 0);
    (void)load(golden_parse(&a, bytes_str(FILES)), &t, &err);
    EXPECT_STR(err.text, "");
    EXPECT_EQ(tokenizer_find(t, bytes_str("<x>")), 2);
    EXPECT_EQ(tokenizer_find(t, bytes_str("b")), 1);
    EXPECT(tokenizer_find(t, bytes_str("<y>")) == TOKEN_NONE);
    tokenizer_free(&t);
    arena_release(&a);
}
