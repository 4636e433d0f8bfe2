/*
 * oxidizr.h - checkpoints of the trainer oxidizr: layers of Mamba 2, latent or plain attention, experts or a dense
 * feed-forward, mixed freely. Their config.json has no architecture and lacks sizes, or is not there at all; what is
 * missing is inferred from the tensors' names and shapes.
 *
 * The names are those of no library ("layers.3.mamba2.mixer.in_proj.weight", without a prefix). This file makes a
 * configuration in the words of the family "oxidizr" out of names, shapes and the file's config, and gives the norm
 * before a Mamba layer the name that the other layers' norm has.
 *
 * What training did differently from the published recurrence (its chunks are not causal) cannot be served; the
 * standard one is computed, with the checkpoint's A_log, and steps limited to [0.001, 0.1].
 */
#ifndef MODEL_OXIDIZR_H
#define MODEL_OXIDIZR_H

#include "formats/config.h"
#include "formats/safetensors.h"

/* Whether the files are such a checkpoint. config: the file's text, empty where there is none. */
bool oxidizr_is(const struct safetensors *files, struct bytes config);
/* Replaces the text by a full configuration and adds tensors to the set. ERR_UNSUPPORTED: a kind of layer we lack;
 * ERR_INVALID: shapes that contradict each other. */
MUST_CHECK int oxidizr_read(struct safetensors *files, struct buf *config, struct error *err);

#endif
