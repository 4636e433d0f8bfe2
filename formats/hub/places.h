/*
 * places.h - where models come from and where they are kept, as the environment says. The names of
 * the variables and their order are those of huggingface_hub (constants.py), so that both programs
 * use one cache:
 *
 *   cache     HF_HUB_CACHE; HUGGINGFACE_HUB_CACHE; HF_HOME/hub; XDG_CACHE_HOME/huggingface/hub;
 *             ~/.cache/huggingface/hub
 *   endpoint  HF_ENDPOINT; https://huggingface.co
 *   token     HF_TOKEN; HUGGING_FACE_HUB_TOKEN; the file HF_TOKEN_PATH; the file HF_HOME/token
 *   offline   HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is 1, ON, YES or TRUE
 *   patience  HF_HUB_DOWNLOAD_TIMEOUT, seconds without a byte until a transfer is begun anew; 10
 *
 * and for Ollama's registry:
 *
 *   registry  TRIREME_OLLAMA_REGISTRY; https://registry.ollama.ai
 *   cache     TRIREME_OLLAMA_CACHE; XDG_CACHE_HOME/trireme/ollama; ~/.cache/trireme/ollama
 *   others    OLLAMA_MODELS; ~/.ollama/models: what Ollama pulled itself; only read
 */
#ifndef FORMATS_HUB_PLACES_H
#define FORMATS_HUB_PLACES_H

#include "base/error.h"

struct hub_places {
    char *cache, *endpoint;
    char *token; /* NULL: none */
    char *registry, *ollama_cache, *ollama_models;
    bool offline;
    long patience_s;
};

/* Fills *p, which the caller releases, also after a failure. ERR_INVALID: an endpoint that is no
 * http or https URL, a token with control characters; ERR_NOT_FOUND: no HOME and nothing instead. */
MUST_CHECK int hub_places_read(struct hub_places *p, struct error *err);
/* Frees the texts. */
void hub_places_release(struct hub_places *p);

#endif
