/*
 * labels.h - how likely tokens are that a client names: behind a prompt (/generative_scoring of vLLM,
 * /v1/score of SGLang with label_token_ids), or each behind those before it (/get_ppl of LMDeploy).
 *
 * Nothing is generated. The tokens are part of the prompt, and computed as output (submission.h), so
 * that their log-probabilities come back: of a prompt with a label its last token, of a text all but
 * its first one. A prompt is one for each item and each label; those of an item differ in the last
 * token, so that all but the first find the rest computed.
 *
 * Threading: pure, or the event thread of the generation.
 */
#ifndef GATEWAY_DIALECTS_LABELS_H
#define GATEWAY_DIALECTS_LABELS_H

#include "gateway/answers/answer.h"
#include "gateway/prompts/prepare.h"

extern const struct field_set fields_generative_scoring, fields_label_scores, fields_ppl;
/* POST /generative_scoring, of vLLM. */
MUST_CHECK int generative_scoring_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* POST /v1/score with label_token_ids, of SGLang. */
MUST_CHECK int label_scores_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* POST /get_ppl, of LMDeploy. */
MUST_CHECK int ppl_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* Whether the body of a score names labels. */
bool labels_is_body(struct bytes body);

/* Prompts that such a request becomes: as many as it has items, times labels. */
static inline uint32_t labels_prompt_count(const struct genreq *g) {
    return (g->prompt_count - 1) * (uint32_t)g->labels.ids.count;
}
/* The tokens of one of them into p->prompts[i]; those before it are there. */
MUST_CHECK int labels_prompt(const struct genreq *g, uint32_t i, const struct served_model *m,
                             struct prepared *p, struct api_error *err);

extern const struct answer_form answer_labels; /* of all three */

#endif
