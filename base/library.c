#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

int library_symbols(void *library, const char *path, const struct library_symbol *symbols,
                    size_t count, void *calls, struct error *err) {
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (!symbol)
            return error_set(err, ERR_UNSUPPORTED, "'%s' has no %s", path, symbols[i].name);
        memcpy((char *)calls + symbols[i].at, &symbol, sizeof symbol);
    }
    return 0;
}
