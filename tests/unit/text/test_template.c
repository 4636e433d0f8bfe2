#include "text/template/template.h"

#include "base/clock.h"
#include "check.h"
#include "golden.h"

enum { NOON = 1752148800 }; /* 2025-07-10 12:00, the clock of the goldens */

/* Renders; the result in out, or the error's text behind "error: ". */
static int render(struct bytes source, struct tvalue vars, struct buf *out) {
    struct template *t;
    struct error err;
    struct template_limits limits = {.now_s = NOON};
    buf_reset(out);
    int rc = template_parse(source, &t, &err);
    if (!rc)
        rc = template_render(t, vars, &limits, out, &err);
    template_free(&t);
    if (rc)
        buf_addf(out, "error: %s", err.text);
    return rc;
}

/* True when rendering gives `want`, or an error where want is no string. */
static bool check_case(const char *name, struct bytes source, struct tvalue vars,
                       struct tvalue want) {
    struct buf out = {0};
    bool ok = (render(source, vars, &out) != 0) == (want.kind != TVALUE_STRING);
    if (ok && want.kind == TVALUE_STRING)
        ok = golden_equal(tvalue_text(want), &out);
    if (!ok)
        check_fail(__FILE__, __LINE__, "%s: got '%.300s', want '%.300s'", name, buf_text(&out),
                   want.kind == TVALUE_STRING ? want.text : "(error)");
    buf_release(&out);
    return ok;
}

/* tests/goldens/text/templates.json: made by jinja2 (make_text_goldens.py). */
TEST(goldens_of_our_own) {
    struct arena a;
    struct buf json = golden_read_source("tests/goldens/text/templates.json");
    arena_init(&a, 0, 0);
    struct tvalue cases = golden_parse(&a, buf_bytes(&json));
    EXPECT(tvalue_count(cases) > 180);
    for (size_t i = 0; i < tvalue_count(cases); i++) {
        struct tvalue c = tvalue_list_at(cases, i), source = golden_member(c, "template");
        struct buf name = {0};
        buf_addf(&name, "template %zu '%.*s'", i, (int)MIN(source.len, 100u), source.text);
        check_case(buf_text(&name), tvalue_text(source), golden_member(c, "vars"),
                   golden_member(c, "text"));
        buf_release(&name);
    }
    arena_release(&a);
    buf_release(&json);
}

/* ---- shared goldens ---- */

static struct buf read_shared(const char *dir, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "chat_templates/%s%s", dir, name);
    return golden_read(check_shared(path));
}

TEST(goldens_rendered_from_real_templates) {
    struct arena a;
    size_t seen = 0;
    if (!check_shared("chat_templates/goldens/contexts.json"))
        SKIP("shared", "no chat templates");
    arena_init(&a, 0, 0);
    struct buf contexts_json = read_shared("goldens/", "contexts.json"),
               lines = read_shared("goldens/", "rendered_jinja2.jsonl");
    struct tvalue contexts = golden_parse(&a, buf_bytes(&contexts_json));
    for (char *line = lines.data, *end; line && *line; line = end ? end + 1 : NULL) {
        end = strchr(line, '\n');
        size_t len = end ? (size_t)(end - line) : strlen(line);
        if (!len)
            continue;
        struct tvalue g = golden_parse(&a, bytes_of(line, len));
        char name[300];
        snprintf(name, sizeof name, "%.*s", (int)golden_member(g, "template").len,
                 golden_member(g, "template").text);
        struct buf source = read_shared("", name);
        struct tvalue context = golden_member(g, "context"),
                      compile = golden_member(g, "compile_error");
        struct tvalue vars = context.kind == TVALUE_STRING
                                 ? tvalue_dict_get(contexts, tvalue_text(context))
                                 : golden_member(contexts, "simple");
        EXPECT(vars.kind == TVALUE_DICT || compile.kind == TVALUE_STRING);
        /* a template may shorten lists of its context (list.pop), so each render gets its own */
        struct buf copy = {0};
        tvalue_to_json(vars, &copy);
        struct buf out = {0};
        if (compile.kind == TVALUE_STRING) /* recorded without HF's generation tag, which we have */
            EXPECT(strstr(compile.text, "'generation'") &&
                   !render(buf_bytes(&source), golden_parse(&a, buf_bytes(&copy)), &out));
        else
            check_case(name, buf_bytes(&source), golden_parse(&a, buf_bytes(&copy)),
                       golden_member(g, "output"));
        buf_release(&out);
        buf_release(&copy);
        buf_release(&source);
        seen++;
    }
    EXPECT(seen > 400);
    arena_release(&a);
    buf_release(&contexts_json);
    buf_release(&lines);
}

/* Cases whose expectation is another engine's are checked against what jinja2 gives:
 * tests/goldens/text/units.json. */
static void run_cases(const char *file, const char *list) {
    struct arena a;
    if (!check_shared("chat_templates/goldens/contexts.json"))
        SKIP("shared", "no chat templates");
    arena_init(&a, 0, 0);
    struct buf json = read_shared("goldens/", file),
               ours_json = golden_read_source("tests/goldens/text/units.json");
    struct tvalue ours = golden_parse(&a, buf_bytes(&ours_json)),
                  cases = golden_parse(&a, buf_bytes(&json));
    if (list)
        cases = golden_member(cases, list);
    EXPECT(tvalue_count(cases) > 30);
    for (size_t i = 0; i < tvalue_count(cases); i++) {
        struct tvalue c = tvalue_list_at(cases, i), name = golden_member(c, "name"),
                      agrees = golden_member(c, "jinja2_agrees");
        struct tvalue other = tvalue_dict_get(ours, tvalue_text(name)),
                      want = golden_member(c, "expected");
        if (other.kind == TVALUE_DICT)
            want = golden_member(other, "text");
        EXPECT(other.kind == TVALUE_DICT || agrees.boolean);
        char text[200];
        snprintf(text, sizeof text, "%.*s", (int)MIN(name.len, 150u), name.text);
        check_case(text, tvalue_text(golden_member(c, "template")), golden_member(c, "vars"), want);
    }
    arena_release(&a);
    buf_release(&json);
    buf_release(&ours_json);
}

TEST(goldens_hf_end_to_end) {
    run_cases("hf_jinja_e2e.json", "cases");
}
TEST(goldens_hf_units) {
    run_cases("hf_jinja_units.json", NULL);
}
TEST(goldens_llama_cpp_units) {
    run_cases("llama.cpp_jinja_cases.json", NULL);
}

TEST(goldens_llama_cpp_templates) {
    struct arena a;
    if (!check_shared("chat_templates/goldens/contexts.json"))
        SKIP("shared", "no chat templates");
    arena_init(&a, 0, 0);
    struct buf json = read_shared("goldens/", "llama.cpp_chat_template_cases.json");
    struct tvalue all = golden_parse(&a, buf_bytes(&json)), cases = golden_member(all, "cases");
    EXPECT(tvalue_count(cases) > 30);
    for (size_t i = 0; i < tvalue_count(cases); i++) {
        struct tvalue c = tvalue_list_at(cases, i), vars = tvalue_dict(&a),
                      name = golden_member(c, "name");
        static const char *const NAMES[] = {"messages", "add_generation_prompt", "bos_token",
                                            "eos_token"};
        for (size_t k = 0; k < ARRAY_LEN(NAMES); k++) {
            struct tvalue v = golden_member(k < 2 ? all : c, NAMES[k]);
            EXPECT(tvalue_dict_set(&a, vars, bytes_str(NAMES[k]),
                                   v.kind ? v : tvalue_string(bytes_str(""))));
        }
        char text[200];
        snprintf(text, sizeof text, "%.*s", (int)MIN(name.len, 150u), name.text);
        check_case(text, tvalue_text(golden_member(c, "template")), vars,
                   golden_member(c, "jinja2_3.1.2_output"));
    }
    arena_release(&a);
    buf_release(&json);
}

/* ---- bounds ---- */

static void repeat(struct buf *out, const char *s, size_t n) {
    while (n--)
        buf_add_str(out, s);
}

/* open x n, middle, close x n. Returns template_parse's code. */
static int parse_nested(const char *before, const char *open, const char *middle, const char *close,
                        const char *after, size_t n) {
    struct buf source = {0};
    struct template *t;
    struct error err;
    buf_add_str(&source, before);
    repeat(&source, open, n);
    buf_add_str(&source, middle);
    repeat(&source, close, n);
    buf_add_str(&source, after);
    int rc = template_parse(buf_bytes(&source), &t, &err);
    template_free(&t);
    buf_release(&source);
    return rc;
}

TEST(nesting_is_bounded) {
    static const size_t COUNTS[] = {TEMPLATE_DEPTH_MAX + 1, 6000, 100000};
    EXPECT_EQ(parse_nested("{{ ", "(", "1", ")", " }}", 20), 0);
    EXPECT_EQ(parse_nested("", "{% if x %}", "", "{% endif %}", "", 40), 0);
    for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++) {
        size_t n = COUNTS[i];
        EXPECT_EQ(parse_nested("{{ ", "(", "1", ")", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{{ ", "[", "1", "]", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{{ ", "{1:", "1", "}", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{{ ", "-", "1", "", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{{ ", "not ", "1", "", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{{ ", "f(", "1", ")", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{{ ", "x[", "1", "]", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{{ 1", "|d(1", "", ")", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{{ ", "1 if 1 else ", "1", "", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("", "{% if x %}", "", "{% endif %}", "", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("", "{% for x in y %}", "", "{% endfor %}", "", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{% set ", "(", "x", ")", " = 1 %}", n), ERR_LIMIT);
    }
    for (size_t i = 1; i < ARRAY_LEN(COUNTS); i++) { /* chains: evaluation recurses along them */
        size_t n = COUNTS[i];
        EXPECT_EQ(parse_nested("{{ x", ".a", "", "", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{{ x", "|trim", "", "", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{{ x", "()", "", "", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{{ x", " - 1", "", "", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{{ x", " and y", "", "", " }}", n), ERR_LIMIT);
        EXPECT_EQ(parse_nested("{{ x", " < 1", "", "", " }}", n), ERR_LIMIT);
    }
    EXPECT_EQ(parse_nested("{{ x", " + 'abc'", "", "", " }}", 6000), 0); /* sums are flat */
}

static int run_limited(const char *source, const struct template_limits *limits,
                       struct error *err) {
    struct template *t;
    struct buf out = {0};
    buf_add_str(&out, "kept");
    int rc = template_parse(bytes_str(source), &t, err);
    if (!rc)
        rc = template_render(t, tvalue_none(), limits, &out, err);
    /* what was there before must stay, alone */
    if (rc && strcmp(buf_text(&out), "kept") != 0)
        rc = 1;
    template_free(&t);
    buf_release(&out);
    return rc;
}

TEST(rendering_is_bounded) {
    static const char *const ENDLESS[] = {
        /* without fuel it would end all the same, so that this can fail */
        "{% for i in range(3000) %}{% for j in range(3000) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s "
        "+ ns.s %}{% endfor "
        "%}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% "
        "endfor %}",
        "{{ 'a' * 10000000000 }}",
        "{{ [1] * 10000000000 }}",
        "{{ 'a'.ljust(10000000000) }}",
        "{{ 'a'|center(10000000000) }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m('aaaaaaaa') }}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% for i in range(100000) %}{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' "
        "* 1000 }}{% endfor %}",
        "{{ range(100000)|map('string')|join('a' * 100000) }}",
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
        "{{ 2 ** 200 }}",
        "{{ 2 ** 126 * 4 }}",
        "{{ 'a'.zfill(10000000000) }}",
        "{{ ('a' * 1000000)|replace('', 'b' * 1000000) }}",
        "{{ range(100000)|batch(1)|list|tojson(indent=4000) }}"};
    struct template_limits limits = {
        .fuel = 5000000, .output_bytes = 1 << 20, .memory_bytes = 32 << 20};
    for (size_t i = 0; i < ARRAY_LEN(ENDLESS); i++) {
        struct error err = {0};
        int64_t start = clock_ms();
        int rc = run_limited(ENDLESS[i], &limits, &err);
        if (rc != ERR_LIMIT)
            check_fail(__FILE__, __LINE__, "%.80s gives %d (%s)", ENDLESS[i], rc, err.text);
        if (clock_ms() - start > 20000)
            check_fail(__FILE__, __LINE__, "%.80s takes %lld ms", ENDLESS[i],
                       (long long)(clock_ms() - start));
    }
}

/* What reads a long string or list and makes nothing of it has its price, too: here a thousand times. */
TEST(reading_is_bounded) {
    static const char *const READS[] = {"1", /* which has none */
                                        "s|length",
                                        "s.startswith('a')",
                                        "s.endswith('a')",
                                        "s.count('aab')",
                                        "s.find('aab')",
                                        "s.isalpha()",
                                        "s.isdigit()",
                                        "s.isalnum()",
                                        "s.isnumeric()",
                                        "s.isupper()",
                                        "s.islower()",
                                        "s.istitle()",
                                        "s.isspace()",
                                        "s.isascii()",
                                        "s.isprintable()",
                                        "s.isidentifier()",
                                        "s is upper",
                                        "s is lower",
                                        "s[19999]",
                                        "s == u",
                                        "[s] == [u]",
                                        "s < u",
                                        "[s] < [u]",
                                        "'b' in s",
                                        "s in {'a': 1}",
                                        "{s: 1}",
                                        "{'a': 1}[s]",
                                        "{'a': 1}.get(s)",
                                        "w.strip()",
                                        "w.lstrip()",
                                        "w|trim",
                                        "l == k",
                                        "l < k",
                                        "-1 in l",
                                        "l|sum",
                                        "l|max",
                                        "s|int",
                                        "s|float",
                                        "s is eq(u)",
                                        "s|striptags"};
    struct template_limits limits = {.fuel = 200000};
    for (size_t i = 0; i < ARRAY_LEN(READS); i++) {
        struct error err = {0};
        char text[512];
        snprintf(text, sizeof text,
                 "{%% set s = 'a' * 20000 %%}{%% set u = 'a' * 20000 %%}{%% set w = ' ' * 20000 %%}"
                 "{%% set l = [0] * 20000 %%}{%% set k = [0] * 20000 %%}"
                 "{%% for i in range(1000) %%}{%% set x = %s %%}{%% endfor %%}",
                 READS[i]);
        int rc = run_limited(text, &limits, &err);
        if (rc != (i ? ERR_LIMIT : 0))
            check_fail(__FILE__, __LINE__, "%s gives %d (%s)", READS[i], rc, err.text);
    }
}

/* No tag ends: none is sought from each '<' on. */
TEST(tags_that_do_not_end_take_no_quadratic_time) {
    struct template_limits limits = {0};
    struct error err = {0};
    EXPECT_EQ(run_limited("{{ ('<' * 4000000)|striptags|length }}", &limits, &err), 0);
}

TEST(source_is_bounded_and_checked) {
    struct buf large = {0};
    struct template *t;
    struct error err;
    repeat(&large, "aaaaaaaaaaaaaaaa", TEMPLATE_SOURCE_MAX / 16 + 1);
    EXPECT_EQ(template_parse(buf_bytes(&large), &t, &err), ERR_LIMIT);
    EXPECT(!t);
    EXPECT_EQ(template_parse(bytes_of("a\xFF", 2), &t, &err), ERR_INVALID);
    buf_release(&large);
}

TEST(a_sandbox_has_no_way_out) {
    static const char *const SOURCES[] = {"{{ ''.__class__.__mro__ }}",
                                          "{{ x.__init__.__globals__ }}",
                                          "{{ [].append(1) }}",
                                          "{{ range.__self__.x }}",
                                          "{% include '/etc/passwd' %}",
                                          "{% import 'os' as os %}",
                                          "{{ self._TemplateReference__context.x }}",
                                          "{{ cycler.__init__.__globals__.os }}",
                                          "{{ lipsum.__globals__.os }}",
                                          "{{ ''|attr('__class__')|attr('__mro__') }}"};
    for (size_t i = 0; i < ARRAY_LEN(SOURCES); i++) {
        struct buf out = {0};
        if (!render(bytes_str(SOURCES[i]), tvalue_none(), &out))
            check_fail(__FILE__, __LINE__, "%s gives '%s'", SOURCES[i], buf_text(&out));
        buf_release(&out);
    }
}

TEST(what_is_left_out_is_refused_by_name) {
    static const struct {
        const char *source, *error;
    } ROWS[] = {{"{{ 5|filesizeformat }}", "no filter or test named 'filesizeformat'"},
                {"{{ 'a b'|wordwrap(2) }}", "no filter or test named 'wordwrap'"},
                {"{{ {}|xmlattr }}", "no filter or test named 'xmlattr'"},
                {"{{ 'a'|urlize }}", "no filter or test named 'urlize'"},
                {"{{ lipsum() }}", "'lipsum' is undefined"},
                {"{{ x[:, 1] }}", "a slice in a tuple"},
                {"{{ x[1, 2, 1:2] }}", "a slice in a tuple"},
                {"{{ (5).bit_count() }}", "has no attribute 'bit_count'"},
                {"{{ 9223372036854775807 + 1 }}", "64 bits"},
                {"{{ 0 - 9223372036854775807 - 2 }}", "64 bits"},
                {"{{ 4294967296 * 4294967296 }}", "64 bits"},
                {"{{ 2 ** 64 }}", "64 bits"},
                {"{{ (-9223372036854775807 - 1) // -1 }}", "64 bits"},
                {"{{ 123456789012345678901234567890 + 1 }}", "64 bits"},
                {"{{ -123456789012345678901234567890 }}", "64 bits"},
                {"{{ 1e20|int }}", "64 bits"}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct buf out = {0};
        if (!render(bytes_str(ROWS[i].source), tvalue_none(), &out) ||
            !strstr(buf_text(&out), ROWS[i].error))
            check_fail(__FILE__, __LINE__, "%s: '%s'", ROWS[i].source, buf_text(&out));
        buf_release(&out);
    }
}

TEST(parts_are_wanted_where_content_is_looped_over) {
    static const struct {
        const char *source;
        bool wants;
    } CASES[] = {
        {"{% for m in messages %}{{ m.content }}{% endfor %}", false},
        {"{% for m in messages %}{% for p in m['content'] %}{{ p.text }}{% endfor %}{% endfor %}",
         true},
        {"{% for m in messages %}{% for p in m.content | selectattr('type', 'eq', 'text') %}{{ "
         "p.text }}{% "
         "endfor %}{% endfor %}",
         true},
        {"{% macro r(content) %}{% for p in content %}{{ p }}{% endfor %}{% endmacro %}", true}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct template *t;
        EXPECT_EQ(template_parse(bytes_str(CASES[i].source), &t, NULL), 0);
        EXPECT_EQ(template_wants_content_parts(t), CASES[i].wants);
        template_free(&t);
    }
}
