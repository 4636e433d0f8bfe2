#include "gateway/generation/generation_list.h"

#include "gateway/generation/generation.h"

void generation_list_add(struct generation_list *list, struct generation *gen) {
    gen->prev = NULL;
    gen->next = list->first;
    if (gen->next)
        gen->next->prev = gen;
    list->first = gen;
}

void generation_list_remove(struct generation_list *list, struct generation *gen) {
    CHECK(gen->prev ? gen->prev->next == gen : list->first == gen);
    if (list->next == gen)
        list->next = gen->next;
    if (gen->prev)
        gen->prev->next = gen->next;
    else
        list->first = gen->next;
    if (gen->next)
        gen->next->prev = gen->prev;
}

void generation_list_each(struct generation_list *list, generation_visit *visit) {
    for (struct generation *gen = list->first, *next; gen; gen = next) {
        next = gen->next;
        visit(gen);
    }
}

void generation_list_begin(struct generation_list *list) {
    if (!list->next)
        list->next = list->first;
}

bool generation_list_go_on(struct generation_list *list, size_t most, generation_visit *visit) {
    for (size_t i = 0; i < most && list->next; i++) {
        struct generation *gen = list->next;
        list->next = gen->next;
        visit(gen);
    }
    return list->next != NULL;
}
