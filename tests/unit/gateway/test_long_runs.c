/* Runs of many tokens: an event thread takes them piece by piece, and what it writes is what it
 * would have written at once. */
#include "gateway/gateway_state.h"
#include "gateway/generation/event_thread.h"
#include "world.h"

/* ---- the pieces ---- */

/* A mail of one run: tokens 0, 1, ...; token i has entries(i) log-probabilities, named i too. */
static struct mail *mail_of(uint32_t count, uint32_t (*entries)(uint32_t i), struct u128 request) {
    uint32_t total = 0;
    for (uint32_t i = 0; entries && i < count; i++)
        total += entries(i);
    const struct mail_size size = {
        .items = 1, .tokens = count, .logprobs = total, .has_logprobs = entries != NULL};
    struct mail *mail = mail_new(MAIL_DELTAS, &size);
    mail->item_count = 1;
    mail->items[0] = (struct mail_item){.request = request,
                                        .index = 7,
                                        .token_count = count,
                                        .finish = WIRE_FINISH_STOP,
                                        .vector_width = 3};
    for (uint32_t i = 0; i < count; i++) {
        mail->tokens[mail->token_count++] = i;
        uint32_t more = entries ? entries(i) : 0;
        if (entries)
            mail->logprob_counts[i] = more;
        for (uint32_t k = 0; k < more; k++)
            mail->logprob_ids[mail->logprob_count++] = i;
    }
    return mail;
}

static uint32_t some_entries(uint32_t i) {
    return i % 5 * 7;
}
static uint32_t many_entries(uint32_t i) {
    return i == 3 ? 2 * LONG_RUN_WORK : 0;
}

/* Walks a piece: its tokens are the next ones, with their own log-probabilities. Returns its work. */
static uint32_t walk(const struct mail *mail, const struct mail_item *piece, uint32_t *next) {
    struct mail_cursor cursor = mail_cursor_at(mail, piece);
    struct mail_token t;
    uint32_t work = 0;
    CHECK(piece->index == 7 + *next && piece->goes_on == (*next > 0));
    for (; mail_next_token(&cursor, &t); ++*next) {
        CHECK(t.id == *next);
        for (uint32_t k = 0; k < t.logprob_count; k++)
            CHECK(t.logprob_ids[k] == *next);
        work += 1 + t.logprob_count;
    }
    return work;
}

TEST(pieces_of_a_run_are_bounded_and_are_the_run) {
    static const struct {
        uint32_t count;
        uint32_t (*entries)(uint32_t i);
        uint32_t pieces; /* 0: not told */
    } ROWS[] = {{LONG_RUN_WORK, NULL, 1},     {LONG_RUN_WORK + 1, NULL, 2},
                {3 * LONG_RUN_WORK, NULL, 3}, {1000, some_entries, 0},
                {10, many_entries, 3},        {5000, some_entries, 0}};
    for (size_t row = 0; row < ARRAY_LEN(ROWS); row++) {
        struct long_runs runs = {0};
        struct mail *mail = mail_of(ROWS[row].count, ROWS[row].entries, (struct u128){1, 1});
        struct mail_item piece;
        struct long_run *run;
        uint32_t next = 0, pieces = 0;
        EXPECT_EQ(long_run_work(mail, &mail->items[0]) > LONG_RUN_WORK, ROWS[row].pieces != 1);
        long_runs_add(&runs, mail, &mail->items[0]);
        mail_free(mail); /* it is kept */
        bool more = true;
        while ((run = long_runs_take(&runs, &piece))) {
            uint32_t work = walk(run->mail, &piece, &next);
            EXPECT(more && (work <= LONG_RUN_WORK || piece.token_count == 1));
            bool last = next == ROWS[row].count;
            EXPECT_EQ(piece.finish, last ? WIRE_FINISH_STOP : WIRE_FINISH_NONE);
            EXPECT_EQ(piece.vector_width, last ? 3 : 0);
            more = long_runs_put_back(&runs, run, &piece);
            pieces++;
        }
        EXPECT(!more && next == ROWS[row].count);
        EXPECT(!ROWS[row].pieces || pieces == ROWS[row].pieces);
        EXPECT_EQ(atomic_load(&runs.piece_count), pieces);
    }
}

TEST(work_is_counted_up_to_a_long_run) {
    struct mail *mail = mail_of(100, some_entries, (struct u128){1, 1});
    struct mail_item item = mail->items[0];
    item.token_count = 4;
    EXPECT_EQ(long_run_work(mail, &item), 4 + 7 + 14 + 21);
    item.token_count = 0;
    EXPECT_EQ(long_run_work(mail, &item), 0);
    item.token_count = 100;
    EXPECT_EQ(long_run_work(mail, &item), LONG_RUN_WORK + 1);
    mail_free(mail);
}

TEST(long_runs_take_turns) {
    struct long_runs runs = {0};
    struct mail_item piece;
    for (uint64_t i = 0; i < 3; i++) {
        struct mail *mail = mail_of((uint32_t)(i + 1) * LONG_RUN_WORK, NULL, (struct u128){i, 9});
        long_runs_add(&runs, mail, &mail->items[0]);
        mail_free(mail);
    }
    char order[8] = "";
    size_t taken = 0;
    for (struct long_run *run; (run = long_runs_take(&runs, &piece)); taken++) {
        order[taken % 7] = (char)('a' + piece.request.lo);
        (void)long_runs_put_back(&runs, run, &piece);
    }
    EXPECT_EQ(taken, 6);
    EXPECT_STR(order, "abcbcc");
    struct mail *left = mail_of(2 * LONG_RUN_WORK, NULL, (struct u128){5, 9});
    long_runs_add(&runs, left, &left->items[0]);
    mail_free(left);
    long_runs_release(&runs); /* and leaks nothing */
    EXPECT(!runs.first && !runs.last);
}

TEST(runs_aside_have_a_bound_and_come_back_in_order) {
    struct long_runs runs = {0};
    struct mail_item piece;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < 5; i++) {
        struct mail *mail = mail_of(2 * LONG_RUN_WORK, NULL, (struct u128){i % 2, 9});
        mail->items[0].choice = (uint32_t)i;
        bytes = mail->bytes;
        long_runs_add(&runs, mail, &mail->items[0]);
        mail_free(mail);
    }
    for (uint32_t i = 0; i < 4; i++) {
        struct long_run *run = long_runs_take(&runs, &piece);
        EXPECT_EQ(long_runs_put_aside(&runs, run, 3 * bytes), i < 3);
    }
    EXPECT_EQ(atomic_load(&runs.aside_bytes), 3 * bytes);
    EXPECT(runs.first && runs.first == runs.last); /* choice 4 */
    long_runs_wake(&runs, (struct u128){0, 9});    /* choices 0 and 2 */
    EXPECT_EQ(atomic_load(&runs.aside_bytes), bytes);
    EXPECT_EQ(runs.first->rest.choice, 4);
    EXPECT_EQ(runs.first->next->rest.choice + runs.last->rest.choice, 2);
    long_runs_wake(&runs, (struct u128){7, 9}); /* of nobody */
    EXPECT_EQ(atomic_load(&runs.aside_bytes), bytes);
    long_runs_drop(&runs, (struct u128){0, 9});
    EXPECT(!runs.first && !runs.last && runs.aside);
    long_runs_drop(&runs, (struct u128){1, 9});
    EXPECT(!runs.aside && atomic_load(&runs.aside_bytes) == 0);
}

/* Of several that wait for their turn, those of one request go. */
TEST(runs_of_a_request_are_dropped_from_among_others) {
    struct long_runs runs = {0};
    for (uint64_t i = 0; i < 4; i++) {
        struct mail *mail = mail_of(2 * LONG_RUN_WORK, NULL, (struct u128){i % 2, 9});
        mail->items[0].choice = (uint32_t)i;
        long_runs_add(&runs, mail, &mail->items[0]);
        mail_free(mail);
    }
    long_runs_drop(&runs, (struct u128){1, 9});
    EXPECT_EQ(runs.first->rest.choice, 0);
    EXPECT_EQ(runs.last->rest.choice, 2);
    EXPECT(runs.first->next == runs.last && !runs.last->next);
    long_runs_release(&runs);
}

/* ---- in a gateway ---- */

enum { TOKENS = 4000 };
static const char LONG_BODY[] =
    "{\"prompt\":\"Say something.\",\"seed\":8,\"max_tokens\":4000,\"ignore_eos\":true,"
    "\"stream\":true,\"stream_options\":{\"include_usage\":true}}";

static void prepare_runs_of(struct world *w, uint32_t run_tokens) {
    world_prepare(w);
    w->fake_config.window = 0;
    w->fake_config.run_tokens = run_tokens;
    w->settings.threads = 1;
}

/* The stream that a world gives whose scheduler sends runs of so many tokens. */
static void stream_of(uint32_t run_tokens, struct answer *a, uint64_t *pieces) {
    struct world w;
    prepare_runs_of(&w, run_tokens);
    w.fake_config.step_us = 0;
    w.settings.trusts_quiet = true; /* what is missed is asked for at once, or never: */
    w.settings.request_timeout_ms = PATIENCE_MS;
    EXPECT(world_start(&w));
    POST(&w, LONG_BODY, a);
    EXPECT(a->done);
    EXPECT_EQ(a->completion_tokens, TOKENS);
    EXPECT(wait_until(is_empty, &w));
    *pieces = atomic_load(&w.gw->threads[0]->long_runs.piece_count);
    world_end(&w);
}

TEST(a_long_run_is_written_in_turns_and_loses_nothing) {
    struct answer piecewise, plain;
    uint64_t pieces, none;
    stream_of(100, &plain, &none);
    stream_of(TOKENS, &piecewise, &pieces);
    EXPECT_EQ(none, 0);
    EXPECT(pieces >= (TOKENS + LONG_RUN_WORK - 1) / LONG_RUN_WORK);
    EXPECT_STR(buf_text(&piecewise.text[0]), buf_text(&plain.text[0]));
    EXPECT_STR(piecewise.finish[0], "length");
    answer_release(&plain);
    answer_release(&piecewise);
}

/* What comes behind a long run that waits is asked for again. */
TEST(long_runs_that_follow_each_other_lose_nothing) {
    struct answer several, plain;
    uint64_t pieces, none;
    stream_of(100, &plain, &none);
    stream_of(1000, &several, &pieces);
    EXPECT(pieces >= TOKENS / LONG_RUN_WORK);
    EXPECT_STR(buf_text(&several.text[0]), buf_text(&plain.text[0]));
    answer_release(&plain);
    answer_release(&several);
}

TEST(many_runs_of_one_request_in_a_mail_are_long_too) {
    struct world w;
    struct answer a;
    prepare_runs_of(&w, 250);
    EXPECT(world_start(&w));
    POST(&w,
         "{\"prompt\":\"a\",\"seed\":8,\"max_tokens\":250,\"ignore_eos\":true,\"n\":16,"
         "\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
         &a);
    EXPECT(a.done);
    EXPECT_EQ(a.completion_tokens, 16 * 250);
    EXPECT(wait_until(is_empty, &w));
    /* four of them fit into one turn */
    EXPECT(atomic_load(&w.gw->threads[0]->long_runs.piece_count) >= 12);
    answer_release(&a);
    world_end(&w);
}

static bool is_held(struct world *w) {
    return fake_counts(w->fake).paused > 0;
}
static bool lies_aside(struct world *w) {
    return atomic_load(&w->gw->threads[0]->long_runs.aside_bytes) >= 24000 * sizeof(uint32_t);
}

static bool lies_nothing(struct world *w) {
    return atomic_load(&w->gw->threads[0]->long_runs.aside_bytes) == 0;
}

/* Reads a stream to its end: the texts as they are written, an event a line. */
static void read_texts(int fd, struct buf *out) {
    static const char KEY[] = "\"text\":", DONE[] = "data: [DONE]";
    struct buf raw = {0};
    char data[65536];
    ssize_t n;
    while ((n = read(fd, data, sizeof data)) > 0)
        buf_add(&raw, data, (size_t)n);
    close(fd);
    const char *at = raw.data, *end = raw.data + raw.len, *line_end;
    for (; (line_end = memchr(at, '\n', (size_t)(end - at))); at = line_end + 1) {
        size_t len = (size_t)(line_end - at);
        const char *key = memmem(at, len, KEY, strlen(KEY));
        if (key)
            buf_add(out, key,
                    (size_t)((const char *)memchr(key, ',', (size_t)(line_end - key)) - key));
        if (len >= strlen(DONE) && memcmp(at, DONE, strlen(DONE)) == 0)
            buf_add_str(out, "done");
    }
    buf_release(&raw);
}

/* Of a run that its client does not read, no more is written than there is room for. aside_max: as in
 * the settings. Returns how often the gateway asked for something again. */
static void expect_slow_is_whole(uint64_t aside_max, uint64_t *resends) {
    struct world w;
    struct buf slow = {0}, fast = {0};
    static const char body[] =
        "{\"prompt\":[9,9],\"max_tokens\":24000,\"seed\":3,\"ignore_eos\":true,\"stream\":true}";
    prepare_runs_of(&w, 24000);
    w.settings.aside_max = aside_max;
    EXPECT(world_start(&w));
    int fd = client_open(w.port, "POST", "/v1/completions", NULL, body), room = 1 << 17;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room); /* the kernel takes little of it */
    EXPECT(wait_until(is_held, &w));
    EXPECT(aside_max || wait_until(lies_aside, &w)); /* at once: not what 512 KB have room for */
    read_texts(client_open(w.port, "POST", "/v1/completions", NULL, body), &fast);
    read_texts(fd, &slow);
    EXPECT(ends(buf_text(&fast), "done"));
    EXPECT_STR(buf_text(&slow), buf_text(&fast));
    *resends = fake_counts(w.fake).resends;
    EXPECT_EQ(atomic_load(&w.gw->threads[0]->long_runs.aside_bytes), 0);
    buf_release(&slow);
    buf_release(&fast);
    world_end(&w);
}

TEST(a_long_run_waits_for_its_reader) {
    uint64_t resends = 0;
    expect_slow_is_whole(0, &resends);
}

TEST(a_long_run_that_cannot_wait_is_asked_for_again) {
    uint64_t resends = 0;
    expect_slow_is_whole(1, &resends);
    EXPECT(resends > 0);
}

/* Who leaves, or is cut, takes along what waits. */
TEST(what_waits_for_a_reader_ends_with_its_client) {
    struct world w;
    prepare_runs_of(&w, 24000);
    EXPECT(world_start(&w));
    int fd = client_open(
        w.port, "POST", "/v1/completions", NULL,
        "{\"prompt\":[9,9],\"max_tokens\":24000,\"seed\":3,\"ignore_eos\":true,\"stream\":true}");
    EXPECT(wait_until(lies_aside, &w));
    close(fd);
    EXPECT(wait_until(is_empty, &w));
    EXPECT(wait_until(lies_nothing, &w));
    world_end(&w); /* and nothing leaks, or is touched once more */
}
