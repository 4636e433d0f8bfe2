/*
 * json_document.h - a small JSON document, ours or a person's, as a cJSON tree.
 *
 * Where a document is small and read field by field, a tree is the shorter code. What a stranger
 * sends or what may be large (request bodies, tokenizer.json, headers and indexes of weights) goes
 * through the reader of json.h instead: it needs no memory for a tree and counts against budgets.
 *
 * json_scan runs first, so a tree never hides a repeated key or what follows "\u0000" in a string.
 */
#ifndef FORMATS_JSON_DOCUMENT_H
#define FORMATS_JSON_DOCUMENT_H

#include <cjson/cJSON.h>

#include "base/base.h"
#include "base/error.h"

enum { JSON_DOCUMENT_MAX = 16 << 20 }; /* bytes of text */

/* Parses `text` into *out, which the caller frees with cJSON_Delete. ERR_INVALID: not strict JSON;
 * ERR_UNSUPPORTED: "\u0000" in a string; ERR_LIMIT: longer than JSON_DOCUMENT_MAX or
 * nested too deep; ERR_MEMORY. On failure *out is NULL. */
MUST_CHECK int json_document_parse(struct bytes text, cJSON **out, struct error *err);

/* Follows `path`, keys with dots between them, from `root`; a key of digits is an index into an
 * array. NULL if there is no such value, or if root is NULL. Borrowed from the tree. */
const cJSON *json_document_find(const cJSON *root, const char *path);

/* The string at `path`, borrowed from the tree; NULL if there is none or it is no string. */
const char *json_document_text(const cJSON *root, const char *path);

#endif
