/*
 * Traces replayed in a simulated cluster: nobody is lost, nothing is made up, and the cache finds what a
 * plain model of a cache says it must.
 */
#include "check.h"

#include "base/buf.h"
#include "replay/report.h"
#include "replay/synthetic.h"

/* ---- What must hold of every replay ---- */

/* NULL, or what does not. */
static const char *complaint(const struct replay_config *config, const struct bench_trace *trace,
                             const struct replay_result *result) {
    uint64_t output = 0;
    for (size_t i = 0; i < result->outcomes.count; i++) {
        const struct replay_outcome *o = &result->outcomes.items[i];
        const struct bench_trace_request *r = &trace->requests.items[o->request];
        if (o->state == REPLAY_OPEN)
            return "a request was lost";
        if (o->state == REPLAY_REFUSED && o->output)
            return "a refused request has output";
        if (o->state == REPLAY_ANSWERED && o->output != MAX(r->output, 1u))
            return "an answer has not the trace's length";
        if (o->state == REPLAY_ANSWERED && (o->first_us < o->sent_us || o->last_us < o->first_us))
            return "an answer goes back in time";
        if (o->cached >= r->input)
            return "a whole prompt was cached: nothing would be left to compute";
        output += o->output;
    }
    if (output != result->counts.output_tokens)
        return "the core counts other tokens than the gateways got";
    if (result->faults)
        return "a message was not as promised";
    if (!result->idle)
        return "something is left in the core";
    if (config->until == 0 && result->outcomes.count != trace->requests.count * config->copies)
        return "not all requests were sent";
    return NULL;
}
#define EXPECT_SOUND(config, trace, result)                                                        \
    do {                                                                                           \
        const char *why_ = complaint(config, trace, result);                                       \
        if (why_) {                                                                                \
            check_fail(__FILE__, __LINE__, "%s", why_);                                            \
            return;                                                                                \
        }                                                                                          \
    } while (0)

static size_t count_state(const struct replay_result *result, enum replay_state state) {
    size_t count = 0;
    for (size_t i = 0; i < result->outcomes.count; i++)
        count += result->outcomes.items[i].state == state;
    return count;
}

static uint64_t cached_tokens(const struct replay_result *result) {
    uint64_t count = 0;
    for (size_t i = 0; i < result->outcomes.count; i++)
        count += result->outcomes.items[i].cached;
    return count;
}

/* Llama 3.1 8B on an H100. */
static const struct replay_cost COST = {.parameters = 8.03e9,
                                        .weight_bytes = 16.06e9,
                                        .kv_bytes = 131072,
                                        .attention_width = 131072,
                                        .operations = 593.4e12,
                                        .bandwidth = 2.7805e12};

/* Small replicas; everything is asserted after each turn. */
static void configure(struct replay_config *config, uint32_t replicas) {
    *config = (struct replay_config){.cost = COST,
                                     .replicas = replicas,
                                     .slots = 16,
                                     .block_tokens = 32,
                                     .block_count = 2000,
                                     .max_step_tokens = 2048,
                                     .max_context = 131072,
                                     .steps_in_flight = 2,
                                     .gateways = 2,
                                     .tenants = 1,
                                     .copies = 1,
                                     .speed = 1,
                                     .check = true};
    sched_config_default(&config->sched);
}

static const struct replay_synthetic TALKS = {.requests = 300,
                                              .seconds = 60,
                                              .conversations = 20,
                                              .input = 700,
                                              .output = 20,
                                              .input_max = 8000,
                                              .seed = 5};

/* ---- A cache as plain as can be: a list of names in the order in which they would be given up ---- */

struct plain_cache {
    uint32_t capacity; /* blocks; 0: no bound */
    VEC(uint64_t)
    names; /* those nobody uses, the first goes first; 0: holds nothing that is found */
};

/* The names of the first `count` blocks of `size` tokens of a request's prompt and answer: equal exactly
 * where all tokens up to there are. Every answer is zeros, which no prompt has (nearly), so behind the
 * prompt's full blocks it takes an equal prompt. */
static void name_blocks(const struct bench_trace *trace, size_t request, uint32_t size,
                        size_t count, uint64_t *out) {
    const struct bench_trace_request *r = &trace->requests.items[request];
    uint64_t chain = 1;
    for (size_t i = 0, hashed = 0; i < count; i++) {
        size_t block = MIN(i * size / BENCH_TRACE_BLOCK, r->hash_count - 1);
        for (; hashed <= block; hashed++)
            chain = (chain + trace->hashes.items[r->hash_first + hashed] + 1) *
                    UINT64_C(6364136223846793005);
        if (i == r->input / size)
            chain = (chain + r->input) * UINT64_C(0xd1342543de82ef95);
        out[i] = (chain + i) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    }
}

static size_t position_of(const struct plain_cache *cache, uint64_t name) {
    size_t at = 0;
    while (at < cache->names.count && cache->names.items[at] != name)
        at++;
    return at;
}

static void take_at(struct plain_cache *cache, size_t at) {
    cache->names.count--;
    for (; at < cache->names.count; at++)
        cache->names.items[at] = cache->names.items[at + 1];
}

static void put_back(struct plain_cache *cache, uint64_t name) {
    size_t at = cache->names.count;
    while (!name && at && cache->names.items[at - 1])
        at--; /* what holds nothing goes before all that does */
    vec_push(&cache->names, name);
    for (size_t i = cache->names.count - 1; i > at; i--)
        cache->names.items[i] = cache->names.items[i - 1];
    cache->names.items[at] = name;
}

/* A request that runs alone: tokens of its prompt that are found. */
static uint32_t run_alone(struct plain_cache *cache, const struct bench_trace *trace,
                          size_t request, uint32_t size) {
    const struct bench_trace_request *r = &trace->requests.items[request];
    /* the last token that is sampled is never computed */
    size_t computed = r->input + MAX(r->output, 1u) - 1, hashed = computed / size;
    size_t blocks = (computed + size - 1) / size, most = (r->input - 1) / size, found = 0;
    uint64_t *names = mem_calloc(hashed + 1, sizeof *names);
    name_blocks(trace, request, size, hashed, names);
    for (; found < most; found++) {
        size_t at = position_of(cache, names[found]);
        if (at == cache->names.count)
            break;
        take_at(cache, at);
    }
    for (size_t i = found; i < blocks && cache->capacity; i++)
        take_at(cache, 0);
    for (size_t i = blocks; i-- > 0;) {
        bool twice = i >= found && i < hashed && position_of(cache, names[i]) < cache->names.count;
        put_back(cache, twice || i >= hashed ? 0 : names[i]);
    }
    mem_free(names);
    return (uint32_t)found * size;
}

/* ---- Tests ---- */

TEST(steps_take_what_they_compute_and_read) {
    struct replay_work decode = {0}, prompt = {0};
    replay_work_add(&decode, 1023, 1);
    EXPECT_EQ(decode.positions, 1);
    EXPECT_EQ(decode.context, 1024);
    EXPECT(decode.pairs == 1024);
    /* 16.06 GB and 1024 times 128 KiB at 2.7805 TB/s */
    EXPECT_EQ(replay_step_us(&COST, &decode), (int64_t)((16.06e9 + 1024 * 131072.0) / 2.7805e6));
    replay_work_add(&prompt, 100, 2048);
    double pairs = 0;
    for (int i = 0; i < 2048; i++)
        pairs += 101 + i;
    EXPECT(prompt.pairs == pairs);
    EXPECT_EQ(replay_step_us(&COST, &prompt),
              (int64_t)((2 * 8.03e9 * 2048 + 4.0 * 131072 * pairs) / 593.4e6));
}

TEST(a_lone_request_takes_the_time_of_its_steps) {
    struct replay_synthetic one = {.requests = 1, .input = 5000, .output = 40, .seed = 3};
    struct bench_trace trace;
    struct replay_config config;
    struct replay_result result;
    replay_synthetic_make(&one, &trace);
    configure(&config, 3);
    replay_run(&config, &trace, &result);
    EXPECT_SOUND(&config, &trace, &result);
    uint32_t input = trace.requests.items[0].input, output = trace.requests.items[0].output;
    int64_t us = 0, first_us = 0;
    for (uint32_t done = 0; done < input + output - 1;) {
        uint32_t count = done < input ? MIN(input - done, config.max_step_tokens) : 1;
        struct replay_work work = {0};
        replay_work_add(&work, done, count);
        us += replay_step_us(&config.cost, &work);
        done += count;
        if (done == input)
            first_us = us;
    }
    /* the trace's first millisecond is turn 1, and what a step brings is seen in the turn after its end */
    int64_t begun_us = 1000;
    EXPECT_EQ(result.outcomes.items[0].first_us, (begun_us + first_us + 999) / 1000 * 1000);
    /* the last step of the prompt is shorter than those before it, so the plan that was kept back behind it
     * (plan.h) goes out when its end is seen: up to a turn later */
    int64_t last_us = (begun_us + us + 999) / 1000 * 1000;
    EXPECT(result.outcomes.items[0].last_us == last_us ||
           result.outcomes.items[0].last_us == last_us + 1000);
    replay_result_release(&result);
    bench_trace_release(&trace);
}

TEST(one_after_the_other_finds_exactly_what_a_plain_cache_finds) {
    /* the smaller ones evict; the largest request has 8000 tokens, 252 blocks */
    static const uint32_t capacities[] = {260, 400, 900, 100000};
    for (size_t k = 0; k < ARRAY_LEN(capacities); k++) {
        struct replay_synthetic talks = TALKS;
        struct bench_trace trace;
        struct replay_config config;
        struct replay_result result;
        struct plain_cache cache = {.capacity = capacities[k]};
        talks.seconds = 100000;
        talks.requests = 150;
        talks.seed = check_random();
        replay_synthetic_make(&talks, &trace);
        /* each has long been answered when the next one comes */
        for (size_t i = 1; i < trace.requests.count; i++)
            trace.requests.items[i].at =
                MAX(trace.requests.items[i].at, trace.requests.items[i - 1].at + 100);
        configure(&config, 1);
        config.block_count = capacities[k];
        config.check = k == 0;
        replay_run(&config, &trace, &result);
        EXPECT_SOUND(&config, &trace, &result);
        for (uint32_t i = 0; i < cache.capacity; i++)
            vec_push(&cache.names, 0);
        uint64_t total = 0;
        for (size_t i = 0; i < result.outcomes.count; i++) {
            uint32_t expected = run_alone(&cache, &trace, i, config.block_tokens);
            EXPECT_EQ(result.outcomes.items[i].cached, expected);
            total += expected;
        }
        EXPECT(total > 0 && (result.counts.evictions > 0) == (k < 3));
        vec_release(&cache.names);
        replay_result_release(&result);
        bench_trace_release(&trace);
    }
}

/* What each request finds at most: all that any request before it shares with it. */
static void most_that_can_be_found(const struct bench_trace *trace,
                                   const struct replay_result *result, uint32_t size,
                                   uint32_t *out) {
    struct plain_cache cache = {0};
    for (size_t i = 0; i < result->outcomes.count; i++) {
        size_t request = result->outcomes.items[i].request;
        uint32_t input = trace->requests.items[request].input;
        size_t full = input / size, found = 0;
        uint64_t *names = mem_calloc(full + 1, sizeof *names);
        name_blocks(trace, request, size, full, names);
        while (found < full && position_of(&cache, names[found]) < cache.names.count)
            found++;
        out[i] = (uint32_t)MIN(found, (input - 1) / size) * size;
        for (size_t k = found; k < full; k++)
            vec_push(&cache.names, names[k]);
        mem_free(names);
    }
    vec_release(&cache.names);
}

TEST(a_thousand_replicas_find_what_was_there) {
    struct replay_synthetic talks = TALKS;
    struct bench_trace trace;
    struct replay_config config;
    struct replay_result result;
    talks.requests = 100;
    talks.seconds = 60; /* some overlap, many do not */
    talks.seed = check_random();
    replay_synthetic_make(&talks, &trace);
    configure(&config, 1000);
    config.check = false;
    config.block_count = 3000; /* one replica could hold all */
    replay_run(&config, &trace, &result);
    EXPECT_SOUND(&config, &trace, &result);
    EXPECT_EQ(count_state(&result, REPLAY_ANSWERED), trace.requests.count);
    EXPECT_EQ(result.counts.evictions, 0);
    uint32_t *most = mem_calloc(trace.requests.count, sizeof *most);
    most_that_can_be_found(&trace, &result, config.block_tokens, most);
    int64_t quiet_us = 0; /* from then on nothing runs */
    size_t quiet_count = 0;
    for (size_t i = 0; i < result.outcomes.count; i++) {
        const struct replay_outcome *o = &result.outcomes.items[i];
        EXPECT(o->cached <= most[i]);
        /* every replica costs the same then, but for what it holds: the whole prompt of each request
         * before is on the replica that had it */
        if (o->sent_us > quiet_us)
            EXPECT_EQ(o->cached, most[i]);
        quiet_count += o->sent_us > quiet_us;
        quiet_us = MAX(quiet_us, o->last_us);
    }
    EXPECT(quiet_count > 10 && quiet_count < 100);
    mem_free(most);
    replay_result_release(&result);
    bench_trace_release(&trace);
}

/* All prompts begin alike, and one cache holds a part of what all of them together could. */
TEST(the_caches_of_an_idle_cluster_are_all_used) {
    uint64_t found[3];
    static const uint32_t replicas[] = {1, 10, 10}, blocks[] = {600, 600, 100000};
    for (size_t k = 0; k < ARRAY_LEN(found); k++) {
        struct replay_synthetic talks = TALKS;
        struct bench_trace trace;
        struct replay_config config;
        struct replay_result result;
        talks.seconds = 100000;
        replay_synthetic_make(&talks, &trace);
        configure(&config, replicas[k]);
        config.check = false;
        config.block_count = blocks[k];
        replay_run(&config, &trace, &result);
        EXPECT_SOUND(&config, &trace, &result);
        found[k] = cached_tokens(&result);
        replay_result_release(&result);
        bench_trace_release(&trace);
    }
    EXPECT(found[0] * 2 < found[1]);
    EXPECT(found[1] > found[2] * 8 / 10);
}

/* A long beginning that all have in common, and more requests than one replica answers quickly: all
 * replicas take part, or most, so that an answer takes at most twice what it takes alone. */
TEST(a_beginning_that_all_ask_for_spreads) {
    struct bench_trace trace = {0};
    struct replay_config config;
    struct replay_result result;
    struct replay_figures figures;
    enum { BLOCKS = 16, REQUESTS = 1000 };
    for (size_t i = 0; i < REQUESTS; i++) {
        struct bench_trace_request request = {.at = (double)i / 20,
                                              .input = BLOCKS * BENCH_TRACE_BLOCK + 300,
                                              .output = 300,
                                              .hash_first = trace.hashes.count,
                                              .hash_count = BLOCKS + 1};
        for (size_t k = 0; k < BLOCKS; k++)
            vec_push(&trace.hashes, k);
        vec_push(&trace.hashes, 1000 + i);
        vec_push(&trace.requests, request);
    }
    configure(&config, 8);
    config.check = false;
    config.slots = 256;
    config.block_count = 12500;
    config.warm = 20;
    replay_run(&config, &trace, &result);
    EXPECT_SOUND(&config, &trace, &result);
    replay_figures(&config, &trace, &result, &figures);
    EXPECT(result.window.busy > 0.6);
    EXPECT(figures.cached_tokens * 100 > figures.prompt_tokens * 95);
    EXPECT(figures.e2e.p99 < 2 * 300 * 6); /* a step of one row takes 6 ms */
    replay_result_release(&result);
    bench_trace_release(&trace);
}

TEST(a_thousand_busy_replicas_lose_nothing) {
    struct replay_synthetic alone = {
        .requests = 4000, .seconds = 2, .input = 600, .output = 30, .seed = 9};
    struct bench_trace trace;
    struct replay_config config;
    struct replay_result result;
    replay_synthetic_make(&alone, &trace);
    configure(&config, 1000);
    config.check = false;
    config.block_count = 400;
    config.tenants = 7;
    replay_run(&config, &trace, &result);
    EXPECT_SOUND(&config, &trace, &result);
    EXPECT_EQ(count_state(&result, REPLAY_ANSWERED), trace.requests.count);
    EXPECT_EQ(cached_tokens(&result), 0);
    EXPECT(result.window.busy > 0.1 && result.window.busy <= 1);
    EXPECT_EQ(result.all.submits, trace.requests.count);
    EXPECT_EQ(result.all.steps, result.counts.steps);
    replay_result_release(&result);
    bench_trace_release(&trace);
}

TEST(one_seed_is_one_result) {
    struct bench_trace trace;
    uint64_t digests[3];
    replay_synthetic_make(&TALKS, &trace);
    for (int i = 0; i < 3; i++) {
        struct replay_config config;
        struct replay_result result;
        configure(&config, 4);
        config.check = false;
        config.copies = 3;
        config.tenants = 5;
        config.seed = i == 2;
        replay_run(&config, &trace, &result);
        EXPECT_SOUND(&config, &trace, &result);
        digests[i] = result.digest;
        replay_result_release(&result);
    }
    EXPECT(digests[0] == digests[1] && digests[0] != digests[2]);
    bench_trace_release(&trace);
}

TEST(copies_share_no_prompts_and_keep_the_rate) {
    struct replay_synthetic talks = TALKS;
    struct bench_trace trace;
    struct replay_config config;
    struct replay_result one, four;
    talks.conversations = 1; /* all begins alike */
    talks.seconds = 30000;
    replay_synthetic_make(&talks, &trace);
    configure(&config, 1);
    config.check = false;
    config.block_count = 100000;
    replay_run(&config, &trace, &one);
    EXPECT_SOUND(&config, &trace, &one);
    config.copies = 4;
    config.speed = 2;
    replay_run(&config, &trace, &four);
    EXPECT_SOUND(&config, &trace, &four);
    /* a copy finds what it would alone: but that it goes round, which cuts a talk in two */
    EXPECT(cached_tokens(&one) > 0 && cached_tokens(&four) <= 4 * cached_tokens(&one) + 4 * 8000);
    EXPECT(cached_tokens(&four) >= 4 * cached_tokens(&one) - 4 * 8000);
    EXPECT(four.window.seconds * 2 > 0.9 * one.window.seconds &&
           four.window.seconds * 2 < 1.1 * one.window.seconds);
    replay_result_release(&one);
    replay_result_release(&four);
    bench_trace_release(&trace);
}

TEST(who_gives_way_is_answered_whole_all_the_same) {
    struct replay_synthetic alone = {
        .requests = 60, .seconds = 1, .input = 300, .output = 400, .seed = 2};
    struct bench_trace trace;
    struct replay_config config;
    struct replay_result result;
    replay_synthetic_make(&alone, &trace);
    configure(&config, 2);
    config.block_count = 120; /* 3840 tokens: some ten begin, and cannot all end */
    config.sched.wait_max_ms = 0;
    replay_run(&config, &trace, &result);
    EXPECT_SOUND(&config, &trace, &result);
    EXPECT_EQ(count_state(&result, REPLAY_ANSWERED), trace.requests.count);
    EXPECT(result.counts.preemptions > 0);
    replay_result_release(&result);
    bench_trace_release(&trace);
}

TEST(what_is_too_much_is_refused_and_told) {
    struct replay_synthetic alone = {
        .requests = 2000, .seconds = 10, .input = 800, .output = 200, .seed = 4};
    struct bench_trace trace;
    struct replay_config config;
    struct replay_result result;
    struct replay_figures figures;
    replay_synthetic_make(&alone, &trace);
    configure(&config, 2);
    config.check = false;
    config.tenants = 4;
    config.sched.wait_max_ms = 2000;
    replay_run(&config, &trace, &result);
    EXPECT_SOUND(&config, &trace, &result);
    replay_figures(&config, &trace, &result, &figures);
    EXPECT(figures.refused > trace.requests.count / 4 && figures.answered > 100);
    EXPECT_EQ(figures.refused + figures.answered, trace.requests.count);
    EXPECT_EQ(figures.open, 0);
    for (size_t i = 0; i < result.outcomes.count; i++)
        if (result.outcomes.items[i].state == REPLAY_REFUSED)
            EXPECT_EQ(result.outcomes.items[i].code, WIRE_REJECT_OVERLOADED);
    EXPECT(figures.least_share > 0.8 && figures.most_share < 1.2);
    EXPECT(figures.ttft.p50 <= figures.ttft.p90 && figures.ttft.p90 <= figures.ttft.p99);
    EXPECT(figures.ttft.p50 > 0 && figures.itl.p50 > 0 && figures.e2e.p50 > figures.ttft.p50);
    replay_result_release(&result);
    bench_trace_release(&trace);
}

TEST(figures_are_printed_in_both_forms) {
    struct bench_trace trace;
    struct replay_config config;
    struct replay_result result;
    struct replay_figures figures;
    struct buf text, json;
    replay_synthetic_make(&TALKS, &trace);
    configure(&config, 2);
    config.check = false;
    config.tenants = 2;
    replay_run(&config, &trace, &result);
    replay_figures(&config, &trace, &result, &figures);
    buf_init(&text, 0);
    buf_init(&json, 0);
    replay_print(&config, &result, &figures, &text);
    replay_print_json(&config, &result, &figures, &json);
    EXPECT(strstr(text.data, "requests: 300, answered 300, refused 0, lost 0\n"));
    EXPECT(strstr(text.data, "time to first token") && strstr(text.data, "of an equal share"));
    EXPECT(strstr(json.data, "\"requests\": 300, \"answered\": 300, \"refused\": 0, \"lost\": 0"));
    EXPECT(strstr(json.data, "\"p99_ttft_ms\": ") && strstr(json.data, "\"times_real_time\": "));
    buf_release(&text);
    buf_release(&json);
    replay_result_release(&result);
    bench_trace_release(&trace);
}

/* The first minute or so of a real trace. */
static void replay_real(const char *file, uint32_t replicas) {
    const char *path = check_shared(file);
    if (!path)
        SKIP("shared", "no traces");
    struct bench_trace trace;
    struct replay_config config;
    struct replay_result result;
    struct error err;
    EXPECT_EQ(bench_trace_read(path, 150, &trace, &err), 0);
    configure(&config, replicas);
    config.check = false;
    config.block_count = 12500;
    config.slots = 256;
    replay_run(&config, &trace, &result);
    EXPECT_SOUND(&config, &trace, &result);
    EXPECT_EQ(count_state(&result, REPLAY_ANSWERED), trace.requests.count);
    uint64_t prompt = 0, output = 0;
    for (size_t i = 0; i < trace.requests.count; i++) {
        prompt += trace.requests.items[i].input;
        output += MAX(trace.requests.items[i].output, 1u);
    }
    EXPECT_EQ(result.counts.output_tokens, output);
    /* what was computed or found is the prompts and all of the answers but their last tokens */
    EXPECT_EQ(result.counts.computed_tokens + cached_tokens(&result),
              prompt + output - trace.requests.count + result.counts.wasted_rows);
    EXPECT((cached_tokens(&result) > 0) == (trace.hashes.count > 0));
    uint32_t *most = mem_calloc(trace.requests.count, sizeof *most);
    if (trace.hashes.count)
        most_that_can_be_found(&trace, &result, config.block_tokens, most);
    for (size_t i = 0; i < trace.requests.count; i++)
        EXPECT(result.outcomes.items[i].cached <= most[i]);
    mem_free(most);
    replay_result_release(&result);
    bench_trace_release(&trace);
}

TEST(mooncakes_trace_is_answered) {
    replay_real("traces/mooncake/conversation_trace.jsonl", 10);
}
TEST(azures_trace_is_answered) {
    replay_real("traces/azure2023/AzureLLMInferenceTrace_conv.csv", 10);
}
