/*
 * model_path.h - the model that a command is given: a path, or a hub's name (formats/hub/name.h)
 * that becomes one. A path that exists wins. A name is looked for in the caches first; only what is
 * not there is downloaded, with the progress shown on standard error.
 */
#ifndef CLI_MODEL_PATH_H
#define CLI_MODEL_PATH_H

#include "formats/hub/hub.h"

/* What `given` means. *path: owned, or NULL where `given` is to be taken as it is (a path, or what
 * the command will find fault with). *public_name (may be NULL): owned, what to call a model of a
 * hub ("ORG/NAME"), or NULL. */
MUST_CHECK int model_path_find(const char *given, char **path, char **public_name,
                               struct error *err);
/* The same, but nothing is downloaded: ERR_NOT_FOUND where it would have to be. */
MUST_CHECK int model_path_cached(const char *given, char **path, char **public_name,
                                 struct error *err);
/* model_path_find for a string of a parsed option (NULL: not given), which is replaced in place. */
MUST_CHECK int model_path_of_option(const char **model, struct error *err);

/* Downloads, showing on standard error how far it is: a line that changes on a terminal, a line now
 * and then elsewhere. As hub_pull. */
MUST_CHECK int model_path_pull(const struct hub_places *places, const struct hub_name *name,
                               char **path, uint64_t *bytes, struct error *err);

#endif
