#include "cli/top_view.h"

#include "formats/json_document.h"

#include <math.h>
#include <stdio.h>

enum { BAR_CELLS = 20, MODELS_MAX = 64, NAME_MAX_BYTES = 256 };

static double rate_of(const struct top_input *in, const char *name, const char *label,
                      const char *value) {
    if (!in->earlier || in->seconds <= 0)
        return NAN;
    double more =
        metrics_sum(in->page, name, label, value) - metrics_sum(in->earlier, name, label, value);
    return more < 0 ? NAN : more / in->seconds; /* it began anew */
}

/* "12.3", "1.2k", or "-". */
static const char *number(double value, char out[16]) {
    if (isnan(value))
        snprintf(out, 16, "-");
    else if (value >= 100000)
        snprintf(out, 16, "%.1fk", value / 1000);
    else if (value >= 100 || value == floor(value))
        snprintf(out, 16, "%.0f", value);
    else
        snprintf(out, 16, "%.1f", value);
    return out;
}

/* "12 ms", "1.20 s", or "-". */
static const char *duration(double seconds, char out[16]) {
    if (isnan(seconds))
        snprintf(out, 16, "-");
    else if (seconds < 1)
        snprintf(out, 16, "%.0f ms", seconds * 1000);
    else
        snprintf(out, 16, "%.2f s", seconds);
    return out;
}

/* "[#####++++-----]": in use, cached, free. */
static void add_bar(struct buf *out, double used, double cached, double all) {
    size_t used_cells = all > 0 ? (size_t)(used / all * BAR_CELLS + 0.5) : 0;
    size_t cached_cells = all > 0 ? (size_t)(cached / all * BAR_CELLS + 0.5) : 0;
    buf_add_byte(out, '[');
    for (size_t i = 0; i < BAR_CELLS; i++)
        buf_add_byte(out, i < used_cells ? '#' : i < used_cells + cached_cells ? '+' : '-');
    buf_add_byte(out, ']');
}

static void add_head(struct buf *out, const struct top_input *in) {
    char version[64] = "?", a[16];
    double start = 0, memory = 0;
    size_t gateways = 0;
    for (size_t i = 0; i < in->page->samples.count; i++) {
        const struct metrics_sample *s = &in->page->samples.items[i];
        if (!strcmp(s->name, "trireme_build_info"))
            (void)metrics_label(s, "version", version, sizeof version);
        if (!strcmp(s->name, "trireme_process_start_time_seconds") && (!start || s->value < start))
            start = s->value;
        if (!strcmp(s->name, "trireme_process_resident_bytes")) {
            memory += s->value;
            gateways++;
        }
    }
    double seconds =
        start ? fmax(in->now - start, 0) : 0; /* clocks differ, and are told in steps */
    buf_addf(out, "trireme %s at %s, up %.0f:%02.0f:%02.0f\n", version, in->url,
             floor(seconds / 3600), floor(fmod(seconds / 60, 60)), floor(fmod(seconds, 60)));
    buf_addf(out, "gateways %zu (%.0f MB)   scheduler %s   open %s", gateways, memory / 1e6,
             metrics_sum(in->page, "trireme_gateway_scheduler_up", NULL, NULL) > 0 ? "yes" : "NO",
             number(metrics_sum(in->page, "trireme_gateway_requests_open", NULL, NULL), a));
    buf_addf(out, "   connections %s\n",
             number(metrics_sum(in->page, "trireme_http_connections", NULL, NULL), a));
}

static void add_statuses(struct buf *out, const struct top_input *in) {
    static const char *const STATUSES[] = {"200", "400", "429", "499", "500", "503", "504"};
    char a[16];
    buf_add_str(out, "responses/s");
    for (size_t i = 0; i < ARRAY_LEN(STATUSES); i++)
        if (metrics_sum(in->page, "trireme_gateway_answers_total", "status", STATUSES[i]) > 0)
            buf_addf(
                out, "   %s: %s", STATUSES[i],
                number(rate_of(in, "trireme_gateway_answers_total", "status", STATUSES[i]), a));
    buf_add_byte(out, '\n');
}

static void add_model(struct buf *out, const struct top_input *in, const char *model) {
    char a[16], b[16], c[16], d[16];
#define OF(name)          metrics_sum(in->page, name, "model_name", model)
#define RATE(name)        rate_of(in, name, "model_name", model)
#define QUANTILE(name, q) metrics_quantile(in->page, in->earlier, name, "model_name", model, q)
    double blocks = OF("trireme_model_blocks"), used = OF("trireme_model_blocks_used");
    double cached = OF("trireme_model_blocks_cached");
    buf_addf(out, "\n%s\n  replicas %.0f   running %.0f of %.0f slots   waiting %.0f\n", model,
             OF("trireme_model_replicas_ready"), OF("vllm:num_requests_running"),
             OF("trireme_model_slots"), OF("vllm:num_requests_waiting"));
    buf_add_str(out, "  KV blocks ");
    add_bar(out, used, cached, blocks);
    buf_addf(out, " %.0f used, %.0f cached of %.0f\n", used, cached, blocks);
    buf_addf(
        out, "  tokens/s: output %s, prompt %s   steps/s %s   tokens/step %s\n",
        number(RATE("trireme_model_output_tokens_total"), a),
        number(RATE("vllm:prompt_tokens_total"), b), number(RATE("trireme_model_steps_total"), c),
        number(RATE("trireme_model_step_tokens_total") / RATE("trireme_model_steps_total"), d));
    buf_addf(out, "  first token p50 %s, p99 %s",
             duration(QUANTILE("vllm:time_to_first_token_seconds", 0.5), a),
             duration(QUANTILE("vllm:time_to_first_token_seconds", 0.99), b));
    buf_addf(out, "   next token p50 %s, p99 %s\n",
             duration(QUANTILE("vllm:inter_token_latency_seconds", 0.5), c),
             duration(QUANTILE("vllm:inter_token_latency_seconds", 0.99), d));
    buf_addf(
        out, "  prompt in cache %s %%   preempted/s %s   evicted blocks/s %s\n",
        number(100 * RATE("vllm:prefix_cache_hits_total") / RATE("vllm:prefix_cache_queries_total"),
               a),
        number(RATE("vllm:num_preemptions_total"), b),
        number(RATE("trireme_model_evictions_total"), c));
}

/* True for one that a gateway tells of only because an earlier one did. */
static bool is_past(const struct top_input *in, const char *model) {
    const cJSON *list = json_document_find(in->listed, "data"), *one;
    if (!cJSON_IsArray(list) ||
        metrics_sum(in->page, "trireme_model_replicas_ready", "model_name", model) > 0)
        return false;
    cJSON_ArrayForEach(one, list) {
        const char *id = json_document_text(one, "id");
        if (id && !strcmp(id, model))
            return false;
    }
    return true;
}

/* Drops what is behind `columns` characters of each line, from `begin` on; a name is plain text here:
 * control characters become '?'. */
static void cut_lines(struct buf *out, size_t begin, size_t columns) {
    size_t to = begin, column = 0;
    for (size_t from = begin; from < out->len; from++) {
        unsigned char c = (unsigned char)out->data[from];
        if (c == '\n')
            column = 0;
        else if ((c & 0xC0) != 0x80 && ++column > columns) {
            continue;
        } else if (column > columns)
            continue;
        out->data[to++] = (char)((c < ' ' && c != '\n') || c == 127 ? '?' : c);
    }
    out->len = to;
    if (out->data)
        out->data[to] = 0;
}

void top_view(struct buf *out, const struct top_input *in, size_t columns) {
    size_t begin = out->len, models = 0;
    add_head(out, in);
    add_statuses(out, in);
    for (size_t i = 0; i < in->page->samples.count; i++) {
        const struct metrics_sample *s = &in->page->samples.items[i];
        char model[NAME_MAX_BYTES];
        if (strcmp(s->name, "vllm:num_requests_running") || models == MODELS_MAX ||
            !metrics_label(s, "model_name", model, sizeof model) || is_past(in, model))
            continue;
        models++;
        add_model(out, in, model);
    }
    if (!models)
        buf_add_str(out, "\nno model\n");
    cut_lines(out, begin, columns);
}
