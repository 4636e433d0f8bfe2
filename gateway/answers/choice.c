#include "gateway/answers/choice.h"

#include "base/hash.h"

/* ---- taking an answer apart ---- */

static void on_text(void *ctx, enum parse_channel channel, struct bytes text) {
    struct choice *c = ctx;
    if (channel == PARSE_CONTENT)
        buf_add_bytes(c->out, text);
    else if (!c->hide_reasoning)
        buf_add_bytes(&c->reasoning, text);
}

/* Letters and digits, nine of them: some templates take no other ids back. The same tokens give the
 * same ids. */
static void add_call_id(struct choice *c, uint32_t index) {
    static const char DIGITS[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint64_t key[3] = {c->call_seed, c->index, index};
    uint64_t bits = hash64(key, sizeof key, 0);
    for (int i = 0; i < 9; i++, bits /= 62)
        buf_add_byte(&c->calls, DIGITS[bits % 62]);
}

static void begin_call(struct choice *c, const struct parse_call *call) {
    if (c->bare_calls) {
        buf_add_str(&c->calls, "\"name\":\"");
        buf_add_json(&c->calls, call->name);
        buf_add_str(&c->calls, "\",");
        return;
    }
    buf_add_str(&c->calls, "\"id\":\"");
    if (call->id.len)
        buf_add_json(&c->calls, call->id);
    else
        add_call_id(c, call->index);
    buf_add_str(&c->calls, "\",\"type\":\"function\",\"function\":{\"name\":\"");
    buf_add_json(&c->calls, call->name);
    buf_add_str(&c->calls, "\",");
}

/* More of a call whose beginning is still in the buffer goes into it; else it is an object of its
 * own. */
static void on_call(void *ctx, const struct parse_call *call) {
    struct choice *c = ctx;
    const char *end = c->bare_calls ? "\"}" : "\"}}";
    if (c->one_call && call->index > 0)
        return;
    if (c->calls.len && !call->name.len) {
        c->calls.len -= strlen(end);
    } else {
        if (c->calls.len)
            buf_add_byte(&c->calls, ',');
        buf_add_byte(&c->calls, '{');
        if (c->streams && !c->bare_calls)
            buf_addf(&c->calls, "\"index\":%u,", call->index);
        if (call->name.len)
            begin_call(c, call);
        else if (!c->bare_calls)
            buf_add_str(&c->calls, "\"function\":{");
        buf_add_str(&c->calls, "\"arguments\":\"");
    }
    buf_add_json(&c->calls, call->arguments);
    buf_add_str(&c->calls, end);
}

static void init_parser(struct choice *c, const struct choice_config *config) {
    if (!config->parse || (!config->parse->reasoning && !config->parse->calls))
        return;
    c->parse = *config->parse;
    c->parse.complete_calls = !config->streams || config->whole_calls;
    c->parser = parser_new(&c->parse);
    c->sink = (struct parse_sink){on_text, on_call, NULL};
    c->streams = config->streams;
    c->one_call = config->one_call;
    c->bare_calls = config->bare_calls;
    c->hide_reasoning = config->hide_reasoning;
    c->call_seed = config->call_seed;
}

/* Where text goes that is certain: to the parser, if there is one. */
static struct buf *begin_text(struct choice *c, struct buf *out) {
    c->out = out;
    c->sink.ctx = c;
    buf_reset(&c->raw);
    return c->parser ? &c->raw : out;
}

static void end_text(struct choice *c, bool last) {
    if (!c->parser)
        return;
    if (c->raw.len)
        parser_push(c->parser, buf_bytes(&c->raw), &c->sink);
    if (last)
        parser_end(c->parser, &c->sink);
}

/* ---- life ---- */

int choice_init(struct choice *c, uint32_t index, const struct choice_config *config,
                struct error *err) {
    *c = (struct choice){.index = index,
                         .has_stops = config->stop_count > 0,
                         .patterns = config->stop_patterns,
                         .include_stop_text = config->include_stop_text};
    detok_init(&c->detok, config->tokenizer,
               (config->begins_text ? 0u : DETOKENIZE_CONTINUES) |
                   (config->skip_special ? DETOKENIZE_SKIP_SPECIAL : 0u));
    init_parser(c, config);
    if (!c->has_stops)
        return 0;
    return stop_init(&c->stop, config->stops, config->stop_count, config->include_stop_text, err);
}

void choice_release(struct choice *c) {
    struct buf *const bufs[] = {&c->scratch, &c->raw,      &c->reasoning, &c->calls,
                                &c->text,    &c->logprobs, &c->ids,       &c->prompt_logprobs};
    if (c->has_stops)
        stop_release(&c->stop);
    parser_free(&c->parser);
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        buf_release(bufs[i]);
    *c = (struct choice){0};
}

bool choice_is_thinking(const struct choice *c) {
    return c->parser && parser_is_thinking(c->parser);
}

bool choice_is_short(const struct choice *c) {
    return c->scratch.failed || c->raw.failed || c->reasoning.failed || c->calls.failed ||
           c->text.failed || c->logprobs.failed || c->ids.failed || c->prompt_logprobs.failed;
}

/* ---- tokens ---- */

/* A special token that means something to the parser is text for it. */
static bool is_wanted(struct choice *c, uint32_t id) {
    if (!c->parser || !tokenizer_is_special(c->detok.tokenizer, id))
        return false;
    struct buf text = {0};
    tokenizer_token_text(c->detok.tokenizer, id, &text);
    bool wanted = parse_wants_token(&c->parse, buf_bytes(&text));
    buf_release(&text);
    return wanted;
}

static void detokenize(struct choice *c, uint32_t id, struct buf *out) {
    unsigned flags = c->detok.flags;
    if (flags & DETOKENIZE_SKIP_SPECIAL && is_wanted(c, id))
        c->detok.flags &= ~(unsigned)DETOKENIZE_SKIP_SPECIAL;
    detok_push(&c->detok, id, out);
    c->detok.flags = flags;
}

/* Appends the text in c->scratch up to where the choice ends. True when it does: a stop string is
 * complete or a pattern found, whichever is first; a string, where both end at one byte. */
static bool push_scratch(struct choice *c, struct buf *text) {
    struct bytes piece = buf_bytes(&c->scratch);
    c->has_pattern = c->patterns && finder_read(c->patterns, &c->pattern_state, piece, &piece.len,
                                                &c->pattern_idx);
    if (!c->has_stops) {
        buf_add_bytes(text, piece);
        return c->has_pattern;
    }
    if (piece.len > 0 && stop_push(&c->stop, piece, text)) {
        c->has_pattern = false;
        return true;
    }
    if (c->has_pattern)
        stop_flush(&c->stop, text);
    return c->has_pattern;
}

/* True when the choice ends. */
static bool push_text(struct choice *c, uint32_t id, bool echoes, struct buf *text) {
    if ((!c->has_stops && !c->patterns) || echoes) {
        detokenize(c, id, text);
        return false;
    }
    buf_reset(&c->scratch);
    detokenize(c, id, &c->scratch);
    return push_scratch(c, text);
}

bool choice_push(struct choice *c, uint32_t id, struct buf *out) {
    bool thinks = choice_is_thinking(c);
    bool echoes = c->echo_count > 0;
    if (echoes)
        c->echo_count--;
    else
        c->token_count++;
    bool stopped = push_text(c, id, echoes, begin_text(c, out));
    if (stopped)
        c->finish = CHOICE_STOP;
    end_text(c, stopped);
    if (thinks && parser_is_thinking(c->parser))
        c->thought_count++;
    return stopped;
}

/* What the detokenizer and the matcher hold back. The last bytes may still complete a stop
 * string. */
static void flush(struct choice *c, struct buf *text) {
    if (!c->has_stops && !c->patterns) {
        detok_flush(&c->detok, text);
        return;
    }
    buf_reset(&c->scratch);
    detok_flush(&c->detok, &c->scratch);
    if (push_scratch(c, text))
        c->finish = CHOICE_STOP;
    else if (c->has_stops)
        stop_flush(&c->stop, text);
}

void choice_push_stop(struct choice *c, uint32_t id, struct buf *out) {
    c->has_stop_token = true;
    c->stop_token = id;
    if (c->include_stop_text && choice_push(c, id, out))
        return;
    if (!c->include_stop_text)
        c->token_count++;
    choice_end(c, CHOICE_STOP, out);
}

void choice_end(struct choice *c, enum choice_finish finish, struct buf *out) {
    c->finish = finish;
    flush(c, begin_text(c, out));
    end_text(c, true);
}

enum choice_finish choice_reported_finish(const struct choice *c) {
    bool called = c->parser && parser_call_count(c->parser) > 0;
    return c->finish == CHOICE_STOP && called ? CHOICE_CALLS : c->finish;
}

struct bytes choice_stop_text(const struct choice *c) {
    if (c->has_pattern)
        return finder_pattern(c->patterns, c->pattern_idx);
    return c->has_stops ? stop_match(&c->stop) : bytes_of(NULL, 0);
}

const char *choice_finish_text(enum choice_finish finish) {
    switch (finish) {
    case CHOICE_STOP: return "stop";
    case CHOICE_LENGTH:
    case CHOICE_DEADLINE: return "length";
    case CHOICE_ERROR: return "error";
    case CHOICE_CALLS: return "tool_calls";
    case CHOICE_ABORTED: return "abort";
    case CHOICE_RUNNING: break;
    }
    return "stop";
}
