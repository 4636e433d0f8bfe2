/* config.json as a tree: typed getters, defaults, and nothing silently ignored. */
#include "check.h"
#include "formats/config.h"

static struct config config;
static struct error err;

static int opens(const char *text) {
    config_close(&config);
    err = (struct error){0};
    return config_open(&config, bytes_str(text), &err);
}
static int finishes(const char *text, const char *accept) {
    int rc = opens(text);
    return rc ? rc : config_finish(&config, accept, &err);
}

TEST(values_are_read_by_name_and_kind) {
    double list[3];
    EXPECT_EQ(opens("{\"hidden_size\":2048,\"eps\":1e-05,\"tied\":true,\"act\":\"silu\",\"rope\":{"
                    "\"factor\":32.0,"
                    "\"type\":\"llama3\"},\"list\":[1,2.5],\"types\":[\"a\",\"b\"]}"),
              0);
    EXPECT(config_int(&config, 0, "hidden_size", 7) == 2048 &&
           config_int(&config, 0, "absent", 7) == 7);
    EXPECT(config_double(&config, 0, "eps", 0) == 1e-5 &&
           config_double(&config, 0, "hidden_size", 0) == 2048);
    EXPECT(config_bool(&config, 0, "tied", false) && !config_bool(&config, 0, "absent", false));
    EXPECT_STR(config_text(&config, 0, "act", "gelu"), "silu");
    int64_t rope = config_object(&config, 0, "rope");
    EXPECT(rope > 0 && config_int(&config, (uint32_t)rope, "factor", 0) == 32);
    EXPECT_STR(config_text(&config, (uint32_t)rope, "type", ""), "llama3");
    EXPECT(config_doubles(&config, 0, "list", list, 3) == 2 && list[1] == 2.5);
    const struct config_node *types = config_find(&config, 0, "types");
    EXPECT(types && types->count == 2 && !config_item(&config, types, 2));
    EXPECT_STR(config_node_text(&config, config_item(&config, types, 1)), "b");
    EXPECT_EQ(config_finish(&config, NULL, &err), 0);
}

TEST(what_has_no_name_or_text_has_an_empty_one) {
    EXPECT_EQ(opens("{\"list\":[5,\"a\",{}]}"), 0);
    const struct config_node *list = config_find(&config, 0, "list");
    for (uint32_t i = 0; i < 3; i++) {
        const struct config_node *item = config_item(&config, list, i);
        EXPECT_STR((const char *)config.texts.data + item->name, "");
        EXPECT_STR((const char *)config.texts.data + item->text, i == 1 ? "a" : "");
    }
}

TEST(defaults_hold_where_the_file_says_nothing_and_null_hides_them) {
    struct config defaults;
    EXPECT_EQ(config_open(&defaults, bytes_str("{\"a\":1,\"b\":2,\"c\":3,\"l\":[4,5]}"), &err), 0);
    EXPECT_EQ(opens("{\"a\":9,\"b\":null,\"text\":{\"c\":8}}"), 0);
    config_set_defaults(&config, 0, &defaults);
    EXPECT(config_int(&config, 0, "a", 0) == 9 && config_int(&config, 0, "b", 0) == 0 &&
           config_int(&config, 0, "c", 0) == 3);
    const struct config_node *list = config_find(&config, 0, "l");
    EXPECT(list && config_item(&config, list, 1)->integer == 5);
    int64_t text = config_object(&config, 0, "text");
    EXPECT(text > 0);
    config_set_defaults(&config, (uint32_t)text, &defaults);
    EXPECT(config_int(&config, (uint32_t)text, "c", 0) == 8 &&
           config_int(&config, (uint32_t)text, "a", 0) == 1 && config_int(&config, 0, "c", 0) == 0);
    EXPECT(config_has_key(&config, 0, "b") && !config_has(&config, 0, "b") &&
           !config_has(&config, 0, "c"));
    config_close(&defaults);
}

/* The texts of nodes lie in the tree that they are of. */
TEST(texts_of_defaults_and_of_the_file_are_told_apart) {
    struct config defaults;
    EXPECT_EQ(config_open(&defaults, bytes_str("{\"model\":\"of the defaults\",\"n\":1}"), &err),
              0);
    EXPECT_EQ(opens("{\"first\":\"of the file\",\"last\":\"at its end\"}"), 0);
    config_set_defaults(&config, 0, &defaults);
    static const char *const ROWS[][2] = {
        {"model", "of the defaults"}, {"first", "of the file"}, {"last", "at its end"}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct config_node *node = config_find(&config, 0, ROWS[i][0]);
        EXPECT(node);
        EXPECT_STR(config_node_name(&config, node), ROWS[i][0]);
        EXPECT_STR(config_node_text(&config, node), ROWS[i][1]);
    }
    const struct config_node *number = config_find(&config, 0, "n");
    EXPECT_STR(config_node_name(&config, number), "n");
    EXPECT_STR(config_node_text(&config, number), "");
    config_close(&defaults);
}

TEST(a_field_nobody_read_is_refused_by_name_unless_it_asks_for_nothing) {
    EXPECT_EQ(finishes("{\"flux_capacitor\":1.21}", NULL), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "flux_capacitor") != NULL);
    EXPECT_EQ(finishes("{\"quantization_config\":{\"bits\":4}}", NULL), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "quantization_config") != NULL);
    EXPECT_EQ(
        finishes(
            "{\"a\":null,\"b\":false,\"c\":[],\"d\":{},\"_private\":{\"x\":[1]},\"use_cache\":true,"
            "\"eos_token_id\":[1,2]}",
            NULL),
        0);
    EXPECT_EQ(finishes("{\"flux_capacitor\":{\"gw\":[1.21,{}]},\"b\":true}", "b,flux_capacitor"),
              0);
    EXPECT_EQ(finishes("{\"flux_capacitor\":1}", "flux,flux_capacitors"), ERR_UNSUPPORTED);
    EXPECT_EQ(opens("{\"rope\":{\"factor\":3,\"wobble\":3}}"), 0);
    EXPECT_EQ(config_int(&config, (uint32_t)config_object(&config, 0, "rope"), "factor", 0), 3);
    EXPECT_EQ(config_finish(&config, NULL, &err), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "rope") && strstr(err.text, "wobble"));
    EXPECT_EQ(opens("{\"vision\":{\"size\":3,\"deep\":{\"x\":1}},\"other\":4}"), 0);
    config_consume_all(&config, 0, "vision");
    EXPECT_EQ(config_finish(&config, NULL, &err), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "other") != NULL);
}

TEST(values_of_the_wrong_kind_are_refused_by_name) {
    static const char *const cases[] = {"{\"x\":-1}",   "{\"x\":1.5}",  "{\"x\":\"8\"}",
                                        "{\"x\":1e40}", "{\"x\":true}", "{\"x\":[1]}",
                                        "{\"x\":{}}"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        EXPECT_EQ(opens(cases[i]), 0);
        EXPECT_EQ(config_int(&config, 0, "x", 5), 5);
        if (config_finish(&config, NULL, &err) != ERR_INVALID || !strstr(err.text, "'x'"))
            check_fail(__FILE__, __LINE__, "%s: %s", cases[i], err.text);
    }
    EXPECT_EQ(opens("{\"n\":1e999,\"b\":1,\"t\":7,\"o\":3,\"l\":[1,\"a\"],\"m\":[1,2,3]}"), 0);
    double list[2];
    EXPECT(config_double(&config, 0, "n", 2) == 2 && config_bool(&config, 0, "b", true) &&
           config_object(&config, 0, "o") == -1 && config_doubles(&config, 0, "l", list, 2) == 0 &&
           config_doubles(&config, 0, "m", list, 2) == 0);
    EXPECT_STR(config_text(&config, 0, "t", "d"), "d");
    EXPECT_EQ(config_finish(&config, NULL, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "'n'") != NULL); /* the first one */
}

/* A field of two names: each may stand alone, and both must say the same. */
TEST(fields_that_say_the_same_are_one) {
    static const struct {
        const char *text;
        bool same;
    } cases[] = {{"{\"a\":2,\"b\":2}", true},
                 {"{\"a\":2,\"b\":3}", false},
                 {"{\"a\":true,\"b\":true}", true},
                 {"{\"a\":true,\"b\":false}", false},
                 {"{\"a\":\"x\",\"b\":\"x\"}", true},
                 {"{\"a\":\"x\",\"b\":\"y\"}", false},
                 {"{\"a\":2,\"b\":\"2\"}", false},
                 {"{\"a\":[1],\"b\":[1]}", false},
                 {"{\"b\":2}", true},
                 {"{\"a\":null,\"b\":2}", true},
                 {"{\"a\":false,\"b\":true}", true},
                 {"{\"a\":2}", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        EXPECT_EQ(opens(cases[i].text), 0);
        config_find(&config, 0, "b");
        config_consume_same(&config, 0, "a", "b");
        int rc = config_finish(&config, NULL, &err);
        if (rc != (cases[i].same ? 0 : ERR_UNSUPPORTED))
            check_fail(__FILE__, __LINE__, "%s: %d %s", cases[i].text, rc, err.text);
    }
    EXPECT_EQ(opens("{\"a\":2,\"b\":3}"), 0);
    config_consume_same(&config, 0, "a", "b");
    EXPECT_EQ(config_finish(&config, NULL, &err), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "'a' and 'b' disagree"));
}

TEST(lists_of_numbers_fit_or_are_refused_by_name) {
    static const char *const cases[] = {"{\"l\":[1,2,3]}", "{\"l\":3}", "{\"l\":[1,true]}",
                                        "{\"l\":[1e999]}"};
    double list[2] = {0};
    EXPECT_EQ(opens("{\"l\":[1,-2.5],\"e\":[],\"n\":null}"), 0);
    EXPECT_EQ(config_doubles(&config, 0, "l", list, 2), 2);
    EXPECT(list[0] == 1 && list[1] == -2.5);
    EXPECT_EQ(config_doubles(&config, 0, "e", list, 2), 0);
    EXPECT_EQ(config_doubles(&config, 0, "n", list, 2), 0);
    EXPECT_EQ(config_doubles(&config, 0, "absent", list, 2), 0);
    EXPECT_EQ(config_finish(&config, NULL, &err), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        EXPECT_EQ(opens(cases[i]), 0);
        EXPECT_EQ(config_doubles(&config, 0, "l", list, 2), 0);
        EXPECT_EQ(config_finish(&config, NULL, &err), ERR_INVALID);
        EXPECT(strstr(err.text, "'l'"));
    }
}

/* What config_object gave for an object that is not there has no fields. */
TEST(an_absent_object_has_no_fields) {
    EXPECT_EQ(opens("{\"n\":1}"), 0);
    uint32_t none = (uint32_t)config_object(&config, 0, "rope");
    EXPECT(!config_find(&config, none, "n") && !config_has(&config, none, "n") &&
           !config_has_key(&config, none, "n"));
    EXPECT_EQ(config_int(&config, none, "n", 5), 5);
    const struct config_node *n = config_find(&config, 0, "n");
    EXPECT(n && !config_has_key(&config, (uint32_t)(n - config.nodes), "n")); /* nor has a number */
}

/* As Python writes them, which published Mamba 2 and Nemotron-H have. */
TEST(numbers_that_json_lacks_are_texts) {
    EXPECT_EQ(opens("{\"time_step_limit\":[0.0, Infinity],\"a\":-Infinity,\"b\":NaN,"
                    "\"c\":\"Infinity \\\"NaN\"}"),
              0);
    const struct config_node *list = config_find(&config, 0, "time_step_limit");
    EXPECT(list && list->count == 2);
    EXPECT_STR(config_node_text(&config, config_item(&config, list, 1)), "Infinity");
    EXPECT_STR(config_text(&config, 0, "a", ""), "-Infinity");
    EXPECT_STR(config_text(&config, 0, "b", ""), "NaN");
    EXPECT_STR(config_text(&config, 0, "c", ""), "Infinity \"NaN");
    struct buf room = {0};
    struct bytes text = bytes_str("{\"a\":\"NaN\\\\\"}");
    EXPECT(config_strict_text(text, &room).data == text.data && !room.len);
    text = bytes_str("[\"\\\\\",NaN");
    EXPECT(bytes_equal(config_strict_text(text, &room), bytes_str("[\"\\\\\",\"NaN\"")));
    buf_release(&room);
    EXPECT(opens("{\"a\":infinity}") && opens("{\"a\":1NaN}"));
}

TEST(malformed_files_are_refused) {
    static const char *const cases[] = {"",
                                        "[]",
                                        "{",
                                        "{\"a\":1,\"a\":2}",
                                        "{\"hidden_size\":8}x",
                                        "{\"hidden_act\":\"a\\u0000b\"}",
                                        "\xef\xbb\xbf{}"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!opens(cases[i]))
            check_fail(__FILE__, __LINE__, "taken: %s", cases[i]);
    static char deep[4096] = "{\"_x\":";
    memset(deep + 6, '[', 4000);
    EXPECT(opens(deep));
    memset(deep + 6 + 20, ']', 20);
    deep[6 + 40] = '}';
    deep[6 + 41] = 0;
    EXPECT(opens(deep));
    config_close(&config);
}
