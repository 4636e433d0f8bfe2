/* The edges of what strangers share: the last unit that somebody gets, and the first that he does not. */
#include "check.h"
#include "http/http_share.h"

enum { A, B, C, MAX = 160, KEPT = MAX / HTTP_SHARE_KEPT };

/* So much is taken in all, and by A. */
static struct http_share *share_of(uint64_t total, uint64_t held) {
    static struct http_share share;
    memset(&share, 0, sizeof share);
    share.max = MAX;
    http_share_add_total(&share, (int64_t)total);
    http_share_add_held(&share, A, (int64_t)held);
    return &share;
}

TEST(all_that_is_left_may_be_had_and_no_more) {
    EXPECT(http_share_allows(share_of(0, 0), A, MAX));
    EXPECT(!http_share_allows(share_of(0, 0), A, MAX + 1));
    EXPECT(http_share_allows(share_of(100, 0), A, 60));
    EXPECT(!http_share_allows(share_of(100, 0), A, 61));
    EXPECT(http_share_allows(share_of(MAX, 0), A, 0));
    EXPECT(!http_share_allows(share_of(MAX, 0), A, 1));
    EXPECT(!http_share_allows(share_of(MAX + 5, 0), A, 1)); /* threads took it at the same moment */
    EXPECT(http_share_allows(share_of(MAX + 5, 0), A, 0));
}

/* Who holds as much as is left may have more, and with one more he may not. */
TEST(who_holds_more_than_is_left_gets_nothing) {
    EXPECT(http_share_allows(share_of(80, 80), A, 1));
    EXPECT(http_share_allows(share_of(80, 80), A, 80));
    EXPECT(!http_share_allows(share_of(81, 80), A, 1));
    EXPECT(!http_share_allows(share_of(80, 81), A, 1));
    EXPECT(!http_share_allows(share_of(80, 81), A, 0));
    EXPECT(http_share_allows(share_of(80, 81), B, 80)); /* what another holds is not counted */
}

TEST(the_last_of_it_is_for_those_that_have_nothing) {
    EXPECT(http_share_allows(share_of(MAX - KEPT - 1, 1), A, 1));
    EXPECT(!http_share_allows(share_of(MAX - KEPT, 1), A, 1));
    EXPECT(http_share_allows(share_of(MAX - KEPT, 1), B, 1));
    EXPECT(http_share_allows(share_of(MAX - KEPT, 0), A, KEPT));
    EXPECT(http_share_allows(share_of(MAX - 1, 0), A, 1));
}

/* What is in use one may have nearly all of: of 160 the last that a holder of 150 gets leaves 10. */
TEST(the_last_of_what_is_in_use_is_for_the_others) {
    EXPECT(http_share_allows_used(share_of(149, 149), A));
    EXPECT(http_share_allows_used(share_of(MAX - KEPT, HTTP_SHARE_USED * KEPT), A));
    EXPECT(!http_share_allows_used(share_of(MAX - KEPT, HTTP_SHARE_USED * KEPT + 1), A));
    EXPECT(!http_share_allows_used(share_of(MAX - KEPT + 1, MAX - KEPT), A));
    EXPECT(http_share_allows_used(share_of(MAX - 1, HTTP_SHARE_USED), A));
    EXPECT(!http_share_allows_used(share_of(MAX - 1, HTTP_SHARE_USED + 1), A));
    EXPECT(http_share_allows_used(share_of(MAX - 1, MAX - 1), B));
    EXPECT(!http_share_allows_used(share_of(MAX, 0), A));
    EXPECT(!http_share_allows_used(share_of(MAX + 5, 0), A));
}

TEST(what_is_given_back_may_be_had_again) {
    struct http_share *s = share_of(MAX, 100);
    EXPECT(!http_share_allows(s, B, 1));
    http_share_add_total(s, -100);
    http_share_add_held(s, A, -100);
    EXPECT(http_share_allows(s, A, 100) && http_share_allows(s, B, 100));
    EXPECT(!http_share_allows(s, A, 101));
    http_share_add_held(s, HTTP_SHARE_HOLDERS - 1, 101);
    EXPECT(!http_share_allows(s, HTTP_SHARE_HOLDERS - 1, 1));
    EXPECT(http_share_allows(s, C, 1));
}
