#include "text/tokenizer/base64.h"

static int digit_of(uint8_t c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(struct bytes text, struct buf *out) {
    uint32_t bits = 0;
    unsigned count = 0;
    while (text.len && text.data[text.len - 1] == '=') text.len--;
    for (size_t i = 0; i < text.len; i++) {
        int digit = digit_of(text.data[i]);
        if (digit < 0) return false;
        bits = bits << 6 | (uint32_t)digit;
        count += 6;
        if (count < 8) continue;
        count -= 8;
        buf_add_byte(out, (char)(bits >> count));
    }
    return !out->failed;
}
