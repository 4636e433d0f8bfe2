/*
 * fuzz_safetensors.c - any bytes open or are refused; what opens has tensors inside the file, whose
 * sizes add up, and that are found by name.
 */
#include "formats/safetensors.h"
#include "fuzz.h"

static void check_tensor(const struct safetensors *set, const struct tensor *t, struct bytes file,
                         uint64_t *sum) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < t->dim_count; i++)
        count *= t->dims[i];
    CHECK(count * tensor_type_size(t->type) == t->byte_len);
    CHECK(t->data >= file.data && t->byte_len <= (size_t)(file.data + file.len - t->data));
    CHECK(safetensors_find(set, t->name) == t);
    *sum += t->byte_len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct safetensors set;
    struct error err;
    struct bytes file = bytes_of(data, size);
    if (safetensors_open_bytes(&set, file, "fuzz", &err))
        return 0;
    uint64_t sum = 0, header_len;
    memcpy(&header_len, data, 8);
    for (size_t i = 0; i < set.tensor_count; i++)
        check_tensor(&set, &set.tensors[i], file, &sum);
    CHECK(8 + header_len + sum == size);
    safetensors_close(&set);
    return 0;
}
