#include "formats/gguf_write.h"

#include <unistd.h>

#include "formats/gguf_types.h"

static void add_u32(struct buf *b, uint32_t v) {
    buf_add(b, &v, 4);
}
static void add_u64(struct buf *b, uint64_t v) {
    buf_add(b, &v, 8);
}
static void add_text(struct buf *b, struct bytes s) {
    add_u64(b, s.len);
    buf_add_bytes(b, s);
}

void gguf_writer_init(struct gguf_writer *w, const char *path) {
    struct buf temporary;
    *w = (struct gguf_writer){.path = mem_strdup(path)};
    buf_init(&temporary, 0);
    buf_addf(&temporary, "%s.part%d", path, (int)getpid());
    w->temporary_path = temporary.data;
    buf_init(&w->keys, 0);
    buf_init(&w->tensors, 0);
}

void gguf_writer_release(struct gguf_writer *w) {
    if (w->file) {
        fclose(w->file);
        unlink(w->temporary_path);
    }
    buf_release(&w->keys);
    buf_release(&w->tensors);
    mem_free(w->path);
    mem_free(w->temporary_path);
    *w = (struct gguf_writer){0};
}

static void put_key(struct gguf_writer *w, struct bytes key, enum gguf_type type) {
    CHECK(!w->file && !w->array_left);
    add_text(&w->keys, key);
    add_u32(&w->keys, type);
    w->key_count++;
}

void gguf_put_int(struct gguf_writer *w, const char *key, enum gguf_type type, int64_t value) {
    static const uint8_t SIZES[] = {1, 1, 2, 2, 4, 4, 0, 1, 0, 0, 8, 8, 0};
    CHECK((size_t)type < ARRAY_LEN(SIZES) && SIZES[type]);
    put_key(w, bytes_str(key), type);
    buf_add(&w->keys, &value, SIZES[type]); /* little-endian */
}

void gguf_put_f32(struct gguf_writer *w, const char *key, double value) {
    float narrow = (float)value;
    put_key(w, bytes_str(key), GGUF_F32);
    buf_add(&w->keys, &narrow, sizeof narrow);
}

void gguf_put_string(struct gguf_writer *w, const char *key, struct bytes value) {
    put_key(w, bytes_str(key), GGUF_STRING);
    add_text(&w->keys, value);
}

void gguf_put_copy(struct gguf_writer *w, const struct gguf_kv *kv) {
    put_key(w, kv->key, kv->is_array ? GGUF_ARRAY : kv->type);
    if (kv->is_array) {
        add_u32(&w->keys, kv->type);
        add_u64(&w->keys, kv->count);
    }
    buf_add(&w->keys, kv->data, kv->byte_len);
}

void gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_type type, uint64_t count) {
    put_key(w, bytes_str(key), GGUF_ARRAY);
    add_u32(&w->keys, type);
    add_u64(&w->keys, count);
    w->array_left = count;
}

/* Where the next element of the open array goes. */
static struct buf *next_element(struct gguf_writer *w) {
    CHECK(w->array_left > 0);
    w->array_left--;
    return &w->keys;
}

void gguf_add_string(struct gguf_writer *w, struct bytes value) {
    add_text(next_element(w), value);
}
void gguf_add_bool(struct gguf_writer *w, bool value) {
    buf_add_byte(next_element(w), value);
}
void gguf_add_i32(struct gguf_writer *w, int32_t value) {
    buf_add(next_element(w), &value, sizeof value);
}
void gguf_add_f32(struct gguf_writer *w, float value) {
    buf_add(next_element(w), &value, sizeof value);
}

int gguf_put_tensor(struct gguf_writer *w, const char *name, enum tensor_type type,
                    const uint64_t *dims, uint32_t dim_count, struct error *err) {
    uint32_t number = gguf_number_of(type);
    uint64_t count = 1;
    CHECK(!w->file && !w->array_left);
    if (number == UINT32_MAX || dim_count == 0 || dim_count > 4)
        return error_set(err, ERR_UNSUPPORTED,
                         "'%s': GGUF has no tensors of type %s with %u dimensions", name,
                         tensor_type_name(type), dim_count);
    add_text(&w->tensors, bytes_str(name));
    add_u32(&w->tensors, dim_count);
    for (uint32_t i = dim_count; i-- > 0;) {
        add_u64(&w->tensors, dims[i]);
        count *= dims[i];
    }
    add_u32(&w->tensors, number);
    add_u64(&w->tensors, w->data_len);
    w->tensor_count++;
    w->data_len += count / tensor_type_block(type) * tensor_type_size(type);
    w->data_len = (w->data_len + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
    return 0;
}

int gguf_write_data(struct gguf_writer *w, const void *data, size_t len, struct error *err) {
    CHECK(w->file);
    if (!len || fwrite(data, 1, len, w->file) == len)
        return 0;
    return error_set_errno(err, "cannot write '%s'", w->temporary_path);
}

int gguf_write_pad(struct gguf_writer *w, struct error *err) {
    static const char ZEROS[GGUF_ALIGNMENT];
    long at = ftell(w->file);
    size_t rest = (size_t)at % GGUF_ALIGNMENT;
    return rest ? gguf_write_data(w, ZEROS, GGUF_ALIGNMENT - rest, err) : 0;
}

int gguf_write_begin(struct gguf_writer *w, struct error *err) {
    struct buf head;
    CHECK(!w->file && !w->array_left);
    w->file = fopen(w->temporary_path, "we");
    if (!w->file)
        return error_set_errno(err, "cannot write '%s'", w->temporary_path);
    buf_init(&head, 0);
    buf_add_str(&head, "GGUF");
    add_u32(&head, 3);
    add_u64(&head, w->tensor_count);
    add_u64(&head, w->key_count);
    int rc = gguf_write_data(w, head.data, head.len, err);
    if (!rc)
        rc = gguf_write_data(w, w->keys.data, w->keys.len, err);
    if (!rc)
        rc = gguf_write_data(w, w->tensors.data, w->tensors.len, err);
    buf_release(&head);
    if (!rc)
        rc = gguf_write_pad(w, err);
    w->data_begin = ftell(w->file);
    return rc;
}

int gguf_write_end(struct gguf_writer *w, struct error *err) {
    CHECK(w->file && (uint64_t)(ftell(w->file) - w->data_begin) == w->data_len);
    bool ok = fflush(w->file) == 0 && fsync(fileno(w->file)) == 0;
    ok = fclose(w->file) == 0 && ok;
    w->file = NULL;
    if (ok && rename(w->temporary_path, w->path) == 0)
        return 0;
    error_set_errno(err, "cannot write '%s'", w->path);
    unlink(w->temporary_path);
    return err->code;
}
