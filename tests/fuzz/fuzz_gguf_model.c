/*
 * fuzz_gguf_model.c - any bytes that are a GGUF file become a config and a spec, or are refused.
 */
#include "formats/gguf.h"
#include "fuzz.h"
#include "kernels/types.h"
#include "model/read/gguf_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct gguf g;
    struct error err;
    struct buf json;
    struct model_spec spec;
    if (gguf_open_bytes(&g, bytes_of(data, size), "fuzz", &err))
        return 0;
    buf_init(&json, 0);
    const struct gguf_arch *arch = gguf_arch_of(&g, &err);
    if (arch && !gguf_config_text(&g, arch, &json, &err) &&
        !spec_read_text(&spec, buf_bytes(&json), NULL, &err)) {
        gguf_adjust_spec(&spec, arch);
        CHECK(spec.layer_count > 0 && spec.hidden > 0 && spec.names == arch->names);
        spec_release(&spec);
    }
    buf_release(&json);
    gguf_close(&g);
    return 0;
}
