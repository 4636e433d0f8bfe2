/*
 * attention_decode.cu - which instance of attention_decode.cuh computes output-class rows, and those
 * for caches of 16 bits.
 */
#include "kernels/cuda/attention_decode.cuh"

bool attention_decode_rows(struct stream *s, const struct attention_call &call,
                           enum storage_type kv_type) {
    const enum storage_type act = s->dev->activation_type;
    const uint32_t dim = call.kv.head_dim;
    if (act == STORAGE_BF16 && (kv_type == STORAGE_F8_E4M3 || kv_type == STORAGE_I8))
        return attention_decode_narrow_rows(s, call, kv_type);
    if (act != kv_type)
        return false;
    if (act == STORAGE_BF16 && dim == 64)
        decode_of<STORAGE_BF16, STORAGE_BF16, 64>(s, call);
    else if (act == STORAGE_BF16 && dim == 80)
        decode_of<STORAGE_BF16, STORAGE_BF16, 80>(s, call);
    else if (act == STORAGE_BF16 && dim == 96)
        decode_of<STORAGE_BF16, STORAGE_BF16, 96>(s, call);
    else if (act == STORAGE_BF16 && dim == 128)
        decode_of<STORAGE_BF16, STORAGE_BF16, 128>(s, call);
    else if (act == STORAGE_BF16 && dim == 256)
        decode_of<STORAGE_BF16, STORAGE_BF16, 256>(s, call);
    else if (act == STORAGE_F16 && dim == 64)
        decode_of<STORAGE_F16, STORAGE_F16, 64>(s, call);
    else if (act == STORAGE_F16 && dim == 128)
        decode_of<STORAGE_F16, STORAGE_F16, 128>(s, call);
    else if (act == STORAGE_F16 && dim == 256)
        decode_of<STORAGE_F16, STORAGE_F16, 256>(s, call);
    else
        return false;
    return true;
}
