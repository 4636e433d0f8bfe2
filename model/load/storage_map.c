#include "model/load/storage_map.h"

static const struct {
    enum tensor_type tensor;
    enum storage_type storage;
} MAP[] = {{TENSOR_F32, STORAGE_F32},         {TENSOR_F16, STORAGE_F16},
           {TENSOR_BF16, STORAGE_BF16},       {TENSOR_F8_E4M3, STORAGE_F8_E4M3},
           {TENSOR_F8_E5M2, STORAGE_F8_E5M2}, {TENSOR_I8, STORAGE_I8},
           {TENSOR_U8, STORAGE_U8},           {TENSOR_U4, STORAGE_U4},
           {TENSOR_NF4, STORAGE_NF4},
#define MAP_ROW(symbol, name, values, bytes, lower) {TENSOR_##symbol, STORAGE_##symbol},
           STORAGE_BLOCK_TYPES(MAP_ROW)
#undef MAP_ROW
};

enum storage_type storage_of(const struct tensor *t) {
    for (size_t i = 0; i < ARRAY_LEN(MAP); i++)
        if (MAP[i].tensor == t->type)
            return storage_is_scaled(MAP[i].storage) && !t->scales ? STORAGE_NONE : MAP[i].storage;
    return STORAGE_NONE;
}

enum tensor_type tensor_type_of(enum storage_type type) {
    for (size_t i = 0; i < ARRAY_LEN(MAP); i++)
        if (MAP[i].storage == type)
            return MAP[i].tensor;
    return TENSOR_TYPE_COUNT;
}
