/* What the supervisor makes of a pulse: whose stands still is killed, whose rose can start. The
 * clock is the test's, so nothing is waited for. */
#include "base/clock.h"
#include "base/fsutil.h"
#include "base/log.h"
#include "base/pulse.h"
#include "check.h"
#include "cli/supervisor_internal.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SILENCE_MS = 15000 };

struct place {
    char dir[64];
    struct supervisor_config config;
    struct supervisor s;
    struct child child;
    int64_t now_ms;
};

/* A worker that does nothing, and a supervisor that looks once a second. */
static bool place_open(struct place *p) {
    struct error err;
    int gate;
    static char *argv[] = {"sleep", "300", NULL};
    *p = (struct place){.dir = "/tmp/trm-test-XXXXXX", .now_ms = 1000000};
    if (!mkdtemp(p->dir))
        return false;
    p->config = (struct supervisor_config){.run_dir = p->dir, .silence_ms = SILENCE_MS};
    p->child = (struct child){.role = CHILD_WORKER, .pidfd = -1};
    p->s = (struct supervisor){.config = &p->config, .pulse_turn_ms = p->now_ms};
    models_init(&p->s);
    vec_push(&p->s.children, &p->child);
    if (child_start(&p->child, "/bin/sleep", argv, NULL, &gate, &err))
        return false;
    child_move(&p->child, CHILD_RUNNING);
    child_open_gate(gate, true);
    return true;
}

static void place_close(struct place *p) {
    child_signal(&p->child, SIGKILL);
    waitpid(p->child.pid, NULL, 0);
    close(p->child.pidfd);
    pulse_remove(p->dir, p->child.pid);
    vec_release(&p->s.children);
    rmdir(p->dir);
}

static void beat(const struct place *p, uint64_t count) {
    char name[32];
    struct error err;
    snprintf(name, sizeof name, "pulse-%d", p->child.pid);
    char *path = path_join(p->dir, name);
    if (file_write_atomic(path, &count, sizeof count, 0600, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    mem_free(path);
}

static void look(struct place *p, int64_t later_ms) {
    children_check_pulse(&p->s, p->now_ms += later_ms);
}

/* Has it died within that time? Then it is a zombie, which this leaves. */
static bool dies_within(const struct place *p, int ms) {
    struct pollfd end = {.fd = p->child.pidfd, .events = POLLIN};
    return poll(&end, 1, ms) == 1;
}
static bool is_killed(const struct place *p) {
    return dies_within(p, 10000); /* a signal takes its time on a busy machine */
}
static bool lives(const struct place *p) {
    return !dies_within(p, 20);
}

TEST(a_pulse_that_stands_still_is_the_end) {
    struct place p;
    EXPECT(place_open(&p));
    for (int i = 0; i < 60; i++) /* none yet: it may be loading */
        look(&p, 1000);
    EXPECT(lives(&p));
    for (uint64_t count = 1; count < 30; count++) {
        beat(&p, count);
        look(&p, 1000);
    }
    EXPECT(lives(&p));
    for (int64_t still_ms = 1000; still_ms < SILENCE_MS; still_ms += 1000)
        look(&p, 1000);
    EXPECT(lives(&p));
    look(&p, 1000);
    EXPECT(is_killed(&p));
    place_close(&p);
}

/* The supervisor, or the whole machine, stood still for longer than silence lasts: everybody begins
 * anew, and has the whole of it. */
TEST(nobody_is_condemned_after_a_freeze_of_all) {
    struct place p;
    EXPECT(place_open(&p));
    beat(&p, 1);
    look(&p, 1000);
    look(&p, SILENCE_MS + 1000);
    EXPECT(lives(&p));
    for (int64_t still_ms = 1000; still_ms < SILENCE_MS; still_ms += 1000)
        look(&p, 1000);
    EXPECT(lives(&p));
    look(&p, 1000);
    EXPECT(is_killed(&p));
    place_close(&p);
}

/* A turn that is late, but no later than a busy machine makes it, counts as silence. */
TEST(turns_that_are_a_little_late_count) {
    struct place p;
    EXPECT(place_open(&p));
    beat(&p, 1);
    look(&p, 1000);
    for (int64_t still_ms = 0; still_ms < SILENCE_MS; still_ms += LATE_TURN_MS) {
        EXPECT(lives(&p));
        look(&p, LATE_TURN_MS);
    }
    EXPECT(is_killed(&p));
    place_close(&p);
}

/* A gateway ends by a fault, a second after its start; then its successors find its port taken.
 * How many of those the supervisor takes before it gives up. */
static int failed_starts_taken(uint64_t pulse_count) {
    static char *no_flags[] = {NULL};
    static const char FAULT[] = "#!/bin/sh\nread line\nkill -SEGV $$\n",
                      TAKEN[] = "#!/bin/sh\nexit 1\n";
    struct place p = {.dir = "/tmp/trm-test-XXXXXX", .now_ms = 1000000};
    struct error err;
    int taken = -1;
    log_init("test", LOG_ERROR, false);
    CHECK(mkdtemp(p.dir) != NULL);
    char *program = path_join(p.dir, "program");
    p.config = (struct supervisor_config){
        .exe = program,
        .run_dir = p.dir,
        .silence_ms = SILENCE_MS,
        .roles = {[CHILD_GATEWAY] = {.count = 1, .flags = no_flags, .secret = "wait"}}};
    p.s = (struct supervisor){.config = &p.config, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    models_init(&p.s);
    for (; taken < 20 && p.s.phase == PHASE_SERVING; taken++) {
        bool first = taken < 0;
        CHECK(!file_write_atomic(program, first ? FAULT : TAKEN, strlen(first ? FAULT : TAKEN),
                                 0700, &err));
        children_want(&p.s, p.now_ms);
        children_turn(&p.s, p.now_ms);
        struct child *c = p.s.children.items[0];
        CHECK(c->state == CHILD_RUNNING);
        p.child = *c;
        if (first)
            beat(&p, pulse_count);
        struct pollfd end = {.fd = c->pidfd, .events = POLLIN};
        CHECK(poll(&end, 1, 20000) == 1);
        children_ended(&p.s, c->pid, p.now_ms + 1000);
        p.now_ms += 6000; /* past any back-off */
    }
    for (size_t i = 0; i < p.s.children.count; i++)
        mem_free(p.s.children.items[i]);
    vec_release(&p.s.children);
    close(p.s.epoll_fd);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", p.dir);
    CHECK(system(command) == 0);
    mem_free(program);
    return taken;
}

/* Another program took the port of a gateway that had crashed, for three seconds: that ended the
 * whole service. */
TEST(a_gateway_that_listened_once_is_tried_for_ever) {
    EXPECT_EQ(failed_starts_taken(2), 20);
    EXPECT_EQ(failed_starts_taken(1), CHILD_FAILED_STARTS);
}
