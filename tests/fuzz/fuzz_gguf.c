/*
 * fuzz_gguf.c - any bytes open or are refused; in what opens every tensor and every value lies
 * inside the file, and is found by its name.
 */
#include "formats/gguf.h"
#include "fuzz.h"

static void check_tensor(const struct gguf *g, const struct tensor *t, struct bytes file) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < t->dim_count; i++)
        count *= t->dims[i];
    CHECK(count / tensor_type_block(t->type) * tensor_type_size(t->type) == t->byte_len);
    CHECK(t->data >= file.data && t->byte_len <= (size_t)(file.data + file.len - t->data));
    CHECK(safetensors_find(&g->set, t->name) == t);
}

/* Reads every value; the sanitizer sees where. */
static void check_kv(const struct gguf *g, const struct gguf_kv *kv) {
    char key[GGUF_NAME_MAX + 1];
    struct gguf_strings strings = gguf_strings_of(kv);
    struct bytes s;
    int64_t i;
    double d = 0;
    uint64_t count = 0, sum = 0;
    memcpy(key, kv->key.data, kv->key.len);
    key[kv->key.len] = 0;
    CHECK(gguf_find(g, key) == kv);
    while (gguf_strings_next(&strings, &s)) {
        for (size_t k = 0; k < s.len; k++)
            sum += s.data[k];
        count++;
    }
    CHECK(kv->type != GGUF_STRING || count == kv->count);
    for (uint64_t k = 0; k < kv->count; k++) {
        bool is_int = gguf_int_at(kv, k, &i), is_number = gguf_double_at(kv, k, &d);
        CHECK(is_number || !is_int);
    }
    CHECK(sum < UINT64_MAX && !gguf_int_at(kv, kv->count, &i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct gguf g;
    struct error err;
    struct bytes file = bytes_of(data, size);
    if (gguf_open_bytes(&g, file, "fuzz", &err))
        return 0;
    for (size_t i = 0; i < g.set.tensor_count; i++)
        check_tensor(&g, &g.set.tensors[i], file);
    for (size_t i = 0; i < g.kv_count; i++)
        check_kv(&g, &g.kvs[i]);
    gguf_close(&g);
    return 0;
}
