#include "base/fsutil.h"
#include "check.h"
#include "full_disk.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];
static char *in_root(const char *name) {
    return path_join(root, name);
}
static void make_root(void) {
    snprintf(root, sizeof root, "/tmp/trireme-test-fs-XXXXXX");
    if (!mkdtemp(root))
        root[0] = 0;
}
static void remove_root(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    if (system(command))
        root[0] = 0;
}
static int entries(void) {
    int count = 0;
    DIR *dir = opendir(root);
    for (struct dirent *e; (e = readdir(dir));)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* What was there stays, whole, and nothing beside it. */
TEST(file_write_atomic_on_a_full_disk_changes_nothing) {
    static char text[100000];
    struct error err = {0};
    struct buf b;
    make_root();
    char *path = in_root("file");
    buf_init(&b, 0);
    EXPECT_EQ(file_write_atomic(path, "before", 6, 0600, &err), 0);
    struct rlimit before = full_disk_begin(4096);
    EXPECT(file_write_atomic(path, text, sizeof text, 0600, &err) != 0);
    full_disk_end(before);
    EXPECT(strstr(err.text, path) != NULL);
    EXPECT_EQ(entries(), 1);
    EXPECT_EQ(file_read(path, sizeof text, &b, &err), 0);
    EXPECT_STR(buf_text(&b), "before");
    EXPECT_EQ(file_write_atomic(path, text, sizeof text, 0600, &err), 0);
    EXPECT_EQ(entries(), 1);
    buf_release(&b);
    mem_free(path);
    remove_root();
}

TEST(file_write_atomic_then_read_and_map) {
    struct error err;
    struct buf b;
    struct file_map map;
    make_root();
    char *path = in_root("file");
    buf_init(&b, 0);
    for (int round = 0; round < 3; round++) {
        char text[40000];
        size_t len = (size_t)snprintf(text, sizeof text, "round %d ", round);
        memset(text + len, 'a' + round, sizeof text - len);
        EXPECT_EQ(file_write_atomic(path, text, sizeof text, 0640, &err), 0);
        EXPECT_EQ(entries(), 1); /* no temporary file stays */
        buf_reset(&b);
        EXPECT_EQ(file_read(path, sizeof text, &b, &err), 0);
        EXPECT(bytes_equal(buf_bytes(&b), bytes_of(text, sizeof text)));
        EXPECT_EQ(file_map_open(&map, path, &err), 0);
        EXPECT(bytes_equal(bytes_of(map.data, map.len), bytes_of(text, sizeof text)));
        file_map_forget(&map);
        EXPECT(bytes_equal(bytes_of(map.data, map.len), bytes_of(text, sizeof text)));
        file_map_close(&map);
    }
    struct stat st;
    EXPECT_EQ(stat(path, &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0640);
    buf_reset(&b);
    EXPECT_EQ(file_read(path, 39999, &b, &err), ERR_LIMIT);
    EXPECT(strstr(err.text, path) && strstr(err.text, "39999"));
    buf_release(&b);
    mem_free(path);
    remove_root();
}

TEST(file_errors_name_the_file) {
    struct error err;
    struct buf b;
    struct file_map map;
    buf_init(&b, 0);
    EXPECT_EQ(file_read("/nowhere/x", 100, &b, &err), ERR_NOT_FOUND);
    EXPECT(strstr(err.text, "/nowhere/x"));
    EXPECT_EQ(file_read("/tmp", 100, &b, &err), ERR_INVALID);
    EXPECT_STR(err.text, "cannot read '/tmp': it is a folder, not a file");
    EXPECT_EQ(file_map_open(&map, "/nowhere/x", &err), ERR_NOT_FOUND);
    EXPECT_EQ(file_map_open(&map, "/tmp", &err), ERR_INVALID);
    EXPECT_EQ(file_write_atomic("/nowhere/x", "a", 1, 0600, &err), ERR_NOT_FOUND);
    EXPECT(!file_exists("/tmp") && dir_exists("/tmp") && !dir_exists("/nowhere") &&
           !file_exists("/nowhere"));
    /* size 0 in stat, yet full of text */
    EXPECT_EQ(file_read("/proc/self/status", 1 << 20, &b, &err), 0);
    EXPECT(b.len > 100);
    buf_release(&b);
}

/* Opening a pipe waits for who writes to it: a model's folder with one in it held the worker for
 * ever. */
TEST(pipes_and_devices_are_refused_at_once) {
    struct error err;
    struct buf b;
    struct file_map map;
    make_root();
    char *pipe = in_root("model.gguf");
    buf_init(&b, 0);
    EXPECT_EQ(mkfifo(pipe, 0600), 0);
    alarm(20); /* what waits ends here */
    EXPECT_EQ(file_read(pipe, 100, &b, &err), ERR_INVALID);
    EXPECT(strstr(err.text, pipe) && strstr(err.text, "it is a pipe, not a file"));
    EXPECT_EQ(file_map_open(&map, pipe, &err), ERR_INVALID);
    EXPECT(map.data == NULL && strstr(err.text, "it is a pipe, not a file"));
    EXPECT_EQ(file_read("/dev/zero", 100, &b, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "it is a device, not a file"));
    EXPECT_EQ(file_map_open(&map, "/dev/zero", &err), ERR_INVALID);
    EXPECT_EQ(b.len, 0);
    alarm(0);
    buf_release(&b);
    mem_free(pipe);
    remove_root();
}

/* --config <(command) is a pipe. */
TEST(what_a_person_names_may_be_a_pipe) {
    struct error err;
    struct buf b;
    char path[32];
    int ends[2];
    buf_init(&b, 0);
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_EQ(write(ends[1], "port: 1\n", 8), 8);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    EXPECT_EQ(file_read_any(path, 100, &b, &err), 0);
    EXPECT(bytes_equal(buf_bytes(&b), bytes_str("port: 1\n")));
    close(ends[0]);
    EXPECT_EQ(file_read_any("/dev/zero", 100, &b, &err), ERR_LIMIT);
    EXPECT_EQ(file_read_any("/nowhere/x", 100, &b, &err), ERR_NOT_FOUND);
    buf_release(&b);
}

TEST(dir_make_makes_parents) {
    struct error err;
    make_root();
    char *deep = in_root("a/b//c/");
    char *file = in_root("file");
    EXPECT_EQ(dir_make(deep, 0700, &err), 0);
    EXPECT(dir_exists(deep));
    EXPECT_EQ(dir_make(deep, 0700, &err), 0);
    EXPECT_EQ(file_write_atomic(file, "", 0, 0600, &err), 0);
    struct file_map map;
    EXPECT_EQ(file_map_open(&map, file, &err), 0);
    EXPECT_EQ(map.len, 0);
    file_map_close(&map);
    char *below = in_root("file/x");
    EXPECT(dir_make(below, 0700, &err) < 0);
    EXPECT(strstr(err.text, "file"));
    mem_free(below);
    mem_free(deep);
    mem_free(file);
    remove_root();
}

TEST(path_join_puts_one_slash) {
    char *a = path_join("x", "y"), *b = path_join("x/", "y"), *c = path_join("", "y");
    EXPECT_STR(a, "x/y");
    EXPECT_STR(b, "x/y");
    EXPECT_STR(c, "y");
    mem_free(a);
    mem_free(b);
    mem_free(c);
}
