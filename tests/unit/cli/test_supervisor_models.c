/* Which models are loaded, without any process: who has room, and who goes. */
#include "base/exit_reason.h"
#include "base/fsutil.h"
#include "base/log.h"
#include "check.h"
#include "cli/state_file.h"
#include "cli/supervisor_internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(supervisor_models_a_load_without_room_is_given_up_after_a_minute) {
    const struct supervisor_config config = {.models_max = 1};
    struct supervisor s = {.config = &config,
                           .phase = PHASE_SERVING,
                           .registered = true,
                           .model_count = 2,
                           .configured_count = 2};
    struct managed_model *stays = &s.models[0], *asked = &s.models[1];
    struct error err;
    stays->terms = (struct supervisor_model){.name = "stays", .count = 1, .on_demand = true};
    stays->wanted = stays->replicas_ready = stays->busy = 1;
    asked->terms = (struct supervisor_model){.name = "asked", .count = 1, .on_demand = true};
    EXPECT_EQ(models_load(&s, asked, 1000, &err), 0);
    EXPECT_EQ(asked->wanted, 0);
    EXPECT_STR(models_state(&s, asked), "loading");
    models_turn(&s, 61000);
    EXPECT_STR(models_state(&s, asked), "loading");
    EXPECT(!asked->had_no_room);
    models_turn(&s, 61001);
    EXPECT_STR(models_state(&s, asked), "unloaded");
    EXPECT(asked->had_no_room);
    EXPECT_EQ(models_load(&s, asked, 62000, &err), 0);
    EXPECT_STR(models_state(&s, asked), "loading");
    EXPECT(!asked->had_no_room);
    models_unload(&s, asked, 63000);
    EXPECT_STR(models_state(&s, asked), "unloaded");
    EXPECT(!asked->had_no_room);
    EXPECT_EQ(stays->wanted, 1);
}

/* Two models, room for one; the folder is for what the supervisor notes of its processes. */
struct turns {
    struct supervisor_config config;
    struct supervisor s;
    struct managed_model *a, *b;
    char dir[40];
};

static bool turns_open(struct turns *t) {
    static char *const NO_FLAGS[] = {NULL};
    *t = (struct turns){.dir = "/tmp/trireme-models-XXXXXX"};
    t->a = &t->s.models[0];
    t->b = &t->s.models[1];
    t->config = (struct supervisor_config){
        .exe = "/bin/true", .run_dir = t->dir, .endpoint = "ipc:///none", .models_max = 1};
    t->s = (struct supervisor){.config = &t->config,
                               .phase = PHASE_SERVING,
                               .registered = true,
                               .model_count = 2,
                               .configured_count = 2};
    t->a->terms = (struct supervisor_model){
        .name = "a", .count = 1, .on_demand = true, .flags = NO_FLAGS, .replicas = {1, 1}};
    t->b->terms = t->a->terms;
    t->b->terms.name = "b";
    return mkdtemp(t->dir) != NULL;
}

static void turns_close(struct turns *t) {
    char command[64];
    for (size_t i = 0; i < t->s.children.count; i++)
        mem_free(t->s.children.items[i]);
    vec_release(&t->s.children);
    buf_release(&t->s.scratch);
    arena_release(&t->s.arena);
    snprintf(command, sizeof command, "rm -rf %s", t->dir);
    EXPECT_EQ(system(command), 0);
}

static void wish_use(struct turns *t, const char *model, int64_t now_ms) {
    const struct wire_want want = {.model = bytes_str(model), .wish = WIRE_WISH_USE};
    models_take_want(&t->s, &want, now_ms);
}

static void tell_of_a(struct turns *t, uint32_t running, uint64_t steps, int64_t now_ms) {
    struct wire_model_status one = {.model = bytes_str("a"),
                                    .replicas_ready = t->a->wanted,
                                    .running = running,
                                    .steps = steps};
    const struct wire_status status = {.models = &one, .model_count = 1};
    models_take_status(&t->s, &status, now_ms);
    models_turn(&t->s, now_ms);
}

/* A request asked for a; before it comes b is asked for, too. */
TEST(supervisor_models_one_that_was_asked_for_is_used_first) {
    struct turns t;
    EXPECT(turns_open(&t));
    tell_of_a(&t, 0, 7, 500); /* of a run before */
    wish_use(&t, "a", 1000);
    EXPECT_EQ(t.a->wanted, 1);
    tell_of_a(&t, 0, 7, 2000); /* ready */
    tell_of_a(&t, 0, 7, 2010);
    wish_use(&t, "b", 2020);
    EXPECT_EQ(t.a->wanted, 1);
    tell_of_a(&t, 1, 8, 3000);
    EXPECT_EQ(t.a->wanted, 1);
    tell_of_a(&t, 0, 9, 4000);
    EXPECT_EQ(t.a->wanted, 0);
    turns_close(&t);
}

TEST(supervisor_models_one_that_nobody_uses_goes_in_the_end) {
    struct turns t;
    EXPECT(turns_open(&t));
    wish_use(&t, "a", 1000);
    tell_of_a(&t, 0, 0, 2000);
    wish_use(&t, "b", 2020);
    tell_of_a(&t, 0, 0, 11999);
    EXPECT_EQ(t.a->wanted, 1);
    tell_of_a(&t, 0, 0, 12000);
    EXPECT_EQ(t.a->wanted, 0);
    turns_close(&t);
}

static void load_a(struct turns *t, int64_t now_ms) {
    struct error err;
    EXPECT_EQ(models_load(&t->s, t->a, now_ms, &err), 0);
    EXPECT_EQ(t->a->wanted, 1);
}

/* Killed by somebody, or after a minute of loading: a worker that ends so is started again, but not for ever. */
TEST(supervisor_models_a_worker_that_never_gets_ready_is_given_up) {
    struct turns t;
    EXPECT(turns_open(&t));
    load_a(&t, 1000);
    for (int i = 1; i < CHILD_FAILED_STARTS; i++)
        EXPECT(!models_worker_ended(&t.s, 0, false));
    EXPECT(models_worker_ended(&t.s, 0, false));
    EXPECT(models_worker_ended(&t.s, 0, true));
    EXPECT(models_failed(&t.s, 0, 0, "signal 9; again", 2000));
    EXPECT_STR(models_state(&t.s, t.a), "failed");
    EXPECT_STR(t.a->failure, "signal 9, again");

    load_a(&t, 3000); /* counted anew, and no more once it was ready */
    EXPECT(!models_worker_ended(&t.s, 0, false));
    tell_of_a(&t, 0, 0, 4000);
    for (int i = 0; i < 2 * CHILD_FAILED_STARTS; i++)
        EXPECT(!models_worker_ended(&t.s, 0, true));
    turns_close(&t);
}

/* A worker that was ready and ends with a fault within ten seconds, whose successor finds the weights
 * damaged, is no reason to end for a server that could start with it. */
TEST(supervisor_models_a_worker_that_was_ready_can_start) {
    const struct child_exit hopeless = {.known = true, .code = EXIT_HOPELESS};
    for (int ready = 0; ready < 2; ready++) {
        struct turns t;
        EXPECT(turns_open(&t));
        t.a->terms.count = t.a->wanted = 2;
        struct child *workers[2];
        for (uint32_t i = 0; i < 2; i++) {
            workers[i] = mem_alloc(sizeof *workers[i]);
            *workers[i] = (struct child){.role = CHILD_WORKER, .idx = 2 * i, .pidfd = -1};
            workers[i]->is_ours = true;
            vec_push(&t.s.children, workers[i]);
        }
        struct wire_model_status one = {.model = bytes_str("a"), .replicas_ready = 1};
        const struct wire_status status = {.models = &one, .model_count = 1};
        models_take_status(&t.s, &status, 1000);
        EXPECT(!workers[0]->has_lived && !workers[1]->has_lived); /* the other may be hopeless */
        one.replicas_ready = ready ? 2 : 1;
        models_take_status(&t.s, &status, 2000);
        for (int i = 0; i < 2; i++) {
            (void)child_restart_delay(workers[i], &hopeless, 3000);
            EXPECT_EQ(child_is_hopeless(workers[i]), !ready);
        }
        turns_close(&t);
    }
}

/* An operator's word counts at once where a request's waits a minute. */
TEST(supervisor_models_one_that_failed_is_tried_again_when_an_operator_says_so) {
    struct turns t;
    EXPECT(turns_open(&t));
    load_a(&t, 1000);
    EXPECT(models_failed(&t.s, 0, 0, "no", 2000));
    EXPECT(t.a->tells_failure); /* to the gateways, and again to each that asks */
    t.a->tells_failure = false;
    wish_use(&t, "a", 3000);
    EXPECT_EQ(t.a->wanted, 0);
    EXPECT(t.a->tells_failure);
    const struct wire_want want = {.model = bytes_str("a"), .wish = WIRE_WISH_LOAD};
    models_take_want(&t.s, &want, 3000);
    EXPECT_EQ(t.a->wanted, 1);
    turns_close(&t);
}

/* What serve keeps of models that are added: which places are taken. */
struct added {
    uint32_t place, forgotten;
    const char *name;
};

static int give_added(void *ctx, const char *word, uint32_t *model, struct supervisor_model *next,
                      struct error *err) {
    static char *const NO_FLAGS[] = {NULL};
    struct added *added = ctx;
    (void)err;
    *model = added->place;
    *next =
        (struct supervisor_model){.name = word, .count = 1, .flags = NO_FLAGS, .replicas = {1, 1}};
    return 0;
}

static void forget_added(void *ctx, uint32_t model) {
    struct added *added = ctx;
    added->forgotten = model;
}

/* Models may be added: each gets the place that *added says. */
static void turns_open_adding(struct turns *t, struct added *added) {
    EXPECT(turns_open(t));
    t->config.models_max = 0;
    t->config.add = give_added;
    t->config.forget = forget_added;
    t->config.renew_ctx = added;
    t->s.registered = false;
    for (size_t i = 0; i < CONTROLS_MAX; i++)
        t->s.controls[i].fd = -1;
}

TEST(supervisor_models_one_that_was_added_in_vain_leaves_its_place) {
    struct turns t;
    struct added added = {.place = 2};
    struct managed_model *first, *second, *third;
    struct error err;
    turns_open_adding(&t, &added);
    EXPECT_EQ(models_add(&t.s, "first", &first, &err), 0);
    EXPECT_EQ(models_load(&t.s, first, 1000, &err), 0);
    added.place = 3;
    EXPECT_EQ(models_add(&t.s, "second", &second, &err), 0);
    EXPECT_EQ(models_load(&t.s, second, 1000, &err), 0);
    EXPECT_EQ(t.s.model_count, 4);

    EXPECT(models_failed(&t.s, 2, 0, "no", 2000));
    t.s.controls[3] = (struct control){.fd = 1000, .waits_for = WAITS_FOR_LOAD, .model = 2};
    models_forget_leaving(&t.s); /* whoever waits is told first */
    EXPECT_STR(models_state(&t.s, first), "failed");
    t.s.controls[3].fd = -1;
    models_forget_leaving(&t.s);
    EXPECT_EQ(added.forgotten, 2);
    EXPECT(!models_has(&t.s, 2) && models_has(&t.s, 3));
    EXPECT(models_find(&t.s, bytes_str("first")) == NULL);
    EXPECT(models_find(&t.s, bytes_str("second")) == second);

    added.place = 2;
    EXPECT_EQ(models_add(&t.s, "third", &third, &err), 0);
    EXPECT(third == first && !third->leaves);
    EXPECT_EQ(t.s.model_count, 4);

    /* one that was ready once stays, whatever becomes of it */
    struct wire_model_status one = {.model = bytes_str("second"), .replicas_ready = 1};
    const struct wire_status status = {.models = &one, .model_count = 1};
    models_take_status(&t.s, &status, 3000);
    EXPECT(models_failed(&t.s, 3, 0, "no", 4000));
    models_forget_leaving(&t.s);
    EXPECT_STR(models_state(&t.s, second), "failed");
    turns_close(&t);
}

TEST(supervisor_models_one_that_is_removed_leaves_its_place) {
    struct turns t;
    struct added added = {.place = 2};
    struct managed_model *one;
    struct error err;
    turns_open_adding(&t, &added);
    EXPECT_EQ(models_add(&t.s, "one", &one, &err), 0);
    EXPECT_EQ(models_load(&t.s, one, 1000, &err), 0);
    EXPECT_EQ(models_remove(&t.s, t.a, 2000, &err), ERR_UNSUPPORTED);
    EXPECT(strstr(err.text, "'a' was given") && !t.a->leaves);
    EXPECT_EQ(models_remove(&t.s, one, 2000, &err), 0);
    EXPECT_EQ(one->wanted, 0);
    EXPECT_EQ(models_load(&t.s, one, 2500, &err), 0); /* somebody wants it after all */
    models_forget_leaving(&t.s);
    EXPECT(models_has(&t.s, 2));
    EXPECT_EQ(models_remove(&t.s, one, 3000, &err), 0);
    models_forget_leaving(&t.s);
    EXPECT_EQ(added.forgotten, 2);
    EXPECT(!models_has(&t.s, 2) && t.s.model_count == 2);
    struct state_file state; /* the next supervisor does not look for it */
    EXPECT_EQ(state_file_read(&state, t.dir, &err), 0);
    EXPECT_EQ(state.model_count, 2);
    state_file_release(&state);
    turns_close(&t);
}

static void first_status(struct turns *t, const char *named) {
    struct wire_model_status one = {.model = bytes_str(named)};
    const struct wire_status status = {.models = &one, .model_count = 1};
    t->s.awaits_status = true;
    models_take_status(&t->s, &status, 2000);
    models_turn(&t->s, 2000);
}

TEST(supervisor_models_one_that_was_added_is_told_to_the_next_scheduler) {
    struct turns t;
    EXPECT(turns_open(&t));
    t.s.configured_count = 1; /* b was added */
    t.b->later = true;
    first_status(&t, "b"); /* of the same scheduler */
    EXPECT_EQ(t.b->wanted, 0);
    const struct wire_model_status a = {.model = bytes_str("a")}; /* not the first: b comes later */
    models_take_status(&t.s, &(struct wire_status){.models = &a, .model_count = 1}, 2000);
    models_turn(&t.s, 2000);
    EXPECT_EQ(t.b->wanted, 0);
    t.a->wanted = t.a->replicas_ready = 1; /* it need not go for that */
    first_status(&t, "a");
    EXPECT_EQ(t.b->wanted, 0);
    EXPECT_EQ(t.a->wanted, 1);
    models_unload(&t.s, t.a, 3000);
    t.b->failed_ms = 3000;
    models_turn(&t.s, 3000);
    EXPECT_EQ(t.b->wanted, 0);
    t.b->failed_ms = 0;
    t.b->leaves = true;
    models_turn(&t.s, 3000);
    EXPECT_EQ(t.b->wanted, 0);
    t.b->leaves = false;
    models_turn(&t.s, 4000);
    EXPECT_EQ(t.b->wanted, 1);
    EXPECT_EQ(t.a->wanted, 0); /* gateways were told of it when they began */
    turns_close(&t);
}

/* Nothing unloads the other one but a command. */
TEST(supervisor_models_a_load_that_can_have_no_room_ends_at_once) {
    struct turns t;
    struct error err;
    EXPECT(turns_open(&t));
    t.a->terms.on_demand = false;
    t.a->terms.memory_bytes = 60;
    t.b->terms.memory_bytes = 50;
    t.a->wanted = t.a->replicas_ready = 1;
    EXPECT_EQ(models_load(&t.s, t.b, 1000, &err), ERR_LIMIT);
    EXPECT(strstr(err.text, "no room for 'b'") && strstr(err.text, "unload one first"));
    EXPECT_STR(models_state(&t.s, t.b), "unloaded");
    t.config.models_max = 2;
    t.config.models_memory = 100;
    EXPECT_EQ(models_load(&t.s, t.b, 1000, &err), ERR_LIMIT);
    t.a->wanted = 0; /* a command unloads it */
    EXPECT_EQ(models_load(&t.s, t.b, 2000, &err), 0);
    EXPECT_EQ(t.b->wanted, 1);
    turns_close(&t);
}

/* What a supervisor before this one left: a was loaded, b, which is not on demand, was not; and a worker of a's. */
static void leave_state(struct turns *t, const struct child *worker, uint64_t start_ticks) {
    struct state_file state = {.model_count = 2, .workers = {{1, 1}, {0, 1}}};
    struct error err;
    const struct state_child row = {
        .role = CHILD_WORKER, .pid = worker->pid, .start_ticks = start_ticks};
    vec_push(&state.children, row);
    EXPECT_EQ(state_file_write(&state, t->dir, &err), 0);
    state_file_release(&state);
}

TEST(supervisor_models_are_gone_on_with_only_where_a_process_runs_on) {
    static char *argv[] = {"sleep", "60", NULL};
    struct child worker = {.role = CHILD_WORKER, .pidfd = -1};
    struct error err;
    int gate;
    if (child_start(&worker, "/bin/sleep", argv, NULL, &gate, &err))
        check_fail(__FILE__, __LINE__, "no process: %s", err.text);
    for (int runs = 0; runs < 2; runs++) {
        struct turns t;
        EXPECT(turns_open(&t));
        t.b->terms.on_demand = false;
        t.s.registered = false;
        t.s.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        leave_state(&t, &worker, worker.start_ticks + !runs); /* or its number is another's now */
        children_adopt(&t.s, 1000);
        EXPECT_EQ(t.s.children.count, 1);
        EXPECT_EQ(t.a->wanted, runs);
        EXPECT_EQ(t.b->wanted, !runs);
        EXPECT(t.a->later && !t.b->later);
        if (runs)
            close(t.s.children.items[0]->pidfd);
        close(t.s.epoll_fd);
        turns_close(&t);
    }
    child_signal(&worker, SIGKILL);
    child_open_gate(gate, false);
    EXPECT_EQ(waitpid(worker.pid, NULL, 0), worker.pid);
    close(worker.pidfd);
}

/* What a client hears of a command that ended: scratch has the message, which is not sent. */
/* Whoever asks what cannot be learns why. */
TEST(supervisor_adds_say_why_nothing_is_begun) {
    static const struct {
        const char *model, *text;
        enum wire_wish wish;
        bool gone, full, drains;
    } ROWS[] = {
        {"/m", "draining", WIRE_WISH_LOAD, false, false, true},
        {"-m", "that is neither a path nor a hub's name", WIRE_WISH_LOAD, false, false, false},
        {"", "that is neither a path nor a hub's name", WIRE_WISH_LOAD, false, false, false},
        {"nobody", SUPERVISOR_WHICH, WIRE_WISH_REMOVE, true, false, false},
        {"/m", "other models are being added or removed; try again when that is done",
         WIRE_WISH_LOAD, false, true, false},
        {"a", "other models are being added or removed; try again when that is done",
         WIRE_WISH_REMOVE, false, true, false},
    };
    struct turns t;
    EXPECT(turns_open(&t));
    t.s.registered = false;
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct wire_outcome outcome;
        struct error err;
        for (int k = 0; k < ADDS_MAX; k++)
            t.s.adds[k] = (struct add_job){.pid = ROWS[i].full ? 1000 : 0};
        t.s.phase = ROWS[i].drains ? PHASE_GATEWAYS : PHASE_SERVING;
        adds_begin(&t.s, &(struct wire_want){.model = bytes_str(ROWS[i].model),
                                             .wish = ROWS[i].wish,
                                             .ticket = {.lo = i, .hi = 1}});
        EXPECT_EQ(message_unpack_outcome(buf_bytes(&t.s.scratch), &t.s.arena, &outcome, &err), 0);
        EXPECT(outcome.ticket.lo == i && !outcome.done && outcome.gone == ROWS[i].gone);
        EXPECT(bytes_equal(outcome.text, bytes_str(ROWS[i].text)));
    }
    turns_close(&t);
}

/* To gateways that are not there nothing is told twice: they ask again. */
TEST(supervisor_models_what_became_of_a_load_is_told_once) {
    struct turns t;
    struct wire_outcome outcome;
    struct error err;
    EXPECT(turns_open(&t));
    t.s.registered = false;
    for (int failed = 0; failed < 2; failed++) {
        t.b->tells_failure = failed;
        t.b->tells_load = !failed;
        snprintf(t.b->failure, sizeof t.b->failure, "torn");
        models_tell_outcomes(&t.s);
        EXPECT_EQ(message_unpack_outcome(buf_bytes(&t.s.scratch), &t.s.arena, &outcome, &err), 0);
        EXPECT(bytes_equal(outcome.model, bytes_str("b")) && outcome.done == !failed);
        EXPECT(bytes_equal(outcome.text, bytes_str(failed ? "torn" : "")));
        EXPECT(!t.b->tells_failure && !t.b->tells_load);
    }
    turns_close(&t);
}

TEST(supervisor_adds_tell_the_last_line_of_the_command) {
    static const struct {
        const char *script, *text;
        bool done;
    } ROWS[] = {
        {"echo 50 percent; echo 'trireme load: no room'; exit 1", "no room", false},
        {"printf '50 percent\\r100 percent\\r\\ntrireme remove: busy\\n\\n'; exit 1", "busy",
         false},
        {"printf 'no line of ours'; exit 2", "no line of ours", false},
        {"exit 1", "the command ended without a word", false},
        {"echo; exit 1", "the command ended without a word", false},
        {"echo loaded; exit 0", "", true},
    };
    struct turns t;
    char path[64];
    EXPECT(turns_open(&t));
    log_init("test", LOG_ERROR, false);
    snprintf(path, sizeof path, "%s/command", t.dir);
    t.config.exe = path;
    t.s.registered = false;
    t.s.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct wire_want want = {.model = bytes_str("/m"), .ticket = {.lo = i, .hi = 1}};
        struct wire_outcome outcome;
        struct epoll_event event;
        struct error err;
        char text[256];
        int len = snprintf(text, sizeof text, "#!/bin/sh\n%s\n", ROWS[i].script);
        EXPECT_EQ(file_write_atomic(path, text, (size_t)len, 0700, &err), 0);
        adds_begin(&t.s, &want);
        EXPECT(t.s.adds[0].pid > 0);
        while (t.s.adds[0].pid)
            if (epoll_wait(t.s.epoll_fd, &event, 1, 30000) == 1)
                adds_read(&t.s, 0);
        EXPECT_EQ(message_unpack_outcome(buf_bytes(&t.s.scratch), &t.s.arena, &outcome, &err), 0);
        EXPECT_EQ(outcome.ticket.lo, i);
        EXPECT_EQ(outcome.done, ROWS[i].done);
        EXPECT(bytes_equal(outcome.text, bytes_str(ROWS[i].text)));
    }
    close(t.s.epoll_fd);
    turns_close(&t);
}
