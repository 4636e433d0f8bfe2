/* demo_tokenizer.h - the bundled model's tokenizer, for tests of what the gateway makes of tokens. */
#ifndef TESTS_UNIT_GATEWAY_DEMO_TOKENIZER_H
#define TESTS_UNIT_GATEWAY_DEMO_TOKENIZER_H

#include "check.h"
#include "text/bundle.h"
#include "text/tokenizer/tokenizer.h"

/* *packed has the bundle's bytes, which the tokenizer may point into: release it after the tokenizer. */
static inline struct tokenizer *demo_tokenizer(struct buf *packed) {
    struct bundle bundle;
    struct tokenizer *t = NULL;
    struct error err;
    buf_init(packed, 0);
    CHECK_MSG(bundle_pack(TRIREME_SOURCE_DIR "/demo/model", packed, &err) == 0, "%s", err.text);
    CHECK(bundle_open(&bundle, buf_bytes(packed), &err) == 0);
    CHECK_MSG(tokenizer_load_bundle(&bundle, &t, &err) == 0, "%s", err.text);
    return t;
}

#endif
