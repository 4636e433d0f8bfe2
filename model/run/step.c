#include "model/run/step.h"

#include "base/log.h"

uint32_t step_bucket(uint32_t n) {
    uint32_t by = n <= 64 ? 8 : n <= 128 ? 16 : n <= 256 ? 32 : 64;
    if (n <= 2)
        return n;
    return n <= 4 ? 4 : (n + by - 1) / by * by;
}

void stepper_init(struct stepper *t, struct forward *forward, uint32_t results_max, bool graphs) {
    *t = (struct stepper){.forward = forward};
    if (!graphs || !forward->dev->calls->graph_begin)
        return;
    t->rows_max = MIN(MIN(forward->max_rows, forward->max_runs), results_max);
    t->runs = mem_calloc(t->rows_max, sizeof *t->runs);
    t->sample_rows = mem_calloc(t->rows_max, sizeof *t->sample_rows);
    for (uint32_t i = 0; i < t->rows_max; i++)
        t->sample_rows[i] = i;
}

void stepper_forget(struct stepper *t) {
    for (uint32_t i = 0; i < t->graph_count; i++)
        graph_free(&t->graphs[i].graph);
    t->graph_count = 0;
}

void stepper_release(struct stepper *t) {
    stepper_forget(t);
    mem_free(t->runs);
    mem_free(t->sample_rows);
    *t = (struct stepper){0};
}

static bool is_decode(const struct step_input *in) {
    uint32_t n = in->row_count;
    if (n == 0 || in->output_count != n || in->run_count != n || in->sample_count != n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (in->runs[i].token_count != 1 || in->runs[i].row_first != i || in->sample_rows[i] != i)
            return false;
    return true;
}

static struct step_input pad(struct stepper *t, const struct step_input *in, uint32_t rows) {
    memcpy(t->runs, in->runs, in->run_count * sizeof *t->runs);
    for (uint32_t i = in->run_count; i < rows; i++)
        t->runs[i] = (struct step_run){.slot = ROW_NONE, .row_first = i, .token_count = 1};
    return (struct step_input){.runs = t->runs,
                               .run_count = rows,
                               .row_count = rows,
                               .output_count = rows,
                               .sample_rows = t->sample_rows,
                               .sample_count = rows};
}

/* The operations of one half of the loaded step: the head and the sampler with `out`, else the
 * forward pass. */
static void put_half(struct stepper *t, struct stream *s, const struct sample_out *out) {
    if (out)
        forward_put_sample(t->forward, s, out);
    else
        forward_put_layers(t->forward, s);
}

static struct step_graph *find_graph(struct stepper *t, uint32_t rows, const void *results) {
    for (uint32_t i = 0; i < t->graph_count; i++)
        if (t->graphs[i].rows == rows && t->graphs[i].results == results)
            return &t->graphs[i];
    return NULL;
}

/* What a half leaves on the host (forward.pending) is the same after each forward pass, so a launch
 * need not set it. */
static void play_half(struct stepper *t, struct stream *s, const struct sample_out *out) {
    uint32_t rows = t->forward->batch.row_count;
    const void *results = out ? out->tokens : NULL;
    struct step_graph *g = find_graph(t, rows, results);
    if (!g && t->graph_count < STEP_GRAPHS_MAX) {
        g = &t->graphs[t->graph_count++];
        *g = (struct step_graph){.rows = rows, .results = results};
        if (graph_begin(s)) {
            put_half(t, s, out);
            g->graph = graph_end(s);
            log_debug("decode steps of %u rows: %s, %s", rows, out ? "head" : "layers",
                      g->graph ? "recorded" : "not to be recorded");
        }
    }
    if (!g || !g->graph) {
        put_half(t, s, out);
        return;
    }
    graph_launch(s, g->graph);
    t->launch_count++;
}

void stepper_put(struct stepper *t, struct stream *s, const struct step_input *in,
                 const struct sample_out *out, const struct sample_masks *masks) {
    struct forward *f = t->forward;
    if (in->row_count > t->rows_max || !is_decode(in)) {
        forward_layers(f, s, in);
        if (in->sample_count)
            forward_sample(f, s, out, masks);
        return;
    }
    struct step_input padded = pad(t, in, MIN(step_bucket(in->row_count), t->rows_max));
    forward_load(f, s, &padded);
    play_half(t, s, NULL);
    if (f->progress)
        f->progress(f->progress_ctx);
    forward_load_masks(f, s, masks, in->sample_count);
    play_half(t, s, out);
}
