/*
 * unread.h - what becomes of the fields of a config that no reader asked for.
 *
 * Fine-tuning tools, quantizers and other libraries leave fields behind by the dozen. So a field that
 * nobody reads is passed over and named, once, in a list for a person, unless passing it over could
 * change what the model computes:
 *   (1) a field whose name, or whose object's name, has a word of the mathematics we know (MATHEMATICS
 *       in unread.c), with a value that is not the one that changes nothing, is refused by name;
 *   (2) in a strict reading every one is.
 * What changes nothing at inference by its name (formats/config_known.c) or asks for nothing (null,
 * false, empty) is not even listed.
 */
#ifndef MODEL_UNREAD_H
#define MODEL_UNREAD_H

#include "base/buf.h"
#include "model/spec.h"

/* Appends the names passed over to `list`, as "a, b" (a nested one as "object.a"). Returns 0, the
 * first error that readers left in the config, or ERR_UNSUPPORTED with the name of a refused field.
 * o: NULL for the usual reading. */
MUST_CHECK int unread_check(struct config *c, const struct spec_options *o, struct buf *list,
                            struct error *err);

#endif
