#include "base/buf.h"
#include "base/clock.h"
#include "base/exit_reason.h"
#include "base/fsutil.h"
#include "check.h"
#include "cli/child.h"
#include "cli/run_dir.h"
#include "cli/state_file.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[32];
static void make_dir(void) {
    snprintf(dir, sizeof dir, "/tmp/trm-test-XXXXXX");
    if (!mkdtemp(dir))
        abort();
}
static void remove_dir(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command))
        abort();
}

static bool readable(int fd, int timeout_ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

static struct child start_shell(const char *script, bool go) {
    char *argv[] = {"sh", "-c", (char *)script, NULL};
    struct child c = {.role = CHILD_WORKER, .pidfd = -1, .instance = {1, 2}};
    struct error err;
    int gate = -1;
    if (child_start(&c, "/bin/sh", argv, NULL, &gate, &err))
        abort();
    child_open_gate(gate, go);
    return c;
}

/* A secret that neither argv nor the environment may hold; longer than a pipe holds. */
TEST(child_reads_its_input) {
    static char text[100001];
    static const char *const TEXTS[] = {NULL, "", "one line", text};
    memset(text, 'x', sizeof text - 1);
    make_dir();
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++) {
        char script[128], path[80];
        struct buf got;
        int gate = -1;
        snprintf(path, sizeof path, "%s/input-%zu", dir, i);
        snprintf(script, sizeof script, "cat >%s", path);
        char *argv[] = {"sh", "-c", script, NULL};
        struct child c = {.role = CHILD_GATEWAY, .pidfd = -1};
        struct child_exit e;
        EXPECT_EQ(child_start(&c, "/bin/sh", argv, TEXTS[i], &gate, NULL), 0);
        child_open_gate(gate, true);
        EXPECT(readable(c.pidfd, 10000));
        child_ended(&c, dir, &e);
        EXPECT_EQ(e.code, 0);
        buf_init(&got, 0);
        EXPECT_EQ(file_read(path, sizeof text, &got, NULL), 0);
        EXPECT(bytes_equal(buf_bytes(&got), bytes_str(TEXTS[i] ? TEXTS[i] : "")));
        buf_release(&got);
        unlink(path);
    }
    remove_dir();
}

TEST(child_tells_exit_codes_and_signals_apart) {
    static const struct {
        const char *script;
        int code, signal;
        bool fault;
    } CASES[] = {{"exit 0", 0, 0, false},
                 {"exit 7", 7, 0, false},
                 {"kill -KILL $$", 0, SIGKILL, false},
                 {"kill -TERM $$", 0, SIGTERM, false},
                 {"kill -SEGV $$", 0, SIGSEGV, true},
                 {"kill -ABRT $$", 0, SIGABRT, true}};
    make_dir();
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct child_exit e;
        struct child c = start_shell(CASES[i].script, true);
        EXPECT(readable(c.pidfd, 5000));
        child_ended(&c, dir, &e);
        EXPECT(e.known && !e.fenced && u128_equal(e.instance, (struct u128){1, 2}));
        EXPECT_EQ(e.code, CASES[i].code);
        EXPECT_EQ(e.signal, CASES[i].signal);
        EXPECT_EQ(e.fault, CASES[i].fault);
    }
    remove_dir();
}

TEST(child_behind_a_closed_gate_never_runs) {
    char script[128];
    struct child_exit e;
    make_dir();
    snprintf(script, sizeof script, "touch %s/ran", dir);
    struct child c = start_shell(script, false);
    EXPECT(readable(c.pidfd, 5000));
    child_ended(&c, dir, &e);
    EXPECT_EQ(e.code, 127);
    char *ran = path_join(dir, "ran");
    EXPECT(!file_exists(ran));
    mem_free(ran);
    remove_dir();
}

/* The gate's other end dies with its holder: a process that waits there goes too. */
TEST(child_gate_closes_with_its_holder) {
    int pipes[2], pid = 0;
    EXPECT(!pipe(pipes));
    int middle = fork();
    if (middle == 0) {
        char *argv[] = {"sleep", "60", NULL};
        struct child c = {.role = CHILD_WORKER, .pidfd = -1};
        int gate;
        if (!child_start(&c, "/bin/sleep", argv, NULL, &gate, NULL))
            (void)!write(pipes[1], &c.pid, sizeof c.pid);
        kill(getpid(), SIGKILL);
    }
    EXPECT_EQ(read(pipes[0], &pid, sizeof pid), (int)sizeof pid);
    waitpid(middle, NULL, 0);
    for (int i = 0; i < 500 && kill(pid, 0) == 0; i++) {
        char path[64];
        struct buf stat;
        buf_init(&stat, 0);
        /* a zombie that init has not taken yet is gone too */
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        bool gone = file_read(path, 4096, &stat, NULL) || strstr(buf_text(&stat), ") Z ");
        buf_release(&stat);
        if (gone)
            break;
        EXPECT(i < 499);
        sleep_ms(10);
    }
    close(pipes[0]);
    close(pipes[1]);
}

TEST(child_adopts_only_the_same_process) {
    struct child c = start_shell("exec sleep 60", true),
                 other = {.role = CHILD_WORKER, .pidfd = -1};
    struct child_exit e;
    make_dir();
    EXPECT_EQ(child_adopt(&other, c.pid, c.start_ticks + 1), ERR_NOT_FOUND);
    EXPECT_EQ(child_adopt(&other, c.pid, c.start_ticks), 0);
    EXPECT(!other.is_ours && other.pid == c.pid);
    sleep_ms(200); /* past exec: until then the sanitizers' handlers are still in it */
    child_signal(&other, SIGSEGV);
    EXPECT(readable(other.pidfd, 5000));
    /* a zombie */
    EXPECT_EQ(child_adopt(&(struct child){.pidfd = -1}, c.pid, c.start_ticks), ERR_NOT_FOUND);
    char name[128];
    snprintf(name, sizeof name, "%s/fault-%d", dir, c.pid);
    close(open(name, O_CREAT | O_WRONLY, 0600));
    child_ended(&other, dir, &e);
    EXPECT(!e.known && e.fault); /* nobody saw how, but it left its mark */
    EXPECT(!file_exists(name));
    child_ended(&c, dir, &e);
    EXPECT(e.known && e.signal == SIGSEGV);
    remove_dir();
}

TEST(child_restart_waits_only_for_what_crashes) {
    struct child c = {.role = CHILD_WORKER};
    struct child_exit crash = {.known = true, .code = 1},
                      fault = {.known = true, .signal = SIGSEGV, .fault = true},
                      killed = {.known = true, .signal = SIGKILL},
                      fenced = {.fenced = true, .known = true, .signal = SIGKILL};
    static const int64_t WAITS[] = {0, 100, 200, 400, 800, 1600, 3200, 5000, 5000};
    for (size_t i = 0; i < ARRAY_LEN(WAITS); i++)
        EXPECT_EQ(child_restart_delay(&c, i % 2 ? &crash : &fault, 100), WAITS[i]);
    EXPECT_EQ(child_restart_delay(&c, &killed, 100), 0);
    EXPECT_EQ(child_restart_delay(&c, &fenced, 100), 0);
    EXPECT_EQ(child_restart_delay(&c, &crash, 100), 5000);
    EXPECT_EQ(child_restart_delay(&c, &crash, 10001), 0); /* it lived for ten seconds */
    EXPECT_EQ(child_restart_delay(&c, &crash, 100), 100);
}

/* As the system does that is out of memory: no loop at full speed. */
TEST(child_that_is_killed_as_soon_as_it_starts_waits) {
    struct child c = {.role = CHILD_WORKER, .started_ms = 5000};
    struct child_exit killed = {.known = true, .signal = SIGKILL};
    static const int64_t WAITS[] = {0, 0, 0, 0, 0, 0, 100, 200, 400, 800, 1000, 1000};
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < ARRAY_LEN(WAITS); i++)
            EXPECT_EQ(child_restart_delay(&c, &killed, 5999), WAITS[i]);
        EXPECT_EQ(child_restart_delay(&c, &killed, 6000), 0); /* it lived for a second */
        for (int i = 0; i < 5; i++)
            EXPECT_EQ(child_restart_delay(&c, &killed, 5999), 0);
        EXPECT_EQ(child_restart_delay(&c, &killed, 15000), 0); /* for ten seconds: all anew */
    }
}

TEST(child_that_never_lived_is_hopeless_after_some_tries) {
    struct child c = {.role = CHILD_WORKER, .is_ours = true}, lived = c,
                 adopted = {.role = CHILD_WORKER};
    struct child_exit bad = {.known = true, .code = 1},
                      fault = {.known = true, .signal = SIGSEGV, .fault = true};
    for (int i = 0; i < CHILD_FAILED_STARTS; i++) {
        EXPECT(!child_is_hopeless(&c));
        child_restart_delay(&c, &bad, 100);
    }
    EXPECT(child_is_hopeless(&c));
    child_restart_delay(&c, &fault, 100); /* a fault may be a request's doing */
    EXPECT(!child_is_hopeless(&c));
    child_restart_delay(&lived, &bad, 10001);
    for (int i = 0; i < 20; i++)
        child_restart_delay(&lived, &bad, 100);
    for (int i = 0; i < 20; i++)
        child_restart_delay(&adopted, &bad, 100);
    EXPECT(!child_is_hopeless(&lived) && !child_is_hopeless(&adopted));
}

TEST(child_that_gave_up_by_itself_is_hopeless_at_once) {
    static const int codes[] = {EXIT_HOPELESS, EXIT_MISUSED};
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        struct child fresh = {.role = CHILD_WORKER, .is_ours = true}, lived = fresh;
        struct child_exit end = {.known = true, .code = codes[i]},
                          passing = {.known = true, .code = EXIT_FAILED};
        lived.has_lived = true;
        child_restart_delay(&fresh, &end, 100);
        child_restart_delay(&lived, &end,
                            100); /* it could start once: what is wrong may be mended */
        EXPECT(child_is_hopeless(&fresh) && !child_is_hopeless(&lived));
        child_restart_delay(&fresh, &passing, 100);
        EXPECT(!child_is_hopeless(&fresh));
    }
}

TEST(state_file_round_trips) {
    struct state_file out = {.workers = {{3, 2}, {1, 1}}, .model_count = 2}, in;
    struct error err;
    make_dir();
    EXPECT_EQ(state_file_read(&in, dir, &err), 0);
    EXPECT_EQ(in.children.count, 0);
    for (uint32_t i = 0; i < 50; i++) {
        struct state_child c = {
            (enum child_role)(i % 3), i, (int)i + 1, check_random(), check_random(),
            {check_random(), i}};
        vec_push(&out.children, c);
    }
    EXPECT_EQ(state_file_write(&out, dir, &err), 0);
    EXPECT_EQ(state_file_read(&in, dir, &err), 0);
    EXPECT(in.model_count == 2 && in.workers[0].wanted == 3 && in.workers[0].configured == 2 &&
           in.children.count == 50);
    for (size_t i = 0; i < 50; i++) {
        struct state_child a = out.children.items[i], b = in.children.items[i];
        EXPECT(a.role == b.role && a.idx == b.idx && a.pid == b.pid &&
               a.start_ticks == b.start_ticks);
        EXPECT(a.args_hash == b.args_hash && u128_equal(a.instance, b.instance));
    }
    state_file_release(&in);
    state_file_release(&out);
    remove_dir();
}

static int write_state(const char *text) {
    char *path = path_join(dir, "children");
    int rc = file_write_atomic(path, text, strlen(text), 0600, NULL);
    mem_free(path);
    return rc;
}

TEST(state_file_of_an_earlier_boot_is_empty_and_a_strange_one_an_error) {
    static const char *const STRANGE[] = {
        "x\n",
        "trireme-children 2\n",
        "trireme-children 1\nworkers 1 1\n",
        "trireme-children 1\nboot x\nworkers 1\n",
        "trireme-children 1\nboot x\nworkers 1 1\ncook 0 1 1 00000000000000000000000000000001 0\n",
        "trireme-children 1\nboot x\nworkers 1 1\nworker 0 -4 1 00000000000000000000000000000001 "
        "0\n",
        "trireme-children 1\nboot x\nworkers 1 1\nworker 0 1 1 0001 0\n"};
    struct state_file in;
    struct error err;
    make_dir();
    EXPECT_EQ(write_state("trireme-children 1\nboot x\nworkers 4 4\nworker 0 1 1 "
                          "00000000000000000000000000000001 ff\n"),
              0);
    EXPECT_EQ(state_file_read(&in, dir, &err), 0);
    EXPECT(in.children.count == 0 && in.model_count == 0);
    for (size_t i = 0; i < ARRAY_LEN(STRANGE); i++) {
        EXPECT_EQ(write_state(STRANGE[i]), 0);
        EXPECT_EQ(state_file_read(&in, dir, &err), ERR_INVALID);
        EXPECT(strstr(err.text, "children"));
        state_file_release(&in);
    }
    remove_dir();
}

TEST(run_dir_is_private_and_locked_once) {
    struct error err;
    int one, two;
    struct stat st;
    make_dir();
    char *path = path_join(dir, "a/b");
    EXPECT_EQ(run_dir_make(path, &err), 0);
    EXPECT(!stat(path, &st) && (st.st_mode & 0777) == 0700);
    EXPECT_EQ(run_dir_lock(path, 0, &one, &err), 0);
    EXPECT_EQ(run_dir_lock(path, 100, &two, &err), ERR_LIMIT);
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    EXPECT(strstr(err.text, pid) && strstr(err.text, path));
    close(one);
    EXPECT_EQ(run_dir_lock(path, 0, &two, &err), 0);
    close(two);
    EXPECT(!chmod(path, 0777));
    EXPECT_EQ(run_dir_make(path, &err), ERR_INVALID);
    EXPECT_EQ(run_dir_make("relative", &err), ERR_INVALID);
    EXPECT_EQ(
        run_dir_make(
            "/tmp/01234567890123456789012345678901234567890123456789012345678901234567890123456789",
            &err),
        ERR_INVALID);
    mem_free(path);
    remove_dir();
}
