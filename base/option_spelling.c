#include "base/option_spelling.h"

#include <stdio.h>

enum { DISTANCE_LETTERS = 64 };

/* The next word of a list with blanks between; false at its end. */
static bool next_word(const char **at, const char **word, size_t *len) {
    *word = *at + strspn(*at, " ");
    *len = strcspn(*word, " ");
    *at = *word + *len;
    return *len > 0;
}

bool option_list_has(const char *list, const char *word, size_t len) {
    const char *have;
    size_t have_len;
    while (list && next_word(&list, &have, &have_len))
        if (have_len == len && !memcmp(have, word, len))
            return true;
    return false;
}

const struct option_row *option_find_row(const struct option_table *table, const char *name,
                                         size_t len, char dash) {
    for (size_t i = 0; i < table->count; i++) {
        const char *have = table->rows[i].name;
        size_t at = 0;
        while (at < len && have[at] && (have[at] == '-' ? dash : have[at]) == name[at])
            at++;
        if (at == len && !have[at])
            return &table->rows[i];
    }
    return NULL;
}

const struct option_row *option_find_alias(const struct option_table *table, const char *spelling,
                                           size_t len, bool *negated) {
    for (size_t i = 0; i < table->count; i++) {
        const char *at = table->rows[i].aliases, *word;
        size_t word_len;
        while (at && next_word(&at, &word, &word_len)) {
            *negated = *word == '!';
            if (word_len - *negated == len && !memcmp(word + *negated, spelling, len))
                return &table->rows[i];
        }
    }
    *negated = false;
    return NULL;
}

const struct option_foreign *option_find_foreign(const struct option_table *table,
                                                 const char *spelling, size_t len) {
    for (size_t i = 0; i < table->foreign_count; i++)
        if (option_list_has(table->foreign[i].flags, spelling, len))
            return &table->foreign[i];
    return NULL;
}

size_t option_distance(const char *a, size_t a_len, const char *b, size_t b_len) {
    /* rows of the usual table: for the letters of `a` before the last, the last, and this one */
    size_t rows[3][DISTANCE_LETTERS + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    a_len = MIN(a_len, (size_t)DISTANCE_LETTERS);
    b_len = MIN(b_len, (size_t)DISTANCE_LETTERS);
    for (size_t j = 0; j <= b_len; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        now[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            now[j] = MIN(MIN(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = MIN(now[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[b_len];
}

/* Letters that may differ between names of this length. */
static size_t near_enough(size_t len) {
    return len / 4 + 1;
}

const struct option_row *option_find_nearest(const struct option_table *table, const char *spelling,
                                             size_t len) {
    const struct option_row *best = NULL;
    size_t best_distance = SIZE_MAX;
    if (len < 4 || memcmp(spelling, "--", 2) != 0)
        return NULL; /* a letter or two are near to everything */
    spelling += 2;
    len -= 2;
    for (size_t i = 0; i < table->count; i++) {
        const struct option_row *row = &table->rows[i];
        const char *at = row->aliases, *word = row->name;
        size_t word_len = strlen(row->name);
        if (row->hidden)
            continue;
        do {
            word_len -= *word == '!';
            word += *word == '!';
            size_t dashes = *word == '-' && word[1] == '-' ? 2 : 0;
            size_t distance =
                *word == '-' && !dashes
                    ? SIZE_MAX
                    : option_distance(spelling, len, word + dashes, word_len - dashes);
            if (distance < best_distance && distance <= near_enough(len)) {
                best = row;
                best_distance = distance;
            }
        } while (at && next_word(&at, &word, &word_len));
    }
    return best;
}

const char *option_alias_value(const struct option_row *row, const char *value, char *room,
                               size_t room_len) {
    const char *at = row->alias_words, *word;
    size_t len, value_len = strlen(value);
    while (at && next_word(&at, &word, &len)) {
        const char *equals = memchr(word, '=', len);
        CHECK_MSG(equals, "alias words of --%s", row->name);
        if ((size_t)(equals - word) != value_len || memcmp(word, value, value_len) != 0)
            continue;
        snprintf(room, room_len, "%.*s", (int)(word + len - equals - 1), equals + 1);
        return room;
    }
    if (row->alias_words && row->type == OPTION_STRING)
        return NULL;
    if (row->alias_unit && value_len && strspn(value, "0123456789.") == value_len) {
        snprintf(room, room_len, "%s%s", value, row->alias_unit);
        return room;
    }
    return value;
}
