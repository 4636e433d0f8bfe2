/* random_rules.h - settings of the sampler with rules of kernels/sample_rules.h, for every device. */
#ifndef TESTS_UNIT_RANDOM_RULES_H
#define TESTS_UNIT_RANDOM_RULES_H

#include "check.h"
#include "kernels/ops.h"

/* Orders of llama.cpp's kind: temperature last, penalties late, few rules. */
static const uint64_t RULE_ORDERS[] = {0, 0, 0x498765321, 0x498763, 0x12876543, 0x76, 0x9348, 0x2};

static inline void random_rules(struct slot_state *s, int round) {
    struct sample_rules *r = &s->rules;
    s->temperature = 0.5f + (float)(round % 5);
    r->order = RULE_ORDERS[check_random() % ARRAY_LEN(RULE_ORDERS)];
    r->typical_p = round % 3 ? 0 : 0.1f + 0.08f * (float)(check_random() % 10);
    r->xtc_probability = round % 4 ? 0 : 0.7f;
    r->xtc_threshold = 0.01f * (float)(check_random() % 30);
    r->temperature_range = round % 5 ? 0 : 0.4f;
    r->temperature_exponent = 1 + (float)(round % 2);
    r->dry_multiplier = round % 2 ? 0 : 0.8f;
    r->dry_base = 1.75f;
    r->dry_allowed = 1 + (uint32_t)(check_random() % 2);
    r->dry_window = round % 3 ? 0 : 6;
    r->penalty_window = round % 3 ? 0 : 5;
    r->steering = (uint32_t)(check_random() % STEER_COUNT);
    r->target = r->steering == STEER_ADAPTIVE ? 0.3f : 2;
    r->rate = r->steering == STEER_ADAPTIVE ? 0.9f : 0.1f;
    r->state = r->steering ? rule_first_state(r) * (float)(check_random() % 3) : 0;
    s->top_k = round % 3 ? 0 : 1 + (uint32_t)(check_random() % 20);
    s->top_p = round % 4 == 1 ? 0.3f + 0.6f * (float)(check_random() % 100) / 100 : 1;
    s->min_p = round % 7 ? 0 : 0.05f;
    s->top_n_sigma = round % 6 == 1 ? 1.5f : 0;
    s->repetition_penalty = round % 2 ? 1 : 1.3f;
    s->frequency_penalty = round % 6 ? 0 : 0.25f;
}

#endif
