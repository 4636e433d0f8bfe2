#include "base/list.h"

bool list_next(const char **rest, char separator, struct bytes *item) {
    if (!*rest || !**rest)
        return false;
    const char separators[] = {separator, 0};
    *item = bytes_of(*rest, strcspn(*rest, separators));
    *rest += item->len + ((*rest)[item->len] == separator);
    return true;
}

bool list_has(const char *list, char separator, struct bytes word) {
    for (struct bytes item; list_next(&list, separator, &item);)
        if (word.len && bytes_equal(item, word))
            return true;
    return false;
}
