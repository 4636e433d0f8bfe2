/* storage_map.h - from the types of files to storage types. */
#ifndef MODEL_STORAGE_MAP_H
#define MODEL_STORAGE_MAP_H

#include "formats/safetensors.h"
#include "kernels/types.h"

/* STORAGE_NONE for what holds no weights. Numbers that need scales (fp8, int8) count only with
 * them. */
enum storage_type storage_of(const struct tensor *t);
/* The other way; TENSOR_TYPE_COUNT for STORAGE_NONE. */
enum tensor_type tensor_type_of(enum storage_type type);

#endif
