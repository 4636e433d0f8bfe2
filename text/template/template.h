/*
 * template.h - Jinja for chat templates: as jinja2 3.1 renders them with the settings of HF
 * transformers, but bounded.
 *
 * Settings: trim_blocks, lstrip_blocks, one trailing newline dropped, loop controls, generation
 * blocks, tojson with ensure_ascii=False, sandboxed and immutable: a template reads data, calls the
 * known methods of strings, lists and dicts, and changes nothing but namespaces. There is nothing
 * to include, import or extend, no attribute of anything but data, no I/O, no clock (strftime_now
 * uses limits.now_s).
 *
 * Bounds: source 1 MB, nesting TEMPLATE_DEPTH_MAX in the parser and in calls, `fuel` steps, output
 * and memory bytes. Past a bound: ERR_LIMIT.
 *
 * Threading: a parsed template is const and may be rendered by many threads at once.
 */
#ifndef TEXT_TEMPLATE_TEMPLATE_H
#define TEXT_TEMPLATE_TEMPLATE_H

#include "text/template/value.h"

struct template;

enum { TEMPLATE_DEPTH_MAX = 64, TEMPLATE_SOURCE_MAX = 1 << 20 };

/* Zero fields take the default. */
struct template_limits {
    /* nodes evaluated, items looped over, bytes / 16 produced, bytes / 64 read; default 20 million */
    uint64_t fuel;
    size_t output_bytes; /* default 64 MB */
    size_t memory_bytes; /* values made on the way; default 256 MB */
    int64_t now_s;       /* seconds since 1970 of *local* time, for strftime_now */
};

/* Compiles source. ERR_INVALID with a line number in the text for a syntax error, ERR_LIMIT for one
 * too big or too deep. */
MUST_CHECK int template_parse(struct bytes source, struct template **out, struct error *err);
/* Frees *t and clears it; NULL: nothing. */
void template_free(struct template **t);
/* Renders with the names of the dict `context`. Appends to out; on an error what was appended is
 * cut off again. ERR_INVALID: the template called raise_exception (err->text is its message) or did
 * what jinja2 would refuse; ERR_LIMIT: a bound. */
MUST_CHECK int template_render(const struct template *t, struct tvalue context,
                               const struct template_limits *limits, struct buf *out,
                               struct error *err);
/* True when the template loops over a message's content, so it takes content in parts ("openai"
 * format); else it wants plain strings. */
bool template_wants_content_parts(const struct template *t);

#endif
