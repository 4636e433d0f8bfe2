/*
 * attention.inc.h - attention over the paged cache for mixed rows.
 *
 * Layout of a layer in a block, in the cache's type: K [kv_heads, head_dim, block_tokens] (so that
 * lanes are positions and a score needs no sum over lanes), then V [kv_heads, block_tokens,
 * head_dim] (lanes are dims). An int8 cache's numbers go through the sums as they are; keys' scales
 * are multiplied into scores, values' into weights.
 *
 * A unit is consecutive rows of one run and one KV head, up to UNIT_QUERIES queries (rows x the
 * heads of the group). The cache is walked in splits of ATTENTION_SPLIT positions at absolute
 * places, each split by all of the unit's queries while it is near, in tiles of QUERIES that share
 * every load of K and V. Where queries are many, all tiles meet a few positions, made f32 once,
 * before the next ones. A split gives each query a maximum m, a sum l and a vector acc; splits are
 * merged in ascending order:
 *     M' = max(M, m), L' = L e^(M - M') + l e^(m - M'), A' = A e^(M - M') + acc e^(m - M').
 * Order for one query: scores by dims ascending, l in VW lanes, acc by positions ascending. None of
 * it depends on the other queries, the rows or the threads. With few units, splits run in parallel
 * into scratch and are merged in the same order.
 */
enum {
    ATTENTION_DIM_MAX = 512,
    UNIT_QUERIES = VW == 8 ? 96 : 64, /* most of a unit */
    UNIT_QUERIES_LEAST = UNIT_QUERIES / 2,
    TILE_QUERIES = 256,  /* most of a unit in attention_tiles.inc.h */
    TILE_VALUES = 32768, /* ... and of their numbers; ATTENTION_DIM_MAX * TILE_QUERIES_LEAST */
    TILE_QUERIES_LEAST = 64,
    /* what the registers hold: 16 of 8 lanes hold 12 sums, two vectors and a factor */
    QUERIES = VW == 16  ? 8
              : VW == 8 ? 6
                        : 4,
    QUERIES_NARROW = 4,
    VALUES_CHUNK = VW == 8 ? 2 : 4, /* vectors of a row of V beside QUERIES_NARROW sums each */
    PARTIALS_MAX = 2048
};

#include "kernels/cpu/rope_kv.inc.h"

#include "kernels/cpu/attention_split.inc.h"

#include "kernels/cpu/attention_wide.inc.h"

/* ---- units ---- */

/* Rows [row, row + rows) of one run, one KV head. */
struct attention_unit {
    uint32_t row, rows, g;
};

struct attention_task {
    const struct op_attention *a;
    const uint32_t *unit_rows; /* [row_unit_count + 1]: where each run of rows begins */
    uint32_t row_unit_count;
    uint32_t splits; /* splits in parallel; 0: a unit does its splits itself */
    char *partials;  /* with splits: [row, head, split] */
    size_t partial_bytes;
    bool tiles; /* as attention_tiles.inc.h does it */
    bool amx;   /* there: by AMX, not VDPBF16PS */
};

/* The last position that row t, no padding, sees. */
static uint32_t last_of(const struct op_attention *a, uint32_t t) {
    return a->last ? a->last[t] : a->batch->positions[t];
}

/* The tile's queries that see something of the split at `start`; their heads go to heads[], rows to
 * rows[]. */
static void pick_queries(const struct op_attention *a, const struct attention_unit *u,
                         uint32_t first_query, uint32_t count, uint32_t start, struct queries *qs,
                         uint32_t *query_idx) {
    const struct kv_view *kv = a->kv;
    uint32_t group = a->heads / kv->kv_heads, stride = (a->heads + 2 * kv->kv_heads) * kv->head_dim;
    qs->count = 0;
    for (uint32_t i = first_query; i < first_query + count; i++) {
        uint32_t t = u->row + i / group, head = u->g * group + i % group,
                 position = a->batch->positions[t];
        uint32_t lo = MAX(attention_first(a, position), start),
                 hi = MIN(last_of(a, t) + 1, start + ATTENTION_SPLIT);
        if (lo >= hi)
            continue;
        qs->q[qs->count] = (const float *)a->qkv + (size_t)t * stride + (size_t)head * kv->head_dim;
        qs->lo[qs->count] = lo;
        qs->hi[qs->count] = hi;
        qs->position[qs->count] = position;
        qs->slope[qs->count] = a->slopes ? a->slopes[head] : 0;
        query_idx[qs->count++] = i;
    }
}

/* TILE_QUERIES or fewer partials whose accs are TILE_VALUES or fewer. */
#define TILE_TOTALS_BYTES                                                                          \
    (TILE_VALUES * sizeof(float) + TILE_QUERIES * (sizeof(struct partial) + 64))

/* The unit's queries [first_query, end) that see something of the split at `start`, in tiles.
 * Queries lie in space->q. Returns how many tiles. */
static uint32_t cut_tiles(const struct op_attention *a, const struct attention_unit *u,
                          uint32_t first_query, uint32_t end, uint32_t start,
                          struct unit_space *space, struct query_tile *tiles) {
    uint32_t dim = a->kv->head_dim, count = 0, idx[QUERIES];
    for (uint32_t at = first_query, n; at < end; at += n) {
        struct query_tile *t = &tiles[count];
        n = next_tile(end - at);
        pick_queries(a, u, at, n, start, &t->qs, idx);
        for (int i = 0; i < t->qs.count; i++) {
            uint32_t query = idx[i] - first_query;
            struct partial *total = (struct partial *)(space->totals + query * PARTIAL_BYTES(dim));
            t->qs.q[i] = space->q + query * dim;
            t->scores[i] = space->scores[query];
            t->totals[i] = total;
            t->partials[i] = total->sum == -1 /* nothing yet */
                                 ? total
                                 : (struct partial *)(space->splits + query * PARTIAL_BYTES(dim));
            t->acc[i] = t->partials[i]->acc;
        }
        t->span = span_of(&t->qs);
        count += t->qs.count > 0;
    }
    return count;
}

/* Up to UNIT_QUERIES queries over all splits, in order. */
static void attend_queries(const struct op_attention *a, const struct attention_unit *u,
                           uint32_t first_query) {
    const struct kv_view *kv = a->kv;
    uint32_t dim = kv->head_dim, group = a->heads / kv->kv_heads, slot = a->batch->slots[u->row];
    uint32_t stride = (a->heads + 2 * kv->kv_heads) * dim;
    uint32_t last = last_of(a, u->row + u->rows - 1),
             first = attention_first(a, a->batch->positions[u->row]),
             end = MIN(first_query + UNIT_QUERIES, u->rows * group);
    struct unit_space space;
    for (uint32_t i = first_query; i < end; i++) {
        struct partial *total =
            (struct partial *)(space.totals + (i - first_query) * PARTIAL_BYTES(dim));
        total->sum = -1;
        memcpy(space.q + (i - first_query) * dim,
               (const float *)a->qkv + (size_t)(u->row + i / group) * stride +
                   (size_t)(u->g * group + i % group) * dim,
               dim * sizeof(float));
    }
    for (uint32_t start = first / ATTENTION_SPLIT * ATTENTION_SPLIT; start <= last;
         start += ATTENTION_SPLIT) {
        struct query_tile tiles[TILES_MAX];
        uint32_t count = cut_tiles(a, u, first_query, end, start, &space, tiles);
        if (end - first_query > TOGETHER_LEAST)
            attend_tiles(a, slot, u->g, start, tiles, count, space.wide);
        else
            for (const struct query_tile *t = tiles; t < tiles + count; t++)
                attend_split(a, slot, u->g, start, &t->qs, t->partials);
        for (const struct query_tile *t = tiles; t < tiles + count; t++)
            for (int i = 0; i < t->qs.count; i++)
                if (t->partials[i] != t->totals[i])
                    merge(t->totals[i], t->partials[i], dim);
    }
    for (uint32_t i = first_query; i < end; i++) {
        uint32_t h = u->g * group + i % group;
        finish((struct partial *)(space.totals + (i - first_query) * PARTIAL_BYTES(dim)),
               a->sinks ? a->sinks + h : NULL,
               (float *)a->out + ((size_t)(u->row + i / group) * a->heads + h) * dim, dim);
    }
}

static struct attention_unit unit_of(const struct attention_task *task, size_t idx) {
    uint32_t r = (uint32_t)(idx % task->row_unit_count);
    return (struct attention_unit){.row = task->unit_rows[r],
                                   .rows = task->unit_rows[r + 1] - task->unit_rows[r],
                                   .g = (uint32_t)(idx / task->row_unit_count)};
}

static bool padding(const struct op_attention *a, const struct attention_unit *u) {
    if (a->batch->positions[u->row] != ROW_NONE)
        return false;
    uint32_t dim = a->kv->head_dim, group = a->heads / a->kv->kv_heads;
    for (uint32_t t = u->row; t < u->row + u->rows; t++)
        memset((float *)a->out + ((size_t)t * a->heads + u->g * group) * dim, 0,
               group * dim * sizeof(float));
    return true;
}

/* ---- splits in parallel (few rows, long cache) ---- */

static struct partial *partial_at(const struct attention_task *task, uint32_t row, uint32_t head,
                                  uint32_t split) {
    return (struct partial *)(task->partials +
                              (((size_t)row * task->a->heads + head) * task->splits + split) *
                                  task->partial_bytes);
}

/* Most queries of a unit with tiles. */
static uint32_t tile_queries_of(uint32_t head_dim) {
    return MIN(TILE_VALUES / head_dim, (uint32_t)TILE_QUERIES);
}

#if VW == 16
#include "kernels/cpu/attention_tiles.inc.h"
#else
static bool uses_tiles(const struct stream *s, const struct kv_view *kv) {
    return false;
}
#endif

static void attend_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct attention_task *task = ctx;
    struct attention_unit u = unit_of(task, unit_idx);
    uint32_t queries = u.rows * (task->a->heads / task->a->kv->kv_heads);
    if (padding(task->a, &u))
        return;
#if VW == 16
    for (uint32_t q = 0; q < queries && task->tiles; q += tile_queries_of(task->a->kv->head_dim))
        attend_tile_queries(task, &u, q);
#endif
    for (uint32_t q = 0; q < queries && !task->tiles; q += UNIT_QUERIES)
        attend_queries(task->a, &u, q);
}

static void attend_split_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct attention_task *task = ctx;
    const struct op_attention *a = task->a;
    uint32_t split = (uint32_t)(unit_idx % task->splits), group = a->heads / a->kv->kv_heads;
    struct attention_unit u = unit_of(task, unit_idx / task->splits);
    if (a->batch->positions[u.row] == ROW_NONE)
        return;
#if VW == 16
    if (task->tiles) {
        attend_tile_unit(task, &u, split);
        return;
    }
#endif
    for (uint32_t first = 0, n; first < u.rows * group; first += n) {
        struct queries qs;
        struct partial *partials[QUERIES];
        uint32_t idx[QUERIES];
        n = next_tile(u.rows * group - first);
        pick_queries(a, &u, first, n, split * ATTENTION_SPLIT, &qs, idx);
        for (int i = 0; i < qs.count; i++)
            partials[i] =
                partial_at(task, u.row + idx[i] / group, u.g * group + idx[i] % group, split);
        if (qs.count)
            attend_split(a, a->batch->slots[u.row], u.g, split * ATTENTION_SPLIT, &qs, partials);
    }
}

static void merge_row(const struct attention_task *task, uint32_t t) {
    const struct op_attention *a = task->a;
    uint32_t dim = a->kv->head_dim, position = a->batch->positions[t];
    for (uint32_t h = 0; h < a->heads; h++) {
        uint32_t split = attention_first(a, position) / ATTENTION_SPLIT;
        struct partial *total = partial_at(task, t, h, split);
        while (++split <= last_of(a, t) / ATTENTION_SPLIT)
            merge(total, partial_at(task, t, h, split), dim);
        finish(total, a->sinks ? a->sinks + h : NULL,
               (float *)a->out + ((size_t)t * a->heads + h) * dim, dim);
    }
}

/* ---- the operation ---- */

/* Cuts the rows into units of consecutive positions of one slot, up to `queries` queries where a row
 * has no more. Returns the count; bounds has room for row_count + 1. */
static uint32_t cut_rows(const struct op_attention *a, uint32_t queries, uint32_t *bounds) {
    const struct step_batch *b = a->batch;
    uint32_t count = 0, t = 0, limit = MAX(queries / (a->heads / a->kv->kv_heads), 1u);
    while (t < b->row_count) {
        uint32_t end = t + 1;
        while (end < b->row_count && end - t < limit && b->slots[end] == b->slots[t] &&
               b->positions[t] != ROW_NONE && b->positions[end] == b->positions[t] + (end - t))
            end++;
        bounds[count++] = t;
        t = end;
    }
    bounds[count] = b->row_count;
    return count;
}

static size_t cpu_attention_scratch(const struct device *dev, uint32_t row_count, uint32_t heads,
                                    uint32_t head_dim, uint32_t max_context) {
    return ((size_t)(row_count + 1) * sizeof(uint32_t) + 63) / 64 * 64 +
           PARTIALS_MAX * PARTIAL_BYTES(head_dim);
}

/* Splits in parallel when the units alone would leave threads idle and the scratch has room. */
static uint32_t choose_splits(const struct attention_task *task, uint32_t units, uint32_t threads) {
    const struct op_attention *a = task->a;
    uint32_t longest = 0;
    for (uint32_t t = 0; t < a->batch->row_count; t++)
        if (a->batch->positions[t] != ROW_NONE)
            longest = MAX(longest, last_of(a, t));
    uint32_t splits = longest / ATTENTION_SPLIT + 1;
    bool fits = (uint64_t)a->batch->row_count * a->heads * splits <= PARTIALS_MAX;
    return splits > 1 && units < 4 * threads && fits ? splits : 0;
}

/* Queries of a unit: many, which read the cache once, but so few that threads have several units. */
static uint32_t queries_of_unit(const struct attention_task *task, uint32_t threads) {
    uint32_t queries = task->a->batch->row_count * task->a->heads / (4 * threads);
    if (!task->tiles)
        return MIN(MAX(queries, (uint32_t)UNIT_QUERIES_LEAST), (uint32_t)UNIT_QUERIES);
    return MIN(MAX(queries, (uint32_t)TILE_QUERIES_LEAST), tile_queries_of(task->a->kv->head_dim));
}

static void cpu_attention(struct stream *s, const struct op_attention *a) {
    const struct kv_view *kv = a->kv;
    CHECK(kv->head_dim <= ATTENTION_DIM_MAX && kv->kv_heads && a->heads % kv->kv_heads == 0);
    uint32_t *bounds = a->scratch;
    size_t bounds_bytes = ((size_t)(a->batch->row_count + 1) * sizeof(uint32_t) + 63) / 64 * 64,
           work = 0;
    struct attention_task task = {.a = a,
                                  .unit_rows = bounds,
                                  .partials = (char *)a->scratch + bounds_bytes,
                                  .partial_bytes = PARTIAL_BYTES(kv->head_dim),
                                  .tiles = uses_tiles(s, kv),
                                  .amx = ((const struct cpu_device *)s->dev)->tiles};
    task.row_unit_count = cut_rows(a, queries_of_unit(&task, s->dev->thread_count), bounds);
    uint32_t units = task.row_unit_count * kv->kv_heads;
    for (uint32_t t = 0; t < a->batch->row_count; t++)
        work += a->batch->positions[t] == ROW_NONE ? 0 : last_of(a, t) + 1;
    work = work * a->heads * kv->head_dim * 2 / VW;
    task.splits = choose_splits(&task, units, s->dev->thread_count);
    if (!task.splits) {
        cpu_loop(s, units, work, attend_unit, &task);
        return;
    }
    cpu_loop(s, (size_t)units * task.splits, work, attend_split_unit, &task);
    for (uint32_t i = 0; i < units; i++) {
        struct attention_unit u = unit_of(&task, i);
        if (!padding(a, &u) && u.g == 0)
            for (uint32_t t = u.row; t < u.row + u.rows; t++)
                merge_row(&task, t);
    }
}
