/* norm_spec.h - a norm of a spec: of layers, of the ends, of queries and keys. */
#ifndef MODEL_NORM_SPEC_H
#define MODEL_NORM_SPEC_H

#include "base/base.h"

enum norm_kind { NORM_NONE = 0, NORM_RMS, NORM_LAYER };
struct norm_spec {
    enum norm_kind kind;
    bool bias, plain;         /* plain: without weights */
    float eps, weight_offset; /* (weight + offset): Gemma and Nemotron store weight - 1 */
};

#endif
