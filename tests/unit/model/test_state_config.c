/* What a config says of states that go from position to position: values, their edges, and what is refused. */
#include <math.h>
#include <stdio.h>

#include "check.h"
#include "model/spec.h"

static struct model_spec spec;
static struct error err;

/* A model of four layers; `fields` may be any more. */
static int make(const char *type, uint32_t hidden, const char *fields) {
    char text[600];
    spec_release(&spec);
    err = (struct error){0};
    snprintf(text, sizeof text,
             "{\"model_type\":\"%s\",\"vocab_size\":100,\"hidden_size\":%u,\"num_hidden_layers\":4,"
             "\"num_attention_heads\":8%s%s}",
             type, hidden, *fields ? "," : "", fields);
    return spec_read_text(&spec, bytes_str(text), NULL, &err);
}

static const struct recurrent_spec *state(void) {
    return &spec.layers[0].recurrent;
}

TEST(fields_of_states_are_within_bounds) {
    static const struct {
        const char *type, *fields, *why; /* NULL: it is taken */
    } ROWS[] = {
        {"mamba", "\"intermediate_size\":96,\"expand\":0.015625", NULL},
        {"mamba", "\"intermediate_size\":96,\"expand\":0.015", "'expand'"},
        {"mamba", "\"intermediate_size\":96,\"expand\":1e9", "'expand'"},
        {"mamba", "\"intermediate_size\":96,\"hidden_act\":\"swish\"", NULL},
        {"mamba", "\"intermediate_size\":96,\"hidden_act\":\"gelu\"", "'hidden_act'"},
        {"mamba2", "\"expand\":128", NULL},
        {"mamba2", "\"expand\":127", "'expand' times 'hidden_size'"},
        {"mamba2", "\"expand\":128,\"n_groups\":7", "do not fit"},
        {"mamba2", "\"expand\":128,\"n_groups\":128", NULL},
        {"mamba2", "\"expand\":128,\"time_step_limit\":[0.1,2]", NULL},
        {"mamba2", "\"expand\":128,\"time_step_limit\":[0.1]", "'time_step_limit'"},
        {"mamba2", "\"expand\":128,\"time_step_limit\":0.1", "'time_step_limit'"},
        {"mamba2", "\"expand\":128,\"time_step_limit\":[\"x\",1]", "'time_step_limit'"},
        {"mamba2", "\"expand\":128,\"time_step_limit\":[0,{\"__float__\":\"NaN\"}]",
         "'time_step_limit'"},
        {"qwen3_next", "\"intermediate_size\":96,\"linear_num_key_heads\":32", NULL},
        {"qwen3_next", "\"intermediate_size\":96,\"linear_num_key_heads\":15", "does not divide"},
        {"recurrent_gemma", "\"intermediate_size\":96,\"lru_width\":72", NULL},
        {"recurrent_gemma", "\"intermediate_size\":96,\"lru_width\":60", "is no multiple"},
        {"rwkv6", "\"head_size\":32", NULL},
        {"rwkv6", "\"head_size\":48", "a width of 64 in heads of 48"},
        {"rwkv6", "\"head_size_divisor\":0", "'head_size_divisor'"},
        {"rwkv7", "\"hidden_ratio\":-1", "'hidden_ratio'"},
        {"rwkv7", "\"hidden_ratio\":1e9", "'hidden_ratio'"},
        {"rwkv7", "\"value_dim\":64", NULL},
        {"rwkv7", "\"value_dim\":32", "'value_dim'"},
        {"rwkv7", "\"value_dim\":[64,64,64,64]", NULL},
        {"rwkv7", "\"value_dim\":[32,64,64,64]", "'value_dim'"},
        {"rwkv7", "\"value_dim\":[64,64,64,32]", "'value_dim'"},
        {"rwkv7", "\"head_dim\":48", "a width of 64 in heads of 48"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        int rc = make(ROWS[i].type, 64, ROWS[i].fields);
        if ((rc != 0) != (ROWS[i].why != NULL) || (rc && !strstr(err.text, ROWS[i].why)))
            check_fail(__FILE__, __LINE__, "%s %s: %d '%s'", ROWS[i].type, ROWS[i].fields, rc,
                       rc ? err.text : "");
    }
    spec_release(&spec);
}

TEST(steps_of_mamba_are_limited_as_the_file_says) {
    static const struct {
        const char *fields;
        float low, high;
    } ROWS[] = {
        {"\"expand\":128", 0, INFINITY},
        {"\"expand\":128,\"time_step_limit\":[0.25,2]", 0.25f, 2},
        {"\"expand\":128,\"time_step_limit\":[0.5,\"Infinity\"]", 0.5f, INFINITY},
        {"\"expand\":128,\"time_step_limit\":[0.0, Infinity]", 0, INFINITY},
        {"\"expand\":128,\"time_step_limit\":[0,{\"__float__\":\"Infinity\"}]", 0, INFINITY},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        EXPECT_EQ(make("mamba2", 64, ROWS[i].fields), 0);
        EXPECT(state()->ssm.step_low == ROWS[i].low && state()->ssm.step_high == ROWS[i].high);
    }
    spec_release(&spec);
}

TEST(ranks_of_mamba_are_a_sixteenth_rounded_up_or_what_is_said) {
    static const struct {
        uint32_t hidden;
        const char *fields;
        uint32_t rank;
    } ROWS[] = {{48, "", 3},
                {49, "", 4},
                {64, "", 4},
                {65, "", 5},
                {65, ",\"time_step_rank\":\"auto\"", 5},
                {65, ",\"time_step_rank\":7", 7}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        char fields[100];
        snprintf(fields, sizeof fields, "\"intermediate_size\":96%s", ROWS[i].fields);
        EXPECT_EQ(make("mamba", ROWS[i].hidden, fields), 0);
        EXPECT_EQ(state()->mamba1.rank, ROWS[i].rank);
    }
    spec_release(&spec);
}

TEST(heads_of_recurrences_divide_their_width) {
    EXPECT_EQ(make("recurrent_gemma", 64, "\"intermediate_size\":96,\"lru_width\":72"), 0);
    EXPECT(state()->width == 72 && state()->heads == 8 && state()->head_dim == 9);
    EXPECT_EQ(make("rwkv6", 64, "\"head_size\":32,\"attention_hidden_size\":128"), 0);
    EXPECT(state()->width == 128 && state()->heads == 4 && state()->head_dim == 32);
    EXPECT_EQ(make("rwkv", 64, "\"attention_hidden_size\":96"), 0);
    EXPECT_EQ(state()->width, 96);
    EXPECT(state()->rwkv.mix_present && state()->rwkv.receptance);
    EXPECT_EQ(make("rwkv7", 64, "\"num_heads\":2,\"norm_eps\":1e-5"), 0);
    EXPECT(state()->heads == 2 && state()->head_dim == 32);
    EXPECT(fabsf(state()->eps - 3.2e-4f) < 1e-9f); /* once a channel of a head */
    EXPECT(spec.layers[0].recurrent.rwkv7.first && !spec.layers[1].recurrent.rwkv7.first);
    EXPECT_EQ(make("rwkv7", 64, "\"head_dim\":16"), 0);
    EXPECT(state()->heads == 4 && state()->head_dim == 16);
    EXPECT_EQ(make("lfm2", 64,
                   "\"intermediate_size\":96,\"conv_L_cache\":5,\"conv_bias\":true,"
                   "\"layer_types\":[\"conv\",\"conv\",\"conv\",\"conv\"]"),
              0);
    EXPECT(state()->taps == 5 && state()->conv_bias && state()->in_bias && state()->out_bias);
    spec_release(&spec);
}

TEST(ranks_and_norms_of_rwkv_are_the_classes) {
    EXPECT_EQ(make("rwkv6", 64, ""), 0);
    EXPECT(state()->rwkv6.mix_rank == 32 && state()->rwkv6.decay_rank == 64);
    EXPECT(fabsf(state()->eps - 6.4e-4f) < 1e-9f);
    EXPECT_EQ(make("rwkv6", 4096, "\"head_size_divisor\":2"), 0);
    EXPECT(state()->rwkv6.mix_rank == 64 && state()->rwkv6.decay_rank == 128);
    EXPECT(fabsf(state()->eps - 4e-5f) < 1e-9f);
    spec_release(&spec);
}

/* Where the file says no width: a multiple of the hidden size, and of 32. */
TEST(feed_forwards_of_rwkv_have_a_usual_width) {
    static const struct {
        const char *type;
        uint32_t hidden;
        const char *fields;
        uint32_t width;
    } ROWS[] = {
        {"rwkv", 80, "", 320},
        {"rwkv", 80, "\"intermediate_size\":96", 96},
        {"rwkv6", 80, "\"head_size\":8", 256}, /* 280, rounded down */
        {"rwkv6", 64, "", 224},
        {"rwkv7", 72, "\"head_dim\":8", 288},
        {"rwkv7", 72, "\"head_dim\":8,\"hidden_ratio\":3.3", 256}, /* 237, rounded up */
        {"rwkv7", 72, "\"head_dim\":8,\"hidden_ratio\":0.5", 64},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        if (make(ROWS[i].type, ROWS[i].hidden, ROWS[i].fields))
            check_fail(__FILE__, __LINE__, "row %zu: %s", i, err.text);
        else
            EXPECT_EQ(spec.layers[0].ffn.width, ROWS[i].width);
    }
    spec_release(&spec);
}
