#include "base/metrics_share.h"

#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES = 1 << 20, PATH_BYTES = 512 };

struct head {
    _Atomic uint32_t pid;        /* of the process that has the place */
    _Atomic uint32_t generation; /* counts the processes that had it */
    _Atomic uint64_t used;       /* bytes of head and blocks */
};

struct block {
    uint64_t layout;
    uint64_t bytes; /* with its cells */
    _Atomic uint64_t generation;
    char label[METRIC_COPY_LABEL_MAX];
    struct metric_cells cells[];
};

static struct {
    char prefix[PATH_BYTES - 16];
    int place;
    struct head *head;
} own = {.place = -1};

int share_place(void) {
    return own.place;
}

/* ---- files ---- */

/* Programs whose cells differ in shape meet in no file. */
static unsigned version(void) {
    const size_t shape[] = {sizeof(struct head), sizeof(struct block), sizeof(struct metric_cells),
                            FILE_BYTES};
    return (unsigned)hash64(shape, sizeof shape, 0);
}

static void path_of(int place, char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "%s-%d", own.prefix, place);
}

/* A lock that ends with the last descriptor of this open file, so with its process. */
static bool lock(int fd) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &whole) == 0;
}

static bool is_locked(int fd) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

/* The file of a place that nobody has, locked; -1: somebody has it, or errno says why not. */
static int take_file(int place) {
    char path[PATH_BYTES];
    path_of(place, path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    /* room for all of it: a write to a page for which the disk has none would end the process */
    int code = lock(fd) ? posix_fallocate(fd, 0, FILE_BYTES) : errno;
    if (!code)
        return fd;
    close(fd);
    errno = code;
    return -1;
}

/* The descriptor stays open, and with it the lock, while the process lives. */
static int map_own(int fd, int place, struct error *err) {
    struct head *head = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (head == MAP_FAILED) {
        close(fd);
        return error_set_errno(err, "cannot map the file of shared metrics");
    }
    if (head->used < sizeof *head)
        head->used = sizeof *head;
    head->generation++;
    head->pid = (uint32_t)getpid();
    own.head = head;
    own.place = place;
    return 0;
}

int share_open(const char *folder, const char *name, struct error *err) {
    CHECK(own.place < 0);
    int used = snprintf(own.prefix, sizeof own.prefix, "%s/%s-%08x", folder, name, version());
    if (used >= (int)sizeof own.prefix)
        return error_set(err, ERR_LIMIT, "the path of '%s' is too long", folder);
    for (int place = 0; place < SHARE_PLACES_MAX; place++) {
        int fd = take_file(place);
        if (fd >= 0)
            return map_own(fd, place, err);
        if (errno != EAGAIN && errno != EACCES)
            return error_set_errno(err, "cannot share metrics in '%s'", folder);
    }
    return error_set(err, ERR_LIMIT, "more than %d processes share metrics in '%s'",
                     SHARE_PLACES_MAX, folder);
}

/* ---- blocks ---- */

/* The block at *at, which moves behind it; NULL: the end. */
static struct block *block_at(const struct head *head, size_t *at) {
    uint64_t used = MIN((uint64_t)head->used, (uint64_t)FILE_BYTES);
    *at = MAX(*at, sizeof *head);
    if (*at + sizeof(struct block) > used)
        return NULL;
    struct block *b = (struct block *)((uintptr_t)head + *at);
    if (b->bytes < sizeof *b || b->bytes > used - *at)
        return NULL;
    *at += b->bytes;
    return b;
}

static struct block *find_block(uint64_t layout, const char *label) {
    struct block *b;
    for (size_t at = 0; (b = block_at(own.head, &at));)
        if (b->layout == layout && !strcmp(b->label, label))
            return b;
    return NULL;
}

static struct block *add_block(uint64_t layout, const char *label, size_t count) {
    uint64_t bytes = sizeof(struct block) + count * sizeof(struct metric_cells);
    uint64_t used = own.head->used;
    if (bytes > FILE_BYTES - used)
        return NULL;
    struct block *b = (struct block *)((uintptr_t)own.head + used);
    b->layout = layout;
    b->bytes = bytes;
    memcpy(b->label, label, strlen(label) + 1);
    own.head->used = used + bytes;
    return b;
}

struct metric_cells *share_cells(uint64_t layout, const char *label, const struct metric *metrics,
                                 size_t count) {
    CHECK(strlen(label) < METRIC_COPY_LABEL_MAX);
    if (own.place < 0)
        return NULL;
    struct block *b = find_block(layout, label);
    if (!b)
        b = add_block(layout, label, count);
    if (!b)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (metrics[i].kind == METRIC_GAUGE || metrics[i].told)
            b->cells[i] = (struct metric_cells){0};
    b->generation = own.head->generation;
    return b->cells;
}

/* ---- the others ---- */

static bool open_peer(int place, struct share_peer *peer) {
    char path[PATH_BYTES];
    struct stat st;
    path_of(place, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const struct head *head = MAP_FAILED;
    bool live = is_locked(fd);
    if (fstat(fd, &st) == 0 && st.st_size == FILE_BYTES)
        head = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (head == MAP_FAILED)
        return false;
    *peer = (struct share_peer){.place = place, .live = live, .pid = head->pid, .map = head};
    return true;
}

void share_view_open(struct share_view *view) {
    view->count = 0;
    for (int place = 0; own.place >= 0 && place < SHARE_PLACES_MAX; place++)
        if (place == own.place)
            view->peers[view->count++] = (struct share_peer){.place = place, .map = own.head};
        else if (open_peer(place, &view->peers[view->count]))
            view->count++;
}

void share_view_close(struct share_view *view) {
    for (size_t i = 0; i < view->count; i++)
        if (view->peers[i].map != own.head)
            munmap((void *)(uintptr_t)view->peers[i].map, FILE_BYTES);
    view->count = 0;
}

bool share_next_block(const struct share_peer *peer, uint64_t layout, size_t *at,
                      struct share_block *out) {
    const struct head *head = peer->map;
    const struct block *b;
    while ((b = block_at(head, at))) {
        bool taken = b->generation == head->generation;
        if (b->layout != layout || (taken && head == own.head))
            continue;
        *out = (struct share_block){b->label, b->cells, peer->live && taken};
        return true;
    }
    return false;
}
