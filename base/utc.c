#include "base/utc.h"

#include <time.h>

size_t utc_text(int64_t wall_s, char out[UTC_TEXT_MAX]) {
    time_t seconds = (time_t)wall_s;
    struct tm utc;
    CHECK(gmtime_r(&seconds, &utc));
    return strftime(out, UTC_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &utc);
}
