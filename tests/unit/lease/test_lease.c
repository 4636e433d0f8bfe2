/*
 * Leases by a file: of several processes one holds it, numbers rise, and a killed holder's is free at once.
 * etcd's are tested end to end (tests/e2e/test_standby.py).
 */
#include "lease/lease.h"

#include "base/clock.h"
#include "base/fsutil.h"
#include "check.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[32], engine[128];
static int never[2];            /* a pipe in which nothing comes */
static _Atomic int64_t ahead_s; /* of the time of day */

/* In place of libc's: the time of day jumps when a test wants it to, as by an administrator's hand. */
int clock_gettime(clockid_t id, struct timespec *out) {
    int rc = (int)syscall(SYS_clock_gettime, id, out);
    if (id == CLOCK_REALTIME)
        out->tv_sec += ahead_s;
    return rc;
}

/* In place of libc's: how long the thread that keeps a lease means to wait. */
static _Atomic int64_t longest_wait_us;
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *end) {
    int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    int64_t wait_us = (int64_t)end->tv_sec * 1000000 + end->tv_nsec / 1000 - clock_us();
    if (wait_us > longest_wait_us)
        longest_wait_us = wait_us;
    return real(condition, mutex, end);
}

static void make_place(void) {
    snprintf(folder, sizeof folder, "/tmp/trm-test-XXXXXX");
    if (!mkdtemp(folder) || pipe(never))
        abort();
    snprintf(engine, sizeof engine, "file:%s/lease", folder);
}

static void clear_place(void) {
    char path[160];
    snprintf(path, sizeof path, "%s/lease", folder);
    unlink(path);
    rmdir(folder);
    close(never[0]);
    close(never[1]);
}

static struct lease *made(void) {
    const struct lease_config config = {
        .engine = engine, .name = "test", .holder = "me", .ttl_ms = 1000};
    struct lease *l;
    struct error err;
    CHECK(lease_new(&l, &config, &err) == 0);
    return l;
}

/* Takes it, or says so within 300 ms. */
static bool taken(struct lease *l, uint64_t least, uint64_t *number) {
    struct error err;
    int soon[2];
    CHECK(pipe(soon) == 0);
    pid_t bell = fork();
    if (!bell) {
        sleep_ms(300);
        _exit(write(soon[1], "", 1) != 1);
    }
    int rc = lease_take(l, least, soon[0], number, &err);
    CHECK(rc == 0 || rc == ERR_CLOSED);
    kill(bell, SIGKILL);
    waitpid(bell, NULL, 0);
    close(soon[0]);
    close(soon[1]);
    return rc == 0;
}

/* Where nobody holds it. */
static uint64_t take_free(struct lease *l, uint64_t least) {
    uint64_t number = 0;
    struct error err;
    CHECK(lease_take(l, least, never[0], &number, &err) == 0);
    return number;
}

TEST(one_of_several_holds_it_and_numbers_rise) {
    uint64_t first = 0, second = 0;
    make_place();
    struct lease *a = made(), *b = made();
    EXPECT(!lease_is_held(a));
    EXPECT(taken(a, 1000, &first) && first == 1000 && lease_is_held(a));
    EXPECT(!taken(b, 5, &second) && !lease_is_held(b));
    lease_free(&a);
    EXPECT(taken(b, 5, &second) && second == 1001 && lease_is_held(b));
    lease_free(&b);
    b = made();
    EXPECT(taken(b, 2000, &second) && second == 2000); /* a clock that is ahead counts */
    lease_free(&b);
    clear_place();
}

TEST(a_killed_holders_is_free_at_once) {
    uint64_t number = 0;
    int ready[2];
    make_place();
    EXPECT_EQ(pipe(ready), 0);
    pid_t holder = fork();
    if (!holder) {
        struct lease *l = made();
        struct error err;
        if (lease_take(l, 7, never[0], &number, &err) || write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    struct lease *l = made();
    EXPECT(!taken(l, 1, &number));
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    EXPECT(taken(l, 1, &number) && number == 8);
    lease_free(&l);
    close(ready[0]);
    close(ready[1]);
    clear_place();
}

static void write_lease(const char *text) {
    int fd = open(engine + strlen("file:"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT_EQ(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

TEST(what_no_grant_has_written_is_no_number) {
    static const char *const FORGED[] = {"-5\n",
                                         "abc\n",
                                         "12x\n",
                                         "0x7f\n",
                                         " 12\n",
                                         "18446744073709551615\n",
                                         "18446744073709551614\n",
                                         "99999999999999999999999999\n",
                                         "4398046512105\n"}; /* 1000 + 2^42 + 1 */
    make_place();
    for (size_t i = 0; i < ARRAY_LEN(FORGED); i++) {
        write_lease(FORGED[i]);
        struct lease *l = made();
        EXPECT_EQ(take_free(l, 1000), 1000);
        lease_free(&l);
        l = made();
        EXPECT_EQ(take_free(l, 5), 1001); /* what it wrote over it is sound */
        lease_free(&l);
    }
    write_lease("4398046512103\n");
    struct lease *l = made();
    EXPECT_EQ(take_free(l, 1000), 4398046512104);
    lease_free(&l);
    clear_place();
}

/* Until it is lost, ten seconds at most. */
static bool is_lost(const struct lease *l) {
    for (int i = 0; i < 1000 && lease_is_held(l); i++)
        sleep_ms(10);
    return !lease_is_held(l);
}

TEST(a_file_that_was_taken_away_or_replaced_is_held_no_more) {
    uint64_t number = 0;
    make_place();
    for (int replaced = 0; replaced <= 1; replaced++) {
        struct lease *old = made(), *next = made();
        EXPECT_EQ(take_free(old, 1000), 1000);
        unlink(engine + strlen("file:"));
        if (replaced)
            write_lease("17\n");
        EXPECT(is_lost(old));
        EXPECT_EQ(take_free(next, 2000), 2000);
        lease_free(&old); /* gives nothing back that is another's */
        struct lease *third = made();
        EXPECT(!taken(third, 1, &number) && lease_is_held(next));
        lease_free(&third);
        lease_free(&next);
        unlink(engine + strlen("file:"));
    }
    clear_place();
}

TEST(a_lease_is_kept_three_times_in_its_life) {
    uint64_t number = 0;
    make_place();
    struct lease *l = made();
    longest_wait_us = 0;
    EXPECT(taken(l, 7, &number));
    for (int i = 0; i < 5000 && !longest_wait_us; i++)
        sleep_ms(1);
    EXPECT(longest_wait_us > 0 && longest_wait_us <= 1000000 / 3);
    lease_free(&l);
    clear_place();
}

TEST(the_time_of_day_may_jump) {
    uint64_t number = 0;
    make_place();
    struct lease *l = made(), *other = made();
    EXPECT_EQ(take_free(l, 1000), 1000);
    for (int way = -1; way <= 1; way += 2) {
        ahead_s = way * INT64_C(86400) * 400;
        sleep_ms(400); /* longer than the keeper sleeps */
        EXPECT(lease_is_held(l));
        EXPECT(!taken(other, 1, &number));
    }
    ahead_s = 0;
    lease_free(&l);
    lease_free(&other);
    clear_place();
}

TEST(engines_that_do_not_read_are_refused) {
    static const char *const BAD[] = {"",
                                      "file:",
                                      "file:lease",
                                      "etcd:",
                                      "etcd:localhost:2379",
                                      "zookeeper:http://x",
                                      "kubernetes",
                                      "kubernetes:here"};
    struct error err;
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        EXPECT_EQ(lease_check(BAD[i], &err), ERR_INVALID);
        EXPECT(strstr(err.text, "file:/PATH"));
    }
    EXPECT_EQ(lease_check("etcd:https://one:2379,http://two:2379/", &err), 0);
}

TEST(what_is_for_etcd_alone_is_refused_elsewhere) {
    struct error err;
    struct lease *lease;
    const struct lease_config plain = {
        .engine = "etcd:http://127.0.0.1:9", .name = "n", .holder = "h", .ttl_ms = 1000};
    struct lease_config c = plain;
    c.engine = "file:/tmp/nowhere/lock";
    c.user = "a";
    EXPECT_EQ(lease_new(&lease, &c, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "etcd alone"));
    c = plain;
    c.user = "a";
    EXPECT_EQ(lease_new(&lease, &c, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "needs a password's file"));
    c.password_file = "/nowhere";
    EXPECT(lease_new(&lease, &c, &err) < 0);
    c = plain;
    c.password_file = "/dev/null";
    EXPECT_EQ(lease_new(&lease, &c, &err), ERR_INVALID);
    c = plain;
    c.authority = "/nowhere";
    EXPECT_EQ(lease_new(&lease, &c, &err), ERR_NOT_FOUND);
    EXPECT(!lease);
}

TEST(a_file_that_cannot_be_made_is_tried_until_asked_to_end) {
    uint64_t number = 0;
    make_place();
    snprintf(engine, sizeof engine, "file:%s/none/lease", folder);
    struct lease *l = made();
    EXPECT(!taken(l, 1, &number) && !lease_is_held(l));
    lease_free(&l);
    clear_place();
}
