/*
 * report.h - what a command tells of things: rows of a name and a text for people, or with --json
 * one object for programs. Each fact is told by one call for each of the two, side by side; the one
 * that is not wanted does nothing.
 */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <cjson/cJSON.h>

#include "base/base.h"

struct report {
    cJSON *json; /* owned; NULL: for people */
};

/* The caller ends it with report_end. */
void report_begin(struct report *r, bool json);
/* Prints the object, if it is one, and frees it. */
void report_end(struct report *r);

/* For people: a line, the name in a column of its own, then the text. */
void report_row(const struct report *r, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* For programs: a member of the object; a text of NULL is null. */
void report_text(const struct report *r, const char *key, const char *text);
/* For programs: a member that is a number. */
void report_number(const struct report *r, const char *key, double value);
/* For programs: a member that is true or false. */
void report_bool(const struct report *r, const char *key, bool value);
/* For programs: an array that has nothing yet. */
void report_array(const struct report *r, const char *key);
/* For programs: adds item to the array `key`, which is made when missing. Takes item. */
void report_add(const struct report *r, const char *key, cJSON *item);

enum { HUMAN_MAX = 32 };
/* "1.31 GB": in powers of ten, as files and counts are told. Returns out. */
const char *human(uint64_t value, const char *unit, char out[HUMAN_MAX]);

#endif
