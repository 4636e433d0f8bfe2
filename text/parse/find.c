/* How a model's format is found: by name, or by what its template writes. */
#include "text/parse/internal.h"
#include "text/tokenizer/tokenizer.h"

/* ---- finding one ---- */

static struct bytes first_name(const char *names) {
    return bytes_of(names, strcspn(names, " "));
}

static bool has_name(const char *names, struct bytes name) {
    for (; *names; names += strspn(names, " ")) {
        struct bytes one = first_name(names);
        if (bytes_equal(one, name))
            return true;
        names += one.len;
    }
    return false;
}

static bool shows(struct bytes source, const char *const *signs) {
    bool any = false;
    for (size_t i = 0; i < PARSE_MARKS && signs[i]; i++) {
        if (find_bytes(source, bytes_str(signs[i]), 0) == SIZE_MAX)
            return false;
        any = true;
    }
    return any;
}

const struct reasoning_format *reasoning_format_find(struct bytes name) {
    for (size_t i = 0; i < reasoning_format_count; i++)
        if (has_name(reasoning_formats[i].names, name))
            return &reasoning_formats[i];
    return NULL;
}

const struct call_format *call_format_find(struct bytes name) {
    for (size_t i = 0; i < call_format_count; i++)
        if (has_name(call_formats[i].names, name))
            return &call_formats[i];
    return NULL;
}

const struct reasoning_format *reasoning_format_of_template(struct bytes source) {
    for (size_t i = 0; i < reasoning_format_count; i++)
        if (shows(source, reasoning_formats[i].signs))
            return &reasoning_formats[i];
    return NULL;
}

const struct call_format *call_format_of_template(struct bytes source) {
    if (find_bytes(source, bytes_str("tool"), 0) == SIZE_MAX &&
        find_bytes(source, bytes_str("function"), 0) == SIZE_MAX)
        return NULL;
    for (size_t i = 0; i < call_format_count; i++)
        if (shows(source, call_formats[i].signs))
            return &call_formats[i];
    return NULL;
}

/* The first name of a row, in static text: rows are few, so each keeps a terminated copy made
 * once. */
static const char *row_name(const char *names, char (*copies)[32], size_t row) {
    struct bytes name = first_name(names);
    memcpy(copies[row], name.data, MIN(name.len, sizeof copies[row] - 1));
    return copies[row];
}

static char reasoning_names[FORMATS_MAX][32], call_names[FORMATS_MAX][32];

/* Before main, so that threads only read. */
__attribute__((constructor)) static void copy_names(void) {
    for (size_t i = 0; i < reasoning_format_count; i++)
        row_name(reasoning_formats[i].names, reasoning_names, i);
    for (size_t i = 0; i < call_format_count; i++)
        row_name(call_formats[i].names, call_names, i);
}

const char *reasoning_format_name(const struct reasoning_format *f) {
    return f ? reasoning_names[f - reasoning_formats] : "none";
}
const char *call_format_name(const struct call_format *f) {
    return f ? call_names[f - call_formats] : "none";
}

static void add_name(const char *name, const char *before, struct buf *out) {
    if (before && !strcmp(name, before))
        return; /* two rows of one name */
    if (before)
        buf_add_str(out, ", ");
    buf_add_str(out, name);
}

void reasoning_format_names(struct buf *out) {
    for (size_t i = 0; i < reasoning_format_count; i++)
        add_name(reasoning_names[i], i ? reasoning_names[i - 1] : NULL, out);
}

void call_format_names(struct buf *out) {
    for (size_t i = 0; i < call_format_count; i++)
        add_name(call_names[i], i ? call_names[i - 1] : NULL, out);
}

bool reasoning_is_open(const struct reasoning_format *f, struct bytes prompt) {
    while (prompt.len && is_blank(prompt.data[prompt.len - 1]))
        prompt.len--;
    for (size_t i = 0; f && i < PARSE_MARKS; i++)
        if (f->open[i] && ends_with(prompt, bytes_str(f->open[i])))
            return true;
    return false;
}

bool call_is_open(const struct call_format *f, struct bytes prompt) {
    if (!f || !f->plain)
        return false;
    return ends_with(prompt, bytes_str(f->open[0].text));
}

bool call_format_frames_content(const struct call_format *f) {
    return f && f->plain;
}

/* ---- tokens ---- */

static bool holds(const char *mark, struct bytes token) {
    return mark && find_bytes(bytes_str(mark), token, 0) != SIZE_MAX;
}

static bool any_holds(const char *const *marks, struct bytes token) {
    for (size_t i = 0; i < PARSE_MARKS; i++)
        if (holds(marks[i], token))
            return true;
    return false;
}

bool parse_wants_token(const struct parse_config *config, struct bytes token) {
    static const char HARMONY[] =
        "<|start|> <|end|> <|message|> <|channel|> <|constrain|> <|return|> <|call|>";
    const struct reasoning_format *r = config->reasoning;
    const struct call_format *c = config->calls;
    if (token.len < 3)
        return false;
    if ((r && r->harmony) || (c && c->harmony))
        return holds(HARMONY, token);
    if (r && (any_holds(r->open, token) || any_holds(r->close, token) || any_holds(r->drop, token)))
        return true;
    if (!c)
        return false;
    if (any_holds(c->wrap_open, token) || any_holds(c->wrap_close, token))
        return true;
    for (size_t i = 0; i < PARSE_MARKS; i++)
        if (holds(c->open[i].text, token))
            return true;
    return holds(c->close, token) || holds(c->keeps, token);
}

struct reasoning_marks reasoning_format_marks(const struct reasoning_format *f) {
    if (!f)
        return (struct reasoning_marks){"", "", "", ""};
    if (f->harmony)
        return (struct reasoning_marks){"<|channel|>analysis<|message|>",
                                        "<|end|><|start|>assistant", "<|channel|>final<|message|>",
                                        ""};
    return (struct reasoning_marks){f->open[0], f->close[0], f->frames ? f->drop[0] : "",
                                    f->frames ? f->drop[1] : ""};
}

size_t call_format_shapes(const struct call_format *f, const struct tokenizer *t,
                          const struct call_shape **out) {
    size_t count = 0;
    if (!f)
        return 0;
    uint32_t id = f->shape_token ? tokenizer_find(t, bytes_str(f->shape_token)) : TOKEN_NONE;
    if (id != TOKEN_NONE && tokenizer_is_special(t, id))
        out[count++] = f->shape_special;
    else
        out[count++] = f->shape;
    if (count && out[0] == f->shape && f->shape_too)
        out[count++] = f->shape_too;
    return count;
}

size_t call_format_marks(const struct call_format *f, struct call_mark *out) {
    _Static_assert(2 * PARSE_MARKS < CALL_MARKS_MAX, "all of them fit");
    size_t count = 0;
    if (f && f->harmony)
        out[count++] = (struct call_mark){"<|channel|>", false};
    for (size_t i = 0; f && i < PARSE_MARKS; i++) {
        if (f->wrap_open[i])
            out[count++] = (struct call_mark){f->wrap_open[i], false};
        if (f->open[i].text)
            out[count++] = (struct call_mark){f->open[i].text, f->open[i].start_only};
    }
    return count;
}

const char *call_format_open_mark(const struct call_format *f, const char **plain) {
    *plain = f->plain ? f->plain : "";
    return f->open[0].text;
}
