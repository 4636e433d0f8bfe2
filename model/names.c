#include "model/names.h"

#include <ctype.h>
#include <stdio.h>

const struct name_prefix NAME_PREFIXES[] = {{"model.", ""},
                                            {"model.language_model.", ""},
                                            {"language_model.model.", "language_model."},
                                            {"model.text_model.", ""},
                                            {"", ""},
                                            {NULL, NULL}};

static const struct name_prefix *first_prefix(const struct name_table *names) {
    return names->prefixes ? names->prefixes : NAME_PREFIXES;
}

/* The prefix a pattern begins with, and the rest of the pattern. */
static const char *prefix_of(const char **pattern, const struct name_prefix *prefix) {
    char mark = **pattern;
    if (mark != '*' && mark != '^') return "";
    ++*pattern;
    return mark == '*' ? prefix->body : prefix->outside;
}

bool role_name(const struct name_table *names, const struct name_prefix *prefix, enum weight_role role, uint32_t layer,
               char out[TENSOR_NAME_MAX]) {
    const char *pattern = names->patterns[role];
    out[0] = 0;
    if (!pattern) return false;
    const char *before = prefix_of(&pattern, prefix ? prefix : first_prefix(names)), *hole = strstr(pattern, "%u");
    if (!hole)
        snprintf(out, TENSOR_NAME_MAX, "%s%s", before, pattern);
    else
        snprintf(out, TENSOR_NAME_MAX, "%s%.*s%u%s", before, (int)(hole - pattern), pattern, layer, hole + 2);
    return true;
}

/* A pattern without its prefix mark against the rest of a name. */
static bool matches(const char *pattern, const char *name) {
    for (; *pattern; pattern++, name++) {
        if (!strcmp(pattern, "%s")) return true;
        if (pattern[0] == '%' && pattern[1] == 'u') {
            if (!isdigit((unsigned char)*name)) return false;
            while (isdigit((unsigned char)name[1])) name++;
            pattern++;
        } else if (*pattern != *name) {
            return false;
        }
    }
    return !*name;
}

bool name_is_ignored(const struct name_table *names, const struct name_prefix *prefix, const char *name) {
    for (const char *const *p = names->ignored; p && *p; p++) {
        const char *pattern = *p, *before = prefix_of(&pattern, prefix ? prefix : first_prefix(names));
        size_t len = strlen(before);
        if (!strncmp(name, before, len) && matches(pattern, name + len)) return true;
    }
    return false;
}
