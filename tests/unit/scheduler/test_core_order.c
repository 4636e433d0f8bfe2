/*
 * The stated order of work under random load, by what a worker sees alone: tenants' shares, order
 * within a tenant, and that nobody starves. One worker with one step in flight, so that
 * each plan is the whole decision. Bounds follow from what may have a place before its turn.
 */
#include "stage.h"

enum { LOAD = 120, TENANTS = 3, PLACES = 4, PROMPT_MAX = 40, OUTPUT_MAX = 20 };

struct job {
    uint32_t tenant, prompt, output;
    int32_t priority;
    bool admitted;
};
struct load {
    struct stage *stage;
    struct stage_worker *w;
    struct job jobs[LOAD];
    uint64_t served[TENANTS]; /* positions computed */
};

static struct load *load_new(uint32_t places) {
    struct load *load = mem_alloc(sizeof *load);
    struct sched_config config;
    sched_config_default(&config);
    config.waiting_max = LOAD;
    load->stage = stage_new(&config);
    load->w = stage_worker(load->stage, 0);
    load->w->hello.slot_count = places;
    load->w->hello.steps_in_flight = 1;
    CHECK(stage_hello(load->stage, load->w) == 0);
    return load;
}

static void load_free(struct load *load) {
    stage_free(load->stage);
    mem_free(load);
}

static void submit(struct load *load, uint32_t i) {
    struct job *job = &load->jobs[i];
    struct wire_submit submit = stage_submit(load->stage, i, job->prompt, job->output, i);
    submit.tenant = (struct u128){1 + job->tenant, 0};
    submit.priority = job->priority;
    stage_send(load->stage, &submit);
}

/* The jobs that a tenant has and that were never in a plan. */
static uint32_t waiting_of(const struct load *load, uint32_t tenant) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < LOAD; i++)
        count += load->jobs[i].tenant == tenant && !load->jobs[i].admitted;
    return count;
}

/* Of one tenant: does x come before y? They came in the order of their numbers. */
static bool goes_before(const struct load *load, uint32_t x, uint32_t y) {
    const struct job *a = &load->jobs[x], *b = &load->jobs[y];
    return a->priority != b->priority ? a->priority < b->priority : x < y;
}

/* Those that go before one that is admitted have been placed, so they have a place of the worker's:
 * at most as many as it has, less this one's. */
static bool is_in_order(const struct load *load, uint32_t job) {
    uint32_t passed = 0;
    for (uint32_t i = 0; i < LOAD; i++)
        passed += load->jobs[i].tenant == load->jobs[job].tenant && !load->jobs[i].admitted &&
                  goes_before(load, i, job);
    return passed < load->w->hello.slot_count;
}

/* One plan: what it says of admissions and rows. false: there was none. */
static bool turn(struct load *load, bool *in_order) {
    stage_run(load->stage);
    if (!load->w->results.count)
        return false;
    const struct stage_result *r = &load->w->results.items[0];
    for (size_t i = 0; i < r->row_count; i++) {
        uint32_t job = (uint32_t)(load->w->slots[r->slots[i]].request.lo - stage_id(0).lo);
        if (!load->jobs[job].admitted)
            *in_order = *in_order && is_in_order(load, job);
        load->jobs[job].admitted = true;
        load->served[load->jobs[job].tenant] += r->lens[i];
    }
    stage_answer(load->stage, load->w);
    load->stage->now++;
    return true;
}

static void draw(struct load *load, uint32_t priorities) {
    for (uint32_t i = 0; i < LOAD; i++)
        load->jobs[i] = (struct job){.tenant = (uint32_t)(check_random() % TENANTS),
                                     .prompt = 1 + (uint32_t)(check_random() % PROMPT_MAX),
                                     .output = 1 + (uint32_t)(check_random() % OUTPUT_MAX),
                                     .priority = (int32_t)(check_random() % priorities)};
}

/* What has a place runs to its end, whoever's it is: so far may two tenants be apart that both
 * wait. The first has sent nine times as much as another. */
TEST(order_tenants_that_wait_are_served_alike) {
    for (int round = 0; round < 10; round++) {
        struct load *load = load_new(PLACES);
        bool in_order = true;
        draw(load, 3);
        for (uint32_t i = 0; i < LOAD; i++)
            load->jobs[i].tenant = i < LOAD * 6 / 10 ? 0 : i < LOAD * 9 / 10 ? 1 : 2;
        for (uint32_t i = 0; i < LOAD; i++)
            submit(load, i);
        uint64_t apart = 0;
        while (waiting_of(load, 0) && waiting_of(load, 1) && waiting_of(load, 2)) {
            EXPECT(turn(load, &in_order));
            for (int k = 0; k < 9; k++) {
                uint64_t a = load->served[k / 3], b = load->served[k % 3];
                apart = MAX(apart, a > b ? a - b : b - a);
            }
        }
        EXPECT(apart <= (PLACES + 1) * (PROMPT_MAX + OUTPUT_MAX));
        EXPECT(in_order);
        load_free(load);
    }
}

/* How many turns the last one waits that comes when all others have: until a place is free, which
 * the longest output holds, one turn to be placed and one for its prompt. */
static uint32_t turns_of_the_last(uint32_t tenant, int32_t priority) {
    struct load *load = load_new(PLACES);
    bool in_order = true;
    uint32_t turns = 0;
    draw(load, 1);
    for (uint32_t i = 0; i < LOAD; i++)
        load->jobs[i].tenant = 0;
    load->jobs[LOAD - 1].tenant = tenant;
    load->jobs[LOAD - 1].priority = priority;
    for (uint32_t i = 0; i < LOAD - 1; i++)
        submit(load, i);
    for (uint64_t n = 10 + check_random() % 20; n; n--)
        CHECK(turn(load, &in_order));
    submit(load, LOAD - 1);
    for (; !load->jobs[LOAD - 1].admitted; turns++)
        CHECK(turn(load, &in_order));
    load_free(load);
    return turns;
}

TEST(order_nobody_waits_behind_a_flood) {
    for (int round = 0; round < 10; round++) {
        EXPECT(turns_of_the_last(1, 0) <= OUTPUT_MAX + 2);  /* of another tenant */
        EXPECT(turns_of_the_last(0, -1) <= OUTPUT_MAX + 2); /* more important than the rest */
        EXPECT(turns_of_the_last(0, 1) > OUTPUT_MAX + 2);   /* less */
    }
}
