/* Which models are loaded, without any process: who has room, and who goes. */
#include "check.h"
#include "cli/supervisor_internal.h"

#include <stdio.h>
#include <stdlib.h>

TEST(supervisor_models_a_load_without_room_is_given_up_after_a_minute) {
    const struct supervisor_config config = {.models_max = 1};
    struct supervisor s = {.config = &config,
                           .phase = PHASE_SERVING,
                           .registered = true,
                           .model_count = 2,
                           .configured_count = 2};
    struct managed_model *stays = &s.models[0], *asked = &s.models[1];
    struct error err;
    stays->terms = (struct supervisor_model){.name = "stays", .count = 1};
    stays->wanted = stays->replicas_ready = 1;
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
