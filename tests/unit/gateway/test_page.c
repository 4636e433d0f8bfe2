/* What page.c reads of a request's headers. The files themselves: tests/e2e/test_page.py. */
#include "check.h"
#include "gateway/page/page.h"

static bool takes(const char *accept) {
    return page_takes_gzip(bytes_str(accept));
}

TEST(gzip_is_sent_to_who_names_it) {
    EXPECT(takes("gzip"));
    EXPECT(takes("br, GZip"));
    EXPECT(takes("deflate;q=0.3 ,\tgzip ; q=0.001"));
    EXPECT(takes("*"));
    EXPECT(takes("br;q=1, *;q=0.1"));
    EXPECT(takes(",,gzip"));
}

TEST(gzip_is_not_sent_to_others) {
    EXPECT(!page_takes_gzip(bytes_of(NULL, 0)));
    EXPECT(!takes(""));
    EXPECT(!takes("identity, br"));
    EXPECT(!takes("gzip;q=0"));
    EXPECT(!takes("gzip; Q=0.000, br"));
    EXPECT(!takes("gzip;x=1;q=0"));
    EXPECT(!takes("gzip;q=0, *"));
    EXPECT(!takes("*;q=0"));
    EXPECT(!takes("xgzip, gzipx, x-gzip"));
}

static bool has(const char *header, const char *tag) {
    return page_has_tag(bytes_str(header), tag);
}

TEST(a_tag_is_found_among_others) {
    EXPECT(has("\"ab\"", "\"ab\""));
    EXPECT(has("\"x\", W/\"ab\" ,\"y\"", "\"ab\""));
    EXPECT(has("*", "\"ab\""));
    EXPECT(!has("\"abc\", \"a\", ab, W/", "\"ab\""));
    EXPECT(!has("", "\"ab\""));
    EXPECT(!page_has_tag(bytes_of(NULL, 0), "\"ab\""));
}
