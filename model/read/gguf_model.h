/*
 * gguf_model.h - a GGUF file's metadata as the config.json that the same network would have, and
 * the names its tensors go by. So a GGUF model is read by the same families (spec_read.h) as a
 * folder of Hugging Face's.
 *
 * What a converter changed on the way to GGUF is put right here: rows of Q and K permuted for
 * interleaved rotation (then the tables are interleaved), norm weights with their offset added
 * (then the offset is 0), fused tensors stacked, matrices never transposed. Keys:
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
 *
 * Threading: none.
 */
#ifndef MODEL_GGUF_MODEL_H
#define MODEL_GGUF_MODEL_H

#include "formats/gguf.h"
#include "model/read/names.h"
#include "model/spec.h"

/* Files of the folder that a GGUF file was converted from are kept under this and their name. */
#define GGUF_FILE_KEY "trireme.file."

struct gguf_arch {
    const char *name; /* general.architecture */
    const char *model_type, *architecture;
    const struct name_table *names;
    /* the converter permutes Q and K (and their biases) for interleaved rotation */
    bool permuted;
    const char *when;                /* only files that have this (gguf_archs.c); NULL: all */
    const struct name_table *folder; /* only models whose folders have these names; NULL: all */
};

/* The row of general.architecture; NULL with ERR_UNSUPPORTED naming it. */
const struct gguf_arch *gguf_arch_of(const struct gguf *g, struct error *err);
/* The row a spec of a folder is written as; NULL with ERR_UNSUPPORTED naming the family. */
const struct gguf_arch *gguf_arch_for(const struct model_spec *spec, struct error *err);
/* Appends the JSON of config.json. ERR_INVALID names the key that is missing. */
MUST_CHECK int gguf_config_text(const struct gguf *g, const struct gguf_arch *arch,
                                struct buf *json, struct error *err);
/* Changes a spec read from that text to what the file's tensors are. */
void gguf_adjust_spec(struct model_spec *spec, const struct gguf_arch *arch);

#endif
