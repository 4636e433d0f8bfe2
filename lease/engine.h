/*
 * engine.h - what an engine of leases does. Private to lease/.
 */
#ifndef LEASE_ENGINE_H
#define LEASE_ENGINE_H

#include "lease/lease.h"

struct engine {
    const struct engine_calls *calls;
};

struct engine_calls {
    /* Tries once. 0: granted, *number is set; ERR_AGAIN: another holds it, err says who; another code:
     * the engine does not answer, and err says why. */
    int (*take)(struct engine *e, uint64_t least, uint64_t *number, struct error *err);
    /* Puts the end off, if it is still ours. 0; ERR_NOT_FOUND: it is lost; another code: the engine does
     * not answer. */
    int (*keep)(struct engine *e, struct error *err);
    /* Gives it back. */
    void (*give_back)(struct engine *e);
    void (*free)(struct engine *e);
    bool lasts; /* it does not end by itself when nobody keeps it */
};

/* Of a grant after the one whose number is stored as `last` ("": there was none): lease.h's (1) and (3). */
uint64_t lease_number_after(const char *last, uint64_t least);

MUST_CHECK int file_engine_new(struct engine **out, const char *path, struct error *err);
MUST_CHECK int etcd_engine_new(struct engine **out, const char *urls,
                               const struct lease_config *config, struct error *err);

const char *kubernetes_account(const char *folder); /* "": the pod's own */
/* folder: "" for that of the pod's own account. ERR_INVALID: this is no pod, nor said to be one. */
MUST_CHECK int kubernetes_engine_new(struct engine **out, const char *folder,
                                     const struct lease_config *config, struct error *err);

#endif
