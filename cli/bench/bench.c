/* trireme bench serve: a load test of a running server. trireme bench compare: two of its reports. trireme bench plot: a picture of some. */
#include "cli/bench/load.h"
#include "cli/bench/plot.h"
#include "cli/bench/report.h"
#include "cli/commands.h"
#include "cli/talk.h"

#include "base/fsutil.h"
#include "base/words.h"
#include "formats/json_document.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BACKEND_OPENAI, BACKEND_CHAT };
enum { DATASET_RANDOM, DATASET_SHAREGPT, DATASET_TRACE };
static const char *const BACKENDS[] = {"openai", "openai-chat"};
static const char *const DATASETS[] = {"random", "sharegpt", "trace"};

struct bench_settings {
    int64_t port;
    const char *url, *api_key, *model, *endpoint, *dataset_path, *rate, *goodput;
    const char *measures, *percentiles, *result_dir, *result_filename;
    int backend, dataset;
    int64_t prompt_count, input_len, output_len, prefix_len, sharegpt_output_len, vocab, max_len;
    int64_t max_open, warmups, seed, timeout_ms;
    double range_ratio, burstiness, temperature, speed;
    bool ignore_eos, save, detailed, quiet;
};
#define ROW(field, name_, kind, ...)                                                               \
    { .name = name_, .type = kind, .offset = offsetof(struct bench_settings, field), __VA_ARGS__ }
#define LEN_MAX (1 << 24)
static const struct option_row ROWS[] = {
    ROW(url, "base-url", OPTION_STRING, .fallback = "http://127.0.0.1:8000", .important = true,
        .aliases = "--url", .help = "The server's address."),
    ROW(port, "port", OPTION_INT, .min = 0, .max = 65535,
        .help = "Of a server on this machine, instead of its address."),
    ROW(api_key, "api-key", OPTION_STRING, .help = "Its key.", .secret = true),
    ROW(backend, "backend", OPTION_ENUM, .fallback = "openai", .choices = "openai|openai-chat",
        .aliases = "--endpoint-type", .alias_words = "vllm=openai",
        .help = "Completions, or chats, whose random prompts are words, each about a token."),
    ROW(endpoint, "endpoint", OPTION_STRING,
        .help = "Path; default /v1/completions or /v1/chat/completions."),
    ROW(model, "model", OPTION_STRING, .short_name = 'm', .aliases = "--served-model-name",
        .help = "Its name there; default: the first of /v1/models."),
    ROW(dataset, "dataset-name", OPTION_ENUM, .fallback = "random", .important = true,
        .choices = "random|sharegpt|trace",
        .help = "Random tokens, first turns of conversations, or times and lengths of a trace."),
    ROW(dataset_path, "dataset-path", OPTION_STRING, .important = true,
        .help = "File of sharegpt (JSON) or trace (Mooncake's JSON lines, Azure's CSV)."),
    ROW(prompt_count, "num-prompts", OPTION_INT, .fallback = "1000", .min = 1, .max = 10000000,
        .important = true, .help = "Requests."),
    ROW(input_len, "random-input-len", OPTION_INT, .fallback = "1024", .min = 1, .max = LEN_MAX,
        .unit = "tokens", .important = true, .help = "random: tokens of a prompt."),
    ROW(output_len, "random-output-len", OPTION_INT, .fallback = "128", .min = 1, .max = LEN_MAX,
        .unit = "tokens", .aliases = "--decode-tokens", .important = true,
        .help = "random: tokens of an answer."),
    ROW(range_ratio, "random-range-ratio", OPTION_FLOAT, .fallback = "0", .max = 0.999,
        .help = "random: lengths are uniform in [length * (1 - r), length * (1 + r)]."),
    ROW(prefix_len, "random-prefix-len", OPTION_INT, .max = LEN_MAX, .unit = "tokens",
        .help = "random: tokens that all prompts begin with, ahead of their own."),
    ROW(vocab, "random-vocab", OPTION_INT, .max = 10000000, .unit = "tokens",
        .help = "Token ids of random prompts are below; 0: as /tokenizer_info says."),
    ROW(sharegpt_output_len, "sharegpt-output-len", OPTION_INT, .max = LEN_MAX, .unit = "tokens",
        .help = "sharegpt: tokens of an answer; 0: about as many as the file's answer has."),
    ROW(speed, "trace-speed", OPTION_FLOAT, .fallback = "1", .min = 0.000001, .max = 1000000,
        .help = "trace: its time runs so many times as fast."),
    ROW(max_len, "trace-max-len", OPTION_INT, .max = LEN_MAX, .unit = "tokens",
        .help = "trace: prompts and answers are cut to it; 0: none is."),
    ROW(rate, "request-rate", OPTION_STRING, .fallback = "inf", .important = true,
        .help = "Requests a second; inf: all at once. A trace has its own times."),
    ROW(burstiness, "burstiness", OPTION_FLOAT, .fallback = "1", .min = 0.001, .max = 1000000,
        .help = "Shape of the gamma distribution of the times between requests: 1 Poisson, less "
                "in bursts, more evenly."),
    ROW(max_open, "max-concurrency", OPTION_INT, .max = BENCH_OPEN_MAX, .unit = "requests",
        .aliases = "--concurrency", .important = true,
        .help = "Requests open at one time; 0: 4096."),
    ROW(warmups, "num-warmups", OPTION_INT, .max = 1000000,
        .help = "Requests that are sent first and not counted."),
    ROW(seed, "seed", OPTION_INT, .short_name = 's', .max = 9007199254740991.0,
        .help = "The same seed, the same requests."),
    ROW(ignore_eos, "ignore-eos", OPTION_BOOL,
        .help = "Answers are as long as asked, whatever the model says."),
    ROW(temperature, "temperature", OPTION_FLOAT, .max = 2, .help = "Of sampling."),
    ROW(timeout_ms, "timeout", OPTION_DURATION, .fallback = "10m", .min = 100, .max = 86400000,
        .unit = "ms", .help = "A request without a byte for so long has failed."),
    ROW(goodput, "goodput", OPTION_STRING, .many = true, .important = true,
        .help = "Limits in milliseconds, as ttft:200 tpot:50 e2el:5000; requests within all count "
                "for goodput."),
    ROW(measures, "percentile-metrics", OPTION_STRING, .fallback = "ttft,tpot,itl,e2el",
        .help = "Measures that are printed."),
    ROW(percentiles, "metric-percentiles", OPTION_STRING, .fallback = "99",
        .help = "Percentiles of them, as 50,90,99."),
    ROW(save, "save-result", OPTION_BOOL, .help = "Write a JSON file, too."),
    ROW(detailed, "save-detailed", OPTION_BOOL, .help = "With every request's own figures in it."),
    ROW(result_dir, "result-dir", OPTION_STRING, .fallback = ".", .help = "Its folder."),
    ROW(result_filename, "result-filename", OPTION_STRING,
        .help = "Its name, or a whole path; default BACKEND-RATEqps-MODEL-DATE.json."),
    ROW(quiet, "disable-tqdm", OPTION_BOOL, .help = "Show no progress."),
};
static const struct option_foreign FOREIGN[] = {
    {.flags = "--runs", .reason = "--num-prompts says how many requests are sent"},
    {.flags = "--num-ctx", .reason = "a server is started with the model's own context"},
    {.flags = "--json", .reason = "--save-result --result-filename FILE writes it"},
};
const struct option_table bench_options = {
    .program = "trireme bench",
    .synopsis =
        "serve [OPTIONS]\n       trireme bench [OPTIONS] MODEL\n       trireme bench compare A.json B.json\n       trireme bench plot A.json [B.json ...] >PICTURE.svg",
    .summary =
        "Sends requests to a running server as `vllm bench serve` does, and reports "
        "throughput and latencies; compares two reports, and draws up to four that were saved with --save-detailed. With a MODEL, to a server that is "
        "started for this alone: 16 prompts of 512 tokens, four at a time, unless options say otherwise.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS),
    .foreign = FOREIGN,
    .foreign_count = ARRAY_LEN(FOREIGN)};

static int parse_measures(const char *text, uint32_t *out, struct error *err) {
    struct bytes word;
    for (const char *at = text; words_next(&at, ", ", &word);) {
        int m = bench_find_measure(word);
        if (m == BENCH_MEASURE_COUNT)
            return error_set(err, ERR_INVALID,
                             "--percentile-metrics takes ttft, tpot, itl and e2el, not '%s'", text);
        *out |= 1u << m;
    }
    return 0;
}

static int parse_rate(const char *text, double *out, struct error *err) {
    char *end;
    *out = strcmp(text, "inf") ? strtod(text, &end) : INFINITY;
    if (isinf(*out) || (!*end && *out > 0))
        return 0;
    return error_set(err, ERR_INVALID, "--request-rate takes a number above 0 or inf, not '%s'",
                     text);
}

struct bench {
    struct bench_settings settings;
    struct bench_about about;
    struct bench_load_config load;
    struct bench_random random;
    bench_prompts prompts;
    double *times; /* owned */
    char *model;   /* owned */
};

/* GET path: the value at `place` of the answer. NULL, or owned by *document. */
static const cJSON *ask(const struct bench *b, const char *path, const char *place,
                        cJSON **document, struct error *err) {
    struct buf answer;
    buf_init(&answer, 0);
    *document = NULL;
    int status = api_call(&b->load.client, path, NULL, &answer, 10000, err);
    if (status >= 0 && status != 200)
        status = api_status_error(b->settings.url, path, status, buf_bytes(&answer), err);
    if (status >= 0)
        status = json_document_parse(buf_bytes(&answer), document, err);
    buf_release(&answer);
    const cJSON *found = status < 0 ? NULL : json_document_find(*document, place);
    if (status >= 0 && !found)
        error_set(err, ERR_INVALID, "what %s answers to %s has no '%s'", b->settings.url, path,
                  place);
    return found;
}

static int find_model(struct bench *b, struct error *err) {
    cJSON *document = NULL;
    if (b->settings.model) {
        b->model = mem_strdup(b->settings.model);
    } else {
        const cJSON *id = ask(b, "/v1/models", "data.0.id", &document, err);
        if (!cJSON_IsString(id)) {
            cJSON_Delete(document);
            return err->code ? err->code : error_set(err, ERR_INVALID, "no model is served");
        }
        b->model = mem_strdup(id->valuestring);
    }
    cJSON_Delete(document);
    b->load.model = b->about.model = b->model;
    return 0;
}

static int find_vocab(struct bench *b, uint32_t *out, struct error *err) {
    *out = (uint32_t)b->settings.vocab;
    if (*out || b->settings.backend == BACKEND_CHAT || b->settings.dataset == DATASET_SHAREGPT)
        return 0;
    cJSON *document;
    const cJSON *count = ask(b, "/tokenizer_info", "vocab_size", &document, err);
    *out = cJSON_IsNumber(count) && count->valuedouble >= 1 && count->valuedouble <= UINT32_MAX
               ? (uint32_t)count->valuedouble
               : 0;
    cJSON_Delete(document);
    return *out ? 0
                : error_set(err, ERR_INVALID,
                            "the server does not tell the size of its vocabulary; say "
                            "--random-vocab, or use --backend openai-chat");
}

static int make_prompts(struct bench *b, struct error *err) {
    const struct bench_settings *s = &b->settings;
    struct bench_dataset_config c = {.count = (size_t)(s->prompt_count),
                                     .as_text = s->backend == BACKEND_CHAT,
                                     .input_len = (uint32_t)s->input_len,
                                     .output_len = (uint32_t)s->output_len,
                                     .prefix_len = (uint32_t)s->prefix_len,
                                     .range_ratio = s->range_ratio,
                                     .max_len = (uint32_t)s->max_len};
    if (s->dataset != DATASET_RANDOM && !s->dataset_path)
        return error_set(err, ERR_INVALID, "--dataset-name %s needs --dataset-path",
                         DATASETS[s->dataset]);
    int rc = find_vocab(b, &c.vocab, err);
    if (rc)
        return rc;
    if (s->dataset == DATASET_RANDOM)
        bench_random_prompts(&c, &b->random, &b->prompts);
    if (s->dataset == DATASET_SHAREGPT) {
        c.output_len = (uint32_t)s->sharegpt_output_len;
        rc = bench_sharegpt_prompts(s->dataset_path, &c, &b->random, &b->prompts, err);
    }
    if (s->dataset == DATASET_TRACE)
        rc = bench_trace_prompts(s->dataset_path, &c, &b->random, &b->prompts, err);
    if (rc)
        return rc;
    b->about.prompt_count = b->prompts.count;
    b->times = mem_calloc(b->prompts.count, sizeof *b->times);
    bench_arrivals(b->times, b->prompts.count, b->about.rate, s->burstiness, &b->random);
    for (size_t i = 0; i < b->prompts.count && s->dataset == DATASET_TRACE; i++)
        b->times[i] = b->prompts.items[i].at / s->speed;
    return 0;
}

static int prepare(struct bench *b, struct error *err) {
    struct bench_settings *s = &b->settings;
    static const char *const ENDPOINTS[] = {"/v1/completions", "/v1/chat/completions"};
    b->about = (struct bench_about){.backend = BACKENDS[s->backend],
                                    .dataset = DATASETS[s->dataset],
                                    .burstiness = s->burstiness,
                                    .max_open = (size_t)s->max_open,
                                    .detailed = s->detailed};
    b->random = (struct bench_random){(uint64_t)s->seed};
    b->load =
        (struct bench_load_config){.endpoint = s->endpoint ? s->endpoint : ENDPOINTS[s->backend],
                                   .chat = s->backend == BACKEND_CHAT,
                                   .ignore_eos = s->ignore_eos,
                                   .temperature = s->temperature,
                                   .max_open = s->max_open ? (size_t)s->max_open : BENCH_OPEN_MAX,
                                   .timeout_ms = (int)s->timeout_ms};
    int rc = parse_rate(s->rate, &b->about.rate, err);
    if (!rc)
        rc = bench_limits_parse(s->goodput, &b->about.limits, err);
    if (!rc)
        rc = bench_percentiles_parse(s->percentiles, &b->about.percentiles, err);
    if (!rc)
        rc = parse_measures(s->measures, &b->about.measures, err);
    if (!rc)
        rc = api_client_init(&b->load.client, s->url, s->api_key, err);
    if (!rc)
        rc = find_model(b, err);
    return rc ? rc : make_prompts(b, err);
}

static void show_progress(void *ctx, size_t done) {
    const struct bench *b = ctx;
    fprintf(stderr, "\r%zu of %zu requests%s", done, b->prompts.count,
            done == b->prompts.count ? "\n" : "");
}

/* Sends the first prompts, one after another, and forgets what came back. */
static int warm_up(struct bench *b, struct error *err) {
    int rc = 0;
    for (int64_t i = 0; i < b->settings.warmups && !rc; i++) {
        struct bench_outcome outcome;
        const double at = 0;
        bench_load(&b->load, &b->prompts.items[(size_t)i % b->prompts.count], &at, 1, &outcome);
        if (outcome.error)
            rc = error_set(err, ERR_INVALID, "a warm-up request failed: %s", outcome.error);
        bench_outcome_release(&outcome);
    }
    return rc;
}

/* Where the report goes: a whole path as it is, else a name in the results' folder. Owned by the caller. */
static char *result_path(const struct bench *b) {
    const struct bench_settings *settings = &b->settings;
    if (settings->result_filename)
        return *settings->result_filename == '/'
                   ? mem_strdup(settings->result_filename)
                   : path_join(settings->result_dir, settings->result_filename);
    char date[32];
    time_t now = time(NULL);
    struct tm tm;
    struct buf name;
    strftime(date, sizeof date, "%Y%m%d-%H%M%S", gmtime_r(&now, &tm));
    buf_init(&name, 0);
    buf_addf(&name, "%s-%gqps-%s-%s.json", b->about.backend, b->about.rate, b->model, date);
    for (size_t i = 0; i < name.len; i++)
        if (name.data[i] == '/')
            name.data[i] = '_';
    char *path = path_join(settings->result_dir, buf_text(&name));
    buf_release(&name);
    return path;
}

static int save(const struct bench *b, const struct bench_report *report,
                const struct bench_outcome *outcomes, struct error *err) {
    struct buf json;
    buf_init(&json, 0);
    bench_report_json(&json, &b->about, report, outcomes, b->prompts.count);
    char *path = result_path(b);
    int rc = dir_make(b->settings.result_dir, 0755, err);
    if (!rc)
        rc = file_write_atomic(path, json.data, json.len, 0644, err);
    if (!rc)
        printf("wrote %s\n", path);
    mem_free(path);
    buf_release(&json);
    return rc;
}

static int run(struct bench *b, struct error *err) {
    int rc = warm_up(b, err);
    if (rc)
        return rc;
    size_t count = b->prompts.count;
    struct bench_outcome *outcomes = mem_calloc(count, sizeof *outcomes);
    struct bench_report report;
    struct buf text;
    buf_init(&text, 0);
    if (!b->settings.quiet && isatty(STDERR_FILENO)) {
        b->load.on_done = show_progress;
        b->load.ctx = b;
    }
    double seconds = bench_load(&b->load, b->prompts.items, b->times, count, outcomes);
    bench_count(outcomes, count, seconds, &b->about.limits, &b->about.percentiles, &report);
    bench_report_text(&text, &b->about, &report);
    fputs(buf_text(&text), stdout);
    for (size_t i = 0; i < count && report.failed; i++) {
        if (!outcomes[i].error)
            continue;
        printf("The first request that failed: %s\n", outcomes[i].error);
        break;
    }
    if (b->settings.save)
        rc = save(b, &report, outcomes, err);
    if (!rc && !report.completed)
        rc = error_set(err, ERR_INVALID, "no request was answered");
    for (size_t i = 0; i < count; i++)
        bench_outcome_release(&outcomes[i]);
    mem_free(outcomes);
    buf_release(&text);
    return rc;
}

static int compare(char **argv, struct error *err) {
    struct buf a, b, out;
    buf_init(&a, 0);
    buf_init(&b, 0);
    buf_init(&out, 0);
    int rc = file_read_any(argv[1], JSON_DOCUMENT_MAX, &a, err);
    if (!rc)
        rc = file_read_any(argv[2], JSON_DOCUMENT_MAX, &b, err);
    if (!rc)
        rc = bench_compare(&out, &(struct bench_report_file){argv[1], buf_bytes(&a)},
                           &(struct bench_report_file){argv[2], buf_bytes(&b)}, err);
    if (!rc)
        fputs(buf_text(&out), stdout);
    buf_release(&a);
    buf_release(&b);
    buf_release(&out);
    return rc;
}

/* The picture of up to BENCH_PLOT_REPORTS_MAX reports, to standard output. */
static int plot(int argc, char **argv, struct error *err) {
    struct bench_report_file reports[BENCH_PLOT_REPORTS_MAX];
    struct buf texts[BENCH_PLOT_REPORTS_MAX], out;
    size_t count = 0, wanted = (size_t)argc - 1;
    int rc = 0;
    buf_init(&out, 0);
    for (; count < wanted && !rc; count++) {
        buf_init(&texts[count], 0);
        rc = file_read_any(argv[count + 1], JSON_DOCUMENT_MAX, &texts[count], err);
        reports[count] = (struct bench_report_file){argv[count + 1], buf_bytes(&texts[count])};
    }
    if (!rc)
        rc = bench_plot(&out, reports, count, err);
    if (!rc)
        fputs(buf_text(&out), stdout);
    while (count)
        buf_release(&texts[--count]);
    buf_release(&out);
    return rc;
}

/* A load test of the server that the settings name. */
static int bench_server(struct bench *b, struct error *err) {
    int rc = prepare(b, err);
    if (!rc)
        rc = run(b, err);
    bench_prompts_release(&b->prompts);
    mem_free(b->times);
    mem_free(b->model);
    return rc;
}

/* The same of a server that is started for it. Its model is the only one there, so no name is needed. */
static int bench_model(struct bench *b, const char *model, struct error *err) {
    const struct talk_settings private = {.model = model};
    struct talk t;
    char url[64];
    int rc = talk_begin(&t, &private, model, err);
    if (rc)
        return rc;
    snprintf(url, sizeof url, "http://127.0.0.1:%u", t.client.port);
    const struct bench_settings given = b->settings;
    b->settings.url = url;
    b->settings.model = NULL;
    rc = bench_server(b, err);
    b->settings = given;
    talk_end(&t);
    return rc;
}

/* What is asked of a private server unless options say otherwise: it is to end within minutes. */
static void rows_of_private(struct option_row rows[ARRAY_LEN(ROWS)]) {
    static const char *const USUAL[][2] = {{"num-prompts", "16"},
                                           {"random-input-len", "512"},
                                           {"max-concurrency", "4"},
                                           {"ignore-eos", "true"}};
    memcpy(rows, ROWS, sizeof ROWS);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        for (size_t k = 0; k < ARRAY_LEN(USUAL); k++)
            if (!strcmp(rows[i].name, USUAL[k][0]))
                rows[i].fallback = USUAL[k][1];
}

/* A misspelt 'serve' is none. */
static bool may_be_model(const char *word) {
    return strpbrk(word, "/:") || access(word, F_OK) == 0;
}

/* compare and plot take files alone. OPTION_HELP_PRINTED as of option_parse. */
static int check_files(int argc, char **argv, struct error *err) {
    char *help[] = {argv[0], "--help", NULL};
    struct bench_settings ignored;
    const bool compares = !strcmp(argv[1], "compare");
    for (int i = 2; i < argc; i++) {
        if (argv[i][0] != '-')
            continue;
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return option_parse(&bench_options, &ignored, 2, help, NULL, 0, NULL, err);
        return error_set(err, ERR_INVALID,
                         "%s takes files alone, and writes to the standard output: '%s' is none",
                         argv[1], argv[i]);
    }
    if (compares && argc != 4)
        return error_set(err, ERR_INVALID, "compare takes two JSON reports");
    if (argc < 3 || argc > 2 + BENCH_PLOT_REPORTS_MAX)
        return error_set(err, ERR_INVALID, "plot takes one to %d JSON reports",
                         BENCH_PLOT_REPORTS_MAX);
    return 0;
}

int bench_main(int argc, char **argv) {
    struct bench b = {0};
    struct error err = {0};
    const char *what = argc > 1 ? argv[1] : "", *word;
    size_t count = 0;
    int rc;
    if (!strcmp(what, "compare") || !strcmp(what, "plot")) {
        rc = check_files(argc, argv, &err);
        if (rc < 0)
            return command_misused("bench", NULL, NULL, &err);
        if (rc == OPTION_HELP_PRINTED)
            return 0;
        rc = *what == 'c' ? compare(argv + 1, &err) : plot(argc - 1, argv + 1, &err);
    } else {
        bool serve = !strcmp(what, "serve");
        struct option_row rows[ARRAY_LEN(ROWS)];
        struct option_table table = bench_options;
        rows_of_private(rows);
        if (!serve)
            table.rows = rows;
        rc = option_parse(&table, &b.settings, argc - serve, argv + serve, &word, !serve, &count,
                          &err);
        if (!rc && !serve && !count)
            rc = error_set(&err, ERR_INVALID,
                           "say serve, compare, plot or a model; trireme bench --help tells more");
        else if (!rc && !serve && !may_be_model(word))
            rc = error_set(
                &err, ERR_INVALID,
                "say serve, compare or plot, or a model as a path or a hub's name: '%s' is none",
                word);
        if (rc < 0)
            return command_misused("bench", &bench_options, &b.settings, &err);
        if (rc == OPTION_HELP_PRINTED)
            return 0;
        api_client_take_port(&b.settings.url, b.settings.port);
        rc = serve ? bench_server(&b, &err) : bench_model(&b, word, &err);
        option_free(&bench_options, &b.settings);
    }
    if (rc < 0)
        fprintf(stderr, "trireme bench: %s\n", err.text);
    return rc < 0;
}
