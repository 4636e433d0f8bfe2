/*
 * Layers are applied in order, each over the one before: defaults, the YAML file, the environment, flags. Every value,
 * wherever it comes from, is text that goes through set_text, so ranges and choices are checked in one place.
 */
#include "base/option.h"

#include "base/option_internal.h"
#include "base/option_value.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME_MAX_LEN = 64 };

struct parse {
    const struct option_table *table;
    void *settings;
    int argc;
    char **argv;
    const char **positional;
    size_t max_positional, positional_count;
    const char *config_path;
    bool help_asked;
    struct error *err;
};

static int set_text(struct parse *p, const struct option_row *row, const char *text, const char *place) {
    union option_value value;
    struct error why = {0};
    int rc = option_value_parse(row, text, &value, &why);
    if (rc) return error_set(p->err, rc, "%s: %s", place, why.text);
    option_value_store(row, p->settings, value);
    return 0;
}

static void set_defaults(struct parse *p) {
    for (size_t i = 0; i < p->table->count; i++) {
        const struct option_row *row = &p->table->rows[i];
        if (!row->fallback) continue;
        struct error why = {0};
        union option_value value;
        CHECK_MSG(!option_value_parse(row, row->fallback, &value, &why), "default of --%s: %s", row->name, why.text);
        option_value_store(row, p->settings, value);
    }
}

/* The row called name, where dash stands for '-' ('_' in YAML, and in lower case also in the environment). */
static const struct option_row *find_row(const struct option_table *table, const char *name, size_t len, char dash) {
    for (size_t i = 0; i < table->count; i++) {
        const char *have = table->rows[i].name;
        size_t at = 0;
        while (at < len && have[at] && (have[at] == '-' ? dash : have[at]) == name[at]) at++;
        if (at == len && !have[at]) return &table->rows[i];
    }
    return NULL;
}

static const struct option_row *find_short(const struct option_table *table, char c) {
    for (size_t i = 0; i < table->count; i++)
        if (c && table->rows[i].short_name == c) return &table->rows[i];
    return NULL;
}

static int take_yaml_entry(void *ctx, const char *key, const char *value, struct error *err) {
    struct parse *p = ctx;
    char place[ERROR_TEXT_MAX / 2];
    const struct option_row *row = find_row(p->table, key, strlen(key), '_');
    if (!row) return error_set(err, ERR_INVALID, "unknown key '%s' in '%s'; see --help", key, p->config_path);
    snprintf(place, sizeof place, "key '%s' in '%s'", key, p->config_path);
    return set_text(p, row, value, place);
}

static void env_name(const char *name, char out[NAME_MAX_LEN + 16]) {
    int len = snprintf(out, NAME_MAX_LEN + 16, "TRIREME_%s", name);
    for (int i = 8; i < len; i++) out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
}

static int take_environment(struct parse *p) {
    for (size_t i = 0; i < p->table->count; i++) {
        const struct option_row *row = &p->table->rows[i];
        char name[NAME_MAX_LEN + 16], place[NAME_MAX_LEN + 48];
        env_name(row->name, name);
        const char *value = getenv(name);
        if (!value || (!*value && row->type != OPTION_STRING)) continue;
        snprintf(place, sizeof place, "environment variable %s", name);
        int rc = set_text(p, row, value, place);
        if (rc) return rc;
    }
    return 0;
}

/* One word of the command line, taken apart. */
struct word {
    const struct option_row *row; /* NULL: positional, built-in or unknown */
    const char *name;             /* behind the dashes */
    size_t name_len;
    const char *value; /* behind '=' or a short name; NULL: none */
    bool is_option, is_long, negated;
};

static struct word split_word(const struct option_table *table, const char *arg) {
    struct word w = {0};
    if (arg[0] != '-' || !arg[1]) return w;
    w.is_option = true;
    w.is_long = arg[1] == '-';
    w.name = arg + (w.is_long ? 2 : 1);
    if (!w.is_long) {
        w.name_len = 1;
        w.value = w.name[1] == '=' ? w.name + 2 : w.name[1] ? w.name + 1 : NULL;
        w.row = find_short(table, *w.name);
        return w;
    }
    w.name_len = strcspn(w.name, "=");
    w.value = w.name[w.name_len] ? w.name + w.name_len + 1 : NULL;
    w.row = find_row(table, w.name, w.name_len, '-');
    if (!w.row && !strncmp(w.name, "no-", 3)) {
        const struct option_row *row = find_row(table, w.name + 3, w.name_len - 3, '-');
        if (row && row->type == OPTION_BOOL && !w.value) {
            w.row = row;
            w.negated = true;
        }
    }
    return w;
}

static bool word_is(const struct word *w, const char *name, char short_name) {
    if (w->row) return false; /* a table's own row hides the built-in one */
    if (!w->is_long) return short_name && *w->name == short_name && !w->value;
    return w->name_len == strlen(name) && !memcmp(w->name, name, w->name_len);
}

/* The value in the word itself or the next argument. NULL: there is none. */
static const char *word_value(struct parse *p, const struct word *w, int *at) {
    if (w->value) return w->value;
    return *at + 1 < p->argc ? p->argv[++*at] : NULL;
}

static int take_positional(struct parse *p, const char *arg) {
    if (p->positional_count == p->max_positional)
        return error_set(p->err, ERR_INVALID, "unexpected argument '%s'; see %s --help", arg, p->table->program);
    p->positional[p->positional_count++] = arg;
    return 0;
}

static int take_option(struct parse *p, const struct word *w, int *at) {
    char place[NAME_MAX_LEN + 32];
    if (!w->row)
        return error_set(p->err, ERR_INVALID, "unknown option '%s'; see %s --help", p->argv[*at], p->table->program);
    snprintf(place, sizeof place, "option --%s", w->row->name);
    if (w->row->type == OPTION_BOOL && !w->value) return set_text(p, w->row, w->negated ? "false" : "true", place);
    const char *value = word_value(p, w, at);
    if (!value) return error_set(p->err, ERR_INVALID, "%s needs a value", place);
    return set_text(p, w->row, value, place);
}

/* Walks the arguments. Not applying: only --help and --config are looked for, everything else is stepped over. */
static int walk_arguments(struct parse *p, bool apply) {
    bool only_positional = false;
    for (int at = 1; at < p->argc; at++) {
        struct word w = only_positional ? (struct word){0} : split_word(p->table, p->argv[at]);
        int rc = 0;
        if (!w.is_option)
            rc = apply ? take_positional(p, p->argv[at]) : 0;
        else if (w.is_long && !w.name_len)
            only_positional = true;
        else if (word_is(&w, "help", 'h'))
            p->help_asked = true;
        else if (word_is(&w, "config", 0)) {
            if (!(p->config_path = word_value(p, &w, &at)))
                return error_set(p->err, ERR_INVALID, "option --config needs a value");
        } else if (apply)
            rc = take_option(p, &w, &at);
        else if (w.row && w.row->type != OPTION_BOOL)
            (void)word_value(p, &w, &at);
        if (rc) return rc;
    }
    return 0;
}

static size_t settings_size(const struct option_table *table) {
    static const size_t SIZES[] = {
        [OPTION_BOOL] = sizeof(bool),       [OPTION_INT] = sizeof(int64_t),   [OPTION_FLOAT] = sizeof(double),
        [OPTION_STRING] = sizeof(char *),   [OPTION_SIZE] = sizeof(uint64_t), [OPTION_ENUM] = sizeof(int),
        [OPTION_DURATION] = sizeof(int64_t)};
    size_t end = 0;
    for (size_t i = 0; i < table->count; i++) {
        CHECK(strlen(table->rows[i].name) <= NAME_MAX_LEN);
        end = MAX(end, table->rows[i].offset + SIZES[table->rows[i].type]);
    }
    return end;
}

int option_parse(const struct option_table *table, void *settings, int argc, char **argv, const char **positional,
                 size_t max_positional, size_t *positional_count, struct error *err) {
    struct parse p = {.table = table,
                      .settings = settings,
                      .argc = argc,
                      .argv = argv,
                      .positional = positional,
                      .max_positional = max_positional,
                      .config_path = getenv("TRIREME_CONFIG"),
                      .err = err};
    memset(settings, 0, settings_size(table));
    int rc = walk_arguments(&p, false);
    if (rc) return rc;
    if (p.help_asked) {
        option_print_help(table);
        return OPTION_HELP_PRINTED;
    }
    set_defaults(&p);
    if (p.config_path && *p.config_path) rc = option_yaml_load(p.config_path, take_yaml_entry, &p, err);
    if (!rc) rc = take_environment(&p);
    if (!rc) rc = walk_arguments(&p, true);
    if (positional_count) *positional_count = p.positional_count;
    if (rc) option_free(table, settings);
    return rc;
}

void option_free(const struct option_table *table, void *settings) {
    for (size_t i = 0; i < table->count; i++) {
        if (table->rows[i].type != OPTION_STRING) continue;
        char **place = (char **)((char *)settings + table->rows[i].offset);
        mem_free(*place);
        *place = NULL;
    }
}

size_t option_to_flags(const struct option_table *table, const void *settings, char **out, size_t max) {
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct option_row *row = &table->rows[i];
        struct buf flag;
        if (option_value_is_default(row, settings)) continue;
        CHECK(count < max);
        buf_init(&flag, 0);
        buf_addf(&flag, "--%s=", row->name);
        option_value_print(row, settings, &flag);
        CHECK(!flag.failed);
        out[count++] = flag.data;
    }
    return count;
}
