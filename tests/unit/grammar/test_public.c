/* Schemas of others: MaskBench, and the official suite. */
#include "base/fsutil.h"
#include "check.h"
#include "compile.h"
#include "formats/json.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

struct tally {
    size_t schemas, compiled, wrong;
};

/* A text with "schema", then tests of "data" and "valid" in any order, once or more often. Valid data
 * must be accepted, invalid data refused, by every schema that compiles. */
static void judge(struct bytes text, struct tally *t) {
    struct json_reader r;
    struct program p = {0};
    struct error err;
    struct bytes data = {0};
    bool ready = false, valid = false, told = false, failed = false;
    json_reader_init(&r, text, JSON_DEPTH_MAX, JSON_ALLOW_NUL);
    for (enum json_event e; !failed && (e = json_next(&r)) != JSON_END && e != JSON_ERROR;) {
        bool is_schema = e == JSON_KEY && bytes_equal(r.text, bytes_str("schema"));
        bool is_data = e == JSON_KEY && bytes_equal(r.text, bytes_str("data"));
        if (e == JSON_KEY && bytes_equal(r.text, bytes_str("valid"))) {
            failed = !json_read_bool(&r, &valid);
            told = true;
        }
        if (is_schema || is_data) {
            (void)json_next(&r);
            size_t from = r.offset;
            if (!json_skip(&r))
                break;
            data = bytes_of(r.start + from, r.offset + r.raw.len - from);
        }
        if (is_schema) {
            struct grammar_source source = {
                .kind = GRAMMAR_JSON_SCHEMA, .text = data, .may_refuse_all = true};
            program_release(&p);
            ready = !grammar_compile(&source, NULL, &p, &err);
            t->compiled += ready;
            t->schemas++;
            data = (struct bytes){0};
        }
        if (!told || !data.data)
            continue;
        t->wrong += ready && accepts(&p, data) != valid;
        told = false;
        data = (struct bytes){0};
    }
    EXPECT(!failed);
    program_release(&p);
    json_reader_release(&r);
}

/* Each line: {"schema", "tests": [{"valid", "data"}]}. */
TEST(public_schemas_accept_what_is_valid) {
    const char *path = check_shared("structured/maskbench_subset.jsonl");
    FILE *f = path ? fopen(path, "re") : NULL;
    if (!f)
        SKIP("shared", "structured/maskbench_subset.jsonl");
    char *line = NULL;
    size_t cap = 0;
    struct tally t = {0};
    ssize_t len;
    while ((len = getline(&line, &cap, f)) > 0)
        judge(bytes_of(line, (size_t)len), &t);
    free(line);
    fclose(f);
    printf("# %zu of %zu schemas compile\n", t.compiled, t.schemas);
    EXPECT(t.schemas > 1000);
    EXPECT(t.compiled >= 1403);
    EXPECT_EQ(t.wrong, 0);
}

/* The official suite, of the drafts that are held. */
TEST(the_official_suite_is_judged_as_it_says) {
    static const char *const DRAFTS[] = {"draft2020-12", "draft7"};
    struct tally t = {0};
    for (size_t i = 0; i < ARRAY_LEN(DRAFTS); i++) {
        struct buf path = {0};
        buf_addf(&path, "structured/JSON-Schema-Test-Suite/tests/%s", DRAFTS[i]);
        const char *shared = check_shared(buf_text(&path));
        DIR *dir = shared ? opendir(shared) : NULL;
        struct dirent *entry;
        while (dir && (entry = readdir(dir))) {
            struct buf text = {0};
            struct error err;
            size_t len = strlen(entry->d_name);
            if (len < 5 || strcmp(entry->d_name + len - 5, ".json") != 0)
                continue;
            buf_reset(&path);
            buf_addf(&path, "%s/%s", shared, entry->d_name);
            EXPECT_EQ(file_read(buf_text(&path), 1 << 24, &text, &err), 0);
            judge(buf_bytes(&text), &t);
            buf_release(&text);
        }
        buf_release(&path);
        if (!dir)
            SKIP("shared", "structured/JSON-Schema-Test-Suite");
        closedir(dir);
    }
    printf("# %zu of %zu schemas compile\n", t.compiled, t.schemas);
    EXPECT(t.schemas > 600);
    EXPECT(t.compiled >= 604);
    EXPECT_EQ(t.wrong, 0);
}
