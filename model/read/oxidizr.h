/*
 * oxidizr.h - checkpoints of the trainer oxidizr: layers of Mamba 1, 2 and 3, latent or plain
 * attention, experts or a dense feed-forward, mixed freely. Their config.json has no architecture
 * and lacks sizes, or is not there at all; what is missing is inferred from the tensors' names and
 * shapes, and what is told must agree with them.
 *
 * The names are those of no library ("layers.3.mamba2.mixer.in_proj.weight", without a prefix).
 * This file makes a configuration in the words of the family "oxidizr" (oxidizr_read.c) out of
 * names, shapes and the file's config.
 *
 * What training did differently from the published recurrence (its chunks are not causal) cannot be
 * served; the standard one is computed, with the checkpoint's A_log, and steps limited to [0.001,
 * 0.1].
 */
#ifndef MODEL_OXIDIZR_H
#define MODEL_OXIDIZR_H

#include "formats/config.h"
#include "formats/safetensors.h"
#include "model/spec.h"

/* Whether the files are such a checkpoint. config: the file's text, empty where there is none. */
bool oxidizr_is(const struct safetensors *files, struct bytes config);
/* Replaces the text by a full configuration. o: as spec_read has it. ERR_UNSUPPORTED: a kind
 * of layer or a field that we lack; ERR_INVALID: shapes that contradict each other or the text. */
MUST_CHECK int oxidizr_read(const struct safetensors *files, struct buf *config,
                            const struct spec_options *o, struct error *err);

#endif
