#include "cli/unknown_environment.h"

#include "base/option_spelling.h"
#include "base/vec.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char OURS[] = "TRIREME_", LLAMA[] = "LLAMA_ARG_";

/* Behind TRIREME_: what is read, and is no option. */
static const char READ[] = "ACTIVATION CONFIG CPU_FEATURES GEMM HUB_CONNECTIONS HUB_RANGE_BYTES "
                           "HUB_RETRY_MS ISA OLLAMA_CACHE OLLAMA_REGISTRY PROMPT_ATTENTION "
                           "SUPERVISED";
/* The same of ./dev, of benchmarks and tests. */
static const char HOUSE[] = "ARM BIN CHROMIUM COMMIT CUDA CUDA_ARCHITECTURES FORCED_CALLS GOLDEN "
                            "GOLDEN_WRITE KEEP_LOGS MACHINES OPENAPI_CASES OS_RELEASE OTHER "
                            "OTHER_BUILD PACKAGE_BUILT PASSWORD SHARED STEP SYSROOT WERROR";
static const char *const HOUSE_FIRST[] = {"BENCH_", "EMU_", "GPU_", "TEST_"};

enum { NAME_MAX_LEN = 100 };

typedef VEC(struct option_row) rows_vec; /* of all tables */

static bool begins(const char *text, const char *with) {
    return !strncmp(text, with, strlen(with));
}

/* "..._SERVICE_HOST", "..._SERVICE_PORT_HTTP", "..._PORT_8000_TCP", "..._PORT=tcp://...". */
static bool is_service_link(const char *name, size_t len, const char *value) {
    char text[NAME_MAX_LEN + 1];
    snprintf(text, sizeof text, "%.*s", (int)len, name);
    const char *port = strstr(text, "_PORT_");
    return strstr(text, "_SERVICE_HOST") || strstr(text, "_SERVICE_PORT") ||
           (port && isdigit((unsigned char)port[6])) ||
           (len > 5 && !strcmp(text + len - 5, "_PORT") && strstr(value, "://"));
}

static bool is_house(const char *word, size_t len) {
    bool found = option_list_has(READ, word, len) || option_list_has(HOUSE, word, len);
    for (size_t i = 0; i < ARRAY_LEN(HOUSE_FIRST); i++)
        found |= begins(word, HOUSE_FIRST[i]);
    return found;
}

/* "MAX_CONTEXT" as the flag "--max-context". */
static void spell(const char *word, size_t len, char *flag) {
    memcpy(flag, "--", 2);
    for (size_t i = 0; i < len; i++)
        flag[2 + i] = word[i] == '_' ? '-' : (char)tolower((unsigned char)word[i]);
    flag[2 + len] = 0;
}

static void tell_unread(const char *name, size_t len, const struct option_row *row) {
    char ours[NAME_MAX_LEN + 1] = "";
    for (size_t i = 0; row && row->name[i] && i < NAME_MAX_LEN; i++) {
        ours[i] = row->name[i] == '-' ? '_' : (char)toupper((unsigned char)row->name[i]);
        ours[i + 1] = 0;
    }
    fprintf(stderr, "trireme: the environment variable %.*s is not read", (int)len, name);
    if (row)
        fprintf(stderr, "; did you mean %s%s (--%s)?", OURS, ours, row->name);
    fprintf(stderr, "\n");
}

/* True when nothing reads the variable; it was told. */
static bool check_variable(const struct option_table *all, const char *entry) {
    size_t len = strcspn(entry, "=");
    bool ours = begins(entry, OURS), negated;
    if ((!ours && !begins(entry, LLAMA)) || len > NAME_MAX_LEN || !entry[len])
        return false;
    const char *word = entry + (ours ? sizeof OURS : sizeof LLAMA) - 1;
    const size_t word_len = (size_t)(entry + len - word);
    char flag[NAME_MAX_LEN + 3];
    spell(word, word_len, flag);
    const struct option_row *row = option_find_row(all, flag + 2, word_len, '-');
    if (ours && (row || is_house(word, word_len) || is_service_link(entry, len, entry + len + 1)))
        return false;
    if (!row)
        row = option_find_alias(all, flag, word_len + 2, &negated);
    if (!row)
        row = option_find_nearest(all, flag, word_len + 2);
    tell_unread(entry, len, row);
    return true;
}

void unknown_environment_tell(const struct option_table *const *tables, size_t count) {
    extern char **environ;
    VEC(char *) names = {0};
    rows_vec rows = {0};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < tables[i]->count; k++)
            vec_push(&rows, tables[i]->rows[k]);
    const struct option_table all = {.rows = rows.items, .count = rows.count};
    for (char **at = environ; at && *at; at++)
        if (check_variable(&all, *at)) {
            vec_push(&names, mem_strdup(*at));
            *strchr(names.items[names.count - 1], '=') = 0;
        }
    for (size_t i = 0; i < names.count; i++) {
        unsetenv(names.items[i]);
        mem_free(names.items[i]);
    }
    vec_release(&names);
    vec_release(&rows);
}
