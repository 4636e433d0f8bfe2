/*
 * choice.h - which of a repository's files make up a model that can be served.
 *
 *   (1) A file that was named: it; of a GGUF file that is one of several, all of them; with
 *       *.safetensors config.json and the files of the tokenizer, too.
 *   (2) A quant that was named: the first GGUF file, in the order of paths, whose path has it
 *       between '-', '.', '_' or '/' signs, else before '-' or '.' (as llama.cpp chooses). Files
 *       that are no model (mmproj, imatrix, draft heads) do not count.
 *   (3) Else, with config.json and *.safetensors in its root: a folder. config.json, the files of
 *       tokenizer and templates, and the weights: what model.safetensors.index.json names, or
 *       model.safetensors, or all that is not of another form (consolidated*, adapter_*).
 *   (4) Else GGUF: Q4_K_M, then Q8_0, then the first one.
 *   (5) Else nothing, with a reason. Pickles (*.bin, *.pt, *.pth, *.ckpt) are never chosen: to read
 *       one is to run what it says.
 *
 * Pure: no file and no network is touched.
 */
#ifndef FORMATS_HUB_CHOICE_H
#define FORMATS_HUB_CHOICE_H

#include "formats/hub/listing.h"
#include "formats/hub/name.h"

struct hub_choice {
    VEC(const struct hub_file *) files; /* into the listing; sorted, each once */
    /* the file to open, of several the first; NULL: the folder is the model */
    const struct hub_file *model;
    /* set: weights are still to be chosen, from this index, once its bytes are here */
    const struct hub_file *index;
};

/* Chooses by what name asks for. index: the bytes of the listing's index of weights, or {NULL, 0}
 * while they are not here; then choice->index says whether they are needed. The listing is
 * borrowed while the choice is in use. ERR_NOT_FOUND or ERR_UNSUPPORTED: nothing can be chosen, err
 * says why and what there is instead; ERR_INVALID: the index is broken. The caller releases
 * *choice, also after a failure. */
MUST_CHECK int hub_choice_make(struct hub_choice *choice, const struct hub_listing *listing,
                               const struct hub_name *name, struct bytes index, struct error *err);
/* The sum of the chosen files' sizes. */
uint64_t hub_choice_bytes(const struct hub_choice *choice);
/* Frees the choice, not the listing that it points into. */
void hub_choice_release(struct hub_choice *choice);

#endif
