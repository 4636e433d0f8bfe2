/*
 * damaged_files: what damaged files do to a server that starts. Changes a file in COUNT ways, in place,
 * and opens the model each time as a worker (tokenizer.json: as a gateway) would, in a process of
 * its own. damaged_files.py makes the files.
 *
 *   damaged_files FILE COUNT [SEED]   FILE: a .gguf, or a file of a model's folder
 *
 * Prints what came of them. Exit status 1: a changed file ended its process, took a second of processor
 * time, or more memory than twice the bytes of the folder (or GGUF file) and 2 MB; what was changed
 * is said.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "model/model.h"
#include "text/tokenizer/tokenizer.h"

enum { REFUSED = 3, ALLOWANCE = 2 << 20, SMALL = 1 << 20, PIECE_MAX = 4096 };

struct victim {
    const char *path;
    char *folder; /* or the .gguf file */
    bool is_tokenizer;
    int fd;
    struct buf original, changed;
    uint64_t folder_bytes;
};

static uint64_t random_state = 1;
static uint64_t next_random(void) {
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- changes ---- */

/* Anywhere; half of the time where the headers are. */
static size_t place(size_t len) {
    if (len == 0)
        return 0;
    return next_random() % (next_random() % 2 ? MIN(len, (size_t)PIECE_MAX) : len);
}

/* Overwrites up to 8 bytes with something telling: a byte, a number's limit, a digit. */
static void overwrite(uint8_t *data, size_t len, size_t at) {
    static const uint64_t NUMBERS[] = {0,          1,          0x7f,      0xff,      0xffff,
                                       0x7fffffff, 0xffffffff, INT64_MAX, UINT64_MAX};
    uint64_t number = NUMBERS[next_random() % ARRAY_LEN(NUMBERS)];
    static const char DIGITS[] = "0123456789-+.eE{}[]\",:";
    size_t size = MIN((size_t)1 << next_random() % 4, len - at);
    if (next_random() % 2)
        memcpy(data + at, &number, size);
    else
        data[at] = (uint8_t)DIGITS[next_random() % (sizeof DIGITS - 1)];
}

/* One change; only small files grow or lose a piece in their middle. */
static void change(struct buf *b) {
    uint8_t *data = (uint8_t *)b->data;
    size_t at = place(b->len),
           n = b->len - at ? MIN(next_random() % (b->len - at), (size_t)PIECE_MAX) : 0;
    if (b->len == 0)
        return;
    switch (next_random() % (b->len <= SMALL ? 6 : 4)) {
    case 0: data[at] ^= (uint8_t)(1u << next_random() % 8); return;
    case 1:
    case 2: overwrite(data, b->len, at); return;
    case 3:
        if (next_random() % 4 == 0)
            b->len = at;
        return;
    case 4:
        memmove(data + at, data + at + n, b->len - at - n);
        b->len -= n;
        return;
    default: {
        char *piece = mem_strndup((char *)data + at, n);
        buf_add(b, piece, n);
        data = (uint8_t *)b->data;
        memmove(data + at + n, data + at, b->len - n - at);
        mem_free(piece);
    }
    }
}

/* Writes what differs from what lies there. */
static void put(int fd, const struct buf *from, const struct buf *to) {
    size_t low = 0, high = MIN(from->len, to->len);
    while (low < high && from->data[low] == to->data[low])
        low++;
    if (from->len == to->len)
        while (high > low && from->data[high - 1] == to->data[high - 1])
            high--;
    else
        high = to->len;
    if (ftruncate(fd, (off_t)to->len) ||
        (high > low && pwrite(fd, to->data + low, high - low, (off_t)low) < 0)) {
        perror("damaged_files");
        exit(2);
    }
}

/* ---- opening ---- */

static int open_tokenizer(const char *folder, struct error *err) {
    struct buf packed;
    struct bundle bundle;
    struct tokenizer *t = NULL;
    buf_init(&packed, 0);
    int rc = bundle_pack(folder, &packed, err);
    if (!rc)
        rc = bundle_open(&bundle, buf_bytes(&packed), err);
    if (!rc)
        rc = tokenizer_load_bundle(&bundle, &t, err);
    return rc;
}

static int open_weights(const char *folder, struct error *err) {
    struct device_options device = {.thread_count = 1};
    struct model_options options = {.dir = folder};
    struct device *dev;
    struct model m;
    int rc = device_open(&device, &dev, err);
    return rc ? rc : model_open(&m, &options, dev, stream_new(dev), err);
}

/* Status of a process that opens the victim, or does nothing. */
static int attempt(const struct victim *v, bool nothing, struct rusage *usage) {
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        struct error err = {0};
        struct rlimit core = {0, 0};
        setrlimit(RLIMIT_CORE, &core);
        if (nothing)
            _exit(0);
        int rc = v->is_tokenizer ? open_tokenizer(v->folder, &err) : open_weights(v->folder, &err);
        _exit(rc ? (err.text[0] ? REFUSED : 4) : 0);
    }
    return pid > 0 && wait4(pid, &status, 0, usage) == pid ? status : -1;
}

static uint64_t bytes_in(const char *path) {
    struct stat st;
    uint64_t total = 0;
    DIR *d = opendir(path);
    if (!d)
        return stat(path, &st) ? 0 : (uint64_t)st.st_size;
    for (struct dirent *e; (e = readdir(d));) {
        char *name = path_join(path, e->d_name);
        if (!stat(name, &st) && S_ISREG(st.st_mode))
            total += (uint64_t)st.st_size;
        mem_free(name);
    }
    closedir(d);
    return total;
}

static bool victim_open(struct victim *v, const char *path) {
    const char *slash = strrchr(path, '/');
    size_t len = strlen(path);
    struct error err;
    *v = (struct victim){.path = path, .fd = open(path, O_RDWR | O_CLOEXEC)};
    buf_init(&v->original, 0);
    buf_init(&v->changed, 0);
    bool gguf = len > 5 && !strcmp(path + len - 5, ".gguf");
    v->is_tokenizer = slash && !strcmp(slash, "/tokenizer.json");
    v->folder = gguf || !slash ? mem_strdup(path) : mem_strndup(path, (size_t)(slash - path));
    v->folder_bytes = bytes_in(v->folder);
    return v->fd >= 0 && !file_read(path, 1 << 28, &v->original, &err);
}

int main(int argc, char **argv) {
    struct victim v;
    struct rusage usage;
    uint64_t counts[2] = {0}, worst_us = 0, worst_kb = 0, bad = 0;
    if (argc < 3 || !victim_open(&v, argv[1])) {
        fprintf(stderr, "damaged_files FILE COUNT [SEED]\n");
        return 2;
    }
    random_state = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    buf_add_bytes(&v.changed, buf_bytes(&v.original)); /* ours, not the victim's */
    if (attempt(&v, true, &usage))
        return 2;
    long idle_kb = usage.ru_maxrss;
    if (attempt(&v, false, &usage)) {
        fprintf(stderr, "'%s' does not open as it is\n", argv[1]);
        return 2;
    }
    for (unsigned long i = 0, count = strtoul(argv[2], NULL, 10); i < count; i++) {
        buf_reset(&v.changed);
        buf_add_bytes(&v.changed, buf_bytes(&v.original));
        for (uint64_t steps = 1 + next_random() % 3; steps; steps--)
            change(&v.changed);
        put(v.fd, &v.original, &v.changed);
        int status = attempt(&v, false, &usage);
        put(v.fd, &v.changed, &v.original);
        uint64_t us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                      (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
        uint64_t kb = (uint64_t)MAX(usage.ru_maxrss - idle_kb, 0L);
        bool ended = status != 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == REFUSED);
        if (!ended)
            counts[status != 0]++;
        worst_us = MAX(worst_us, us);
        worst_kb = MAX(worst_kb, kb);
        if (!ended && us < 1000000 && kb * 1024 <= 2 * v.folder_bytes + ALLOWANCE)
            continue;
        printf("change %lu of %s: status %x, %llu us, %llu KB\n", i, v.path, (unsigned)status,
               (unsigned long long)us, (unsigned long long)kb);
        bad++;
    }
    printf("%s: %llu opened, %llu refused, %llu bad; at most %.0f ms, %.2f times the bytes of the "
           "model\n",
           v.path, (unsigned long long)counts[0], (unsigned long long)counts[1],
           (unsigned long long)bad, (double)worst_us / 1e3,
           (double)worst_kb * 1024 / (double)v.folder_bytes);
    return bad != 0;
}
