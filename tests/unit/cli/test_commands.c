/* Commands that need no server, called as a shell calls them: exit code, standard output, standard error. */
#include "base/exit_reason.h"
#include "cli/report.h"
#include "formats/json.h"
#include "proto/link_key.h"
#include "run_commands.h"

TEST(tokenize_and_decode_are_each_others_inverse) {
    static const struct expected ROWS[] = {
        {{"tokenize", MODEL, "Hello there"}, NULL, 0, "3066,1267,373\n", NULL},
        {{"tokenize", "--add-special=false", MODEL, "Hello there"}, NULL, 0, "1267,373\n", NULL},
        {{"tokenize", MODEL}, "Hello there", 0, "3066,1267,373\n", NULL},
        {{"tokenize", "--add-special=false", MODEL, "<|end|>"}, NULL, 0, "27,91,408,91,29\n", NULL},
        {{"tokenize", "--add-special=false", "--parse-special", MODEL, "<|end|>"},
         NULL,
         0,
         "3067\n",
         NULL},
        {{"tokenize", MODEL, "a", "b"}, NULL, 2, NULL, "trireme tokenize: unexpected argument 'b'"},
        {{"tokenize"}, NULL, 2, NULL, "trireme tokenize: give a model, or --vocab"},
        {{"decode", MODEL, "1267", "373"}, NULL, 0, "Hello there\n", NULL},
        {{"decode", MODEL, "1267,373"}, NULL, 0, "Hello there\n", NULL},
        {{"decode", MODEL, "--ids=[1267, 373]"}, NULL, 0, "Hello there\n", NULL},
        {{"decode", MODEL}, "[1267,\n373]", 0, "Hello there\n", NULL},
        {{"decode", "--model", MODEL, "1267", "373"}, NULL, 0, "Hello there\n", NULL},
        {{"decode", MODEL, "3067"}, NULL, 0, "<|end|>\n", NULL},
        {{"decode", "--skip-special", MODEL, "3067"}, NULL, 0, "\n", NULL},
        {{"decode", MODEL, "3071"}, NULL, 0, "<|pad|>\n", NULL},
        {{"decode", MODEL, "3072"},
         NULL,
         1,
         NULL,
         "'3072' is no token of the vocabulary (0 to 3071)"},
        {{"decode", MODEL, "1,-1"}, NULL, 1, NULL, "'-1' is no token of the vocabulary"},
        {{"decode", MODEL, "x"}, NULL, 1, NULL, "'x' is no token of the vocabulary"},
        {{"tokenize", "--jsonl", MODEL},
         "{\"text\":\"Hello there\",\"offsets\":true}\n\n[1]\n{\"text\":5}\n"
         "{\"text\":\"<|end|>\",\"parse_special\":true,\"add_special\":false}\n"
         "{\"text\":\"a\",\"parse_special\":1}\n{\"text\":\"a\",\"add_special\":\"\"}\n"
         "{\"text\":\"a\",\"offsets\":0}\n{\"text\":\"\",\"add_special\":null}\n{",
         0,
         "{\"ids\":[3066,1267,373],\"offsets\":[[0,0],[0,5],[5,11]]}\n"
         "{\"error\":\"the line must be a JSON object\"}\n"
         "{\"error\":\"\\\"text\\\" must be a string\"}\n"
         "{\"ids\":[3067]}\n"
         "{\"error\":\"\\\"parse_special\\\" must be true or false\"}\n"
         "{\"error\":\"\\\"add_special\\\" must be true or false\"}\n"
         "{\"error\":\"\\\"offsets\\\" must be true or false\"}\n"
         "{\"ids\":[3066]}\n"
         "{\"error\":\"unexpected end of the text at byte 1\"}\n",
         NULL},
        {{"decode", "--jsonl", MODEL},
         "{\"ids\":[1267,3067]}\n{\"ids\":[1267,3067],\"skip_special\":true}\n{\"ids\":[]}\n"
         "{\"ids\":[0,3072]}\n{\"ids\":3}\n{\"ids\":[\"a\"]}\n{\"ids\":[-1]}\n",
         0,
         "{\"text\":\"Hello<|end|>\"}\n{\"text\":\"Hello\"}\n{\"text\":\"\"}\n"
         "{\"error\":\"\\\"ids\\\": entry 1 is no token of the vocabulary (0 to 3071)\"}\n"
         "{\"error\":\"\\\"ids\\\" must be a list of integers\"}\n"
         "{\"error\":\"\\\"ids\\\": entry 0 is no token of the vocabulary (0 to 3071)\"}\n"
         "{\"error\":\"\\\"ids\\\": entry 0 is no token of the vocabulary (0 to 3071)\"}\n",
         NULL},
    };
    setenv("XDG_CACHE_HOME", in_folder("cache"), 1);
    check_rows(ROWS, ARRAY_LEN(ROWS));
}

/* A file of the test's folder with this in it. */
static const char *file_with(const char *name, const char *text) {
    const char *path = in_folder(name);
    CHECK(!file_write_atomic(path, text, strlen(text), 0600, NULL));
    return path;
}

TEST(render_shows_what_a_template_makes) {
    const char *t = file_with("t", "{{ a }}|{{ strftime_now('%Y-%m-%d %H:%M:%S') }}"),
               *bad = file_with("bad", "{% if %}");
    static const struct {
        const char *now, *shown; /* NULL: it is none */
    } TIMES[] = {{"2025-07-10", "2025-07-10 00:00:00"},
                 {"2025-07-10T12:30:05", "2025-07-10 12:30:05"},
                 {"2025-07-10 12:30:05", "2025-07-10 12:30:05"},
                 {"2025-07-10T12:30", "2025-07-10 12:30:00"},
                 {"2025-07-10 12:30", "2025-07-10 12:30:00"},
                 {"2025-07-10T12:30:05Z", "2025-07-10 12:30:05"},
                 {"2025-07-10T12:30:05.123456", "2025-07-10 12:30:05"},
                 {"2025-07-10T12:30:05.123Z", "2025-07-10 12:30:05"},
                 {"2025-07-10x", NULL},
                 {"2025-07-10T12:30:05Zx", NULL},
                 {"now", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(TIMES); i++) {
        char option[64], text[128];
        snprintf(option, sizeof option, "--now=%s", TIMES[i].now);
        int code = RUN("{\"a\": 1}\n", "render", t, option);
        snprintf(text, sizeof text, "{\"text\":\"1|%s\"}\n", TIMES[i].shown);
        if (code != (TIMES[i].shown ? 0 : 2) ||
            strcmp(buf_text(&out), TIMES[i].shown ? text : "") != 0)
            check_fail(__FILE__, __LINE__, "%s: exit code %d, %s", option, code, buf_text(&out));
        if (!TIMES[i].shown)
            EXPECT(strstr(buf_text(&err), "' is no time such as 2025-07-10T12:00:00"));
    }
    EXPECT_EQ(RUN("{}", "render", t), 0); /* the clock's */
    EXPECT(strlen(buf_text(&out)) == strlen("{\"text\":\"|2025-07-10 00:00:00\"}\n"));
    EXPECT_EQ(RUN("[]\n{\n", "render", t), 0);
    EXPECT(!strncmp(buf_text(&out), "{\"error\":\"the line must be a JSON object\"}\n{\"error\":\"",
                    52));
    EXPECT_EQ(RUN("{}\n", "render", bad), 0);
    EXPECT(!strncmp(buf_text(&out), "{\"error\":\"", 10));
    EXPECT_EQ(RUN("", "render"), 2);
    EXPECT(strstr(buf_text(&err), "trireme render: --template FILE is needed"));
    EXPECT_EQ(RUN("", "render", "/no/such/file"), 1);
    EXPECT(strstr(buf_text(&err), "trireme render: cannot"));
}

TEST(grammar_tells_which_texts_fit) {
    static const struct expected ROWS[] = {
        {{"grammar"},
         "{\"regex\": \"a+\", \"texts\": [\"a\", \"aa\", \"\", \"b\", \"ab\"]}\n"
         "{\"texts\": [\"1\", \"-\"], \"schema\": {\"type\": \"integer\"}}\n"
         "{\"schema\": \"true\", \"texts\": [\"[ ]\"]}\n"
         "{\"gbnf\": \"root ::= \\\"x\\\" | \\\"yz\\\"\", \"texts\": [\"x\", \"yz\", \"y\"]}\n"
         "{\"lark\": \"start: \\\"q\\\"\", \"texts\": [\"q\", \"p\"]}\n"
         "{\"regex\": \"a\"}\n",
         0,
         "{\"ok\":true,\"accepts\":[true,true,false,false,false]}\n"
         "{\"ok\":true,\"accepts\":[true,false]}\n"
         "{\"ok\":true,\"accepts\":[true]}\n"
         "{\"ok\":true,\"accepts\":[true,true,false]}\n"
         "{\"ok\":true,\"accepts\":[true,false]}\n"
         "{\"ok\":true,\"accepts\":[]}\n",
         NULL},
        {{"grammar", "--compact"},
         "{\"schema\": true, \"texts\": [\"[ ]\", \"[]\"]}\n",
         0,
         "{\"ok\":true,\"accepts\":[false,true]}\n",
         NULL},
        {{"grammar"},
         "{\"schema\": {\"properties\": {\"a\": {}, \"b\": {}}, \"required\": [\"a\", \"b\"]},"
         " \"texts\": [\"{\\\"b\\\":1,\\\"a\\\":1}\"]}\n",
         0,
         "{\"ok\":true,\"accepts\":[true]}\n",
         NULL},
        {{"grammar", "--ordered"},
         "{\"schema\": {\"properties\": {\"a\": {}, \"b\": {}}, \"required\": [\"a\", \"b\"]},"
         " \"texts\": [\"{\\\"b\\\":1,\\\"a\\\":1}\", \"{\\\"a\\\":1,\\\"b\\\":1}\"]}\n",
         0,
         "{\"ok\":true,\"accepts\":[false,true]}\n",
         NULL},
        {{"grammar"}, /* a schema may refuse all; a grammar that can make no text is a mistake */
         "{\"schema\": false, \"texts\": [\"1\", \"\"]}\n{\"gbnf\": \"root ::= root\"}\n",
         0,
         "{\"ok\":true,\"accepts\":[false,false]}\n"
         "{\"ok\":false,\"error\":\"a rule of the grammar calls itself before it reads anything (left recursion)\"}\n",
         NULL},
        {{"grammar"},
         "{\"texts\": []}\n{\"regex\": \"a\", \"lark\": \"\"}\n{\"x\": 1}\n{\"regex\": \"a\","
         " \"texts\": [1]}\n",
         0,
         "{\"ok\":false,\"error\":\"there is no constraint (schema, regex, gbnf, lark or "
         "structure) at byte 12\"}\n"
         "{\"ok\":false,\"error\":\"there is more than one constraint at byte 15\"}\n"
         "{\"ok\":false,\"error\":\"unknown key; known are schema, regex, gbnf, lark, structure, "
         "texts at byte 1\"}\n"
         "{\"ok\":false,\"error\":\"\\\"texts\\\" holds something that is no string at byte 25\"}\n",
         NULL},
    };
    check_rows(ROWS, ARRAY_LEN(ROWS));
    EXPECT_EQ(RUN("{\"regex\": \"(\"}\n", "grammar"), 0);
    EXPECT(!strncmp(buf_text(&out), "{\"ok\":false,\"error\":\"", 21));
}

/* One string, so long that the tables of what was met have to be made anew within it. */
TEST(grammar_reads_long_texts) {
    enum { LONGEST = 150000 };
    struct buf line = {0};
    buf_addf(&line, "{\"schema\":{\"type\":\"string\",\"maxLength\":%d},\"texts\":[", LONGEST);
    for (int more = 0; more < 2; more++) {
        buf_add_str(&line, more ? ",\"\\\"" : "\"\\\"");
        for (int i = 0; i < LONGEST + more; i++)
            buf_add_byte(&line, 'x');
        buf_add_str(&line, "\\\"\"");
    }
    buf_add_str(&line, "]}\n");
    EXPECT_EQ(RUN(buf_text(&line), "grammar"), 0);
    EXPECT(!strcmp(buf_text(&out), "{\"ok\":true,\"accepts\":[true,false]}\n"));
    buf_release(&line);
}

/* Line by line, but for what is said of the machine. */
TEST(info_tells_what_a_model_is) {
    static const char *const TEXT =
        "model           " MODEL "\n"
        "family          llama\n"
        "layers          5, hidden 256\n"
        "                0-4: attention, 4 heads of 64, 2 for keys and values; gated feed-forward "
        "of width 768\n"
        "context         2048 tokens\n"
        "logits          3072, head tied to the embedding\n"
        "KV cache        2.56 kB a token as f16\n"
        "                5.24 MB for one full context\n"
        "weights         4.72 M in 47 tensors and 1 file, 9.44 MB\n"
        "                4.72 M as BF16\n"
        "tokenizer       3072 tokens; an answer ends with <|end|>\n"
        "chat template   yes\n"
        "this machine    ";
    static const char *const JSON[] = {
        "\"family\":\t\"llama\"",  "\"quantized\":\tnull",
        "\"layers\":\t5",          "\"hidden\":\t256",
        "\"layers\":\t\"0-4\"",    "\"context_tokens\":\t2048",
        "\"not_read\":\tnull",     "\"logits\":\t3072",
        "\"tied_head\":\ttrue",    "\"kv_bytes_a_token\":\t2560",
        "\"weights\":\t4721408",   "\"weight_bytes\":\t9442816",
        "\"tensors\":\t47",        "\"files\":\t1",
        "\"type\":\t\"BF16\"",     "\"answers_end_with\":\t[\"<|end|>\"]",
        "\"vocabulary\":\t3072",   "\"chat_template\":\ttrue",
        "\"can_be_served\":\ttrue"};
    EXPECT_EQ(RUN("", "info", MODEL), 0);
    EXPECT(!strncmp(buf_text(&out), TEXT, strlen(TEXT)));
    EXPECT(strstr(buf_text(&out), "\ncan be served   yes\n"));
    EXPECT_EQ(RUN("", "info", "--json", MODEL), 0);
    for (size_t i = 0; i < ARRAY_LEN(JSON); i++)
        if (!strstr(buf_text(&out), JSON[i]))
            check_fail(__FILE__, __LINE__, "%s is not in %s", JSON[i], buf_text(&out));
    EXPECT(!json_scan(buf_bytes(&out), 0, NULL));
    static const struct expected ROWS[] = {
        {{"info"}, NULL, 2, NULL, "trireme info: give a model folder"},
        {{"info", TRIREME_SOURCE_DIR "/README.md"},
         NULL,
         1,
         NULL,
         "/README.md' is no model: neither a folder with config.json nor a GGUF file"},
        {{"info", "./no-such-folder"},
         NULL,
         1,
         NULL,
         "trireme info: './no-such-folder' is not there"},
    };
    check_rows(ROWS, ARRAY_LEN(ROWS));
    CHECK(!mkdir(in_folder("empty"), 0700));
    EXPECT_EQ(RUN("", "info", in_folder("empty")), 1);
    EXPECT(strstr(buf_text(&out), "\ncan be served   no, for the reasons above\n"));
    EXPECT_EQ(RUN("", "info", "--json", in_folder("empty")), 1);
    EXPECT(strstr(buf_text(&out), "\"can_be_served\":\tfalse") &&
           strstr(buf_text(&out), "\"errors\":\t["));
}

/* Which layers are alike is told in ranges; and what else the files of larger models say. */
TEST(info_tells_kinds_of_layers_apart) {
    const char *folder_of = TRIREME_SOURCE_DIR "/tests/goldens/embeddings/qwen3-last";
    EXPECT_EQ(RUN("", "info", folder_of), 0);
    EXPECT(strstr(buf_text(&out), "\nembeddings      --pooling last, of length 1\n"));
    EXPECT_EQ(RUN("", "info", "--json", folder_of), 0);
    EXPECT(strstr(buf_text(&out), "\"embeddings\":\t\"last\""));
    const char *mixed = in_folder("mixed");
    CHECK(!mkdir(mixed, 0700));
    file_with("mixed/config.json",
              "{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":8,\"hidden_size\":64,"
              "\"num_attention_heads\":4,\"num_key_value_heads\":1,\"head_dim\":16,"
              "\"intermediate_size\":128,\"vocab_size\":96,\"max_position_embeddings\":512,"
              "\"sliding_window\":32,\"sliding_window_pattern\":3}");
    EXPECT_EQ(RUN("", "info", mixed), 1); /* there are no weights */
    EXPECT(strstr(buf_text(&out),
                  "layers          8, hidden 64\n"
                  "                0-1, 3-4, 6-7: attention, 4 heads of 16, 1 for keys and values, "
                  "window 32; gated feed-forward of width 128\n"
                  "                2, 5: attention, 4 heads of 16, 1 for keys and values; gated "
                  "feed-forward of width 128\n"));
}

TEST(doctor_plans_the_memory) {
    static const char *const LINES[] = {"\nmodel           " MODEL "\n",
                                        "\nweights         9.44 MB, mapped from the files",
                                        " for steps of 128 tokens\n",
                                        " for 8 sequences of 512 tokens\n",
                                        "\nKV cache        5.24 MB: 64 blocks of 32 tokens, f16\n",
                                        "\nfits            yes\n"};
    static const char *const JSON[] = {
        "\"weight_bytes\":\t9442816", "\"kv_bytes\":\t5242880",   "\"blocks\":\t64",
        "\"block_tokens\":\t32",      "\"context_tokens\":\t512", "\"fits\":\ttrue",
        "\"hidden_features\":\tnull", "\"together_bytes\":\t"};
    unsetenv("TRIREME_CPU_FEATURES");
    for (int json = 0; json < 2; json++) {
        EXPECT_EQ(RUN("", "doctor", MODEL, "--blocks=64", "--slots=8", "--max-step-tokens=128",
                      "--max-context=512", "--kv-type=f16", "--device=cpu",
                      json ? "--json" : "--json=false"),
                  0);
        for (size_t i = 0; i < (json ? ARRAY_LEN(JSON) : ARRAY_LEN(LINES)); i++)
            if (!strstr(buf_text(&out), json ? JSON[i] : LINES[i]))
                check_fail(__FILE__, __LINE__, "%s is not in %s", json ? JSON[i] : LINES[i],
                           buf_text(&out));
    }
    EXPECT_EQ(RUN("", "doctor", "--device=cpu"), 0); /* the machine alone */
    EXPECT(strstr(buf_text(&out), "memory   ") && !strstr(buf_text(&out), "fits"));
    EXPECT_EQ(RUN("", "doctor", MODEL, "--kv-bytes=1k", "--device=cpu"), 1);
    EXPECT(strstr(buf_text(&out), "\nfits            no\n") && buf_text(&err)[0]);
}

TEST(keygen_makes_keys_and_says_their_lines) {
    const char *key = in_folder("k"), *allow = in_folder("list");
    struct buf list = {0};
    EXPECT_EQ(RUN("", "keygen", "worker", "--out", key, "--allow", allow, "--name", "w1"), 0);
    EXPECT(!strncmp(buf_text(&out), "worker ", 7) && strstr(buf_text(&out), " w1\n"));
    EXPECT(!file_read(allow, 4096, &list, NULL) && strstr(buf_text(&list), buf_text(&out)));
    EXPECT_EQ(RUN("", "keygen", "worker", "--out", key), 1); /* never over one */
    char name[LINK_NAME_MAX + 1];
    memset(name, 'n', sizeof name);
    name[LINK_NAME_MAX] = 0; /* one sign too many */
    EXPECT_EQ(RUN("", "keygen", "worker", "--out", in_folder("k2"), "--name", name), 1);
    EXPECT(strstr(buf_text(&err), "--name takes at most"));
    EXPECT_EQ(RUN("", "keygen", "worker", "--out", in_folder("k2"), "--name", name + 1), 0);
    EXPECT(strstr(buf_text(&out), name + 1));
    EXPECT_EQ(RUN("", "keygen", "all", "--out", in_folder("keys")), 0);
    for (int role = 0; role < 4; role++) {
        static const char *const NAMES[] = {"gateway ", "worker ", "supervisor ", "scheduler "};
        EXPECT(strstr(buf_text(&out), NAMES[role]));
    }
    static const struct expected ROWS[] = {
        {{"keygen"}, NULL, 2, NULL, "which role? gateway, worker, supervisor, scheduler or all"},
        {{"keygen", "captain", "--out", "/tmp/x"}, NULL, 2, NULL, "which role? gateway"},
        {{"keygen", "gateway"}, NULL, 2, NULL, "where to? give --out FILE"},
        {{"keygen", "all"}, NULL, 2, NULL, "where to? give --out FOLDER"},
        {{"keygen", "all", "--out", "/nowhere/x", "--name", "n"},
         NULL,
         1,
         NULL,
         "all takes neither --allow nor --name"},
        {{"keygen", "all", "--out", "/nowhere/x", "--allow", "n"},
         NULL,
         1,
         NULL,
         "all takes neither --allow nor --name"},
        {{"keygen", "gateway", "--out", "/nowhere/x", "--name", "two words"},
         NULL,
         1,
         NULL,
         "no blanks, no #"},
        {{"keygen", "gateway", "--out", "/nowhere/x", "--name", "a#b"},
         NULL,
         1,
         NULL,
         "no blanks, no #"},
    };
    check_rows(ROWS, ARRAY_LEN(ROWS));
    buf_release(&list);
}

TEST(help_is_of_all_commands_and_of_each) {
    static const char *const ALIASES[][2] = {
        {"ps", "status"}, {"ls", "list"}, {"rm", "delete"}, {"stop", "unload"}, {"show", "info"}};
    EXPECT_EQ(RUN("", "help"), 0);
    struct buf all = {0};
    buf_add_bytes(&all, buf_bytes(&out));
    EXPECT(!strncmp(buf_text(&all), "Usage: trireme COMMAND [OPTIONS]\n\n  serve ", 41));
    EXPECT_EQ(RUN("", "--help"), 0);
    EXPECT_STR(buf_text(&out), buf_text(&all));
    EXPECT_EQ(RUN("", "-h"), 0);
    EXPECT_STR(buf_text(&out), buf_text(&all));
    EXPECT_EQ(RUN("", "help", "--help"), 0);
    EXPECT_STR(buf_text(&out), buf_text(&all));
    EXPECT_EQ(RUN("", ""), 2);
    EXPECT_STR(buf_text(&err), buf_text(&all));
    for (const char *line = strstr(buf_text(&all), "\n  "); line; line = strstr(line + 1, "\n  ")) {
        char name[24], usage[64];
        sscanf(line, "%20s", name);
        if (!strcmp(name, "help"))
            continue;
        snprintf(usage, sizeof usage, "Usage: trireme %s", name);
        if (RUN("", "help", name) || strncmp(buf_text(&out), usage, strlen(usage)) != 0)
            check_fail(__FILE__, __LINE__, "help of %s: %s", name, buf_text(&out));
        if (RUN("", name, "--help") || strncmp(buf_text(&out), usage, strlen(usage)) != 0)
            check_fail(__FILE__, __LINE__, "%s --help: %s", name, buf_text(&out));
    }
    for (size_t i = 0; i < ARRAY_LEN(ALIASES); i++) {
        char usage[64];
        snprintf(usage, sizeof usage, "Usage: trireme %s ", ALIASES[i][1]);
        EXPECT_EQ(RUN("", "help", ALIASES[i][0]), 0);
        EXPECT(!strncmp(buf_text(&out), usage, strlen(usage)));
    }
    buf_release(&all);
}

TEST(words_that_are_no_command_are_refused) {
    static const struct expected ROWS[] = {
        {{"version"}, NULL, 0, "trireme " TRIREME_VERSION "\n", NULL},
        {{"--version"}, NULL, 0, "trireme " TRIREME_VERSION "\n", NULL},
        {{"-V"}, NULL, 0, "trireme " TRIREME_VERSION "\n", NULL},
        {{"sail"},
         NULL,
         2,
         NULL,
         "trireme: there is no command 'sail'; trireme --help lists all\n"},
        {{"server"}, NULL, 2, NULL, "'server'; did you mean 'serve'?\n"},
        {{"quantise"}, NULL, 2, NULL, "'quantise'; did you mean 'quantize'?\n"},
        {{"-"}, NULL, 2, NULL, "trireme: there is no command '-'; trireme --help lists all\n"},
        {{"help", "sail"},
         NULL,
         2,
         NULL,
         "trireme: there is no command 'sail'; trireme --help lists all\n"},
        {{"help", "--completion", "csh"}, NULL, 2, NULL, "trireme help: "},
        {{"help", "--completion"}, NULL, 2, NULL, "trireme help: --completion needs a shell"},
        {{"help", "--completion", "bash", "zsh"}, NULL, 2, NULL, "trireme help: unexpected"},
        {{"help", "--files"}, NULL, 2, NULL, "trireme help: --files needs a folder"},
        {{"help", "serve", "sail"}, NULL, 2, NULL, "trireme help: unexpected argument 'sail'"},
        {{"version", "sail"}, NULL, 2, NULL, "trireme version: unexpected argument 'sail'"},
        {{"--version", "serve"}, NULL, 2, NULL, "trireme version: unexpected argument 'serve'"},
        {{"--config", "c", "tokenize"}, NULL, 2, NULL, "trireme tokenize: "},
        {{"--config=c", "--log-format=json", "tokenize"}, NULL, 2, NULL, "trireme tokenize: "},
    };
    check_rows(ROWS, ARRAY_LEN(ROWS));
    EXPECT_EQ(RUN("", "help", "--completion", "bash"), 0);
    struct buf completion = {0};
    buf_add_bytes(&completion, buf_bytes(&out));
    EXPECT(completion.len > 1000);
    EXPECT_EQ(RUN("", "completions", "bash"), 0); /* as others call it */
    EXPECT_STR(buf_text(&out), buf_text(&completion));
    buf_release(&completion);
}

/* Whichever command it is, a word that it does not know is named, and nothing is begun. */
TEST(commands_refuse_options_that_they_do_not_have) {
    static const char *const NAMES[] = {
        "serve",  "run",     "generate",   "chat",    "pull",      "list",   "delete",   "prune",
        "info",   "doctor",  "perplexity", "convert", "quantize",  "logits", "tokenize", "decode",
        "render", "grammar", "scale",      "load",    "reload",    "unload", "remove",   "status",
        "keygen", "top",     "bench",      "gateway", "scheduler", "worker", "ps",       "stop"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        char expected[100];
        snprintf(expected, sizeof expected,
                 "trireme %s: unknown option '--no-such-thing'; see trireme ", NAMES[i]);
        int code = RUN("", NAMES[i], "--no-such-thing");
        int misused = strcmp(NAMES[i], "worker")
                          ? 2
                          : EXIT_HOPELESS; /* a supervisor does not start it again */
        if (code != misused || !strstr(buf_text(&err), expected) || out.len)
            check_fail(__FILE__, __LINE__, "%s: exit code %d, prints\n%s\nand\n%s", NAMES[i], code,
                       buf_text(&out), buf_text(&err));
    }
}

TEST(sizes_have_three_digits) {
    static const struct {
        uint64_t value;
        const char *unit, *text;
    } SIZES[] = {{0, "B", "0 B"},
                 {1, "B", "1 B"},
                 {999, "", "999 "},
                 {1000, "B", "1 kB"},
                 {999499, "B", "999 kB"},
                 {999500, "B", "1 MB"},
                 {1234567890, "B", "1.23 GB"},
                 {10000000000000, "", "10 T"},
                 {UINT64_MAX, "B", "1.84e+04 PB"}};
    char text[HUMAN_MAX];
    for (size_t i = 0; i < ARRAY_LEN(SIZES); i++)
        EXPECT_STR(human(SIZES[i].value, SIZES[i].unit, text), SIZES[i].text);
}
