/*
 * list.h - doubly linked lists through links inside of their items: O(1) in and out, no allocation.
 *
 * An item that is on no list has a link of zeros. A list head is a link to itself; list_init makes
 * one.
 */
#ifndef SCHEDULER_CORE_LIST_H
#define SCHEDULER_CORE_LIST_H

#include "base/base.h"

struct list_node {
    struct list_node *prev, *next;
};

static inline void list_init(struct list_node *list) {
    list->prev = list->next = list;
}
static inline bool list_is_empty(const struct list_node *list) {
    return list->next == list;
}
static inline bool list_node_is_linked(const struct list_node *item) {
    return item->next != NULL;
}

static inline void list_insert(struct list_node *before, struct list_node *item) {
    CHECK(!item->next);
    item->prev = before->prev;
    item->next = before;
    before->prev->next = item;
    before->prev = item;
}
static inline void list_push(struct list_node *list, struct list_node *item) {
    list_insert(list, item);
}
static inline void list_push_front(struct list_node *list, struct list_node *item) {
    list_insert(list->next, item);
}

/* Nothing happens to an item that is on no list. */
static inline void list_remove(struct list_node *item) {
    if (!item->next)
        return;
    item->prev->next = item->next;
    item->next->prev = item->prev;
    item->prev = item->next = NULL;
}

#define LIST_ITEM(link_ptr, type, field)                                                           \
    ((type *)(void *)((char *)(link_ptr)-offsetof(type, field)))
/* The body may remove `at`'s item, not the next one. */
#define LIST_EACH(at, list)                                                                        \
    for (struct list_node *at = (list)->next, *at##_next_ = at->next; at != (list);                \
         at = at##_next_, at##_next_ = at->next)

#endif
