/*
 * regex_text.h - a split pattern as tokenizer.json has it (Oniguruma's Ruby syntax, Unicode 16),
 * rewritten for PCRE2 (Unicode 14).
 *
 * What differs and is rewritten: \s, \d, \w, \b and \p{...} know characters younger than PCRE2's
 * tables; classes may be nested ([a[^b]]) and intersected ([a-z&&[^q]]). Everything else is passed
 * on. ^ and $ are those of lines: compile with PCRE2_MULTILINE.
 */
#ifndef TEXT_TOKENIZER_REGEX_TEXT_H
#define TEXT_TOKENIZER_REGEX_TEXT_H

#include "base/buf.h"
#include "base/error.h"

struct pcre2_real_code_8;
/* A pattern, ready for regex_run.h. Zeroed: none. */
struct regex {
    struct pcre2_real_code_8 *code; /* owned */
    uint32_t item_steps;            /* that each item counts for, besides its own */
    bool refers_back;               /* it has references to its groups */
};

/* Rewrites (unicode_init must have run) and compiles; on success *out is owned by the caller, on
 * error it is zeroed. ERR_UNSUPPORTED for a class that we cannot read, or with PCRE2's reason;
 * ERR_LIMIT. */
MUST_CHECK int regex_compile(struct bytes pattern, struct regex *out, struct error *err);
/* Gives back all memory; regex is zeroed. */
void regex_release(struct regex *regex);

#endif
