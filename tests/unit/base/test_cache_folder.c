/* Where a user's programs keep what they can make again, and which files there are believed. */
#include "base/cache_folder.h"

#include "base/fsutil.h"
#include "base/hash.h"
#include "capture.h"
#include "check.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct error err;
static char place[32], said[1000];

static void begin(void) {
    snprintf(place, sizeof place, "/tmp/trm-test-XXXXXX");
    CHECK(mkdtemp(place));
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
}

static void finish(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", place);
    CHECK(system(command) == 0);
}

/* place/name; overwritten by the next call but one. */
static const char *in_place(const char *name) {
    static char paths[2][200];
    static int turn;
    char *path = paths[turn++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", place, name);
    return path;
}

/* What is opened; said: the log's lines. */
static char *opened(const char *wanted) {
    struct buf log = {0};
    struct capture c = capture_begin(STDERR_FILENO);
    char *folder = cache_folder_open(wanted, "compiled texts");
    capture_end(&c, &log);
    snprintf(said, sizeof said, "%s", buf_text(&log));
    buf_release(&log);
    return folder;
}

/* Which folder it is: want, or none. */
static bool opens(const char *wanted, const char *want) {
    struct stat st;
    char *folder = opened(wanted);
    bool good = folder && want ? !strcmp(folder, want) && !stat(folder, &st) &&
                                     S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700
                               : !folder && !want;
    if (!good)
        printf("opened '%s'\n", folder ? folder : "none");
    mem_free(folder);
    return good;
}

TEST(cache_folder_is_the_one_named_or_the_users) {
    begin();
    EXPECT(opens(NULL, NULL)); /* no home */
    setenv("HOME", "relative", 1);
    EXPECT(opens(NULL, NULL));
    setenv("HOME", in_place("home"), 1);
    EXPECT(opens(NULL, in_place("home/.cache/trireme")));
    EXPECT(opens("", in_place("home/.cache/trireme")));
    setenv("XDG_CACHE_HOME", "", 1);
    EXPECT(opens("", in_place("home/.cache/trireme")));
    setenv("XDG_CACHE_HOME", "relative", 1);
    EXPECT(opens("", in_place("home/.cache/trireme")));
    setenv("XDG_CACHE_HOME", in_place("xdg"), 1);
    EXPECT(opens(NULL, in_place("xdg/trireme")));
    EXPECT(opens(in_place("a/b"), in_place("a/b")));
    EXPECT(opens("none", NULL));
    EXPECT_STR(said, "");
    finish();
}

TEST(cache_folder_that_cannot_be_made_is_told_where_it_was_named) {
    char want[300];
    begin();
    EXPECT_EQ(file_write_atomic(in_place("file"), "", 0, 0600, &err), 0);
    EXPECT(opens(in_place("file/x"), NULL));
    snprintf(want, sizeof want, "compiled texts are not kept: the folder '%s' cannot be written",
             in_place("file/x"));
    EXPECT(strstr(said, want));
    setenv("HOME", in_place("file"), 1);
    EXPECT(opens(NULL, NULL));
    EXPECT_STR(said, "");
    EXPECT(opens("", NULL));
    EXPECT_STR(said, "");
    finish();
}

/* One that is there but not for us to write: asked by a process that is nobody special. */
TEST(cache_folder_that_cannot_be_written_is_none) {
    int status;
    begin();
    EXPECT_EQ(mkdir(in_place("sealed"), 0555), 0);
    EXPECT(!chmod(place, 0755) && !chmod(in_place("sealed"), 0555));
    pid_t child = fork();
    if (!child) {
        if (geteuid() == 0 && (setgid(65534) || setuid(65534)))
            _exit(2);
        char *folder = opened(in_place("sealed"));
        _exit(folder || !strstr(said, "cannot be written"));
    }
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    finish();
}

TEST(cache_folder_in_memory_is_told_from_others) {
    char line[1000], want[] = " /dev/shm tmpfs ";
    bool is_tmpfs = false;
    FILE *mounts = fopen("/proc/mounts", "re");
    while (mounts && fgets(line, sizeof line, mounts))
        is_tmpfs |= strstr(line, want) != NULL;
    if (mounts)
        fclose(mounts);
    EXPECT(!cache_folder_is_memory("/proc") && !cache_folder_is_memory("/nowhere"));
    if (!is_tmpfs)
        SKIP("tmpfs", "/dev/shm is none here");
    EXPECT(cache_folder_is_memory("/dev/shm"));
}

TEST(cache_files_are_believed_only_if_nobody_else_wrote_them) {
    uint64_t len = 0;
    begin();
    const char *path = in_place("f");
    EXPECT_EQ(file_write_atomic(path, "hello", 5, 0600, &err), 0);
    int fd = cache_file_open(path, &len);
    char text[8] = "";
    EXPECT(fd >= 0 && len == 5 && read(fd, text, 8) == 5 && !strcmp(text, "hello"));
    EXPECT(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    static const struct {
        mode_t mode;
        bool is_good;
    } MODES[] = {{0644, true}, {0755, true}, {0400, true}, {0620, false}, {0602, false}};
    for (size_t i = 0; i < ARRAY_LEN(MODES); i++) {
        EXPECT_EQ(chmod(path, MODES[i].mode), 0);
        fd = cache_file_open(path, &len);
        EXPECT_EQ(fd >= 0, MODES[i].is_good);
        if (fd >= 0)
            close(fd);
    }
    EXPECT(!chmod(path, 0600) && !symlink(path, in_place("link")));
    EXPECT_EQ(cache_file_open(in_place("link"), &len), -1);
    EXPECT_EQ(cache_file_open(in_place("none"), &len), -1);
    EXPECT_EQ(cache_file_open(place, &len), -1);
    EXPECT_EQ(mkfifo(in_place("pipe"), 0600), 0);
    EXPECT_EQ(cache_file_open(in_place("pipe"), &len), -1); /* and at once */
    if (geteuid() == 0) {
        EXPECT_EQ(chown(path, 1, 1), 0);
        EXPECT_EQ(cache_file_open(path, &len), -1);
    }
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC); /* nothing was left open */
    EXPECT_EQ(next, fd >= 0 ? fd : next);
    close(next);
    finish();
}

/* The build id as the section's table of our own file says it. */
static struct u128 build_of_own_file(void) {
    struct buf file;
    struct u128 build = {0, 0};
    buf_init(&file, 0);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char piece[1 << 16];
    for (ssize_t n; (n = read(fd, piece, sizeof piece)) > 0;)
        buf_add(&file, piece, (size_t)n);
    close(fd);
    const char *bytes = file.data;
    Elf64_Ehdr head;
    memcpy(&head, bytes, sizeof head);
    const char *sections = bytes + head.e_shoff;
    Elf64_Shdr names, s;
    memcpy(&names, sections + (size_t)head.e_shstrndx * sizeof names, sizeof names);
    for (int i = 0; i < head.e_shnum; i++) {
        memcpy(&s, sections + (size_t)i * sizeof s, sizeof s);
        if (!strcmp(bytes + names.sh_offset + s.sh_name, ".note.gnu.build-id"))
            build = hash128(bytes + s.sh_offset + 16, (size_t)s.sh_size - 16, 1);
    }
    buf_release(&file);
    return build;
}

TEST(program_build_is_the_hash_of_its_build_id) {
    struct u128 build = program_build(), want = build_of_own_file();
    EXPECT(build.lo == want.lo && build.hi == want.hi);
}
