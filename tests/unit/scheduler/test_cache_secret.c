#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "check.h"
#include "scheduler/cache_secret.h"

TEST(cache_secret_is_made_once_and_kept) {
    char folder[] = "/tmp/trmXXXXXX", path[64];
    struct hash_key first, second;
    struct error err;
    struct stat st;
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/key", folder);
    EXPECT_EQ(cache_secret_load(path, &first, &err), 0);
    EXPECT(stat(path, &st) == 0);
    EXPECT_EQ(st.st_mode & 0777, 0600);
    EXPECT_EQ(st.st_size, CACHE_SECRET_BYTES);
    EXPECT_EQ(cache_secret_load(path, &second, &err), 0);
    EXPECT(memcmp(&first, &second, sizeof first) == 0);
    unlink(path);
    EXPECT_EQ(cache_secret_load(path, &second, &err), 0);
    EXPECT(memcmp(&first, &second, sizeof first) != 0);
    EXPECT_EQ(chmod(path, 0644), 0);
    EXPECT_EQ(cache_secret_load(path, &second, &err), ERR_INVALID);
    EXPECT_EQ(chmod(path, 0600), 0);
    EXPECT_EQ(truncate(path, 5), 0);
    EXPECT_EQ(cache_secret_load(path, &second, &err), ERR_INVALID);
    EXPECT_EQ(truncate(path, 50), 0);
    EXPECT(cache_secret_load(path, &second, &err) != 0);
    unlink(path);
    rmdir(folder);
    EXPECT(cache_secret_load(path, &second, &err) != 0); /* no folder to make it in */
}
