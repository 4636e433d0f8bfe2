/* The fast checker against character by character decoding; whatever decodes encodes back to the
 * same bytes. */
#include "base/utf8.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    size_t at = 0, n;
    uint32_t cp;
    char again[4];
    while ((n = utf8_decode(data + at, len - at, &cp))) {
        CHECK(utf8_encode(cp, again) == n && !memcmp(again, data + at, n));
        at += n;
    }
    CHECK(utf8_valid_prefix(data, len) == at);
    CHECK(utf8_valid(data, len) == (at == len));
    if (at < len && utf8_is_partial(data + at, len - at))
        CHECK(len - at < 4);
    return 0;
}
