/*
 * name.h - what a person types for a model that is not a path, and what it means.
 *
 *     ORG/NAME[@REVISION][:FILE or QUANT]
 *     ORG/NAME[:REVISION][:FILE or QUANT]      hf.co/ORG/NAME and https://huggingface.co/ORG/NAME too
 *     ollama:NAME[:TAG]    ollama:USER/NAME[:TAG]
 *
 * Behind a colon stands a file when it ends in .gguf or .safetensors; a quant when it is spelled
 * like one (Q4_K_M, UD-IQ2_XXS, BF16, MXFP4_MOE, ...; `latest` is no quant, and asks for nothing);
 * anything else is a revision. What stands behind @ is always a revision. So llama.cpp's
 * `-hf ORG/NAME:QUANT` and Hugging Face's repository and revision can both be typed.
 *
 * Invariants of a parsed name:
 *   (1) repo is ORG/NAME of letters, digits, '_', '-' and '.', no "..", no "--": it can be a
 *       folder's name and a URL's path as it is;
 *   (2) revision can be a path below refs/ (hub_path_is_safe), is not empty, at most
 *       HUB_REVISION_MAX - 1 bytes;
 *   (3) file is empty or hub_path_is_safe; at most one of file and quant is set.
 */
#ifndef FORMATS_HUB_NAME_H
#define FORMATS_HUB_NAME_H

#include "base/buf.h"
#include "base/error.h"

enum { HUB_REPO_MAX = 200, HUB_REVISION_MAX = 200, HUB_FILE_MAX = 512, HUB_QUANT_MAX = 40 };

enum hub_kind { HUB_HUGGING_FACE, HUB_OLLAMA };

struct hub_name {
    enum hub_kind kind;
    char repo[HUB_REPO_MAX]; /* "ORG/NAME"; of Ollama "library/llama3.2" */
    char revision
        [HUB_REVISION_MAX];    /* branch, tag or commit ("main"); of Ollama the tag ("latest") */
    char file[HUB_FILE_MAX];   /* a file of the repository, or "" */
    char quant[HUB_QUANT_MAX]; /* upper case, or "" */
};

/* True for a text that can be a name and is not spelled like a path (/x, ./x, ~/x). Whether a path
 * of that spelling exists is for the caller to ask first: a path that exists wins. */
bool hub_name_is_like(const char *text);
/* 0, or ERR_INVALID with what is wrong with it. */
MUST_CHECK int hub_name_parse(struct hub_name *out, const char *text, struct error *err);
/* Appends the name, spelled so that it parses to the same. */
void hub_name_add(const struct hub_name *name, struct buf *out);

/* A path as a repository may hold it: relative, at most HUB_FILE_MAX - 1 bytes of UTF-8 without
 * control characters and backslashes, at most 16 folders deep, no segment empty, "." or "..". */
bool hub_path_is_safe(struct bytes path);
/* True for 40 lower-case hex digits: a commit's name. */
bool hub_is_commit(const char *text);

#endif
