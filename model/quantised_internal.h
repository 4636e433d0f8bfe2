/* quantised_internal.h - what the readers of quantised checkpoints share. */
#ifndef MODEL_QUANTISED_INTERNAL_H
#define MODEL_QUANTISED_INTERNAL_H

#include "model/quantised.h"

/* One module, "X": its base name and a way to its companions. */
struct module {
    struct quantised *q;
    const struct safetensors *set;
    const char *base;
    size_t base_len;
    bool *used; /* [tensor_count] of the set */
    struct error *err;
};

/* The companion "X" + suffix, marked as used; NULL: none. */
const struct tensor *module_find(const struct module *m, const char *suffix);
/* Memory that lives as long as the quantised set; NULL with an error: none left. */
void *module_memory(const struct module *m, size_t size);
/* The numbers of an f32, f16, bf16 or i32 tensor as f32; NULL with an error for another type or none left. */
float *module_floats(const struct module *m, const struct tensor *t);
struct tensor_scales *module_scales(const struct module *m);
int module_invalid(const struct module *m, const char *why);

/* Each makes *out (name not set) from a module's tensors. */
int quantised_awq(const struct module *m, struct tensor *out);
int quantised_gptq(const struct module *m, struct tensor *out);
int quantised_packed(const struct module *m, struct tensor *out);
int quantised_scaled(const struct module *m, const struct tensor *weight, const struct tensor *scale,
                     struct tensor *out);
int quantised_nf4(const struct module *m, const struct tensor *weight, struct tensor *out);

#endif
