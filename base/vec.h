/*
 * vec.h - growing arrays by macro: VEC(int) is a struct {int *items; size_t count, cap;}. Growth
 * CHECKs memory.
 */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include "base/base.h"

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *items;                                                                               \
        size_t count, cap;                                                                         \
    }
#define vec_reserve(v, want)                                                                       \
    do {                                                                                           \
        size_t vec_want_ = (want);                                                                 \
        if (vec_want_ > (v)->cap) {                                                                \
            (v)->cap = MAX(vec_want_, (v)->cap * 2 + 8);                                           \
            (v)->items = mem_realloc((v)->items, (v)->cap * sizeof *(v)->items);                   \
        }                                                                                          \
    } while (0)
#define vec_push(v, item)                                                                          \
    do {                                                                                           \
        vec_reserve(v, (v)->count + 1);                                                            \
        (v)->items[(v)->count++] = (item);                                                         \
    } while (0)
#define vec_release(v)                                                                             \
    do {                                                                                           \
        mem_free((v)->items);                                                                      \
        (v)->items = NULL;                                                                         \
        (v)->count = (v)->cap = 0;                                                                 \
    } while (0)

#endif
