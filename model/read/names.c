#include "model/read/names.h"

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
    if (mark != '*' && mark != '^')
        return "";
    ++*pattern;
    return mark == '*' ? prefix->body : prefix->outside;
}

bool role_expert_name(const struct name_table *names, const struct name_prefix *prefix,
                      enum weight_role role, uint32_t layer, uint32_t expert,
                      char out[TENSOR_NAME_MAX]) {
    const char *pattern = names->patterns[role];
    uint32_t numbers[] = {layer, expert}, holes = 0;
    out[0] = 0;
    if (!pattern)
        return false;
    size_t len = (size_t)snprintf(out, TENSOR_NAME_MAX, "%s",
                                  prefix_of(&pattern, prefix ? prefix : first_prefix(names)));
    for (; *pattern && len + 12 < TENSOR_NAME_MAX; pattern++) {
        if (pattern[0] == '%' && pattern[1] == 'u' && holes < ARRAY_LEN(numbers)) {
            len += (size_t)snprintf(out + len, TENSOR_NAME_MAX - len, "%u", numbers[holes++]);
            pattern++;
        } else {
            out[len++] = *pattern;
        }
    }
    out[len] = 0;
    return true;
}

bool role_name(const struct name_table *names, const struct name_prefix *prefix,
               enum weight_role role, uint32_t layer, char out[TENSOR_NAME_MAX]) {
    return role_expert_name(names, prefix, role, layer, 0, out);
}

bool name_is_beyond(const struct name_table *names, const struct name_prefix *prefix,
                    const char *name, uint32_t layer_count) {
    char before[TENSOR_NAME_MAX];
    size_t len = (size_t)snprintf(before, sizeof before, "%slayers.",
                                  (prefix ? prefix : first_prefix(names))->body);
    /* GGUF's have no body */
    if (!strncmp(name, "blk.", 4))
        len = (size_t)snprintf(before, sizeof before, "blk.");
    if (!names->extra_layers || strncmp(name, before, len))
        return false;
    name += len;
    uint32_t layer = 0, digits = 0;
    for (; isdigit((unsigned char)*name) && digits < 6; name++, digits++)
        layer = layer * 10 + (uint32_t)(*name - '0');
    return digits && *name == '.' && layer >= layer_count;
}

/* A pattern without its prefix mark against the rest of a name. */
static bool matches(const char *pattern, const char *name) {
    for (; *pattern; pattern++, name++) {
        if (!strcmp(pattern, "%s"))
            return true;
        if (pattern[0] == '%' && pattern[1] == 'u') {
            if (!isdigit((unsigned char)*name))
                return false;
            while (isdigit((unsigned char)name[1]))
                name++;
            pattern++;
        } else if (*pattern != *name) {
            return false;
        }
    }
    return !*name;
}

bool name_is_ignored(const struct name_table *names, const struct name_prefix *prefix,
                     const char *name) {
    for (const char *const *p = names->ignored; p && *p; p++) {
        const char *pattern = *p,
                   *before = prefix_of(&pattern, prefix ? prefix : first_prefix(names));
        size_t len = strlen(before);
        if (!strncmp(name, before, len) && matches(pattern, name + len))
            return true;
    }
    return false;
}
