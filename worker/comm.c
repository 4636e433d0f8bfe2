#include "worker/comm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/spin.h"
#include "worker/comm_segment.h"

uint64_t comm_segment_bytes(const struct comm_config *f) {
    return records_at(f) + COMM_RECORDS * record_stride(f);
}

/* ---- to ranks on other hosts ---- */

void comm_publish(struct comm *c, uint32_t to, enum frame_kind kind, uint64_t number,
                  struct bytes data) {
    if (c->spread && to != c->self && mesh_send(c->mesh, to, kind, number, data) &&
        kind != FRAME_BROKEN)
        comm_fail(c, ERR_MEMORY, "no memory for what goes to another host");
}

void comm_publish_to_all(struct comm *c, enum frame_kind kind, uint64_t number, struct bytes data) {
    for (uint32_t i = 0; c->spread && i < c->count; i++)
        comm_publish(c, i, kind, number, data);
}

/* ---- waiting ---- */

int comm_fail(struct comm *c, int code, const char *why) {
    if (c->failed)
        return c->failed;
    c->failed = code;
    snprintf(c->why, sizeof c->why, "%s", why);
    atomic_store(&c->segment->broken, 1);
    for (uint32_t i = 0; i < c->count; i++)
        comm_bell_ring(&c->segment->ranks[i].bell);
    comm_publish_to_all(c, FRAME_BROKEN, 0, (struct bytes){0});
    return code;
}

static int check_segment(struct comm *c, int64_t end_ms) {
    if (c->config.stopped && c->config.stopped(c->config.ctx))
        return comm_fail(c, ERR_CLOSED, "told to stop");
    if (atomic_load(&c->segment->broken))
        return comm_fail(c, ERR_CLOSED, "another rank has given up");
    if (clock_ms() >= end_ms)
        return comm_fail(c, ERR_TIMEOUT, "another rank did not answer in time");
    return 0;
}

static bool spin(const struct comm *c, comm_ready ready, uint64_t goal) {
    int64_t end_us = clock_us() + c->config.spin_us;
    do {
        for (int i = 0; i < 32; i++) {
            if (ready(c, goal))
                return true;
            spin_relax();
        }
    } while (clock_us() < end_us);
    return false;
}

int comm_wait_until(struct comm *c, comm_ready ready, uint64_t goal, int64_t limit_ms) {
    if (c->failed)
        return c->failed;
    if (ready(c, goal) || spin(c, ready, goal))
        return 0;
    int64_t end_ms = clock_ms() + limit_ms;
    int rc = 0;
    if (c->config.waiting)
        atomic_store(c->config.waiting, true);
    while (!rc) {
        struct comm_bell *bell = &c->segment->ranks[c->self].bell;
        uint32_t seen = comm_bell_look(bell);
        if (ready(c, goal))
            break;
        rc = check_segment(c, end_ms);
        if (!rc)
            comm_bell_sleep(bell, seen, SLICE_MS);
    }
    if (c->config.waiting)
        atomic_store(c->config.waiting, false);
    return rc;
}

static void ring_stage(const struct comm *c) {
    for (uint32_t i = c->first; i < c->first + c->place.tp; i++)
        if (i != c->self)
            comm_bell_ring(&c->segment->ranks[i].bell);
}

/* ---- forming ---- */

static bool all_present(const struct comm *c, uint64_t goal) {
    return atomic_load(&c->segment->present) == goal;
}

/* What must be equal, hashed. Never 0. */
static uint64_t layout_of(const struct comm_config *f) {
    uint64_t words[] = {f->place.tp, f->place.pp,  f->channel_bytes,           f->record_max,
                        AREA_BYTES,  COMM_RECORDS, sizeof(struct comm_segment)};
    return hash64(words, sizeof words, 0) | 1;
}

static void name_of(struct u128 id, char out[64]) {
    char hex[U128_TEXT_MAX];
    u128_text(id, hex);
    snprintf(out, 64, "/trireme-%s", hex);
}

static int open_segment(struct comm *c, struct error *err) {
    char name[64];
    name_of(c->config.at.id, name);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(err, "cannot open shared memory '%s' for the ranks", name);
    /* Reserved, not only sized: a full /dev/shm is an error here, not a SIGBUS later. */
    int failed = posix_fallocate(fd, 0, (off_t)c->bytes), rc = 0;
    errno = failed;
    if (failed)
        rc = error_set_errno(err, "cannot take %llu KB of shared memory for the ranks",
                             (unsigned long long)(c->bytes >> 10));
    void *p = rc ? NULL : mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        rc = error_set_errno(err, "cannot map shared memory for the ranks");
    close(fd);
    if (rc) {
        shm_unlink(name); /* the ranks do not meet under it any more */
        return rc;
    }
    c->segment = p;
    c->owned = true;
    return 0;
}

/* ---- from ranks on other hosts ---- */

static bool take_bytes(struct comm *c, const struct mesh_frame *f) {
    struct comm_channel *ch = channel_from(c, f->from);
    size_t size = c->config.channel_bytes, n = f->data.len;
    uint64_t head = atomic_load(&ch->head), tail = atomic_load(&ch->tail);
    size_t at = head % size; /* its ring is as long: no frame goes past the end */
    if (f->number != head || n > size - (head - tail) || n > size - at)
        return false;
    memcpy(ch->data + at, f->data.data, n);
    atomic_store_explicit(&ch->head, head + n, memory_order_release);
    return true;
}

static bool take_frame(struct comm *c, const struct mesh_frame *f) {
    struct comm_segment *s = c->segment;
    struct rank_line *line = &s->ranks[f->from];
    uint32_t tp = c->place.tp, sampler = (c->place.pp - 1) * tp;
    switch ((enum frame_kind)f->kind) {
    case FRAME_BROKEN: atomic_store(&s->broken, 1); return true;
    case FRAME_SHARED:
        if (f->from || !f->data.len || f->data.len > COMM_SHARED_MAX || atomic_load(&s->shared_len))
            return false;
        memcpy(s->shared, f->data.data, f->data.len);
        atomic_store(&s->shared_len, f->data.len);
        return true;
    case FRAME_CHUNK:
        if (f->from < c->first || f->from >= c->first + tp || f->data.len > AREA_BYTES ||
            f->number != atomic_load(&line->posted))
            return false;
        if (f->data.len)
            memcpy(area_of(c, f->from, f->number), f->data.data, f->data.len);
        atomic_store_explicit(&line->posted, f->number + 1, memory_order_release);
        return true;
    case FRAME_STAGE: return c->place.stage && f->from == c->self - tp && take_bytes(c, f);
    case FRAME_TAIL:
        if (f->from != c->self + tp || f->number > atomic_load(&channel_from(c, c->self)->head))
            return false;
        atomic_store_explicit(&channel_from(c, c->self)->tail, f->number, memory_order_release);
        return true;
    case FRAME_RECORD:
        if (f->from != sampler || f->data.len > record_stride(&c->config) ||
            f->number != atomic_load(&s->records) ||
            f->number - atomic_load(&s->ranks[c->self].taken) >= COMM_RECORDS)
            return false;
        memcpy(record_at(c, f->number), f->data.data, f->data.len);
        atomic_store_explicit(&s->records, f->number + 1, memory_order_release);
        return true;
    case FRAME_TAKEN:
        if (c->self != sampler || f->number > atomic_load(&s->records))
            return false;
        atomic_store_explicit(&line->taken, f->number, memory_order_release);
        return true;
    }
    return false;
}

/* On the mesh's thread, or on ours while the last ranks still come. */
static void on_frame(void *ctx, const struct mesh_frame *frame) {
    struct comm *c = ctx;
    if (!take_frame(c, frame)) {
        log_warn("rank %u sent frame %u, number %llu, out of its turn", frame->from, frame->kind,
                 (unsigned long long)frame->number);
        atomic_store(&c->segment->broken, 1);
    }
    comm_bell_ring(&c->segment->ranks[c->self].bell);
}

/* What each rank tells all others when they meet. */
struct greeting {
    uint64_t layout, unit;
    char card[COMM_CARD_MAX];
};

static int take_greetings(struct comm *c, struct error *err) {
    struct greeting g;
    _Static_assert(sizeof g <= MESH_GREETING_MAX, "it must fit");
    for (uint32_t i = 0; i < c->count; i++) {
        memcpy(&g, mesh_greeting(c->mesh, i), sizeof g);
        if (g.layout != layout_of(&c->config))
            return error_set(err, comm_fail(c, ERR_INVALID, "sizes differ"),
                             "the ranks of this replica were started with different sizes");
        c->segment->ranks[i].unit = g.unit;
        memcpy(c->segment->ranks[i].card, g.card, sizeof g.card);
    }
    return 0;
}

static int join_over_hosts(struct comm *c, struct error *err) {
    struct greeting own = {.layout = layout_of(&c->config), .unit = c->config.unit};
    struct mesh_config config = {.self = c->self,
                                 .count = c->count,
                                 .key = c->config.at.key,
                                 .rendezvous = c->config.at.rendezvous,
                                 .listen = c->config.listen,
                                 .greeting = &own,
                                 .greeting_bytes = sizeof own,
                                 .on_frame = on_frame,
                                 .ctx = c};
    int64_t end_ms = clock_ms() + c->config.form_ms;
    if (c->config.card_bytes)
        memcpy(own.card, c->config.card, c->config.card_bytes);
    int rc = mesh_open(&c->mesh, &config, err), met = 0;
    if (rc)
        return rc;
    if (c->config.waiting)
        atomic_store(c->config.waiting, true);
    while (!rc && !met) {
        rc = check_segment(c, end_ms);
        if (!rc)
            met = mesh_form(c->mesh, SLICE_MS);
        if (met < 0)
            rc = comm_fail(c, met, "what one of them said makes no sense");
    }
    if (c->config.waiting)
        atomic_store(c->config.waiting, false);
    if (rc)
        return error_set(err, rc, "the replica's ranks did not meet at '%s': %s", config.rendezvous,
                         c->why);
    mesh_start(c->mesh);
    c->spread = true;
    return take_greetings(c, err);
}

static int join(struct comm *c, struct error *err) {
    uint64_t all = c->count == 64 ? UINT64_MAX : ((uint64_t)1 << c->count) - 1, none = 0;
    uint64_t layout = layout_of(&c->config);
    if (!atomic_compare_exchange_strong(&c->segment->layout, &none, layout) && none != layout) {
        comm_fail(c, ERR_INVALID, "sizes differ");
        return error_set(err, ERR_INVALID,
                         "the ranks of this replica were started with different sizes");
    }
    c->segment->ranks[c->self].unit = c->config.unit;
    if (c->config.card_bytes)
        memcpy(c->segment->ranks[c->self].card, c->config.card, c->config.card_bytes);
    atomic_fetch_or(&c->segment->present, (uint64_t)1 << c->self);
    for (uint32_t i = 0; i < c->count; i++)
        comm_bell_ring(&c->segment->ranks[i].bell);
    int rc = comm_wait_until(c, all_present, all, c->config.form_ms);
    return rc ? error_set(err, rc, "the replica's ranks did not meet: %s", c->why) : 0;
}

static void unlink_name(const struct comm *c) {
    char name[64];
    name_of(c->config.at.id, name);
    if (c->owned)
        shm_unlink(name); /* the first one to get here does it */
}

/* Of this rank alone: others are sent what it says. */
static int take_segment(struct comm *c, struct error *err) {
    size_t size = (c->bytes + LINE - 1) / LINE * LINE;
    c->segment = aligned_alloc(LINE, size);
    if (!c->segment)
        return error_set(err, ERR_MEMORY, "no memory for what the ranks exchange");
    memset(c->segment, 0, size);
    c->own_memory = true;
    return 0;
}

size_t comm_meeting_new(const char *rendezvous, uint8_t out[COMM_MEETING_MAX]) {
    struct u128 id = random_u128();
    if (!rendezvous || !*rendezvous) {
        memcpy(out, &id, sizeof id);
        return sizeof id;
    }
    size_t len = strnlen(rendezvous, MESH_ADDRESS_MAX - 1);
    mesh_key_new(out);
    memcpy(out + MESH_KEY_BYTES, rendezvous, len);
    return MESH_KEY_BYTES + len;
}

int comm_meeting_read(struct bytes told, struct comm_meeting *out) {
    *out = (struct comm_meeting){.rendezvous = ""};
    if (told.len == sizeof out->id) {
        memcpy(&out->id, told.data, sizeof out->id);
        return 0;
    }
    if (told.len <= MESH_KEY_BYTES || told.len >= COMM_MEETING_MAX)
        return ERR_INVALID;
    memcpy(out->key, told.data, sizeof out->key);
    memcpy(out->rendezvous, told.data + MESH_KEY_BYTES, told.len - MESH_KEY_BYTES);
    return 0;
}

int comm_check(const struct comm_config *config, struct error *err) {
    struct comm c = {.config = *config};
    c.config.at.id = random_u128();
    c.bytes = comm_segment_bytes(config);
    if (config->listen && *config->listen) {
        struct error why;
        int spread = mesh_check(config->listen, !config->place.rank && !config->place.stage, &why);
        return spread ? error_set(err, spread, "--comm-listen: %s", why.text) : 0;
    }
    int rc = open_segment(&c, err);
    if (rc)
        return rc;
    unlink_name(&c);
    munmap(c.segment, c.bytes);
    return 0;
}

int comm_form(struct comm **out, const struct comm_config *config, struct error *err) {
    struct comm_place p = config->place;
    CHECK(config->card_bytes <= COMM_CARD_MAX);
    CHECK(p.tp && p.pp && p.rank < p.tp && p.stage < p.pp && p.tp * p.pp <= COMM_RANKS_MAX);
    struct comm *c = mem_alloc(sizeof *c);
    *c = (struct comm){.config = *config, .place = p, .count = p.tp * p.pp};
    c->first = p.stage * p.tp;
    c->self = c->first + p.rank;
    c->bytes = comm_segment_bytes(config);
    c->segment = config->memory;
    bool spread = *config->at.rendezvous && c->count > 1;
    int rc = spread ? take_segment(c, err) : c->segment ? 0 : open_segment(c, err);
    if (!rc)
        rc = spread ? join_over_hosts(c, err) : join(c, err);
    unlink_name(c);
    if (rc) {
        comm_free(&c);
        return rc;
    }
    *out = c;
    return 0;
}

void comm_free(struct comm **out) {
    struct comm *c = *out;
    if (!c)
        return;
    if (c->segment)
        comm_fail(c, ERR_CLOSED, "left");
    mesh_close(&c->mesh);
    if (c->owned)
        munmap(c->segment, c->bytes);
    if (c->own_memory)
        free(c->segment);
    mem_free(c);
    *out = NULL;
}

int comm_failed(const struct comm *c, struct error *err) {
    return c->failed
               ? error_set(err, c->failed, "the replica's ranks have lost each other: %s", c->why)
               : 0;
}

bool comm_has_gpus(const struct comm *c) {
    for (uint32_t i = 0; i < c->count; i++) {
        uint64_t unit = c->segment->ranks[i].unit;
        if (!unit)
            return false;
        for (uint32_t k = 0; k < i; k++)
            if (c->segment->ranks[k].unit == unit)
                return false;
    }
    return true;
}

bool comm_is_spread(const struct comm *c) {
    return c->spread;
}

const void *comm_card(const struct comm *c, uint32_t rank) {
    CHECK(rank < c->place.tp);
    return c->segment->ranks[c->first + rank].card;
}

int comm_look(struct comm *c, int64_t end_ms) {
    return c->failed ? c->failed : check_segment(c, end_ms);
}

int comm_give_up(struct comm *c, int code, const char *why) {
    return comm_fail(c, code, why);
}

static bool is_shared(const struct comm *c, uint64_t goal) {
    return atomic_load(&c->segment->shared_len) == goal;
}

int comm_share(struct comm *c, void *bytes, size_t len) {
    CHECK(len && len <= COMM_SHARED_MAX);
    if (c->self == 0 && !c->failed) {
        memcpy(c->segment->shared, bytes, len);
        atomic_store(&c->segment->shared_len, len);
        for (uint32_t i = 1; i < c->count; i++)
            comm_bell_ring(&c->segment->ranks[i].bell);
        comm_publish_to_all(c, FRAME_SHARED, 0, bytes_of(bytes, len));
    }
    int rc = comm_wait_until(c, is_shared, len, c->config.timeout_ms);
    if (!rc)
        memcpy(bytes, c->segment->shared, len);
    return rc;
}

/* ---- sums and gathers ---- */

static bool stage_posted(const struct comm *c, uint64_t goal) {
    for (uint32_t i = c->first; i < c->first + c->place.tp; i++)
        if (atomic_load_explicit(&c->segment->ranks[i].posted, memory_order_acquire) < goal)
            return false;
    return true;
}

/* Puts one chunk into this rank's area and waits for everybody's. */
static int exchange(struct comm *c, const void *mine, size_t bytes) {
    if (c->failed)
        return c->failed;
    if (bytes)
        memcpy(area_of(c, c->self, c->chunk), mine, bytes);
    atomic_store_explicit(&c->segment->ranks[c->self].posted, c->chunk + 1, memory_order_release);
    ring_stage(c);
    for (uint32_t i = c->first; c->spread && i < c->first + c->place.tp; i++)
        comm_publish(c, i, FRAME_CHUNK, c->chunk, bytes_of(mine, bytes));
    return comm_wait_until(c, stage_posted, c->chunk + 1, c->config.timeout_ms);
}

static void sum_f32(const struct comm *c, float *x, size_t count) {
    memcpy(x, area_of(c, c->first, c->chunk), count * sizeof *x);
    for (uint32_t r = 1; r < c->place.tp; r++) {
        const float *y = (const float *)(void *)area_of(c, c->first + r, c->chunk);
        for (size_t i = 0; i < count; i++)
            x[i] += y[i];
    }
}

static void sum_any(const struct comm *c, void *x, size_t count, enum storage_type type) {
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (uint32_t r = 0; r < c->place.tp; r++) {
            float y = storage_get(type, area_of(c, c->first + r, c->chunk), i);
            sum = r ? sum + y : y;
        }
        storage_put(type, x, i, sum);
    }
}

int comm_sum(struct comm *c, void *x, size_t count, enum storage_type type) {
    size_t size = storage_bytes(type, 1), most = AREA_BYTES / size;
    for (size_t done = 0; done < count && c->place.tp > 1; done += most, c->chunk++) {
        char *at = (char *)x + done * size;
        size_t n = MIN(count - done, most);
        int rc = exchange(c, at, n * size);
        if (rc)
            return rc;
        if (type == STORAGE_F32)
            sum_f32(c, (float *)(void *)at, n);
        else
            sum_any(c, at, n, type);
    }
    return c->failed;
}

int comm_gather(struct comm *c, const void *mine, void *const *out, const size_t *bytes) {
    size_t longest = 0;
    for (uint32_t r = 0; r < c->place.tp; r++)
        longest = MAX(longest, bytes[r]);
    for (size_t done = 0; done < longest; done += AREA_BYTES, c->chunk++) {
        size_t own = bytes[c->place.rank],
               left = own > done ? MIN(own - done, (size_t)AREA_BYTES) : 0;
        int rc = exchange(c, (const char *)mine + done, left);
        if (rc)
            return rc;
        for (uint32_t r = 0; r < c->place.tp && c->place.rank == 0; r++) {
            if (bytes[r] <= done)
                continue;
            memcpy((char *)out[r] + done, area_of(c, c->first + r, c->chunk),
                   MIN(bytes[r] - done, (size_t)AREA_BYTES));
        }
    }
    return c->failed;
}
