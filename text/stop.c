#include "text/stop.h"

struct stop_string {
    uint8_t *text; /* owned */
    /* owned: after i + 1 equal bytes, how many remain when the next one differs */
    uint16_t *failed;
    size_t len, matched;
};

static void make_failure_table(struct stop_string *s) {
    s->failed[0] = 0;
    for (size_t i = 1, k = 0; i < s->len; i++) {
        while (k && s->text[i] != s->text[k])
            k = s->failed[k - 1];
        if (s->text[i] == s->text[k])
            k++;
        s->failed[i] = (uint16_t)k;
    }
}

int stop_init(struct stop *s, const struct bytes *strings, size_t count, bool include,
              struct error *err) {
    CHECK(s && (strings || !count));
    *s = (struct stop){.include = include};
    if (count > STOP_STRINGS_MAX)
        return error_set(err, ERR_LIMIT, "more than %d stop strings", STOP_STRINGS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!strings[i].len)
            return error_set(err, ERR_INVALID, "a stop string is empty");
        if (strings[i].len > STOP_BYTES_MAX)
            return error_set(err, ERR_LIMIT, "a stop string is longer than %d bytes",
                             STOP_BYTES_MAX);
    }
    buf_init(&s->held, 0);
    if (count)
        s->strings = mem_calloc(count, sizeof *s->strings);
    s->string_count = count;
    for (size_t i = 0; i < count; i++) {
        struct stop_string *string = &s->strings[i];
        string->len = strings[i].len;
        string->text = mem_alloc(string->len);
        string->failed = mem_calloc(string->len, sizeof *string->failed);
        memcpy(string->text, strings[i].data, string->len);
        make_failure_table(string);
    }
    return 0;
}

void stop_release(struct stop *s) {
    for (size_t i = 0; i < s->string_count; i++) {
        mem_free(s->strings[i].text);
        mem_free(s->strings[i].failed);
    }
    mem_free(s->strings);
    buf_release(&s->held);
    *s = (struct stop){0};
}

/* One more byte; true when the string is complete. */
static bool step(struct stop_string *s, uint8_t c) {
    while (s->matched && s->text[s->matched] != c)
        s->matched = s->failed[s->matched - 1];
    if (s->text[s->matched] == c)
        s->matched++;
    return s->matched == s->len;
}

/* The longest complete string after this byte, or -1; *pending is the longest beginning. */
static int step_all(struct stop *s, uint8_t c, size_t *pending) {
    int found = -1;
    *pending = 0;
    for (size_t i = 0; i < s->string_count; i++) {
        struct stop_string *string = &s->strings[i];
        if (step(string, c) && (found < 0 || string->len > s->strings[found].len))
            found = (int)i;
        *pending = MAX(*pending, string->matched);
    }
    return found;
}

bool stop_push(struct stop *s, struct bytes text, struct buf *out) {
    if (s->matched)
        return true;
    if (!s->string_count) {
        buf_add_bytes(out, text);
        return false;
    }
    size_t pending = s->held.len;
    for (size_t i = 0; i < text.len; i++) {
        int found = step_all(s, text.data[i], &pending);
        if (found < 0)
            continue;
        s->matched = true;
        s->matched_idx = (size_t)found;
        text.len = i + 1;
        pending = s->include ? 0 : s->strings[found].len;
        break;
    }
    /* all but the last `pending` bytes of held + text are decided */
    buf_add_bytes(&s->held, text);
    if (s->held.len > pending) {
        buf_add(out, s->held.data, s->held.len - pending);
        buf_consume(&s->held, s->held.len - pending);
    }
    if (s->matched)
        buf_reset(&s->held);
    return s->matched;
}

struct bytes stop_match(const struct stop *s) {
    if (!s->matched)
        return bytes_of(NULL, 0);
    const struct stop_string *string = &s->strings[s->matched_idx];
    return bytes_of(string->text, string->len);
}

void stop_flush(struct stop *s, struct buf *out) {
    CHECK(s && out);
    buf_add_bytes(out, buf_bytes(&s->held));
    buf_reset(&s->held);
}
