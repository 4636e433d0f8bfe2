#include "base/base.h"
#include "base/option.h"
#include "capture.h"
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct settings {
    bool verbose;
    int64_t port, wait_ms;
    double ratio;
    const char *name, *other, *password;
    uint64_t memory;
    int format;
};
#define AT(field) offsetof(struct settings, field)
static const struct option_row ROWS[] = {
    {"verbose", 'v', OPTION_BOOL, AT(verbose), "false", .help = "Says more."},
    {"port", 'p', OPTION_INT, AT(port), "8000", .min = 1, .max = 65535, .help = "Where to listen."},
    {"wait", 0, OPTION_DURATION, AT(wait_ms), "250ms", .min = 0, .max = 3600000, .unit = "ms",
     .help = "How long."},
    {"ratio", 0, OPTION_FLOAT, AT(ratio), "0.5", .min = -1, .max = 1, .help = "How much."},
    {"long-name", 'n', OPTION_STRING, AT(name), "trireme", .help = "Who."},
    {"other", 0, OPTION_STRING, AT(other), NULL, .help = "Who else."},
    {"memory", 0, OPTION_SIZE, AT(memory), "1g", .help = "Bytes."},
    {"format", 0, OPTION_ENUM, AT(format), "text", .choices = "text|json|none", .help = "How."},
    {"password", 0, OPTION_STRING, AT(password), NULL, .help = "What nobody else may see.",
     .aliases = "--pass", .secret = true},
    {"secret-hook", 0, OPTION_BOOL, 0, NULL, .help = "hidden from help", .hidden = true},
};
static const struct option_table TABLE = {.program = "trireme test",
                                          .synopsis = "[OPTIONS] MODEL",
                                          .summary = "Tests.",
                                          .rows = ROWS,
                                          .count = ARRAY_LEN(ROWS) - 1};

static struct settings got;
static struct error why;
static const char *positional[3];
static size_t positional_count;

/* Parses "a b c" split at spaces. */
static int parse(const char *line) {
    static char copy[1024];
    char *argv[32] = {"test"};
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    why.text[0] = 0;
    return option_parse(&TABLE, &got, argc, argv, positional, 3, &positional_count, &why);
}

static char config_path[] = "/tmp/trireme-test-option-XXXXXX";
static void write_config(const char *text) {
    if (strstr(config_path, "XXXXXX"))
        close(mkstemp(config_path));
    FILE *f = fopen(config_path, "w");
    fputs(text, f);
    fclose(f);
}
__attribute__((destructor)) static void remove_config(void) {
    unlink(config_path);
}

static int parse_with_config(const char *text, const char *flags) {
    char line[256];
    write_config(text);
    snprintf(line, sizeof line, "--config %s %s", config_path, flags);
    return parse(line);
}

TEST(option_defaults) {
    EXPECT_EQ(parse(""), OPTION_RUN);
    EXPECT(!got.verbose && got.port == 8000 && got.wait_ms == 250 && got.ratio == 0.5 &&
           got.format == 0);
    EXPECT(got.memory == 1ull << 30 && !got.other);
    EXPECT_STR(got.name, "trireme");
    option_free(&TABLE, &got);
    EXPECT(!got.name);
}

TEST(option_flag_beats_environment_beats_yaml_beats_default) {
    EXPECT_EQ(parse_with_config("port: 1001\n", ""), 0);
    EXPECT_EQ(got.port, 1001);
    option_free(&TABLE, &got);
    setenv("TRIREME_PORT", "1002", 1);
    EXPECT_EQ(parse_with_config("port: 1001\n", ""), 0);
    EXPECT_EQ(got.port, 1002);
    option_free(&TABLE, &got);
    EXPECT_EQ(parse_with_config("port: 1001\n", "--port 1003"), 0);
    EXPECT_EQ(got.port, 1003);
    option_free(&TABLE, &got);
    unsetenv("TRIREME_PORT");
    EXPECT_EQ(parse(""), 0);
    EXPECT_EQ(got.port, 8000);
    option_free(&TABLE, &got);
}

/* compose passes every variable on, set or not: one that is empty says nothing, where a row is no
 * text, and the file's value stays. */
TEST(option_empty_variables_leave_what_the_file_says) {
    static const char *const NAMES[] = {"TRIREME_PORT",   "TRIREME_WAIT",   "TRIREME_RATIO",
                                        "TRIREME_MEMORY", "TRIREME_FORMAT", "TRIREME_VERBOSE"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        setenv(NAMES[i], "", 1);
    setenv("TRIREME_LONG_NAME", "", 1); /* an empty text is a text */
    int rc = parse_with_config("port: 1001\nwait: 3s\nratio: -1\nmemory: 4k\nformat: none\n"
                               "verbose: yes\nlong_name: somebody\n",
                               "");
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        unsetenv(NAMES[i]);
    unsetenv("TRIREME_LONG_NAME");
    EXPECT_EQ(rc, 0);
    EXPECT_EQ(got.port, 1001);
    EXPECT(got.verbose && got.wait_ms == 3000 && got.ratio == -1 && got.memory == 4096 &&
           got.format == 2);
    EXPECT_STR(got.name, "");
    option_free(&TABLE, &got);
}

/* ps shows what argv holds, and children inherit the environment. */
TEST(option_secrets_are_gone_once_they_are_read) {
    static const char *const SPELLINGS[][3] = {{"--password", "sesame", "******"},
                                               {"--pass", "sesame", "******"},
                                               {"--password=sesame", NULL, "--password=******"},
                                               {"--pass=sesame", NULL, "--pass=******"}};
    for (size_t i = 0; i < ARRAY_LEN(SPELLINGS); i++) {
        char words[5][32] = {"test", "--other=--password", "--port", "7"};
        char *argv[7] = {words[0], words[1], words[2], words[3]}, flag[32], value[32];
        int argc = 4;
        snprintf(flag, sizeof flag, "%s", SPELLINGS[i][0]);
        argv[argc++] = flag;
        if (SPELLINGS[i][1]) {
            snprintf(value, sizeof value, "%s", SPELLINGS[i][1]);
            argv[argc++] = value;
        }
        EXPECT_EQ(option_parse(&TABLE, &got, argc, argv, NULL, 0, NULL, &why), OPTION_RUN);
        EXPECT_STR(got.password, "sesame");
        EXPECT_STR(argv[argc - 1], SPELLINGS[i][2]);
        EXPECT_STR(words[1], "--other=--password");
        EXPECT_STR(words[3], "7");
        option_free(&TABLE, &got);
    }
    setenv("TRIREME_PASSWORD", "sesame", 1);
    setenv("TRIREME_OTHER", "seen", 1);
    EXPECT_EQ(parse(""), OPTION_RUN);
    EXPECT_STR(got.password, "sesame");
    EXPECT(!getenv("TRIREME_PASSWORD") && getenv("TRIREME_OTHER"));
    unsetenv("TRIREME_OTHER");
    option_free(&TABLE, &got);
}

TEST(option_words_are_one_argument_and_no_option) {
    static const struct {
        const char *text;
        bool good;
    } CASES[] = {{"a", true},        {"/srv/a model,slots=2", true},
                 {"modèle=x", true}, {"a-b", true},
                 {"", false},        {"-", false},
                 {"--help", false},  {"a\nb", false},
                 {"a\tb", false},    {"a\x7f", false},
                 {"\r", false}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        EXPECT_EQ(option_is_word(bytes_str(CASES[i].text)), CASES[i].good);
    EXPECT(!option_is_word(bytes_of("a\0b", 3)));
}

TEST(option_every_spelling_of_a_flag) {
    EXPECT_EQ(parse("-v -p 1 --wait=2s --ratio -0.25 --long-name a -- --format"), 0);
    EXPECT(got.verbose && got.port == 1 && got.wait_ms == 2000 && got.ratio == -0.25);
    EXPECT_EQ(positional_count, 1);
    EXPECT_STR(positional[0], "--format");
    option_free(&TABLE, &got);
    EXPECT_EQ(parse("one -p77 --no-verbose --format json two - --long-name="), 0);
    EXPECT(!got.verbose && got.port == 77 && got.format == 1 && positional_count == 3);
    EXPECT_STR(positional[2], "-");
    EXPECT_STR(got.name, "");
    option_free(&TABLE, &got);
    EXPECT_EQ(parse("--verbose --verbose=no --long-name --port"), 0);
    EXPECT(!got.verbose);
    EXPECT_STR(got.name, "--port");
    option_free(&TABLE, &got);
}

TEST(option_units) {
    static const struct {
        const char *flags;
        uint64_t memory;
        int64_t wait_ms;
    } CASES[] = {
        {"--memory 12 --wait 7", 12, 7},
        {"--memory 2k --wait 7ms", 2048, 7},
        {"--memory 3MB --wait 1.5s", 3 << 20, 1500},
        {"--memory 1.5GiB --wait 2m", 3ull << 29, 120000},
        {"--memory 18446744073709551615 --wait 1h", UINT64_MAX, 3600000},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        EXPECT_EQ(parse(CASES[i].flags), 0);
        EXPECT(got.memory == CASES[i].memory);
        EXPECT_EQ(got.wait_ms, CASES[i].wait_ms);
        option_free(&TABLE, &got);
    }
}

TEST(option_mistakes_are_named) {
    static const struct {
        const char *flags, *in_text, *also_in_text;
    } CASES[] = {
        {"--port 0", "--port", "out of range"},
        {"--port 65536", "--port", "1 to 65535"},
        {"--port abc", "--port", "not a whole number"},
        {"--port 12x", "--port", "not a whole number"},
        {"--port 99999999999999999999", "--port", "too large"},
        {"--port", "--port", "needs a value"},
        {"--ratio nan", "--ratio", "not a number"},
        {"--ratio 2", "--ratio", "out of range"},
        {"--wait 2h", "--wait", "out of range (0 to 1h)"},
        {"--wait 5d", "--wait", "unit"},
        {"--wait -5", "--wait", "unit"},
        {"--wait 0x10", "--wait", "unit"},
        {"--memory 1e30g", "--memory", "too large"},
        {"--memory k", "--memory", "unit"},
        {"--format xml", "--format", "text|json|none"},
        {"--format tex", "--format", "text|json|none"},
        {"--verbose=maybe", "--verbose", "neither"},
        {"--no-port", "--no-port", "unknown option"},
        {"--nothing 1", "--nothing", "unknown option"},
        {"-x", "-x", "unknown option"},
        {"a b c d", "'d'", "unexpected argument"},
        {"--config /nowhere/at/all.yaml", "/nowhere/at/all.yaml", "No such file"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        int rc = parse(CASES[i].flags);
        if (rc >= 0)
            check_fail(__FILE__, __LINE__, "'%s' was taken", CASES[i].flags);
        if (!strstr(why.text, CASES[i].in_text) || !strstr(why.text, CASES[i].also_in_text))
            check_fail(__FILE__, __LINE__, "'%s' says '%s'", CASES[i].flags, why.text);
    }
}

TEST(option_environment_mistakes_are_named) {
    setenv("TRIREME_LONG_NAME", "from env", 1);
    EXPECT_EQ(parse(""), 0);
    EXPECT_STR(got.name, "from env");
    option_free(&TABLE, &got);
    unsetenv("TRIREME_LONG_NAME");
    setenv("TRIREME_WAIT", "soon", 1);
    EXPECT_EQ(parse(""), ERR_INVALID);
    EXPECT(strstr(why.text, "TRIREME_WAIT") && strstr(why.text, "soon"));
    unsetenv("TRIREME_WAIT");
}

TEST(option_yaml_values) {
    EXPECT_EQ(parse_with_config("# settings\nlong_name: \"a: b\"\nverbose: yes\nmemory: 4k\nwait: "
                                "3s\nformat: none\nother:\n"
                                "ratio: -1\n",
                                ""),
              0);
    EXPECT(got.verbose && got.memory == 4096 && got.wait_ms == 3000 && got.format == 2 &&
           !got.other && got.ratio == -1);
    EXPECT_STR(got.name, "a: b");
    option_free(&TABLE, &got);
    EXPECT_EQ(parse_with_config("", ""), 0);
    option_free(&TABLE, &got);
    EXPECT_EQ(parse_with_config("# only a comment\n", ""), 0);
    option_free(&TABLE, &got);
    EXPECT_EQ(parse_with_config("---\nport: 5\n...\n", ""), 0);
    EXPECT_EQ(got.port, 5);
    option_free(&TABLE, &got);
}

TEST(option_yaml_mistakes_name_key_and_file) {
    static const struct {
        const char *text, *in_text;
    } CASES[] = {
        {"prot: 1\n", "unknown key 'prot'"},
        {"long-name: x\n", "unknown key 'long-name'"},
        {"port: 70000\n", "key 'port'"},
        {"port: [1, 2]\n", "line 1"},
        {"port: {a: 1}\n", "line 1"},
        {"port: 1\nport: 2\n", "twice"},
        {"x: &a 1\n", "unknown key 'x'"},
        {"port: *a\n", "line 1"},
        {"- port\n", "key: value"},
        {"port\n", "key: value"},
        {"port: 1\n---\nport: 2\n", "one document"},
        {"port: \"1\n", "not YAML"},
        {"long_name: \"a\\0b\"\n", "zero byte"},
        {"? [a]\n: b\n", "plain text"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        int rc = parse_with_config(CASES[i].text, "");
        if (rc >= 0)
            check_fail(__FILE__, __LINE__, "'%s' was taken", CASES[i].text);
        if (!strstr(why.text, CASES[i].in_text) || !strstr(why.text, config_path))
            check_fail(__FILE__, __LINE__, "'%s' says '%s'", CASES[i].text, why.text);
    }
}

TEST(option_to_flags_round_trips) {
    EXPECT_EQ(parse("-v --port 9 --wait 90s --ratio 0.1 --long-name x=y --memory 3k --format json"),
              0);
    char *flags[16], *argv[17] = {"test"};
    size_t count = option_to_flags(&TABLE, &got, flags, 16);
    EXPECT_EQ(count, 7);
    for (size_t i = 0; i < count; i++)
        argv[i + 1] = flags[i];
    struct settings again;
    EXPECT_EQ(option_parse(&TABLE, &again, (int)count + 1, argv, positional, 0, NULL, &why), 0);
    EXPECT(again.verbose && again.port == 9 && again.wait_ms == 90000 && again.ratio == 0.1 &&
           again.memory == 3072);
    EXPECT_EQ(again.format, 1);
    EXPECT_STR(again.name, "x=y");
    for (size_t i = 0; i < count; i++)
        mem_free(flags[i]);
    option_free(&TABLE, &got);
    option_free(&TABLE, &again);
    EXPECT_EQ(parse(""), 0);
    EXPECT_EQ(option_to_flags(&TABLE, &got, flags, 16), 0);
    option_free(&TABLE, &got);
}

/* A duration may have a word for a value of its own, wherever a value comes from. */
TEST(option_durations_have_a_word) {
    static const struct option_row WORD_ROWS[] = {{"bound", 0, OPTION_DURATION, AT(wait_ms), "auto",
                                                   .word = "auto", .max = 5000, .help = "."}};
    static const struct option_table WORDS = {
        .program = "trireme test", .summary = "Tests.", .rows = WORD_ROWS, .count = 1};
    static const struct {
        const char *flag;
        int64_t value;
        const char *printed; /* what a child process is given; NULL: it is the default */
    } CASES[] = {
        {"--bound=auto", OPTION_WORD, NULL},
        {"--bound=0", 0, "--bound=0ms"},
        {"--bound=2s", 2000, "--bound=2000ms"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char *argv[] = {"test", (char *)CASES[i].flag}, *flags[2];
        EXPECT_EQ(option_parse(&WORDS, &got, 2, argv, positional, 0, NULL, &why), 0);
        EXPECT_EQ(got.wait_ms, CASES[i].value);
        size_t count = option_to_flags(&WORDS, &got, flags, 2);
        EXPECT_EQ(count, CASES[i].printed != NULL);
        if (count) {
            EXPECT_STR(flags[0], CASES[i].printed);
            mem_free(flags[0]);
        }
        option_free(&WORDS, &got);
    }
    char *argv[] = {"test", "--bound=Auto"}, *negative[] = {"test", "--bound=-1"};
    EXPECT(option_parse(&WORDS, &got, 2, argv, positional, 0, NULL, &why) < 0);
    EXPECT(option_parse(&WORDS, &got, 2, negative, positional, 0, NULL, &why) < 0);
    EXPECT_EQ(parse("--wait auto"), ERR_INVALID); /* which has none */
}

/* Standard output of fn. */
static const char *output_of(void (*fn)(void)) {
    static char text[8192];
    struct buf out = {0};
    struct capture c = capture_begin(STDOUT_FILENO);
    fn();
    capture_end(&c, &out);
    snprintf(text, sizeof text, "%s", buf_text(&out));
    buf_release(&out);
    return text;
}

static bool ends_with_stop(const char *text) {
    return *text && text[strlen(text) - 1] == '.';
}

static int help_outcome;
static void ask_help(void) {
    help_outcome = parse("--port nonsense --help");
}
static void print_markdown(void) {
    option_print_markdown(&TABLE);
}

TEST(option_help_names_every_row) {
    const char *text = output_of(ask_help);
    EXPECT_EQ(help_outcome, OPTION_HELP_PRINTED);
    for (size_t i = 0; i < TABLE.count; i++) {
        char help[128];
        snprintf(help, sizeof help, "%s", ROWS[i].help);
        help[strlen(help) - (ends_with_stop(help) ? 1 : 0)] = 0; /* the default follows */
        EXPECT(strstr(text, help) && strstr(text, ROWS[i].name));
    }
    EXPECT(strstr(text, "Where to listen [8000]; 1 to 65535") && strstr(text, "Who else\n"));
    EXPECT(strstr(text, "-p, --port N") && strstr(text, "[8000]") && strstr(text, "1 to 65535"));
    text = output_of(print_markdown);
    for (size_t i = 0; i < TABLE.count; i++)
        EXPECT(strstr(text, ROWS[i].help));
    EXPECT(strstr(text, "`TRIREME_LONG_NAME`") && strstr(text, "text\\|json\\|none"));
}

/* ---- what is printed, byte for byte ---- */

static const struct option_row PRINTED_ROWS[] = {
    {"twenty-two-characters2", 0, OPTION_INT, 0, "7", .min = 1, .max = 9, .unit = "tokens",
     .help = "It fits."},
    {"twenty-three-characters", 'x', OPTION_INT, 0, "", .min = 2, .max = 9007199254740991.0,
     .help = "It does not fit"},
    {"bare", 'b', OPTION_BOOL, 0, "false", .aliases = "-e  --every !--no-bare", .important = true,
     .help = ""},
    {"wait", 0, OPTION_DURATION, 0, "1s", .max = 60000, .unit = "ms", .help = "How long.",
     .group = "Times", .aliases = "--timeout"},
    {"size", 0, OPTION_SIZE, 0, NULL, .min = 1024, .max = 2097152, .help = "A | B."},
    {"ratio", 0, OPTION_FLOAT, 0, NULL, .min = -0.5, .max = 0, .help = "At most nothing.",
     .group = "Times"},
    {"kind", 'k', OPTION_ENUM, 0, "a", .choices = "a|b", .unit = "kinds", .help = "Which."},
    {"never-seen", 0, OPTION_BOOL, 0, NULL, .hidden = true, .important = true, .help = "Hidden."},
    {"nor-this", 0, OPTION_BOOL, 0, NULL, .hidden = true, .help = "Hidden."},
};
static const struct option_foreign FOREIGN[] = {
    {"-a  --all", "*", "All is | always so.", NULL},
    {"--maybe", "?yes", "It may be.", "It may not."},
    {"--never", "*", NULL, "It cannot."},
    {"--bare", NULL, "Nothing to do.", NULL},
};
static const struct option_table PRINTED = {.program = "trireme test",
                                            .synopsis = "[OPTIONS]",
                                            .summary = "Prints.",
                                            .rows = PRINTED_ROWS,
                                            .count = ARRAY_LEN(PRINTED_ROWS),
                                            .foreign = FOREIGN,
                                            .foreign_count = 1};

static void print_all(void) {
    option_print_help(&PRINTED);
    option_print_markdown(&PRINTED);
    option_print_foreign(FOREIGN, ARRAY_LEN(FOREIGN));
}

TEST(option_help_and_tables_are_these) {
    EXPECT_STR(
        output_of(print_all),
        "Usage: trireme test [OPTIONS]\n"
        "\n"
        "Prints.\n"
        "\n"
        "What matters first:\n"
        "  -b, --bare                       [false]; also -e, --every, --no-bare (means no)\n"
        "\n"
        "Options:\n"
        "      --twenty-two-characters2 N  It fits [7]; 1 to 9 tokens\n"
        "  -x, --twenty-three-characters N \n"
        "                                  It does not fit; 2 or more\n"
        "      --size SIZE                 A | B; 1k to 2m\n"
        "  -k, --kind a|b                  Which [a]; kinds\n"
        "\n"
        "Times:\n"
        "      --wait TIME                 How long [1s]; 0 to 1m; also --timeout\n"
        "      --ratio X                   At most nothing; -0.5 to 0\n"
        "\n"
        "Everywhere:\n"
        "      --config FILE               YAML file with these settings (name_with_underscores: value)\n"
        "  -h, --help                      Print this and exit\n"
        "\n"
        "Each option can also be set as TRIREME_NAME in the environment or in the YAML file.\n"
        "A flag wins over the environment, which wins over the file. The default is in [brackets].\n"
        "Flags of llama-server, vLLM and SGLang are taken, too: docs/options.md lists what each does.\n"
        "## trireme test\n"
        "\n"
        "Prints.\n"
        "\n"
        "| option | also | environment | value | default | what it does |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| `--twenty-two-characters2` |  | `TRIREME_TWENTY_TWO_CHARACTERS2` | N, 1 to 9 tokens | 7 | It fits. |\n"
        "| `--twenty-three-characters` | `-x` | `TRIREME_TWENTY_THREE_CHARACTERS` | N, 2 or more |  | It does not fit |\n"
        "| `--bare` | `-b`, `-e`, `--every`, `--no-bare` (means no) | `TRIREME_BARE` | true\\|false | false |  |\n"
        "| `--wait` | `--timeout` | `TRIREME_WAIT` | TIME, 0 to 1m | 1s | How long. |\n"
        "| `--size` |  | `TRIREME_SIZE` | SIZE, 1k to 2m |  | A \\| B. |\n"
        "| `--ratio` |  | `TRIREME_RATIO` | X, -0.5 to 0 |  | At most nothing. |\n"
        "| `--kind` | `-k` | `TRIREME_KIND` | a\\|b, kinds | a | Which. |\n"
        "\n"
        "| flag | with | what becomes of it |\n"
        "| --- | --- | --- |\n"
        "| `-a`, `--all` | * | taken: All is \\| always so. |\n"
        "| `--maybe` | yes | taken: It may be.; refused otherwise |\n"
        "| `--never` |  | refused: It cannot. |\n"
        "| `--bare` |  | taken: Nothing to do. |\n"
        "\n");
}

/* ---- other spellings ---- */

struct spelled {
    int64_t port, wait_ms;
    const char *model, *out, *names;
    int kind;
    bool graphs;
};
#define OF(field) offsetof(struct spelled, field)
static const struct option_row SPELLED_ROWS[] = {
    {.name = "port",
     .short_name = 'p',
     .type = OPTION_INT,
     .offset = OF(port),
     .fallback = "1",
     .aliases = "-po --the-port",
     .alias_words = "any=7",
     .help = "."},
    {.name = "wait",
     .type = OPTION_DURATION,
     .offset = OF(wait_ms),
     .aliases = "-to --timeout",
     .alias_unit = "s",
     .help = "."},
    {.name = "model", .type = OPTION_STRING, .offset = OF(model), .help = "."},
    {.name = "out", .type = OPTION_STRING, .offset = OF(out), .help = "."},
    {.name = "names", .type = OPTION_STRING, .offset = OF(names), .many = true, .help = "."},
    {.name = "kind",
     .type = OPTION_ENUM,
     .offset = OF(kind),
     .choices = "auto|f16|int8",
     .fallback = "auto",
     .aliases = "-ctk --cache",
     .alias_words = "q8_0=int8",
     .help = "."},
    {.name = "graphs",
     .type = OPTION_BOOL,
     .offset = OF(graphs),
     .fallback = "true",
     .aliases = "!--eager",
     .help = "."},
};
static const struct option_foreign SPELLED_FOREIGN[] = {
    {.flags = "-fa --flash", .values = "?on auto", .note = "always so", .reason = "not off"},
    {.flags = "--lora", .values = "?*", .reason = "none here"},
};
static struct buf notes;
static const struct option_table SPELLED = {.program = "trireme test",
                                            .synopsis = "[OPTIONS] MODEL OUT",
                                            .summary = "Tests.",
                                            .rows = SPELLED_ROWS,
                                            .count = ARRAY_LEN(SPELLED_ROWS),
                                            .arguments = "model out",
                                            .foreign = SPELLED_FOREIGN,
                                            .foreign_count = ARRAY_LEN(SPELLED_FOREIGN),
                                            .notes = &notes};
static struct spelled have;

static int spell(const char *line) {
    static char copy[1024];
    char *argv[32] = {"test"};
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    why.text[0] = 0;
    buf_release(&notes);
    return option_parse(&SPELLED, &have, argc, argv, NULL, 0, NULL, &why);
}

TEST(option_aliases_set_their_row) {
    EXPECT_EQ(spell("-po 5 --timeout 3 -ctk q8_0 --eager"), 0);
    EXPECT(have.port == 5 && have.wait_ms == 3000 && have.kind == 2 && !have.graphs);
    EXPECT(strstr(buf_text(&notes), "-ctk q8_0: taken as --kind int8"));
    option_free(&SPELLED, &have);
    EXPECT_EQ(spell("-p9 -to=250ms --cache f16 --the-port=9"), 0);
    EXPECT(have.port == 9 && have.wait_ms == 250 && have.kind == 1 && have.graphs);
    EXPECT_STR(buf_text(&notes), "");
    option_free(&SPELLED, &have);
    EXPECT_EQ(spell("--wait 3"), 0); /* its own name has its own unit */
    EXPECT_EQ(have.wait_ms, 3);
    option_free(&SPELLED, &have);
    EXPECT_EQ(spell("-p 1 -po 2"), ERR_INVALID);
    EXPECT(strstr(why.text, "one setting, --port"));
    EXPECT_EQ(spell("-p 1 --port 2"), 0);
    EXPECT_EQ(have.port, 2);
    option_free(&SPELLED, &have);
    EXPECT_EQ(spell("--eager=1"), ERR_INVALID);
    EXPECT_EQ(spell("--kind q8_0"), ERR_INVALID); /* a word of the alias alone */
    EXPECT_EQ(spell("-po"), ERR_INVALID);
    EXPECT(strstr(why.text, "option -po needs a value"));
    buf_release(&notes);
}

TEST(option_arguments_fill_rows_that_have_no_flag) {
    EXPECT_EQ(spell("a b"), 0);
    EXPECT_STR(have.model, "a");
    EXPECT_STR(have.out, "b");
    option_free(&SPELLED, &have);
    EXPECT_EQ(spell("b --model=a"), 0);
    EXPECT_STR(have.model, "a");
    EXPECT_STR(have.out, "b");
    option_free(&SPELLED, &have);
    EXPECT_EQ(spell("a b c"), ERR_INVALID);
    EXPECT(strstr(why.text, "unexpected argument 'c'"));
    EXPECT_EQ(spell("--names x y a"), 0); /* y and a are wanted elsewhere */
    EXPECT_STR(have.names, "x");
    EXPECT_STR(have.model, "y");
    option_free(&SPELLED, &have);
    EXPECT_EQ(spell("a b --names x y z -p 2"), 0);
    EXPECT_STR(have.names, "x,y,z");
    option_free(&SPELLED, &have);
    EXPECT_EQ(spell("--names x y --model a --out b"), 0);
    EXPECT_STR(have.names, "x,y");
    option_free(&SPELLED, &have);
    EXPECT_EQ(spell("a b --names x y"), 0); /* to the end */
    EXPECT_STR(have.names, "x,y");
    option_free(&SPELLED, &have);
}

TEST(option_flags_of_others_are_noted_or_refused) {
    static const char *const TAKEN[] = {"-fa", "-fa on", "--flash=auto", "-fa a b", "-fa -p 2"};
    for (size_t i = 0; i < ARRAY_LEN(TAKEN); i++) {
        EXPECT_EQ(spell(TAKEN[i]), 0);
        EXPECT(strstr(buf_text(&notes), "always so"));
        option_free(&SPELLED, &have);
    }
    EXPECT_EQ(spell("-fa off"), ERR_INVALID);
    EXPECT(strstr(why.text, "option -fa off is not to be had: not off"));
    EXPECT_EQ(spell("--lora x.gguf"), ERR_INVALID);
    EXPECT(strstr(why.text, "none here"));
    EXPECT_EQ(spell("--prot 1"), ERR_INVALID);
    EXPECT(strstr(why.text, "did you mean --port?"));
    EXPECT_EQ(spell("--nothing-like-it"), ERR_INVALID);
    EXPECT(strstr(why.text, "see trireme test --help"));
    write_config("the_port: 3\ncache: q8_0\n");
    char line[128];
    snprintf(line, sizeof line, "--config %s", config_path);
    EXPECT_EQ(spell(line), 0);
    EXPECT(have.port == 3 && have.kind == 2);
    option_free(&SPELLED, &have);
    write_config("lora: x\n");
    EXPECT_EQ(spell(line), ERR_INVALID);
    EXPECT(strstr(why.text, "none here"));
    write_config("flash: true\n");
    EXPECT_EQ(spell(line), 0);
    EXPECT(strstr(buf_text(&notes), "always so"));
    option_free(&SPELLED, &have);
    buf_release(&notes);
}

TEST(option_man_has_what_help_has) {
    struct buf page;
    buf_init(&page, 0);
    struct option_table table = TABLE;
    table.count = ARRAY_LEN(ROWS); /* the hidden row, too */
    option_man(&page, &table, "tries -things.\n.of it");
    const char *text = buf_text(&page);
    EXPECT(strstr(text, ".SH NAME\ntrireme\\-test \\- tries \\-things.\n\\&.of it\n"));
    EXPECT(strstr(text, ".TP\n\\fB\\-p\\fR, \\fB\\-\\-port\\fR \\fIN\\fR\nWhere to listen.\n"
                        "Default: 8000. Range: 1 to 65535.\n"));
    EXPECT(strstr(text, "\\fB\\-\\-format\\fR \\fItext|json|none\\fR\nHow.\n"));
    EXPECT(strstr(text, "Also \\-\\-pass.\n"));
    EXPECT(!strstr(text, "secret\\-hook"));
    EXPECT(strstr(text, ".SS \"Options\"\n"));
    EXPECT(!strstr(strstr(text, ".SS \"Options\"") + 1, ".SS \"Options\"")); /* once */
    buf_release(&page);
}

/* What --help shows in brackets or indented reads as sentences and forms in a page. */
TEST(option_man_pages_have_sentences_and_a_form_a_line) {
    static const struct option_row rows[] = {
        {"where", 0, OPTION_STRING, 0, ".", .help = "folder to write to"},
        {"what", 0, OPTION_STRING, 0, "all", .help = "What?"},
    };
    const struct option_table table = {.program = "trireme try",
                                       .synopsis = "one [OPTIONS]\n       trireme try two",
                                       .summary = "Tries.",
                                       .rows = rows,
                                       .count = ARRAY_LEN(rows)};
    struct buf page;
    buf_init(&page, 0);
    option_man(&page, &table, "tries");
    const char *text = buf_text(&page);
    EXPECT(
        strstr(text, "\n.B trireme try\none [OPTIONS]\n.br\ntrireme try two\n.SH DESCRIPTION\n"));
    EXPECT(strstr(text, "\nfolder to write to.\nDefault: '.'.\n"));
    EXPECT(strstr(text, "\nWhat?\nDefault: all.\n"));
    buf_release(&page);
}

/* ---- rows that may be given again ---- */

struct lists {
    const char *models, *one;
    int64_t port;
};
static const struct option_row LIST_ROWS[] = {
    {"model", 'm', OPTION_STRING, offsetof(struct lists, models), NULL, .list = true,
     .aliases = "--model-path", .help = "Which."},
    {"one", 0, OPTION_STRING, offsetof(struct lists, one), NULL, .help = "Who."},
    {"port", 0, OPTION_INT, offsetof(struct lists, port), "1", .max = 9, .aliases = "--listen-port",
     .help = "Where."},
};
static const struct option_table LIST_TABLE = {.program = "trireme test",
                                               .synopsis = "[OPTIONS] [MODEL]",
                                               .summary = "Tests.",
                                               .rows = LIST_ROWS,
                                               .count = ARRAY_LEN(LIST_ROWS),
                                               .arguments = "model"};

static int parse_lists(struct lists *lists, int argc, char **argv) {
    return option_parse(&LIST_TABLE, lists, argc, argv, NULL, 0, NULL, &why);
}

TEST(option_lists_take_each_flag) {
    struct lists lists;
    char *argv[] = {"t", "--model", "a=/x,threads=2", "-mb", "--model-path=c"};
    EXPECT_EQ(parse_lists(&lists, ARRAY_LEN(argv), argv), OPTION_RUN);
    EXPECT_STR(lists.models, "a=/x,threads=2\nb\nc");
    option_free(&LIST_TABLE, &lists);
    char *argument[] = {"t", "a"};
    EXPECT_EQ(parse_lists(&lists, ARRAY_LEN(argument), argument), OPTION_RUN);
    EXPECT_STR(lists.models, "a");
    option_free(&LIST_TABLE, &lists);
}

static int parse_file(struct lists *lists, const char *text, int argc, char **argv) {
    char *all[8] = {"t", "--config", config_path};
    write_config(text);
    for (int i = 0; i < argc; i++)
        all[3 + i] = argv[i];
    return parse_lists(lists, 3 + argc, all);
}

TEST(option_lists_stand_in_files) {
    struct lists lists;
    char *flag[] = {"--model=c"};
    EXPECT_EQ(parse_file(&lists, "model: [a, b]\nport: 2\n", 0, NULL), OPTION_RUN);
    EXPECT_STR(lists.models, "a\nb");
    EXPECT_EQ(lists.port, 2);
    option_free(&LIST_TABLE, &lists);
    char joined[128], *in_one[] = {"t", joined};
    snprintf(joined, sizeof joined, "--config=%s", config_path);
    EXPECT_EQ(parse_lists(&lists, ARRAY_LEN(in_one), in_one), OPTION_RUN);
    EXPECT_STR(lists.models, "a\nb");
    option_free(&LIST_TABLE, &lists);
    EXPECT_EQ(parse_file(&lists, "model:\n  - a\n  - b\n", 1, flag), OPTION_RUN);
    EXPECT_STR(lists.models, "c"); /* a flag stands in for the file's list */
    option_free(&LIST_TABLE, &lists);
    EXPECT_EQ(parse_file(&lists, "one: [a, b]\n", 0, NULL), ERR_INVALID);
    EXPECT(strstr(why.text, "one value, not a list"));
    EXPECT_EQ(parse_file(&lists, "listen_port: [1, 2]\n", 0, NULL), ERR_INVALID);
    EXPECT_EQ(parse_file(&lists, "model: [a, [b]]\n", 0, NULL), ERR_INVALID);
    EXPECT_EQ(parse_file(&lists, "model: {a: b}\n", 0, NULL), ERR_INVALID);
}

TEST(option_is_set_alone) {
    struct lists lists;
    char *argv[] = {"t", "--listen-port", "3"};
    EXPECT_EQ(parse_lists(&lists, ARRAY_LEN(argv), argv), OPTION_RUN);
    EXPECT_EQ(option_set(&LIST_TABLE, &lists, "port", "4", &why), 0);
    EXPECT_EQ(lists.port, 4);
    EXPECT_EQ(option_set(&LIST_TABLE, &lists, "listen-port", "5", &why), 0);
    EXPECT_EQ(lists.port, 5);
    EXPECT_EQ(option_set(&LIST_TABLE, &lists, "port", "10", &why), ERR_INVALID);
    EXPECT_EQ(option_set(&LIST_TABLE, &lists, "prot", "1", &why), ERR_INVALID);
    EXPECT(strstr(why.text, "did you mean --port?"));
    EXPECT_EQ(lists.port, 5);
    option_free(&LIST_TABLE, &lists);
}

/* A flag whose value may be missing takes what follows unless that is a flag; a negative number is
 * none. */
TEST(option_values_that_may_be_missing) {
    static const struct {
        const char *after;
        int64_t gpu;
        bool verbose;
    } cases[] = {{NULL, -7, false}, {"3", 3, false},   {"-0", 0, false}, {"-1", -1, false},
                 {"-5", -5, false}, {"-9", -9, false}, {"-v", -7, true}, {"--verbose", -7, true},
                 {"0", 0, false},   {"--", -7, false}};
    struct {
        int64_t gpu;
        bool verbose;
    } some;
    static const struct option_row rows[] = {
        {"gpu", 0, OPTION_INT, 0, "0", .min = -9, .max = 9, .alone = "-7", .help = "."},
        {"verbose", 'v', OPTION_BOOL, sizeof(int64_t), "false", .help = "."}};
    static const struct option_table table = {
        .program = "t", .synopsis = "[OPTIONS]", .summary = "Tests.", .rows = rows, .count = 2};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *argv[] = {"t", "--gpu", (char *)cases[i].after, NULL};
        EXPECT_EQ(option_parse(&table, &some, cases[i].after ? 3 : 2, argv, NULL, 0, NULL, &why),
                  0);
        EXPECT_EQ(some.gpu, cases[i].gpu);
        EXPECT_EQ(some.verbose, cases[i].verbose);
        option_free(&table, &some);
    }
}

TEST(option_letters_are_those_of_the_table_alone) {
    static const struct option_row TWO[] = {
        {.name = "first", .short_name = 'f', .type = OPTION_BOOL, .help = "."},
        {.name = "beyond", .short_name = 'b', .type = OPTION_BOOL, .help = "."}};
    const struct option_table table = {
        .program = "trireme test", .summary = "Tests.", .rows = TWO, .count = 1};
    bool first = false;
    char *known[] = {"test", "-f"}, *unknown[] = {"test", "-b"};
    EXPECT_EQ(option_parse(&table, &first, 2, known, NULL, 0, NULL, &why), OPTION_RUN);
    EXPECT(first);
    EXPECT(option_parse(&table, &first, 2, unknown, NULL, 0, NULL, &why) < 0);
    EXPECT(strstr(why.text, "-b"));
}
