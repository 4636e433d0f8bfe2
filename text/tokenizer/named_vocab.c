#include "text/tokenizer/named_vocab.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/fsutil.h"
#include "text/tokenizer/known_splits.h"

enum { FILES_MAX = 6, ALIASES_MAX = 6, SPECIALS_MAX = 32, FOLDERS_MAX = 256, AGENT_TOKENS = 54 };

struct special {
    const char *text;
    uint32_t id;
};

/* Ids first to last, named by a number that begins at `number`. */
struct special_run {
    const char *before, *after;
    uint32_t first, last, number;
};

struct named_vocab {
    const char *names[ALIASES_MAX], *files[FILES_MAX];
    const char *published, *split;
    uint32_t bos, eos;      /* TOKEN_NONE: none */
    uint32_t first_text_id; /* lines of the file below it are special tokens' names */
    uint32_t agent_base;    /* TOKEN_NONE: no agent tokens */
    bool prefix_bos;
    struct special specials[SPECIALS_MAX];
    struct special_run run;
    const char *contents[2]; /* hashes of the tiktoken file's tokens, hexadecimal */
};

#define OPENAI   "https://openaipublic.blob.core.windows.net/encodings/"
#define SPLINTR  "https://github.com/ml-rust/splintr/tree/main/python/splintr/vocabs"
#define MISTRALS "https://github.com/mistralai/mistral-common/tree/main/src/mistral_common/data"
#define NONE     TOKEN_NONE

static const struct named_vocab TABLE[] = {
    {.names = {"cl100k_base", "cl100k"},
     .files = {"cl100k_base.tiktoken"},
     .published = OPENAI "cl100k_base.tiktoken",
     .split = "cl100k_base",
     .bos = NONE,
     .eos = 100257,
     .agent_base = 100277,
     .specials = {{"<|endoftext|>", 100257},
                  {"<|fim_prefix|>", 100258},
                  {"<|fim_middle|>", 100259},
                  {"<|fim_suffix|>", 100260},
                  {"<|endofprompt|>", 100276}},
     .contents = {"96dbd69bf31ed9816fb518802d59c138"}},
    {.names = {"o200k_base", "o200k"},
     .files = {"o200k_base.tiktoken"},
     .published = OPENAI "o200k_base.tiktoken",
     .split = "o200k_base",
     .bos = NONE,
     .eos = 199999,
     .agent_base = 200019,
     .specials = {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}},
     .contents = {"5884735633b0aa7bb44b3fb21bd7171c"}},
    {.names = {"p50k_base"},
     .files = {"p50k_base.tiktoken"},
     .published = OPENAI "p50k_base.tiktoken",
     .split = "p50k_base",
     .bos = NONE,
     .eos = 50256,
     .agent_base = NONE,
     .specials = {{"<|endoftext|>", 50256}},
     .contents = {"f6f861b144694e2280a02f24d08aa6b8"}},
    {.names = {"r50k_base", "gpt2"},
     .files = {"r50k_base.tiktoken"},
     .published = OPENAI "r50k_base.tiktoken",
     .split = "r50k_base",
     .bos = NONE,
     .eos = 50256,
     .agent_base = NONE,
     .specials = {{"<|endoftext|>", 50256}},
     .contents = {"a2bf067e70b47a3638824f2c2063699b"}},
    {.names = {"llama3", "llama3.1", "llama3.2", "llama3.3", "llama-3"},
     .files = {"llama3.tiktoken", "llama3/tokenizer.model", "tokenizer.model.llama3"},
     .published = SPLINTR
     " (llama3.tiktoken), or as original/tokenizer.model of https://huggingface.co/meta-llama",
     .split = "llama3",
     .bos = 128000,
     .eos = 128001,
     .agent_base = 128300,
     .prefix_bos = true,
     .specials = {{"<|begin_of_text|>", 128000},
                  {"<|end_of_text|>", 128001},
                  {"<|reserved_special_token_0|>", 128002},
                  {"<|reserved_special_token_1|>", 128003},
                  {"<|finetune_right_pad_id|>", 128004},
                  {"<|reserved_special_token_2|>", 128005},
                  {"<|start_header_id|>", 128006},
                  {"<|end_header_id|>", 128007},
                  {"<|eom_id|>", 128008},
                  {"<|eot_id|>", 128009},
                  {"<|python_tag|>", 128010}},
     .run = {"<|reserved_special_token_", "|>", 128011, 128255, 3},
     .contents = {"8248d410b762b04c1c315dc09dc10f54"}},
    {.names = {"deepseek_v3", "deepseek-v3"},
     .files = {"deepseek_v3.tiktoken", "deepseek_v3.rawbytes.tiktoken"},
     .published = SPLINTR " (deepseek_v3.tiktoken)",
     .split = "deepseek_v3",
     .bos = 0,
     .eos = 1,
     .first_text_id = 3,
     .agent_base = 128900,
     .prefix_bos = true,
     .specials = {{"<｜begin▁of▁sentence｜>", 0},
                  {"<｜end▁of▁sentence｜>", 1},
                  {"<｜▁pad▁｜>", 2},
                  {"<think>", 128798},
                  {"</think>", 128799},
                  {"<｜fim▁hole｜>", 128800},
                  {"<｜fim▁begin｜>", 128801},
                  {"<｜fim▁end｜>", 128802},
                  {"<｜User｜>", 128803},
                  {"<｜Assistant｜>", 128804},
                  {"<|EOT|>", 128805},
                  {"<｜tool▁calls▁begin｜>", 128806},
                  {"<｜tool▁calls▁end｜>", 128807},
                  {"<｜tool▁call▁begin｜>", 128808},
                  {"<｜tool▁call▁end｜>", 128809},
                  {"<｜tool▁outputs▁begin｜>", 128810},
                  {"<｜tool▁outputs▁end｜>", 128811},
                  {"<｜tool▁output▁begin｜>", 128812},
                  {"<｜tool▁output▁end｜>", 128813},
                  {"<｜tool▁sep｜>", 128814}},
     .contents = {"03473f45c946d159499a11f77bb334bf", "8239d5c1b4be9c4b4b368ca48c0f03ab"}},
    {.names = {"mistral_v1", "mistral", "mistral-7b"},
     .files = {"mistral_v1.model", "tokenizer.model.v1", "mistral_v1/tokenizer.model",
               "mistral.tiktoken"},
     .published = MISTRALS " (tokenizer.model.v1)",
     .bos = 1,
     .eos = 2,
     .agent_base = 32000,
     .prefix_bos = true,
     .contents = {"f445cd0611932875c3f728312daa7000"}},
    {.names = {"mistral_v2"},
     .files = {"mistral_v2.model", "mistral_instruct_tokenizer_240216.model.v2",
               "mistral_v2/tokenizer.model", "mistral_v2.tiktoken"},
     .published = MISTRALS " (mistral_instruct_tokenizer_240216.model.v2)",
     .bos = 1,
     .eos = 2,
     .agent_base = 32768,
     .prefix_bos = true,
     .contents = {"d6578be7a8726587ac00130cf0242e99"}},
    {.names = {"mistral_v3", "mistral_v3_tekken", "tekken"},
     .files = {"mistral_v3_tekken.tiktoken", "mistral_v3.tiktoken",
               "mistral_v3_tekken.rawbytes.tiktoken"},
     .published = SPLINTR " (mistral_v3_tekken.tiktoken)",
     .split = "tekken",
     .bos = 1,
     .eos = 2,
     .first_text_id = 1000,
     .agent_base = 131072,
     .prefix_bos = true,
     .specials = {{"<unk>", 0},
                  {"<s>", 1},
                  {"</s>", 2},
                  {"[INST]", 3},
                  {"[/INST]", 4},
                  {"[AVAILABLE_TOOLS]", 5},
                  {"[/AVAILABLE_TOOLS]", 6},
                  {"[TOOL_RESULTS]", 7},
                  {"[/TOOL_RESULTS]", 8},
                  {"[TOOL_CALLS]", 9},
                  {"<pad>", 10},
                  {"[PREFIX]", 11},
                  {"[MIDDLE]", 12},
                  {"[SUFFIX]", 13}},
     .run = {"<SPECIAL_", ">", 14, 999, 14},
     .contents = {"f5ff4b347cbe2f667903a9b8bbc9e23a", "97f9cc5214caf66fb00a084469e94ef6"}},
};

/* Singles are <|x|>; doubled ones also have <|/x|> right behind. */
static const struct {
    const char *name;
    bool doubled;
} AGENT[] = {{"system", false}, {"user", false},   {"assistant", false}, {"im_start", false},
             {"im_end", false}, {"think", true},   {"plan", true},       {"step", true},
             {"act", true},     {"observe", true}, {"function", true},   {"result", true},
             {"error", true},   {"code", true},    {"output", true},     {"lang", true},
             {"context", true}, {"quote", true},   {"cite", true},       {"source", true},
             {"memory", true},  {"recall", true},  {"pad", false},       {"stop", false},
             {"sep", false},    {"image", true},   {"audio", true},      {"video", true},
             {"title", true},   {"section", true}, {"summary", true}};

/* ---- finding ---- */

const struct named_vocab *named_vocab_find(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(TABLE); i++)
        for (size_t k = 0; k < ALIASES_MAX && TABLE[i].names[k]; k++)
            if (!strcasecmp(name, TABLE[i].names[k]))
                return &TABLE[i];
    return NULL;
}

const struct named_vocab *named_vocab_recognize(const struct tiktoken_file *f) {
    char hex[U128_TEXT_MAX];
    u128_text(f->contents, hex);
    for (size_t i = 0; i < ARRAY_LEN(TABLE); i++)
        for (size_t k = 0; k < ARRAY_LEN(TABLE[i].contents); k++)
            if (TABLE[i].contents[k] && !strcmp(hex, TABLE[i].contents[k]))
                return &TABLE[i];
    return NULL;
}

const char *named_vocab_list(void) {
    return "cl100k_base, o200k_base, p50k_base, r50k_base, llama3, deepseek_v3, mistral_v1, "
           "mistral_v2, mistral_v3";
}

static bool try_path(const char *dir, const char *sub, const char *file, struct buf *path) {
    buf_reset(path);
    buf_addf(path, "%s/%s%s%s", dir, sub, *sub ? "/" : "", file);
    return file_exists(buf_text(path));
}

static bool find_in(const struct named_vocab *v, const char *dir, const char *sub,
                    struct buf *path) {
    for (size_t i = 0; i < FILES_MAX && v->files[i]; i++)
        if (try_path(dir, sub, v->files[i], path))
            return true;
    return false;
}

static bool find_deeper(const struct named_vocab *v, const char *dir, struct buf *path) {
    struct dirent **entries = NULL;
    int count = scandir(dir, &entries, NULL, alphasort);
    bool found = false;
    for (int i = 0; i < count; i++) {
        if (!found && i < FOLDERS_MAX && entries[i]->d_name[0] != '.')
            found = find_in(v, dir, entries[i]->d_name, path);
        free(entries[i]);
    }
    free(entries);
    return found;
}

int named_vocab_path(const struct named_vocab *v, const char *dir, struct buf *path,
                     struct error *err) {
    if (!dir || !*dir)
        return error_set(err, ERR_NOT_FOUND,
                         "the vocabulary '%s' needs a folder with '%s' in it: give --vocab-dir or "
                         "set TRIREME_VOCAB_DIR; "
                         "it is published at %s",
                         v->names[0], v->files[0], v->published);
    if (find_in(v, dir, "", path) || find_deeper(v, dir, path))
        return 0;
    struct buf names = {0};
    for (size_t i = 0; i < FILES_MAX && v->files[i]; i++)
        buf_addf(&names, "%s'%s'", i ? " nor " : "", v->files[i]);
    int rc = error_set(err, ERR_NOT_FOUND, "the folder '%s' has no %s; it is published at %s", dir,
                       buf_text(&names), v->published);
    buf_release(&names);
    return rc;
}

/* ---- what the file does not say ---- */

void named_vocab_rules(const struct named_vocab *v, struct buf *json) {
    CHECK(!v->split || known_split_json(bytes_str(v->split), json, NULL));
}

static int add(struct tokenizer *t, const char *text, uint32_t id, bool special,
               struct error *err) {
    struct added_token token = {.id = id, .special = special};
    return tokenizer_add_token(t, bytes_str(text), token, err);
}

/* Llama 3's model family uses ids of its own for images, sound and films. */
static uint32_t agent_id(const struct named_vocab *v, const char *name, uint32_t offset) {
    enum { LLAMA3_MEDIA = 128256, IMAGE_OFFSET = 42 };
    bool media = !strcmp(name, "image") || !strcmp(name, "audio") || !strcmp(name, "video");
    return v->bos == 128000 && media ? LLAMA3_MEDIA + offset - IMAGE_OFFSET
                                     : v->agent_base + offset;
}

static int add_agent_tokens(const struct named_vocab *v, struct tokenizer *t, struct error *err) {
    uint32_t offset = 0;
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(AGENT) && !rc; i++)
        for (int end = 0; end <= AGENT[i].doubled && !rc; end++, offset++) {
            char text[32];
            snprintf(text, sizeof text, "<|%s%s|>", end ? "/" : "", AGENT[i].name);
            rc = add(t, text, agent_id(v, AGENT[i].name, offset), true, err);
        }
    CHECK(rc || offset == AGENT_TOKENS);
    return rc;
}

int named_vocab_add_tokens(const struct named_vocab *v, bool agent_tokens, struct tokenizer *t,
                           struct error *err) {
    int rc = 0;
    for (size_t i = 0; i < SPECIALS_MAX && v->specials[i].text && !rc; i++) {
        bool thinking =
            !strcmp(v->specials[i].text, "<think>") || !strcmp(v->specials[i].text, "</think>");
        rc = add(t, v->specials[i].text, v->specials[i].id, !thinking, err);
    }
    for (uint32_t id = v->run.first; v->run.before && id <= v->run.last && !rc; id++) {
        char text[64];
        snprintf(text, sizeof text, "%s%u%s", v->run.before, v->run.number + id - v->run.first,
                 v->run.after);
        rc = add(t, text, id, true, err);
    }
    if (!rc && agent_tokens && v->agent_base != NONE)
        rc = add_agent_tokens(v, t, err);
    if (rc)
        return rc;
    t->bos = v->bos;
    t->prefix.count = 0;
    if (v->prefix_bos)
        vec_push(&t->prefix, v->bos);
    tokenizer_add_eos(t, v->eos);
    return 0;
}

uint32_t named_vocab_first_text_id(const struct named_vocab *v) {
    return v->first_text_id;
}
