/*
 * fuzz_json.c - what the scan lets through, the reader reads, cJSON sees alike, and the writer
 * writes back to the same.
 */
#include "base/utf8.h"
#include "formats/json.h"
#include "fuzz.h"

#include <cjson/cJSON.h>
#include <math.h>

enum { CJSON_NUMBER_MAX = 60 }; /* cJSON reads no more than 63 bytes of a number */

static bool same(struct json_reader *r, const cJSON *item);

static bool same_children(struct json_reader *r, const cJSON *item, bool object) {
    if (object ? !cJSON_IsObject(item) : !cJSON_IsArray(item))
        return false;
    for (const cJSON *child = item->child; child; child = child->next) {
        if (object && (json_next(r) != JSON_KEY || !bytes_equal(r->text, bytes_str(child->string))))
            return false;
        if (!same(r, child))
            return false;
    }
    return json_next(r) == (object ? JSON_OBJECT_END : JSON_ARRAY_END);
}

static bool same(struct json_reader *r, const cJSON *item) {
    enum json_event event = json_next(r);
    double number;
    switch (event) {
    case JSON_TRUE: return cJSON_IsTrue(item);
    case JSON_FALSE: return cJSON_IsFalse(item);
    case JSON_NULL: return cJSON_IsNull(item);
    case JSON_STRING:
        return cJSON_IsString(item) && bytes_equal(r->text, bytes_str(item->valuestring));
    case JSON_NUMBER:
        if (!json_number_double(r->text, &number))
            return cJSON_IsNumber(item) && isinf(item->valuedouble);
        return cJSON_IsNumber(item) && number == item->valuedouble;
    case JSON_ARRAY_BEGIN: return same_children(r, item, false);
    case JSON_OBJECT_BEGIN: return same_children(r, item, true);
    default: return false;
    }
}

static void check_cjson(struct bytes text) {
    struct json_reader r;
    cJSON *tree = cJSON_ParseWithLength((const char *)text.data, text.len);
    CHECK(tree);
    json_reader_init(&r, text, 0, 0);
    CHECK(same(&r, tree));
    CHECK(json_next(&r) == JSON_END);
    json_reader_release(&r);
    cJSON_Delete(tree);
}

/* An integer by one way is the same by the other. */
static void check_number(struct bytes text) {
    int64_t integer;
    double real;
    if (!json_number_int64(text, &integer))
        return;
    CHECK(json_number_double(text, &real));
    CHECK(real == (double)integer);
}

static void copy_event(struct json_reader *r, struct json_writer *w, enum json_event event) {
    switch (event) {
    case JSON_OBJECT_BEGIN: json_begin_object(w); break;
    case JSON_OBJECT_END: json_end_object(w); break;
    case JSON_ARRAY_BEGIN: json_begin_array(w); break;
    case JSON_ARRAY_END: json_end_array(w); break;
    case JSON_KEY: json_key_bytes(w, r->text); break;
    case JSON_STRING: json_string_bytes(w, r->text); break;
    case JSON_NUMBER: json_raw(w, r->text); break;
    case JSON_NULL: json_null(w); break;
    default: json_bool(w, event == JSON_TRUE);
    }
}

/* Reads it all and writes it again. False when the reader refuses. *long_number: one that cJSON
 * cannot read. */
static bool rewrite(struct bytes text, struct buf *out, bool *long_number) {
    struct json_reader r;
    struct json_writer w;
    enum json_event event;
    json_reader_init(&r, text, 0, 0);
    json_writer_init(&w, out);
    while ((event = json_next(&r)) > JSON_END) {
        CHECK(r.offset + r.raw.len <= text.len && r.raw.len && r.depth <= JSON_DEPTH_DEFAULT);
        if (event == JSON_STRING || event == JSON_KEY)
            CHECK(utf8_valid(r.text.data, r.text.len) &&
                  !memchr(r.text.len ? r.text.data : (const uint8_t *)"x", 0, r.text.len));
        if (event == JSON_NUMBER) {
            check_number(r.text);
            *long_number |= r.text.len > CJSON_NUMBER_MAX;
        }
        copy_event(&r, &w, event);
    }
    if (event == JSON_ERROR)
        CHECK(r.error.code < 0 && r.error.text[0]);
    json_reader_release(&r);
    return event == JSON_END;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes text = bytes_of(data, size);
    struct buf once, twice;
    struct error err = {0};
    bool long_number = false;
    double real;
    buf_init(&once, 0);
    buf_init(&twice, 0);
    bool scanned = json_scan(text, 0, &err) == 0, read = rewrite(text, &once, &long_number);
    CHECK(scanned ? read : err.text[0] != 0);
    CHECK(scanned || !read || strstr(err.text, "repeated key"));
    if (read) {
        CHECK(rewrite(buf_bytes(&once), &twice, &long_number));
        CHECK(bytes_equal(buf_bytes(&once), buf_bytes(&twice)));
    }
    if (scanned && !long_number)
        check_cjson(text);
    if (json_number_double(text, &real))
        CHECK(isfinite(real));
    check_number(text);
    buf_release(&once);
    buf_release(&twice);
    return 0;
}
