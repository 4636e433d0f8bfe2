/* Each test enters the sandbox in a child: there is no way out. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sandbox.h"
#include "check.h"

enum { WORKS = 0, UNSUPPORTED = 77 };

/* Runs `what` in a child behind the sandbox; its result, 0 to 255. */
static int inside(unsigned needs, int (*what)(void)) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct error err;
        int rc = sandbox_enter(needs, &err);
        _exit(rc == ERR_UNSUPPORTED ? UNSUPPORTED : rc ? 99 : what());
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Some emulators have no seccomp: then nothing is refused, which is told. */
#define EXPECT_INSIDE(needs, what, expected)                                                       \
    do {                                                                                           \
        int got_ = inside(needs, what);                                                            \
        if (got_ != UNSUPPORTED)                                                                   \
            EXPECT_EQ(got_, expected);                                                             \
    } while (0)

static int error_of(long rc) {
    return rc < 0 ? errno : 0;
}

static int start_program(void) {
    return error_of(execl("/bin/true", "true", (char *)NULL));
}
static int make_process(void) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return error_of(pid);
}
static int trace(void) {
    return error_of(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}
static int read_other(void) {
    return error_of(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0));
}
static int use_bpf(void) {
    return error_of(syscall(SYS_bpf, 0, NULL, 0));
}
static int leave_filter(void) {
    struct error err;
    return sandbox_enter(0, &err) ? EPERM : 0;
}
TEST(sandbox_refuses_what_no_process_of_ours_does) {
    EXPECT_INSIDE(SANDBOX_UNIX | SANDBOX_INET | SANDBOX_LISTEN, start_program, EPERM);
    EXPECT_INSIDE(SANDBOX_UNIX, make_process, EPERM);
    EXPECT_INSIDE(0, trace, EPERM);
    EXPECT_INSIDE(0, read_other, EPERM);
    EXPECT_INSIDE(0, use_bpf, EPERM);
    EXPECT_INSIDE(0, leave_filter, EPERM);
}

static int signal_parent(void) {
    return error_of(kill(getppid(), 0));
}
static int signal_group(void) {
    return error_of(kill(0, 0));
}
static int signal_thread_of_parent(void) {
    return error_of(syscall(SYS_tgkill, getppid(), getppid(), 0));
}
static int signal_itself(void) {
    signal(SIGUSR1, SIG_IGN);
    return error_of(raise(SIGUSR1)) | error_of(kill(getpid(), SIGUSR1));
}
TEST(sandbox_sends_signals_to_itself_alone) {
    EXPECT_INSIDE(0, signal_parent, EPERM);
    EXPECT_INSIDE(0, signal_group, EPERM);
    EXPECT_INSIDE(0, signal_thread_of_parent, EPERM);
    EXPECT_INSIDE(0, signal_itself, WORKS);
}

static int open_socket(int family) {
    return error_of(socket(family, family == AF_NETLINK ? SOCK_RAW : SOCK_STREAM, 0));
}
static int open_unix(void) {
    return open_socket(AF_UNIX);
}
static int open_inet(void) {
    return open_socket(AF_INET);
}
static int open_inet6(void) {
    int rc = open_socket(AF_INET6);
    return rc == EAFNOSUPPORT ? 0 : rc; /* of a machine without it */
}
static int open_netlink(void) {
    return open_socket(AF_NETLINK);
}
TEST(sandbox_leaves_the_sockets_that_are_needed) {
    EXPECT_INSIDE(SANDBOX_UNIX, open_unix, WORKS);
    EXPECT_INSIDE(SANDBOX_UNIX, open_inet, EPERM);
    EXPECT_INSIDE(SANDBOX_UNIX, open_inet6, EPERM);
    EXPECT_INSIDE(SANDBOX_INET, open_unix, EPERM);
    EXPECT_INSIDE(SANDBOX_INET, open_inet, WORKS);
    EXPECT_INSIDE(SANDBOX_INET, open_inet6, WORKS);
    EXPECT_INSIDE(SANDBOX_UNIX | SANDBOX_INET, open_unix, WORKS);
    EXPECT_INSIDE(SANDBOX_UNIX | SANDBOX_INET, open_inet, WORKS);
    EXPECT_INSIDE(SANDBOX_UNIX | SANDBOX_INET, open_netlink, EPERM);
    EXPECT_INSIDE(0, open_unix, EPERM);
    EXPECT_INSIDE(SANDBOX_SOCKETS, open_netlink, WORKS);
}

static int listen_anywhere(void) {
    struct sockaddr address = {.sa_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return bind(fd, &address, sizeof(struct sockaddr)) ? errno : error_of(listen(fd, 1));
}
TEST(sandbox_listens_only_where_that_was_asked_for) {
    EXPECT_INSIDE(SANDBOX_INET, listen_anywhere, EPERM);
    EXPECT_INSIDE(SANDBOX_INET | SANDBOX_LISTEN, listen_anywhere, WORKS);
}

static void *set_one(void *at) {
    *(int *)at = 1;
    return NULL;
}
/* Memory, files, threads. */
static int do_work(void) {
    pthread_t thread;
    int done = 0;
    char byte;
    char *memory = malloc(64 << 20);
    if (!memory || pthread_create(&thread, NULL, set_one, &done) || pthread_join(thread, NULL))
        return 1;
    memory[1000] = 1;
    int fd = open("/proc/self/exe", O_RDONLY);
    bool read_ok = fd >= 0 && read(fd, &byte, 1) == 1;
    free(memory);
    return !done || !read_ok || close(fd);
}
TEST(sandbox_leaves_memory_files_and_threads) {
    EXPECT_INSIDE(0, do_work, WORKS);
}

static int ready[2], go[2];
static void *try_late(void *at) {
    char byte;
    if (write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1)
        *(int *)at = open_inet();
    return NULL;
}
/* A thread that was there before is in it, too. */
TEST(sandbox_holds_all_threads) {
    int status;
    EXPECT(pipe(ready) == 0 && pipe(go) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct error err;
        pthread_t thread;
        char byte;
        int seen = -1;
        if (pthread_create(&thread, NULL, try_late, &seen) || read(ready[0], &byte, 1) != 1)
            _exit(98);
        int rc = sandbox_enter(SANDBOX_UNIX, &err);
        if (write(go[1], "x", 1) != 1 || pthread_join(thread, NULL))
            _exit(97);
        _exit(rc == ERR_UNSUPPORTED ? EPERM : seen);
    }
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), EPERM);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
}

TEST(sandbox_needs_follow_the_endpoint) {
    EXPECT_EQ(sandbox_need_of("ipc:///run/s"), SANDBOX_UNIX);
    EXPECT_EQ(sandbox_need_of("tcp://127.0.0.1:1"), SANDBOX_INET);
}

/* ---- files ---- */

static char top[] = "/tmp/sandbox-XXXXXX"; /* with the folders mine, given and others' */

static const char *below(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", top, name);
    return path;
}
static int write_text(const char *name) {
    int fd = open(below(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    return fd < 0 ? errno : write(fd, "x", 1) != 1 || close(fd);
}
static int read_text(const char *name) {
    char byte;
    int fd = open(below(name), O_RDONLY);
    return fd < 0 ? errno : read(fd, &byte, 1) != 1 || close(fd);
}

/* Behind the rules for files alone: the folder mine is written, the file given/f is read, and made is
 * not there yet. */
static int with_files(int (*what)(void)) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        char mine[64], given[64], made[64], behind[64];
        struct error err;
        snprintf(mine, sizeof mine, "%s/mine", top);
        snprintf(given, sizeof given, "%s/given/f", top);
        snprintf(made, sizeof made, "%s/made/socket", top);
        snprintf(behind, sizeof behind, "%s/mine/link", top);
        const struct sandbox_place places[] = {
            {mine, SANDBOX_WRITES_BELOW}, {given, SANDBOX_READS_FILE},
            {made, SANDBOX_WRITES_FILE},  {behind, SANDBOX_READS_FILE},
            {NULL, SANDBOX_READS_FILE},   {"/nowhere/at/all", SANDBOX_READS_FILE}};
        int rc = sandbox_enter_files(places, ARRAY_LEN(places), &err);
        _exit(rc == ERR_UNSUPPORTED ? UNSUPPORTED : rc ? 99 : what());
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}
#define EXPECT_WITH_FILES(what, expected)                                                          \
    do {                                                                                           \
        int got_ = with_files(what);                                                               \
        if (got_ != UNSUPPORTED)                                                                   \
            EXPECT_EQ(got_, expected);                                                             \
    } while (0)

static int lay_out(void) {
    static const char *const folders[] = {"mine", "given", "linked", "others"};
    if (!mkdtemp(top))
        return 1;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        if (mkdir(below(folders[i]), 0700))
            return 1;
    if (symlink("../linked/f", below("mine/link")))
        return 1;
    return write_text("given/f") | write_text("linked/f") | write_text("others/f");
}

static int read_given(void) {
    return read_text("given/f") | read_text("given/f") | read_text("mine/link");
}
static int read_others(void) {
    return read_text("others/f");
}
static int list_others(void) {
    return error_of(open(below("others"), O_RDONLY | O_DIRECTORY));
}
static int write_given(void) {
    return write_text("given/f");
}
static int write_new_given(void) {
    return write_text("given/new");
}
static int make_links_to_others(void) {
    char link_name[64];
    snprintf(link_name, sizeof link_name, "%s/mine/stolen", top);
    return symlink(below("others/f"), link_name) && errno == EACCES ? EACCES
                                                                    : read_text("mine/stolen");
}
static int move_into_mine(void) {
    char to[64];
    snprintf(to, sizeof to, "%s/mine/moved", top);
    int rc = error_of(rename(below("others/f"), to));
    return rc == EXDEV ? EACCES : rc; /* of a kernel that cannot allow it at all */
}
/* As files are replaced: written beside, then renamed; and a socket, as ZeroMQ makes it. */
static int work_in_mine(void) {
    char to[64];
    snprintf(to, sizeof to, "%s/mine/f", top);
    int rc = write_text("mine/f.new");
    rc |= error_of(rename(below("mine/f.new"), to));
    rc |= read_text("mine/f") | write_text("mine/f");
    rc |= error_of(mkdir(below("mine/sub"), 0700)) | write_text("mine/sub/f") | unlink(to);
    return rc | error_of(mknod(below("made/socket"), S_IFSOCK | 0600, 0));
}
static int read_the_system(void) {
    char byte;
    static const char *const paths[] = {"/proc/self/statm", "/etc/passwd", "/dev/urandom"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        int fd = open(paths[i], O_RDONLY);
        if (fd < 0 || read(fd, &byte, 1) != 1 || close(fd))
            return errno;
    }
    return 0;
}
static int read_parents_memory(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", getppid());
    return error_of(open(path, O_RDONLY));
}
static int run_program(void) {
    return error_of(execl("/bin/true", "true", (char *)NULL));
}
TEST(sandbox_leaves_the_files_that_are_named) {
    EXPECT_EQ(lay_out(), 0);
    EXPECT_WITH_FILES(read_given, 0);
    EXPECT_WITH_FILES(read_others, EACCES);
    EXPECT_WITH_FILES(list_others, EACCES);
    EXPECT_WITH_FILES(write_given, EACCES);
    EXPECT_WITH_FILES(write_new_given, EACCES);
    EXPECT_WITH_FILES(make_links_to_others, EACCES);
    EXPECT_WITH_FILES(move_into_mine, EACCES);
    EXPECT_WITH_FILES(read_parents_memory, EACCES);
    EXPECT_WITH_FILES(run_program, EACCES);
    EXPECT_WITH_FILES(read_the_system, 0);
    EXPECT_WITH_FILES(work_in_mine, 0);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", top);
    EXPECT_EQ(system(command), 0);
}
