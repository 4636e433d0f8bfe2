#include "base/words.h"

#include <string.h>

bool words_next(const char **at, const char *marks, struct bytes *word) {
    *at += strspn(*at, marks);
    *word = bytes_of(*at, strcspn(*at, marks));
    *at += word->len;
    return word->len > 0;
}
