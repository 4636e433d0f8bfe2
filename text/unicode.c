#include "text/unicode.h"

#include <pthread.h>

#include "text/unicode_data.h"

enum { BLOCK_COUNT = 0x110000 / 256, BLOCKS_MAX = 255 };

uint8_t unicode_block[BLOCK_COUNT + 1];
uint8_t unicode_classes[BLOCKS_MAX][256];

static uint8_t find_or_add_block(const uint8_t classes[256], unsigned *count) {
    for (unsigned i = *count; i-- > 0;)
        if (!memcmp(unicode_classes[i], classes, 256))
            return (uint8_t)i;
    CHECK(*count < BLOCKS_MAX);
    memcpy(unicode_classes[*count], classes, 256);
    return (uint8_t)(*count)++;
}

static uint32_t run_end(size_t run) {
    return run + 1 < ARRAY_LEN(UNICODE_RUNS) ? UNICODE_RUNS[run + 1] >> 8 : BLOCK_COUNT << 8;
}

/* The classes of a block, run by run; *run: the one that its first character is in. */
static void expand_block(uint32_t block, size_t *run, uint8_t classes[256]) {
    for (uint32_t i = 0, end; i < 256; i = end) {
        while (run_end(*run) <= (block << 8 | i))
            ++*run;
        end = MIN(run_end(*run) - (block << 8), 256u);
        memset(classes + i, (int)(UNICODE_RUNS[*run] & 255), end - i);
    }
}

static void expand(void) {
    unsigned count = 0;
    size_t run = 0, uniform = SIZE_MAX; /* the run that the block before lay in as a whole */
    for (uint32_t block = 0; block < BLOCK_COUNT; block++) {
        uint8_t classes[256];
        if (uniform == run && run_end(run) >= (block + 1) << 8) {
            unicode_block[block] = unicode_block[block - 1];
            continue;
        }
        expand_block(block, &run, classes);
        unicode_block[block] = find_or_add_block(classes, &count);
        uniform = UNICODE_RUNS[run] >> 8 <= block << 8 ? run : SIZE_MAX;
    }
}

void unicode_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    CHECK(pthread_once(&once, expand) == 0);
}

bool unicode_in_old(uint32_t cp, uint32_t set) {
    if (cp == 0x166D || cp == 0x111C9)
        return set & 1 << UNICODE_PO; /* recategorised since */
    if (cp == 0x1734)
        return set & 1 << UNICODE_MN;
    if (cp < 0x80 || !unicode_in(cp, set))
        return unicode_in(cp, set);
    size_t low = 0, high = ARRAY_LEN(UNICODE_YOUNG);
    while (low < high) { /* the first run that ends at or after cp */
        size_t middle = low + (high - low) / 2;
        if (UNICODE_YOUNG[middle][1] < cp)
            low = middle + 1;
        else
            high = middle;
    }
    return low == ARRAY_LEN(UNICODE_YOUNG) || cp < UNICODE_YOUNG[low][0];
}

uint8_t unicode_script(uint32_t cp) {
    /* the last run that begins at or before cp is in [low, high) */
    size_t low = 0, high = ARRAY_LEN(UNICODE_SCRIPTS);
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (UNICODE_SCRIPTS[middle] >> 8 <= cp)
            low = middle;
        else
            high = middle;
    }
    return UNICODE_SCRIPTS[low] & 255;
}
