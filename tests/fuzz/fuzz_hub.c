/*
 * fuzz_hub.c - what hubs and people send: a list of files, the copy of one, a manifest, a name. All
 * are read or refused with a text; what is read keeps its promises (no path leaves its folder).
 */
#include "formats/hub/choice.h"
#include "formats/hub/hub.h"
#include "fuzz.h"

static void check_files(struct hub_listing *l, struct bytes index) {
    struct error err = {0};
    struct hub_choice choice;
    struct hub_name name;
    CHECK(!hub_name_parse(&name, "o/n", &err));
    for (size_t i = 0; i < l->files.count; i++)
        CHECK(hub_path_is_safe(bytes_str(l->files.items[i].path)));
    if (hub_choice_make(&choice, l, &name, index, &err))
        CHECK(err.text[0]);
    for (size_t i = 0; i < choice.files.count; i++)
        CHECK(hub_listing_find(l, choice.files.items[i]->path) == choice.files.items[i]);
    hub_choice_release(&choice);
}

static void read_name(struct bytes text) {
    struct hub_name name, again;
    struct error err = {0};
    struct buf spelled;
    char *given = mem_strndup((const char *)text.data, text.len);
    buf_init(&spelled, 0);
    if (hub_name_parse(&name, given, &err)) {
        CHECK(err.text[0]);
    } else {
        CHECK(hub_path_is_safe(bytes_str(name.repo)) && hub_path_is_safe(bytes_str(name.revision)));
        CHECK(!name.file[0] || hub_path_is_safe(bytes_str(name.file)));
        hub_name_add(&name, &spelled);
        CHECK(!hub_name_parse(&again, buf_text(&spelled), &err));
        CHECK(!memcmp(&name, &again, sizeof name));
    }
    buf_release(&spelled);
    mem_free(given);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct hub_listing page = {.files = {NULL, 0, 0}}, copy = {.files = {NULL, 0, 0}};
    struct ollama_manifest m;
    struct error err = {0};
    struct bytes text = bytes_of(data, size);
    if (!hub_listing_add_page(&page, text, &err) && !hub_listing_sort(&page, &err))
        check_files(&page, (struct bytes){NULL, 0});
    if (!hub_listing_read_copy(&copy, text, &err))
        check_files(&copy, text);
    if (!ollama_manifest_read(text, &m, &err))
        CHECK(m.model && m.model->size >= 0 && strlen(m.model->hash) == 64);
    read_name(text);
    hub_listing_release(&page);
    hub_listing_release(&copy);
    return 0;
}
