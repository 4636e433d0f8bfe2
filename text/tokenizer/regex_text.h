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

/* Appends the rewritten pattern. ERR_UNSUPPORTED for a class that we cannot read. unicode_init must
 * have run. */
struct pcre2_real_code_8;
/* Appends the pattern as PCRE2 reads it. ERR_UNSUPPORTED: it has no such form. */
MUST_CHECK int regex_rewrite(struct bytes pattern, struct buf *out, struct error *err);
/* Rewrites and compiles; *out is released with pcre2_code_free. ERR_UNSUPPORTED with PCRE2's
 * reason, ERR_LIMIT. */
MUST_CHECK int regex_compile(struct bytes pattern, struct pcre2_real_code_8 **out,
                             struct error *err);

#endif
