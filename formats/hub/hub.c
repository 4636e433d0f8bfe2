#include "formats/hub/hub.h"

int hub_locate(const struct hub_places *places, const struct hub_name *name, char **path,
               struct error *err) {
    *path = NULL;
    return name->kind == HUB_OLLAMA ? ollama_locate(places, name, path, err)
                                    : hugging_face_locate(places, name, path, err);
}

int hub_pull(const struct hub_places *places, const struct hub_name *name,
             const struct hub_watch *watch, char **path, uint64_t *bytes, struct error *err) {
    uint64_t ignored;
    *path = NULL;
    if (places->offline)
        return error_set(err, ERR_UNSUPPORTED,
                         "'%s' is not (or not all) in the cache, and HF_HUB_OFFLINE forbids to "
                         "download it",
                         name->repo);
    return name->kind == HUB_OLLAMA
               ? ollama_pull(places, name, watch, path, bytes ? bytes : &ignored, err)
               : hugging_face_pull(places, name, watch, path, bytes ? bytes : &ignored, err);
}
