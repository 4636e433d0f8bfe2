/*
 * model.h - a model folder opened on a device: spec, weights, revision; and the memory a server of
 * it needs.
 *
 * Threading: one thread; the progress callback runs on it.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/load/quantized.h"
#include "model/load/weights.h"
#include "model/spec.h"

struct model {
    struct device *dev;     /* borrowed */
    struct model_spec spec; /* of this rank's part */
    struct shard shard;     /* which that is */
    struct model_weights weights;
    struct safetensors files;        /* mapped while the model is open */
    struct quantized quantized;      /* what some of its tensors point into */
    struct packed_file *packed;      /* what the weights' packed segments may lie in; NULL: none */
    float *inv_freq[SPEC_ROPES_MAX]; /* device memory, [dims / 2]; NULL for ROPE_NONE */
    struct u128 revision;            /* of weights and config; see model_revision */
};

struct model_options {
    /* a folder with config.json and model.safetensors (or its index), or a GGUF file */
    const char *dir;
    struct spec_options config; /* how config.json is read */
    const struct shard *shard;  /* the part this rank has (shard.h); NULL: all */
    /* what plain matrices of layers become at load; STORAGE_NONE: as they are */
    enum storage_type quantize;
    /* that somebody wants on a GPU: refused on one where the model has more; 0: nobody said */
    uint32_t layers_on_gpu;
    weights_progress_fn progress; /* of quantize, then of loading; NULL: nobody asks */
    void *progress_ctx;
    /* A folder that is there, where weights in the order of the CPU's kernels are kept
     * (packed_file.h); NULL: nowhere. Of a model, fewer bytes than packed_least are not kept, and of
     * all models no more than packed_most. */
    const char *packed_folder;
    uint64_t packed_least, packed_most;
    /* On the CPU: what is not kept there is left to model_pack_next, and *model stays where it is. */
    bool packs_later;
};

/* Reads config and tensors and loads them to dev by way of stream. dev outlives the model. ERR_*
 * as spec_read, quantized_open and weights_load; *model is closed then. */
MUST_CHECK int model_open(struct model *model, const struct model_options *options,
                          struct device *dev, struct stream *stream, struct error *err);
/* The spec and the mapped tensors alone, without a device: what model_open begins with. Appends to
 * config the text that is, or stands for, config.json. Ends with model_close, also after an
 * error. */
MUST_CHECK int model_open_files(struct model *model, const struct model_options *options,
                                struct buf *config, struct error *err);
/* Values of other servers' -dev. */
#define DEVICE_ALIAS_WORDS "auto=auto none=cpu cpu=cpu cuda=cuda cuda:0=cuda CUDA0=cuda"
/* Of --layers-on-gpu: -1 is all, 0 none. Then no GPU is opened: "cpu" for the kinds that may be
 * one. */
const char *model_device_kind(const char *kind, int64_t layers_on_gpu);
/* model_options.layers_on_gpu. */
static inline uint32_t model_layers_wanted(int64_t layers_on_gpu) {
    return layers_on_gpu > 0 ? (uint32_t)layers_on_gpu : 0;
}
/* Whether a GPU can have so many of a model's layers: all (0: nobody said), or ERR_UNSUPPORTED. */
MUST_CHECK int model_check_layers_on_gpu(uint32_t wanted, uint32_t layer_count, struct error *err);
/* With packs_later: puts a further matrix, or a segment of one, into the order of the CPU's kernels;
 * the last one begins to keep them. Products have the same bits before and after. false: none was
 * left. No operation that reads the weights may run. */
bool model_pack_next(struct model *model, struct stream *stream);
/* With packs_later: has the pages of a further matrix, or of a segment of one, mapped before a step reads
 * them where they lie. false: none is left. No operation that reads the weights may run. */
bool model_fetch_next(struct model *model);
/* Frees weights, tables and maps. No operation that reads them may run. */
void model_close(struct model *model);
/* Of a folder with these files, the text that is config.json, or stands for it where there is none
 * or it says too little (oxidizr.h); appended. o: as spec_read's. */
MUST_CHECK int model_config_text(const char *dir, const struct safetensors *files,
                                 const struct spec_options *o, struct buf *text, struct error *err);

/*
 * What a model's identity is made of: config.json's bytes; for each weight file its length, its
 * header, and its data: whole when the file is shorter than 64 MB, else the first and last 4 KB of
 * each tensor. So a start does not read gigabytes; two large files that differ only in the middle
 * of tensors, with equal headers, would count as one (a quantized or retrained model differs
 * everywhere). A folder's text files are hashed with it by the caller (the worker: the bundle's
 * hash).
 */
struct u128 model_revision(struct bytes config, const struct safetensors *files);

/* ---- memory ---- */

/* Geometry of the KV cache: one group of all layers, which may differ in what they keep of a
 * position. */
struct kv_geometry {
    enum storage_type type;
    uint32_t block_tokens;
    size_t layer_offsets[SPEC_LAYERS_MAX]; /* of each layer in a block */
    size_t block_bytes;                    /* all layers */
    /* What a slot keeps besides, whatever its length (kernels/ops_state.h); 0: no layer has a
     * state. */
    size_t state_bytes;
    /* copies of a slot's state that there is room for besides; chosen by the caller */
    uint32_t snapshot_count;
    /* offsets in a slot's state */
    size_t mixer_states[SPEC_LAYERS_MAX], ffn_states[SPEC_LAYERS_MAX];
};
/* The choices of --kv-type, and what each means. All go with every device and with plain and latent
 * attention. */
#define KV_TYPE_CHOICES "auto|f32|f16|bf16|fp8|int8"
extern const enum storage_type KV_TYPES[6];
/* type STORAGE_NONE: f32 where the weights are f32, else f16 (11 bits of fraction against bf16's 8;
 * values past 65504 saturate); on a GPU the activations' type, whose products tensor cores take. */
MUST_CHECK int kv_geometry_of(struct kv_geometry *out, const struct model *model,
                              enum storage_type type, uint32_t block_tokens, struct error *err);

/* What a server of this model takes, before a byte of it is allocated. */
struct memory_plan {
    uint64_t weight_bytes;     /* on the CPU: mapped, shared with the page cache */
    uint64_t activation_bytes; /* buffers of one step */
    uint64_t slot_bytes;       /* slot tables, and the layers' states */
    uint64_t kv_bytes;
    uint32_t block_count;
};
struct memory_request {
    uint32_t slot_count, max_step_tokens, max_context;
    uint32_t block_count; /* 0: from kv_bytes */
    /* 0: enough for every slot to be full, at most a quarter of memory_free, and with all sharers
     * half of it; on a GPU, whose memory is its own, nine tenths of what the buffers leave of it */
    uint64_t kv_bytes;
    uint64_t memory_free; /* bytes available on the device now; 0: unknown */
    uint32_t sharers;     /* on the CPU: plans that are made of the same memory_free; 0: this one */
    /* most bytes that weights, buffers, states and keys and values may take together; 0: no bound */
    uint64_t memory_max;
};
/* ERR_LIMIT with an explanation when it does not fit, which may pass; ERR_INVALID when what was asked
 * for holds no block. */
MUST_CHECK int memory_plan_make(struct memory_plan *plan, const struct model *model,
                                const struct kv_geometry *kv, const struct memory_request *request,
                                struct error *err);

#endif
