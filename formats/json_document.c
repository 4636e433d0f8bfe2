#include "formats/json_document.h"

#include "formats/json.h"

#include <stdlib.h>

int json_document_parse(struct bytes text, cJSON **out, struct error *err) {
    *out = NULL;
    if (text.len > JSON_DOCUMENT_MAX)
        return error_set(err, ERR_LIMIT, "a document of %zu bytes; %d is the most", text.len,
                         JSON_DOCUMENT_MAX);
    int rc = json_scan(text, 0, err);
    if (rc)
        return rc;
    *out = cJSON_ParseWithLength((const char *)text.data, text.len);
    /* the scan has passed it: what is left are numbers longer than cJSON takes, and memory */
    return *out ? 0 : error_set(err, ERR_MEMORY, "out of memory, or a number is too long");
}

static const cJSON *find_index(const cJSON *array, size_t index) {
    const cJSON *item = cJSON_IsArray(array) ? array->child : NULL;
    while (item && index--)
        item = item->next;
    return item;
}

const cJSON *json_document_find(const cJSON *root, const char *path) {
    char key[64];
    while (root && *path) {
        size_t len = strcspn(path, ".");
        CHECK(len > 0 && len < sizeof key);
        memcpy(key, path, len);
        key[len] = 0;
        bool is_index = key[strspn(key, "0123456789")] == 0;
        root = is_index ? find_index(root, strtoul(key, NULL, 10))
                        : cJSON_GetObjectItemCaseSensitive(root, key);
        path += len + (path[len] == '.');
    }
    return root;
}

const char *json_document_text(const cJSON *root, const char *path) {
    return cJSON_GetStringValue(json_document_find(root, path));
}
