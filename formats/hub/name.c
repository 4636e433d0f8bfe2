#include "formats/hub/name.h"

#include "base/utf8.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

enum { DEPTH_MAX = 16 };

static bool starts_with(const char *text, const char *with) {
    return !strncasecmp(text, with, strlen(with));
}

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), tail = strlen(end);
    return len > tail && !strcasecmp(text + len - tail, end);
}

bool hub_path_is_safe(struct bytes path) {
    size_t begin = 0, depth = 0;
    if (!path.len || path.len >= HUB_FILE_MAX || !utf8_valid(path.data, path.len))
        return false;
    for (size_t i = 0; i <= path.len; i++) {
        uint8_t c = i < path.len ? path.data[i] : '/';
        if (c < 0x20 || c == 0x7f || c == '\\')
            return false;
        if (c != '/')
            continue;
        struct bytes segment = bytes_of(path.data + begin, i - begin);
        if (!segment.len || bytes_equal(segment, bytes_str(".")) ||
            bytes_equal(segment, bytes_str("..")) || ++depth > DEPTH_MAX)
            return false;
        begin = i + 1;
    }
    return true;
}

bool hub_is_commit(const char *text) {
    return strlen(text) == 40 && strspn(text, "0123456789abcdef") == 40;
}

/* One of a repository's two names. */
static bool is_label(const char *text, size_t len) {
    if (!len || len > 96 || text[0] == '.' || text[0] == '-' || text[len - 1] == '.' ||
        text[len - 1] == '-')
        return false;
    for (size_t i = 0; i < len; i++) {
        bool twice = i && text[i] == text[i - 1] && (text[i] == '-' || text[i] == '.');
        if (twice || !(isalnum((unsigned char)text[i]) || strchr("_-.", text[i])))
            return false;
    }
    return true;
}

static bool is_repo(const char *text, size_t len) {
    const char *slash = memchr(text, '/', len);
    size_t org = slash ? (size_t)(slash - text) : 0;
    if (starts_with(text, "hf.co/") || starts_with(text, "huggingface.co/"))
        return false; /* a host: spelled back it would be taken for one */
    return slash && len < HUB_REPO_MAX && is_label(text, org) && is_label(slash + 1, len - org - 1);
}

/* Letters that git takes in the names of branches and tags, and that need no thought in a path. */
static bool is_revision(const char *text) {
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("._-/+#", text[i]))
            return false;
    return len && len < HUB_REVISION_MAX && hub_path_is_safe(bytes_str(text)) &&
           !strstr(text, "..");
}

static bool is_file(const char *text) {
    return ends_with(text, ".gguf") || ends_with(text, ".safetensors");
}

/* Q4_K_M, IQ2_XXS, TQ1_0, UD-Q4_K_XL; F16, BF16, FP32; MXFP4_MOE. */
static bool is_quant(const char *text) {
    static const char *const FAMILIES[] = {"Q", "IQ", "TQ", "F", "BF", "FP", "MXFP", "NVFP"};
    if (starts_with(text, "UD-"))
        text += 3;
    for (size_t i = 0; i < ARRAY_LEN(FAMILIES); i++) {
        const char *rest = text + strlen(FAMILIES[i]);
        if (!starts_with(text, FAMILIES[i]) || !isdigit((unsigned char)*rest))
            continue;
        while (isalnum((unsigned char)*rest) || *rest == '_')
            rest++;
        return !*rest;
    }
    return false;
}

/* "hf.co/", with or without https:// before it. */
static const char *skip_host(const char *text) {
    static const char *const HOSTS[] = {"hf.co/", "huggingface.co/"};
    const char *bare = starts_with(text, "https://") ? text + 8 : text;
    for (size_t i = 0; i < ARRAY_LEN(HOSTS); i++)
        if (starts_with(bare, HOSTS[i]))
            return bare + strlen(HOSTS[i]);
    return text;
}

static size_t repo_len(const char *text) {
    return strcspn(text, ":@");
}

bool hub_name_is_like(const char *text) {
    if (starts_with(text, "ollama:"))
        return true;
    text = skip_host(text);
    return is_repo(text, repo_len(text));
}

static int refuse(const char *text, const char *why, struct error *err) {
    return error_set(err, ERR_INVALID, "'%.300s' is no model's name: %s", text, why);
}

static int set_quant(struct hub_name *out, const char *text) {
    size_t len = strlen(text);
    if (len >= sizeof out->quant)
        return ERR_INVALID;
    for (size_t i = 0; i <= len; i++)
        out->quant[i] = (char)toupper((unsigned char)text[i]);
    return 0;
}

/* What stands behind one colon. */
static int read_suffix(struct hub_name *out, const char *word, const char *text,
                       struct error *err) {
    bool chosen = out->file[0] || out->quant[0];
    if (!strcasecmp(word, "latest"))
        return 0;
    if (is_file(word)) {
        if (chosen || !hub_path_is_safe(bytes_str(word)))
            return refuse(text, chosen ? "it names two files" : "a file of that path cannot be",
                          err);
        snprintf(out->file, sizeof out->file, "%s", word);
        return 0;
    }
    if (is_quant(word)) {
        if (chosen || set_quant(out, word))
            return refuse(text, "it names two files", err);
        return 0;
    }
    if (chosen || out->revision[0] || !is_revision(word))
        return refuse(text,
                      chosen || out->revision[0]
                          ? "behind the revision there may be a file (.gguf, .safetensors) or a "
                            "quant (Q4_K_M), and nothing behind those"
                          : "behind the colon there may be a revision, a file (.gguf, "
                            ".safetensors) or a quant (Q4_K_M)",
                      err);
    snprintf(out->revision, sizeof out->revision, "%s", word);
    return 0;
}

static int parse_hugging_face(struct hub_name *out, const char *text, struct error *err) {
    char rest[HUB_REVISION_MAX + HUB_FILE_MAX + HUB_QUANT_MAX], *at = rest, *word;
    const char *name = skip_host(text);
    size_t len = repo_len(name);
    if (!is_repo(name, len))
        return refuse(text, "it should be ORG/NAME, or ollama:NAME", err);
    if (strlen(name + len) >= sizeof rest)
        return refuse(text, "it is too long", err);
    snprintf(out->repo, sizeof out->repo, "%.*s", (int)len, name);
    snprintf(rest, sizeof rest, "%s", name + len);
    bool at_sign = *at == '@';
    if (at_sign) {
        at++;
        word = strsep(&at, ":");
        if (!is_revision(word))
            return refuse(text, "what stands behind @ is no revision", err);
        snprintf(out->revision, sizeof out->revision, "%s", word);
    } else if (*at) {
        at++;
    } else {
        at = NULL;
    }
    while (at) {
        word = strsep(&at, ":");
        int rc = read_suffix(out, word, text, err);
        if (rc)
            return rc;
    }
    if (!out->revision[0])
        snprintf(out->revision, sizeof out->revision, "main");
    return 0;
}

static int parse_ollama(struct hub_name *out, const char *text, struct error *err) {
    const char *name = text + strlen("ollama:"), *tag = strchr(name, ':');
    size_t len = tag ? (size_t)(tag - name) : strlen(name);
    bool has_user = memchr(name, '/', len) != NULL;
    if (has_user ? !is_repo(name, len) : !is_label(name, len))
        return refuse(text, "it should be ollama:NAME, with :TAG behind it or not", err);
    tag = tag ? tag + 1 : "latest";
    if (!is_revision(tag) || strpbrk(tag, "/+#"))
        return refuse(text, "what stands behind the last colon is no tag", err);
    snprintf(out->repo, sizeof out->repo, "%s%.*s", has_user ? "" : "library/", (int)len, name);
    snprintf(out->revision, sizeof out->revision, "%s", tag);
    return 0;
}

int hub_name_parse(struct hub_name *out, const char *text, struct error *err) {
    *out = (struct hub_name){.kind = HUB_HUGGING_FACE};
    if (!starts_with(text, "ollama:"))
        return parse_hugging_face(out, text, err);
    out->kind = HUB_OLLAMA;
    return parse_ollama(out, text, err);
}

void hub_name_add(const struct hub_name *name, struct buf *out) {
    static const char LIBRARY[] = "library/";
    if (name->kind == HUB_OLLAMA) {
        bool library = starts_with(name->repo, LIBRARY);
        buf_addf(out, "ollama:%s:%s", name->repo + (library ? sizeof LIBRARY - 1 : 0),
                 name->revision);
        return;
    }
    buf_add_str(out, name->repo);
    if (strcmp(name->revision, "main"))
        buf_addf(out, "@%s", name->revision);
    if (name->file[0] || name->quant[0])
        buf_addf(out, ":%s", name->file[0] ? name->file : name->quant);
}
