#include "formats/hub/fetch.h"

#include "base/clock.h"
#include "base/fsutil.h"
#include "formats/hub/unfinished.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { CONNECTIONS = 8, WAIT_MS = 100, RESTARTS_MAX = 1 };
#define DISK_SPARE_BYTES ((uint64_t)64 << 20)

enum download_state {
    DOWNLOAD_WAITING, /* for its lock */
    DOWNLOAD_RUNNING,
    DOWNLOAD_DONE
};

struct download {
    const struct hub_blob *blob;
    enum download_state state;
    struct unfinished file;
    int lock_fd; /* -1: not ours */
    bool told_waiting, in_one;
    int restarts;
    struct hub_retry *retries; /* owned: of each range */
    bool *running;             /* owned: of each range */
};

/* Why a slot's taker did not want what came. */
enum rejection {
    REJECTED_NOT,
    REJECTED_NO_RANGE,
    REJECTED_OTHER_RANGE,
    REJECTED_TOO_LONG,
    REJECTED_IO
};

/* A connection's worth of work. */
struct slot {
    struct hub_request request;
    struct download *d; /* NULL: free */
    uint32_t range;
    enum rejection rejection;
    bool has_progress;
    struct error io_error;
};

struct fetch {
    struct hub_http *http;
    const struct hub_watch *watch;
    struct download *downloads;
    size_t count;
    struct slot slots[HUB_CONNECTIONS_MAX];
    size_t slot_count;
    int64_t lock_tried_ms;
    uint64_t total;
};

void hub_blob_release(struct hub_blob *blob) {
    mem_free(blob->label);
    mem_free(blob->url);
    mem_free(blob->path);
    mem_free(blob->lock);
    *blob = (struct hub_blob){.label = NULL};
}

static void send_note(const struct fetch *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void send_note(const struct fetch *f, const char *fmt, ...) {
    char text[ERROR_TEXT_MAX];
    va_list args;
    if (!f->watch || !f->watch->on_note)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    f->watch->on_note(f->watch->ctx, text);
}

/* ---- locks ---- */

static int make_parent(const char *path, struct error *err) {
    char *dir = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
    int rc = dir_make(dir, 0755, err);
    mem_free(dir);
    return rc;
}

/* The lock file that we hold may have been removed meanwhile, and another made in its place. */
static bool lock_is_there(int fd, const char *path) {
    struct stat ours, now;
    return !fstat(fd, &ours) && !stat(path, &now) && ours.st_ino == now.st_ino &&
           ours.st_dev == now.st_dev;
}

/* 0: it is ours; ERR_AGAIN: another has it. */
static int take_lock(struct download *d, struct error *err) {
    const char *path = d->blob->lock;
    int rc = make_parent(path, err);
    if (rc)
        return rc;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (fd < 0)
        return error_set_errno(err, "cannot write the lock file '%s'", path);
    bool locked = !flock(fd, LOCK_EX | LOCK_NB);
    if (!locked || !lock_is_there(fd, path)) {
        bool busy = locked || errno == EWOULDBLOCK || errno == EACCES;
        rc = busy ? ERR_AGAIN : error_set_errno(err, "cannot lock '%s'", path);
        close(fd);
        return rc;
    }
    d->lock_fd = fd;
    return 0;
}

static void release_lock(struct download *d) {
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    d->lock_fd = -1;
}

/* ---- the disk ---- */

/* Bytes of the blob that no earlier try has written. */
static uint64_t missing_bytes(const struct hub_blob *blob) {
    struct stat st;
    struct buf path;
    buf_init(&path, 0);
    buf_addf(&path, "%s%s", blob->path, UNFINISHED_SUFFIX);
    uint64_t there = stat(buf_text(&path), &st) ? 0 : (uint64_t)st.st_blocks * 512;
    buf_release(&path);
    return blob->size - MIN(there, blob->size);
}

static int check_room(const struct fetch *f, struct error *err) {
    struct statvfs disk;
    uint64_t missing = 0;
    for (size_t i = 0; i < f->count; i++)
        if (f->downloads[i].state != DOWNLOAD_DONE)
            missing += missing_bytes(f->downloads[i].blob);
    if (!missing)
        return 0;
    const char *path = f->downloads[0].blob->path;
    char *dir = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
    int rc = statvfs(dir, &disk) ? error_set_errno(err, "cannot look at '%s'", dir) : 0;
    uint64_t room = rc ? 0 : (uint64_t)disk.f_bavail * disk.f_frsize;
    if (!rc && missing + DISK_SPARE_BYTES > room)
        rc = error_set(err, ERR_LIMIT,
                       "%.2f GB are to be downloaded, and the disk of '%s' has room for %.2f GB; "
                       "free some (trireme prune), or set HF_HOME to another disk",
                       (double)missing / 1e9, dir, (double)room / 1e9);
    mem_free(dir);
    return rc;
}

/* ---- one range ---- */

static bool take_body(void *ctx, const struct hub_request *r, const uint8_t *data, size_t len) {
    struct slot *s = ctx;
    struct download *d = s->d;
    if (r->is_range && r->status != 206)
        s->rejection = REJECTED_NO_RANGE;
    else if (r->is_range &&
             (r->range_first != (int64_t)r->first || r->range_total != (int64_t)d->blob->size))
        s->rejection = REJECTED_OTHER_RANGE;
    else if (!r->is_range && r->status != 200)
        s->rejection = REJECTED_OTHER_RANGE;
    else if (len > unfinished_range_len(&d->file, s->range) - d->file.done[s->range])
        s->rejection = REJECTED_TOO_LONG;
    else if (unfinished_add(&d->file, s->range, data, len, &s->io_error))
        s->rejection = REJECTED_IO;
    s->has_progress = true;
    return s->rejection == REJECTED_NOT;
}

static void start_range(struct fetch *f, struct slot *s, struct download *d, uint32_t range) {
    uint64_t first = range * d->file.range_bytes;
    *s = (struct slot){.d = d, .range = range};
    s->request = (struct hub_request){.url = d->blob->url,
                                      .is_range = !d->in_one &&
                                                  (d->file.range_count > 1 || d->file.done[range]),
                                      .first = first + d->file.done[range],
                                      .end = first + unfinished_range_len(&d->file, range),
                                      .take_body = take_body,
                                      .ctx = s};
    d->running[range] = true;
    hub_http_start(f->http, &s->request);
}

/* Ends the connections of a download. */
static void stop_ranges(struct fetch *f, struct download *d) {
    for (size_t i = 0; i < f->slot_count; i++)
        if (f->slots[i].d == d) {
            hub_http_cancel(f->http, &f->slots[i].request);
            f->slots[i].d = NULL;
        }
}

static void set_range_states(struct download *d) {
    mem_free(d->retries);
    mem_free(d->running);
    d->retries = mem_calloc(MAX(d->file.range_count, 1u), sizeof *d->retries);
    d->running = mem_calloc(MAX(d->file.range_count, 1u), sizeof *d->running);
}

static int restart(struct fetch *f, struct download *d, bool in_one, struct error *err) {
    stop_ranges(f, d);
    d->in_one = in_one;
    int rc = unfinished_restart(&d->file, in_one, err);
    set_range_states(d);
    return rc;
}

/* ---- one blob ---- */

/* Looks whether there is anything to do, and opens what there is. */
static int open_download(struct fetch *f, struct download *d, struct error *err) {
    struct stat st;
    int rc = d->lock_fd < 0 ? take_lock(d, err) : 0;
    if (rc == ERR_AGAIN && !d->told_waiting) {
        d->told_waiting = true;
        send_note(f, "%s is being downloaded by another process; waiting for it", d->blob->label);
    }
    if (rc)
        return rc == ERR_AGAIN ? 0 : rc;
    if (!stat(d->blob->path, &st)) { /* another process was faster */
        d->state = DOWNLOAD_DONE;
        release_lock(d);
        return 0;
    }
    rc = make_parent(d->blob->path, err); /* it may have been deleted while we waited */
    if (!rc)
        rc = unfinished_open(&d->file, d->blob->path, d->blob->size, err);
    if (rc)
        return rc;
    set_range_states(d);
    d->state = DOWNLOAD_RUNNING;
    if (d->file.found)
        send_note(f, "%s: %.1f of %.1f MB are here from an earlier download", d->blob->label,
                  (double)d->file.found / 1e6, (double)d->blob->size / 1e6);
    return 0;
}

/* All bytes are there: checks them, and gives the file its name. */
static int finish_download(struct fetch *f, struct download *d, struct error *err) {
    char hash[HUB_HASH_MAX];
    int rc = hub_digest_file(d->blob->digest, d->file.fd, d->blob->size, hash, err);
    if (!rc && strcmp(hash, d->blob->hash) != 0) {
        if (d->restarts++ < RESTARTS_MAX) {
            send_note(f, "%s is not what its hash says; downloading it again", d->blob->label);
            return restart(f, d, d->in_one, err);
        }
        unlink(d->file.path);
        return error_set(err, ERR_INVALID,
                         "'%s' is broken where it comes from: its %s is %s, the hub says %s",
                         d->blob->label, d->blob->digest == HUB_SHA256 ? "SHA-256" : "SHA-1 of git",
                         hash, d->blob->hash);
    }
    if (!rc)
        rc = unfinished_finish(&d->file, d->blob->path, err);
    unfinished_close(&d->file);
    d->state = DOWNLOAD_DONE;
    release_lock(d);
    return rc;
}

static int reject(struct fetch *f, struct slot *s, struct error *err) {
    struct download *d = s->d;
    switch (s->rejection) {
    case REJECTED_NO_RANGE:
        send_note(f, "%s: the host gives no ranges; downloading it in one", d->blob->label);
        return restart(f, d, true, err);
    case REJECTED_IO: *err = s->io_error; return err->code;
    case REJECTED_TOO_LONG:
        return error_set(err, ERR_INVALID,
                         "'%s': the host sends more than the %llu bytes that the hub says it has",
                         d->blob->label, (unsigned long long)d->blob->size);
    default:
        return error_set(err, ERR_INVALID, "'%s': the host sends other bytes than were asked for",
                         d->blob->label);
    }
}

/* A request ended. */
static int finish_request(struct fetch *f, struct slot *s, struct hub_request *last,
                          struct error *err) {
    struct download *d = s->d;
    struct hub_request *r = &s->request;
    CHECK(d->state == DOWNLOAD_RUNNING);
    bool whole = d->file.done[s->range] == unfinished_range_len(&d->file, s->range);
    d->running[s->range] = false;
    if (r->outcome == HUB_REJECTED) {
        int rc = reject(f, s, err);
        s->d = NULL;
        return rc;
    }
    s->d = NULL;
    if (whole)
        return 0;
    if (d->in_one && d->file.done[s->range]) { /* cannot go on in the middle */
        int rc = unfinished_restart(&d->file, true, err);
        if (rc)
            return rc;
    } else if (s->has_progress) {
        d->retries[s->range].attempts = 0;
    }
    if (r->outcome == HUB_OK) { /* an answer that is too short, and said so */
        r->outcome = HUB_LATER;
        error_set(&r->why, ERR_CLOSED, "'%.200s' sends less than was asked for", r->url);
    }
    if (!hub_retry_later(&d->retries[s->range], r))
        return 0;
    *last = *r;
    last->url = NULL;
    return error_set(err, r->outcome == HUB_LATER ? ERR_AGAIN : r->why.code, "'%s': %s",
                     d->blob->label, r->why.text);
}

/* ---- all of them ---- */

/* A range that can be begun now. */
static bool find_range(struct fetch *f, struct download **out, uint32_t *range) {
    int64_t now_ms = clock_ms();
    for (size_t i = 0; i < f->count; i++) {
        struct download *d = &f->downloads[i];
        for (uint32_t j = 0; d->state == DOWNLOAD_RUNNING && j < d->file.range_count; j++) {
            if (d->running[j] || d->retries[j].at_ms > now_ms ||
                d->file.done[j] == unfinished_range_len(&d->file, j))
                continue;
            *out = d;
            *range = j;
            return true;
        }
    }
    return false;
}

static void start_ranges(struct fetch *f) {
    struct download *d;
    uint32_t range;
    for (size_t i = 0; i < f->slot_count; i++)
        if (!f->slots[i].d && find_range(f, &d, &range))
            start_range(f, &f->slots[i], d, range);
}

/* As many blobs as can be worked on; those that others have are asked for now and then. */
static int open_downloads(struct fetch *f, struct error *err) {
    enum { LOCK_EVERY_MS = 250 };
    size_t open = 0;
    bool again = clock_ms() - f->lock_tried_ms >= LOCK_EVERY_MS;
    int rc = 0;
    for (size_t i = 0; !rc && i < f->count; i++) {
        struct download *d = &f->downloads[i];
        if (d->state == DOWNLOAD_WAITING && open < f->slot_count && (again || !d->told_waiting))
            rc = open_download(f, d, err);
        open += d->state == DOWNLOAD_RUNNING;
    }
    if (again)
        f->lock_tried_ms = clock_ms();
    return rc;
}

/* All bytes are there, and every request for them has ended as it should. */
static bool is_whole(const struct fetch *f, const struct download *d) {
    for (size_t i = 0; i < f->slot_count; i++)
        if (f->slots[i].d == d)
            return false;
    return unfinished_bytes(&d->file) == d->file.size;
}

static int finish_downloads(struct fetch *f, bool *all, struct error *err) {
    uint64_t done = 0;
    int rc = 0;
    *all = true;
    for (size_t i = 0; !rc && i < f->count; i++) {
        struct download *d = &f->downloads[i];
        if (d->state == DOWNLOAD_RUNNING && is_whole(f, d))
            rc = finish_download(f, d, err);
        done += d->state == DOWNLOAD_DONE      ? d->blob->size
                : d->state == DOWNLOAD_RUNNING ? unfinished_bytes(&d->file)
                                               : 0;
        *all = *all && d->state == DOWNLOAD_DONE;
    }
    if (!rc && f->watch && f->watch->on_bytes)
        f->watch->on_bytes(f->watch->ctx, done, f->total);
    return rc;
}

static int run(struct fetch *f, struct hub_request *last, struct error *err) {
    for (bool all = false;;) {
        int rc = open_downloads(f, err);
        if (!rc)
            rc = finish_downloads(f, &all, err);
        if (rc || all)
            return rc;
        start_ranges(f);
        struct hub_request *r = hub_http_wait(f->http, WAIT_MS);
        if (r)
            rc = finish_request(f, r->ctx, last, err);
        if (rc)
            return rc;
    }
}

static size_t connection_count(void) {
    const char *text = getenv("TRIREME_HUB_CONNECTIONS");
    long count = text ? strtol(text, NULL, 10) : 0;
    return count > 0 && count <= HUB_CONNECTIONS_MAX ? (size_t)count : CONNECTIONS;
}

int hub_fetch(struct hub_http *http, const struct hub_blob *blobs, size_t count,
              const struct hub_watch *watch, struct hub_request *last, struct error *err) {
    struct fetch *f = mem_alloc(sizeof *f);
    *f = (struct fetch){.http = http, .watch = watch, .count = count};
    f->slot_count = connection_count();
    f->downloads = mem_calloc(MAX(count, 1u), sizeof *f->downloads);
    *last = (struct hub_request){.status = 0};
    int rc = 0;
    for (size_t i = 0; !rc && i < count; i++) {
        struct download *d = &f->downloads[i];
        *d = (struct download){.blob = &blobs[i], .lock_fd = -1, .file = {.fd = -1}};
        d->state = file_exists(blobs[i].path) ? DOWNLOAD_DONE : DOWNLOAD_WAITING;
        f->total += blobs[i].size;
        rc = make_parent(blobs[i].path, err);
    }
    if (!rc)
        rc = check_room(f, err);
    if (!rc)
        rc = run(f, last, err);
    for (size_t i = 0; i < f->slot_count; i++)
        if (f->slots[i].d)
            hub_http_cancel(http, &f->slots[i].request);
    for (size_t i = 0; i < count; i++) {
        unfinished_close(&f->downloads[i].file);
        release_lock(&f->downloads[i]);
        mem_free(f->downloads[i].retries);
        mem_free(f->downloads[i].running);
    }
    mem_free(f->downloads);
    mem_free(f);
    return rc;
}
