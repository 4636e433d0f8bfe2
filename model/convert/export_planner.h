/*
 * export_planner.h - how a plan (export.h) is made: its state, and the calls that add items to it.
 * Private to export_*.c.
 *
 * Each part of a network has a file with one entry. The entry takes those tensors that change their
 * form from one format to the other. A tensor that no part takes only gets another name
 * (export_plan.c).
 */
#ifndef MODEL_EXPORT_PLANNER_H
#define MODEL_EXPORT_PLANNER_H

#include "model/convert/export.h"
#include "model/read/gguf_names.h"

struct planner {
    struct export_plan *plan;
    const struct model *model;
    const struct export_options *o;
    const struct name_table *from, *to;
    const struct name_prefix *prefix, *to_prefix;
    bool *used;
    bool fused; /* folder: the experts of a layer share a tensor, gate above up */
    uint32_t layer;
    struct error *err;
};

/* ---- names (export_kept.c) ---- */

/* The prefix under which the files have the names of the table; NULL: under none of them. */
const struct name_prefix *export_find_prefix(const struct name_table *names,
                                             const struct safetensors *files);
/* Of a text of export_kept_text: what follows "name " on a line of its own; len 0: there is
 * none. */
struct bytes export_kept_line(const char *kept, const char *name);
/* The prefix of the folder's names; NULL: not known. */
const struct name_prefix *planner_kept_prefix(const struct planner *p);
/* TENSOR_TYPE_COUNT: not known. */
enum tensor_type planner_kept_type(const struct planner *p, const char *name);

/* ---- items (export_items.c) ---- */

/* The source's tensor of a role in the planner's layer; piece: of roles of which a layer has
 * several. NULL: none. */
const struct tensor *planner_find(const struct planner *p, enum weight_role role, uint32_t piece);
/* Whether some item has a view of this tensor of the source. */
bool planner_has_used(const struct planner *p, const struct tensor *t);
/* A new item for a role of the target with room for `views` views, whose type is still to be
 * chosen; NULL: the other format has no name for it. */
struct export_item *planner_add(struct planner *p, enum weight_role role, uint32_t piece,
                                uint32_t views);
/* A view of a tensor, which is used then, in planes of `plane_rows` rows; 0: one plane. */
struct export_view planner_view(struct planner *p, const struct tensor *t, uint32_t plane_rows);
/* planes x rows x cols; a single plane is written with two dims. */
void export_set_shape(struct export_item *item, uint32_t planes, uint32_t rows, uint32_t cols);
enum tensor_type export_matrix_type(const struct tensor *t, enum storage_type want, uint32_t cols);
/* After the views are there: the type, by that of the first. Fails where that cannot be converted
 * so. */
MUST_CHECK int planner_finish(struct planner *p, struct export_item *item, bool is_vector);
/* Tensors of the same shape, one a piece (an expert, a head), as planes of one. */
MUST_CHECK int planner_gather(struct planner *p, enum weight_role from, enum weight_role to,
                              uint32_t pieces);
/* The planes of t as tensors of their own, one a piece. */
MUST_CHECK int planner_spread(struct planner *p, const struct tensor *t, enum weight_role to,
                              uint32_t pieces);

/* ---- parts of a network ---- */

/* Experts, and gate and up that are fused or apart (export_ffn.c); *done: it was one of these. */
MUST_CHECK int planner_add_ffn(struct planner *p, enum weight_role role, const struct tensor *t,
                               bool *done);
/* Fused products and heads' norms of mixers (export_mixer.c); *done as above. */
MUST_CHECK int planner_add_mixer(struct planner *p, enum weight_role role, const struct tensor *t,
                                 bool *done);
/* The order of an item's rows or columns where the formats have heads in others. */
MUST_CHECK int planner_set_order(struct planner *p, struct export_item *item,
                                 enum weight_role role);
/* Whether a role is values of a mixer with a state that are no matrix of a product, whatever their
 * dimensions. */
bool export_is_state_value(enum weight_role role);
/* Such a value in the other format: its dimensions and what becomes of it. */
void planner_cross_state_value(const struct planner *p, struct export_item *item,
                               enum weight_role role);

#endif
