#include "gateway/prompts/infill.h"

#include "base/vec.h"

/* How vocabularies spell the marks; a row is one family. */
struct infill_marks {
    const char *prefix, *suffix, *middle;
    const char *file; /* before another file; NULL: its text goes before as it is */
};
static const struct infill_marks FAMILIES[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"}, /* Qwen, CodeGemma */
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"},         /* StarCoder, Granite */
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", NULL},                 /* SantaCoder */
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", NULL},           /* DeepSeek */
    {"▁<PRE>", "▁<SUF>", "▁<MID>", NULL},                                   /* Code Llama */
    {"<PRE>", "<SUF>", "<MID>", NULL},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", NULL}, /* GLM */
};

struct infill {
    const struct tokenizer *t;
    struct token_vec *out;
    uint32_t prefix, suffix, middle, file; /* file: TOKEN_NONE where there is none */
};

static bool find_marks(struct infill *f) {
    for (size_t i = 0; i < ARRAY_LEN(FAMILIES); i++) {
        const struct infill_marks *m = &FAMILIES[i];
        f->prefix = tokenizer_find(f->t, bytes_str(m->prefix));
        f->suffix = tokenizer_find(f->t, bytes_str(m->suffix));
        f->middle = tokenizer_find(f->t, bytes_str(m->middle));
        f->file = m->file ? tokenizer_find(f->t, bytes_str(m->file)) : TOKEN_NONE;
        if (f->prefix != TOKEN_NONE && f->suffix != TOKEN_NONE && f->middle != TOKEN_NONE)
            return true;
    }
    return false;
}

bool infill_is_possible(const struct tokenizer *t) {
    struct infill f = {.t = t};
    return find_marks(&f);
}

static int add_text(struct infill *f, struct bytes text, const char *field, struct api_error *api) {
    struct error err;
    struct token_vec ids = {0};
    int rc = 0;
    if (tokenizer_encode(f->t, text, 0, &ids, &err))
        rc = api_error_set(api, API_BAD_REQUEST, field, "%s", err.text);
    for (size_t i = 0; i < ids.count; i++)
        vec_push(f->out, ids.items[i]);
    vec_release(&ids);
    return rc;
}

static int add_file(struct infill *f, const struct genreq_file *file, struct api_error *err) {
    int rc = 0;
    if (f->file != TOKEN_NONE) {
        vec_push(f->out, f->file);
        rc = add_text(f, file->name, "input_extra", err);
        if (rc == 0)
            rc = add_text(f, bytes_str("\n"), "input_extra", err);
    }
    if (rc == 0)
        rc = add_text(f, file->text, "input_extra", err);
    if (rc == 0 && f->file == TOKEN_NONE)
        rc = add_text(f, bytes_str("\n\n"), "input_extra", err);
    return rc;
}

static int refuse(struct api_error *err) {
    api_error_set(err, API_UNSUPPORTED, NULL,
                  "this model's vocabulary has no marks for a text between two others");
    err->status = 501;
    err->type = "not_supported_error";
    return -1;
}

int infill_tokens(const struct genreq *g, const struct tokenizer *t, struct token_vec *out,
                  struct api_error *err) {
    struct infill f = {.t = t, .out = out};
    struct tokens begin = tokenizer_prefix(t);
    int rc = 0;
    if (!find_marks(&f))
        return refuse(err);
    for (size_t i = 0; i < begin.count; i++)
        vec_push(out, begin.ids[i]);
    for (uint32_t i = 0; rc == 0 && i < g->infill.file_count; i++)
        rc = add_file(&f, &g->infill.files[i], err);
    vec_push(out, f.prefix);
    if (rc == 0)
        rc = add_text(&f, g->infill.prefix, "input_prefix", err);
    vec_push(out, f.suffix);
    if (rc == 0)
        rc = add_text(&f, g->infill.suffix, "input_suffix", err);
    vec_push(out, f.middle);
    if (rc == 0 && g->prompt_count)
        rc = add_text(&f, g->prompts[0].text, "prompt", err);
    return rc;
}

size_t infill_bytes(const struct genreq *g) {
    size_t bytes = g->infill.prefix.len + g->infill.suffix.len;
    for (uint32_t i = 0; i < g->infill.file_count; i++)
        bytes += g->infill.files[i].text.len;
    return bytes;
}
