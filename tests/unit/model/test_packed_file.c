/* Packed weights are taken from the file that an earlier start left, or packed: never wrong ones,
 * never too many, and never at the cost of a load. */
#include "model/load/packed_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "full_disk.h"
#include "rig.h"

enum { SEGMENTS = 4, LARGEST = 5 << 20 };
static const size_t SIZES[SEGMENTS] = {64, LARGEST, 4096, 12345};

struct fixture {
    char folder[64];
    struct packed_file_config config;
    uint8_t *data[SEGMENTS]; /* what was packed */
    char *path;              /* of the file */
};

static char *file_path(const struct fixture *f, const char *suffix) {
    char name[128], hex[2][U128_TEXT_MAX];
    u128_text(f->config.source, hex[0]);
    u128_text(f->config.key, hex[1]);
    snprintf(name, sizeof name, "%s-%s%s", hex[0], hex[1], suffix);
    return path_join(f->folder, name);
}

static void set_up(struct fixture *f) {
    snprintf(f->folder, sizeof f->folder, "/tmp/trireme-packed-XXXXXX");
    if (!mkdtemp(f->folder))
        check_fail(__FILE__, __LINE__, "no folder");
    f->config = (struct packed_file_config){.folder = f->folder,
                                            .source = {1, 2},
                                            .key = {3, 4},
                                            .bytes_most = 64 << 20,
                                            .thread_count = 2};
    for (int i = 0; i < SEGMENTS; i++) {
        f->data[i] = aligned_alloc(64, (SIZES[i] + 63) / 64 * 64);
        for (size_t b = 0; b < SIZES[i]; b++)
            f->data[i][b] = (uint8_t)check_random();
    }
    f->path = file_path(f, ".weights");
}

static void tear_down(struct fixture *f) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", f->folder);
    if (system(command))
        check_fail(__FILE__, __LINE__, "cannot remove %s", f->folder);
    for (int i = 0; i < SEGMENTS; i++)
        free(f->data[i]);
    mem_free(f->path);
}

/* A start: takes or packs each segment, keeps the file. Which segments came from it, as bits; bit 31:
 * one had other bytes than were packed; *there: whether the file is. */
static uint32_t load(struct fixture *f, bool *there) {
    struct packed_file *file = packed_file_open(&f->config);
    uint32_t taken = 0;
    for (int i = 0; i < SEGMENTS; i++) {
        const void *p = packed_file_next(file, SIZES[i]);
        if (!p)
            packed_file_add(file, f->data[i], SIZES[i]);
        else
            taken |= memcmp(p, f->data[i], SIZES[i]) || (uintptr_t)p % 64 ? 1u << 31 : 1u << i;
    }
    packed_file_keep(file);
    *there = packed_file_wait(file);
    packed_file_free(&file);
    return taken;
}
enum { ALL = (1 << SEGMENTS) - 1 };

static bool change_byte(const char *path, long at) {
    int fd = open(path, O_RDWR);
    uint8_t byte = 0;
    bool good = pread(fd, &byte, 1, at) == 1;
    byte ^= 1;
    good = good && pwrite(fd, &byte, 1, at) == 1;
    close(fd);
    return good;
}

TEST(what_was_packed_is_taken_at_the_next_start) {
    struct fixture f;
    bool there;
    set_up(&f);
    EXPECT_EQ(load(&f, &there), 0);
    EXPECT(there);
    struct stat before, after;
    EXPECT(!stat(f.path, &before) && (before.st_mode & 0777) == 0600);
    EXPECT_EQ(load(&f, &there), ALL);
    EXPECT(there && !stat(f.path, &after));
    EXPECT_EQ(after.st_ino, before.st_ino); /* not written again */
    tear_down(&f);
}

/* Head, rows, each segment's first and last byte; the length. */
TEST(a_damaged_file_is_not_used_and_made_anew) {
    struct fixture f;
    bool there;
    set_up(&f);
    long at = 4096, places[4 + 2 * SEGMENTS] = {0, 9, 33, 70};
    uint32_t lost[4 + 2 * SEGMENTS] = {ALL, ALL, ALL, ALL};
    for (int i = 0; i < SEGMENTS; i++) {
        places[4 + 2 * i] = at;
        places[5 + 2 * i] = at + (long)SIZES[i] - 1;
        lost[4 + 2 * i] = lost[5 + 2 * i] = 1u << i;
        at = (at + (long)SIZES[i] + 4095) / 4096 * 4096;
    }
    (void)load(&f, &there);
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        EXPECT(change_byte(f.path, places[i]));
        EXPECT_EQ(load(&f, &there), ALL & ~lost[i]);
        EXPECT(there);
        EXPECT_EQ(load(&f, &there), ALL);
    }
    for (long len = 0; len < at + 4096; len += at / 5 + 1) {
        EXPECT(!truncate(f.path, len)); /* the last is longer */
        EXPECT_EQ(load(&f, &there), 0);
        EXPECT(there);
    }
    EXPECT_EQ(load(&f, &there), ALL);
    tear_down(&f);
}

TEST(sizes_that_changed_are_packed_anew) {
    struct fixture f;
    bool there;
    set_up(&f);
    (void)load(&f, &there);
    struct packed_file *file = packed_file_open(&f.config);
    EXPECT(packed_file_next(file, SIZES[0]));
    EXPECT(!packed_file_next(file, SIZES[1] - 64));
    packed_file_add(file, f.data[1], SIZES[1] - 64);
    EXPECT(packed_file_next(file, SIZES[2]));
    packed_file_keep(file);
    EXPECT(packed_file_wait(file));
    packed_file_free(&file);
    EXPECT_EQ(load(&f, &there), 1 << 0 | 1 << 2);
    tear_down(&f);
}

TEST(files_that_others_can_write_are_not_used) {
    struct fixture f;
    bool there;
    set_up(&f);
    (void)load(&f, &there);
    EXPECT(!chmod(f.path, 0620));
    EXPECT_EQ(load(&f, &there), 0);
    EXPECT(there);
    EXPECT_EQ(load(&f, &there), ALL);
    char *target = path_join(f.folder, "target");
    EXPECT(!rename(f.path, target) && !symlink(target, f.path));
    EXPECT_EQ(load(&f, &there), 0);
    EXPECT_EQ(load(&f, &there), ALL);
    mem_free(target);
    tear_down(&f);
}

TEST(another_build_replaces_the_file_and_another_model_does_not) {
    struct fixture f;
    bool there;
    set_up(&f);
    (void)load(&f, &there);
    f.config.key.lo++;
    EXPECT_EQ(load(&f, &there), 0);
    EXPECT(there && !file_exists(f.path));
    f.config.key.lo--;
    f.config.source.lo++;
    EXPECT_EQ(load(&f, &there), 0);
    f.config.source.lo--;
    f.config.key.lo++;
    EXPECT_EQ(load(&f, &there), ALL);
    tear_down(&f);
}

/* Room for two and a half: the one that was used longest ago goes. */
TEST(the_folder_keeps_within_its_bound) {
    struct fixture f;
    bool there;
    set_up(&f);
    f.config.bytes_most = LARGEST / 2 * 5;
    char *paths[3];
    for (uint64_t i = 0; i < 3; i++) {
        f.config.source.lo = f.config.key.lo = i;
        paths[i] = file_path(&f, ".weights");
        if (i == 2) { /* the first is used again */
            struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
            EXPECT(!utimensat(AT_FDCWD, paths[0], old, 0));
            EXPECT(!utimensat(AT_FDCWD, paths[1], (old[1].tv_sec = 2000, old), 0));
            f.config.source.lo = f.config.key.lo = 0;
            EXPECT_EQ(load(&f, &there), ALL);
            f.config.source.lo = f.config.key.lo = 2;
        }
        EXPECT_EQ(load(&f, &there), 0);
        EXPECT(there);
    }
    EXPECT(file_exists(paths[0]) && !file_exists(paths[1]) && file_exists(paths[2]));
    f.config.source.lo = 9;
    f.config.bytes_most = LARGEST;
    EXPECT_EQ(load(&f, &there), 0);
    EXPECT(!there && file_exists(paths[0])); /* nothing goes for one that cannot be kept */
    f.config.bytes_most = 64 << 20;
    f.config.bytes_least = 2 * LARGEST;
    EXPECT_EQ(load(&f, &there), 0);
    EXPECT(!there);
    for (int i = 0; i < 3; i++)
        mem_free(paths[i]);
    tear_down(&f);
}

TEST(unfinished_files_are_left_to_their_writer_or_removed) {
    struct fixture f;
    bool there;
    set_up(&f);
    char *own = file_path(&f, ".weights.tmp"), *old = path_join(f.folder, "1-2.weights.tmp"),
         *empty = path_join(f.folder, "1-3.weights.tmp"),
         *begun = path_join(f.folder, "1-4.weights.tmp");
    const struct timespec week_ago[2] = {{.tv_sec = time(NULL) - 8 * 86400},
                                         {.tv_sec = time(NULL) - 8 * 86400}};
    int writer = open(own, O_WRONLY | O_CREAT, 0600), fds[3];
    const char *const others[] = {old, empty, begun};
    for (int i = 0; i < 3; i++) {
        fds[i] = open(others[i], O_WRONLY | O_CREAT, 0600);
        if (i != 1)
            EXPECT_EQ(write(fds[i], "begun", 5), 5);
        close(fds[i]);
    }
    EXPECT(!utimensat(AT_FDCWD, old, week_ago, 0));
    EXPECT(writer >= 0 && !flock(writer, LOCK_EX));
    EXPECT_EQ(load(&f, &there), 0);
    EXPECT(!there && file_exists(own) && !file_exists(f.path));
    EXPECT(!file_exists(old) && !file_exists(empty) && file_exists(begun));
    close(writer);
    EXPECT_EQ(load(&f, &there), 0);
    EXPECT(there && !file_exists(own));
    mem_free(own);
    mem_free(old);
    mem_free(empty);
    mem_free(begun);
    tear_down(&f);
}

enum { HEAD = 8 + 8 + 8 + 16 + 16, ROW = 8 + 8 + 16, COUNT_AT = 16, SUM_AT = 40 };

/* Makes of the whole file what a process leaves that ended after so many segments: no sum of all
 * rows, no further rows, and other bytes where the segments would be. */
static void end_after(struct fixture *f, const char *unfinished, int segments) {
    char nothing[ROW * SEGMENTS] = {0};
    long at = 4096;
    int fd = open(f->path, O_RDWR);
    EXPECT_EQ(pwrite(fd, nothing, 16, SUM_AT), 16);
    EXPECT_EQ(pwrite(fd, nothing, (size_t)(ROW * (SEGMENTS - segments)), HEAD + ROW * segments),
              ROW * (SEGMENTS - segments));
    for (int i = 0; i < SEGMENTS; i++) {
        if (i >= segments)
            EXPECT_EQ(pwrite(fd, nothing, 32, at), 32);
        at = (at + (long)SIZES[i] + 4095) / 4096 * 4096;
    }
    close(fd);
    EXPECT(!rename(f->path, unfinished));
}

TEST(what_was_begun_is_taken_and_gone_on_with) {
    struct fixture f;
    bool there;
    set_up(&f);
    char *unfinished = file_path(&f, ".weights.tmp");
    for (int segments = 0; segments <= SEGMENTS; segments++) {
        struct stat before, after;
        (void)load(&f, &there);
        end_after(&f, unfinished, segments);
        EXPECT(!stat(unfinished, &before));
        EXPECT_EQ(load(&f, &there), (1u << segments) - 1);
        EXPECT(there && !file_exists(unfinished) && !stat(f.path, &after));
        EXPECT(segments == 0 || before.st_ino == after.st_ino);
        EXPECT_EQ(load(&f, &there), ALL);
        EXPECT(there);
    }
    mem_free(unfinished);
    tear_down(&f);
}

/* What follows a segment that is not as it was written is packed and written anew. */
TEST(what_was_begun_is_taken_as_far_as_it_is_right) {
    struct fixture f;
    bool there;
    set_up(&f);
    char *unfinished = file_path(&f, ".weights.tmp");
    (void)load(&f, &there);
    end_after(&f, unfinished, 3);
    EXPECT(change_byte(unfinished, 2 * 4096 + 5));
    EXPECT_EQ(load(&f, &there), 1);
    EXPECT(there);
    EXPECT_EQ(load(&f, &there), ALL);
    end_after(&f, unfinished, 3); /* then the model is another */
    struct packed_file *file = packed_file_open(&f.config);
    EXPECT(packed_file_next(file, SIZES[0]));
    packed_file_keep(file);
    EXPECT(packed_file_wait(file));
    packed_file_free(&file);
    EXPECT(!file_exists(unfinished));
    EXPECT_EQ(load(&f, &there), 1);
    EXPECT_EQ(load(&f, &there), ALL);
    end_after(&f, unfinished, 2); /* while another goes on with it */
    int writer = open(unfinished, O_RDONLY);
    EXPECT(!flock(writer, LOCK_EX));
    EXPECT_EQ(load(&f, &there), 0);
    EXPECT(!there && file_exists(unfinished));
    close(writer);
    mem_free(unfinished);
    tear_down(&f);
}

TEST(an_end_while_writing_leaves_what_can_be_gone_on_with) {
    struct fixture f;
    bool there;
    set_up(&f);
    char *unfinished = file_path(&f, ".weights.tmp");
    for (int round = 0; round < 20; round++) {
        struct packed_file *file = packed_file_open(&f.config);
        for (int i = 0; i < SEGMENTS; i++)
            packed_file_add(file, f.data[i], SIZES[i]);
        packed_file_keep(file);
        usleep((unsigned)round * 200);
        packed_file_free(&file);
        uint32_t taken = load(&f, &there);
        EXPECT(!(taken & (taken + 1)) && there); /* a beginning */
        EXPECT(!file_exists(unfinished));
        EXPECT_EQ(load(&f, &there), ALL);
        EXPECT(!unlink(f.path));
    }
    mem_free(unfinished);
    tear_down(&f);
}

/* Half of it is not kept, whichever half; with room again it is written. */
TEST(a_full_disk_leaves_no_half_file) {
    static const rlim_t ROOM[] = {0, 100, 4096, 2 << 20, LARGEST + 4096};
    struct fixture f;
    bool there;
    set_up(&f);
    char *unfinished = file_path(&f, ".weights.tmp");
    for (size_t i = 0; i < ARRAY_LEN(ROOM); i++) {
        struct rlimit before = full_disk_begin(ROOM[i]);
        EXPECT_EQ(load(&f, &there), 0);
        full_disk_end(before);
        EXPECT(!there && !file_exists(f.path) && !file_exists(unfinished));
    }
    EXPECT_EQ(load(&f, &there), 0);
    EXPECT(there);
    EXPECT_EQ(load(&f, &there), ALL);
    mem_free(unfinished);
    tear_down(&f);
}

TEST(without_a_folder_all_goes_on) {
    struct fixture f;
    bool there;
    set_up(&f);
    EXPECT(!rmdir(f.folder));
    EXPECT_EQ(load(&f, &there), 0);
    EXPECT(!there && !mkdir(f.folder, 0700));
    tear_down(&f);
}

/* A pipe would be waited for for ever; a file with two names is another's; a folder is none. Nothing of
 * it is touched, and the file comes to be all the same where its name can be freed. */
TEST(what_was_put_in_an_unfinished_files_place_is_harmless) {
    static const char *const KINDS[] = {"pipe", "second name", "open to all", "link"};
    for (int kind = 0; kind < 4; kind++) {
        struct fixture f;
        struct stat st;
        bool there;
        set_up(&f);
        char *own = file_path(&f, ".weights.tmp"), *other = path_join(f.folder, "other");
        int fd = open(other, O_WRONLY | O_CREAT, 0600);
        EXPECT_EQ(write(fd, "precious", 8), 8);
        close(fd);
        if (kind == 0)
            EXPECT(!mkfifo(own, 0600));
        else if (kind == 1)
            EXPECT(!link(other, own));
        else if (kind == 2)
            EXPECT(!close(open(own, O_WRONLY | O_CREAT, 0600)) && !chmod(own, 0666));
        else
            EXPECT(!symlink(other, own));
        alarm(20); /* not for ever */
        (void)load(&f, &there);
        alarm(0);
        if (!there || stat(f.path, &st) || (st.st_mode & 0777) != 0600 || st.st_nlink != 1)
            check_fail(__FILE__, __LINE__, "%s: not written as it should be", KINDS[kind]);
        EXPECT(!stat(other, &st) && st.st_size == 8);
        EXPECT_EQ(load(&f, &there), ALL);
        mem_free(own);
        mem_free(other);
        tear_down(&f);
    }
}

/* A file whose sums are right, but which was made to lead elsewhere: past its end, over itself, or to
 * more segments than there are. */
TEST(a_forged_file_leads_nowhere) {
    static const struct {
        long at; /* of a number in the file */
        uint64_t value;
    } CASES[] = {
        {HEAD, 0},                     /* the first segment lies over the head */
        {HEAD, 1 << 30},               /* past the end */
        {HEAD, UINT64_MAX - 63},       /* so that the sum of both overflows */
        {HEAD + 8, UINT64_MAX},        /* its size */
        {HEAD + 8, (uint64_t)1 << 63}, /* the same */
        {HEAD + ROW, 4096},            /* the second lies over the first */
        {HEAD + ROW + 8, 1 << 30},
        {COUNT_AT, 0},
        {COUNT_AT, SEGMENTS - 1},
        {COUNT_AT, SEGMENTS + 1},
        {COUNT_AT, (uint64_t)1 << 60}, /* times a row's size it is small again */
        {COUNT_AT, UINT64_MAX},
        {8, 0}, /* the length */
        {8, UINT64_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct fixture f;
        bool there;
        uint8_t rows[ROW * (SEGMENTS + 1)];
        uint64_t count = SEGMENTS;
        set_up(&f);
        (void)load(&f, &there);
        int fd = open(f.path, O_RDWR);
        EXPECT_EQ(pwrite(fd, &CASES[i].value, 8, CASES[i].at), 8);
        EXPECT_EQ(pread(fd, &count, 8, COUNT_AT), 8);
        count = MIN(count, (uint64_t)SEGMENTS + 1);
        EXPECT_EQ(pread(fd, rows, count * ROW, HEAD), (ssize_t)(count * ROW));
        struct u128 sum = hash128(rows, count * ROW, 0);
        EXPECT_EQ(pwrite(fd, &sum, sizeof sum, SUM_AT), (ssize_t)sizeof sum);
        close(fd);
        uint32_t taken = load(&f, &there);
        EXPECT(!(taken >> 31) && taken != ALL);
        EXPECT(there);
        EXPECT_EQ(load(&f, &there), ALL);
        tear_down(&f);
    }
}

/* ---- a model ---- */

/* The bundled model in int8 after a prompt: its logits, in `out`, [vocab]. Whether its weights came
 * from the file. */
static bool model_taken(struct fixture *f, float *out) {
    const uint32_t tokens[] = {5, 1000, 17, 2000, 301}, slot = 0;
    struct rig r;
    struct error err = {0};
    struct stat before = {0}, after = {0};
    uint32_t sampled[1];
    (void)!stat(f->path, &before);
    rig_slots = 2;
    rig_quantize = STORAGE_I8;
    rig_compute = "int8";
    rig_packed_folder = f->folder;
    if (!rig_open(&r, TRIREME_SOURCE_DIR "/demo/model", NULL, 2, STORAGE_F32, 16, &err) ||
        !packed_file_wait(r.model.packed))
        check_fail(__FILE__, __LINE__, "not kept: %s", err.text);
    rig_admit(&r, slot, tokens, ARRAY_LEN(tokens), (struct slot_state){0});
    if (rig_step(&r, &slot, 1, ARRAY_LEN(tokens), sampled) != 1)
        check_fail(__FILE__, __LINE__, "nothing to sample");
    forward_logits(&r.forward, r.stream, 0, 1);
    memcpy(out, r.forward.logits, r.model.spec.vocab * sizeof *out);
    rig_close(&r);
    rig_slots = RIG_SLOTS;
    rig_quantize = STORAGE_NONE;
    rig_compute = rig_packed_folder = NULL;
    return !stat(f->path, &after) && after.st_ino == before.st_ino;
}

/* Pages of a mapping that are in this process's memory, as pagemap(5) says. */
static size_t pages_present(const struct file_map *map) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)map->data / page;
    int fd = open("/proc/self/pagemap", O_RDONLY);
    size_t present = 0;
    for (size_t i = 0; i < (map->len + page - 1) / page; i++) {
        uint64_t entry;
        if (pread(fd, &entry, sizeof entry, (off_t)((first + i) * sizeof entry)) != sizeof entry)
            check_fail(__FILE__, __LINE__, "cannot read pagemap");
        present += entry >> 63;
    }
    close(fd);
    return present;
}

TEST(files_whose_weights_were_packed_take_no_memory) {
    struct rig r;
    struct error err = {0};
    rig_slots = 2;
    rig_quantize = STORAGE_I8;
    rig_compute = "int8";
    EXPECT(rig_open(&r, TRIREME_SOURCE_DIR "/demo/model", NULL, 1, STORAGE_F32, 16, &err));
    EXPECT_EQ(pages_present(&r.model.files.files[0].map), 0);
    rig_close(&r);
    rig_slots = RIG_SLOTS;
    rig_quantize = STORAGE_NONE;
    rig_compute = NULL;
}

/* The one file in the folder. */
static char *find_file(const struct fixture *f) {
    char *found = NULL;
    DIR *dir = opendir(f->folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strstr(e->d_name, ".weights")) {
            mem_free(found);
            found = path_join(f->folder, e->d_name);
        }
    if (dir)
        closedir(dir);
    return found;
}

TEST(a_model_gives_the_same_logits_with_weights_of_the_file) {
    enum { VOCAB = 3072 };
    static float packed[VOCAB], taken[VOCAB], repaired[VOCAB];
    struct fixture f;
    struct stat st;
    set_up(&f);
    EXPECT(!model_taken(&f, packed));
    mem_free(f.path);
    f.path = find_file(&f);
    EXPECT(f.path && !stat(f.path, &st) && st.st_size > 1 << 20);
    EXPECT(model_taken(&f, taken));
    EXPECT(!memcmp(packed, taken, sizeof packed));
    EXPECT(change_byte(f.path, st.st_size / 2));
    EXPECT(!model_taken(&f, repaired));
    EXPECT(!memcmp(packed, repaired, sizeof packed));
    tear_down(&f);
}

/* The logits behind the last of `count` tokens, in `out`, [vocab]. */
static void logits_of(struct rig *r, const uint32_t *tokens, uint32_t count, float *out) {
    const uint32_t slot = 0;
    uint32_t sampled[1];
    rig_admit(r, slot, tokens, count, (struct slot_state){0});
    if (rig_step(r, &slot, 1, count, sampled) != 1)
        check_fail(__FILE__, __LINE__, "nothing to sample");
    forward_logits(&r->forward, r->stream, 0, 1);
    memcpy(out, r->forward.logits, r->model.spec.vocab * sizeof *out);
}

static struct buf file_bytes(const char *path) {
    struct buf bytes = {0};
    struct error err;
    if (!path || file_read(path, (size_t)1 << 28, &bytes, &err))
        check_fail(__FILE__, __LINE__, "cannot read what was kept");
    return bytes;
}

/* Weights that are packed later: whichever of them lie as in their file, every product has the same bits,
 * of one row and of many; and what is kept in the end is what is kept of a start that packs at once. */
TEST(a_model_gives_the_same_logits_while_it_is_packed) {
    enum { VOCAB = 3072, PROMPT = 70 };
    static const enum storage_type TYPES[] = {STORAGE_I8, STORAGE_U4};
    static float want[2][VOCAB], got[VOCAB];
    uint32_t tokens[PROMPT];
    for (uint32_t i = 0; i < PROMPT; i++)
        tokens[i] = 5 + 41 * i;
    rig_slots = 2;
    rig_compute = "int8";
    for (size_t t = 0; t < ARRAY_LEN(TYPES); t++) {
        struct buf kept[2];
        rig_quantize = TYPES[t];
        for (int later = 0; later < 2; later++) {
            struct fixture f;
            struct rig r;
            struct error err = {0};
            uint32_t steps = 0;
            set_up(&f);
            rig_packed_folder = f.folder;
            rig_packs_later = later;
            if (!rig_open(&r, TRIREME_SOURCE_DIR "/demo/model", NULL, 2, STORAGE_F32, 16, &err))
                check_fail(__FILE__, __LINE__, "%s", err.text);
            do {
                for (int many = 0; many < 2; many++) {
                    logits_of(&r, tokens, many ? PROMPT : 1, later ? got : want[many]);
                    if (later && memcmp(got, want[many], sizeof got))
                        check_fail(__FILE__, __LINE__, "type %zu: other bits with %u packed", t,
                                   steps);
                }
                steps++;
            } while (model_pack_next(&r.model, r.stream));
            EXPECT(later ? steps > 8 : steps == 1);
            EXPECT(packed_file_wait(r.model.packed));
            mem_free(f.path);
            f.path = find_file(&f);
            kept[later] = file_bytes(f.path);
            rig_close(&r);
            tear_down(&f);
        }
        EXPECT(kept[0].len == kept[1].len && !memcmp(kept[0].data, kept[1].data, kept[0].len));
        buf_release(&kept[0]);
        buf_release(&kept[1]);
    }
    rig_slots = RIG_SLOTS;
    rig_quantize = STORAGE_NONE;
    rig_compute = rig_packed_folder = NULL;
    rig_packs_later = false;
}

/* Of a file that was begun the first segments are taken; the rest is packed later, and the file comes to
 * be whole. */
TEST(a_model_that_finds_a_begun_file_packs_the_rest_later) {
    struct fixture f;
    struct rig r;
    struct error err = {0};
    struct stat st;
    set_up(&f);
    rig_slots = 2;
    rig_quantize = STORAGE_I8;
    rig_compute = "int8";
    rig_packed_folder = f.folder;
    rig_packs_later = true;
    uint32_t steps[3] = {0};
    for (int start = 0; start < 3; start++) {
        uint32_t fetched = 0;
        EXPECT(rig_open(&r, TRIREME_SOURCE_DIR "/demo/model", NULL, 2, STORAGE_F32, 16, &err));
        while (fetched < 10000 && model_fetch_next(&r.model))
            fetched++;
        while (model_pack_next(&r.model, r.stream))
            steps[start]++;
        EXPECT_EQ(fetched, steps[start]); /* the pages of each are mapped ahead, once */
        EXPECT(packed_file_wait(r.model.packed));
        rig_close(&r);
        mem_free(f.path);
        f.path = find_file(&f);
        if (start == 0) { /* as if it had been cut short: without its second half's rows and sum */
            char *begun = mem_alloc(strlen(f.path) + 8);
            snprintf(begun, strlen(f.path) + 8, "%s.tmp", f.path);
            uint8_t nothing[ROW] = {0};
            uint64_t count;
            int fd = open(f.path, O_RDWR);
            EXPECT(fd >= 0 && pread(fd, &count, sizeof count, COUNT_AT) == sizeof count);
            for (uint64_t i = count / 2; i < count; i++)
                EXPECT_EQ(pwrite(fd, nothing, ROW, (off_t)(HEAD + ROW * i)), ROW);
            close(fd);
            EXPECT(!stat(f.path, &st) && !rename(f.path, begun));
            mem_free(begun);
        }
    }
    EXPECT(steps[1] > 0 && steps[1] < steps[0] && steps[2] == 0);
    rig_slots = RIG_SLOTS;
    rig_quantize = STORAGE_NONE;
    rig_compute = rig_packed_folder = NULL;
    rig_packs_later = false;
    tear_down(&f);
}
