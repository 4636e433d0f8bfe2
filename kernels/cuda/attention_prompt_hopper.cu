/*
 * attention_prompt_hopper.cu - which instance of attention_prompt_hopper.cuh computes prompt-class rows,
 * and those for caches of 16 bits.
 */
#include "kernels/cuda/attention_prompt_hopper.cuh"

bool attention_prompt_hopper_rows(struct stream *s, const struct attention_call &call,
                                  enum storage_type kv_type) {
    const enum storage_type act = s->dev->activation_type;
    if (!device_of(s)->prompt_wgmma)
        return false;
    if (kv_type == STORAGE_F8_E4M3 || kv_type == STORAGE_I8)
        return attention_prompt_narrow_rows(s, call, kv_type);
    if (kv_type != act)
        return false;
    return act == STORAGE_BF16 ? attention_prompt_hopper_of<STORAGE_BF16, STORAGE_BF16>(s, call)
                               : attention_prompt_hopper_of<STORAGE_F16, STORAGE_F16>(s, call);
}
