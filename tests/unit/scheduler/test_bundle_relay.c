#include "base/hash.h"
#include "check.h"
#include "scheduler/bundle_relay.h"

enum { CHUNK = WIRE_BUNDLE_CHUNK_BYTES, LEN = 5 * CHUNK + 17 };

static uint8_t bytes[LEN];

struct world {
    struct bundle_relay relay;
    bool has_source;
    uint64_t asks[64];
    size_t ask_count;
    uint64_t answers, answered_bytes, wrong;
    struct u128 last_gateway;
};

static void answer(void *ctx, struct u128 gateway, const struct wire_bundle_chunk *chunk) {
    struct world *w = ctx;
    w->answers++;
    w->answered_bytes += chunk->data.len;
    w->last_gateway = gateway;
    w->wrong += chunk->total != LEN || chunk->offset + chunk->data.len > LEN ||
                memcmp(chunk->data.data, bytes + chunk->offset, chunk->data.len) != 0;
}

static bool ask(void *ctx, const struct wire_bundle_get *get) {
    struct world *w = ctx;
    if (w->has_source && w->ask_count < ARRAY_LEN(w->asks))
        w->asks[w->ask_count++] = get->offset;
    return w->has_source;
}

static struct u128 world_init(struct world *w) {
    *w = (struct world){.has_source = true};
    struct bundle_relay_calls calls = {.ctx = w, .answer = answer, .ask = ask};
    bundle_relay_init(&w->relay, &calls, 64 << 20);
    for (size_t i = 0; i < LEN; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    return hash128(bytes, LEN, 0);
}

/* A worker that answers what was asked until now. */
static void serve(struct world *w, struct u128 bundle, const uint8_t *data) {
    uint64_t asks[ARRAY_LEN(w->asks)];
    size_t count = w->ask_count;
    memcpy(asks, w->asks, sizeof asks);
    w->ask_count = 0;
    for (size_t i = 0; i < count; i++) {
        size_t len = (size_t)MIN((uint64_t)CHUNK, LEN - asks[i]);
        struct wire_bundle_chunk chunk = {bundle, asks[i], LEN, bytes_of(data + asks[i], len)};
        bundle_relay_chunk(&w->relay, 0, &chunk);
    }
}

TEST(bundle_relay_fetches_once_and_answers_many) {
    struct world w;
    struct u128 bundle = world_init(&w);
    for (uint64_t g = 1; g <= 3; g++)
        bundle_relay_get(&w.relay, 0, (struct u128){g, 0}, &(struct wire_bundle_get){bundle, 0});
    EXPECT_EQ(w.ask_count, 1); /* one fetch for all */
    while (w.ask_count) {
        EXPECT_EQ(w.answers, 0); /* nothing unchecked goes out */
        serve(&w, bundle, bytes);
        EXPECT(w.ask_count <= BUNDLE_WINDOW);
    }
    EXPECT_EQ(w.answers, 3);
    for (uint64_t at = 0; at < LEN; at += CHUNK)
        bundle_relay_get(&w.relay, 0, (struct u128){9, 0}, &(struct wire_bundle_get){bundle, at});
    EXPECT_EQ(w.ask_count, 0);
    EXPECT_EQ(w.answered_bytes, 3 * CHUNK + LEN);
    EXPECT_EQ(w.wrong, 0);
    EXPECT_EQ(w.last_gateway.lo, 9);
    bundle_relay_get(&w.relay, 0, (struct u128){9, 0},
                     /* past the end: an empty chunk */
                     &(struct wire_bundle_get){bundle, LEN + 100});
    EXPECT_EQ(w.answered_bytes, 3 * CHUNK + LEN);
    bundle_relay_release(&w.relay);
}

TEST(bundle_relay_throws_away_what_is_not_the_bundle) {
    struct world w;
    struct u128 bundle = world_init(&w);
    uint8_t *bad = mem_alloc(LEN);
    memcpy(bad, bytes, LEN);
    bad[LEN / 2] ^= 1;
    bundle_relay_get(&w.relay, 0, (struct u128){1, 0}, &(struct wire_bundle_get){bundle, 0});
    while (w.ask_count)
        serve(&w, bundle, bad);
    EXPECT_EQ(w.relay.refused_count, 1);
    EXPECT_EQ(w.answers, 0);
    bundle_relay_tick(&w.relay, BUNDLE_RETRY_MS);
    EXPECT_EQ(w.ask_count, 1);
    while (w.ask_count)
        serve(&w, bundle, bytes);
    EXPECT_EQ(w.answers, 1);
    EXPECT_EQ(w.wrong, 0);
    mem_free(bad);
    bundle_relay_release(&w.relay);
}

TEST(bundle_relay_waits_for_a_source_and_goes_on_where_it_was) {
    struct world w;
    struct u128 bundle = world_init(&w);
    w.has_source = false;
    bundle_relay_get(&w.relay, 0, (struct u128){1, 0}, &(struct wire_bundle_get){bundle, 0});
    bundle_relay_tick(&w.relay, BUNDLE_RETRY_MS);
    EXPECT_EQ(w.ask_count, 0);
    w.has_source = true;
    bundle_relay_tick(&w.relay, 2 * BUNDLE_RETRY_MS);
    EXPECT_EQ(w.ask_count, 1);
    serve(&w, bundle, bytes); /* the first chunk; those asked for next are lost with their worker */
    EXPECT(w.ask_count > 0);
    w.ask_count = 0;
    bundle_relay_tick(&w.relay, 4 * BUNDLE_RETRY_MS);
    EXPECT(w.ask_count > 0);
    EXPECT_EQ(w.asks[0], CHUNK);
    while (w.ask_count)
        serve(&w, bundle, bytes);
    EXPECT_EQ(w.answers, 1);
    bundle_relay_release(&w.relay);
}

TEST(bundle_relay_ignores_chunks_that_nobody_asked_for) {
    struct world w;
    struct u128 bundle = world_init(&w);
    struct wire_bundle_chunk chunk = {
        .bundle = bundle, .offset = 0, .total = LEN, .data = bytes_of(bytes, CHUNK)};
    bundle_relay_chunk(&w.relay, 0, &chunk);
    chunk.bundle = (struct u128){0};
    bundle_relay_chunk(&w.relay, 0, &chunk);
    for (size_t i = 0; i < BUNDLE_ENTRIES_MAX; i++)
        EXPECT(u128_is_zero(w.relay.entries[i].bundle));
    bundle_relay_release(&w.relay);
}

TEST(bundle_relay_keeps_a_bounded_number) {
    struct world w;
    world_init(&w);
    for (uint64_t i = 1; i <= 3 * BUNDLE_ENTRIES_MAX; i++)
        bundle_relay_get(&w.relay, (int64_t)i, (struct u128){1, 0},
                         &(struct wire_bundle_get){{i, i}, 0});
    for (size_t i = 0; i < BUNDLE_ENTRIES_MAX; i++)
        EXPECT(w.relay.entries[i].bundle.lo > 2 * BUNDLE_ENTRIES_MAX);
    for (uint64_t i = 0; i < 2 * BUNDLE_WAITERS_MAX; i++)
        bundle_relay_get(&w.relay, 99, (struct u128){i + 1, 5},
                         &(struct wire_bundle_get){{48, 48}, 0});
    for (size_t i = 0; i < BUNDLE_ENTRIES_MAX; i++)
        EXPECT(w.relay.entries[i].waiters.count <= BUNDLE_WAITERS_MAX);
    bundle_relay_release(&w.relay);
}
