/* Figures of each model: what a scheduler tells is the model's, and a figure of now is nothing
 * where nobody tells it. */
#include "base/metrics.h"
#include "check.h"
#include "gateway/model_metrics.h"

static void tell(const char *const *names, const uint32_t *running, size_t count) {
    struct wire_model_status models[3];
    for (size_t i = 0; i < count; i++)
        models[i] = (struct wire_model_status){.model = bytes_str(names[i]),
                                               .running = running[i],
                                               .preemptions = 7,
                                               .blocks = 10,
                                               .block_tokens = 16};
    const struct wire_status status = {.models = models, .model_count = count};
    model_metrics_tell(&status);
}

static int64_t figure(const char *name, int row) {
    return metric_value(model_metrics_of(name) + row, 0);
}

TEST(model_figures_of_now_end_with_who_tells_them) {
    static const char *const NAMES[] = {"a", "b", "c"};
    tell(NAMES, (const uint32_t[]){3, 4, 5}, 3);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(figure(NAMES[i], MODEL_METRIC_RUNNING), 3 + i);
    tell(NAMES + 1, (const uint32_t[]){6}, 1);
    EXPECT_EQ(figure("a", MODEL_METRIC_RUNNING), 0);
    EXPECT_EQ(figure("b", MODEL_METRIC_RUNNING), 6);
    EXPECT_EQ(figure("c", MODEL_METRIC_RUNNING), 0);
    tell(NAMES, (const uint32_t[]){3, 4, 5}, 3);
    model_metrics_lost();
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(figure(NAMES[i], MODEL_METRIC_RUNNING), 0);
        EXPECT_EQ(figure(NAMES[i], MODEL_METRIC_PREEMPTIONS), 7); /* a count stays */
    }
}

/* Models are copies of one table: each name is explained once, and each model has its line. */
TEST(model_figures_are_explained_once) {
    struct buf page = {0};
    static const char TYPE[] = "# TYPE vllm:num_requests_running ";
    model_metrics_of("a");
    model_metrics_of("b");
    metrics_write(&page);
    const char *first = strstr(buf_text(&page), TYPE);
    EXPECT(first && !strstr(first + 1, TYPE));
    EXPECT(strstr(first, "\nvllm:num_requests_running{model_name=\"a\"}") &&
           strstr(first, "\nvllm:num_requests_running{model_name=\"b\"}"));
    buf_release(&page);
}
