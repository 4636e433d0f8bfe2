/*
 * messages.h - every message between gateway, scheduler, worker and supervisor, as plain C structs.
 *
 * These structs are what the processes, the scheduler's core and the simulator work with;
 * proto/codec.h turns them into frames and back, validated. The structs themselves, the kinds and
 * the enums are made from proto/trireme.proto, where each message, member and bound is described: a
 * message NAME there is struct wire_NAME here. What is below is what they rest on. Decoded structs
 * borrow from the received frame and from the arena given to the decoder: they are valid until the
 * arena is reset. Encoding borrows everything.
 *
 * Lists are structures of arrays: parallel spans of equal count, so that a later version can add a
 * column. On the wire each column is packed little-endian bytes.
 *
 * Identity and order (architecture: Delivery):
 *   request   128 bits, minted by the gateway. It has choices 0 .. n-1; a sequence is one choice.
 *   attempt   the gateway's count of Submits for a request (0 first). Deltas repeat it; others are
 *             stale.
 *   index     position of a token among its choice's output tokens, from 0.
 *   epoch     of the scheduler; in every frame header, in both directions.
 */
#ifndef PROTO_MESSAGES_H
#define PROTO_MESSAGES_H

#include "base/base.h"

struct u32s {
    const uint32_t *items;
    size_t count;
};
struct f32s {
    const float *items;
    size_t count;
};
struct u128s {
    const struct u128 *items;
    size_t count;
};

/* Bounds every decoder enforces; a frame past one is malformed. */
enum {
    WIRE_MAX_TOKENS = 1 << 20, /* tokens of one sequence */
    WIRE_MAX_WEIGHT = 10000,   /* of a tenant */
    WIRE_MAX_CHOICES = 128,
    WIRE_MAX_STOP_TOKENS = 64,
    WIRE_MAX_LOGIT_BIAS = 1024,
    WIRE_MAX_TOKEN_BITS = 1 << 17, /* bytes of a bit for each token */
    WIRE_MAX_BAD_WORDS = 4096,     /* numbers of all sequences together, */
    WIRE_BAD_WORD_TOKENS_MAX = 32, /* and tokens of one */
    WIRE_MAX_TOP_LOGPROBS = 32,
    WIRE_MAX_SLOTS = 16384,
    WIRE_MAX_BLOCKS = 1 << 24,
    WIRE_MAX_GROUPS = 16,
    WIRE_MAX_TEXT = 4096, /* names, error texts */
    WIRE_MAX_PRESENTATION = 256 * 1024,
    WIRE_MAX_STREAM = 128,     /* what a client calls its stream */
    WIRE_MAX_VECTOR = 1 << 16, /* values of an embedding */
    WIRE_MAX_GRAMMAR = 1 << 20,
    WIRE_BUNDLE_CHUNK_BYTES = 256 * 1024,
    WIRE_MAX_BUNDLE = 256 << 20,
    WIRE_MAX_MODELS = 64,
    WIRE_STEP_BUCKETS = 16, /* 1, 2, 4, ... 16384 positions, and more */
    WIRE_COMM_ID_MAX = 1024,
    WIRE_MAX_FRAME = 64 << 20
};
/* Of a Submit that asks whether tokens are made: it goes first, whoever waits. No client's. */
#define WIRE_PRIORITY_PROBE INT32_MIN

/* Values that stand for something else. */
enum {
    WIRE_FEATURE_BASE = 1,        /* bits of Hello and Welcome's features */
    WIRE_FEATURE_RELEASE = 2,     /* Welcome: a worker that drains is told when it may end */
    WIRE_FEATURE_TOKEN_LISTS = 4, /* Hello: a worker holds to Sampling's allowed and bad_words */
    WIRE_FEATURE_QUIET = 8,       /* both: signs of life are rare while nothing is said */
    WIRE_DELTA_ACCEPTED = 1,      /* bits of a run's flags: answer to a Submit: taken */
    WIRE_DELTA_OTHER_FINGERPRINT = 2, /* made by a replica whose bits may differ */
    WIRE_DELTA_PROGRESS = 4,          /* no tokens: how far its prompt has been computed */
};
enum { WIRE_ALL_CHOICES = UINT32_MAX }; /* Cancel: every choice of the request */
enum { WIRE_NO_LOGPROBS = UINT32_MAX }; /* a token's count in `tops`: it has none at all */

#include "wire_messages.h" /* made from trireme.proto */

/* May a sequence have some tokens alone, or never some words? WIRE_FEATURE_TOKEN_LISTS. */
static inline bool sampling_has_lists(const struct wire_sampling *sampling) {
    return sampling->allowed.len || sampling->bad_words.count;
}

#endif
