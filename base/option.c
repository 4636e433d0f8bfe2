/*
 * Layers are applied in order, each over the one before: defaults, the YAML file, the environment,
 * flags. Every value, wherever it comes from, is text that goes through set_text, so ranges and
 * choices are checked in one place.
 */
#include "base/option.h"

#include "base/option_internal.h"
#include "base/option_spelling.h"
#include "base/option_value.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME_MAX_LEN = 64, SPELLING_MAX = 80 };

/* What the command line says of a row. */
struct mention {
    const char *spelling; /* as it was last given, with its dashes; NULL: not by a flag */
    size_t len;
    const char *value;
    bool is_alias;
    bool by_flag; /* anywhere on the line, so that no argument fills it */
    bool filled;  /* by an argument */
};

struct parse {
    const struct option_table *table;
    void *settings;
    int argc;
    char **argv;
    const char **positional;
    size_t max_positional, positional_count;
    const char *config_path;
    bool help_asked;
    struct mention *mentions; /* one a row */
    struct error *err;
};

static int set_text(struct parse *p, const struct option_row *row, const char *text,
                    const char *place) {
    union option_value value;
    struct error why = {0};
    int rc = option_value_parse(row, text, &value, &why);
    if (rc)
        return error_set(p->err, rc, "%s: %s", place, why.text);
    option_value_store(row, p->settings, value);
    return 0;
}

static void set_defaults(struct parse *p) {
    for (size_t i = 0; i < p->table->count; i++) {
        const struct option_row *row = &p->table->rows[i];
        if (!row->fallback)
            continue;
        struct error why = {0};
        union option_value value;
        CHECK_MSG(!option_value_parse(row, row->fallback, &value, &why), "default of --%s: %s",
                  row->name, why.text);
        option_value_store(row, p->settings, value);
    }
}

/* "did you mean --max-context?", or where all are listed. */
static void add_hint(const struct option_table *table, const char *spelling, size_t len,
                     struct buf *out) {
    const struct option_row *near = option_find_nearest(table, spelling, len);
    if (near)
        buf_addf(out, "did you mean --%s?", near->name);
    else
        buf_addf(out, "see %s --help", table->program);
}

static int refuse_unknown(struct parse *p, const char *what, const char *spelling, size_t len) {
    struct buf text;
    buf_init(&text, 0);
    add_hint(p->table, spelling, len, &text);
    int rc = error_set(p->err, ERR_INVALID, "unknown %s; %s", what, buf_text(&text));
    buf_release(&text);
    return rc;
}

/* A line that tells what became of a flag. */
static void add_note(struct parse *p, const char *flag, const char *text) {
    if (p->table->notes)
        buf_addf(p->table->notes, "%s: %s\n", flag, text);
    else
        fprintf(stderr, "%s: %s: %s\n", p->table->program, flag, text);
}

/* Sets row from a value behind one of its aliases. */
static int set_alias(struct parse *p, const struct option_row *row, const char *value,
                     const char *place) {
    char room[SPELLING_MAX], note[2 * SPELLING_MAX], flag[2 * SPELLING_MAX];
    const char *ours = option_alias_value(row, value, room, sizeof room);
    if (!ours)
        return error_set(p->err, ERR_INVALID,
                         "%s: '%s' means nothing here (%s do); it sets --%s, which takes more",
                         place, value, row->alias_words, row->name);
    int rc = set_text(p, row, ours, place);
    if (rc || !strcmp(ours, value) || row->alias_unit)
        return rc;
    snprintf(flag, sizeof flag, "%s %.64s", place, value);
    snprintf(note, sizeof note, "taken as --%s %s", row->name, ours);
    add_note(p, flag, note);
    return 0;
}

/* Takes or refuses what is no row of ours. value NULL: there is none. */
static int take_foreign(struct parse *p, const struct option_foreign *foreign, const char *flag,
                        const char *value) {
    const char *values = foreign->values;
    bool optional = values && *values == '?';
    bool fits = !value ? !values || optional
                       : values && (option_list_has(values + optional, "*", 1) ||
                                    option_list_has(values + optional, value, strlen(value)));
    if (foreign->note && fits) {
        add_note(p, flag, foreign->note);
        return 0;
    }
    if (foreign->note && !value)
        return error_set(p->err, ERR_INVALID, "option %s needs a value", flag);
    return error_set(p->err, ERR_INVALID, "option %s%s%s is not to be had: %s", flag,
                     value ? " " : "", value ? value : "",
                     foreign->reason ? foreign->reason : foreign->note);
}

/* Keys are names, or long spellings of other servers, with _ between words. */
static int take_yaml_entry(void *ctx, const char *key, const char *value, bool is_list,
                           struct error *err) {
    struct parse *p = ctx;
    char place[ERROR_TEXT_MAX / 2], spelling[SPELLING_MAX];
    bool negated = false;
    snprintf(place, sizeof place, "key '%s' in '%s'", key, p->config_path);
    int len = snprintf(spelling, sizeof spelling, "--%s", key);
    for (char *c = spelling; *c; c++)
        *c = *c == '_' ? '-' : *c;
    size_t spelling_len = MIN((size_t)len, sizeof spelling - 1);
    const struct option_row *row = option_find_row(p->table, spelling + 2, spelling_len - 2, '-');
    if (strchr(key, '-'))
        return refuse_unknown(p, place, spelling, spelling_len);
    if (is_list && !(row && row->list))
        return error_set(p->err, ERR_INVALID, "%s: one value, not a list", place);
    if (row)
        return set_text(p, row, value, place);
    if ((row = option_find_alias(p->table, spelling, spelling_len, &negated)) && !negated)
        return set_alias(p, row, value, place);
    const struct option_foreign *foreign =
        row ? NULL : option_find_foreign(p->table, spelling, spelling_len);
    if (foreign)
        return take_foreign(p, foreign, place, strcmp(value, "true") ? value : NULL);
    return refuse_unknown(p, place, spelling, spelling_len);
}

int option_set(const struct option_table *table, void *settings, const char *name,
               const char *value, struct error *err) {
    struct parse p = {.table = table, .settings = settings, .err = err};
    char place[SPELLING_MAX + 16], spelling[SPELLING_MAX];
    bool negated = false;
    size_t len = (size_t)snprintf(spelling, sizeof spelling, "--%s", name);
    snprintf(place, sizeof place, "option '%.64s'", name);
    if (len >= sizeof spelling)
        return error_set(err, ERR_INVALID, "unknown %s", place);
    const struct option_row *row = option_find_row(table, name, len - 2, '-');
    if (row)
        return set_text(&p, row, value, place);
    row = option_find_alias(table, spelling, len, &negated);
    return row && !negated ? set_alias(&p, row, value, place)
                           : refuse_unknown(&p, place, spelling, len);
}

static void env_name(const char *name, char out[NAME_MAX_LEN + 16]) {
    int len = snprintf(out, NAME_MAX_LEN + 16, "TRIREME_%s", name);
    for (int i = 8; i < len; i++)
        out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
}

static int take_environment(struct parse *p) {
    for (size_t i = 0; i < p->table->count; i++) {
        const struct option_row *row = &p->table->rows[i];
        char name[NAME_MAX_LEN + 16], place[NAME_MAX_LEN + 48];
        env_name(row->name, name);
        const char *value = getenv(name);
        if (!value || (!*value && row->type != OPTION_STRING))
            continue;
        snprintf(place, sizeof place, "environment variable %s", name);
        int rc = set_text(p, row, value, place);
        if (row->secret)
            unsetenv(name);
        if (rc)
            return rc;
    }
    return 0;
}

/* One word of the command line, taken apart. */
struct word {
    const struct option_row *row;         /* NULL: positional, built-in, foreign or unknown */
    const struct option_foreign *foreign; /* NULL: none */
    const char *text;                     /* the whole word */
    size_t len;                           /* of the spelling in it, dashes included */
    const char *value;                    /* behind '=' or a short name; NULL: none */
    bool is_option, is_alias, negated;
};

/* "-p77", "-v": a letter with its value. */
static void split_short(const struct option_table *table, struct word *w) {
    for (size_t i = 0; i < table->count && !w->row; i++)
        if (w->text[1] && table->rows[i].short_name == w->text[1])
            w->row = &table->rows[i];
    if (!w->row || w->len == 2)
        return;
    w->len = 2;
    w->value = w->text + 2;
}

static struct word split_word(const struct option_table *table, const char *arg) {
    struct word w = {.text = arg, .len = strcspn(arg, "=")};
    if (arg[0] != '-' || !arg[1])
        return w;
    w.is_option = true;
    w.value = arg[w.len] ? arg + w.len + 1 : NULL;
    bool is_long = arg[1] == '-';
    if (is_long)
        w.row = option_find_row(table, arg + 2, w.len - 2, '-');
    if (!w.row && is_long && w.len > 5 && !memcmp(arg, "--no-", 5) && !w.value) {
        const struct option_row *row = option_find_row(table, arg + 5, w.len - 5, '-');
        w.negated = row && row->type == OPTION_BOOL;
        w.row = w.negated ? row : NULL;
    }
    if (!w.row) {
        w.row = option_find_alias(table, arg, w.len, &w.negated);
        w.is_alias = w.row != NULL;
    }
    if (!w.row)
        w.foreign = option_find_foreign(table, arg, w.len);
    if (!w.row && !w.foreign && !is_long)
        split_short(table, &w);
    return w;
}

/* Whether it is a flag that every program has; a table's own row hides it. */
static bool word_is(const struct word *w, const char *name, char short_name) {
    if (w->row)
        return false;
    if (w->text[1] != '-')
        return short_name && w->text[1] == short_name && w->len == 2 && !w->value;
    return w->len == strlen(name) + 2 && !memcmp(w->text + 2, name, w->len - 2);
}

/* The value in the word itself or the next argument. NULL: there is none. */
static const char *word_value(struct parse *p, const struct word *w, int *at) {
    if (w->value)
        return w->value;
    const char *next = *at + 1 < p->argc ? p->argv[*at + 1] : NULL;
    bool is_flag = next && next[0] == '-' && !(next[1] >= '0' && next[1] <= '9');
    if (w->row && w->row->alone && !w->is_alias && (!next || is_flag))
        return w->row->alone;
    return *at + 1 < p->argc ? p->argv[++*at] : NULL;
}

/* The value of a flag that may stand without one: the next argument where it is one of the words
 * that switches have. */
static const char *foreign_value(struct parse *p, const struct word *w, int *at) {
    static const char SWITCHES[] = "on off auto true false 0 1 yes no enabled disabled none";
    const char *values = w->foreign->values;
    if (w->value || !values)
        return w->value;
    if (*values != '?')
        return word_value(p, w, at);
    const char *next = *at + 1 < p->argc ? p->argv[*at + 1] : NULL;
    if (!next || (!option_list_has(SWITCHES, next, strlen(next)) &&
                  !option_list_has(values + 1, next, strlen(next))))
        return NULL;
    return p->argv[++*at];
}

/* The first row of table->arguments that nothing has filled yet. */
static const struct option_row *next_argument_row(const struct parse *p) {
    const char *at = p->table->arguments;
    while (at && *at) {
        size_t len = strcspn(at, " ");
        const struct option_row *row = option_find_row(p->table, at, len, '-');
        CHECK_MSG(row, "%s: no row '%s'", p->table->program, at);
        const struct mention *m = &p->mentions[row - p->table->rows];
        if (!m->by_flag && !m->filled)
            return row;
        at += len + strspn(at + len, " ");
    }
    return NULL;
}

static int take_positional(struct parse *p, const char *arg) {
    const struct option_row *row = next_argument_row(p);
    char place[NAME_MAX_LEN + 32];
    if (row) {
        p->mentions[row - p->table->rows].filled = true;
        snprintf(place, sizeof place, "argument %s", row->name);
        return set_text(p, row, arg, place);
    }
    if (p->positional_count == p->max_positional)
        return error_set(p->err, ERR_INVALID, "unexpected argument '%s'; see %s --help", arg,
                         p->table->program);
    p->positional[p->positional_count++] = arg;
    return 0;
}

/* Adds the arguments behind a row of many words, as "a,b,c". */
static int take_more_words(struct parse *p, const struct option_row *row, const char *first,
                           const char *place, int *at) {
    struct buf all;
    buf_init(&all, 0);
    buf_add_str(&all, first);
    while (!next_argument_row(p) && *at + 1 < p->argc && p->argv[*at + 1][0] != '-')
        buf_addf(&all, ",%s", p->argv[++*at]);
    int rc = set_text(p, row, buf_text(&all), place);
    buf_release(&all);
    return rc;
}

/* Two spellings of one setting must agree: else one of them would be lost. */
static int mention(struct parse *p, const struct word *w, const char *value) {
    struct mention *m = &p->mentions[w->row - p->table->rows];
    bool other = m->spelling && !w->row->list &&
                 (m->len != w->len || memcmp(m->spelling, w->text, w->len) != 0);
    if (other && (m->is_alias || w->is_alias) && strcmp(m->value, value) != 0)
        return error_set(p->err, ERR_INVALID, "%.*s and %.*s are one setting, --%s: give one",
                         (int)m->len, m->spelling, (int)w->len, w->text, w->row->name);
    m->spelling = w->text;
    m->len = w->len;
    m->is_alias = w->is_alias;
    m->value = value;
    return 0;
}

static int add_to_list(struct parse *p, const struct option_row *row, const char *value,
                       const char *place) {
    struct buf all = {0};
    buf_addf(&all, "%s\n%s", *(char **)((char *)p->settings + row->offset), value);
    int rc = set_text(p, row, buf_text(&all), place);
    buf_release(&all);
    return rc;
}

static int take_row(struct parse *p, const struct word *w, int *at) {
    const struct option_row *row = w->row;
    const char *value = w->value;
    char place[SPELLING_MAX + 16];
    snprintf(place, sizeof place, "option %s%.*s", w->is_alias ? "" : "--",
             w->is_alias ? (int)w->len : NAME_MAX_LEN, w->is_alias ? w->text : row->name);
    if (w->negated && value)
        return error_set(p->err, ERR_INVALID, "%s has no value", place);
    if (row->type == OPTION_BOOL && !value)
        value = w->negated ? "false" : "true";
    else
        value = word_value(p, w, at);
    if (!value)
        return error_set(p->err, ERR_INVALID, "%s needs a value", place);
    bool again = p->mentions[row - p->table->rows].spelling != NULL;
    int rc = mention(p, w, value);
    if (rc)
        return rc;
    if (row->list && again)
        return add_to_list(p, row, value, place);
    if (row->many)
        return take_more_words(p, row, value, place, at);
    return w->is_alias ? set_alias(p, row, value, place) : set_text(p, row, value, place);
}

static int take_option(struct parse *p, const struct word *w, int *at) {
    char flag[SPELLING_MAX];
    if (w->row)
        return take_row(p, w, at);
    snprintf(flag, sizeof flag, "%.*s", (int)w->len, w->text);
    if (w->foreign)
        return take_foreign(p, w->foreign, flag, foreign_value(p, w, at));
    snprintf(flag, sizeof flag, "option '%.64s'", w->text);
    return refuse_unknown(p, flag, w->text, w->len);
}

/* Walks the arguments. Not applying: only --help and --config are looked for and which rows have a
 * flag; everything else is stepped over. */
static int walk_arguments(struct parse *p, bool apply) {
    bool only_positional = false;
    for (int at = 1; at < p->argc; at++) {
        struct word w = only_positional ? (struct word){0} : split_word(p->table, p->argv[at]);
        int rc = 0;
        if (!w.is_option)
            rc = apply ? take_positional(p, p->argv[at]) : 0;
        else if (!strcmp(w.text, "--"))
            only_positional = true;
        else if (word_is(&w, "help", 'h'))
            p->help_asked = true;
        else if (word_is(&w, "config", 0)) {
            if (!(p->config_path = word_value(p, &w, &at)))
                return error_set(p->err, ERR_INVALID, "option --config needs a value");
        } else if (apply)
            rc = take_option(p, &w, &at);
        else if (w.row) {
            p->mentions[w.row - p->table->rows].by_flag = true;
            if (w.row->type != OPTION_BOOL)
                (void)word_value(p, &w, &at);
        } else if (w.foreign)
            (void)foreign_value(p, &w, &at);
        if (rc)
            return rc;
    }
    return 0;
}

/* Once nobody compares or copies them any more. */
static void hide_secrets(struct parse *p) {
    for (int at = 1; at < p->argc && strcmp(p->argv[at], "--") != 0; at++) {
        struct word w = split_word(p->table, p->argv[at]);
        const char *value = NULL;
        if (w.foreign)
            (void)foreign_value(p, &w, &at);
        else if (w.is_option && (word_is(&w, "config", 0) || (w.row && w.row->type != OPTION_BOOL)))
            value = word_value(p, &w, &at);
        if (value && w.row && w.row->secret)
            memset((char *)value, '*', strlen(value));
    }
}

static size_t settings_size(const struct option_table *table) {
    static const size_t SIZES[] = {
        [OPTION_BOOL] = sizeof(bool),       [OPTION_INT] = sizeof(int64_t),
        [OPTION_FLOAT] = sizeof(double),    [OPTION_STRING] = sizeof(char *),
        [OPTION_SIZE] = sizeof(uint64_t),   [OPTION_ENUM] = sizeof(int),
        [OPTION_DURATION] = sizeof(int64_t)};
    size_t end = 0;
    for (size_t i = 0; i < table->count; i++) {
        CHECK(strlen(table->rows[i].name) <= NAME_MAX_LEN);
        end = MAX(end, table->rows[i].offset + SIZES[table->rows[i].type]);
    }
    return end;
}

int option_parse(const struct option_table *table, void *settings, int argc, char **argv,
                 const char **positional, size_t max_positional, size_t *positional_count,
                 struct error *err) {
    struct parse p = {.table = table,
                      .settings = settings,
                      .argc = argc,
                      .argv = argv,
                      .positional = positional,
                      .max_positional = max_positional,
                      .config_path = getenv("TRIREME_CONFIG"),
                      .err = err};
    memset(settings, 0, settings_size(table));
    p.mentions = mem_calloc(table->count + 1, sizeof *p.mentions);
    int rc = walk_arguments(&p, false);
    if (rc || p.help_asked) {
        mem_free(p.mentions);
        if (!rc)
            option_print_help(table);
        return rc ? rc : OPTION_HELP_PRINTED;
    }
    set_defaults(&p);
    if (p.config_path && *p.config_path)
        rc = option_yaml_load(p.config_path, take_yaml_entry, &p, err);
    if (!rc)
        rc = take_environment(&p);
    if (!rc)
        rc = walk_arguments(&p, true);
    hide_secrets(&p);
    mem_free(p.mentions);
    if (positional_count)
        *positional_count = p.positional_count;
    if (rc)
        option_free(table, settings);
    return rc;
}

bool option_is_word(struct bytes text) {
    bool good = text.len > 0 && text.data[0] != '-';
    for (size_t i = 0; i < text.len; i++)
        good &= text.data[i] >= ' ' && text.data[i] != 0x7f;
    return good;
}

void option_free(const struct option_table *table, void *settings) {
    for (size_t i = 0; i < table->count; i++) {
        if (table->rows[i].type != OPTION_STRING)
            continue;
        char **place = (char **)((char *)settings + table->rows[i].offset);
        mem_free(*place);
        *place = NULL;
    }
}

size_t option_to_flags(const struct option_table *table, const void *settings, char **out,
                       size_t max) {
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct option_row *row = &table->rows[i];
        struct buf flag;
        if (option_value_is_default(row, settings))
            continue;
        CHECK(count < max);
        buf_init(&flag, 0);
        buf_addf(&flag, "--%s=", row->name);
        option_value_print(row, settings, &flag);
        CHECK(!flag.failed);
        out[count++] = flag.data;
    }
    return count;
}
