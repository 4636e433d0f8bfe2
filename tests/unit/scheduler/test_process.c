/*
 * test_process.c - the scheduler process end to end: real processes, a real wire, workers and
 * gateways made of arithmetic (tests/fakes).
 *
 * This program starts itself again as scheduler and as workers (TRIREME_TEST_CHILD says which), so
 * that they can be killed and stopped. The test itself is gateway and supervisor.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "fakes/fake_gateway.h"
#include "fakes/fake_lm.h"
#include "fakes/fake_worker.h"
#include "proto/liveness.h"
#include "scheduler/scheduler_main.h"

/* ---- Children ---- */

static int worker_child(const char *spec) {
    struct fake_worker_config config = {0};
    struct fake_worker *worker;
    struct error err;
    char endpoint[128], instance[U128_TEXT_MAX];
    long step_ms, load_ms, bundle_bytes, slots, abort_token;
    if (sscanf(spec, "%127s %32s %ld %ld %ld %ld %ld", endpoint, instance, &step_ms, &load_ms,
               &bundle_bytes, &slots, &abort_token) != 7)
        return 2;
    config = (struct fake_worker_config){.endpoint = endpoint,
                                         .step_ms = step_ms,
                                         .load_ms = load_ms,
                                         .bundle_bytes = (size_t)bundle_bytes,
                                         .slots = (uint32_t)slots,
                                         .abort_token = (uint32_t)abort_token};
    if (u128_parse(instance, &config.instance) || fake_worker_new(&worker, &config, &err))
        return 2;
    fake_worker_run(worker, -1);
    return 0;
}

/* Before any test: a child never gets to main. */
__attribute__((constructor)) static void be_a_child(void) {
    static char words[16][160];
    static char *argv[17];
    const char *role = getenv("TRIREME_TEST_CHILD"), *spec = getenv("TRIREME_TEST_SPEC");
    int argc = 0;
    if (!role || !spec)
        return;
    if (strcmp(role, "worker") == 0)
        _exit(worker_child(spec));
    for (const char *at = spec; *at && argc < 16; argc++) {
        int len = 0;
        if (sscanf(at, " %159s%n", words[argc], &len) != 1)
            break;
        argv[argc] = words[argc];
        at += len;
    }
    exit(scheduler_main(argc, argv));
}

static pid_t start_child(const char *role, const char *spec) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    setenv("TRIREME_TEST_CHILD", role, 1);
    setenv("TRIREME_TEST_SPEC", spec, 1);
    execl("/proc/self/exe", "test_scheduler_process", (char *)NULL);
    _exit(127);
}

/* ---- The stage ---- */

struct worker_child {
    pid_t pid;
    struct u128 instance;
};

struct stage {
    char folder[32], endpoint[64], log[64];
    const char *options; /* further ones of the scheduler */
    int admin_port;
    pid_t scheduler;
    struct worker_child workers[4];
    size_t worker_count;
    struct fake_gateway *gateway;
    struct link_client *supervisor;
    int fences;
};

static int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, len) == 0 &&
          getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void start_scheduler(struct stage *t) {
    char spec[512];
    snprintf(spec, sizeof spec,
             "scheduler --listen=%s --run-dir=%s --admin-port=%d --log-level=error %s", t->endpoint,
             t->folder, t->admin_port, t->options ? t->options : "");
    t->scheduler = start_child("scheduler", spec);
}

static struct worker_child *start_worker(struct stage *t, int step_ms, int load_ms,
                                         int bundle_bytes, int slots, int abort_token) {
    struct worker_child *w = &t->workers[t->worker_count++];
    char spec[256], instance[U128_TEXT_MAX];
    w->instance = random_u128();
    u128_text(w->instance, instance);
    snprintf(spec, sizeof spec, "%s %s %d %d %d %d %d", t->endpoint, instance, step_ms, load_ms,
             bundle_bytes, slots, abort_token);
    w->pid = start_child("worker", spec);
    return w;
}

static void on_supervisor_frame(void *ctx, enum wire_kind kind, struct bytes payload) {
    struct stage *t = ctx;
    struct arena arena = {0};
    struct wire_fence fence;
    if (kind == WIRE_FENCE && message_unpack_fence(payload, &arena, &fence, NULL) == 0)
        t->fences++;
    arena_release(&arena);
}

static bool open_supervisor(struct stage *t) {
    static const struct link_client_calls CALLS = {.frame = on_supervisor_frame};
    struct link_client_config config = {.endpoint = t->endpoint, .role = WIRE_ROLE_SUPERVISOR};
    return link_client_new(&t->supervisor, &config, &CALLS, t, NULL) == 0;
}

static bool stage_open(struct stage *t, const char *options) {
    struct error err;
    t->options = options;
    t->admin_port = free_port();
    strcpy(t->folder, "/tmp/trmXXXXXX");
    if (!mkdtemp(t->folder))
        return false;
    snprintf(t->endpoint, sizeof t->endpoint, "ipc://%s/s", t->folder);
    start_scheduler(t);
    return fake_gateway_new(&t->gateway, t->endpoint, &err) == 0 && open_supervisor(t);
}

static int wait_for_end(pid_t pid, int64_t ms) {
    int status;
    for (int64_t end = clock_ms() + ms; clock_ms() < end; sleep_ms(5))
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
    return -1;
}

static void end_child(pid_t pid) {
    if (pid <= 0)
        return;
    kill(pid, SIGKILL);
    (void)!wait_for_end(pid, 5000);
}

static void stage_close(struct stage *t) {
    char path[64];
    fake_gateway_free(&t->gateway);
    link_client_free(&t->supervisor);
    end_child(t->scheduler);
    for (size_t i = 0; i < t->worker_count; i++)
        end_child(t->workers[i].pid);
    snprintf(path, sizeof path, "%s/s", t->folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/cache.key", t->folder);
    unlink(path);
    rmdir(t->folder);
}

static void turn(struct stage *t) {
    fake_gateway_run(t->gateway, 2);
    if (t->supervisor)
        link_client_wait(t->supervisor, NULL, NULL, 0, 0);
}

#define UNTIL(t, ms, cond)                                                                         \
    do {                                                                                           \
        int64_t end_ = clock_ms() + (ms);                                                          \
        while (!(cond) && clock_ms() < end_)                                                       \
            turn(t);                                                                               \
    } while (0)

static void tell_exit(struct stage *t, struct u128 instance, int signal_number, bool fault) {
    struct wire_exited m = {.instance = instance,
                            .cause = WIRE_EXIT_SIGNAL,
                            .value = (uint32_t)signal_number,
                            .fault = fault};
    struct buf out = {0};
    message_pack_exited(&m, &out);
    (void)!link_client_send(t->supervisor, WIRE_EXITED, buf_bytes(&out));
    buf_release(&out);
}

static void submit_many(struct stage *t, int count, uint32_t prompt_count, uint32_t max_tokens) {
    for (int i = 0; i < count; i++)
        fake_gateway_submit(t->gateway, 1000 + (uint64_t)i, prompt_count, max_tokens);
}

/* Every stream ended with all its tokens (each was checked when it came). */
static bool all_complete(const struct stage *t) {
    const struct fake_gateway *g = t->gateway;
    for (size_t i = 0; i < g->stream_count; i++) {
        const struct fake_stream *s = &g->streams[i];
        bool good = s->finish == WIRE_FINISH_LENGTH &&
                    s->count == s->prompt_count + s->max_tokens && !s->reject;
        if (!good)
            printf("# stream %zu: %u of %u tokens, finish %d, reject %d, attempt %u\n", i,
                   s->count - s->prompt_count, s->max_tokens, (int)s->finish, (int)s->reject,
                   s->attempt);
        if (!good)
            return false;
    }
    return g->wrong == 0;
}

/* ---- The admin port ---- */

static int admin_get(const struct stage *t, const char *path, char *body, size_t size) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)t->admin_port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), status = 0;
    size_t len = 0;
    ssize_t n;
    body[0] = 0;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        dprintf(fd, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
        while (len + 1 < size && (n = read(fd, body + len, size - len - 1)) > 0)
            len += (size_t)n;
        body[len] = 0;
        if (sscanf(body, "HTTP/1.1 %d", &status) != 1)
            status = 0;
    }
    close(fd);
    return status;
}

static double metric(const struct stage *t, const char *name) {
    static char body[65536];
    char line[128];
    if (admin_get(t, "/metrics", body, sizeof body) != 200)
        return -1;
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(body, line);
    return at ? atof(at + strlen(line)) : -1;
}

static double settled_metric(struct stage *t, const char *name, double want) {
    double value = -1;
    UNTIL(t, 2000, (value = metric(t, name)) == want);
    return value;
}

/* ---- Tests ---- */

TEST(process_streams_from_a_worker) {
    struct stage t = {0};
    char body[4096];
    EXPECT(stage_open(&t, NULL));
    UNTIL(&t, 5000, t.gateway->registered);
    EXPECT_EQ(admin_get(&t, "/health/live", body, sizeof body), 200);
    EXPECT_EQ(admin_get(&t, "/health/ready", body, sizeof body), 503);
    start_worker(&t, 1, 200, 1000, 16, 0);
    UNTIL(&t, 5000, t.gateway->status.replicas_ready == 1);
    EXPECT_EQ(t.gateway->status.replicas_ready, 1);
    submit_many(&t, 40, 50, 30);
    UNTIL(&t, 20000, fake_gateway_open_count(t.gateway) == 0);
    EXPECT(all_complete(&t));
    EXPECT_EQ(t.gateway->gaps, 0);
    EXPECT_EQ(admin_get(&t, "/health/ready", body, sizeof body), 200);
    EXPECT_EQ(settled_metric(&t, "trireme_scheduler_running", 0), 0);
    EXPECT_EQ(settled_metric(&t, "trireme_scheduler_blocks_used", 0), 0);
    EXPECT_EQ(metric(&t, "trireme_scheduler_output_tokens_total"), 40 * 30);
    EXPECT_EQ(metric(&t, "trireme_scheduler_finishes_total{reason=\"length\"}"), 40);
    submit_many(&t, 1, 50, 1); /* the same prompt as the first */
    UNTIL(&t, 5000, fake_gateway_open_count(t.gateway) == 0);
    EXPECT_EQ(t.gateway->streams[40].cached_count, 48); /* all but its last block */
    stage_close(&t);
}

TEST(process_relays_bundles_and_keeps_them) {
    struct stage t = {0};
    EXPECT(stage_open(&t, NULL));
    struct worker_child *w = start_worker(&t, 1, 0, 700 * 1000 + 13, 16, 0);
    UNTIL(&t, 5000, t.gateway->status.replicas_ready == 1);
    EXPECT_EQ(t.gateway->status.bundle_bytes, 700 * 1000 + 13);
    fake_gateway_fetch_bundle(t.gateway);
    UNTIL(&t, 5000, t.gateway->bundle.arrived == t.gateway->bundle.wanted);
    EXPECT_EQ(t.gateway->bundle.arrived, 700 * 1000 + 13);
    EXPECT_EQ(t.gateway->bundle.wrong, 0);
    end_child(w->pid); /* the second time nobody else has it */
    fake_gateway_fetch_bundle(t.gateway);
    UNTIL(&t, 5000, t.gateway->bundle.arrived == t.gateway->bundle.wanted);
    EXPECT_EQ(t.gateway->bundle.arrived, 700 * 1000 + 13);
    stage_close(&t);
}

TEST(process_streams_survive_its_own_death) {
    struct stage t = {0};
    EXPECT(stage_open(&t, NULL));
    start_worker(&t, 5, 0, 1000, 16, 0);
    UNTIL(&t, 5000, t.gateway->status.replicas_ready == 1);
    submit_many(&t, 16, 40, 100);
    for (int round = 0; round < 2; round++) {
        uint64_t before = fake_gateway_token_count(t.gateway);
        UNTIL(&t, 5000, fake_gateway_token_count(t.gateway) >= before + 300);
        EXPECT(fake_gateway_open_count(t.gateway) == 16);
        end_child(t.scheduler);
        start_scheduler(&t);
    }
    UNTIL(&t, 20000, fake_gateway_open_count(t.gateway) == 0);
    EXPECT(all_complete(&t));
    EXPECT_EQ(t.gateway->registered, 3);
    EXPECT_EQ(t.fences, 0);
    EXPECT_EQ(settled_metric(&t, "trireme_scheduler_blocks_used", 0), 0);
    /* the worker offered the blocks it held */
    EXPECT(metric(&t, "trireme_scheduler_prefix_hit_tokens_total") > 0);
    int64_t gap = 0;
    for (size_t i = 0; i < 16; i++)
        gap = MAX(gap, t.gateway->streams[i].longest_gap_ms);
    printf("# longest gap %lld ms\n", (long long)gap);
    stage_close(&t);
}

TEST(process_streams_survive_a_workers_death) {
    struct stage t = {0};
    EXPECT(stage_open(&t, NULL));
    struct worker_child *w = start_worker(&t, 5, 0, 1000, 16, 0);
    UNTIL(&t, 5000, t.gateway->status.replicas_ready == 1);
    submit_many(&t, 16, 40, 100);
    UNTIL(&t, 5000, fake_gateway_token_count(t.gateway) >= 300);
    end_child(w->pid);
    tell_exit(&t, w->instance, SIGKILL, false);
    start_worker(&t, 5, 0, 1000, 16, 0);
    UNTIL(&t, 20000, fake_gateway_open_count(t.gateway) == 0);
    EXPECT(all_complete(&t));
    EXPECT_EQ(t.gateway->lost, 0);
    EXPECT_EQ(metric(&t, "trireme_scheduler_worker_deaths_total"), 1);
    EXPECT_EQ(metric(&t, "trireme_scheduler_worker_faults_total"), 0);
    stage_close(&t);
}

TEST(process_refuses_the_request_that_kills_workers) {
    enum { POISON = 60, DEATHS_MAX = 9 };
    struct stage t = {0};
    int deaths = 0;
    EXPECT(stage_open(&t, NULL));
    start_worker(&t, 5, 0, 1000, 16, POISON);
    UNTIL(&t, 5000, t.gateway->status.replicas_ready == 1);
    submit_many(&t, 7, 40, 100);
    UNTIL(&t, 5000, fake_gateway_token_count(t.gateway) >= 70);
    size_t poison = fake_gateway_submit(t.gateway, 99, 40, 50);
    /* sent again with it: the first Submit has an honest prompt */
    t.gateway->streams[poison].tokens[0] = POISON;
    fake_gateway_cancel(t.gateway, poison);
    struct fake_stream *s = &t.gateway->streams[poison];
    s->request = random_u128();
    s->open = true;
    s->cancelled = false;
    link_client_renew(t.gateway->link); /* everything is submitted again */
    for (int64_t end = clock_ms() + 30000;
         fake_gateway_open_count(t.gateway) && clock_ms() < end;) {
        turn(&t);
        struct worker_child *w = &t.workers[t.worker_count - 1];
        int status;
        if (waitpid(w->pid, &status, WNOHANG) != w->pid)
            continue;
        w->pid = 0;
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        EXPECT(++deaths <= DEATHS_MAX);
        tell_exit(&t, w->instance, SIGABRT, true);
        t.worker_count--;
        start_worker(&t, 5, 0, 1000, 16, POISON);
    }
    printf("# refused after %d deaths\n", deaths);
    EXPECT_EQ(t.gateway->streams[poison].reject, WIRE_REJECT_POISON);
    for (size_t i = 0; i < poison; i++)
        EXPECT_EQ(t.gateway->streams[i].finish, WIRE_FINISH_LENGTH);
    EXPECT_EQ(t.gateway->wrong, 0);
    stage_close(&t);
}

TEST(process_that_was_stopped_condemns_nobody) {
    struct stage t = {0};
    EXPECT(stage_open(&t, NULL));
    start_worker(&t, 5, 0, 1000, 16, 0);
    UNTIL(&t, 5000, t.gateway->status.replicas_ready == 1);
    submit_many(&t, 16, 40, 100);
    UNTIL(&t, 5000, fake_gateway_token_count(t.gateway) >= 300);
    kill(t.scheduler, SIGSTOP);
    UNTIL(&t, 4000, false);
    kill(t.scheduler, SIGCONT);
    UNTIL(&t, 20000, fake_gateway_open_count(t.gateway) == 0);
    EXPECT(all_complete(&t));
    EXPECT_EQ(t.fences, 0);
    EXPECT_EQ(metric(&t, "trireme_scheduler_worker_deaths_total"), 0);
    EXPECT(metric(&t, "trireme_scheduler_late_turns_total") >= 1);
    stage_close(&t);
}

TEST(process_asks_to_fence_a_silent_worker) {
    struct stage t = {0};
    EXPECT(stage_open(&t, "--silence=400ms --heartbeat=100ms"));
    struct worker_child *w = start_worker(&t, 5, 0, 1000, 16, 0);
    UNTIL(&t, 5000, t.gateway->status.replicas_ready == 1);
    UNTIL(&t, 2000, link_client_is_registered(t.supervisor));
    submit_many(&t, 4, 40, 60);
    UNTIL(&t, 5000, fake_gateway_token_count(t.gateway) >= 40);
    link_client_free(&t.supervisor); /* nobody is there to be asked just now */
    kill(w->pid, SIGSTOP);
    UNTIL(&t, 3000, t.gateway->status.replicas_ready == 0);
    EXPECT(open_supervisor(&t));
    UNTIL(&t, 3000, t.fences);
    EXPECT(t.fences >= 1);
    UNTIL(&t, 1000, t.gateway->status.replicas_ready == 0);
    EXPECT_EQ(t.gateway->status.replicas_ready, 0);
    end_child(w->pid);
    tell_exit(&t, w->instance, SIGKILL, false);
    start_worker(&t, 5, 0, 1000, 16, 0);
    UNTIL(&t, 20000, fake_gateway_open_count(t.gateway) == 0);
    EXPECT(all_complete(&t));
    EXPECT_EQ(metric(&t, "trireme_scheduler_worker_faults_total"), 0);
    stage_close(&t);
}

TEST(process_drains_on_sigterm) {
    struct stage t = {0};
    EXPECT(stage_open(&t, NULL));
    start_worker(&t, 5, 0, 1000, 16, 0);
    UNTIL(&t, 5000, t.gateway->status.replicas_ready == 1);
    submit_many(&t, 8, 40, 80);
    UNTIL(&t, 5000, fake_gateway_token_count(t.gateway) >= 80);
    kill(t.scheduler, SIGTERM);
    UNTIL(&t, 2000, t.gateway->status.draining);
    EXPECT(t.gateway->status.draining);
    size_t late = fake_gateway_submit(t.gateway, 5, 10, 10);
    UNTIL(&t, 10000, fake_gateway_open_count(t.gateway) == 0);
    EXPECT_EQ(t.gateway->streams[late].reject, WIRE_REJECT_DRAINING);
    for (size_t i = 0; i < late; i++)
        EXPECT_EQ(t.gateway->streams[i].finish, WIRE_FINISH_LENGTH);
    int status = -1;
    UNTIL(&t, 5000, waitpid(t.scheduler, &status, WNOHANG) == t.scheduler);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    t.scheduler = 0;
    stage_close(&t);
}

TEST(process_answers_a_malformed_submit) {
    struct stage t = {0};
    EXPECT(stage_open(&t, NULL));
    UNTIL(&t, 5000, t.gateway->registered);
    fake_gateway_submit(t.gateway, 1, 10, 10);
    t.gateway->streams[0].max_tokens = 0; /* out of bounds */
    link_client_renew(t.gateway->link);   /* submits it again */
    UNTIL(&t, 5000, fake_gateway_open_count(t.gateway) == 0);
    EXPECT_EQ(t.gateway->streams[0].reject, WIRE_REJECT_INVALID);
    EXPECT(settled_metric(&t, "trireme_scheduler_malformed_messages_total", 1) >= 1);
    stage_close(&t);
}

TEST(process_bounds_its_queue) {
    struct stage t = {0};
    EXPECT(stage_open(&t, "--queue-max=8"));
    start_worker(&t, 20, 0, 1000, 4, 0);
    UNTIL(&t, 5000, t.gateway->status.replicas_ready == 1);
    submit_many(&t, 40, 20, 30);
    size_t refused = 0, served = 0;
    UNTIL(&t, 20000, fake_gateway_open_count(t.gateway) == 0);
    for (size_t i = 0; i < 40; i++) {
        refused += t.gateway->streams[i].reject == WIRE_REJECT_OVERLOADED;
        served += t.gateway->streams[i].finish == WIRE_FINISH_LENGTH;
    }
    EXPECT_EQ(refused + served, 40);
    EXPECT(served >= 8 && refused >= 20);
    EXPECT_EQ(metric(&t, "trireme_scheduler_rejects_total{reason=\"overloaded\"}"),
              (double)refused);
    stage_close(&t);
}

TEST(process_keeps_its_secret) {
    struct stage t = {0};
    char path[64], first[64], second[64];
    EXPECT(stage_open(&t, NULL));
    UNTIL(&t, 5000, t.gateway->registered);
    snprintf(path, sizeof path, "%s/cache.key", t.folder);
    int fd = open(path, O_RDONLY);
    EXPECT_EQ(read(fd, first, sizeof first), 32);
    close(fd);
    end_child(t.scheduler);
    start_scheduler(&t);
    UNTIL(&t, 5000, t.gateway->registered == 2);
    fd = open(path, O_RDONLY);
    EXPECT_EQ(read(fd, second, sizeof second), 32);
    close(fd);
    EXPECT(memcmp(first, second, 32) == 0);
    stage_close(&t);
}

/* Processor time of all threads of a process, and how often they gave up the processor by
 * themselves. */
struct usage {
    double cpu_ms;
    unsigned long long wakes;
};

static struct usage usage_of(pid_t pid) {
    char command[160];
    struct usage u = {0};
    unsigned long long ns, wakes;
    snprintf(command, sizeof command,
             "cd /proc/%d/task; for t in *; do cut -d' ' -f1 $t/schedstat; grep ^vol $t/status | "
             "cut -f2; done",
             (int)pid);
    FILE *f = popen(command, "r");
    while (fscanf(f, "%llu %llu", &ns, &wakes) == 2) {
        u.cpu_ms += (double)ns / 1e6;
        u.wakes += wakes;
    }
    pclose(f);
    return u;
}

/* TSan's runtime has a thread of its own in each process that looks around ten times a second. */
#ifdef __SANITIZE_THREAD__
#define SANITIZER_WAKES 11
#else
#define SANITIZER_WAKES 0
#endif

/* The share of a core is told but hardly judged: on a machine that is busy with other things each
 * wake costs several times as much. What it wakes for is judged: once it is quiet, a heartbeat each
 * way once a second and a status, in two threads. */
TEST(process_idles_for_nothing) {
    struct stage t = {0};
    EXPECT(stage_open(&t, NULL));
    start_worker(&t, 1, 0, 1000, 16, 0);
    UNTIL(&t, 5000, t.gateway->status.replicas_ready == 1);
    submit_many(&t, 4, 20, 10);
    UNTIL(&t, 5000, fake_gateway_open_count(t.gateway) == 0);
    UNTIL(&t, LIVENESS_QUIET_AFTER_MS + 1000, false);
    struct usage before = usage_of(t.scheduler);
    int64_t began = clock_ms();
    UNTIL(&t, 4000, false);
    struct usage after = usage_of(t.scheduler);
    double seconds = (double)(clock_ms() - began) / 1e3;
    double share = (after.cpu_ms - before.cpu_ms) / 1e3 / seconds,
           wakes = (double)(after.wakes - before.wakes) / seconds;
    printf("# %.3f %% of a core, %.1f wakes a second\n", share * 100, wakes);
    EXPECT(before.wakes > 0);
    EXPECT(wakes < 20 + SANITIZER_WAKES); /* three peers */
    EXPECT(share < 0.05);
    stage_close(&t);
}
