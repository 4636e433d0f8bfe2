#include "cli/bench/report.h"

#include "formats/json.h"
#include "formats/json_document.h"

#include <math.h>
#include <stdio.h>

static const struct {
    const char *title, *abbreviation;
} MEASURES[BENCH_MEASURE_COUNT] = {
    [BENCH_TTFT] = {"Time to First Token", "TTFT"},
    [BENCH_TPOT] = {"Time per Output Token (excl. 1st token)", "TPOT"},
    [BENCH_ITL] = {"Inter-token Latency", "ITL"},
    [BENCH_E2EL] = {"End-to-end Latency", "E2EL"},
};

enum { REPORT_COLUMNS = 50 };

/* A title amid a line of `fill`. */
static void add_title(struct buf *out, const char *title, char fill) {
    size_t left = (REPORT_COLUMNS - strlen(title)) / 2;
    for (size_t i = 0; i < left; i++)
        buf_add_byte(out, fill);
    buf_add_str(out, title);
    for (size_t i = left + strlen(title); i < REPORT_COLUMNS; i++)
        buf_add_byte(out, fill);
    buf_add_byte(out, '\n');
}

static void add_count(struct buf *out, const char *name, uint64_t value) {
    buf_addf(out, "%-40s %-10llu\n", name, (unsigned long long)value);
}

static void add_number(struct buf *out, const char *name, double value) {
    buf_addf(out, "%-40s %-10.2f\n", name, value);
}

static void add_measure(struct buf *out, enum bench_measure m, const struct bench_figures *figures,
                        const struct bench_percentiles *percentiles) {
    char name[64];
    add_title(out, MEASURES[m].title, '-');
    snprintf(name, sizeof name, "Mean %s (ms):", MEASURES[m].abbreviation);
    add_number(out, name, figures->mean);
    snprintf(name, sizeof name, "Median %s (ms):", MEASURES[m].abbreviation);
    add_number(out, name, figures->median);
    for (size_t i = 0; i < percentiles->count; i++) {
        snprintf(name, sizeof name, "P%g %s (ms):", percentiles->of[i], MEASURES[m].abbreviation);
        add_number(out, name, figures->percentiles[i]);
    }
}

void bench_report_text(struct buf *out, const struct bench_about *about,
                       const struct bench_report *r) {
    add_title(out, " Serving Benchmark Result ", '=');
    add_count(out, "Successful requests:", r->completed);
    add_count(out, "Failed requests:", r->failed);
    if (about->max_open)
        add_count(out, "Maximum request concurrency:", about->max_open);
    if (isfinite(about->rate))
        add_number(out, "Request rate configured (RPS):", about->rate);
    add_number(out, "Benchmark duration (s):", r->seconds);
    add_count(out, "Total input tokens:", r->input_tokens);
    add_count(out, "Total generated tokens:", r->output_tokens);
    add_number(out, "Request throughput (req/s):", r->request_rate);
    if (about->limits.any)
        add_number(out, "Request goodput (req/s):", r->goodput);
    add_number(out, "Output token throughput (tok/s):", r->output_rate);
    add_number(out, "Peak output token throughput (tok/s):", r->peak_output_rate);
    add_number(out, "Peak concurrent requests:", (double)r->peak_concurrent);
    add_number(out, "Total token throughput (tok/s):", r->total_rate);
    for (int m = 0; m < BENCH_MEASURE_COUNT; m++)
        if ((about->measures & 1u << m) && r->measures[m].count)
            add_measure(out, (enum bench_measure)m, &r->measures[m], &about->percentiles);
    add_title(out, "", '=');
}

/* --- JSON --- */
static void key_number(struct json_writer *w, const char *key, double value) {
    json_key(w, key);
    json_double(w, value);
}

static void write_measure(struct json_writer *w, const char *name, const struct bench_figures *f,
                          const struct bench_percentiles *percentiles) {
    char key[64];
    snprintf(key, sizeof key, "mean_%s_ms", name);
    key_number(w, key, f->count ? f->mean : NAN);
    snprintf(key, sizeof key, "median_%s_ms", name);
    key_number(w, key, f->count ? f->median : NAN);
    snprintf(key, sizeof key, "std_%s_ms", name);
    key_number(w, key, f->count ? f->std : NAN);
    for (size_t i = 0; i < percentiles->count; i++) {
        snprintf(key, sizeof key, "p%g_%s_ms", percentiles->of[i], name);
        key_number(w, key, f->count ? f->percentiles[i] : NAN);
    }
}

static void write_gaps(struct json_writer *w, const struct bench_outcome *o) {
    json_begin_array(w);
    for (size_t g = 0; g < o->gaps.count; g++)
        json_double(w, (double)o->gaps.items[g]);
    json_end_array(w);
}

/* One array for each of the requests' own figures, in the order they were sent. */
static void write_details(struct json_writer *w, const struct bench_outcome *outcomes,
                          size_t count) {
    static const char *const KEYS[] = {"input_lens", "output_lens", "ttfts",
                                       "itls",       "start_times", "errors"};
    for (size_t k = 0; k < ARRAY_LEN(KEYS); k++) {
        json_key(w, KEYS[k]);
        json_begin_array(w);
        for (size_t i = 0; i < count; i++) {
            const struct bench_outcome *o = &outcomes[i];
            if (k == 0)
                json_uint(w, o->prompt_tokens);
            else if (k == 1)
                json_uint(w, o->output_tokens);
            else if (k == 2)
                json_double(w, o->first < 0 ? NAN : o->first - o->sent);
            else if (k == 3)
                write_gaps(w, o);
            else if (k == 4)
                json_double(w, o->sent);
            else
                json_string(w, o->error ? o->error : "");
        }
        json_end_array(w);
    }
}

static void write_about(struct json_writer *w, const struct bench_about *about) {
    json_key(w, "backend");
    json_string(w, about->backend);
    json_key(w, "model_id");
    json_string(w, about->model);
    json_key(w, "dataset_name");
    json_string(w, about->dataset);
    json_key(w, "num_prompts");
    json_uint(w, about->prompt_count);
    json_key(w, "request_rate");
    if (isfinite(about->rate))
        json_double(w, about->rate);
    else
        json_string(w, "inf");
    key_number(w, "burstiness", about->burstiness);
    json_key(w, "max_concurrency");
    if (about->max_open)
        json_uint(w, about->max_open);
    else
        json_string(w, NULL);
}

void bench_report_json(struct buf *out, const struct bench_about *about,
                       const struct bench_report *r, const struct bench_outcome *outcomes,
                       size_t count) {
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    write_about(&w, about);
    key_number(&w, "duration", r->seconds);
    const struct {
        const char *key;
        uint64_t value;
    } counts[] = {{"completed", r->completed},
                  {"failed", r->failed},
                  {"total_input_tokens", r->input_tokens},
                  {"total_output_tokens", r->output_tokens},
                  {"max_concurrent_requests", r->peak_concurrent}};
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        json_key(&w, counts[i].key);
        json_uint(&w, counts[i].value);
    }
    key_number(&w, "request_throughput", r->request_rate);
    key_number(&w, "request_goodput", about->limits.any ? r->goodput : NAN);
    key_number(&w, "output_throughput", r->output_rate);
    key_number(&w, "max_output_tokens_per_s", r->peak_output_rate);
    key_number(&w, "total_token_throughput", r->total_rate);
    for (int m = 0; m < BENCH_MEASURE_COUNT; m++)
        write_measure(&w, bench_measure_names[m], &r->measures[m], &about->percentiles);
    if (about->detailed)
        write_details(&w, outcomes, count);
    json_end_object(&w);
    buf_add_byte(out, '\n');
}

/* --- saved reports --- */
int bench_report_parse(const struct bench_report_file *file, cJSON **document, struct error *err) {
    int rc = json_document_parse(file->json, document, err);
    return rc ? error_wrap(err, "'%s' is no JSON report", file->name) : 0;
}

int bench_compare(struct buf *out, const struct bench_report_file *a,
                  const struct bench_report_file *b, struct error *err) {
    cJSON *first = NULL, *second = NULL;
    const cJSON *item;
    size_t rows = 0;
    int rc = bench_report_parse(a, &first, err);
    if (!rc)
        rc = bench_report_parse(b, &second, err);
    buf_addf(out, "%-34s %14s %14s %8s\n", "", "A", "B", "B / A");
    cJSON_ArrayForEach(item, first) {
        const cJSON *other =
            rc ? NULL : cJSON_GetObjectItemCaseSensitive(second, item->string ? item->string : "");
        if (!cJSON_IsNumber(item) || !cJSON_IsNumber(other))
            continue;
        rows++;
        buf_addf(out, "%-34s %14.2f %14.2f", item->string, item->valuedouble, other->valuedouble);
        if (item->valuedouble != 0)
            buf_addf(out, " %8.3f", other->valuedouble / item->valuedouble);
        buf_add_byte(out, '\n');
    }
    if (!rc && !rows)
        rc =
            error_set(err, ERR_INVALID, "'%s' and '%s' have no figure in common", a->name, b->name);
    cJSON_Delete(first);
    cJSON_Delete(second);
    return rc;
}
