/*
 * attention_prompt_narrow.cu - attention_prompt_hopper.cuh for caches of 8 bits.
 */
#include "kernels/cuda/attention_prompt_hopper.cuh"

template <int A>
static bool narrow_of(struct stream *s, const struct attention_call &call,
                      enum storage_type kv_type) {
    return kv_type == STORAGE_I8 ? attention_prompt_hopper_of<A, STORAGE_I8>(s, call)
                                 : attention_prompt_hopper_of<A, STORAGE_F8_E4M3>(s, call);
}

bool attention_prompt_narrow_rows(struct stream *s, const struct attention_call &call,
                                  enum storage_type kv_type) {
    return s->dev->activation_type == STORAGE_BF16 ? narrow_of<STORAGE_BF16>(s, call, kv_type)
                                                   : narrow_of<STORAGE_F16>(s, call, kv_type);
}
