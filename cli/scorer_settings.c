#include "cli/scorer_settings.h"

struct scorer_options scorer_options_of(const struct scorer_settings *s, const char *model,
                                        uint32_t max_context) {
    return (struct scorer_options){.model = model,
                                   .device = model_device_kind(s->device, s->layers_on_gpu),
                                   .layers_on_gpu = model_layers_wanted(s->layers_on_gpu),
                                   .max_context = max_context,
                                   .isa = s->isa,
                                   .thread_count = (int)s->threads,
                                   .quantize = SCORER_QUANTIZE[s->quantize],
                                   .kv = KV_TYPES[s->kv_type],
                                   .compute = SCORER_COMPUTE[s->compute]};
}
