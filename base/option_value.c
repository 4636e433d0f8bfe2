#include "base/option_value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

struct suffix {
    const char *name;
    uint64_t factor;
};
static const struct suffix SIZE_SUFFIXES[] = {{"", 1},         {"b", 1},         {"k", 1 << 10},
                                              {"kb", 1 << 10}, {"kib", 1 << 10}, {"m", 1 << 20},
                                              {"mb", 1 << 20}, {"mib", 1 << 20}, {"g", 1 << 30},
                                              {"gb", 1 << 30}, {"gib", 1 << 30}, {NULL, 0}};
static const struct suffix DURATION_SUFFIXES[] = {{"", 1},      {"ms", 1},      {"s", 1000},
                                                  {"m", 60000}, {"h", 3600000}, {NULL, 0}};

static int parse_bool(const char *text, bool *out, struct error *err) {
    static const char *const WORDS[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < ARRAY_LEN(WORDS); i++) {
        if (strcasecmp(text, WORDS[i]))
            continue;
        *out = i % 2;
        return 0;
    }
    return error_set(err, ERR_INVALID, "'%s' is neither true nor false", text);
}

static int parse_int(const char *text, int64_t *out, struct error *err) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || (*text != '-' && *text != '+' && (*text < '0' || *text > '9')))
        return error_set(err, ERR_INVALID, "'%s' is not a whole number", text);
    if (errno)
        return error_set(err, ERR_INVALID, "'%s' is too large", text);
    *out = value;
    return 0;
}

static int parse_float(const char *text, double *out, struct error *err) {
    char *end;
    *out = strtod(text, &end);
    if (end == text || *end || !isfinite(*out))
        return error_set(err, ERR_INVALID, "'%s' is not a number", text);
    return 0;
}

/* Digits, perhaps a fraction, and one of the suffixes; the error names those as `known`. */
static int parse_scaled(const char *text, const struct suffix *suffixes, uint64_t max,
                        const char *known, uint64_t *out, struct error *err) {
    char *end = (char *)text;
    if (*text >= '0' && *text <= '9' && strspn(text, "xX0") < 2)
        (void)strtold(text, &end);
    const struct suffix *s = suffixes;
    while (end != text && s->name && strcasecmp(end, s->name))
        s++;
    if (end == text || !s->name)
        return error_set(err, ERR_INVALID, "'%s' is not a number with a known unit (%s)", text,
                         known);
    long double value = strtold(text, NULL) * (long double)s->factor;
    if (!(value <= (long double)max))
        return error_set(err, ERR_INVALID, "'%s' is too large", text);
    *out = (uint64_t)value;
    return 0;
}

static int parse_choice(const struct option_row *row, const char *text, int *out,
                        struct error *err) {
    size_t len = strlen(text);
    const char *at = row->choices;
    for (int idx = 0;; idx++) {
        size_t choice_len = strcspn(at, "|");
        if (choice_len == len && !memcmp(at, text, len)) {
            *out = idx;
            return 0;
        }
        if (!at[choice_len])
            break;
        at += choice_len + 1;
    }
    return error_set(err, ERR_INVALID, "'%s' is none of %s", text, row->choices);
}

const char *option_bound_text(const struct option_row *row, double bound,
                              char out[OPTION_BOUND_MAX]) {
    static const struct {
        double factor;
        const char *name;
    } SIZES[] = {{1 << 30, "g"}, {1 << 20, "m"}, {1 << 10, "k"}, {1, ""}},
      TIMES[] = {{3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}}, NUMBERS[] = {{1, ""}},
      *unit;
    unit = row->type == OPTION_SIZE ? SIZES : row->type == OPTION_DURATION ? TIMES : NUMBERS;
    while (unit->factor > 1 && (bound == 0 || fmod(bound, unit->factor) != 0))
        unit++;
    snprintf(out, OPTION_BOUND_MAX, "%.15g%s", bound / unit->factor, bound == 0 ? "" : unit->name);
    return out;
}

static int check_range(const struct option_row *row, double value, const char *text,
                       struct error *err) {
    char min[OPTION_BOUND_MAX], max[OPTION_BOUND_MAX];
    if ((row->min == 0 && row->max == 0) || (value >= row->min && value <= row->max))
        return 0;
    return error_set(err, ERR_INVALID, "'%s' is out of range (%s to %s)", text,
                     option_bound_text(row, row->min, min), option_bound_text(row, row->max, max));
}

int option_value_parse(const struct option_row *row, const char *text, union option_value *out,
                       struct error *err) {
    int rc = 0;
    double number = 0;
    switch (row->type) {
    case OPTION_BOOL: return parse_bool(text, &out->flag, err);
    case OPTION_ENUM: return parse_choice(row, text, &out->choice, err);
    case OPTION_STRING: out->text = text; return 0;
    case OPTION_INT:
        rc = parse_int(text, &out->integer, err);
        number = rc ? 0 : (double)out->integer;
        break;
    case OPTION_FLOAT:
        rc = parse_float(text, &out->number, err);
        number = out->number;
        break;
    case OPTION_SIZE:
        rc = parse_scaled(text, SIZE_SUFFIXES, UINT64_MAX, "k, m, g", &out->size, err);
        number = rc ? 0 : (double)out->size;
        break;
    case OPTION_DURATION:
        if (row->word && !strcmp(text, row->word)) {
            out->integer = OPTION_WORD;
            return 0;
        }
        out->size = 0;
        rc = parse_scaled(text, DURATION_SUFFIXES, INT64_MAX, "ms, s, m, h", &out->size, err);
        out->integer = rc ? 0 : (int64_t)out->size;
        number = (double)out->integer;
        break;
    }
    return rc ? rc : check_range(row, number, text, err);
}

void option_value_store(const struct option_row *row, void *settings, union option_value value) {
    void *place = (char *)settings + row->offset;
    switch (row->type) {
    case OPTION_BOOL: *(bool *)place = value.flag; break;
    case OPTION_INT:
    case OPTION_DURATION: *(int64_t *)place = value.integer; break;
    case OPTION_FLOAT: *(double *)place = value.number; break;
    case OPTION_SIZE: *(uint64_t *)place = value.size; break;
    case OPTION_ENUM: *(int *)place = value.choice; break;
    case OPTION_STRING: {
        char *old = *(char **)place;
        *(char **)place = mem_strdup(value.text);
        mem_free(old);
        break;
    }
    }
}

bool option_value_is_default(const struct option_row *row, const void *settings) {
    const void *place = (const char *)settings + row->offset;
    union option_value fallback = {0};
    if (row->fallback)
        CHECK(!option_value_parse(row, row->fallback, &fallback, NULL));
    switch (row->type) {
    case OPTION_BOOL: return *(const bool *)place == fallback.flag;
    case OPTION_INT:
    case OPTION_DURATION: return *(const int64_t *)place == fallback.integer;
    case OPTION_FLOAT: return memcmp(place, &fallback.number, sizeof(double)) == 0;
    case OPTION_SIZE: return *(const uint64_t *)place == fallback.size;
    case OPTION_ENUM: return *(const int *)place == fallback.choice;
    case OPTION_STRING: {
        const char *text = *(char *const *)place;
        return text ? fallback.text && !strcmp(text, fallback.text) : !fallback.text;
    }
    }
    return false;
}

static void print_choice(const struct option_row *row, int choice, struct buf *out) {
    const char *at = row->choices;
    for (; choice > 0; choice--)
        at += strcspn(at, "|") + 1;
    buf_add(out, at, strcspn(at, "|"));
}

void option_value_print(const struct option_row *row, const void *settings, struct buf *out) {
    const void *place = (const char *)settings + row->offset;
    switch (row->type) {
    case OPTION_BOOL: buf_add_str(out, *(const bool *)place ? "true" : "false"); break;
    case OPTION_INT: buf_addf(out, "%lld", (long long)*(const int64_t *)place); break;
    case OPTION_DURATION:
        if (row->word && *(const int64_t *)place == OPTION_WORD)
            buf_add_str(out, row->word);
        else
            buf_addf(out, "%lldms", (long long)*(const int64_t *)place);
        break;
    case OPTION_FLOAT: buf_addf(out, "%.17g", *(const double *)place); break;
    case OPTION_SIZE: buf_addf(out, "%llu", (unsigned long long)*(const uint64_t *)place); break;
    case OPTION_ENUM: print_choice(row, *(const int *)place, out); break;
    case OPTION_STRING: buf_add_str(out, *(char *const *)place ? *(char *const *)place : ""); break;
    }
}
