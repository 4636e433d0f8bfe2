/*
 * fuzz_config.c - any config.json is read or refused, and whatever is read becomes a spec within
 * its bounds or is refused with a text.
 */
#include "formats/config.h"
#include "fuzz.h"
#include "model/run/rope.h"
#include "model/spec.h"

#include "kernels/ops.h" /* the spec's enums; links what model needs */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct model_spec spec;
    struct error err = {0};
    if (spec_read_text(&spec, bytes_of(data, size), NULL, &err)) {
        CHECK(err.text[0]);
        return 0;
    }
    CHECK(spec.layer_count && spec.layer_count <= SPEC_LAYERS_MAX && spec.vocab <= SPEC_VOCAB_MAX &&
          spec.hidden <= SPEC_HIDDEN_MAX);
    for (uint32_t i = 0; i < spec.layer_count; i++) {
        const struct attention_spec *a = &spec.layers[i].attention;
        if (spec.layers[i].mixer != MIXER_ATTENTION)
            continue;
        CHECK(a->kv_heads && a->heads % a->kv_heads == 0 && a->head_dim <= SPEC_HEAD_DIM_MAX &&
              a->rope_idx < spec.rope_count);
    }
    float inv_freq[SPEC_HEAD_DIM_MAX / 2];
    for (uint32_t i = 0; i < spec.rope_count; i++)
        if (spec.ropes[i].kind)
            rope_inv_freq(&spec.ropes[i], 1, inv_freq);
    spec_release(&spec);
    return 0;
}
