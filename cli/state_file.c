#include "cli/state_file.h"

#include "base/buf.h"
#include "base/fsutil.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 1 << 20, BOOT_ID_MAX = 64, CHILDREN_MAX = 8192 };

void state_file_release(struct state_file *s) {
    vec_release(&s->children);
    *s = (struct state_file){0};
}

static void boot_id(char out[BOOT_ID_MAX]) {
    struct buf text;
    buf_init(&text, 0);
    if (file_read("/proc/sys/kernel/random/boot_id", BOOT_ID_MAX - 2, &text, NULL))
        buf_add_str(&text, "unknown");
    snprintf(out, BOOT_ID_MAX, "%.*s", (int)strcspn(buf_text(&text), "\n"), buf_text(&text));
    buf_release(&text);
}

static int read_child(const char *line, struct state_child *c) {
    char role[16], instance[U128_TEXT_MAX], extra;
    int got = sscanf(line, "%15s %" SCNu32 " %d %" SCNu64 " %32s %" SCNx64 " %c", role, &c->idx,
                     &c->pid, &c->start_ticks, instance, &c->args_hash, &extra);
    if (got != 6 || c->pid <= 0)
        return ERR_INVALID;
    return child_role_parse(role, &c->role) || u128_parse(instance, &c->instance) ? ERR_INVALID : 0;
}

static int read_lines(struct state_file *s, char *text, bool *same_boot) {
    char boot[BOOT_ID_MAX], *rest = text, *line = strtok_r(text, "\n", &rest);
    boot_id(boot);
    if (!line || strcmp(line, "trireme-children 1"))
        return ERR_INVALID;
    line = strtok_r(NULL, "\n", &rest);
    if (!line || strncmp(line, "boot ", 5))
        return ERR_INVALID;
    *same_boot = !strcmp(line + 5, boot);
    while ((line = strtok_r(NULL, "\n", &rest)) && !strncmp(line, "workers ", 8)) {
        struct state_workers *w = &s->workers[s->model_count];
        if (s->model_count == SUPERVISOR_MODELS_MAX ||
            sscanf(line, "workers %" SCNu32 " %" SCNu32, &w->wanted, &w->configured) != 2)
            return ERR_INVALID;
        s->model_count++;
    }
    if (!s->model_count)
        return ERR_INVALID;
    for (; line; line = strtok_r(NULL, "\n", &rest)) {
        struct state_child c;
        if (read_child(line, &c) || s->children.count == CHILDREN_MAX)
            return ERR_INVALID;
        vec_push(&s->children, c);
    }
    return 0;
}

int state_file_read(struct state_file *s, const char *run_dir, struct error *err) {
    struct buf text;
    bool same_boot = false;
    char *path = path_join(run_dir, "children");
    buf_init(&text, 0);
    *s = (struct state_file){0};
    int rc = file_exists(path) ? file_read(path, FILE_MAX_BYTES, &text, err) : 0;
    if (!rc && text.len) {
        rc = read_lines(s, text.data, &same_boot);
        if (rc)
            error_set(err, rc, "'%s' is not what a supervisor writes", path);
    }
    if (rc || !same_boot)
        state_file_release(s);
    buf_release(&text);
    mem_free(path);
    return rc;
}

/* By rename, without fsync: it has to outlive this process, not the machine. */
static int replace(const char *path, const struct buf *text, struct error *err) {
    char temp[4096];
    if (snprintf(temp, sizeof temp, "%s.new", path) >= (int)sizeof temp)
        return error_set(err, ERR_INVALID, "the name '%s' is too long", path);
    int rc = 0, fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(err, "cannot write '%s'", temp);
    errno = ENOSPC; /* of a write that did not take all */
    if (write(fd, text->data, text->len) != (ssize_t)text->len)
        rc = error_set_errno(err, "cannot write '%s'", temp);
    close(fd);
    if (!rc && rename(temp, path))
        rc = error_set_errno(err, "cannot put '%s' in place", path);
    if (rc)
        unlink(temp);
    return rc;
}

int state_file_write(const struct state_file *s, const char *run_dir, struct error *err) {
    struct buf text;
    char boot[BOOT_ID_MAX], instance[U128_TEXT_MAX], *path = path_join(run_dir, "children");
    boot_id(boot);
    buf_init(&text, 0);
    buf_addf(&text, "trireme-children 1\nboot %s\n", boot);
    for (uint32_t i = 0; i < s->model_count; i++)
        buf_addf(&text, "workers %u %u\n", s->workers[i].wanted, s->workers[i].configured);
    for (size_t i = 0; i < s->children.count; i++) {
        const struct state_child *c = &s->children.items[i];
        CHECK(c->role < CHILD_ROLE_COUNT && c->pid > 0);
        u128_text(c->instance, instance);
        buf_addf(&text, "%s %u %d %" PRIu64 " %s %016" PRIx64 "\n", child_role_name(c->role),
                 c->idx, c->pid, c->start_ticks, instance, c->args_hash);
    }
    int rc = replace(path, &text, err);
    buf_release(&text);
    mem_free(path);
    return rc;
}
