#include "base/pulse.h"

#include <stdlib.h>
#include <unistd.h>

#include "check.h"

TEST(a_pulse_rises_at_most_once_a_second) {
    char dir[] = "/tmp/pulse-XXXXXX";
    struct pulse p;
    uint64_t count = 0;
    EXPECT(mkdtemp(dir) != NULL);
    EXPECT(!pulse_read(dir, (int)getpid(), &count));
    pulse_open(&p, dir, 5000);
    EXPECT(pulse_read(dir, (int)getpid(), &count));
    EXPECT_EQ(count, 1);
    pulse_beat(&p, 5999);
    EXPECT(pulse_read(dir, (int)getpid(), &count));
    EXPECT_EQ(count, 1);
    pulse_beat(&p, 6000);
    EXPECT(pulse_read(dir, (int)getpid(), &count));
    EXPECT_EQ(count, 2);
    pulse_close(&p);
    pulse_beat(&p, 9000);
    EXPECT(pulse_read(dir, (int)getpid(), &count));
    EXPECT_EQ(count, 2);
    pulse_remove(dir, (int)getpid());
    EXPECT(!pulse_read(dir, (int)getpid(), &count));
    EXPECT_EQ(rmdir(dir), 0);
}

TEST(without_a_folder_there_is_no_pulse) {
    struct pulse p;
    uint64_t count;
    pulse_open(&p, NULL, 0);
    EXPECT_EQ(p.fd, -1);
    pulse_beat(&p, 100000);
    pulse_open(&p, "/nowhere/at/all", 0);
    EXPECT_EQ(p.fd, -1);
    EXPECT(!pulse_read("/nowhere/at/all", 1, &count));
}
