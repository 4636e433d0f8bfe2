/* The models that serve was told: words, names, options of their own, and what is refused. */
#include "cli/serve_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

/* Folders a, b and c=d that look like models; "empty" does not. */
static char root[64];
static struct serve_models models;
static struct error err;

static void put(const char *folder, const char *file, size_t bytes) {
    char path[200], *text = mem_calloc(bytes + 1, 1);
    snprintf(path, sizeof path, "%s/%s", root, folder);
    (void)!mkdir(path, 0700); /* it may be there */
    snprintf(path, sizeof path, "%s/%s/%s", root, folder, file);
    FILE *f = fopen(path, "w");
    CHECK(f && fwrite(text, 1, bytes, f) == bytes && fclose(f) == 0);
    mem_free(text);
}

static void prepare(void) {
    snprintf(root, sizeof root, "/tmp/trireme-sm-XXXXXX");
    CHECK(mkdtemp(root));
    put("a", "config.json", 2);
    put("b", "config.json", 2);
    put("c=d", "config.json", 2);
    put("w", "x.safetensors", 1000);
    put("w", "y.safetensors", 30);
    put("w", "notes.txt", 5);
    put("empty", "readme", 1);
    models = (struct serve_models){.offline = true};
}

static void clean(void) {
    char command[100];
    serve_models_release(&models);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    CHECK(system(command) == 0);
}

/* Each '@' in the words becomes the folder. Further words of the command line end with NULL. */
static int find(const char *words, const char *const *more) {
    char *argv[12] = {(char[]){"serve"}};
    struct buf text = {0};
    int argc = 1;
    for (const char *at = words; *at; at++)
        if (*at == '@')
            buf_addf(&text, "%s/", root);
        else
            buf_add_byte(&text, *at);
    for (; more && *more; more++)
        argv[argc++] = mem_strdup(*more);
    serve_models_release(&models);
    models = (struct serve_models){.offline = true};
    err = (struct error){0};
    int rc = serve_models_find(&models, buf_text(&text), argc, argv, &err);
    for (int i = 1; i < argc; i++)
        mem_free(argv[i]);
    buf_release(&text);
    return rc;
}

/* Whether these are refused with an error that has this text. */
static bool refused(const char *words, const char *const *more, const char *why) {
    int rc = find(words, more);
    bool good = rc != 0 && rc == err.code && strstr(err.text, why);
    if (!good)
        printf("# '%s': %d '%s'\n", words, rc, rc ? err.text : "");
    return good;
}

static const char *names(void) {
    static char text[200];
    struct buf out = {0};
    serve_models_names(&models, &out);
    snprintf(text, sizeof text, "%s", buf_text(&out));
    buf_release(&out);
    return text;
}

TEST(one_model_goes_by_the_name_of_its_worker) {
    prepare();
    char path[100];
    EXPECT_EQ(find("@a", NULL), 0);
    snprintf(path, sizeof path, "%s/a", root);
    EXPECT_EQ(models.count, 1);
    EXPECT_STR(models.items[0].path, path);
    EXPECT(!models.items[0].names && !models.items[0].name);
    EXPECT_STR(names(), "");
    char name[WORKER_NAME_MAX];
    serve_model_public_name(&models.items[0], name);
    EXPECT_STR(name, "a");
    EXPECT_EQ(find("@a", (const char *const[]){"--on-demand", NULL}), 0);
    EXPECT_STR(names(), "a"); /* it has to be known before it is there */
    EXPECT(serve_models_any_on_demand(&models));
    clean();
}

TEST(several_models_have_names_that_differ) {
    prepare();
    EXPECT_EQ(find("@a\nx=@b,alias=y,alias=z", NULL), 0);
    EXPECT_EQ(models.count, 2);
    EXPECT_STR(names(), "a;x,y,z");
    EXPECT_STR(models.items[1].name, "x");
    EXPECT(!serve_models_any_on_demand(&models));
    EXPECT(refused("x=@a\nx=@b", NULL, "two models are called 'x'"));
    EXPECT(refused("b=@a\n@b", NULL, "two models are called 'b'"));
    EXPECT(refused("x=@a,alias=x", NULL, "two models are called 'x'"));
    EXPECT(refused("x=@a,alias=y\ny=@b", NULL, "two models are called 'y'"));
    EXPECT_EQ(find("xx=@a,alias=x\nyy=@b,alias=y", NULL), 0); /* the one is in the other */
    EXPECT(refused("@a,alias=x", NULL, "needs a name: NAME=PATH,alias=x"));
    EXPECT(refused("=@a", NULL, "is no name for a model"));
    EXPECT(refused("p;q=@a", NULL, "is no name for a model"));
    EXPECT(refused("x=@a,alias=", NULL, "is no name for a model"));
    clean();
}

TEST(names_have_a_length) {
    prepare();
    for (size_t len = WORKER_NAME_MAX - 1; len <= WORKER_NAME_MAX; len++) {
        struct buf word = {0};
        for (size_t i = 0; i < len; i++)
            buf_add_byte(&word, 'n');
        buf_add_str(&word, "=@a");
        if (len < WORKER_NAME_MAX)
            EXPECT_EQ(find(buf_text(&word), NULL), 0);
        else
            EXPECT(refused(buf_text(&word), NULL, "is no name for a model"));
        buf_release(&word);
    }
    clean();
}

TEST(what_is_no_model_is_refused) {
    prepare();
    EXPECT(refused("", NULL, "which model?"));
    EXPECT(refused("@empty", NULL, "is no model: neither a folder with config.json"));
    EXPECT(refused("@missing/x.gguf", NULL, "cannot find the model"));
    EXPECT_EQ(find("@w", NULL), 0); /* weights alone may be one */
    EXPECT_EQ(find("@c=d", NULL), 0);
    EXPECT(!models.items[0].names); /* a path as a whole has no name in it */
    EXPECT_EQ(find("x=@c=d", NULL), 0);
    EXPECT_STR(names(), "x");
    clean();
}

TEST(options_of_a_model_are_its_own) {
    prepare();
    EXPECT_EQ(find("x=@a,workers=3,slots=7,tp=2,on-demand\ny=@b",
                   (const char *const[]){"--workers=2", NULL}),
              0);
    EXPECT(models.items[0].settings->worker_count == 3 && models.items[0].settings->tp == 2);
    EXPECT(models.items[0].settings->on_demand && !models.items[1].settings->on_demand);
    EXPECT(models.items[1].settings->worker_count == 2 && models.items[1].settings->tp == 1);
    struct flags flags = {0};
    bool has_slots = false;
    merged_options_flags(&models.items[0].options, &worker_options, &flags);
    for (size_t i = 0; i < flags.words.count; i++)
        has_slots |= !strcmp(flags.words.items[i], "--slots=7");
    EXPECT(has_slots);
    flags_release(&flags);
    /* of those from the start, and of one that is loaded on demand */
    EXPECT_EQ(serve_models_replicas(&models, &models.items[0]), 2 + 3);
    EXPECT_EQ(serve_models_replicas(&models, &models.items[1]), 2);
    EXPECT(refused("x=@a,sail=1", NULL, "/a': unknown option 'sail'; see trireme worker --help"));
    EXPECT(refused("x=@a,slots=0", NULL, "/a': option 'slots': '0' is out of range"));
    static const char *const OF_ALL[] = {
        "port=1",          "log-level=debug", "run-dir=/x",   "model=@b",  "gateways=2",
        "log-format=json", "drain-timeout=1", "admin-port=3", "api-key=k", "served-model-name=q"};
    for (size_t i = 0; i < ARRAY_LEN(OF_ALL); i++) {
        char word[64];
        snprintf(word, sizeof word, "x=@a,%s", OF_ALL[i]);
        EXPECT_EQ(find(word, NULL), ERR_INVALID);
    }
    EXPECT(refused("x=@a,slots=none", NULL, "slots"));
    EXPECT_EQ(find("x=@a,memory=5", NULL), 0);
    EXPECT_EQ(serve_model_memory(&models.items[0]), 5);
    clean();
}

TEST(stages_have_a_device_each) {
    prepare();
    EXPECT_EQ(find("x=@a", (const char *const[]){"--pp=2", "--stage-devices=cuda,cpu", NULL}), 0);
    EXPECT_STR(models.items[0].device_words[0], "cuda");
    EXPECT_STR(models.items[0].device_words[1], "cpu");
    EXPECT(!models.items[0].device_words[2]);
    EXPECT(refused("x=@a", (const char *const[]){"--pp=3", "--stage-devices=cuda,cpu", NULL},
                   "names 2 devices for --pp 3"));
    EXPECT(refused("x=@a", (const char *const[]){"--stage-devices=cuda,cpu", NULL},
                   "names 2 devices for --pp 1"));
    EXPECT_EQ(find("x=@a", (const char *const[]){"--tp=8", "--pp=8", NULL}), 0);
    EXPECT(refused("x=@a", (const char *const[]){"--tp=5", "--pp=13", NULL}, "more than 64 ranks"));
    clean();
}

TEST(a_name_for_all_is_for_one_model_without_another) {
    static const char *const NAMED[] = {"--served-model-name=q", NULL};
    prepare();
    EXPECT_EQ(find("@a", NAMED), 0);
    EXPECT_STR(names(), "");
    EXPECT(refused("x=@a", NAMED, "is for one model without a name of its own"));
    EXPECT(refused("@a\n@b", NAMED, "is for one model without a name of its own"));
    clean();
}

/* To a server that was told `more` (NULL: nothing) when it began. */
static int add_to(const char *word, const char *more) {
    char *argv[] = {(char[]){"serve"}, more ? mem_strdup(more) : NULL};
    char text[200];
    const char *at = strchr(word, '@');
    snprintf(text, sizeof text, "%.*s%s/%s", (int)(at - word), word, root, at + 1);
    err = (struct error){0};
    int rc = serve_models_add(&models, serve_models_place(&models), text, more ? 2 : 1, argv, &err);
    mem_free(argv[1]);
    return rc;
}

static int add(const char *word) {
    return add_to(word, NULL);
}

TEST(models_come_and_go) {
    prepare();
    EXPECT_EQ(find("@a", NULL), 0);
    EXPECT_EQ(serve_models_place(&models), 1);
    EXPECT(add("a=@b") == ERR_INVALID && strstr(err.text, "a model is called 'a'"));
    EXPECT(add("x=@b,alias=y") == ERR_UNSUPPORTED && models.count == 1);
    EXPECT_EQ(add("x=@b"), 0);
    EXPECT_EQ(add("@w"), 0);
    EXPECT(models.count == 3 && !strcmp(models.items[2].name, "w"));
    EXPECT_EQ(add("x=@b"), ERR_INVALID);
    EXPECT_EQ(serve_model_memory(&models.items[2]), 1030);
    serve_models_remove(&models, 1);
    EXPECT(models.count == 3 && serve_models_place(&models) == 1);
    EXPECT_EQ(serve_models_replicas(&models, &models.items[0]), 2);
    serve_models_remove(&models, 2);
    EXPECT(models.count == 1 && serve_models_place(&models) == 1);
    EXPECT_EQ(add("x=@b"), 0);
    clean();
}

TEST(a_model_comes_beside_one_that_was_named_for_all) {
    prepare();
    EXPECT_EQ(find("@a", (const char *const[]){"--served-model-name=q,r", NULL}), 0);
    EXPECT_EQ(add_to("x=@b", "--served-model-name=q,r"), 0);
    EXPECT_STR(models.items[1].name, "x");
    EXPECT(!merged_options_text(&models.items[1].options, "served-model-name"));
    EXPECT(add_to("q=@w", "--served-model-name=q,r") == ERR_INVALID);
    EXPECT(add_to("r=@w", "--served-model-name=q,r") == ERR_INVALID && models.count == 2);
    clean();
}
