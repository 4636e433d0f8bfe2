#include "text/tokenizer/base64.h"

/* By character: the digit, and 1; 0: none. */
static const uint8_t DIGITS[256] = {
    ['A'] = 1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,         12,         13,
    14,         15, 16, 17, 18, 19, 20, 21, 22, 23, 24,         25,         26,
    ['a'] = 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37,         38,         39,
    40,         41, 42, 43, 44, 45, 46, 47, 48, 49, 50,         51,         52,
    ['0'] = 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, ['+'] = 63, ['/'] = 64,
};

bool base64_decode(struct bytes text, struct buf *out) {
    uint32_t bits = 0;
    unsigned count = 0;
    while (text.len && text.data[text.len - 1] == '=')
        text.len--;
    buf_reserve(out, text.len);
    if (out->failed)
        return false;
    uint8_t *to = (uint8_t *)out->data + out->len;
    size_t i = 0;
    for (const uint8_t *p = text.data; text.len - i >= 4; i += 4, to += 3) {
        uint32_t a = DIGITS[p[i]], b = DIGITS[p[i + 1]], c = DIGITS[p[i + 2]], d = DIGITS[p[i + 3]];
        if (!a || !b || !c || !d)
            return false;
        uint32_t three = (a - 1) << 18 | (b - 1) << 12 | (c - 1) << 6 | (d - 1);
        to[0] = (uint8_t)(three >> 16);
        to[1] = (uint8_t)(three >> 8);
        to[2] = (uint8_t)three;
    }
    for (; i < text.len; i++) {
        uint32_t digit = DIGITS[text.data[i]];
        if (!digit)
            return false;
        bits = bits << 6 | (digit - 1);
        count += 6;
        if (count < 8)
            continue;
        count -= 8;
        *to++ = (uint8_t)(bits >> count);
    }
    *to = 0;
    out->len = (size_t)((char *)to - out->data);
    return true;
}
