/*
 * link_key.h - who is who on tcp: CURVE keys, each bound to a role, and the list of those that are
 * allowed.
 *
 * A key file holds one process's secret, in lines "role ROLE", "public HEX", "secret HEX". It is
 * refused when anybody but its owner can read it (root's may be readable by our group: how
 * containers mount secrets). An allow list has a line "ROLE HEX [NAME]" for each key that may speak;
 * several keys of a role may stand in it, so that one takes over from another. Whoever may not write
 * as us may not write it, either. In both, lines that begin with # are comments.
 *
 * Keys are Curve25519's, 32 bytes; in files and for people they are 64 hex digits.
 */
#ifndef PROTO_LINK_KEY_H
#define PROTO_LINK_KEY_H

#include <time.h>

#include "base/error.h"
#include "base/vec.h"
#include "proto/messages.h"

/* What --key-file and --allow-keys of each process say of themselves. */
#define LINK_KEY_FILE_HELP                                                                          \
    "For tcp: this process's key, as trireme keygen makes it. Nobody else may be able to read the " \
    "file."
#define LINK_ALLOW_KEYS_HELP                                                                       \
    "For tcp: list of the keys that are believed, a line ROLE PUBLIC-KEY NAME each; it is read "   \
    "again when it changes."

enum { LINK_KEY_BYTES = 32, LINK_KEY_TEXT_MAX = 2 * LINK_KEY_BYTES + 1, LINK_NAME_MAX = 65 };

struct link_key {
    uint8_t bytes[LINK_KEY_BYTES];
};
/* Writes 64 hex digits and a zero. */
void link_key_text(const struct link_key *key, char out[LINK_KEY_TEXT_MAX]);
/* 0; ERR_INVALID: text is not 64 hex digits. */
MUST_CHECK int link_key_parse(const char *text, struct link_key *out);

/* "gateway"; "nobody" for 0 */
const char *link_role_name(enum wire_role role);
/* 0 when there is none of that name. */
enum wire_role link_role_parse(const char *name);

/* ---- One process's key ---- */

struct link_key_pair {
    enum wire_role role;
    struct link_key public_key, secret_key;
};
/* Draws a new key. */
void link_key_pair_make(struct link_key_pair *pair, enum wire_role role);
/* Makes the file, mode 0600, whole or not at all, and through no link. ERR_INVALID: there is a file
 * already; ERR_IO. */
MUST_CHECK int link_key_file_write(const char *path, const struct link_key_pair *pair,
                                   struct error *err);
/* ERR_INVALID: malformed, of another role than `role` (0: any), or others can read it; ERR_IO. Erase
 * *out with explicit_bzero when it is done with. */
MUST_CHECK int link_key_file_read(const char *path, enum wire_role role, struct link_key_pair *out,
                                  struct error *err);

/* ---- Whom to believe ---- */

struct allow_row {
    struct link_key key;
    enum wire_role role;
    char name[LINK_NAME_MAX]; /* for logs; may be empty */
};

struct allow_list {
    char *path; /* owned */
    VEC(struct allow_row) rows;
    /* the file as it was read: another one has another of these */
    uint64_t device, inode, len;
    struct timespec changed, written;
};
/* Reads the file. ERR_INVALID: a line is malformed, or others may write it; ERR_IO. Release it either
 * way. */
MUST_CHECK int allow_list_open(struct allow_list *list, const char *path, struct error *err);
/* Frees what it holds; zeroed is fine. */
void allow_list_release(struct allow_list *list);
/* Reads the file anew when it has changed; true: so it was. A file that cannot be used leaves the list
 * as it is, and is logged. */
bool allow_list_refresh(struct allow_list *list);
/* Borrowed until the list changes; NULL: not allowed. */
const struct allow_row *allow_list_find(const struct allow_list *list, const struct link_key *key);
/* Adds a line to the file, which is made when it is missing; nothing when the key is there. name may
 * be empty. ERR_INVALID: malformed, or the key is there under another role; ERR_IO. */
MUST_CHECK int allow_list_add(const char *path, const struct allow_row *row, struct error *err);

/* ---- All keys of a deployment ---- */

/* Makes the folder (0700) with ROLE.key for each of the four roles and the list `allow` of them all;
 * what is there stays. */
MUST_CHECK int link_keys_make(const char *folder, struct error *err);

#endif
