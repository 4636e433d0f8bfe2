#include "cli/bench/plot.h"

#include "base/vec.h"
#include "cli/bench/stats.h"
#include "formats/json_document.h"

enum {
    PANEL_WIDTH = 420,
    PANEL_HEIGHT = 260,
    LEFT = 50, /* of a panel's frame */
    TOP = 60,
    GAP = 70, /* between two panels */
    POINTS = 200,
    STEPS = 4 /* of an axis */
};

typedef VEC(double) values;

static const struct {
    const char *key, *title;
} PANELS[] = {{"ttfts", "time to first token (ms)"}, {"itls", "time between pieces (ms)"}};
enum { PANEL_COUNT = ARRAY_LEN(PANELS) };

static const char *const COLOURS[BENCH_PLOT_REPORTS_MAX] = {"#1f6fb4", "#d1571b", "#2b8a3e",
                                                            "#7b4fa3"};

/* All numbers, also those of arrays within it, in milliseconds; what failed is null. */
static void gather(const cJSON *seconds, values *out) {
    const cJSON *one;
    cJSON_ArrayForEach(one, seconds) {
        if (cJSON_IsArray(one))
            gather(one, out);
        else if (cJSON_IsNumber(one) && one->valuedouble >= 0)
            vec_push(out, one->valuedouble * 1000);
    }
}

static int read_report(const struct bench_report_file *report, values of[PANEL_COUNT],
                       struct error *err) {
    cJSON *document;
    int rc = bench_report_parse(report, &document, err);
    if (rc)
        return rc;
    for (size_t p = 0; p < PANEL_COUNT; p++) {
        gather(cJSON_GetObjectItemCaseSensitive(document, PANELS[p].key), &of[p]);
        bench_sort(of[p].items, of[p].count);
    }
    cJSON_Delete(document);
    return of[0].count
               ? 0
               : error_set(err, ERR_INVALID,
                           "'%s' does not tell of each request; --save-detailed writes that",
                           report->name);
}

static void add_text(struct buf *out, const char *text) {
    for (; *text; text++) {
        if (strchr("<>&\"'", *text))
            buf_addf(out, "&#%d;", *text);
        else
            buf_add_byte(out, (unsigned char)*text < ' ' ? '?' : *text);
    }
}

static double panel_left(size_t panel) {
    return LEFT + (double)panel * (PANEL_WIDTH + GAP);
}

/* 1, 2 or 5 times a power of ten, at least `value`. */
static double round_up(double value) {
    static const double STEPS_OF_TEN[] = {1, 2, 5, 10};
    double power = 0.001;
    while (power * 10 < value)
        power *= 10;
    for (size_t i = 0; i < ARRAY_LEN(STEPS_OF_TEN); i++)
        if (power * STEPS_OF_TEN[i] >= value)
            return power * STEPS_OF_TEN[i];
    return power * 10;
}

static void add_frame(struct buf *out, size_t panel, double most) {
    double left = panel_left(panel);
    buf_addf(out, "<text x=\"%g\" y=\"%d\">%s</text>\n", left, TOP - 12, PANELS[panel].title);
    for (int i = 0; i <= STEPS; i++) {
        double x = left + (double)PANEL_WIDTH * i / STEPS;
        double y = TOP + PANEL_HEIGHT - (double)PANEL_HEIGHT * i / STEPS;
        buf_addf(out,
                 "<path d=\"M%g %dV%dM%g %gH%g\" stroke=\"#ddd\" fill=\"none\"/>\n"
                 "<text x=\"%g\" y=\"%d\" text-anchor=\"middle\">%g</text>\n"
                 "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%d%%</text>\n",
                 x, TOP, TOP + PANEL_HEIGHT, left, y, left + PANEL_WIDTH, x,
                 TOP + PANEL_HEIGHT + 18, most * i / STEPS, left - 6, y + 4, 100 * i / STEPS);
    }
}

/* From the least value at 0 to the greatest at 100 %; values are sorted. */
static void add_curve(struct buf *out, size_t panel, const values *v, double most,
                      const char *colour) {
    if (!v->count)
        return;
    buf_addf(out, "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" points=\"", colour);
    for (size_t i = 0; i <= POINTS; i++) {
        size_t at = (v->count - 1) * i / POINTS;
        buf_addf(out, "%s%.1f,%.1f", i ? " " : "",
                 panel_left(panel) + v->items[at] / most * PANEL_WIDTH,
                 TOP + PANEL_HEIGHT - (double)PANEL_HEIGHT * (double)i / POINTS);
    }
    buf_add_str(out, "\"/>\n");
}

static void draw(struct buf *out, const struct bench_report_file *reports, size_t count,
                 values of[][PANEL_COUNT]) {
    buf_addf(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
             "font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
             LEFT + 2 * PANEL_WIDTH + GAP + 30, TOP + PANEL_HEIGHT + 40);
    for (size_t i = 0; i < count; i++) {
        buf_addf(out, "<text x=\"%g\" y=\"20\" fill=\"%s\">",
                 LEFT + (double)i * (2 * PANEL_WIDTH + GAP) / BENCH_PLOT_REPORTS_MAX, COLOURS[i]);
        add_text(out, reports[i].name);
        buf_add_str(out, "</text>\n");
    }
    for (size_t panel = 0; panel < PANEL_COUNT; panel++) {
        double most = 0;
        for (size_t i = 0; i < count; i++)
            if (of[i][panel].count)
                most = MAX(most, of[i][panel].items[of[i][panel].count - 1]);
        most = round_up(most);
        add_frame(out, panel, most);
        for (size_t i = 0; i < count; i++)
            add_curve(out, panel, &of[i][panel], most, COLOURS[i]);
    }
    buf_add_str(out, "</svg>\n");
}

int bench_plot(struct buf *out, const struct bench_report_file *reports, size_t count,
               struct error *err) {
    values of[BENCH_PLOT_REPORTS_MAX][PANEL_COUNT] = {0};
    int rc = 0;
    CHECK(count && count <= BENCH_PLOT_REPORTS_MAX);
    for (size_t i = 0; i < count && !rc; i++)
        rc = read_report(&reports[i], of[i], err);
    if (!rc)
        draw(out, reports, count, of);
    for (size_t i = 0; i < count; i++)
        for (size_t panel = 0; panel < PANEL_COUNT; panel++)
            vec_release(&of[i][panel]);
    return rc;
}
