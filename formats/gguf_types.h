/*
 * gguf_types.h - GGUF's numbers for tensor types, and the order of tensors in a set. For formats/
 * only.
 */
#ifndef FORMATS_GGUF_TYPES_H
#define FORMATS_GGUF_TYPES_H

#include "formats/safetensors.h"

/* False when the number is no type, or one that holds no weights (Q8_1, Q8_K: only ever
 * intermediate). */
MUST_CHECK bool gguf_tensor_type(uint32_t number, enum tensor_type *out);
/* The number; UINT32_MAX for a type GGUF lacks. */
uint32_t gguf_number_of(enum tensor_type type);
/* Sorts by name, as safetensors_find needs it. */
void tensors_sort(struct safetensors *set);

#endif
