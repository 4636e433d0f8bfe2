#include "formats/hub/choice.h"

#include "formats/json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define INDEX_NAME "model.safetensors.index.json"

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), tail = strlen(end);
    return len >= tail && !strcasecmp(text + len - tail, end);
}

static bool in_root(const struct hub_file *f) {
    return !strchr(f->path, '/');
}

static const char *base_name(const struct hub_file *f) {
    const char *slash = strrchr(f->path, '/');
    return slash ? slash + 1 : f->path;
}

static void add_file(struct hub_choice *choice, const struct hub_file *f) {
    for (size_t i = 0; i < choice->files.count; i++)
        if (choice->files.items[i] == f)
            return;
    vec_push(&choice->files, f);
}

/* ---- GGUF ---- */

static bool is_gguf(const struct hub_file *f) {
    return ends_with(f->path, ".gguf");
}

/* Beside models, repositories hold projectors, importance matrices and draft heads. */
static bool is_gguf_model(const struct hub_file *f) {
    static const char *const OTHERS[] = {"mmproj",  "imatrix", "mtp-",
                                         "eagle3-", "dflash-", "dspark-"};
    for (size_t i = 0; i < ARRAY_LEN(OTHERS); i++)
        if (strstr(base_name(f), OTHERS[i]))
            return false;
    return is_gguf(f);
}

/* "-00001-of-00003.gguf": which of how many; false: the file stands alone. */
static bool split_of(const struct hub_file *f, unsigned *number, unsigned *count, size_t *stem) {
    size_t len = strlen(f->path);
    int end = 0;
    enum { SUFFIX_LEN = 20 };
    if (len <= SUFFIX_LEN || !is_gguf(f))
        return false;
    *stem = len - SUFFIX_LEN;
    return sscanf(f->path + *stem, "-%5u-of-%5u.%n", number, count, &end) == 2 && end == 16 &&
           *count > 1;
}

static bool is_later_split(const struct hub_file *f) {
    unsigned number, count;
    size_t stem;
    return split_of(f, &number, &count, &stem) && number != 1;
}

/* The path has the quant, before '-' or '.', and, where strict, behind a sign that parts words. */
static bool has_quant(const char *path, const char *quant, bool strict) {
    size_t len = strlen(quant);
    for (const char *at = path; (at = strcasestr(at, quant)); at++) {
        bool begins = at == path || strchr("-._/", at[-1]);
        if ((at[len] == '-' || at[len] == '.' || (strict && at[len] == '/')) && (begins || !strict))
            return true;
    }
    return false;
}

static const struct hub_file *find_quant(const struct hub_listing *l, const char *quant) {
    for (int strict = 1; strict >= 0; strict--)
        for (size_t i = 0; i < l->files.count; i++) {
            const struct hub_file *f = &l->files.items[i];
            if (is_gguf_model(f) && !is_later_split(f) && has_quant(f->path, quant, strict))
                return f;
        }
    return NULL;
}

static const struct hub_file *first_gguf(const struct hub_listing *l) {
    for (size_t i = 0; i < l->files.count; i++)
        if (is_gguf_model(&l->files.items[i]) && !is_later_split(&l->files.items[i]))
            return &l->files.items[i];
    return NULL;
}

/* The files of its kind in the repository, for an error's text. */
static void add_names(const struct hub_listing *l, bool is_wanted(const struct hub_file *),
                      struct buf *out) {
    enum { NAMES_MAX = 6 };
    size_t count = 0;
    for (size_t i = 0; i < l->files.count; i++) {
        const struct hub_file *f = &l->files.items[i];
        if (!is_wanted(f) || is_later_split(f))
            continue;
        if (count++ < NAMES_MAX)
            buf_addf(out, "%s%s", count > 1 ? ", " : "", f->path);
    }
    if (count > NAMES_MAX)
        buf_addf(out, " and %zu more", count - NAMES_MAX);
}

/* The file, or all that it is one of. */
static int choose_gguf(struct hub_choice *choice, const struct hub_listing *l,
                       const struct hub_file *f, struct error *err) {
    unsigned number, count;
    size_t stem;
    char path[HUB_FILE_MAX];
    choice->model = f;
    if (!split_of(f, &number, &count, &stem)) {
        add_file(choice, f);
        return 0;
    }
    for (unsigned i = 1; i <= count; i++) {
        snprintf(path, sizeof path, "%.*s-%05u-of-%05u%s", (int)stem, f->path, i, count,
                 f->path + strlen(f->path) - 5);
        const struct hub_file *one = hub_listing_find(l, path);
        if (!one)
            return error_set(err, ERR_NOT_FOUND,
                             "it has no '%.200s', one of %u that belong together", path, count);
        if (i == 1)
            choice->model = one;
        add_file(choice, one);
    }
    return 0;
}

static int choose_quant(struct hub_choice *choice, const struct hub_listing *l, const char *quant,
                        struct error *err) {
    const struct hub_file *f = find_quant(l, quant);
    if (f)
        return choose_gguf(choice, l, f, err);
    struct buf names;
    buf_init(&names, 0);
    add_names(l, is_gguf_model, &names);
    int rc = error_set(err, ERR_NOT_FOUND, "it has no GGUF file of %s; %s%s", quant,
                       names.len ? "it has " : "it has none at all", buf_text(&names));
    buf_release(&names);
    return rc;
}

static int choose_default_gguf(struct hub_choice *choice, const struct hub_listing *l,
                               struct error *err) {
    static const char *const FIRST[] = {"Q4_K_M", "Q8_0"};
    const struct hub_file *f = NULL;
    for (size_t i = 0; !f && i < ARRAY_LEN(FIRST); i++)
        f = find_quant(l, FIRST[i]);
    if (!f)
        f = first_gguf(l);
    CHECK(f); /* the caller saw one */
    return choose_gguf(choice, l, f, err);
}

/* ---- a folder ---- */

static bool is_safetensors(const struct hub_file *f) {
    return ends_with(f->path, ".safetensors");
}

/* Weights of the form that config.json describes. */
static bool is_weight(const struct hub_file *f) {
    return in_root(f) && is_safetensors(f) && strncmp(f->path, "consolidated", 12) != 0 &&
           strncmp(f->path, "adapter_", 8) != 0;
}

/* Text that a model is read with; text/bundle.h has the names of the tokenizer's. */
static bool is_text(const struct hub_file *f) {
    static const char *const ENDS[] = {".json", ".jinja", ".model", ".tiktoken"};
    static const char *const NAMES[] = {"merges.txt", "vocab.txt", "vocab.bpe",
                                        "rwkv_vocab_v20230424.txt"};
    static const char *const NOT[] = {".index.json", "trainer_state.json", "all_results.json",
                                      "train_results.json", "eval_results.json"};
    static const char TEMPLATES[] = "additional_chat_templates/";
    if (!strncmp(f->path, TEMPLATES, sizeof TEMPLATES - 1))
        return ends_with(f->path, ".jinja");
    bool good = false;
    for (size_t i = 0; i < ARRAY_LEN(ENDS); i++)
        good = good || ends_with(f->path, ENDS[i]);
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        good = good || !strcmp(f->path, NAMES[i]);
    for (size_t i = 0; i < ARRAY_LEN(NOT); i++)
        good = good && !ends_with(f->path, NOT[i]);
    return good && in_root(f);
}

static int add_indexed(struct hub_choice *choice, const struct hub_listing *l, struct bytes name,
                       struct error *err) {
    char path[HUB_FILE_MAX];
    snprintf(path, sizeof path, "%.*s", (int)MIN(name.len, sizeof path - 1), name.data);
    const struct hub_file *f = hub_listing_find(l, path);
    if (!f || !is_safetensors(f))
        return error_set(err, ERR_INVALID, "its index of weights names '%.200s', which it lacks",
                         path);
    add_file(choice, f);
    return 0;
}

/* {"weight_map": {TENSOR: FILE}} */
static int choose_indexed(struct hub_choice *choice, const struct hub_listing *l,
                          struct bytes index, struct error *err) {
    struct json_reader r;
    int rc = 0;
    bool found = false;
    struct bytes name;
    json_reader_init(&r, index, 0, 0);
    bool good = json_expect(&r, JSON_OBJECT_BEGIN);
    while (good && !rc && json_next(&r) == JSON_KEY) {
        if (!bytes_equal(r.text, bytes_str("weight_map"))) {
            good = json_skip(&r);
            continue;
        }
        found = true;
        good = json_expect(&r, JSON_OBJECT_BEGIN);
        while (good && !rc && json_next(&r) == JSON_KEY) {
            good = json_read_string(&r, &name);
            if (good)
                rc = add_indexed(choice, l, name, err);
        }
    }
    if (!rc && (!good || !found || r.last == JSON_ERROR))
        rc = error_set(err, ERR_INVALID, "its index of weights cannot be read: %s",
                       *r.error.text ? r.error.text : "there is no weight_map");
    json_reader_release(&r);
    return rc;
}

static int choose_folder(struct hub_choice *choice, const struct hub_listing *l, struct bytes index,
                         struct error *err) {
    const struct hub_file *weights = hub_listing_find(l, INDEX_NAME);
    const struct hub_file *single = hub_listing_find(l, "model.safetensors");
    for (size_t i = 0; i < l->files.count; i++)
        if (is_text(&l->files.items[i]))
            add_file(choice, &l->files.items[i]);
    if (weights) {
        add_file(choice, weights);
        choice->index = index.data ? NULL : weights;
        return index.data ? choose_indexed(choice, l, index, err) : 0;
    }
    for (size_t i = 0; i < l->files.count; i++)
        if (single ? &l->files.items[i] == single : is_weight(&l->files.items[i]))
            add_file(choice, &l->files.items[i]);
    return 0;
}

/* ---- nothing ---- */

static bool is_pickle(const struct hub_file *f) {
    static const char *const ENDS[] = {".bin", ".pt", ".pth", ".ckpt", ".pkl"};
    for (size_t i = 0; i < ARRAY_LEN(ENDS); i++)
        if (ends_with(f->path, ENDS[i]))
            return true;
    return false;
}

static int refuse(const struct hub_listing *l, struct error *err) {
    struct buf names;
    int rc;
    buf_init(&names, 0);
    add_names(l, is_pickle, &names);
    if (names.len)
        rc = error_set(err, ERR_UNSUPPORTED,
                       "it has its weights only as pickles (%s): to read one is to run the code in "
                       "it, so they are refused; name a revision or a repository with safetensors "
                       "or GGUF",
                       buf_text(&names));
    else
        rc = error_set(err, ERR_NOT_FOUND,
                       "it has neither config.json with *.safetensors nor a GGUF file");
    buf_release(&names);
    return rc;
}

/* ---- */

static int choose_named(struct hub_choice *choice, const struct hub_listing *l, const char *path,
                        struct error *err) {
    const struct hub_file *f = hub_listing_find(l, path);
    for (size_t i = 0; !f && i < l->files.count; i++)
        if (!strcasecmp(l->files.items[i].path, path))
            f = &l->files.items[i];
    if (!f)
        return error_set(err, ERR_NOT_FOUND, "it has no file '%.300s'", path);
    if (is_gguf(f))
        return choose_gguf(choice, l, f, err);
    for (size_t i = 0; i < l->files.count; i++)
        if (is_text(&l->files.items[i]))
            add_file(choice, &l->files.items[i]);
    add_file(choice, f);
    return 0;
}

static int choose(struct hub_choice *choice, const struct hub_listing *l,
                  const struct hub_name *name, struct bytes index, struct error *err) {
    bool has_weights = hub_listing_find(l, INDEX_NAME) != NULL;
    if (name->file[0])
        return choose_named(choice, l, name->file, err);
    if (name->quant[0])
        return choose_quant(choice, l, name->quant, err);
    for (size_t i = 0; !has_weights && i < l->files.count; i++)
        has_weights = is_weight(&l->files.items[i]);
    if (has_weights && hub_listing_find(l, "config.json"))
        return choose_folder(choice, l, index, err);
    return first_gguf(l) ? choose_default_gguf(choice, l, err) : refuse(l, err);
}

static int compare_files(const void *a, const void *b) {
    const struct hub_file *const *x = a, *const *y = b;
    return strcmp((*x)->path, (*y)->path);
}

int hub_choice_make(struct hub_choice *choice, const struct hub_listing *listing,
                    const struct hub_name *name, struct bytes index, struct error *err) {
    *choice = (struct hub_choice){.model = NULL};
    int rc = choose(choice, listing, name, index, err);
    if (choice->files.count)
        qsort(choice->files.items, choice->files.count, sizeof(const struct hub_file *),
              compare_files);
    return rc;
}

uint64_t hub_choice_bytes(const struct hub_choice *choice) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < choice->files.count; i++)
        bytes += choice->files.items[i]->size;
    return bytes;
}

void hub_choice_release(struct hub_choice *choice) {
    vec_release(&choice->files);
}
