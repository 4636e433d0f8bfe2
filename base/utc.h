/*
 * utc.h - times of the calendar, as programs read them.
 *
 * Source: ISO 8601, RFC 3339.
 *
 * Threading: pure.
 */
#ifndef BASE_UTC_H
#define BASE_UTC_H

#include "base/base.h"

enum { UTC_TEXT_MAX = 32 };

/* A time in seconds since 1970 in UTC, without its zone: "2026-11-23T09:06:37". Returns its length;
 * NUL-terminated. */
size_t utc_text(int64_t wall_s, char out[UTC_TEXT_MAX]);

#endif
