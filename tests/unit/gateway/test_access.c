/* Who may ask: keys, pages of other origins, names of hosts. */
#include "world.h"

TEST(keys_guard_what_is_not_health) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.api_key = "secret";
    EXPECT(world_start(&w));
    static const struct {
        const char *path;
        int status;
    } without[] = {{"/v1/models", 401}, {"/metrics", 401},     {"/version", 401},
                   {"/health", 200},    {"/health/live", 200}, {"/health/ready", 200},
                   {"/v1/nothing", 404}};
    for (size_t i = 0; i < ARRAY_LEN(without); i++)
        EXPECT_EQ(client_status(w.port, without[i].path), without[i].status);
    client_request(w.port, "GET", "/v1/models", "Authorization: Bearer secret\r\n", NULL, &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(strstr(buf_text(&a.body), "\"id\":\"fake\""));
    answer_release(&a);
    client_request(w.port, "GET", "/v1/models", "x-api-key: secret\r\n", NULL, &a);
    EXPECT_EQ(a.status, 200);
    answer_release(&a);
    client_request(w.port, "POST", "/v1/completions", "Authorization: Bearer wrong\r\n",
                   "{\"prompt\":\"a\"}", &a);
    EXPECT_EQ(a.status, 401);
    EXPECT(strstr(buf_text(&a.raw), "WWW-Authenticate: Bearer\r\n"));
    answer_release(&a);
    world_end(&w);
}

/* RFC 3986, section 2.2: a slash that is written %2F is a segment's data. */
TEST(an_escaped_slash_divides_no_path) {
    static const struct {
        const char *method, *path;
        int status;
    } ROWS[] = {{"GET", "/v1/models", 200},          {"GET", "/v1%2Fmodels", 404},
                {"GET", "/v1/%6dodels", 200},        {"POST", "/v1/chat%2fcompletions", 404},
                {"GET", "/health%2Flive", 404},      {"GET", "/v1/models/o/n", 200},
                {"GET", "/v1/models/o%2Fn", 200},    {"GET", "/v1/models/o%2fn", 200},
                {"GET", "/v1/models/o%252Fn", 404},  {"GET", "/v1/models%2Fo/n", 404},
                {"GET", "/v1%2Fmodels/o%2Fn", 404},  {"GET", "/v1/models%2Fo", 404},
                {"GET", "/v1/models%2F", 404},       {"GET", "/page%2Findex.css", 404},
                {"OPTIONS", "/v1/models", 204},      {"OPTIONS", "/v1%2Fmodels", 404},
                {"GET", "/v1/models/o/n?a=%2F", 200}};
    static const char NOTHING[] = "there is nothing at this path; /docs lists those that are there";
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.served_names = "fake,o/n";
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        client_request(w.port, ROWS[i].method, ROWS[i].path, "", NULL, &a);
        bool named = strstr(buf_text(&a.body), "\"id\":\"o/n\"") != NULL;
        if (a.status != ROWS[i].status || (named != (a.status == 200)))
            check_fail(__FILE__, __LINE__, "%s %s: %d %s", ROWS[i].method, ROWS[i].path, a.status,
                       buf_text(&a.body));
        answer_release(&a);
    }
    static const char *const NO_PATHS[] = {"/v1/responses/resp_1%2Finput_items",
                                           "/v1/responses/a%2Fb", "/v1/stream/a%2Fb", "/page/a%2Fb",
                                           "/v1/responses%2Fresp_1"};
    for (size_t i = 0; i < ARRAY_LEN(NO_PATHS); i++) {
        client_request(w.port, "GET", NO_PATHS[i], "", NULL, &a);
        if (a.status != 404 || !strstr(buf_text(&a.raw), NOTHING))
            check_fail(__FILE__, __LINE__, "%s: %s", NO_PATHS[i], buf_text(&a.raw));
        answer_release(&a);
    }
    world_end(&w);
}

/* A stranger's body is not waited for. */
TEST(keys_are_checked_before_the_body) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.api_key = "secret";
    EXPECT(world_start(&w));
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                               "Authorization: Bearer wrong\r\nContent-Length: 10000000\r\n\r\n";
    int fd = client_connect(w.port);
    EXPECT(write(fd, head, sizeof head - 1) == (ssize_t)sizeof head - 1);
    answer_init(&a);
    client_finish(fd, &a);
    EXPECT_EQ(a.status, 401);
    EXPECT(strstr(buf_text(&a.raw), "Connection: close\r\n"));
    answer_release(&a);
    world_end(&w);
}

static const char PREFLIGHT[] = "Access-Control-Request-Method: POST\r\n"
                                "Access-Control-Request-Headers: authorization,content-type,"
                                "x-stainless-os\r\n";

static void ask_as(struct world *w, const char *method, const char *path, const char *origin,
                   const char *more, struct answer *a) {
    char headers[512] = "";
    if (origin)
        snprintf(headers, sizeof headers, "Origin: %s\r\n%s", origin, more);
    client_request(w->port, method, path, headers, NULL, a);
}

TEST(pages_of_allowed_origins_may_ask) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.api_key = "secret";
    w.settings.allow_origins = "https://chat.example, http://localhost:3000";
    EXPECT(world_start(&w));
    /* a preflight needs no key, and what the page wants to send is allowed */
    ask_as(&w, "OPTIONS", "/v1/chat/completions", "https://chat.example", PREFLIGHT, &a);
    EXPECT_EQ(a.status, 204);
    EXPECT_STR(client_field(&a, "Access-Control-Allow-Origin"), "https://chat.example");
    EXPECT_STR(client_field(&a, "Access-Control-Allow-Methods"), "POST, OPTIONS");
    EXPECT_STR(client_field(&a, "Access-Control-Allow-Headers"),
               "authorization,content-type,x-stainless-os");
    EXPECT_STR(client_field(&a, "Vary"), "Origin");
    answer_release(&a);
    /* refusals can be read, too, and their id */
    ask_as(&w, "GET", "/v1/models", "http://localhost:3000", "", &a);
    EXPECT_EQ(a.status, 401);
    EXPECT_STR(client_field(&a, "Access-Control-Allow-Origin"), "http://localhost:3000");
    EXPECT(strstr(client_field(&a, "Access-Control-Expose-Headers"), "X-Request-Id"));
    answer_release(&a);
    static const char *const others[] = {"https://evil.example", "http://chat.example",
                                         "https://chat.example.evil.example",
                                         "https://chat.example:444", "null"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        ask_as(&w, "OPTIONS", "/v1/chat/completions", others[i], PREFLIGHT, &a);
        EXPECT_EQ(a.status, 204);
        EXPECT_STR(client_field(&a, "Allow"), "POST, OPTIONS");
        EXPECT(!strstr(buf_text(&a.raw), "Access-Control"));
        answer_release(&a);
    }
    world_end(&w);
}

TEST(no_page_or_every_page_may_ask) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    EXPECT(world_start(&w));
    ask_as(&w, "OPTIONS", "/v1/models", "https://chat.example", PREFLIGHT, &a);
    EXPECT_EQ(a.status, 204);
    EXPECT_STR(client_field(&a, "Allow"), "GET, HEAD, OPTIONS");
    EXPECT(!strstr(buf_text(&a.raw), "Access-Control") && !*client_field(&a, "Vary"));
    answer_release(&a);
    ask_as(&w, "OPTIONS", "/v1/nothing", NULL, "", &a);
    EXPECT_EQ(a.status, 404);
    answer_release(&a);
    ask_as(&w, "OPTIONS", "*", NULL, "", &a);
    EXPECT_EQ(a.status, 204);
    answer_release(&a);
    world_end(&w);

    world_prepare(&w);
    w.settings.allow_origins = "*";
    EXPECT(world_start(&w));
    ask_as(&w, "GET", "/v1/models", "https://chat.example", "", &a);
    EXPECT_EQ(a.status, 200);
    EXPECT_STR(client_field(&a, "Access-Control-Allow-Origin"), "*");
    answer_release(&a);
    ask_as(&w, "GET", "/v1/models", NULL, "", &a);
    EXPECT(!strstr(buf_text(&a.raw), "Access-Control"));
    answer_release(&a);
    /* a list that is none is not given back */
    ask_as(&w, "OPTIONS", "/v1/models", "https://chat.example",
           "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: a\"b\r\n", &a);
    EXPECT(*client_field(&a, "Access-Control-Allow-Methods") &&
           !*client_field(&a, "Access-Control-Allow-Headers"));
    answer_release(&a);
    world_end(&w);
}

#define FROM_A_PAGE "Origin: http://localhost:3000\r\n"
TEST(pages_elsewhere_do_not_reach_the_loopback) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.allow_hosts = "llm.example, other.example";
    w.settings.allow_origins = "https://chat.example";
    EXPECT(world_start(&w));
    static const struct {
        const char *headers;
        int status;
    } cases[] = {
        {"Host: localhost\r\n", 200},
        {"Host: LocalHost:8080\r\n", 200},
        {"Host: 127.0.0.1:8080\r\n", 200},
        {"Host: 127.1.2.3\r\n", 200},
        {"Host: [::1]:8080\r\n", 200},
        {"Host: app.localhost\r\n", 200},
        {"Host: LLM.example:443\r\n", 200},
        {"Host: evil.example\r\n", 403},
        {"Host: evil.example:8080\r\n", 403},
        {"Host: localhost.evil.example\r\n", 403},
        {"Host: notlocalhost\r\n", 403},
        {"Host: 127.0.0.1.evil.example\r\n", 403},
        {"Host: 128.0.0.1\r\n", 403},
        {"Host: [::2]\r\n", 403},
        {"Origin: http://localhost:3000\r\n", 200},
        {"Origin: https://llm.example\r\n", 200},
        {"Origin: https://chat.example\r\n", 200},
        {"Origin: https://evil.example\r\n", 403},
        {"Origin: http://localhost.evil.example\r\n", 403},
        {"Origin: null\r\n", 403},
        {"Content-Type: application/json; charset=utf-8\r\n", 200},
        {"Content-Type: application/x-www-form-urlencoded\r\n", 200}, /* curl -d */
        {FROM_A_PAGE "Content-Type: application/json; charset=utf-8\r\n", 200},
        {FROM_A_PAGE "Content-Type: text/plain\r\n", 415},
        {FROM_A_PAGE "Content-Type: application/jsonp\r\n", 415},
        {FROM_A_PAGE "Content-Type: application/x-www-form-urlencoded\r\n", 415},
        {"Sec-Fetch-Site: cross-site\r\nContent-Type: text/plain\r\n", 415},
        {"Content-Encoding: gzip\r\n", 415},
        {"Content-Encoding: identity, br\r\n", 415},
        {"Content-Encoding: Identity\r\n", 200},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        client_request(w.port, "POST", "/v1/completions", cases[i].headers,
                       "{\"prompt\":\"a\",\"max_tokens\":1}", &a);
        if (a.status != cases[i].status)
            check_fail(__FILE__, __LINE__, "%s: %d", cases[i].headers, a.status);
        answer_release(&a);
    }
    ask_as(
        &w, "OPTIONS", "/v1/completions", "https://chat.example",
        "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n",
        &a);
    EXPECT_STR(client_field(&a, "Access-Control-Allow-Private-Network"), "true");
    answer_release(&a);
    ask_as(
        &w, "OPTIONS", "/v1/completions", "https://evil.example",
        "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n",
        &a);
    EXPECT_STR(client_field(&a, "Access-Control-Allow-Private-Network"), "");
    answer_release(&a);
    world_end(&w);
}

/* On other addresses nothing is checked unless names are given. */
TEST(hosts_are_checked_where_it_matters) {
    struct hosts hosts;
    struct error err;
    EXPECT_EQ(hosts_init(&hosts, "0.0.0.0", NULL, &err), 0);
    EXPECT(hosts_allow(&hosts, bytes_str("any.example")) &&
           hosts_allow_origin(&hosts, bytes_str("https://any.example")));
    EXPECT_EQ(hosts_init(&hosts, "0.0.0.0", "one.example", &err), 0);
    EXPECT(hosts_allow(&hosts, bytes_str("one.example:1")) &&
           !hosts_allow(&hosts, bytes_str("any.example")));
    hosts_release(&hosts);
    EXPECT_EQ(hosts_init(&hosts, "::1", "*", &err), 0);
    EXPECT(hosts_allow(&hosts, bytes_str("any.example")));
    hosts_release(&hosts);
    EXPECT_EQ(hosts_init(&hosts, "localhost", "http://a", &err), ERR_INVALID);
    EXPECT(strstr(err.text, "--allow-hosts"));
}
