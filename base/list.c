#include "base/list.h"

bool list_next(const char **rest, char separator, struct bytes *item) {
    if (!*rest || !**rest)
        return false;
    const char separators[] = {separator, 0};
    *item = bytes_of(*rest, strcspn(*rest, separators));
    *rest += item->len + ((*rest)[item->len] == separator);
    return true;
}

bool list_next_trimmed(const char **rest, char separator, struct bytes *item) {
    while (list_next(rest, separator, item)) {
        while (item->len && *item->data == ' ')
            *item = bytes_of(item->data + 1, item->len - 1);
        while (item->len && item->data[item->len - 1] == ' ')
            item->len--;
        if (item->len)
            return true;
    }
    return false;
}

bool list_has(const char *list, char separator, struct bytes word) {
    for (struct bytes item; list_next(&list, separator, &item);)
        if (word.len && bytes_equal(item, word))
            return true;
    return false;
}
