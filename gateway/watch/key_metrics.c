#include "gateway/watch/key_metrics.h"

#include <pthread.h>

static const struct metric ROWS[KEY_METRIC_COUNT] = {
    [KEY_METRIC_REQUESTS] = {.name = "trireme_key_requests_total",
                             .kind = METRIC_COUNTER,
                             .help = "Requests of the key that went to the scheduler."},
    [KEY_METRIC_PROMPT_TOKENS] = {.name = "trireme_key_prompt_tokens_total",
                                  .kind = METRIC_COUNTER,
                                  .help = "Their prompt tokens, once they got a first token."},
    [KEY_METRIC_OUTPUT_TOKENS] = {.name = "trireme_key_output_tokens_total",
                                  .kind = METRIC_COUNTER,
                                  .help = "Their output tokens."},
    [KEY_METRIC_REFUSED] = {.name = "trireme_key_refused_total",
                            .kind = METRIC_COUNTER,
                            .help = "Requests refused for a bound of the key.",
                            .label = "bound",
                            .label_values = "requests|tokens"},
};

static struct key {
    char *name; /* owned */
    struct metric rows[KEY_METRIC_COUNT];
} * keys[KEY_METRICS_MAX];
static size_t key_count;
static pthread_mutex_t keys_lock = PTHREAD_MUTEX_INITIALIZER;

void key_metrics_register(void) {
    static struct metric any[KEY_METRIC_COUNT];
    memcpy(any, ROWS, sizeof any);
    metrics_register_copies(any, KEY_METRIC_COUNT);
}

/* Under the lock. */
static struct key *find(const char *name) {
    for (size_t i = 0; i < key_count; i++)
        if (!strcmp(keys[i]->name, name))
            return keys[i];
    return NULL;
}

struct metric *key_metrics_of(const char *name) {
    pthread_mutex_lock(&keys_lock);
    struct key *k = find(name);
    if (!k && key_count + 1 >= KEY_METRICS_MAX)
        k = find(name = "other");
    if (!k) {
        k = mem_alloc(sizeof *k);
        *k = (struct key){.name = mem_strdup(name)};
        memcpy(k->rows, ROWS, sizeof k->rows);
        metrics_register_copy(k->rows, KEY_METRIC_COUNT, "key", k->name);
        keys[key_count++] = k;
    }
    pthread_mutex_unlock(&keys_lock);
    return k->rows;
}
