/*
 * The supervisor with children that are shell scripts, and with this test as the scheduler on the
 * wire. Each supervisor is a process of its own, so that it can be killed.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/fsutil.h"
#include "base/hash.h"
#include "base/log.h"
#include "check.h"
#include "cli/state_file.h"
#include "cli/supervisor_internal.h"
#include "proto/link.h"
#include "proto/tcp_keys.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000 }; /* for what happens soon where the machine has nothing else to do */

static char dir[64], endpoint[128], program[128];
static int running_supervisor;

static char *const NO_FLAGS[] = {NULL};
static char *const OTHER_FLAGS[] = {"--other", NULL};
static char *const STUBBORN[] = {"--stubborn", NULL};

static struct supervisor_config plain_config(void) {
    return (struct supervisor_config){
        .exe = program,
        .run_dir = dir,
        .endpoint = endpoint,
        .drain_ms = 1000,
        .stop_ms = 1000,
        .silence_ms = 60000,
        .roles = {[CHILD_GATEWAY] = {.count = 2, .flags = NO_FLAGS},
                  [CHILD_SCHEDULER] = {.count = 1, .flags = NO_FLAGS, .takes_admin_port = true},
                  [CHILD_WORKER] = {.count = 2,
                                    .flags = NO_FLAGS,
                                    .takes_admin_port = true,
                                    .takes_instance = true,
                                    .takes_gpu = true}}};
}

static int begin(const struct supervisor_config *config) {
    int pid = fork();
    if (pid)
        return running_supervisor = pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing behind */
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDOUT_FILENO);
    log_init("serve", getenv("TRIREME_TEST_LOG") ? LOG_INFO : LOG_ERROR, false);
    supervisor_block_signals();
    struct error err;
    int rc = supervisor_run(config, &err);
    _exit(rc ? 1 : 0);
}

static void clear_place(int supervisor_pid);

static void make_place(void) {
    /* a stubborn one ends with this program, which may be killed */
    static const char SCRIPT[] =
        "#!/bin/sh\ncase \"$*\" in *--stubborn*) trap '' TERM ;; esac\necho \"$@\" > $(dirname "
        "$0)/args-$$\n"
        "case \"$*\" in *--stubborn*) while kill -0 %d; do sleep 0.05; done ;; esac\n"
        "exec sleep 300\n";
    char script[sizeof SCRIPT + 16];
    if (dir[0] && dir_exists(dir))
        clear_place(running_supervisor); /* of a failed test */
    snprintf(dir, sizeof dir, "/tmp/trm-test-XXXXXX");
    if (!mkdtemp(dir))
        abort();
    snprintf(endpoint, sizeof endpoint, "ipc://%s/scheduler.sock", dir);
    snprintf(program, sizeof program, "%s/program", dir);
    int len = snprintf(script, sizeof script, SCRIPT, (int)getpid());
    if (file_write_atomic(program, script, (size_t)len, 0755, NULL))
        abort();
}

/* Running children as the state file has them, in the order of roles and indexes. */
struct family {
    size_t count;
    int pids[16];
    struct state_child rows[16];
};

static bool alive(int pid, uint64_t start_ticks) {
    struct child c = {.pidfd = -1};
    if (child_adopt(&c, pid, start_ticks))
        return false;
    close(c.pidfd);
    return true;
}

static struct family family(void) {
    struct family f = {0};
    struct state_file state;
    if (state_file_read(&state, dir, NULL))
        return f;
    for (int role = 0; role < CHILD_ROLE_COUNT; role++)
        for (uint32_t idx = 0; idx < 16; idx++)
            for (size_t i = 0; i < state.children.count; i++) {
                struct state_child c = state.children.items[i];
                if ((int)c.role != role || c.idx != idx || f.count == 16 ||
                    !alive(c.pid, c.start_ticks))
                    continue;
                f.rows[f.count] = c;
                f.pids[f.count++] = c.pid;
            }
    state_file_release(&state);
    return f;
}

static bool wait_family(struct family *f, size_t count) {
    for (int64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end; sleep_ms(10)) {
        *f = family();
        if (f->count == count)
            return true;
    }
    return false;
}

/* What the child was given; it writes that first of all. False: not yet. */
static bool arguments_of(int pid, struct buf *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/args-%d", dir, pid);
    buf_reset(text);
    return !file_read(path, 1000, text, NULL) && text->len && text->data[text->len - 1] == '\n';
}

/* Until count children run, each past its gate. */
static bool wait_running(struct family *f, size_t count) {
    struct buf text = {0};
    size_t running = 0;
    int64_t end = clock_ms() + PATIENCE_MS;
    if (!wait_family(f, count))
        return false;
    while (running < count && clock_ms() < end)
        if (arguments_of(f->pids[running], &text))
            running++;
        else
            sleep_ms(10);
    buf_release(&text);
    return running == count;
}

/* Until row idx is another process, and all are there. */
static bool wait_successor(struct family *f, size_t idx, int old_pid, size_t count) {
    for (int64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end; sleep_ms(10)) {
        *f = family();
        if (f->count == count && f->pids[idx] != old_pid)
            return true;
    }
    return false;
}

static int end_code(int pid) {
    int status;
    for (int64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end; sleep_ms(10))
        if (waitpid(pid, &status, WNOHANG) == pid && !(running_supervisor = 0))
            return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return -1000;
}

static void clear_place(int supervisor_pid) {
    if (supervisor_pid > 0) {
        running_supervisor = 0;
        kill(supervisor_pid, SIGKILL);
        waitpid(supervisor_pid, NULL, 0);
    }
    struct family f = family();
    for (size_t i = 0; i < f.count; i++)
        kill(f.pids[i], SIGKILL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command))
        abort();
}

__attribute__((destructor)) static void clear_after_failure(void) {
    if (dir[0] && dir_exists(dir))
        clear_place(running_supervisor);
}

TEST(supervisor_starts_restarts_and_drains) {
    struct supervisor_config config = plain_config();
    struct family before, after;
    make_place();
    int pid = begin(&config);
    EXPECT(wait_family(&before, 5));
    for (size_t i = 0; i < 5; i++) {
        kill(before.pids[i], SIGKILL);
        EXPECT(wait_successor(&after, i, before.pids[i], 5));
    }
    for (size_t i = 0; i < 5; i++)
        EXPECT(after.pids[i] != before.pids[i]);
    char reply[1024];
    EXPECT_EQ(supervisor_ask(dir, "status", reply, sizeof reply, NULL), 0);
    EXPECT(strstr(reply, "ok serving") && strstr(reply, "worker 1 running"));
    kill(pid, SIGHUP);
    sleep_ms(100);
    EXPECT_EQ(family().count, 5);
    kill(pid, SIGTERM);
    EXPECT_EQ(end_code(pid), 0);
    EXPECT_EQ(family().count, 0);
    clear_place(0);
}

TEST(supervisor_gives_each_child_its_options) {
    struct supervisor_config config = plain_config();
    struct family f;
    struct buf text;
    char instance[U128_TEXT_MAX + 16], hex[U128_TEXT_MAX];
    make_place();
    config.roles[CHILD_WORKER].count = 1;
    config.roles[CHILD_GATEWAY].takes_name = true;
    config.admin_port = 45000;
    int pid = begin(&config);
    EXPECT(wait_running(&f, 4));
    buf_init(&text, 0);
    EXPECT(arguments_of(f.pids[3], &text));
    u128_text(f.rows[3].instance, hex);
    snprintf(instance, sizeof instance, "--instance=%s", hex);
    EXPECT(!strncmp(buf_text(&text), "worker ", 7) && strstr(buf_text(&text), instance));
    EXPECT(strstr(buf_text(&text), "--admin-port=45001") && strstr(buf_text(&text), "--gpu=0"));
    EXPECT(!strstr(buf_text(&text), "--name="));
    for (size_t i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "gateway --name=gateway-%u", f.rows[i].idx);
        EXPECT(arguments_of(f.pids[i], &text));
        EXPECT(f.rows[i].role == CHILD_GATEWAY && !strncmp(buf_text(&text), name, strlen(name)));
    }
    buf_release(&text);
    clear_place(pid);
}

/* What a child was told; 0: nothing. */
static long admin_port_of(int pid) {
    struct buf text;
    buf_init(&text, 0);
    const char *at = arguments_of(pid, &text) ? strstr(buf_text(&text), "--admin-port=") : NULL;
    long port = at ? strtol(at + 13, NULL, 10) : 0;
    buf_release(&text);
    return port;
}

TEST(supervisor_keeps_admin_ports_over_restarts) {
    struct supervisor_config config = plain_config();
    struct family f;
    long ports[4];
    make_place();
    config.roles[CHILD_WORKER].count = 1;
    for (int round = 0; round < 2; round++) {
        int pid = begin(&config);
        EXPECT(wait_running(&f, 4));
        for (size_t i = 0; i < 4; i++) {
            if (round == 0)
                ports[i] = admin_port_of(f.pids[i]);
            EXPECT_EQ(admin_port_of(f.pids[i]), ports[i]);
        }
        EXPECT(ports[3] > 0);
        kill(f.pids[3], SIGKILL); /* its successor has it, too */
        int64_t end_ms = clock_ms() + 20000;
        int old = f.pids[3];
        while ((f = family(), f.count < 4 || f.pids[3] == old) && clock_ms() < end_ms)
            sleep_ms(5);
        EXPECT(f.count == 4 && f.pids[3] != old && wait_running(&f, 4));
        EXPECT_EQ(admin_port_of(f.pids[3]), ports[3]);
        kill(pid, SIGTERM);
        EXPECT_EQ(end_code(pid), 0);
    }
    /* somebody else has it now */
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)ports[3]),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0);
    int pid = begin(&config);
    EXPECT(wait_running(&f, 4));
    EXPECT(admin_port_of(f.pids[3]) > 0 && admin_port_of(f.pids[3]) != ports[3]);
    close(fd);
    clear_place(pid);
}

/* An earlier run drew the port that the gateways are to have now. */
TEST(supervisor_leaves_the_gateways_their_port) {
    struct supervisor_config config = plain_config();
    struct family f;
    make_place();
    config.roles[CHILD_WORKER].count = 1;
    int pid = begin(&config);
    EXPECT(wait_running(&f, 4));
    config.port = admin_port_of(f.pids[3]);
    kill(pid, SIGTERM);
    EXPECT_EQ(end_code(pid), 0);
    pid = begin(&config);
    EXPECT(wait_running(&f, 4));
    EXPECT(admin_port_of(f.pids[3]) > 0 && admin_port_of(f.pids[3]) != config.port);
    clear_place(pid);
}

TEST(supervisor_adopts_what_an_earlier_one_left) {
    struct supervisor_config config = plain_config();
    struct family before, after;
    make_place();
    int first = begin(&config);
    EXPECT(wait_running(&before, 5));
    kill(first, SIGKILL);
    EXPECT_EQ(end_code(first), -SIGKILL);
    sleep_ms(50);
    EXPECT_EQ(family().count, 5);  /* they run on */
    kill(before.pids[4], SIGKILL); /* but for one, which ends while nobody looks */
    int second = begin(&config);
    EXPECT(wait_successor(&after, 4, before.pids[4], 5));
    for (size_t i = 0; i < 4; i++)
        EXPECT_EQ(after.pids[i], before.pids[i]);
    kill(after.pids[0], SIGKILL); /* an adopted one is looked after like a child */
    EXPECT(wait_successor(&after, 0, before.pids[0], 5));
    kill(second, SIGTERM);
    EXPECT_EQ(end_code(second), 0);
    EXPECT_EQ(family().count, 0);
    clear_place(0);
}

TEST(supervisor_replaces_adopted_children_with_other_settings) {
    struct supervisor_config config = plain_config();
    struct family before, after;
    make_place();
    int first = begin(&config);
    EXPECT(wait_running(&before, 5));
    kill(first, SIGKILL);
    end_code(first);
    config.roles[CHILD_WORKER].flags = OTHER_FLAGS;
    config.roles[CHILD_GATEWAY].count = 1;
    int second = begin(&config);
    /* gateway 1 goes, both workers are others, gateway 0 and the scheduler are the same */
    bool replaced = false;
    for (int64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end && !replaced; sleep_ms(10)) {
        after = family();
        replaced = after.count == 4 && after.rows[3].role == CHILD_WORKER &&
                   after.pids[2] != before.pids[3] && after.pids[3] != before.pids[4] &&
                   after.rows[2].role == CHILD_WORKER;
    }
    EXPECT(replaced);
    EXPECT(after.pids[0] == before.pids[0] && after.pids[1] == before.pids[2]);
    clear_place(second);
}

/* Other models came or went: a worker that runs has nothing to do with that. */
TEST(supervisor_keeps_a_worker_that_would_share_memory_with_others_now) {
    struct supervisor_config config = plain_config();
    struct supervisor_model model = {
        .name = "a", .flags = NO_FLAGS, .count = 1, .replicas = {1, 1}, .memory_sharers = 3};
    struct family f;
    struct buf text = {0};
    struct error err;
    char reply[4096] = "", wanted[64];
    config.models = &model;
    config.model_count = 1;
    make_place();
    int first = begin(&config);
    EXPECT(wait_running(&f, 4));
    EXPECT(arguments_of(f.pids[3], &text) && strstr(text.data, "--memory-sharers=3"));
    kill(first, SIGKILL);
    end_code(first);
    model.memory_sharers = 2;
    int second = begin(&config);
    int64_t end = clock_ms() + PATIENCE_MS;
    while (supervisor_ask(dir, "status", reply, sizeof reply, &err) && clock_ms() < end)
        sleep_ms(10);
    snprintf(wanted, sizeof wanted, "worker 0 running process %d (adopted)", f.pids[3]);
    EXPECT(strstr(reply, wanted));
    buf_release(&text);
    clear_place(second);
}

TEST(supervisor_scales_and_remembers_it) {
    struct supervisor_config config = plain_config();
    struct family f;
    char reply[256];
    make_place();
    int pid = begin(&config);
    EXPECT(wait_family(&f, 5));
    EXPECT_EQ(supervisor_ask(dir, "scale 4", reply, sizeof reply, NULL), 0);
    EXPECT_STR(reply, "ok 4 workers");
    EXPECT_EQ(family().count, 7);
    EXPECT_EQ(supervisor_ask(dir, "scale 3", reply, sizeof reply, NULL), 0);
    EXPECT_EQ(family().count, 6);
    sleep_ms(200);
    kill(pid, SIGKILL);
    end_code(pid);
    pid = begin(&config);
    sleep_ms(300);
    EXPECT_EQ(family().count, 6);
    static const char *const BAD[] = {"scale",      "scale x", "scale 0", "scale -1",
                                      "scale 5000", "dance",   ""};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        for (int tries = 0; supervisor_ask(dir, BAD[i], reply, sizeof reply, NULL) && tries < 100;
             tries++)
            sleep_ms(20);
        EXPECT(!strncmp(reply, "error ", 6));
    }
    EXPECT_EQ(family().count, 6);
    clear_place(pid);
}

TEST(supervisor_does_not_wait_forever_for_the_stubborn) {
    struct supervisor_config config = plain_config();
    struct family f;
    make_place();
    config.roles[CHILD_GATEWAY].flags = STUBBORN;
    config.drain_ms = 400;
    int pid = begin(&config);
    EXPECT(wait_running(&f, 5));
    int64_t began = clock_ms();
    kill(pid, SIGTERM);
    sleep_ms(200);
    /* the gateways have their time; meanwhile the rest is there for their streams */
    EXPECT_EQ(family().count, 5);
    EXPECT_EQ(end_code(pid), 0);
    EXPECT(clock_ms() - began >= 400);
    EXPECT_EQ(family().count, 0);
    config.drain_ms = 60000;
    pid = begin(&config);
    EXPECT(wait_running(&f, 5));
    kill(pid, SIGTERM);
    sleep_ms(300);
    kill(pid, SIGINT); /* the second word ends it at once */
    EXPECT_EQ(end_code(pid), 0);
    EXPECT_EQ(family().count, 0);
    clear_place(0);
}

TEST(supervisor_restarts_a_scheduler_that_says_nothing) {
    struct supervisor_config config = plain_config();
    struct family before, after;
    make_place();
    config.silence_ms = 700;
    int pid = begin(&config);
    EXPECT(wait_family(&before, 5));
    EXPECT(wait_successor(&after, 2, before.pids[2], 5));
    for (size_t i = 0; i < 5; i++)
        EXPECT_EQ(after.pids[i] != before.pids[i], i == 2);
    clear_place(pid);
}

/* --- this test as the scheduler --- */

static struct link_server *server;
static struct u128 supervisor_instance;
static struct wire_exited told[16];
static size_t told_count;

static enum link_verdict judge(void *ctx, struct epoch *mine, const struct frame *frame,
                               const struct wire_hello *hello, bool served) {
    return LINK_TAKE;
}
static bool hear_hello(void *ctx, struct u128 peer, const struct wire_hello *hello,
                       struct wire_welcome *welcome) {
    if (hello->role == WIRE_ROLE_SUPERVISOR)
        supervisor_instance = peer;
    return true;
}
static void hear_frame(void *ctx, struct u128 peer, enum wire_role role, enum wire_kind kind,
                       struct bytes payload) {
    struct arena arena;
    arena_init(&arena, 0, 0);
    if (kind == WIRE_EXITED && told_count < 16 &&
        !message_unpack_exited(payload, &arena, &told[told_count], NULL))
        told_count++;
    arena_release(&arena);
}
static void hear_gone(void *ctx, struct u128 peer, enum wire_role role) {
    supervisor_instance = (struct u128){0};
}
static void hear_superseded(void *ctx, struct epoch by) {}

/* Its key has left the list: a mistake of the operator's, which no restart mends. The refusal is
 * waited for; the time since then is said, so that nothing rests on how fast it is refused again. */
TEST(supervisor_lets_a_scheduler_live_that_refuses_it) {
    static const struct link_server_calls CALLS = {judge,     hear_hello,      hear_frame,
                                                   hear_gone, hear_superseded, NULL};
    const char *listen = "tcp://127.0.0.1:*";
    struct supervisor_config config = plain_config();
    struct supervisor s = {.config = &config, .phase = PHASE_SERVING};
    struct tcp_keys keys;
    struct link_server *refusing;
    struct error err;
    int status;
    EXPECT(tcp_keys_make(&keys));
    EXPECT(tcp_keys_disallow(&keys, WIRE_ROLE_SUPERVISOR));
    struct link_server_config link = {.endpoints = &listen,
                                      .endpoint_count = 1,
                                      .epoch = {1, {1, 1}},
                                      .key_file = keys.files[WIRE_ROLE_SCHEDULER],
                                      .allow_keys = keys.allow};
    EXPECT_EQ(link_server_new(&refusing, &link, &CALLS, NULL, &err), 0);
    config.endpoint = link_server_address(refusing, 0);
    config.key_file = keys.files[WIRE_ROLE_SUPERVISOR];
    config.allow_keys = keys.allow;
    EXPECT_EQ(supervisor_link_open(&s, &err), 0);
    struct child scheduler = {.role = CHILD_SCHEDULER, .state = CHILD_RUNNING, .pid = fork()};
    if (!scheduler.pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    scheduler.pidfd = (int)syscall(SYS_pidfd_open, scheduler.pid, 0);
    EXPECT(scheduler.pidfd >= 0);
    vec_push(&s.children, &scheduler);
    for (int64_t end = clock_ms() + PATIENCE_MS;
         !link_client_refused_ms(s.link) && clock_ms() < end;) {
        link_client_wait(s.link, NULL, NULL, 0, 5);
        link_server_wait(refusing, NULL, NULL, 0, 5);
    }
    int64_t refused_ms = link_client_refused_ms(s.link);
    EXPECT(refused_ms > 0 && link_server_stats(refusing)->refused_peers >= 1);
    s.turn_ms = refused_ms + config.silence_ms - 1;
    supervisor_watch_scheduler(&s, s.turn_ms);
    EXPECT_EQ(s.unheard_since_ms, refused_ms); /* it begins anew where it kills */
    EXPECT_EQ(waitpid(scheduler.pid, NULL, WNOHANG), 0);
    s.turn_ms++;
    supervisor_watch_scheduler(&s, s.turn_ms); /* no refusal either any more */
    EXPECT_EQ(s.unheard_since_ms, s.turn_ms);
    EXPECT_EQ(waitpid(scheduler.pid, &status, 0), scheduler.pid);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(scheduler.pidfd);
    vec_release(&s.children);
    link_client_free(&s.link);
    link_server_free(&refusing);
    tcp_keys_remove(&keys);
}

TEST(supervisor_gives_up_on_what_cannot_start) {
    struct supervisor_config config = plain_config();
    make_place();
    static const char SCRIPT[] = "#!/bin/sh\n[ $1 = worker ] && exit 3\nexec sleep 300\n";
    EXPECT_EQ(file_write_atomic(program, SCRIPT, sizeof SCRIPT - 1, 0755, NULL), 0);
    EXPECT_EQ(end_code(begin(&config)), 1);
    EXPECT_EQ(family().count, 0);
    clear_place(0);
}

/* One start, not six: the first child that says so ends it all. */
TEST(supervisor_ends_at_once_when_a_child_says_that_it_cannot_start) {
    struct supervisor_config config = plain_config();
    char script[512];
    make_place();
    int len = snprintf(script, sizeof script,
                       "#!/bin/sh\n[ $1 = worker ] || exec sleep 300\n"
                       "echo started >>%s/starts\nprintf 'no such set' >%s/reason-$$\nexit 78\n",
                       dir, dir);
    EXPECT(len > 0 && (size_t)len < sizeof script);
    EXPECT_EQ(file_write_atomic(program, script, (size_t)len, 0755, NULL), 0);
    config.roles[CHILD_WORKER].count = 1;
    EXPECT_EQ(end_code(begin(&config)), 1);
    EXPECT_EQ(family().count, 0);
    struct buf starts;
    char *path = path_join(dir, "starts");
    buf_init(&starts, 0);
    EXPECT_EQ(file_read(path, 1000, &starts, NULL), 0);
    EXPECT_STR(buf_text(&starts), "started\n");
    buf_release(&starts);
    mem_free(path);
    clear_place(0);
}

static void open_server(uint64_t epoch) {
    static const struct link_server_calls CALLS = {judge,     hear_hello,      hear_frame,
                                                   hear_gone, hear_superseded, NULL};
    const char *endpoints[] = {endpoint};
    struct link_server_config config = {
        .endpoints = endpoints, .endpoint_count = 1, .epoch = {epoch, {epoch, 1}}};
    struct error err;
    if (link_server_new(&server, &config, &CALLS, NULL, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
}

static bool serve_until_supervisor(void) {
    for (int64_t end = clock_ms() + PATIENCE_MS;
         clock_ms() < end && u128_is_zero(supervisor_instance);)
        link_server_wait(server, NULL, NULL, 0, 20);
    return !u128_is_zero(supervisor_instance);
}

/* Exited of that instance; zeroed when it does not come. */
static struct wire_exited hear_of(struct u128 instance) {
    for (int64_t end = clock_ms() + PATIENCE_MS; clock_ms() < end;) {
        link_server_wait(server, NULL, NULL, 0, 20);
        for (size_t i = 0; i < told_count; i++)
            if (u128_equal(told[i].instance, instance))
                return told[i];
    }
    return (struct wire_exited){0};
}

static void send_fence(struct u128 instance, int pid) {
    struct wire_fence fence = {.instance = instance, .pid = (uint32_t)pid};
    struct buf b;
    buf_init(&b, 0);
    message_pack_fence(&fence, &b);
    if (link_server_send(server, supervisor_instance, WIRE_FENCE, buf_bytes(&b)))
        abort();
    buf_release(&b);
}

TEST(supervisor_tells_how_children_ended_and_fences) {
    struct supervisor_config config = plain_config();
    struct family f, g;
    make_place();
    told_count = 0;
    supervisor_instance = (struct u128){0};
    int pid = begin(&config);
    EXPECT(wait_family(&f, 5));
    open_server(1000);
    EXPECT(serve_until_supervisor());
    sleep_ms(50);

    kill(f.pids[3], SIGKILL);
    struct wire_exited e = hear_of(f.rows[3].instance);
    EXPECT(e.cause == WIRE_EXIT_SIGNAL && e.value == SIGKILL && !e.fault);
    EXPECT(wait_successor(&g, 3, f.pids[3], 5));
    EXPECT(!u128_equal(g.rows[3].instance, f.rows[3].instance));

    sleep_ms(300); /* past exec: until then the sanitizers' handlers are still in it */
    kill(g.pids[3], SIGSEGV);
    e = hear_of(g.rows[3].instance);
    EXPECT(e.cause == WIRE_EXIT_SIGNAL && e.value == SIGSEGV && e.fault);

    kill(f.pids[4], SIGSTOP);                   /* hangs */
    send_fence((struct u128){7, 7}, f.pids[4]); /* another's instance: not this process */
    for (int i = 0; i < 10; i++)
        link_server_wait(server, NULL, NULL, 0, 20);
    EXPECT(alive(f.pids[4], f.rows[4].start_ticks));
    send_fence(f.rows[4].instance, f.pids[4]);
    e = hear_of(f.rows[4].instance);
    EXPECT(e.cause == WIRE_EXIT_FENCED && !e.fault);
    EXPECT(!alive(f.pids[4], f.rows[4].start_ticks));
    EXPECT(wait_successor(&g, 4, f.pids[4], 5));

    told_count = 0; /* asked again for one that is gone: told again */
    send_fence(f.rows[4].instance, f.pids[4]);
    EXPECT_EQ(hear_of(f.rows[4].instance).cause, WIRE_EXIT_FENCED);

    link_server_free(&server); /* another scheduler comes: it hears of the latest ends */
    told_count = 0;
    supervisor_instance = (struct u128){0};
    open_server(2000);
    EXPECT(serve_until_supervisor());
    EXPECT_EQ(hear_of(f.rows[4].instance).cause, WIRE_EXIT_FENCED);
    link_server_free(&server);
    clear_place(pid);
}

TEST(supervisor_tells_of_faults_of_adopted_children) {
    struct supervisor_config config = plain_config();
    struct family f;
    char mark[128];
    make_place();
    told_count = 0;
    supervisor_instance = (struct u128){0};
    int pid = begin(&config);
    EXPECT(wait_running(&f, 5));
    kill(pid, SIGKILL);
    end_code(pid);
    for (int i = 3; i < 5; i++) { /* one before, one after the next supervisor comes */
        snprintf(mark, sizeof mark, "%s/fault-%d", dir, f.pids[i]);
        close(open(mark, O_CREAT | O_WRONLY, 0600));
        kill(f.pids[i], SIGSEGV);
        if (i == 3)
            pid = begin(&config);
        if (i == 3)
            sleep_ms(300);
    }
    open_server(1000);
    EXPECT(serve_until_supervisor());
    for (int i = 3; i < 5; i++) {
        struct wire_exited e = hear_of(f.rows[i].instance);
        EXPECT(e.cause == WIRE_EXIT_UNKNOWN && e.fault);
    }
    link_server_free(&server);
    clear_place(pid);
}
