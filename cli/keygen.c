/*
 * keygen.c - trireme keygen: the keys by which processes know each other on tcp.
 */
#include "cli/commands.h"
#include "proto/link_key.h"

#include <stdio.h>

struct keygen_settings {
    const char *role, *out, *allow, *name;
};

#define AT(field) offsetof(struct keygen_settings, field)
static const struct option_row ROWS[] = {
    {"role", 0, OPTION_STRING, AT(role), NULL,
     .help = "gateway, worker, supervisor or scheduler; all: one of each, and the list of them."},
    {"out", 'o', OPTION_STRING, AT(out), NULL,
     .help = "File for the secret key, made with mode 0600 and never written over; with all: "
             "folder for ROLE.key and allow, where what is there stays."},
    {"allow", 0, OPTION_STRING, AT(allow), NULL,
     .help = "List of allowed keys that the public key is added to; made when it is missing."},
    {"name", 0, OPTION_STRING, AT(name), "", .help = "Name of the key in the list, for logs."},
};

const struct option_table keygen_options = {
    .program = "trireme keygen",
    .synopsis = "[OPTIONS] ROLE --out FILE",
    .summary = "Makes the key of a process for tcp, and prints its line for --allow-keys.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS),
    .arguments = "role"};

static void print_row(const struct allow_row *row) {
    char key[LINK_KEY_TEXT_MAX];
    link_key_text(&row->key, key);
    printf("%s %s%s%s\n", link_role_name(row->role), key, *row->name ? " " : "", row->name);
}

static int make_one(const struct keygen_settings *s, enum wire_role role, struct error *err) {
    struct link_key_pair pair;
    struct allow_row row = {.role = role};
    if (strlen(s->name) >= sizeof row.name || s->name[strcspn(s->name, " \t\r\n#")])
        return error_set(err, ERR_INVALID, "--name takes at most %zu characters, no blanks, no #",
                         sizeof row.name - 1);
    snprintf(row.name, sizeof row.name, "%s", s->name);
    link_key_pair_make(&pair, role);
    row.key = pair.public_key;
    int rc = link_key_file_write(s->out, &pair, err);
    explicit_bzero(&pair, sizeof pair);
    if (!rc && s->allow)
        rc = allow_list_add(s->allow, &row, err);
    if (!rc)
        print_row(&row);
    return rc;
}

static int make_all(const struct keygen_settings *s, struct error *err) {
    struct allow_list list;
    char path[4096];
    if (s->allow || *s->name)
        return error_set(err, ERR_INVALID, "all takes neither --allow nor --name");
    int rc = link_keys_make(s->out, err);
    if (rc)
        return rc;
    snprintf(path, sizeof path, "%s/allow", s->out);
    rc = allow_list_open(&list, path, err);
    for (size_t i = 0; !rc && i < list.rows.count; i++)
        print_row(&list.rows.items[i]);
    allow_list_release(&list);
    return rc;
}

int keygen_main(int argc, char **argv) {
    struct keygen_settings s;
    struct error err;
    int rc = option_parse(&keygen_options, &s, argc, argv, NULL, 0, NULL, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (rc < 0)
        return command_misused("keygen", &keygen_options, &s, &err);
    bool all = s.role && !strcmp(s.role, "all");
    enum wire_role role = s.role ? link_role_parse(s.role) : (enum wire_role)0;
    int code = 0;
    if (!all && !role)
        error_set(&err, ERR_INVALID,
                  "which role? gateway, worker, supervisor, scheduler or all: trireme keygen "
                  "gateway --out FILE");
    else if (!s.out)
        error_set(&err, ERR_INVALID, "where to? give --out %s", all ? "FOLDER" : "FILE");
    if ((!all && !role) || !s.out) {
        code = command_misused("keygen", NULL, NULL, &err);
    } else if ((all ? make_all(&s, &err) : make_one(&s, role, &err)) != 0) {
        fprintf(stderr, "trireme keygen: %s\n", err.text);
        code = 1;
    }
    option_free(&keygen_options, &s);
    return code;
}
