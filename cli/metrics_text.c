#include "cli/metrics_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Cuts "name{labels} value" in place. False: it is no sample. */
static bool read_line(char *line, struct metrics_sample *out) {
    size_t len = strcspn(line, "{ ");
    if (*line == '#' || !len || !line[len])
        return false;
    char *value = line + len + 1;
    *out = (struct metrics_sample){.name = line, .labels = ""};
    if (line[len] == '{') {
        bool quoted = false;
        for (out->labels = value; *value && (quoted || *value != '}'); value++) {
            if (*value == '\\' && value[1])
                value++;
            else if (*value == '"')
                quoted = !quoted;
        }
        if (*value != '}')
            return false;
        *value++ = 0;
    }
    line[len] = 0;
    char *end;
    out->value = strtod(value, &end);
    return end != value;
}

void metrics_text_init(struct metrics_text *page, struct bytes text) {
    *page = (struct metrics_text){.text = mem_strndup((const char *)text.data, text.len)};
    char *rest = page->text;
    struct metrics_sample sample;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (read_line(line, &sample))
            vec_push(&page->samples, sample);
}

void metrics_text_release(struct metrics_text *page) {
    vec_release(&page->samples);
    mem_free(page->text);
    page->text = NULL;
}

bool metrics_label(const struct metrics_sample *s, const char *label, char *out, size_t out_max) {
    size_t label_len = strlen(label);
    for (const char *at = s->labels; *at;) {
        size_t len = strcspn(at, "=\"");
        bool wanted = len == label_len && !memcmp(at, label, len);
        if (at[len] != '=' || at[len + 1] != '"')
            return false;
        size_t count = 0;
        for (at += len + 2; *at && *at != '"'; at++) {
            bool escaped = *at == '\\' && at[1];
            at += escaped;
            if (count < out_max)
                out[count] = escaped && *at == 'n' ? '\n' : *at;
            count++;
        }
        if (wanted) {
            if (count < out_max)
                out[count] = 0;
            return count < out_max;
        }
        at += *at == '"';
        at += strspn(at, ", ");
    }
    return false;
}

static bool matches(const struct metrics_sample *s, const char *name, const char *label,
                    const char *value) {
    char text[512];
    return !strcmp(s->name, name) &&
           (!label || (metrics_label(s, label, text, sizeof text) && !strcmp(text, value)));
}

double metrics_sum(const struct metrics_text *page, const char *name, const char *label,
                   const char *value) {
    double sum = 0;
    for (size_t i = 0; i < page->samples.count; i++)
        if (matches(&page->samples.items[i], name, label, value))
            sum += page->samples.items[i].value;
    return sum;
}

/* The samples of one bucket in order of their bounds; those of one bound are added. */
struct bucket {
    double bound, count;
};
typedef VEC(struct bucket) bucket_list;

static void add_buckets(bucket_list *list, const struct metrics_text *page, const char *name,
                        const char *label, const char *value, double sign) {
    char text[64];
    for (size_t i = 0; i < page->samples.count; i++) {
        const struct metrics_sample *s = &page->samples.items[i];
        if (!matches(s, name, label, value) || !metrics_label(s, "le", text, sizeof text))
            continue;
        double bound = strtod(text, NULL);
        size_t at = 0;
        while (at < list->count && list->items[at].bound < bound)
            at++;
        if (at == list->count || list->items[at].bound != bound) {
            vec_push(list, ((struct bucket){0}));
            memmove(&list->items[at + 1], &list->items[at],
                    (list->count - 1 - at) * sizeof list->items[0]);
            list->items[at] = (struct bucket){.bound = bound};
        }
        list->items[at].count += sign * s->value;
    }
}

static double quantile_of(const bucket_list *list, double q) {
    double all = list->count ? list->items[list->count - 1].count : 0, rank = q * all;
    if (all <= 0)
        return NAN;
    size_t at = 0;
    while (at + 1 < list->count && list->items[at].count < rank)
        at++;
    const struct bucket *b = &list->items[at], *before = at ? b - 1 : NULL;
    if (isinf(b->bound))
        return before ? before->bound : NAN;
    double begin = before ? before->bound : 0, below = before ? before->count : 0;
    return begin + (b->bound - begin) * (rank - below) / (b->count - below);
}

double metrics_quantile(const struct metrics_text *page, const struct metrics_text *earlier,
                        const char *name, const char *label, const char *value, double q) {
    char full[128];
    bucket_list list = {0};
    snprintf(full, sizeof full, "%s_bucket", name);
    add_buckets(&list, page, full, label, value, 1);
    if (earlier)
        add_buckets(&list, earlier, full, label, value, -1);
    double out = quantile_of(&list, q);
    vec_release(&list);
    return out;
}
