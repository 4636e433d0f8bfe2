/*
 * peers.h - sums and gathers among GPUs that write to each other's memory (NVLink, or PCIe where the
 * driver lets them).
 *
 * Each rank has a box that the others write to. A block of a kernel pushes its part of the values
 * into the boxes of all others, tells them by a flag, and waits for theirs; block b of one rank
 * deals with block b of every other, and with nobody else. So an exchange is one kernel, no host
 * takes part, and it can be recorded in a graph.
 *
 * Invariants:
 *   (1) a sum is taken in rank order in f32 and rounded once: the bits of op_sum_addends, whatever
 *       the size, the number of blocks and the way (one or two shots);
 *   (2) all ranks make the same calls in the same order with the same sizes;
 *   (3) a box has two places for each block and sender, used in turn: who writes the k-th message of
 *       a block has seen the other's k - 1st flag, which the other raised after it had read message
 *       k - 2, which lay there before. `norm` has places of its own, and its messages no flags: each
 *       word is a flag itself (kernels/cuda/peers_norm.cu);
 *   (4) no wait of a kernel is for ever: it ends in time, or when the host says so (abort). Then the
 *       rank is broken: what its kernels leave is worthless, later ones do nothing, until the next
 *       join;
 *   (5) after `open` nothing is allocated; graphs outlive a join.
 *
 * Threading: the device's thread.
 */
#ifndef KERNELS_PEERS_H
#define KERNELS_PEERS_H

#include "kernels/device.h"

enum { PEERS_MAX = 8, PEER_HANDLE_BYTES = 64 };

/* What the others must know of a rank's box. Zeros: it has none. */
struct peer_card {
    uint64_t box_bytes;
    uint32_t count, blocks;                  /* that it has room for: ranks; blocks of a kernel */
    uint32_t adds;                           /* the owner's: rows of products that may add up */
    int32_t domain, bus, slot;               /* where its GPU is on PCI */
    unsigned char handle[PEER_HANDLE_BYTES]; /* cudaIpcMemHandle_t */
};

struct peers; /* the device's */
struct op_rmsnorm;
struct matrix;

/* x = x_0 + x_1 + ... of all ranks, [count]; act, or f32 where f32. */
struct op_peer_sum {
    struct peers *peers;
    void *x;
    size_t count;
    bool f32;
    int shots; /* 1: all send all to all; 2: each sums a part and sends it; 0: as the size wants */
};

/* Rank 0: all[row * stride + firsts[r] + i] = rank r's own[row * counts[r] + i]; f32. The others
 * give theirs; all is not read there. */
struct op_peer_gather {
    struct peers *peers;
    float *all;
    const float *own;
    size_t stride;
    uint32_t rows;
    uint32_t firsts[PEERS_MAX], counts[PEERS_MAX];
};

/* delta = delta_0 + delta_1 + ... of all ranks, and then what rmsnorm does: the bits of `sum` and
 * rmsnorm. What lies at delta is worth nothing afterwards. */
struct op_peer_norm {
    struct peers *peers;
    const struct op_rmsnorm *norm;
    int shots;   /* as of op_peer_sum */
    bool pushed; /* delta is out of an op_linear that has pushed it (op_linear.push) */
};

struct peer_ops {
    /* Takes the memory of rank `self` of `count` <= PEERS_MAX; *card is to be told to all others.
     * ERR_MEMORY, ERR_UNSUPPORTED. */
    int (*open)(struct device *dev, uint32_t self, uint32_t count, struct peers **out,
                struct peer_card *card, struct error *err);
    /* After leave, and when no other rank uses the box any more. */
    void (*close)(struct peers *p);
    /* Reaches the boxes of cards[count] (its own is passed over), and empties its own: no rank may
     * put an exchange on a stream before all have joined, and none may join before all kernels of an
     * earlier formation have ended on every rank. No kernel waits longer than wait_ms.
     * ERR_UNSUPPORTED: one of them cannot be reached, with the reason; nothing is left open then. */
    int (*join)(struct peers *p, const struct peer_card *cards, int64_t wait_ms, struct error *err);
    /* The others' boxes are not touched any more. No exchange may be running. */
    void (*leave)(struct peers *p);
    /* Kernels that wait for others give up, at once. Any number of times; until the next join. */
    void (*abort)(struct peers *p);
    /* Whether some kernel has given up; to be asked when an event behind it is done. */
    bool (*broken)(const struct peers *p);
    /* In stream order; between join and leave. They can be recorded. */
    void (*sum)(struct stream *s, const struct op_peer_sum *a);
    void (*gather)(struct stream *s, const struct op_peer_gather *a);
    /* Whether `norm` is for this one; the same on every rank. */
    bool (*norms)(const struct peers *p, const struct op_rmsnorm *norm);
    void (*norm)(struct stream *s, const struct op_peer_norm *a);
    /* Whether a product with w may give its out, which `norm` is to add up, to the other ranks itself. Each rank may do so or not; one that does has `norm` follow, pushed. */
    bool (*pushes)(const struct peers *p, const struct op_rmsnorm *norm, const struct matrix *w);
    /* Whether a product with w, for so many rows, all of output class, may give its out to the other
     * ranks, take theirs and add the sum to the residual: op_linear.push and .residual. All ranks do, or
     * none. */
    bool (*adds)(const struct peers *p, const struct matrix *w, uint32_t rows);
};

#endif
