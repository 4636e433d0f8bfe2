/*
 * quantized.h - checkpoints of Hugging Face folders whose weights are quantized: what several
 * tensors say together becomes one tensor with a storage type and scales, under the name the plain
 * weight would have.
 *
 *   AWQ (AutoAWQ "gemm")      X.qweight, X.qzeros, X.scales                  -> int4, groups along the inputs
 *   GPTQ (v1, v2; 4, 8 bits)  X.qweight, X.qzeros, X.scales, X.g_idx         -> int4 or uint8, groups in any order
 *   compressed-tensors        X.weight_packed, _scale, _zero_point, _g_idx   -> int4 or uint8; in place
 *   fp8, int8                 X.weight and X.weight_scale, X.weight_scale_inv or X.SCB -> fp8 or int8; in place; one
 *                             scale for all, for each row, or for each block
 *   bitsandbytes NF4          X.weight, X.weight.absmax, ...quant_state      -> nf4; in place; also doubly quantized
 *
 * Which tensors a module has decides, so modules that the config lists as not converted stay as
 * they are. Activations are never quantized here: static input scales are left out. What packs
 * along the outputs (AWQ, GPTQ) is transposed once, at the same size; scales and zeros become f32.
 *
 * Threading: none. Everything it makes lives until quantized_close, and the set's tensors point
 * into it.
 */
#ifndef MODEL_QUANTIZED_H
#define MODEL_QUANTIZED_H

#include "base/error.h"
#include "base/vec.h"
#include "formats/safetensors.h"
#include "model/spec.h"

/* What quantization_config says; all zero: nothing. */
struct quantized_config {
    char method[32]; /* "awq", "gptq", "compressed-tensors", "fp8", "bitsandbytes", ...; "": none */
    char algo[32];   /* ModelOpt: "FP8" */
    int64_t bits, group_size;
    char version[16];           /* AWQ: "gemm" */
    char checkpoint_format[16]; /* GPTQ: "gptq", "gptq_v2" */
    int64_t block[2];           /* of fp8 blocks */
};

struct quantized {
    struct quantized_config config;
    VEC(void *) memory;
};

/* Of config.json's text; *c was zero. ERR_UNSUPPORTED names a method we lack. */
MUST_CHECK int quantized_config_read(struct quantized_config *c, struct bytes text,
                                     struct error *err);
/* Rewrites the set. config_json: config.json's text. ERR_UNSUPPORTED names a method or an option we
 * lack, ERR_INVALID a tensor that does not fit its companions. Nothing happens without
 * companions. */
MUST_CHECK int quantized_open(struct quantized *q, struct safetensors *set,
                              struct bytes config_json, struct error *err);
/* Quantizes at load: every plain matrix of a layer (not: embedding, head, experts, recurrent
 * mixers') becomes F8_E4M3, I8 (a scale each row) or U4 (a scale each 128 columns) in memory of
 * ours. After quantized_open. progress: called after each, with how many of all places where a matrix
 * may lie are done; or NULL. */
MUST_CHECK int quantized_online(struct quantized *q, struct safetensors *set,
                                const struct model_spec *spec, enum storage_type type,
                                void (*progress)(void *ctx, uint64_t done, uint64_t total),
                                void *progress_ctx, struct error *err);
/* Frees what the tensors of the set now point into: after the weights are loaded. */
void quantized_close(struct quantized *q);

#endif
