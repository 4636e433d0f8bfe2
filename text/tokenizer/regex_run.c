#include "text/tokenizer/regex_run.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/unicode.h"

enum { MATCH_LIMIT = 10 * 1000 * 1000, DEPTH_LIMIT = 100 * 1000, HEAP_LIMIT_KB = 64 * 1024 };
/* So many bytes of an item, as it is spelled, count for one step of each byte that it looks at: of
 * a class some 15 are a range. */
enum { ITEM_BYTES_STEP = 256 };

void regex_run_begin(struct regex_run *run, uint64_t steps) {
    run->used = 0;
    run->allowed = steps;
    run->refused = false;
}

void regex_run_allow(struct regex_run *run, size_t bytes) {
    run->allowed += (uint64_t)bytes * REGEX_STEPS_BYTE;
}

void regex_run_release(struct regex_run *run) {
    pcre2_match_data_free(run->match);
    pcre2_match_context_free(run->context);
    *run = (struct regex_run){0};
}

/* The longest text that a group holds: a reference to it may compare as much. */
static size_t longest_group(const pcre2_callout_block *block) {
    size_t longest = 0;
    for (uint32_t i = 1; i < block->capture_top; i++) {
        PCRE2_SIZE begin = block->offset_vector[2 * i], end = block->offset_vector[2 * i + 1];
        if (begin != PCRE2_UNSET && end != PCRE2_UNSET && end > begin)
            longest = MAX(longest, end - begin);
    }
    return longest;
}

/* In front of each item that is tried. */
static int count_item(pcre2_callout_block *block, void *ctx) {
    struct regex_run *run = ctx;
    size_t at = block->current_position, ran = at > run->at ? at - run->at : 0;
    run->used += run->weight * ran + run->regex->item_steps;
    if (run->regex->refers_back)
        run->used += longest_group(block);
    run->weight = 1 + block->next_item_length / ITEM_BYTES_STEP;
    run->used += run->weight;
    run->at = at;
    return run->used > run->allowed ? PCRE2_ERROR_CALLOUT : 0;
}

static void make(struct regex_run *run) {
    run->match = pcre2_match_data_create(1, NULL);
    run->context = pcre2_match_context_create(NULL);
    CHECK(run->match && run->context);
    pcre2_set_match_limit(run->context, MATCH_LIMIT);
    pcre2_set_depth_limit(run->context, DEPTH_LIMIT);
    pcre2_set_heap_limit(run->context, HEAP_LIMIT_KB);
}

int regex_run_find(struct regex_run *run, const struct regex *regex, struct bytes text, size_t at,
                   size_t *begin, size_t *end, struct error *err) {
    CHECK(regex->code && at <= text.len);
    if (!run->match)
        make(run);
    run->regex = regex;
    run->at = at;
    run->weight = 1;
    /* here, not once: run may have been moved since */
    pcre2_set_callout(run->context, count_item, run);
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int rc = pcre2_match(regex->code, text.data, text.len, at, options, run->match, run->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(regex->code, text.data, text.len, at, options | PCRE2_NO_JIT, run->match,
                         run->context);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    run->refused |= rc < 0;
    if (rc == PCRE2_ERROR_CALLOUT)
        return error_set(err, ERR_LIMIT,
                         "the text is too hard for this model's own pattern: its matches take more "
                         "than %d steps for each byte",
                         REGEX_STEPS_BYTE);
    if (rc < 0)
        return error_set(err, ERR_LIMIT,
                         "the text is too hard for this model's own pattern (code %d)", rc);
    PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(run->match);
    *begin = offsets[0];
    *end = MAX(offsets[1], offsets[0]);
    return 1;
}

/* A character on, or behind the end. */
static void step_on(struct bytes text, size_t *at) {
    uint32_t cp;
    *at += *at < text.len ? unicode_next(text.data + *at, &cp) : 1;
}

int regex_run_next(struct regex_run *run, const struct regex *regex, struct bytes text, size_t *at,
                   size_t done, size_t *begin, size_t *end) {
    for (; *at <= text.len; step_on(text, at)) {
        int rc = regex_run_find(run, regex, text, *at, begin, end, NULL);
        if (rc <= 0)
            return rc;
        if (*begin == *end && *begin == done && done)
            continue;
        *at = *end;
        if (*begin == *end)
            step_on(text, at);
        return 1;
    }
    return 0;
}
