/*
 * attention_decode_narrow.cu - attention_decode.cuh for caches of 8 bits, which become the activations'
 * type: those that become bf16.
 */
#include "kernels/cuda/attention_decode.cuh"

bool attention_decode_narrow_rows(struct stream *s, const struct attention_call &call,
                                  enum storage_type kv_type) {
    if (s->dev->activation_type == STORAGE_F16)
        return attention_decode_narrow_f16_rows(s, call, kv_type);
    return kv_type == STORAGE_I8 ? decode_of_size<STORAGE_BF16, STORAGE_I8>(s, call)
                                 : decode_of_size<STORAGE_BF16, STORAGE_F8_E4M3>(s, call);
}
