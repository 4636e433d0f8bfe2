/*
 * attention_decode_narrow.cu - attention_decode.cuh for caches of 8 bits, which become bf16.
 */
#include "kernels/cuda/attention_decode.cuh"

template <int K> static bool narrow_of(struct stream *s, const struct attention_call &call) {
    switch (call.kv.head_dim) {
    case 64: decode_of<STORAGE_BF16, K, 64>(s, call); return true;
    case 128: decode_of<STORAGE_BF16, K, 128>(s, call); return true;
    case 256: decode_of<STORAGE_BF16, K, 256>(s, call); return true;
    default: return false;
    }
}

bool attention_decode_narrow_rows(struct stream *s, const struct attention_call &call,
                                  enum storage_type kv_type) {
    return kv_type == STORAGE_I8 ? narrow_of<STORAGE_I8>(s, call)
                                 : narrow_of<STORAGE_F8_E4M3>(s, call);
}
