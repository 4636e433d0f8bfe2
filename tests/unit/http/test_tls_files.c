/* What is said of files that are no certificate or no key. */
#include "base/fsutil.h"
#include "check.h"
#include "http/http_tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct row {
    const char *certificate, *key; /* files of the folder */
    int code;
    const char *text; /* %s: the folder */
} ROWS[] = {
    {"none", "other", ERR_NOT_FOUND,
     "cannot read the TLS certificate '%s/none': No such file or directory"},
    {"other", "none", ERR_NOT_FOUND,
     "cannot read the TLS key '%s/none': No such file or directory"},
    {"none", "pipe", ERR_NOT_FOUND,
     "cannot read the TLS certificate '%s/none': No such file or directory"},
    {"pipe", "other", ERR_INVALID, "the TLS certificate '%s/pipe' is no regular file"},
    {"other", "pipe", ERR_INVALID, "the TLS key '%s/pipe' is no regular file"},
    {"other", "folder", ERR_INVALID, "the TLS key '%s/folder' is no regular file"},
    {"other", "other", ERR_INVALID, "cannot take the TLS certificate '%s/other': no start line"},
    {"empty", "other", ERR_INVALID, "cannot take the TLS certificate '%s/empty': no start line"},
};

TEST(files_that_are_no_certificate_are_refused_by_name) {
    char dir[] = "/tmp/trm-tls-XXXXXX", certificate[100], key[100], text[300];
    EXPECT(mkdtemp(dir));
    snprintf(key, sizeof key, "%s/other", dir);
    EXPECT_EQ(file_write_atomic(key, "no certificate\n", 15, 0600, NULL), 0);
    snprintf(key, sizeof key, "%s/empty", dir);
    EXPECT_EQ(file_write_atomic(key, "", 0, 0600, NULL), 0);
    snprintf(key, sizeof key, "%s/pipe", dir);
    EXPECT_EQ(mkfifo(key, 0600), 0);
    snprintf(key, sizeof key, "%s/folder", dir);
    EXPECT_EQ(mkdir(key, 0700), 0);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct http_tls *tls;
        struct error err;
        snprintf(certificate, sizeof certificate, "%s/%s", dir, ROWS[i].certificate);
        snprintf(key, sizeof key, "%s/%s", dir, ROWS[i].key);
        int rc = http_tls_new(&tls, certificate, key, &err);
        if (rc == ERR_UNSUPPORTED)
            SKIP("tls", "this build has no OpenSSL");
        const char *at = strstr(ROWS[i].text, "%s");
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - ROWS[i].text), ROWS[i].text, dir,
                 at + 2);
        EXPECT_EQ(rc, ROWS[i].code);
        EXPECT(!tls);
        if (strcmp(err.text, text) != 0)
            check_fail(__FILE__, __LINE__, "row %zu: %s", i, err.text);
    }
    snprintf(text, sizeof text, "rm -rf '%s'", dir);
    EXPECT_EQ(system(text), 0);
}
