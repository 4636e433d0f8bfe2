/* config_known.h - which fields of a config.json ask for nothing at inference (config.h:
 * config_finish). */
#ifndef FORMATS_CONFIG_KNOWN_H
#define FORMATS_CONFIG_KNOWN_H

#include <stdbool.h>

/* Whether a field of this name changes nothing that is computed, whatever its value. */
bool config_field_is_harmless(const char *name);

#endif
