/* The smaller parts: the table of request ids, API keys, mailboxes, cutting Deltas into mails. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/hash.h"
#include "check.h"
#include "gateway/access/auth.h"
#include "gateway/access/cors.h"
#include "gateway/generation/submission_map.h"
#include "gateway/link/deltas_split.h"
#include "gateway/link/mailbox.h"

enum { KEYS = 400 };

/* Few distinct home slots, so that runs are long and wrap. */
static struct u128 key_of(uint32_t i) {
    return (struct u128){(uint64_t)i << 40 | 1, i % 5};
}

TEST(submission_map_agrees_with_an_array) {
    struct submission_map map = {0};
    bool in[KEYS] = {0};
    char parts[KEYS];
    size_t count = 0;
    for (int step = 0; step < 20000; step++) {
        uint32_t i = (uint32_t)(check_random() % KEYS);
        if (in[i])
            submission_map_remove(&map, key_of(i));
        else
            submission_map_add(&map, key_of(i), (struct submission *)&parts[i]);
        count += in[i] ? (size_t)-1 : 1;
        in[i] = !in[i];
        uint32_t j = (uint32_t)(check_random() % KEYS);
        EXPECT(submission_map_find(&map, key_of(j)) ==
               (in[j] ? (struct submission *)&parts[j] : NULL));
        EXPECT_EQ(map.count, count);
    }
    for (uint32_t i = 0; i < KEYS; i++)
        EXPECT(submission_map_find(&map, key_of(i)) ==
               (in[i] ? (struct submission *)&parts[i] : NULL));
    submission_map_release(&map);
    EXPECT(submission_map_find(&map, key_of(1)) == NULL);
}

static const struct bytes no_key = {NULL, 0};

TEST(keys_open_the_door) {
    struct auth auth;
    struct error err;
    struct u128 tenant, other;
    EXPECT_EQ(auth_init(&auth, "alpha, beta", NULL, &err), 0);
    EXPECT_EQ(auth.keys.count, 2);
    EXPECT(auth_check(&auth, bytes_str("Bearer alpha"), no_key, &tenant));
    EXPECT(auth_check(&auth, bytes_str("bEARER beta"), no_key, &other));
    EXPECT(!u128_is_zero(tenant) && !u128_equal(tenant, other));
    const struct u128 tenant_of_alpha = tenant;
    static const char *const refused[] = {"",
                                          "Bearer",
                                          "Bearer ",
                                          "Bearer alph",
                                          "Bearer alphaa",
                                          "Bearer Alpha",
                                          "Basic alpha",
                                          "alpha",
                                          "Bearer  alpha",
                                          "Bearer alphaalpha"};
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        EXPECT(!auth_check(&auth, bytes_str(refused[i]), no_key, &tenant));
    /* the other header: the same key is the same tenant */
    EXPECT(auth_check(&auth, no_key, bytes_str("alpha"), &other) &&
           u128_equal(tenant_of_alpha, other));
    EXPECT(auth_check(&auth, bytes_str("Basic eDp5"), bytes_str("alpha"), &tenant));
    EXPECT(!auth_check(&auth, bytes_str("Bearer gamma"), bytes_str("alpha"), &tenant));
    static const char *const refused_keys[] = {"", "alph", "alphaa", "Bearer alpha"};
    for (size_t i = 0; i < ARRAY_LEN(refused_keys); i++)
        EXPECT(!auth_check(&auth, no_key, bytes_str(refused_keys[i]), &tenant));
    EXPECT_EQ(auth_priority_min(&auth, tenant, 7), 7);
    auth_release(&auth);
    EXPECT_EQ(auth_init(&auth, NULL, NULL, &err), 0);
    EXPECT(auth_check(&auth, bytes_of(NULL, 0), no_key, &tenant));
    EXPECT(u128_is_zero(tenant));
    auth_release(&auth);
}

/* A server that was given a key is open to nobody, and to nobody by accident. */
TEST(keys_that_are_empty_are_refused) {
    static const char *const EMPTY[][2] = {{"", NULL}, {" , ", NULL}, {NULL, ""}, {"", ""}};
    for (size_t i = 0; i < ARRAY_LEN(EMPTY); i++) {
        struct auth auth;
        struct error err;
        EXPECT_EQ(auth_init(&auth, EMPTY[i][0], EMPTY[i][1], &err), ERR_INVALID);
        EXPECT(strstr(err.text, "the API key is empty"));
    }
}

TEST(origins_are_origins) {
    static const char *const good[] = {"https://a",
                                       "http://localhost:3000",
                                       " https://a.b , http://c",
                                       "chrome-extension://abc",
                                       "http://[::1]:80",
                                       "*"};
    static const char *const bad[] = {"a",           "https://",    "https://a/",
                                      "https://a/b", "https://u@a", "https://a b",
                                      "://a",        "https//a",    "*.a"};
    struct cors cors;
    struct error err;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        EXPECT_EQ(cors_init(&cors, good[i], &err), 0);
        EXPECT(cors.count || cors.any);
        cors_release(&cors);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        EXPECT_EQ(cors_init(&cors, bad[i], &err), ERR_INVALID);
        EXPECT(strstr(err.text, "--allow-origins") != NULL);
    }
    EXPECT(cors_init(&cors, NULL, &err) == 0 && cors.count == 0 && !cors.any);
}

TEST(keys_come_from_a_file) {
    char path[] = "/tmp/trireme-keys-XXXXXX";
    int fd = mkstemp(path);
    struct auth auth;
    struct error err;
    struct u128 tenant;
    static const char text[] = "# people\none\r\n\n  two  \n";
    EXPECT(fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)(sizeof text - 1));
    close(fd);
    EXPECT_EQ(auth_init(&auth, NULL, path, &err), 0);
    EXPECT_EQ(auth.keys.count, 2);
    EXPECT(auth_check(&auth, bytes_str("Bearer one"), no_key, &tenant) &&
           auth_check(&auth, bytes_str("Bearer two"), no_key, &tenant));
    EXPECT(!auth_check(&auth, bytes_str("Bearer # people"), no_key, &tenant));
    auth_release(&auth);
    unlink(path);
    EXPECT(auth_init(&auth, NULL, path, &err) != 0);
}

/* The keys of a file with this text. */
static int auth_of_text(struct auth *auth, const char *text, struct error *err) {
    char path[] = "/tmp/trireme-keys-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(file_write_atomic(path, text, strlen(text), 0600, err) == 0);
    int rc = auth_init(auth, NULL, path, err);
    unlink(path);
    return rc;
}

static bool opens(struct auth *auth, const char *bearer) {
    struct u128 tenant;
    return auth_check(auth, bytes_str(bearer), no_key, &tenant);
}

TEST(keys_are_read_again) {
    char path[] = "/tmp/trireme-keys-XXXXXX";
    struct auth auth;
    struct error err;
    struct u128 tenant;
    int fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0);
    CHECK(file_write_atomic(path, "one models=a\n", 13, 0600, &err) == 0);
    EXPECT_EQ(auth_init(&auth, "always", path, &err), 0);
    EXPECT(!auth_changed(&auth) && !auth_changed(&auth));
    CHECK(file_write_atomic(path, "one admin\ntwo\n", 14, 0600, &err) == 0);
    EXPECT(!auth_changed(&auth)); /* it might still be written */
    EXPECT(auth_changed(&auth) && opens(&auth, "Bearer one") && !opens(&auth, "Bearer two"));
    EXPECT_EQ(auth_reload(&auth, &err), 0);
    EXPECT(!auth_changed(&auth) && opens(&auth, "Bearer two") && opens(&auth, "Bearer always"));
    EXPECT(auth_check(&auth, bytes_str("Bearer one"), no_key, &tenant));
    EXPECT(auth_is_admin(&auth, tenant) && auth_allows_model(&auth, tenant, "b"));
    /* what cannot be taken, and a file that is gone, change nothing; each is tried once */
    CHECK(file_write_atomic(path, "two\nthree requests=x\n", 21, 0600, &err) == 0);
    EXPECT(!auth_changed(&auth) && auth_changed(&auth));
    EXPECT_EQ(auth_reload(&auth, &err), ERR_INVALID);
    unlink(path);
    EXPECT(!auth_changed(&auth) && auth_changed(&auth));
    EXPECT(auth_reload(&auth, &err) != 0);
    EXPECT(!auth_changed(&auth) && opens(&auth, "Bearer one") && opens(&auth, "Bearer two"));
    CHECK(file_write_atomic(path, "three\n", 6, 0600, &err) == 0);
    EXPECT(!auth_changed(&auth) && auth_changed(&auth));
    EXPECT_EQ(auth_reload(&auth, &err), 0);
    EXPECT(opens(&auth, "Bearer three") && !opens(&auth, "Bearer one"));
    auth_release(&auth);
    unlink(path);
}

struct judge {
    struct auth *auth;
    _Atomic bool ends;
    uint64_t refused;
};

static void *judge_requests(void *arg) {
    struct judge *j = arg;
    const struct u128 tenant = hash128("same", 4, 0);
    while (!j->ends) {
        j->refused += !opens(j->auth, "Bearer same");
        j->refused += !auth_allows_model(j->auth, tenant, "b");
    }
    return NULL;
}

TEST(keys_are_read_again_while_others_ask) {
    char path[] = "/tmp/trireme-keys-XXXXXX";
    struct auth auth;
    struct error err;
    pthread_t thread;
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, "same models=a,b\n", 16) == 16 && close(fd) == 0);
    EXPECT_EQ(auth_init(&auth, NULL, path, &err), 0);
    struct judge j = {.auth = &auth};
    CHECK(pthread_create(&thread, NULL, judge_requests, &j) == 0);
    for (int i = 0; i < 200; i++)
        EXPECT_EQ(auth_reload(&auth, &err), 0);
    j.ends = true;
    pthread_join(thread, NULL);
    EXPECT_EQ(j.refused, 0);
    auth_release(&auth);
    unlink(path);
}

TEST(keys_have_their_own_priorities) {
    struct auth auth;
    struct error err;
    struct u128 tenant;
    static const char *const texts[] = {"one priority-min=-10\ntwo\nthree  priority-min=5 \n",
                                        "one priority-min=\n", "one priority-min=x\n",
                                        "one priority-min=99999999\n"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        EXPECT_EQ(auth_of_text(&auth, texts[i], &err), i ? ERR_INVALID : 0);
        EXPECT(!i || strstr(err.text, "priority-min=") != NULL);
        if (i)
            continue;
        EXPECT(auth_check(&auth, bytes_str("Bearer one"), no_key, &tenant));
        EXPECT_EQ(auth_priority_min(&auth, tenant, 0), -10);
        EXPECT(auth_check(&auth, bytes_str("Bearer two"), no_key, &tenant));
        EXPECT_EQ(auth_priority_min(&auth, tenant, 3), 3);
        EXPECT(auth_check(&auth, bytes_str("Bearer three"), no_key, &tenant));
        EXPECT_EQ(auth_priority_min(&auth, tenant, 0), 5);
        EXPECT(!auth_check(&auth, bytes_str("Bearer one priority-min=-10"), no_key, &tenant));
        auth_release(&auth);
    }
}

TEST(keys_say_which_models_and_who_is_an_operator) {
    static const char text[] =
        "boss admin\nuser models=a,bc\nboth\tmodels=a admin priority-min=-3\nadmin\n"
        "a key with blanks\n";
    struct auth auth;
    struct error err;
    struct u128 tenant;
    EXPECT_EQ(auth_of_text(&auth, text, &err), 0);
    EXPECT(auth_check(&auth, bytes_str("Bearer boss"), no_key, &tenant));
    EXPECT(auth_is_admin(&auth, tenant) && auth_allows_model(&auth, tenant, "x"));
    EXPECT(auth_check(&auth, bytes_str("Bearer user"), no_key, &tenant));
    EXPECT(!auth_is_admin(&auth, tenant));
    EXPECT(auth_allows_model(&auth, tenant, "a") && auth_allows_model(&auth, tenant, "bc"));
    EXPECT(!auth_allows_model(&auth, tenant, "b") && !auth_allows_model(&auth, tenant, "a,bc"));
    EXPECT(auth_check(&auth, bytes_str("Bearer both"), no_key, &tenant));
    EXPECT(auth_is_admin(&auth, tenant) && auth_priority_min(&auth, tenant, 0) == -3 &&
           auth_allows_model(&auth, tenant, "a") && !auth_allows_model(&auth, tenant, "bc"));
    EXPECT(auth_check(&auth, bytes_str("Bearer admin"), no_key, &tenant)); /* a key, no word */
    EXPECT(!auth_is_admin(&auth, tenant));
    EXPECT(auth_check(&auth, bytes_str("Bearer a key with blanks"), no_key, &tenant));
    EXPECT(!auth_is_admin(&auth, (struct u128){0})); /* nor is a server without keys */
    auth_release(&auth);
    EXPECT_EQ(auth_of_text(&auth, "user models=\n", &err), ERR_INVALID);
}

TEST(keys_say_their_bounds_and_names) {
    static const char text[] = "one requests=3 tokens-per-minute=60000 weight=250 name=team-a\n"
                               "two tokens-per-minute=0 name=team-b\nthree\n";
    static const char *const bad[] = {
        "a requests=-1\n",  "a requests=x\n",         "a weight=0\n",
        "a weight=99999\n", "a tokens-per-minute=\n", "a name=\n",
        "a request=3\n",    "a model=x admin\n",      "a tokens-per-minute=99999999999\n"};
    struct auth auth;
    struct error err;
    struct u128 tenant;
    EXPECT_EQ(auth_of_text(&auth, text, &err), 0);
    auth.limits = (struct auth_limits){.requests = 7, .minute_tokens = 100};
    EXPECT(auth_check(&auth, bytes_str("Bearer one"), no_key, &tenant));
    struct auth_limits limits = auth_limits(&auth, tenant);
    EXPECT(limits.requests == 3 && limits.minute_tokens == 60000 && limits.weight == 250);
    struct metric *one = auth_metrics(&auth, tenant);
    EXPECT(auth_check(&auth, bytes_str("Bearer two"), no_key, &tenant));
    limits = auth_limits(&auth, tenant); /* 0 takes the bound of all keys away */
    EXPECT(limits.requests == 7 && limits.minute_tokens == 0 && limits.weight == 0);
    EXPECT(one && auth_metrics(&auth, tenant) && auth_metrics(&auth, tenant) != one);
    EXPECT(auth_check(&auth, bytes_str("Bearer three"), no_key, &tenant));
    limits = auth_limits(&auth, tenant);
    EXPECT(limits.requests == 7 && limits.minute_tokens == 100);
    EXPECT(auth_metrics(&auth, tenant) == NULL);
    auth_release(&auth);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        EXPECT_EQ(auth_of_text(&auth, bad[i], &err), ERR_INVALID);
        EXPECT(strstr(err.text, "an API key has '") != NULL);
    }
}

TEST(a_mailbox_wakes_once) {
    struct mailbox box;
    mailbox_init(&box);
    EXPECT(!mailbox_needs_wake(&box));
    EXPECT(mailbox_push(&box, mail_new(MAIL_LOST, NULL)));
    EXPECT(mailbox_needs_wake(&box));
    EXPECT(mailbox_push(&box, mail_new(MAIL_MODELS, NULL)));
    EXPECT(!mailbox_needs_wake(&box));
    mailbox_wake_failed(&box);
    EXPECT(mailbox_needs_wake(&box));
    struct mail *mail = mailbox_take_all(&box);
    EXPECT_EQ(mail->kind, MAIL_LOST);
    EXPECT_EQ(mail->next->kind, MAIL_MODELS);
    EXPECT(mail->next->next == NULL);
    mail_free(mail->next);
    mail_free(mail);
    EXPECT(!mailbox_needs_wake(&box));
    mailbox_release(&box);
}

TEST(a_full_mailbox_drops_only_deltas) {
    struct mailbox box;
    mailbox_init(&box);
    struct mail *large = mail_new(MAIL_DELTAS, NULL);
    large->bytes = MAILBOX_BYTES_MAX;
    EXPECT(mailbox_push(&box, large));
    EXPECT(
        !mailbox_push(&box, mail_new(MAIL_DELTAS, &(struct mail_size){.items = 1, .tokens = 1})));
    EXPECT(mailbox_push(&box, mail_new(MAIL_LOST, NULL)));
    mailbox_release(&box);
}

/* Four items of three requests on threads 0, 1, 0 and 9 (of nobody): tokens, log-probabilities and
 * finishes end up where they belong. */
TEST(deltas_are_cut_by_event_thread) {
    static const struct u128 requests[] = {{0x100, 1}, {0x101, 2}, {0x100, 1}, {0x109, 3}};
    static const uint32_t attempts[] = {4, 5, 4, 6}, choices[] = {0, 1, 2, 0},
                          indexes[] = {10, 20, 30, 40}, counts[] = {2, 1, 0, 1};
    static const uint32_t finishes[] = {0, 2, 1, 0}, cached[] = {16, 0, 16, 0},
                          flags[] = {0, 2, 0, 0}, queued[] = {0, 12, 0, 0},
                          prefill[] = {0, 340, 0, 0};
    static const uint32_t tokens[] = {71, 72, 81, 91}, tops[] = {1, WIRE_NO_LOGPROBS, 0, 2},
                          ids[] = {71, 5, 81, 91, 6, 7};
    static const float values[] = {-1, -2, -3, -4, -5, -6}, vectors[] = {0.5, 1.5, 2.5, 3.5};
    static const uint32_t widths[] = {0, 1, 2, 1};
    const struct wire_deltas d = {.requests = {requests, 4},
                                  .attempts = {attempts, 4},
                                  .choices = {choices, 4},
                                  .indexes = {indexes, 4},
                                  .token_counts = {counts, 4},
                                  .finishes = {finishes, 4},
                                  .cached_counts = {cached, 4},
                                  .flags = {flags, 4},
                                  .queued_ms = {queued, 4},
                                  .prefill_ms = {prefill, 4},
                                  .tokens = {tokens, 4},
                                  .vector_widths = {widths, 4},
                                  .vectors = {vectors, 4},
                                  .logprobs = {{tops, 4}, {ids, 6}, {values, 6}}};
    struct mailbox boxes[2];
    mailbox_init(&boxes[0]);
    mailbox_init(&boxes[1]);
    deltas_split(&d, (struct epoch){3, {0, 0}}, boxes, 2);
    struct mail *zero = mailbox_take_all(&boxes[0]), *one = mailbox_take_all(&boxes[1]);
    EXPECT(zero && one && !zero->next && !one->next);
    EXPECT_EQ(zero->item_count, 2);
    EXPECT_EQ(zero->epoch.number, 3);
    EXPECT(zero->items[0].attempt == 4 && zero->items[0].index == 10 &&
           zero->items[0].token_count == 2 && zero->items[0].cached_count == 16);
    EXPECT(zero->items[1].choice == 2 && zero->items[1].token_count == 0 &&
           zero->items[1].finish == 1);
    EXPECT(zero->items[0].vector_width == 0 && zero->items[1].vector_width == 2 &&
           zero->items[1].vector_at == 0 && zero->vector_count == 2);
    EXPECT(zero->vectors[0] == 1.5f && zero->vectors[1] == 2.5f);
    EXPECT(one->items[0].vector_width == 1 && one->vectors[one->items[0].vector_at] == 0.5f);
    EXPECT(zero->tokens[0] == 71 && zero->tokens[1] == 72);
    EXPECT(zero->logprob_counts[0] == 2 && zero->logprob_counts[1] == 0 &&
           zero->logprob_ids[1] == 5);
    EXPECT_EQ(one->item_count, 1);
    EXPECT_EQ(one->items[0].token_at, 0);
    EXPECT(one->tokens[one->items[0].token_at] == 81 && one->items[0].finish == 2 &&
           one->items[0].flags == 2);
    EXPECT(one->items[0].times_told && one->items[0].queued_ms == 12 &&
           one->items[0].prefill_ms == 340);
    EXPECT(one->logprob_counts[0] == 1 && one->logprob_ids[one->items[0].logprobs_at] == 81 &&
           one->logprob_values[0] == -3.0f);
    mail_free(zero);
    mail_free(one);
    mailbox_release(&boxes[0]);
    mailbox_release(&boxes[1]);
}
