/* Names of a folder, and what is kept of it in a GGUF file (export_planner.h). */
#include "base/buf.h"
#include "model/convert/export_planner.h"

/* ---- names ---- */

static const struct name_prefix *prefixes(const struct name_table *names) {
    return names->prefixes ? names->prefixes : NAME_PREFIXES;
}

const struct name_prefix *export_find_prefix(const struct name_table *names,
                                             const struct safetensors *files) {
    static const enum weight_role ROLES[] = {ROLE_EMBED, ROLE_FINAL_NORM, ROLE_MIXER_NORM,
                                             ROLE_MIXER_POST};
    char name[TENSOR_NAME_MAX];
    for (size_t i = 0; i < ARRAY_LEN(ROLES); i++)
        for (const struct name_prefix *p = prefixes(names); p->body; p++)
            if (role_name(names, p, ROLES[i], 0, name) && safetensors_find(files, name))
                return p;
    return NULL;
}

bool export_is_head_only(const struct model *m) {
    char embed[TENSOR_NAME_MAX], head[TENSOR_NAME_MAX];
    const struct name_prefix *p = export_find_prefix(m->spec.names, &m->files);
    return p && m->spec.tied_head && role_name(m->spec.names, p, ROLE_EMBED, 0, embed) &&
           role_name(m->spec.names, p, ROLE_HEAD, 0, head) && !safetensors_find(&m->files, embed) &&
           safetensors_find(&m->files, head);
}

/* ---- what was kept of a folder ---- */

struct bytes export_kept_line(const char *kept, const char *name) {
    size_t len = strlen(name);
    for (const char *at = kept; at && *at;) {
        size_t line = strcspn(at, "\n");
        if (line > len && !strncmp(at, name, len) && at[len] == ' ')
            return (struct bytes){(const uint8_t *)at + len + 1, line - len - 1};
        at += line + (at[line] == '\n');
    }
    return (struct bytes){0};
}

const struct name_prefix *planner_kept_prefix(const struct planner *p) {
    struct bytes line = export_kept_line(p->o->kept, "*");
    for (const struct name_prefix *n = prefixes(p->to); line.len && n->body; n++)
        if (bytes_equal(line, bytes_str(*n->body ? n->body : "-")))
            return n;
    return NULL;
}

enum tensor_type planner_kept_type(const struct planner *p, const char *name) {
    struct bytes line = export_kept_line(p->o->kept, name);
    for (int type = 0; line.len && type < TENSOR_SAFETENSORS_COUNT; type++)
        if (bytes_equal(line, bytes_str(tensor_type_name((enum tensor_type)type))))
            return (enum tensor_type)type;
    return TENSOR_TYPE_COUNT;
}

void export_kept_text(const struct model *m, const struct export_plan *plan, struct buf *out) {
    const struct name_prefix *prefix = export_find_prefix(m->spec.names, &m->files);
    char name[TENSOR_NAME_MAX];
    buf_addf(out, "* %s\n", prefix && *prefix->body ? prefix->body : "-");
    for (uint32_t i = 0; i < m->spec.layer_count; i++)
        if (role_name(m->spec.names, prefix, ROLE_EXPERTS_DOWN, i, name) &&
            safetensors_find(&m->files, name)) {
            buf_add_str(out, "+ experts\n");
            break;
        }
    for (size_t i = 0; i < plan->count; i++)
        for (uint32_t k = 0; k < plan->items[i].view_count; k++) {
            const struct tensor *t = plan->items[i].views[k].tensor;
            if (plan->items[i].vector && t->type != plan->items[i].type &&
                t->type < TENSOR_SAFETENSORS_COUNT)
                buf_addf(out, "%s %s\n", t->name, tensor_type_name(t->type));
        }
}
