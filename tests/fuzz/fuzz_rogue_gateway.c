/* A rogue gateway at a live scheduler (rogue/house.h): it submits, takes up, cancels, acknowledges
 * and asks for what is not its own, in any order. The honest gateway's streams end as they should,
 * with the model's own tokens. */
#include "fuzz.h"

#include "proto/link.h"
#include "rogue/house.h"
#include "scheduler/process.h"

static void submit(struct house *h) {
    static uint32_t tokens[4][32];
    struct rogue *r = &h->rogue;
    uint8_t how = rogue_byte(r);
    struct wire_choice choices[3];
    size_t choice_count = 1 + how % 3;
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < 32; i++)
            tokens[k][i] = (uint32_t)(k * 100 + i + how / 64);
    for (size_t i = 0; i < choice_count; i++)
        choices[i] = (struct wire_choice){
            .choice = (uint32_t)i, .emitted = {tokens[1 + i], how & 8 ? (size_t)(how / 16) : 0}};
    struct wire_submit m = {.request = {rogue_byte(r) % 6 + 1u, 88},
                            .attempt = how & 8 ? 1 + rogue_byte(r) % 3 : 0,
                            .kind = WIRE_GENERATE,
                            .model = bytes_str("fake"),
                            .prompt = {tokens[0], 1 + rogue_byte(r) % 31},
                            .sampling = {.top_p = 1, .repetition_penalty = 1, .logprobs = -1},
                            .max_tokens = 1 + rogue_byte(r) % 60,
                            .choices = choices,
                            .choice_count = choice_count,
                            .resumed = how & 8,
                            .resumable = how & 4,
                            .stream = bytes_str(how & 4 ? "s1" : ""),
                            .tenant = {how & 16 ? 88 : 0, 0}};
    rogue_note_id(r, m.request);
    house_say_changed(h, WIRE_SUBMIT, &m);
}

static void ack(struct house *h) {
    struct rogue *r = &h->rogue;
    struct u128 request = {rogue_byte(r) % 6 + 1u, 88};
    uint8_t how = rogue_byte(r);
    uint32_t attempt = how % 4, choice = how / 4 % 4, count = how / 16;
    struct wire_ack m = {{&request, 1}, {&attempt, 1}, {&choice, 1}, {&count, 1}};
    house_say_changed(h, WIRE_ACK, &m);
}

static void steer(struct house *h) {
    struct rogue *r = &h->rogue;
    uint8_t whose = rogue_byte(r);
    struct u128 request = whose < 200 ? (struct u128){whose % 6 + 1u, 88} : rogue_id(r),
                tenant = {rogue_byte(r) & 1 ? 88 : 0, 0};
    uint8_t how = rogue_byte(r);
    uint32_t attempt = how / 8 % 4, choice = how / 32, index = rogue_byte(r) % 64;
    struct wire_cancel cancel = {request, attempt, how & 4 ? WIRE_ALL_CHOICES : choice, how & 128};
    struct wire_pause pause = {request, attempt, how & 4};
    struct wire_resend resend = {request, attempt, choice, index};
    struct wire_attach attach = {request, attempt, tenant, {&choice, 1}, {&index, 1}, {0}, {0}};
    if (how & 4) {
        attach.new_request = (struct u128){rogue_byte(r) % 6 + 1u, 88};
        attach.request = (struct u128){0};
        attach.stream = bytes_str("s1");
    }
    switch (how % 4) {
    case 0: house_say_changed(h, WIRE_CANCEL, &cancel); break;
    case 1: house_say_changed(h, WIRE_PAUSE, &pause); break;
    case 2: house_say_changed(h, WIRE_RESEND, &resend); break;
    default: house_say_changed(h, WIRE_ATTACH, &attach); break;
    }
}

/* A full queue may have refused some; all others are whole. */
static void check_streams(const struct fake_gateway *g) {
    CHECK(g->wrong == 0);
    for (size_t i = 0; i < g->stream_count; i++) {
        const struct fake_stream *s = &g->streams[i];
        if (s->open || s->reject == WIRE_REJECT_OVERLOADED)
            continue;
        CHECK(s->reject == 0 && s->finish == WIRE_FINISH_LENGTH);
        CHECK(s->count == s->prompt_count + s->max_tokens);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    static struct house h;
    house_open(&h, WIRE_ROLE_GATEWAY, data, len);
    house_hello(&h);
    house_run(&h, 0);
    while (h.rogue.at < h.rogue.end) {
        uint8_t what = rogue_byte(&h.rogue);
        if (what < 40)
            house_submit(&h);
        else if (what < 46)
            house_hello(&h);
        else if (what < 110)
            submit(&h);
        else if (what < 140)
            ack(&h);
        else if (what < 180)
            steer(&h);
        else if (what < 210)
            house_say_drawn(&h);
        else if (what < 225)
            house_say_again(&h);
        check_streams(h.gateway);
        house_run(&h, what < 240 ? what % 8 : what);
    }
    house_close(&h);
    return 0;
}
