#include "cli/report.h"

#include <stdio.h>

void report_begin(struct report *r, bool json) {
    r->json = json ? cJSON_CreateObject() : NULL;
    CHECK_MSG(!json || r->json, "out of memory");
}

void report_end(struct report *r) {
    char *text = r->json ? cJSON_Print(r->json) : NULL;
    CHECK_MSG(!r->json || text, "out of memory");
    if (text)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(r->json);
    r->json = NULL;
}

void report_row(const struct report *r, const char *name, const char *fmt, ...) {
    va_list args;
    if (r->json)
        return;
    printf("%-16s", name);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("\n");
}

static void add(const struct report *r, const char *key, cJSON *item) {
    CHECK_MSG(item && cJSON_AddItemToObject(r->json, key, item), "out of memory");
}

void report_text(const struct report *r, const char *key, const char *text) {
    if (r->json)
        add(r, key, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

void report_number(const struct report *r, const char *key, double value) {
    if (r->json)
        add(r, key, cJSON_CreateNumber(value));
}

void report_bool(const struct report *r, const char *key, bool value) {
    if (r->json)
        add(r, key, cJSON_CreateBool(value));
}

void report_array(const struct report *r, const char *key) {
    if (r->json)
        add(r, key, cJSON_CreateArray());
}

void report_add(const struct report *r, const char *key, cJSON *item) {
    if (!r->json) {
        cJSON_Delete(item);
        return;
    }
    cJSON *list = cJSON_GetObjectItemCaseSensitive(r->json, key);
    if (!list)
        add(r, key, list = cJSON_CreateArray());
    CHECK_MSG(item && cJSON_AddItemToArray(list, item), "out of memory");
}

const char *human(uint64_t value, const char *unit, char out[HUMAN_MAX]) {
    static const char *const PREFIXES[] = {"", "k", "M", "G", "T", "P"};
    double scaled = (double)value;
    size_t step = 0;
    while (scaled >= 999.5 && step + 1 < ARRAY_LEN(PREFIXES)) {
        scaled /= 1000;
        step++;
    }
    snprintf(out, HUMAN_MAX, step ? "%.3g %s%s" : "%.0f %s%s", scaled, PREFIXES[step], unit);
    return out;
}
