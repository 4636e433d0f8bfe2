#include "model/load/packed_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cache_folder.h"
#include "base/fsutil.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/vec.h"

enum {
    PAGE = 4096,
    SUM_BYTES = 1 << 20,   /* a sum is of the sums of so many bytes each */
    WRITE_BYTES = 4 << 20, /* at a time; a multiple of SUM_BYTES and of a huge page */
    NAME_MAX_BYTES = 2 * U128_TEXT_MAX + 16,
    SEGMENTS_MAX = 1 << 20,
    /* Of the writing thread, above the process's own: some 3 % of a CPU that others want all of. So
     * a gigabyte is written within a minute on the busiest machine, and steps hardly feel it. */
    WRITER_NICE = 15,
    UNFINISHED_DAYS = 7 /* so long a file that nobody goes on with is kept */
};
static const char MAGIC[8] = "TRIWEIGH", SUFFIX[] = ".weights", UNFINISHED[] = ".weights.tmp";

struct file_head {
    char magic[8];
    uint64_t size, segment_count;
    struct u128 key, rows_sum;
};

struct file_row {
    uint64_t at, size;
    struct u128 sum;
};

struct segment {
    const void *data;
    uint64_t size;
};

struct packed_file {
    struct u128 source, key;
    uint64_t bytes_least, bytes_most;
    char *folder, *path; /* owned */
    struct file_map map;
    const struct file_row *rows; /* in the mapping; NULL: there is no file */
    uint64_t row_count;          /* those that are believed */
    bool stale;                  /* something in the file is not as it should be */
    /* of the unfinished file, locked, whose beginning is mapped; -1: the mapping is of a whole
     * file, or there is none */
    int begun_fd;
    struct thread_pool *pool;
    VEC(struct segment) segments;
    pthread_t writer;
    bool writes; /* there is such a thread */
    _Atomic bool stop, written;
};

static uint64_t page_up(uint64_t at) {
    return (at + PAGE - 1) / PAGE * PAGE;
}

/* ---- sums ---- */

struct sum_task {
    const uint8_t *data;
    size_t size;
    struct u128 *sums;
};

static void sum_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct sum_task *task = ctx;
    size_t at = unit_idx * SUM_BYTES;
    (void)thread_idx;
    task->sums[unit_idx] = hash128(task->data + at, MIN(task->size - at, (size_t)SUM_BYTES), 0);
}

/* pool NULL: on this thread. */
static struct u128 sum_of(struct thread_pool *pool, const void *data, size_t size) {
    size_t count = (size + SUM_BYTES - 1) / SUM_BYTES;
    struct sum_task task = {data, size, mem_calloc(count, sizeof *task.sums)};
    if (pool)
        thread_pool_run(pool, count, sum_unit, &task);
    for (size_t i = 0; i < count && !pool; i++)
        sum_unit(&task, i, 0);
    struct u128 sum = hash128(task.sums, count * sizeof *task.sums, 0);
    mem_free(task.sums);
    return sum;
}

/* ---- reading ---- */

static char *path_of(const struct packed_file *f, const char *suffix) {
    char source[U128_TEXT_MAX], key[U128_TEXT_MAX], name[NAME_MAX_BYTES];
    u128_text(f->source, source);
    u128_text(f->key, key);
    snprintf(name, sizeof name, "%s-%s%s", source, key, suffix);
    return path_join(f->folder, name);
}

/* Whether a file of this name is one that we write: nobody else can have put it there. */
static bool is_own(const struct stat *st) {
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_nlink == 1 &&
           !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* The unfinished file, locked; -1: another process writes it, or it cannot be made. anew: it is made
 * if it is not there, and emptied. */
static int open_unfinished(const char *path, bool anew) {
    struct stat by_fd, by_path;
    int fd = open(path, O_RDWR | (anew ? O_CREAT : 0) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return -1;
    /* the other may have finished it between our two calls: then this is no longer its name */
    if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &by_fd) && is_own(&by_fd) &&
        !stat(path, &by_path) && by_fd.st_ino == by_path.st_ino && !(anew && ftruncate(fd, 0)))
        return fd;
    close(fd);
    return -1;
}

/* Sets row_count to how many rows lead where they should, one behind the other. */
static bool rows_are_right(struct packed_file *f, const struct file_head *head) {
    uint64_t at = page_up(sizeof *head + head->segment_count * sizeof *f->rows);
    for (f->row_count = 0; f->row_count < head->segment_count; f->row_count++) {
        const struct file_row *row = &f->rows[f->row_count];
        if (row->at != at || row->size > f->map.len || at > f->map.len - row->size)
            return false;
        at = page_up(at + row->size);
    }
    return at == head->size;
}

/* whole: with all its segments, and the sum of their rows. */
static bool head_is_right(struct packed_file *f, bool whole) {
    const struct file_head *head = (const struct file_head *)(const void *)f->map.data;
    if (f->map.len < sizeof *head || memcmp(head->magic, MAGIC, sizeof MAGIC) ||
        head->size != f->map.len || !u128_equal(head->key, f->key) ||
        head->segment_count > SEGMENTS_MAX ||
        sizeof *head + head->segment_count * sizeof *f->rows > f->map.len)
        return false;
    f->rows = (const struct file_row *)(const void *)(head + 1);
    struct u128 sum = hash128(f->rows, head->segment_count * sizeof *f->rows, 0);
    bool right = rows_are_right(f, head);
    return whole ? right && u128_equal(sum, head->rows_sum) : f->row_count > 0;
}

static bool map_file(struct packed_file *f, int fd, uint64_t len, bool whole) {
    void *data = len ? mmap(NULL, (size_t)len, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (data != MAP_FAILED) {
        f->map = (struct file_map){data, (size_t)len};
        (void)madvise(data, (size_t)len, MADV_HUGEPAGE); /* where files can have huge pages */
        (void)futimens(fd, NULL);                        /* used now */
    }
    if (f->map.data && head_is_right(f, whole))
        return true;
    f->rows = NULL;
    f->row_count = 0;
    return false;
}

/* The file; false: there is none. */
static bool open_whole(struct packed_file *f) {
    uint64_t len;
    int fd = cache_file_open(f->path, &len);
    if (fd < 0)
        return false;
    f->stale = !map_file(f, fd, len, true);
    close(fd);
    return true;
}

/* What an earlier process wrote of it before it ended, unless another one writes it now. */
static void open_begun(struct packed_file *f) {
    struct stat st;
    char *path = path_of(f, UNFINISHED);
    int fd = open_unfinished(path, false);
    mem_free(path);
    if (fd < 0)
        return;
    if (!fstat(fd, &st) && map_file(f, fd, (uint64_t)st.st_size, false)) {
        f->begun_fd = fd;
        return;
    }
    file_map_close(&f->map);
    close(fd);
}

struct packed_file *packed_file_open(const struct packed_file_config *config) {
    struct packed_file *f = mem_alloc(sizeof *f);
    f->source = config->source;
    f->key = config->key;
    f->bytes_least = config->bytes_least;
    f->bytes_most = config->bytes_most;
    f->folder = mem_strdup(config->folder);
    f->path = path_of(f, SUFFIX);
    f->begun_fd = -1;
    if (!open_whole(f))
        open_begun(f);
    if (f->rows)
        f->pool = thread_pool_new(MAX(config->thread_count, 1), 0);
    return f;
}

const void *packed_file_next(struct packed_file *f, size_t size) {
    CHECK(!f->writes);
    if (!f->rows)
        return NULL;
    const struct file_row *row = &f->rows[f->segments.count];
    const uint8_t *data = f->map.data;
    if (f->begun_fd >= 0 && f->segments.count >= f->row_count)
        return NULL;
    if (f->segments.count >= f->row_count || row->size != size ||
        !u128_equal(sum_of(f->pool, data + row->at, size), row->sum)) {
        f->stale = true;
        if (f->begun_fd >= 0) /* from here on it is written anew */
            f->row_count = f->segments.count;
        return NULL;
    }
    packed_file_add(f, data + row->at, size);
    return data + row->at;
}

void packed_file_add(struct packed_file *f, const void *packed, size_t size) {
    CHECK(packed && !f->writes);
    vec_push(&f->segments, ((struct segment){packed, size}));
}

/* ---- room ---- */

struct kept {
    char *path; /* owned */
    uint64_t size;
    struct timespec used;
};

static bool used_before(const struct kept *a, const struct kept *b) {
    return a->used.tv_sec != b->used.tv_sec ? a->used.tv_sec < b->used.tv_sec
                                            : a->used.tv_nsec < b->used.tv_nsec;
}

static bool ends_with(const char *name, const char *suffix) {
    size_t len = strlen(name), suffix_len = strlen(suffix);
    return len >= suffix_len && !strcmp(name + len - suffix_len, suffix);
}

/* What another process began and does not write now, or what was put in its place. */
static void remove_unfinished(const char *path) {
    struct stat st;
    if (!lstat(path, &st) && !is_own(&st)) {
        unlink(path);
        return;
    }
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
        unlink(path);
    if (fd >= 0)
        close(fd);
}

/* Whether nobody will go on with it. */
static bool is_given_up(const struct stat *st) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return !is_own(st) || !st->st_size ||
           now.tv_sec - st->st_mtim.tv_sec > (time_t)UNFINISHED_DAYS * 24 * 60 * 60;
}

static void remove_kept(const char *path) {
    if (ends_with(path, UNFINISHED))
        remove_unfinished(path);
    else
        unlink(path);
}

/* Removes what is out of date, then the files that were used longest ago, until `size` more bytes
 * are within the bound. What was begun counts with what was written of it. */
static void make_room(const struct packed_file *f, uint64_t size) {
    VEC(struct kept) files = {0};
    uint64_t total = size;
    char source[U128_TEXT_MAX], *begun = path_of(f, UNFINISHED);
    u128_text(f->source, source);
    DIR *dir = opendir(f->folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat st;
        bool unfinished = ends_with(e->d_name, UNFINISHED);
        if (!unfinished && !ends_with(e->d_name, SUFFIX))
            continue;
        struct kept file = {.path = path_join(f->folder, e->d_name)};
        bool own = !strcmp(file.path, f->path) || (f->begun_fd >= 0 && !strcmp(file.path, begun));
        if (own || !strncmp(e->d_name, source, strlen(source)) || lstat(file.path, &st) ||
            (unfinished && is_given_up(&st))) {
            if (!own)
                remove_kept(file.path);
            mem_free(file.path);
            continue;
        }
        file.size = unfinished ? (uint64_t)st.st_blocks * 512 : (uint64_t)st.st_size;
        file.used = st.st_mtim;
        total += file.size;
        vec_push(&files, file);
    }
    mem_free(begun);
    if (dir)
        closedir(dir);
    while (total > f->bytes_most && files.count) {
        size_t oldest = 0;
        for (size_t i = 1; i < files.count; i++)
            if (used_before(&files.items[i], &files.items[oldest]))
                oldest = i;
        remove_kept(files.items[oldest].path);
        total -= files.items[oldest].size;
        mem_free(files.items[oldest].path);
        files.items[oldest] = files.items[--files.count];
    }
    for (size_t i = 0; i < files.count; i++)
        mem_free(files.items[i].path);
    vec_release(&files);
}

static bool disk_has_room(const struct packed_file *f, uint64_t size) {
    struct statvfs st;
    return !statvfs(f->folder, &st) && (uint64_t)st.f_bavail * st.f_frsize / 2 >= size;
}

/* ---- writing ---- */

static bool write_at(struct packed_file *f, int fd, const void *data, size_t size, uint64_t at) {
    for (size_t done = 0; done < size;) {
        if (atomic_load(&f->stop))
            return false;
        ssize_t n = pwrite(fd, (const char *)data + done, MIN(size - done, (size_t)WRITE_BYTES),
                           (off_t)(at + done));
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

/* What is to be written, WRITE_BYTES of the file at a time, from a multiple of them on, however its
 * segments lie: Linux's file systems with large folios keep what is written so in huge pages, and the
 * mapping of a later start has them, too. A step's reads then miss the TLB less often. */
struct block {
    int fd;
    char *data;      /* owned, [WRITE_BYTES], of the file from `start` on */
    uint64_t start;  /* a multiple of WRITE_BYTES */
    size_t from, to; /* of them [from, to) are to be written */
};

static bool flush_block(struct packed_file *f, struct block *b) {
    if (!write_at(f, b->fd, b->data + b->from, b->to - b->from, b->start + b->from))
        return false;
    b->from = b->to;
    return true;
}

/* at: not before the end of what was put last; zeros lie between. */
static bool put_in_block(struct packed_file *f, struct block *b, const void *data, size_t size,
                         uint64_t at) {
    for (size_t done = 0, n; done < size; done += n) {
        uint64_t to = at + done;
        if (to >= b->start + WRITE_BYTES) {
            if (!flush_block(f, b))
                return false;
            b->start = to / WRITE_BYTES * WRITE_BYTES;
            b->from = b->to = (size_t)(to - b->start);
        }
        size_t offset = (size_t)(to - b->start);
        CHECK(offset >= b->to);
        n = MIN(size - done, WRITE_BYTES - offset);
        memset(b->data + b->to, 0, offset - b->to);
        memcpy(b->data + offset, (const char *)data + done, n);
        b->to = offset + n;
    }
    return true;
}

/* The rows from *next on whose segments are in the file, `count` at most. */
static bool write_rows(struct packed_file *f, const struct block *b, const struct file_row *rows,
                       size_t *next, size_t count) {
    size_t first = *next;
    while (*next < count && rows[*next].at + rows[*next].size <= b->start + b->from)
        ++*next;
    return *next == first || write_at(f, b->fd, &rows[first], (*next - first) * sizeof *rows,
                                      sizeof(struct file_head) + first * sizeof *rows);
}

/* A row comes when its segment is there, so what is written when this ends early can be taken; the
 * sum of all rows comes last. `begun`: so many segments are there. */
static bool write_file(struct packed_file *f, int fd, uint64_t size, size_t begun) {
    size_t count = f->segments.count, next = begun;
    struct file_head head = {.size = size, .segment_count = count, .key = f->key};
    struct file_row *rows = mem_calloc(count, sizeof *rows);
    struct block block = {.fd = fd, .data = mem_alloc(WRITE_BYTES)};
    uint64_t at = page_up(sizeof head + count * sizeof *rows);
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    bool good = !ftruncate(fd, (off_t)size) && write_at(f, fd, &head, sizeof head, 0);
    for (size_t i = 0; i < count && good; i++) {
        const struct segment *s = &f->segments.items[i];
        if (i == begun) {
            block.start = at / WRITE_BYTES * WRITE_BYTES;
            block.from = block.to = (size_t)(at - block.start);
        }
        if (i < begun) {
            rows[i] = f->rows[i];
        } else {
            rows[i] = (struct file_row){at, s->size, sum_of(NULL, s->data, s->size)};
            good = put_in_block(f, &block, s->data, s->size, at) &&
                   write_rows(f, &block, rows, &next, i + 1);
        }
        at = page_up(at + s->size);
    }
    head.rows_sum = hash128(rows, count * sizeof *rows, 0);
    good = good && flush_block(f, &block) && write_rows(f, &block, rows, &next, count) &&
           write_at(f, fd, &head, sizeof head, 0);
    CHECK(!good || next == count);
    mem_free(block.data);
    mem_free(rows);
    return good;
}

static uint64_t size_of_file(const struct packed_file *f) {
    uint64_t at = page_up(sizeof(struct file_head) + f->segments.count * sizeof(struct file_row));
    for (size_t i = 0; i < f->segments.count; i++)
        at = page_up(at + f->segments.items[i].size);
    return at;
}

/* Whether what was begun is a beginning of what is to be written. */
static bool can_go_on(const struct packed_file *f, uint64_t size) {
    const struct file_head *head = (const struct file_head *)(const void *)f->map.data;
    return f->begun_fd >= 0 && head->size == size && head->segment_count == f->segments.count;
}

static void *write_main(void *ctx) {
    struct packed_file *f = ctx;
    uint64_t size = size_of_file(f);
    id_t thread = (id_t)syscall(SYS_gettid);
    (void)setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + WRITER_NICE);
    make_room(f, size);
    char *path = path_of(f, UNFINISHED);
    bool goes_on = can_go_on(f, size);
    if (f->begun_fd >= 0 && !goes_on)
        unlink(path); /* its mapping stays */
    int fd = goes_on ? f->begun_fd : disk_has_room(f, size) ? open_unfinished(path, true) : -1;
    if (fd >= 0) {
        bool good = write_file(f, fd, size, goes_on ? f->row_count : 0) && !rename(path, f->path);
        if (!good && !atomic_load(&f->stop))
            unlink(path);
        if (!goes_on)
            close(fd);
        atomic_store(&f->written, good);
    }
    mem_free(path);
    if (atomic_load(&f->written))
        log_info("packed weights are kept in '%s' (%llu MB)", f->path,
                 (unsigned long long)(size >> 20));
    return NULL;
}

void packed_file_keep(struct packed_file *f) {
    CHECK(!f->writes);
    uint64_t total = 0;
    for (size_t i = 0; i < f->segments.count; i++)
        total += f->segments.items[i].size;
    thread_pool_free(&f->pool);
    bool is_there = f->rows && f->begun_fd < 0 && !f->stale && f->segments.count == f->row_count;
    if (f->stale)
        log_warn("'%s' is not as it was written: the weights were packed anew", f->path);
    atomic_store(&f->written, is_there);
    if (!is_there && total >= MAX(f->bytes_least, (uint64_t)1) && size_of_file(f) <= f->bytes_most)
        f->writes = !pthread_create(&f->writer, NULL, write_main, f);
}

bool packed_file_wait(struct packed_file *f) {
    if (f->writes)
        pthread_join(f->writer, NULL);
    f->writes = false;
    return atomic_load(&f->written);
}

void packed_file_free(struct packed_file **f) {
    if (!*f)
        return;
    atomic_store(&(*f)->stop, true);
    (void)packed_file_wait(*f);
    thread_pool_free(&(*f)->pool);
    if ((*f)->begun_fd >= 0)
        close((*f)->begun_fd);
    file_map_close(&(*f)->map);
    vec_release(&(*f)->segments);
    mem_free((*f)->folder);
    mem_free((*f)->path);
    mem_free(*f);
    *f = NULL;
}
