/*
 * The memory plan against what a loaded model takes: bytes asked of the device while weights, slots
 * with their KV cache and states, and buffers are made, for models of each kind of layer and for
 * each type of cache.
 */
#include "golden.h"

static struct device_calls counting;
static const struct device_calls *plain;
static uint64_t taken;

static void *count_alloc(struct device *dev, size_t size) {
    taken += size;
    return plain->alloc(dev, size);
}
/* The CPU borrows what it imports; another device would copy it. */
static const void *count_import(struct device *dev, const void *host, size_t size) {
    taken += size;
    return plain->import(dev, host, size);
}

static struct device *open_counting(void) {
    struct device_options options = {.thread_count = 1};
    struct device *dev = NULL;
    struct error err;
    if (device_open(&options, &dev, &err))
        return NULL;
    plain = dev->calls;
    counting = *plain;
    counting.alloc = count_alloc;
    counting.import = count_import;
    dev->calls = &counting;
    return dev;
}

/* Within a fiftieth, and 4 KB for what is rounded up. */
static void expect_near(const char *name, const char *what, uint64_t took, uint64_t planned) {
    uint64_t difference = took > planned ? took - planned : planned - took;
    if (difference > took / 50 + 4096)
        check_fail(__FILE__, __LINE__, "%s: %s take %llu bytes, planned were %llu", name, what,
                   (unsigned long long)took, (unsigned long long)planned);
}

static uint64_t taken_since(uint64_t *before) {
    uint64_t took = taken - *before;
    *before = taken;
    return took;
}

static void check_model(const char *name, const char *dir, enum storage_type cache) {
    enum { SLOTS = 7, ROWS = 48, CONTEXT = 96, BLOCKS = 19 };
    struct device *dev = open_counting();
    struct stream *stream = stream_new(dev);
    struct model m;
    struct model_options options = {.dir = dir};
    struct kv_geometry kv;
    struct memory_plan plan;
    struct slots slots = {0};
    struct forward forward = {0};
    struct error err = {0};
    struct memory_request request = {.slot_count = SLOTS,
                                     .max_step_tokens = ROWS,
                                     .max_context = CONTEXT,
                                     .block_count = BLOCKS};
    uint64_t before = taken, on_disk = 0;
    int rc = model_open(&m, &options, dev, stream, &err);
    for (size_t i = 0; !rc && i < m.files.tensor_count; i++)
        on_disk += m.files.tensors[i].byte_len;
    uint64_t weights = taken_since(&before);
    if (!rc)
        rc = kv_geometry_of(&kv, &m, cache, 16, &err);
    if (!rc)
        rc = memory_plan_make(&plan, &m, &kv, &request, &err);
    if (!rc)
        rc = slots_init(&slots, &m, &kv, SLOTS, CONTEXT, plan.block_count, &err);
    uint64_t sequences = taken_since(&before);
    if (!rc)
        rc = forward_init(&forward, &m, &slots, ROWS, ROWS, &err);
    uint64_t buffers = taken_since(&before);
    if (rc) {
        check_fail(__FILE__, __LINE__, "%s: %s", name, err.text);
    } else {
        EXPECT_EQ(plan.block_count, BLOCKS);
        expect_near(name, "weights", weights, plan.weight_bytes);
        expect_near(name, "slots and cache", sequences, plan.slot_bytes + plan.kv_bytes);
        expect_near(name, "buffers", buffers, plan.activation_bytes);
        /* What doctor knows before it loads: vectors become f32, which in tiny models counts. */
        if (!(weights <= on_disk * 2 && weights * 2 >= on_disk))
            check_fail(__FILE__, __LINE__, "%s: %llu bytes of weights, %llu in the files", name,
                       (unsigned long long)weights, (unsigned long long)on_disk);
    }
    forward_release(&forward);
    if (slots.dev)
        slots_release(&slots);
    model_close(&m);
    stream_free(&stream);
    device_close(&dev);
}

static void check_golden(const char *name, enum storage_type cache) {
    struct model_golden g;
    struct buf path;
    char dir[] = "/tmp/trm-plan-XXXXXX";
    buf_init(&path, 0);
    buf_addf(&path, TRIREME_SOURCE_DIR "/tests/goldens/models/%s.json", name);
    EXPECT(model_golden_read(&g, buf_text(&path)) && mkdtemp(dir) &&
           golden_put_model(&g, dir, STORAGE_F32));
    check_model(name, dir, cache);
    golden_drop_dir(dir);
    model_golden_free(&g);
    buf_release(&path);
}

TEST(a_model_takes_what_was_planned) {
    static const char *const NAMES[] = {"llama3", "deepseek_v3", "mixtral", "mamba2",
                                        "jamba",  "qwen3_next",  "gpt_oss"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        check_golden(NAMES[i], i % 2 ? STORAGE_I8 : STORAGE_F32);
}

TEST(the_bundled_model_takes_what_was_planned) {
    for (size_t i = 0; i < ARRAY_LEN(KV_TYPES); i++)
        check_model("demo", TRIREME_SOURCE_DIR "/demo/model", KV_TYPES[i]);
}
