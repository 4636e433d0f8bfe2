#include "worker/fault.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"

enum { STACK_BYTES = 64 * 1024 };

static char mark_path[512];

static void leave_mark(int sig) {
    int fd = open(mark_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        char digits[3] = {(char)('0' + sig / 10), (char)('0' + sig % 10), '\n'};
        ssize_t written = write(fd, digits, sizeof digits);
        (void)written;
        close(fd);
    }
    signal(sig, SIG_DFL); /* SA_RESETHAND does it too; then die of the same signal */
    raise(sig);
}

void fault_mark_install(const char *run_dir) {
    static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    if (!run_dir || !*run_dir)
        return;
    int len = snprintf(mark_path, sizeof mark_path, "%s/fault-%d", run_dir, (int)getpid());
    if (len < 0 || (size_t)len >= sizeof mark_path)
        return;
    stack_t stack = {.ss_size = STACK_BYTES};
    stack.ss_sp =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack.ss_sp == MAP_FAILED || sigaltstack(&stack, NULL))
        stack.ss_sp = NULL;
    struct sigaction action = {.sa_handler = leave_mark,
                               .sa_flags = SA_RESETHAND | (stack.ss_sp ? SA_ONSTACK : 0)};
    for (size_t i = 0; i < ARRAY_LEN(FAULTS); i++)
        sigaction(FAULTS[i], &action, NULL);
}
