/* Names of several models: which of them a request is for. */
#include "check.h"
#include "gateway/models/model_table.h"
#include "text/bundle.h"

#include "base/clock.h"

static void ignore(void *ctx) {}

/* The second one's bundle cannot be used, so an answer tells which model was found. */
static const enum model_found FIRST = MODEL_NOT_READY, SECOND = MODEL_BROKEN;

static struct model_table *table_of(const char *names, size_t model_count) {
    const struct text_settings settings = {.served_names = names};
    struct model_table *t = model_table_new(&settings, ignore, NULL);
    struct buf broken = {0};
    struct error err;
    buf_add_str(&broken, "no bundle");
    struct wire_model_status models[] = {
        {.model = bytes_str("one"), .bundle = {1, 1}},
        {.model = bytes_str("two"), .bundle = bundle_hash(buf_bytes(&broken)), .bundle_bytes = 9},
    };
    struct wire_status status = {.models = models, .model_count = model_count};
    model_table_status(t, &status, clock_ms());
    CHECK(model_table_set_bundle(t, models[1].bundle, &broken, &err) == 0);
    buf_release(&broken);
    return t;
}

/* Its bundle is tried on another thread. */
static enum model_found find(struct model_table *t, const char *name) {
    struct served_model *model;
    return model_table_find(t, bytes_str(name), &model);
}

static bool second_comes(struct model_table *t) {
    for (int i = 0; i < 1000 && find(t, "two") != SECOND; i++)
        sleep_ms(5);
    return find(t, "two") == SECOND;
}

TEST(names_of_several_models_lead_to_each) {
    struct model_table *t = table_of("two,b,c;one,d", 2);
    EXPECT(second_comes(t));
    EXPECT_EQ(find(t, "one"), FIRST);
    EXPECT_EQ(find(t, "d"), FIRST);
    EXPECT_EQ(find(t, "d:latest"), FIRST);
    EXPECT_EQ(find(t, "b"), SECOND);
    EXPECT_EQ(find(t, "c"), SECOND);
    EXPECT_EQ(find(t, ""), SECOND); /* the first that was named */
    EXPECT_EQ(find(t, "e"), MODEL_UNKNOWN);
    EXPECT_EQ(find(t, "two,b"), MODEL_UNKNOWN);
    model_table_free(&t);
}

TEST(names_of_nobody_leave_requests_without_one_ambiguous) {
    struct model_table *t = table_of(NULL, 2);
    EXPECT(second_comes(t));
    EXPECT_EQ(find(t, ""), MODEL_AMBIGUOUS);
    EXPECT_EQ(find(t, "one"), FIRST);
    model_table_free(&t);
}

/* Its workers have not registered yet: that is no 404. */
TEST(names_of_a_model_that_is_not_there_yet_are_known) {
    struct model_table *t = table_of("three,x;one,d", 1);
    EXPECT_EQ(find(t, "three"), MODEL_NOT_READY);
    EXPECT_EQ(find(t, "x"), MODEL_NOT_READY);
    EXPECT_EQ(find(t, "x:latest"), MODEL_NOT_READY);
    EXPECT_EQ(find(t, ""), MODEL_NOT_READY);
    EXPECT_EQ(find(t, "y"), MODEL_UNKNOWN);
    model_table_free(&t);
}

static void add_name(void *ctx, const struct model_info *info) {
    buf_addf(ctx, "%s ", info->name);
}

TEST(names_are_listed_once_each) {
    struct model_table *t = table_of("two,b;one,d;three", 2);
    struct buf names = {0};
    model_table_each(t, add_name, &names);
    EXPECT_STR(buf_text(&names), "b d one two ");
    buf_release(&names);
    model_table_free(&t);
}

TEST(names_need_letters_between_their_marks) {
    struct error err;
    static const char *const BAD[] = {",a", "a,,b", ";a", "a;;b"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        EXPECT_EQ(text_settings_check(&(struct text_settings){.served_names = BAD[i]}, &err),
                  ERR_INVALID);
    EXPECT_EQ(text_settings_check(&(struct text_settings){.served_names = "a,b;c"}, &err), 0);
}

static void count(void *ctx) {
    ++*(int *)ctx;
}

TEST(models_that_cannot_be_loaded_are_told_of_for_a_moment) {
    const struct text_settings settings = {.served_names = "one,a;two", .on_demand = true};
    int changes = 0;
    struct model_table *t = model_table_new(&settings, count, &changes);
    struct wire_model_status one = {.model = bytes_str("one"), .replicas_loading = 1};
    struct wire_status status = {.models = &one, .model_count = 1};
    struct bytes why = bytes_str("cannot map '/srv/models/x.gguf': 1/2 of it is there");
    char told[MODEL_FAILURE_MAX];
    model_table_failed(t, bytes_str("two"), why, 1000);
    EXPECT_EQ(changes, 1);
    EXPECT(model_table_failure(t, bytes_str("two:latest"), 1999, told));
    EXPECT_STR(told, "cannot map 'x.gguf': 1/2 of it is there");
    EXPECT(!model_table_failure(t, bytes_str("two"), 2000, told));
    EXPECT(!model_table_failure(t, bytes_str("one"), 1000, told));
    model_table_failed(t, bytes_str("a"), why, 1000); /* no name that workers register */
    model_table_failed(t, bytes_str("three"), why, 1000);
    EXPECT(!model_table_failure(t, bytes_str("a"), 1000, told));
    model_table_status(t, &status, 3000);
    model_table_failed(t, bytes_str("one"), why, 3000); /* another supervisor has it */
    EXPECT(!model_table_failure(t, bytes_str("one"), 3000, told));
    EXPECT_EQ(changes, 1);
    one.replicas_loading = 0;
    model_table_status(t, &status, 4000);
    model_table_failed(t, bytes_str("one"), why, 4000);
    EXPECT(model_table_failure(t, bytes_str("a"), 4000, told));
    EXPECT(model_table_failure(t, bytes_str(""), 4000, told));
    model_table_loads(t, bytes_str("two"));
    EXPECT(model_table_failure(t, bytes_str("one"), 4000, told));
    model_table_loads(t, bytes_str("one"));
    EXPECT(!model_table_failure(t, bytes_str("one"), 4000, told));
    model_table_free(&t);
}

/* Others that are missing stay known for a while. */
TEST(models_that_are_removed_are_unknown_at_once) {
    struct model_table *t = table_of(NULL, 1);
    struct wire_model_status models[] = {
        {.model = bytes_str("one"), .bundle = {1, 1}, .replicas_ready = 1},
        {.model = bytes_str("new"), .bundle = {1, 1}, .replicas_ready = 1},
        {.model = bytes_str("lost"), .bundle = {1, 1}, .replicas_ready = 1},
    };
    struct wire_status status = {.models = models, .model_count = 3};
    model_table_status(t, &status, 1000);
    model_table_removed(t, bytes_str("new"), 2000);
    model_table_status(t, &status, 2000); /* it was on its way */
    EXPECT_EQ(find(t, "new"), MODEL_NOT_READY);
    models[1].replicas_ready = 0; /* the scheduler keeps it for a stream that may be resumed */
    status.model_count = 2;
    model_table_status(t, &status, 2500);
    EXPECT_EQ(find(t, "new"), MODEL_UNKNOWN);
    model_table_status(t, &status, 2600);
    EXPECT_EQ(find(t, "new"), MODEL_UNKNOWN);
    status.model_count = 1;
    model_table_status(t, &status, 3000);
    EXPECT_EQ(find(t, "new"), MODEL_UNKNOWN);
    EXPECT_EQ(find(t, "lost"), MODEL_NOT_READY);
    model_table_removed(t, bytes_str("lost"), 4000);
    EXPECT_EQ(find(t, "lost"), MODEL_UNKNOWN);

    status.model_count = 2; /* added again: known, and missed for a while */
    models[1].replicas_loading = 1;
    model_table_status(t, &status, 5000);
    model_table_failed(t, bytes_str("new"), bytes_str("it is cut"), 5000);
    EXPECT_EQ(find(t, "new"), MODEL_NOT_READY);
    model_table_removed(t, bytes_str("new"), 6000); /* before the next Status */
    EXPECT_EQ(find(t, "new"), MODEL_UNKNOWN);
    model_table_status(t, &status, 6000);
    status.model_count = 1;
    model_table_status(t, &status, 7000);
    EXPECT_EQ(find(t, "new"), MODEL_NOT_READY);

    model_table_removed(t, bytes_str("brief"), 8000); /* before the first Status that names it */
    status.model_count = 2;
    models[1] = (struct wire_model_status){.model = bytes_str("brief"), .bundle = {1, 1}};
    model_table_status(t, &status, 8000);
    EXPECT_EQ(find(t, "brief"), MODEL_UNKNOWN);
    model_table_free(&t);
}

/* A scheduler that has forgotten the last worker, while a request waits for another. */
TEST(models_stay_what_they_were_when_their_workers_are_forgotten) {
    struct model_table *t = table_of(NULL, 2);
    EXPECT(second_comes(t));
    struct buf broken = {0};
    buf_add_str(&broken, "no bundle");
    struct wire_model_status two = {
        .model = bytes_str("two"), .bundle = bundle_hash(buf_bytes(&broken)), .logits_width = 8};
    struct wire_status status = {.models = &two, .model_count = 1};
    buf_release(&broken);
    model_table_status(t, &status, 1000);
    EXPECT_EQ(find(t, "two"), SECOND);
    two = (struct wire_model_status){.model = bytes_str("two")};
    model_table_status(t, &status, 2000);
    EXPECT_EQ(find(t, "two"), SECOND);
    two = (struct wire_model_status){
        .model = bytes_str("two"), .bundle = {1, 1}, .logits_width = 9, .replicas_ready = 1};
    model_table_status(t, &status, 3000);
    EXPECT_EQ(find(t, "two"), MODEL_NOT_READY); /* another one, whose bundle is not here */
    model_table_free(&t);
}

TEST(models_on_demand_are_known_before_they_are_there) {
    const struct text_settings settings = {.served_names = "one,a;two", .on_demand = true};
    struct model_table *t = model_table_new(&settings, ignore, NULL);
    struct wire_model_status one = {
        .model = bytes_str("one"), .bundle = {1, 1}, .replicas_ready = 1};
    struct wire_status status = {.models = &one, .model_count = 1};
    char own[MODEL_NAME_MAX];
    model_table_status(t, &status, 1000);
    EXPECT_EQ(find(t, "two"), MODEL_NOT_READY);
    EXPECT_EQ(find(t, "three"), MODEL_UNKNOWN);
    EXPECT(model_table_asks(t, bytes_str("two"), 1000, own) && !strcmp(own, "two"));
    EXPECT(!model_table_asks(t, bytes_str("two"), 1500, own)); /* once a second */
    EXPECT(model_table_asks(t, bytes_str("two"), 2000, own));
    EXPECT(!model_table_asks(t, bytes_str("a"), 2000, own)); /* it has workers */
    EXPECT(!model_table_asks(t, bytes_str("three"), 2000, own));
    EXPECT(model_table_own_name(t, bytes_str("a:latest"), own) && !strcmp(own, "one"));
    EXPECT(!model_table_own_name(t, bytes_str("three"), own));
    one.replicas_ready = 0;
    model_table_status(t, &status, 2000);
    EXPECT(model_table_asks(t, bytes_str("a"), 3000, own) && !strcmp(own, "one"));
    EXPECT(model_table_asks(t, bytes_str(""), 4000, own) && !strcmp(own, "one"));
    model_table_free(&t);
}

static void expect_time(void *ctx, const struct model_info *info) {
    ++*(int *)ctx;
    if (info->created_s < wall_ms() / 1000 - 60 || info->created_s > wall_ms() / 1000)
        check_fail(__FILE__, __LINE__, "%s is of %lld", info->name, (long long)info->created_s);
    EXPECT(info->was_loaded == (strcmp(info->name, "two") != 0));
}

/* A list of models shows a time for each; clients read 0 as 1970. */
TEST(models_that_were_never_loaded_have_a_time) {
    const struct text_settings settings = {.served_names = "one,a;two", .on_demand = true};
    struct model_table *t = model_table_new(&settings, ignore, NULL);
    struct wire_model_status one = {
        .model = bytes_str("one"), .bundle = {1, 1}, .replicas_ready = 1};
    struct wire_status status = {.models = &one, .model_count = 1};
    int seen = 0;
    model_table_status(t, &status, 1000);
    model_table_each(t, expect_time, &seen);
    EXPECT_EQ(seen, 3);
    model_table_free(&t);
}
