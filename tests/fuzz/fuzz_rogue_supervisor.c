/* A rogue supervisor at a live scheduler (rogue/house.h): it says of anybody that he has ended, of a
 * fault or of none, again and again and of those that live. The honest gateway's streams come to
 * their end, with the model's own tokens; what is refused was refused by name. */
#include "fuzz.h"

#include "proto/link.h"
#include "rogue/house.h"
#include "scheduler/process.h"

static void exited(struct house *h) {
    struct rogue *r = &h->rogue;
    uint8_t whose = rogue_byte(r), how = rogue_byte(r);
    const struct u128 ends[] = {link_client_instance(h->gateway->link), HOUSE_WORKER, rogue_id(r)};
    struct wire_exited m = {.instance = ends[whose % ARRAY_LEN(ends)],
                            .cause = (enum wire_exit_cause)(how % (WIRE_EXIT_FENCED + 1)),
                            .value = rogue_byte(r),
                            .fault = how & 128};
    house_say_changed(h, WIRE_EXITED, &m);
}

/* Those who say that the worker ended of a fault may have its requests refused, and no other way. */
static void check_streams(const struct fake_gateway *g) {
    CHECK(g->wrong == 0);
    for (size_t i = 0; i < g->stream_count; i++) {
        const struct fake_stream *s = &g->streams[i];
        if (s->open)
            continue;
        if (s->reject)
            CHECK(s->reject == WIRE_REJECT_OVERLOADED || s->reject == WIRE_REJECT_POISON);
        else
            CHECK(s->finish == WIRE_FINISH_LENGTH && s->count == s->prompt_count + s->max_tokens);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    static struct house h;
    house_open(&h, WIRE_ROLE_SUPERVISOR, data, len);
    house_hello(&h);
    house_run(&h, 0);
    while (h.rogue.at < h.rogue.end) {
        uint8_t what = rogue_byte(&h.rogue);
        if (what < 70)
            house_submit(&h);
        else if (what < 78)
            house_hello(&h);
        else if (what < 150)
            exited(&h);
        else if (what < 190)
            house_say_drawn(&h);
        else if (what < 215)
            house_say_again(&h);
        check_streams(h.gateway);
        house_run(&h, what < 240 ? what % 8 : what);
    }
    house_close(&h);
    return 0;
}
