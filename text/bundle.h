/*
 * bundle.h - a model's text files (tokenizer, templates, generation defaults) as one content-hashed
 * blob.
 *
 * The worker packs it from the model's folder, the scheduler relays it unread, the gateway opens
 * it: so a gateway needs no disk. The bytes depend only on the files' names and contents (names
 * sorted), so equal models have equal hashes on any machine.
 *
 * Layout, little-endian: "TRIBNDL1", u32 file_count, then for each file u16 name_len, u16 zero, u32
 * data_len, name, data. Nothing after.
 *
 * Invariants of an opened bundle:
 *   (1) names are unique, sorted, 1 to 96 bytes of [A-Za-z0-9._/-], without "..", not absolute;
 *   (2) every length lies inside the blob;
 *   (3) the blob ends with the last file.
 *
 * Threading: an opened bundle is read-only and may be shared.
 */
#ifndef TEXT_BUNDLE_H
#define TEXT_BUNDLE_H

#include "base/buf.h"
#include "base/error.h"

enum { BUNDLE_FILES_MAX = 32, BUNDLE_NAME_MAX = 96 };
#define BUNDLE_BYTES_MAX ((size_t)256 << 20)
#define BUNDLE_WORLD     "rwkv_vocab_v20230424.txt" /* RWKV's vocabulary (text/tokenizer/world.h) */

struct bundle_file {
    struct bytes name, data; /* both point into the blob */
};

struct bundle {
    struct bundle_file files[BUNDLE_FILES_MAX];
    size_t file_count;
};

/* Packs the text files found in dir: tokenizer.json, tokenizer_config.json,
 * special_tokens_map.json, chat_template.jinja, chat_template.json, additional_chat_templates/
 * *.jinja, generation_config.json, config.json, tokenizer.model, added_tokens.json and RWKV's
 * vocabulary; where there is no tokenizer.json also tekken.json, vocab.json with merges.txt (or
 * encoder.json with vocab.bpe) and vocab.txt; of a .gguf file (dir may be one, or a folder of one)
 * its vocabulary as tokenizer.gguf, its chat template and the names of its BOS and EOS. Missing
 * ones are left out; ERR_NOT_FOUND when there is no vocabulary. Replaces what out held. */
MUST_CHECK int bundle_pack(const char *dir, struct buf *out, struct error *err);
/* The same with the vocabulary in the file `vocab` (of any form that text/tokenizer/open.h reads) instead
 * of the folder's own; NULL: the folder's. */
MUST_CHECK int bundle_pack_with(const char *dir, const char *vocab, struct buf *out,
                                struct error *err);
/* Packs files already in memory (any order; names checked as above). */
MUST_CHECK int bundle_pack_files(const struct bundle_file *files, size_t count, struct buf *out,
                                 struct error *err);
/* The bundle's identity: equal bytes, equal hash. */
struct u128 bundle_hash(struct bytes packed);
/* Checks the whole blob; fills *bundle with views into packed, which the caller keeps while the
 * bundle is in use. */
MUST_CHECK int bundle_open(struct bundle *bundle, struct bytes packed, struct error *err);
/* The file's bytes, or {NULL, 0} when the bundle has no such file. An empty file has a non-NULL
 * pointer. */
struct bytes bundle_find(const struct bundle *bundle, const char *name);

#endif
