/*
 * attention_decode.cu - which instance of attention_decode.cuh computes output-class rows, and those
 * for caches of 16 bits.
 */
#include "kernels/cuda/attention_decode.cuh"

bool attention_decode_rows(struct stream *s, const struct attention_call &call,
                           enum storage_type kv_type) {
    const enum storage_type act = s->dev->activation_type;
    if (act == STORAGE_F32)
        return false;
    if (kv_type == STORAGE_F8_E4M3 || kv_type == STORAGE_I8)
        return attention_decode_narrow_rows(s, call, kv_type);
    if (act != kv_type)
        return false;
    return act == STORAGE_BF16 ? decode_of_size<STORAGE_BF16, STORAGE_BF16>(s, call)
                               : decode_of_size<STORAGE_F16, STORAGE_F16>(s, call);
}
