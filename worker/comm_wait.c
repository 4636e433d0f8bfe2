#include "worker/comm_wait.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

/* Not FUTEX_PRIVATE: the bell is shared between processes. */
static void futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout) {
    syscall(SYS_futex, word, op, value, timeout, NULL, 0); /* every outcome means: look again */
}

void comm_bell_ring(struct comm_bell *bell) {
    atomic_fetch_add(&bell->count, 1);
    if (atomic_load(&bell->sleeping))
        futex(&bell->count, FUTEX_WAKE, INT32_MAX, NULL);
}

void comm_bell_sleep(struct comm_bell *bell, uint32_t seen, int slice_ms) {
    struct timespec slice = timespec_of_us((int64_t)slice_ms * 1000);
    atomic_store(&bell->sleeping, 1);
    futex(&bell->count, FUTEX_WAIT, seen, &slice);
    atomic_store(&bell->sleeping, 0);
}
