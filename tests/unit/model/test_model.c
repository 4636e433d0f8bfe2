/* Opening a folder: weights that do not fit the config are refused by name; identity; the memory
 * plan. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fsutil.h"
#include "check.h"
#include "model/run/forward.h"

static const char CONFIG[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"vocab_size\":8,\"hidden_size\":4,"
    "\"intermediate_size\":6,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
    "\"tie_word_embeddings\":true,\"max_position_embeddings\":64}";

struct entry {
    const char *name;
    unsigned rows, cols;
    const char *dtype;
};
static const struct entry ENTRIES[] = {
    {"model.embed_tokens.weight", 8, 4, "F32"},
    {"model.norm.weight", 4, 0, "F32"},
    {"model.layers.0.input_layernorm.weight", 4, 0, "F32"},
    {"model.layers.0.post_attention_layernorm.weight", 4, 0, "F32"},
    {"model.layers.0.self_attn.q_proj.weight", 4, 4, "F32"},
    {"model.layers.0.self_attn.k_proj.weight", 4, 4, "F32"},
    {"model.layers.0.self_attn.v_proj.weight", 4, 4, "F32"},
    {"model.layers.0.self_attn.o_proj.weight", 4, 4, "F32"},
    {"model.layers.0.mlp.gate_proj.weight", 6, 4, "F32"},
    {"model.layers.0.mlp.up_proj.weight", 6, 4, "F32"},
    {"model.layers.0.mlp.down_proj.weight", 4, 6, "F32"},
};
enum { ENTRY_COUNT = sizeof ENTRIES / sizeof *ENTRIES };

static char dir[64];

static void put(const char *name, const void *data, size_t len) {
    char *path = path_join(dir, name);
    if (file_write_atomic(path, data, len, 0600, NULL))
        check_fail(__FILE__, __LINE__, "cannot write %s", path);
    mem_free(path);
}

/* The entries, with one replaced (or added past the end, or left out when its name is NULL); every
 * value is `fill`. */
static void put_weights(int replaced, struct entry by, char fill) {
    struct buf header, file;
    buf_init(&header, 0);
    buf_init(&file, 0);
    size_t at = 0;
    for (int i = 0; i < ENTRY_COUNT + 1; i++) {
        struct entry e = i == replaced ? by : i < ENTRY_COUNT ? ENTRIES[i] : (struct entry){0};
        if (!e.name)
            continue;
        size_t size = (size_t)e.rows * (e.cols ? e.cols : 1) *
                      (strcmp(e.dtype, "F32") ? strcmp(e.dtype, "I8") ? 2 : 1 : 4);
        buf_addf(&header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%u", header.len ? "," : "{",
                 e.name, e.dtype, e.rows);
        if (e.cols)
            buf_addf(&header, ",%u", e.cols);
        buf_addf(&header, "],\"data_offsets\":[%zu,%zu]}", at, at + size);
        at += size;
    }
    buf_add_str(&header, "}");
    uint64_t len = header.len;
    buf_add(&file, &len, 8);
    buf_add_bytes(&file, buf_bytes(&header));
    for (size_t i = 0; i < at; i++)
        buf_add_byte(&file, fill);
    put("config.json", CONFIG, sizeof CONFIG - 1);
    put("model.safetensors", file.data, file.len);
    buf_release(&header);
    buf_release(&file);
}

static struct device *dev;
static struct stream *stream;
static struct model model;
static struct error err;

static int open_model(void) {
    struct device_options device = {.thread_count = 1};
    struct model_options options = {.dir = dir};
    if (device_open(&device, &dev, &err))
        return -100;
    stream = stream_new(dev);
    err = (struct error){0};
    return model_open(&model, &options, dev, stream, &err);
}
static void close_model(int rc) {
    if (!rc)
        model_close(&model);
    stream_free(&stream);
    device_close(&dev);
}
static void new_dir(void) {
    snprintf(dir, sizeof dir, "/tmp/trireme-model-XXXXXX");
    if (!mkdtemp(dir))
        check_fail(__FILE__, __LINE__, "no folder");
}
static void drop_dir(void) {
    static const char *const names[] = {"config.json", "model.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        char *path = path_join(dir, names[i]);
        unlink(path);
        mem_free(path);
    }
    rmdir(dir);
}

TEST(weights_that_do_not_fit_the_config_are_refused_by_name) {
    static const struct {
        int replaced;
        struct entry by;
        const char *names;
    } cases[] = {
        {4, {NULL}, "self_attn.q_proj.weight"},
        {4, {"model.layers.0.self_attn.q_proj.weight", 4, 5, "F32"}, "self_attn.q_proj.weight"},
        {4, {"model.layers.0.self_attn.q_proj.weight", 8, 4, "F32"}, "self_attn.q_proj.weight"},
        {4, {"model.layers.0.self_attn.q_proj.weight", 4, 4, "I8"}, "I8"},
        {1, {"model.norm.weight", 4, 1, "F32"}, "model.norm.weight"},
        {ENTRY_COUNT, {"model.layers.0.self_attn.q_norm.weight", 2, 0, "F32"}, "q_norm"},
        {ENTRY_COUNT, {"model.layers.1.input_layernorm.weight", 4, 0, "F32"}, "layers.1"},
    };
    new_dir();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_weights(cases[i].replaced, cases[i].by, 0);
        int rc = open_model();
        if (!rc || !strstr(err.text, cases[i].names))
            check_fail(__FILE__, __LINE__, "case %zu: %s", i, err.text);
        close_model(rc);
    }
    drop_dir();
}

TEST(a_tied_head_may_be_stored_under_either_name) {
    new_dir();
    put_weights(0, (struct entry){"lm_head.weight", 8, 4, "F32"}, 1);
    int rc = open_model();
    EXPECT(!rc && model.weights.head.segments[0].data == model.weights.embed.segments[0].data);
    close_model(rc);
    put_weights(ENTRY_COUNT, (struct entry){"lm_head.weight", 8, 4, "F32"}, 1); /* both, equal */
    rc = open_model();
    EXPECT(!rc);
    close_model(rc);
    put_weights(ENTRY_COUNT,
                (struct entry){"model.layers.0.self_attn.rotary_emb.inv_freq", 1, 0, "F32"}, 1);
    rc = open_model();
    EXPECT(!rc);
    close_model(rc);
    drop_dir();
}

/* As a device that re-tiles weights where they lie. */
static size_t packs_in_place(const struct device *d, const struct matrix *w, uint32_t segment) {
    return PACKED_IN_PLACE;
}
static const void *retiled; /* what the last packing wrote to */
static void retile(struct stream *s, const struct matrix *w, uint32_t segment, void *out) {
    retiled = out;
}

/* The embedding is read row by row: only a copy of its bytes may be re-tiled for the head. */
TEST(a_tied_head_is_packed_beside_the_embedding) {
    static const int STORED_AS[] = {-1, 0}; /* the embedding's name, the head's */
    static struct ops ops;
    for (size_t i = 0; i < ARRAY_LEN(STORED_AS); i++) {
        new_dir();
        put_weights(STORED_AS[i], (struct entry){"lm_head.weight", 8, 4, "F32"}, 1);
        struct device_options device = {.thread_count = 1};
        struct model_options options = {.dir = dir};
        EXPECT(!device_open(&device, &dev, &err));
        ops = *dev->ops;
        ops.packed_bytes = packs_in_place;
        ops.pack = retile;
        dev->ops = &ops;
        stream = stream_new(dev);
        retiled = NULL;
        int rc = model_open(&model, &options, dev, stream, &err);
        EXPECT(!rc && !model.weights.embed.segments[0].packed);
        EXPECT(model.weights.head.segments[0].packed);
        EXPECT(model.weights.head.segments[0].packed != model.weights.embed.segments[0].data);
        EXPECT(retiled && retiled != model.weights.embed.segments[0].data);
        close_model(rc);
        drop_dir();
    }
}

TEST(identity_follows_config_and_weights) {
    new_dir();
    put_weights(-1, (struct entry){0}, 1);
    int rc = open_model();
    struct u128 first = model.revision;
    close_model(rc);
    rc = open_model();
    struct u128 again = model.revision;
    close_model(rc);
    put_weights(-1, (struct entry){0}, 2);
    rc = open_model();
    struct u128 other = model.revision;
    close_model(rc);
    EXPECT(!u128_is_zero(first) && u128_equal(first, again) && !u128_equal(first, other));
    drop_dir();
}

TEST(the_memory_plan_says_what_fits) {
    struct kv_geometry kv;
    struct memory_plan plan;
    struct memory_request request = {
        .slot_count = 4, .max_step_tokens = 32, .max_context = 64, .memory_free = 1 << 30};
    new_dir();
    put_weights(-1, (struct entry){0}, 1);
    int rc = open_model();
    EXPECT(!rc && !kv_geometry_of(&kv, &model, STORAGE_NONE, 16, &err));
    EXPECT(kv.type == STORAGE_F32 && kv.block_bytes == 2 * 4 * 16 * 4);
    EXPECT(!memory_plan_make(&plan, &model, &kv, &request, &err));
    EXPECT(plan.block_count == 16 && plan.kv_bytes == 16 * kv.block_bytes &&
           plan.activation_bytes > 0 && plan.weight_bytes > 0);
    request.kv_bytes = 5 * kv.block_bytes + 7;
    EXPECT(!memory_plan_make(&plan, &model, &kv, &request, &err) && plan.block_count == 5);
    request.kv_bytes = kv.block_bytes - 1;
    EXPECT_EQ(memory_plan_make(&plan, &model, &kv, &request, &err), ERR_INVALID);
    request.kv_bytes = (uint64_t)1 << 34;
    EXPECT_EQ(memory_plan_make(&plan, &model, &kv, &request, &err), ERR_LIMIT);
    EXPECT(strstr(err.text, "--kv-bytes") != NULL);
    request.kv_bytes = 0;
    request.memory_max = plan.weight_bytes + plan.activation_bytes + plan.slot_bytes;
    EXPECT_EQ(memory_plan_make(&plan, &model, &kv, &request, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "--memory-fraction") != NULL);
    request.memory_max += 3 * kv.block_bytes + 1;
    EXPECT(!memory_plan_make(&plan, &model, &kv, &request, &err) && plan.block_count == 3);
    request.memory_max += (uint64_t)1 << 20; /* more than every slot can fill is not taken */
    EXPECT(!memory_plan_make(&plan, &model, &kv, &request, &err) && plan.block_count == 16);
    request.memory_max = 0;
    request.memory_free = plan.activation_bytes + plan.kv_bytes + ((uint64_t)1 << 20);
    uint64_t blocks = request.memory_free / kv.block_bytes; /* that memory would hold */
    request.slot_count = 1024;                              /* want more than that */
    request.sharers = 2;
    EXPECT(!memory_plan_make(&plan, &model, &kv, &request, &err));
    EXPECT_EQ(plan.block_count, blocks / 4);
    request.sharers = 8; /* half of the memory for all of them */
    EXPECT(!memory_plan_make(&plan, &model, &kv, &request, &err));
    EXPECT_EQ(plan.block_count, blocks / 16);
    request.slot_count = 4;
    request.sharers = 0;
    request.memory_free = 1; /* none is left, which is not the same as unknown: one slot's blocks */
    EXPECT_EQ(memory_plan_make(&plan, &model, &kv, &request, &err), ERR_LIMIT);
    EXPECT_EQ(plan.block_count, 4);
    EXPECT(kv_geometry_of(&kv, &model, STORAGE_NONE, 17, &err) == ERR_UNSUPPORTED);
    close_model(rc);
    drop_dir();
}
