/* quantized_internal.h - what the readers of quantized checkpoints share. */
#ifndef MODEL_QUANTIZED_INTERNAL_H
#define MODEL_QUANTIZED_INTERNAL_H

#include "model/load/quantized.h"

/* One module, "X": its base name and a way to its companions. */
struct module {
    struct quantized *q;
    const struct safetensors *set;
    const char *base;
    size_t base_len;
    bool *used; /* [tensor_count] of the set */
    struct error *err;
};

/* The companion "X" + suffix, marked as used; NULL: none. */
const struct tensor *module_find(const struct module *m, const char *suffix);
/* Memory that lives as long as the quantized set; NULL with an error: none left. */
void *module_memory(const struct module *m, size_t size);
/* The numbers of an f32, f16, bf16 or i32 tensor as f32; NULL with an error for another type or
 * none left. */
float *module_floats(const struct module *m, const struct tensor *t);
/* One of module_memory; NULL with an error: none left. */
struct tensor_scales *module_scales(const struct module *m);
/* Sets ERR_INVALID "'X': why" and returns it. */
int module_invalid(const struct module *m, const char *why);

/* Each makes *out (name not set) from a module's tensors; 0, or an error's code. qweight, qzeros and
 * scales of AWQ. */
int quantized_awq(const struct module *m, struct tensor *out);
/* qweight, qzeros, scales of GPTQ (4 or 8 bits), with or without an order of columns. */
int quantized_gptq(const struct module *m, struct tensor *out);
/* weight_packed, weight_scale, weight_shape of compressed-tensors. */
int quantized_packed(const struct module *m, struct tensor *out);
/* A matrix of 8-bit numbers and the tensor of its scales; NULL: an error that says so. */
int quantized_scaled(const struct module *m, const struct tensor *weight,
                     const struct tensor *scale, struct tensor *out);
/* bitsandbytes' NF4 with its companions; its other types are ERR_UNSUPPORTED. */
int quantized_nf4(const struct module *m, const struct tensor *weight, struct tensor *out);

#endif
