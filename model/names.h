/*
 * names.h - which tensor plays which role: per family one table of patterns, "%u" stands for the layer.
 */
#ifndef MODEL_NAMES_H
#define MODEL_NAMES_H

#include "base/base.h"

enum weight_role {
    ROLE_EMBED,
    ROLE_FINAL_NORM,
    ROLE_HEAD,
    ROLE_MIXER_NORM, /* from here on: one a layer */
    ROLE_Q,
    ROLE_K,
    ROLE_V,
    ROLE_Q_BIAS,
    ROLE_K_BIAS,
    ROLE_V_BIAS,
    ROLE_OUT,
    ROLE_OUT_BIAS,
    ROLE_FFN_NORM,
    ROLE_GATE,
    ROLE_UP,
    ROLE_DOWN,
    ROLE_GATE_BIAS,
    ROLE_UP_BIAS,
    ROLE_DOWN_BIAS,
    ROLE_COUNT
};

enum { TENSOR_NAME_MAX = 128 };

struct name_table {
    const char *patterns[ROLE_COUNT];
    const char *const *ignored; /* patterns of tensors that carry nothing (old rotary buffers), ended by NULL */
};

extern const struct name_table LLAMA_NAMES;

/* The tensor's name; layer counts only where the pattern has one. */
void role_name(const struct name_table *names, enum weight_role role, uint32_t layer, char out[TENSOR_NAME_MAX]);
/* True when the name matches an ignored pattern ("%u": any digits). */
bool name_is_ignored(const struct name_table *names, const char *name);

#endif
