#include "gateway/choice.h"

int choice_init(struct choice *c, uint32_t index, const struct choice_config *config, struct error *err) {
    *c = (struct choice){
        .index = index, .has_stops = config->stop_count > 0, .include_stop_text = config->include_stop_text};
    detok_init(&c->detok, config->tokenizer,
               (config->begins_text ? 0u : DECODE_CONTINUES) | (config->skip_special ? DECODE_SKIP_SPECIAL : 0u));
    if (!c->has_stops) return 0;
    return stop_init(&c->stop, config->stops, config->stop_count, config->include_stop_text, err);
}

void choice_release(struct choice *c) {
    if (c->has_stops) stop_release(&c->stop);
    buf_release(&c->scratch);
    buf_release(&c->text);
    buf_release(&c->logprobs);
    buf_release(&c->ids);
    *c = (struct choice){0};
}

bool choice_push(struct choice *c, uint32_t id, struct buf *out) {
    c->token_count++;
    if (!c->has_stops) {
        detok_push(&c->detok, id, out);
        return false;
    }
    buf_reset(&c->scratch);
    detok_push(&c->detok, id, &c->scratch);
    if (c->scratch.len == 0 || !stop_push(&c->stop, buf_bytes(&c->scratch), out)) return false;
    c->finish = CHOICE_STOP;
    return true;
}

/* What the detokenizer and the matcher hold back. The last bytes may still complete a stop string. */
static void flush(struct choice *c, struct buf *out) {
    if (!c->has_stops) {
        detok_flush(&c->detok, out);
        return;
    }
    buf_reset(&c->scratch);
    detok_flush(&c->detok, &c->scratch);
    if (c->scratch.len > 0 && stop_push(&c->stop, buf_bytes(&c->scratch), out))
        c->finish = CHOICE_STOP;
    else
        stop_flush(&c->stop, out);
}

void choice_push_stop(struct choice *c, uint32_t id, struct buf *out) {
    if (c->include_stop_text && choice_push(c, id, out)) return;
    if (!c->include_stop_text) c->token_count++;
    choice_end(c, CHOICE_STOP, out);
}

void choice_end(struct choice *c, enum choice_finish finish, struct buf *out) {
    c->finish = finish;
    flush(c, out);
}

const char *choice_finish_text(enum choice_finish finish) {
    switch (finish) {
    case CHOICE_STOP: return "stop";
    case CHOICE_LENGTH:
    case CHOICE_DEADLINE: return "length";
    case CHOICE_ERROR: return "error";
    case CHOICE_RUNNING: break;
    }
    return "stop";
}
