#include "proto/link_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "base/fsutil.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/utf8.h"

enum { Z85_TEXT_MAX = 41, KEY_FILE_MAX = 4096, ALLOW_FILE_MAX = 1 << 20, WORDS_MAX = 3 };

/* ---- Text ---- */

void link_key_text(const struct link_key *key, char out[LINK_KEY_TEXT_MAX]) {
    for (size_t i = 0; i < LINK_KEY_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", key->bytes[i]);
}

int link_key_parse(const char *text, struct link_key *out) {
    if (strlen(text) != 2 * LINK_KEY_BYTES)
        return ERR_INVALID;
    for (size_t i = 0; i < LINK_KEY_BYTES; i++) {
        int high = hex_value((uint8_t)text[2 * i]), low = hex_value((uint8_t)text[2 * i + 1]);
        if (high < 0 || low < 0)
            return ERR_INVALID;
        out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

static const char *const ROLE_NAMES[] = {[WIRE_ROLE_GATEWAY] = "gateway",
                                         [WIRE_ROLE_WORKER] = "worker",
                                         [WIRE_ROLE_SUPERVISOR] = "supervisor",
                                         [WIRE_ROLE_SCHEDULER] = "scheduler"};

const char *link_role_name(enum wire_role role) {
    return role >= WIRE_ROLE_GATEWAY && role <= WIRE_ROLE_SCHEDULER ? ROLE_NAMES[role] : "nobody";
}

enum wire_role link_role_parse(const char *name) {
    for (int role = WIRE_ROLE_GATEWAY; role <= WIRE_ROLE_SCHEDULER; role++)
        if (!strcmp(name, ROLE_NAMES[role]))
            return (enum wire_role)role;
    return (enum wire_role)0;
}

/* Cuts a line into words; how many there are, those that have no room counted too. */
static size_t split_words(char *line, char *words[WORDS_MAX]) {
    size_t count = 0;
    for (char *word; (word = strsep(&line, " \t\r"));)
        if (*word && count++ < WORDS_MAX)
            words[count - 1] = word;
    return count;
}

/* The next line with words in it, cut into them; 0: there is none. */
static size_t next_words(char **rest, unsigned *line_number, char *words[WORDS_MAX]) {
    for (char *line; (line = strsep(rest, "\n"));) {
        ++*line_number;
        size_t count = *line == '#' ? 0 : split_words(line, words);
        if (count)
            return count;
    }
    return 0;
}

/* ---- Pairs ---- */

void link_key_pair_make(struct link_key_pair *pair, enum wire_role role) {
    char public_text[Z85_TEXT_MAX], secret_text[Z85_TEXT_MAX];
    CHECK_MSG(zmq_curve_keypair(public_text, secret_text) == 0, "libzmq is built without CURVE");
    pair->role = role;
    CHECK(zmq_z85_decode(pair->public_key.bytes, public_text) &&
          zmq_z85_decode(pair->secret_key.bytes, secret_text));
    explicit_bzero(secret_text, sizeof secret_text);
}

/* Whether the public key is the secret one's. */
static bool pair_fits(const struct link_key_pair *pair) {
    char secret_text[Z85_TEXT_MAX], public_text[Z85_TEXT_MAX];
    struct link_key derived;
    bool fits = zmq_z85_encode(secret_text, pair->secret_key.bytes, LINK_KEY_BYTES) &&
                zmq_curve_public(public_text, secret_text) == 0 &&
                zmq_z85_decode(derived.bytes, public_text) &&
                !memcmp(&derived, &pair->public_key, sizeof derived);
    explicit_bzero(secret_text, sizeof secret_text);
    return fits;
}

/* A file of ours that only we may look at (secret) or change. Root's may be read by a group. */
static int check_owner(int fd, const char *path, bool secret, struct error *err) {
    struct stat st;
    if (fstat(fd, &st))
        return error_set_errno(err, "cannot look at '%s'", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return error_set(err, ERR_INVALID, "'%s' is another user's", path);
    unsigned open_bits = !secret ? 0022 : st.st_uid == 0 && geteuid() != 0 ? 0037 : 0077;
    if (!(st.st_mode & open_bits))
        return 0;
    return error_set(err, ERR_INVALID, "'%s' may be %s by others (mode %04o); chmod %s it", path,
                     secret ? "read" : "written", (unsigned)(st.st_mode & 07777),
                     secret ? "600" : "go-w");
}

/* The whole of a regular file that passes check_owner; *st as it was. */
static int read_owned(const char *path, bool secret, size_t max_len, struct buf *out,
                      struct stat *st, struct error *err) {
    int fd;
    size_t len;
    int rc = file_open(path, &fd, &len, err);
    if (rc)
        return rc;
    rc = check_owner(fd, path, secret, err);
    if (!rc && fstat(fd, st))
        rc = error_set_errno(err, "cannot look at '%s'", path);
    if (!rc && len > max_len)
        rc = error_set(err, ERR_LIMIT, "'%s' is larger than %zu bytes", path, max_len);
    buf_init(out, 0);
    if (!rc && len) {
        buf_reserve(out, len + 1); /* once: no copy of a secret is left behind */
        ssize_t n = read(fd, out->data, len);
        rc = n < 0 ? error_set_errno(err, "cannot read '%s'", path) : 0;
        out->len = n > 0 ? (size_t)n : 0;
        out->data[out->len] = 0;
    }
    close(fd);
    return rc;
}

/* A file of these bytes, made whole or not at all; ERR_INVALID: there is one. */
static int make_file(const char *path, struct bytes text, mode_t mode, struct error *err) {
    char *temp = mem_alloc(strlen(path) + 32);
    uint64_t random;
    random_bytes(&random, sizeof random);
    snprintf(temp, strlen(path) + 32, "%s.tmp.%016llx", path, (unsigned long long)random);
    int rc = file_write_atomic(temp, text.data, text.len, (int)mode, err);
    /* a link to it takes the name only where nobody has it, and follows nothing */
    if (!rc && link(temp, path))
        rc = errno == EEXIST ? error_set(err, ERR_INVALID, "'%s' is there already", path)
                             : error_set_errno(err, "cannot make '%s'", path);
    unlink(temp);
    mem_free(temp);
    return rc;
}

int link_key_file_write(const char *path, const struct link_key_pair *pair, struct error *err) {
    char public_text[LINK_KEY_TEXT_MAX], secret_text[LINK_KEY_TEXT_MAX], text[512];
    link_key_text(&pair->public_key, public_text);
    link_key_text(&pair->secret_key, secret_text);
    int len = snprintf(text, sizeof text,
                       "# A key of Trireme. Whoever reads it can act as this process.\n"
                       "role %s\npublic %s\nsecret %s\n",
                       link_role_name(pair->role), public_text, secret_text);
    int rc = make_file(path, bytes_of(text, (size_t)len), 0600, err);
    explicit_bzero(secret_text, sizeof secret_text);
    explicit_bzero(text, sizeof text);
    return rc;
}

static int parse_pair(char *text, const char *path, struct link_key_pair *out, struct error *err) {
    char *words[WORDS_MAX];
    bool has_public = false, has_secret = false, good = true;
    unsigned line = 0;
    for (size_t count; good && (count = next_words(&text, &line, words));) {
        if (count == 2 && !strcmp(words[0], "role"))
            good = (out->role = link_role_parse(words[1])) != 0;
        else if (count == 2 && !strcmp(words[0], "public"))
            good = has_public = link_key_parse(words[1], &out->public_key) == 0;
        else if (count == 2 && !strcmp(words[0], "secret"))
            good = has_secret = link_key_parse(words[1], &out->secret_key) == 0;
        else
            good = false;
    }
    if (!good)
        return error_set(err, ERR_INVALID,
                         "'%s', line %u: no key file has such a line; trireme keygen makes one",
                         path, line);
    if (!out->role || !has_public || !has_secret || !pair_fits(out))
        return error_set(err, ERR_INVALID,
                         "'%s' holds no key: it takes a role, and a public and a secret key that "
                         "belong together; trireme keygen makes one",
                         path);
    return 0;
}

int link_key_file_read(const char *path, enum wire_role role, struct link_key_pair *out,
                       struct error *err) {
    struct buf text = {0};
    struct stat st;
    *out = (struct link_key_pair){0};
    int rc = read_owned(path, true, KEY_FILE_MAX, &text, &st, err);
    if (!rc)
        rc = parse_pair(text.data, path, out, err);
    if (!rc && role && out->role != role)
        rc = error_set(err, ERR_INVALID, "'%s' is a %s's key, not a %s's", path,
                       link_role_name(out->role), link_role_name(role));
    if (text.data)
        explicit_bzero(text.data, text.len);
    buf_release(&text);
    if (rc)
        explicit_bzero(out, sizeof *out);
    return rc;
}

/* ---- Allow lists ---- */

static bool parse_row(char *const words[WORDS_MAX], size_t count, struct allow_row *row) {
    *row = (struct allow_row){0};
    if (count < 2 || count > 3 || !(row->role = link_role_parse(words[0])) ||
        link_key_parse(words[1], &row->key) || (count == 3 && strlen(words[2]) >= LINK_NAME_MAX))
        return false;
    if (count == 3)
        snprintf(row->name, sizeof row->name, "%s", words[2]);
    return true;
}

static int parse_rows(struct allow_list *list, char *text, struct error *err) {
    char *words[WORDS_MAX];
    unsigned line = 0;
    for (size_t count; (count = next_words(&text, &line, words));) {
        struct allow_row row;
        if (!parse_row(words, count, &row))
            return error_set(err, ERR_INVALID, "'%s', line %u is not 'ROLE PUBLIC-KEY NAME'",
                             list->path, line);
        const struct allow_row *same = allow_list_find(list, &row.key);
        if (same && same->role != row.role)
            return error_set(err, ERR_INVALID, "'%s', line %u: one key for two roles", list->path,
                             line);
        vec_push(&list->rows, row);
    }
    return 0;
}

static int read_rows(struct allow_list *list, struct error *err) {
    struct buf text = {0};
    struct stat st;
    int rc = read_owned(list->path, false, ALLOW_FILE_MAX, &text, &st, err);
    if (!rc)
        rc = parse_rows(list, text.data, err);
    buf_release(&text);
    if (rc)
        return rc;
    list->device = st.st_dev;
    list->inode = st.st_ino;
    list->len = (uint64_t)st.st_size;
    list->changed = st.st_ctim;
    list->written = st.st_mtim;
    return 0;
}

int allow_list_open(struct allow_list *list, const char *path, struct error *err) {
    *list = (struct allow_list){.path = mem_strdup(path)};
    return read_rows(list, err);
}

void allow_list_release(struct allow_list *list) {
    mem_free(list->path);
    vec_release(&list->rows);
    *list = (struct allow_list){0};
}

static bool same_time(struct timespec a, struct timespec b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool allow_list_refresh(struct allow_list *list) {
    struct allow_list fresh;
    struct error err;
    struct stat st;
    if (stat(list->path, &st) == 0 && st.st_dev == list->device && st.st_ino == list->inode &&
        (uint64_t)st.st_size == list->len && same_time(st.st_ctim, list->changed) &&
        same_time(st.st_mtim, list->written))
        return false;
    if (allow_list_open(&fresh, list->path, &err)) {
        LOG_LIMITED(LOG_ERROR, "the keys that are allowed stay as they were: %s", err.text);
        allow_list_release(&fresh);
        return false;
    }
    allow_list_release(list);
    *list = fresh;
    return true;
}

const struct allow_row *allow_list_find(const struct allow_list *list, const struct link_key *key) {
    for (size_t i = 0; i < list->rows.count; i++)
        if (!memcmp(&list->rows.items[i].key, key, sizeof *key))
            return &list->rows.items[i];
    return NULL;
}

/* The file as it is, and one line more. */
static int append_row(const char *path, const struct allow_row *row, struct error *err) {
    struct buf text = {0};
    struct stat st;
    char key[LINK_KEY_TEXT_MAX];
    int rc = read_owned(path, false, ALLOW_FILE_MAX, &text, &st, err);
    if (!rc) {
        link_key_text(&row->key, key);
        const char *end = text.len && text.data[text.len - 1] != '\n' ? "\n" : "";
        buf_addf(&text, "%s%s %s%s%s\n", end, link_role_name(row->role), key, *row->name ? " " : "",
                 row->name);
        rc = file_write_atomic(path, text.data, text.len, (int)(st.st_mode & 0755), err);
    }
    buf_release(&text);
    return rc;
}

int allow_list_add(const char *path, const struct allow_row *row, struct error *err) {
    static const char HEAD[] = "# Keys that may speak on the wire: ROLE PUBLIC-KEY NAME\n";
    struct allow_list list;
    if (row->name[strcspn(row->name, " \t\r\n#")])
        return error_set(err, ERR_INVALID, "the name '%s' has blanks or # in it", row->name);
    int rc = file_exists(path) ? 0 : make_file(path, bytes_str(HEAD), 0644, err);
    if (rc)
        return rc;
    rc = allow_list_open(&list, path, err);
    const struct allow_row *same = rc ? NULL : allow_list_find(&list, &row->key);
    if (same && same->role != row->role)
        rc = error_set(err, ERR_INVALID, "'%s' has this key as a %s's", path,
                       link_role_name(same->role));
    else if (!rc && !same)
        rc = append_row(path, row, err);
    allow_list_release(&list);
    return rc;
}

/* ---- A folder of all ---- */

static int make_role_key(const char *folder, enum wire_role role, struct error *err) {
    char name[32];
    struct link_key_pair pair;
    snprintf(name, sizeof name, "%s.key", link_role_name(role));
    char *path = path_join(folder, name), *allow = path_join(folder, "allow");
    int rc = 0;
    if (file_exists(path)) {
        rc = link_key_file_read(path, role, &pair, err);
    } else {
        link_key_pair_make(&pair, role);
        rc = link_key_file_write(path, &pair, err);
    }
    if (!rc) {
        struct allow_row row = {.key = pair.public_key, .role = role};
        rc = allow_list_add(allow, &row, err);
    }
    explicit_bzero(&pair, sizeof pair);
    mem_free(path);
    mem_free(allow);
    return rc;
}

int link_keys_make(const char *folder, struct error *err) {
    int rc = dir_make(folder, 0700, err);
    for (int role = WIRE_ROLE_GATEWAY; !rc && role <= WIRE_ROLE_SCHEDULER; role++)
        rc = make_role_key(folder, (enum wire_role)role, err);
    return rc;
}
