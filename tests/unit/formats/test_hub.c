/* Models by name: what a name means, what a hub may list, which files of a list make a model. */
#include "check.h"
#include "formats/hub/choice.h"

static struct error err;
static struct buf text;

/* ---- names ---- */

/* "REPO REVISION FILE QUANT" of a name, with - for what is empty; or "no". */
static const char *parsed(const char *given) {
    struct hub_name name, again;
    buf_reset(&text);
    if (hub_name_parse(&name, given, &err)) {
        buf_add_str(&text, "no");
        return buf_text(&text);
    }
    hub_name_add(&name, &text);
    if (!hub_name_is_like(given) || hub_name_parse(&again, buf_text(&text), &err) ||
        memcmp(&name, &again, sizeof name) != 0)
        return "it is not spelled back";
    buf_reset(&text);
    buf_addf(&text, "%s %s %s %s", name.repo, name.revision, *name.file ? name.file : "-",
             *name.quant ? name.quant : "-");
    return buf_text(&text);
}

TEST(hub_names_mean_repositories_revisions_files_and_quants) {
    EXPECT_STR(parsed("org/name"), "org/name main - -");
    EXPECT_STR(parsed("hf.co/org/name:latest"), "org/name main - -");
    EXPECT_STR(parsed("https://huggingface.co/Qwen/Qwen2.5-0.5B_x"),
               "Qwen/Qwen2.5-0.5B_x main - -");
    EXPECT_STR(parsed("org/name:q4_k_m"), "org/name main - Q4_K_M");
    EXPECT_STR(parsed("org/name:UD-IQ2_XXS"), "org/name main - UD-IQ2_XXS");
    EXPECT_STR(parsed("org/name:bf16"), "org/name main - BF16");
    EXPECT_STR(parsed("org/name:MXFP4_MOE"), "org/name main - MXFP4_MOE");
    EXPECT_STR(parsed("org/name:v1.0"), "org/name v1.0 - -");
    EXPECT_STR(parsed("org/name:quantized"), "org/name quantized - -");
    EXPECT_STR(parsed("org/name@Q4_0"), "org/name Q4_0 - -");
    EXPECT_STR(parsed("org/name@refs/pr/3:Q8_0"), "org/name refs/pr/3 - Q8_0");
    EXPECT_STR(parsed("org/name:dev:sub/a.gguf"), "org/name dev sub/a.gguf -");
    EXPECT_STR(parsed("org/name:sub/a.GGUF"), "org/name main sub/a.GGUF -");
    EXPECT_STR(parsed("ollama:llama3.2"), "library/llama3.2 latest - -");
    EXPECT_STR(parsed("ollama:someone/x:1b"), "someone/x 1b - -");
}

TEST(hub_names_that_could_leave_their_folder_are_none) {
    static const char *const BAD[] = {"org",
                                      "org/",
                                      "/name",
                                      "org/name/x",
                                      "org/na me",
                                      "org/..",
                                      "../name",
                                      "org/a--b",
                                      "org/a..b",
                                      "org/.name",
                                      "org/name-",
                                      "org/name@",
                                      "org/name:",
                                      "org/name@../x",
                                      "org/name:a..b",
                                      "org/name@/abs",
                                      "org/name:../x.gguf",
                                      "org/name:/x.gguf",
                                      "org/name:Q4_0:Q8_0",
                                      "org/name:a:b",
                                      "org/name:Q4_0:main",
                                      "org/name@a@b",
                                      "ollama:",
                                      "ollama:a/b/c",
                                      "ollama:a:b/c",
                                      "ollama:a:",
                                      "ollama:../x",
                                      "org/name:a//b.gguf",
                                      "hf.co/hf.co/name",
                                      "org/\xc3\xa4"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        if (strcmp(parsed(BAD[i]), "no") != 0)
            check_fail(__FILE__, __LINE__, "'%s' is '%s'", BAD[i], buf_text(&text));
    char long_name[1200];
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    long_name[3] = '/';
    EXPECT_STR(parsed(long_name), "no");
    long_name[9] = '@';
    EXPECT_STR(parsed(long_name), "no");
    long_name[9] = ':';
    EXPECT_STR(parsed(long_name), "no");
    EXPECT(!hub_name_is_like("./org/name") && !hub_name_is_like("/org/name") &&
           !hub_name_is_like("~/name") && !hub_name_is_like("model.gguf"));
}

/* ---- lists of files ---- */

static int add_page(struct hub_listing *l, const char *json) {
    int rc = hub_listing_add_page(l, bytes_str(json), &err);
    return rc ? rc : hub_listing_sort(l, &err);
}

#define OID "0123456789012345678901234567890123456789"
#define SHA "0123456789012345678901234567890123456789012345678901234567890123"

TEST(hub_listings_are_read_and_kept_as_they_are) {
    struct hub_listing l = {.files = {NULL, 0, 0}}, again = {.files = {NULL, 0, 0}};
    EXPECT_EQ(add_page(&l, "[{\"type\":\"directory\",\"path\":\"b\",\"size\":0,\"oid\":\"x\"},"
                           "{\"type\":\"file\",\"path\":\"b/c.json\",\"size\":7,\"oid\":\"" OID
                           "\",\"more\":[{}],\"lfs\":null},"
                           "{\"type\":\"file\",\"path\":\"a.gguf\",\"size\":134,\"oid\":\"" OID
                           "\",\"lfs\":{\"oid\":\"" SHA "\",\"size\":5000000000}}]"),
              0);
    EXPECT_EQ(l.files.count, 2);
    const struct hub_file *f = hub_listing_find(&l, "a.gguf");
    EXPECT(f && f->is_large && f->size == 5000000000u && !strcmp(f->hash, SHA));
    EXPECT(!hub_listing_find(&l, "b") && hub_listing_find(&l, "b/c.json")->size == 7);
    buf_reset(&text);
    hub_listing_add_copy(&l, &text);
    EXPECT_EQ(hub_listing_read_copy(&again, buf_bytes(&text), &err), 0);
    EXPECT_EQ(again.files.count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct hub_file *x = &l.files.items[i], *y = &again.files.items[i];
        EXPECT_STR(x->path, y->path);
        EXPECT(x->size == y->size && x->is_large == y->is_large && !strcmp(x->hash, y->hash) &&
               !strcmp(x->git_hash, y->git_hash));
    }
    hub_listing_release(&l);
    hub_listing_release(&again);
}

TEST(hub_listings_of_strangers_are_refused) {
    static const char *const BAD[] = {
        "",
        "{}",
        "[1]",
        "[{]",
        "[{\"type\":\"file\"}]",
        "[{\"type\":\"file\",\"path\":\"../a\",\"size\":1,\"oid\":\"" OID "\"}]",
        "[{\"type\":\"file\",\"path\":\"a\",\"size\":-1,\"oid\":\"" OID "\"}]",
        "[{\"type\":\"file\",\"path\":\"a\",\"size\":1e30,\"oid\":\"" OID "\"}]",
        "[{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"oid\":\"" SHA "\"}]",
        "[{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"oid\":\"../../../../../../../../../../../../xx\"}]",
        "[{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"oid\":\"" OID "\",\"lfs\":{\"size\":1}}]",
        "[{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"oid\":\"" OID
        "\"},{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"oid\":\"" OID "\"}]"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct hub_listing l = {.files = {NULL, 0, 0}};
        if (!add_page(&l, BAD[i]))
            check_fail(__FILE__, __LINE__, "it is taken: %s", BAD[i]);
        hub_listing_release(&l);
    }
    EXPECT(!hub_path_is_safe(bytes_str("a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q")));
    EXPECT(!hub_path_is_safe(bytes_of("a\0b", 3)) && !hub_path_is_safe(bytes_str("a/.")) &&
           !hub_path_is_safe(bytes_str("\xff")) && hub_path_is_safe(bytes_str("..a/b..c/...")));
}

/* ---- choices ---- */

/* The files chosen of a list of paths, blanks between; the model's first, in brackets. */
static const char *chosen(const char *paths, const char *given, const char *index) {
    struct hub_listing l = {.files = {NULL, 0, 0}};
    struct hub_choice choice = {.model = NULL};
    struct hub_name name;
    char *copy = mem_strdup(paths), *rest = copy, *path;
    while ((path = strsep(&rest, " "))) {
        struct hub_file f = {.path = mem_strdup(path), .size = 1};
        vec_push(&l.files, f);
    }
    buf_reset(&text);
    if (hub_listing_sort(&l, &err) || hub_name_parse(&name, given, &err) ||
        hub_choice_make(&choice, &l, &name, bytes_str(index), &err))
        buf_addf(&text, "no: %s", err.text);
    else {
        buf_addf(&text, "[%s]%s", choice.model ? choice.model->path : "",
                 choice.index ? " index!" : "");
        for (size_t i = 0; i < choice.files.count; i++)
            buf_addf(&text, " %s", choice.files.items[i]->path);
    }
    hub_choice_release(&choice);
    hub_listing_release(&l);
    mem_free(copy);
    return buf_text(&text);
}

TEST(hub_choices_of_folders) {
    EXPECT_STR(chosen("README.md config.json model.safetensors pytorch_model.bin tokenizer.json "
                      "onnx/config.json merges.txt other.safetensors x.gguf",
                      "o/n", NULL),
               "[] config.json merges.txt model.safetensors tokenizer.json");
    EXPECT_STR(
        chosen("config.json a.safetensors b.safetensors consolidated.safetensors "
               "adapter_model.safetensors additional_chat_templates/t.jinja sub/c.safetensors",
               "o/n", NULL),
        "[] a.safetensors additional_chat_templates/t.jinja b.safetensors config.json");
    static const char FILES[] = "config.json model.safetensors.index.json m-1.safetensors "
                                "m-2.safetensors old.safetensors pytorch_model.bin.index.json";
    EXPECT_STR(chosen(FILES, "o/n", NULL), "[] index! config.json model.safetensors.index.json");
    EXPECT_STR(chosen(FILES, "o/n",
                      "{\"metadata\":{},\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2."
                      "safetensors\",\"c\":\"m-1.safetensors\"}}"),
               "[] config.json m-1.safetensors m-2.safetensors model.safetensors.index.json");
    EXPECT(strstr(chosen(FILES, "o/n", "{\"weight_map\":{\"a\":\"../x.safetensors\"}}"), "lacks"));
    EXPECT(strstr(chosen(FILES, "o/n", "{\"weight_map\":{\"a\":7}}"), "cannot be read"));
    EXPECT(strstr(chosen(FILES, "o/n", "{}"), "no weight_map"));
    EXPECT_STR(chosen("config.json a.safetensors b.safetensors x.gguf", "o/n:b.safetensors", NULL),
               "[] b.safetensors config.json");
}

TEST(hub_choices_of_gguf_files) {
    static const char FILES[] = "a-BF16.gguf a-F16.gguf a-Q4_K_M.gguf a-Q8_0.gguf "
                                "mmproj-a-F16.gguf imatrix.gguf UD/a-UD-Q4_K_XL.gguf README.md";
    EXPECT_STR(chosen(FILES, "o/n", NULL), "[a-Q4_K_M.gguf] a-Q4_K_M.gguf");
    EXPECT_STR(chosen(FILES, "o/n:f16", NULL), "[a-F16.gguf] a-F16.gguf");
    EXPECT_STR(chosen(FILES, "o/n:Q4_K_XL", NULL), "[UD/a-UD-Q4_K_XL.gguf] UD/a-UD-Q4_K_XL.gguf");
    EXPECT_STR(chosen("b.Q8_0.gguf b.Q6_K.gguf", "o/n", NULL), "[b.Q8_0.gguf] b.Q8_0.gguf");
    EXPECT_STR(chosen("b.Q5_0.gguf b.Q6_K.gguf", "o/n", NULL), "[b.Q5_0.gguf] b.Q5_0.gguf");
    EXPECT_STR(chosen("bQ5_0.gguf", "o/n:Q5_0", NULL), "[bQ5_0.gguf] bQ5_0.gguf");
    EXPECT_STR(
        chosen("Q2_K/c-00001-of-00002.gguf Q2_K/c-00002-of-00002.gguf d-Q2_K.gguf", "o/n:Q2_K",
               NULL),
        "[Q2_K/c-00001-of-00002.gguf] Q2_K/c-00001-of-00002.gguf Q2_K/c-00002-of-00002.gguf");
    /* of one that was named by a later one of its files the model is the first all the same */
    EXPECT_STR(chosen("c-00001-of-00003.gguf c-00002-of-00003.gguf c-00003-of-00003.gguf",
                      "o/n:c-00002-of-00003.gguf", NULL),
               "[c-00001-of-00003.gguf] c-00001-of-00003.gguf c-00002-of-00003.gguf "
               "c-00003-of-00003.gguf");
    EXPECT(strstr(chosen("c-Q2_K-00001-of-00003.gguf c-Q2_K-00003-of-00003.gguf", "o/n", NULL),
                  "it has no 'c-Q2_K-00002-of-00003.gguf'"));
    EXPECT(strstr(chosen(FILES, "o/n:Q3_K_S", NULL), "it has UD/a-UD-Q4_K_XL.gguf, a-BF16.gguf"));
    EXPECT(strstr(chosen("mmproj.gguf", "o/n", NULL), "neither"));
    EXPECT(strstr(chosen("config.json pytorch_model.bin", "o/n", NULL), "as pickles (pytorch_"));
    EXPECT(strstr(chosen(FILES, "o/n:none.gguf", NULL), "no file 'none.gguf'"));
}
