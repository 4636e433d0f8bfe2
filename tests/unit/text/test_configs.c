/*
 * Random tokenizer.json files made of HF's parts, and what HF makes of some texts
 * (tokenizer_config_diff.py --write).
 */
#include "text/tokenizer/tokenizer.h"

#include "check.h"
#include "golden.h"

static void check_case(const struct tokenizer *t, size_t config, struct tvalue c) {
    struct token_vec ids = {0};
    struct buf out = {0};
    struct tvalue back = golden_member(c, "back"), text = golden_member(c, "text");
    const unsigned flags = TOKENIZE_PARSE_SPECIAL | TOKENIZE_ADD_SPECIAL;
    if (tokenizer_encode(t, tvalue_text(text), flags, &ids, NULL) ||
        !golden_is_list(golden_member(c, "ids"), ids.items, ids.count))
        check_fail(__FILE__, __LINE__, "configuration %zu: '%.*s' is encoded otherwise", config,
                   (int)text.len, text.text);
    ids.count = 0;
    struct offset_map offsets = {0};
    if (tokenizer_encode_offsets(t, tvalue_text(text), flags, &ids, &offsets, NULL) ||
        !golden_is_list(golden_member(c, "ids"), ids.items, ids.count) ||
        !golden_is_list(golden_member(c, "offsets"), (const uint32_t *)offsets.spans.items,
                        2 * offsets.spans.count))
        check_fail(__FILE__, __LINE__, "configuration %zu: '%.*s' has other offsets", config,
                   (int)text.len, text.text);
    vec_release(&offsets.spans);
    ids.count = 0;
    for (size_t i = 0; i < tvalue_count(back); i++)
        vec_push(&ids, (uint32_t)tvalue_list_at(back, i).integer);
    tokenizer_detokenize(t, (struct tokens){ids.items, ids.count}, 0, &out);
    if (!golden_equal(tvalue_text(golden_member(c, "decoded")), &out))
        check_fail(__FILE__, __LINE__, "configuration %zu: decoded to '%s'", config,
                   buf_text(&out));
    vec_release(&ids);
    buf_release(&out);
}

TEST(random_configurations_do_as_hf_does) {
    struct arena a;
    struct buf json = golden_read_source("tests/goldens/text/configs.json");
    struct bytes none = {0};
    arena_init(&a, 0, 0);
    struct tvalue list = golden_parse(&a, buf_bytes(&json));
    EXPECT(tvalue_count(list) > 50);
    for (size_t i = 0; i < tvalue_count(list); i++) {
        struct tvalue item = tvalue_list_at(list, i), cases = golden_member(item, "cases");
        struct tokenizer *t;
        struct error err;
        if (tokenizer_load(tvalue_text(golden_member(item, "config")), none, none, &t, &err)) {
            check_fail(__FILE__, __LINE__, "configuration %zu: %s", i, err.text);
            continue;
        }
        for (size_t k = 0; k < tvalue_count(cases); k++)
            check_case(t, i, tvalue_list_at(cases, k));
        tokenizer_free(&t);
    }
    arena_release(&a);
    buf_release(&json);
}
