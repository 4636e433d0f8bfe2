#include "base/sandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

#if defined(__x86_64__)
#define SANDBOX_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SANDBOX_ARCH AUDIT_ARCH_AARCH64
#else
#define SANDBOX_ARCH 0
#endif

/* Calls that no process of ours makes once it runs. */
static const uint32_t REFUSED[] = {
    /* programs and processes */
    SYS_execve, SYS_execveat,
#ifdef SYS_fork
    SYS_fork, SYS_vfork,
#endif
    SYS_setsid, SYS_setpgid, SYS_personality,
    /* into others */
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_getfd, SYS_kcmp, SYS_tkill,
    SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_send_signal,
    /* whose process it is, and what it sees */
    SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups,
    SYS_setfsuid, SYS_setfsgid, SYS_capset, SYS_unshare, SYS_setns, SYS_chroot, SYS_pivot_root,
    SYS_mount, SYS_umount2, SYS_move_mount, SYS_open_tree, SYS_fsopen, SYS_fsmount, SYS_fsconfig,
    SYS_fspick, SYS_open_by_handle_at, SYS_mknodat,
#ifdef SYS_mknod
    SYS_mknod,
#endif
    /* the machine */
    SYS_reboot, SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_swapon,
    SYS_swapoff, SYS_sethostname, SYS_setdomainname, SYS_settimeofday, SYS_clock_settime,
    SYS_adjtimex, SYS_clock_adjtime, SYS_quotactl, SYS_acct, SYS_syslog, SYS_vhangup,
#ifdef SYS_iopl
    SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#endif
    /* the kernel's less trodden paths */
    SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_io_uring_setup, SYS_io_uring_enter,
    SYS_io_uring_register, SYS_add_key, SYS_request_key, SYS_keyctl, SYS_fanotify_init,
    SYS_name_to_handle_at, SYS_seccomp};

enum { FILTER_MAX = 2 * (sizeof REFUSED / sizeof *REFUSED) + 50 };

struct filter {
    struct sock_filter ops[FILTER_MAX];
    unsigned short count;
};

static void add(struct filter *f, struct sock_filter op) {
    CHECK(f->count < FILTER_MAX);
    f->ops[f->count++] = op;
}
static void load(struct filter *f, size_t offset) {
    add(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}
static void load_number(struct filter *f) {
    load(f, offsetof(struct seccomp_data, nr));
}
/* The low half of an argument: ours are little-endian machines. */
static void load_argument(struct filter *f, int idx) {
    load(f, offsetof(struct seccomp_data, args) + (size_t)idx * sizeof(uint64_t));
}
static void end_with(struct filter *f, uint32_t verdict) {
    add(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}
static uint32_t fail_with(int code) {
    return SECCOMP_RET_ERRNO | (uint32_t)code;
}
/* Where the loaded word is `value`, fails with `code`. */
static void refuse(struct filter *f, uint32_t value, int code) {
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    end_with(f, fail_with(code));
}

/* Threads are made, processes are not. clone3 has its flags in memory, where no filter looks; libc
 * goes on with clone when there is none. */
static void refuse_processes(struct filter *f) {
    refuse(f, SYS_clone3, ENOSYS);
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4));
    load_argument(f, 0);
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0));
    end_with(f, fail_with(EPERM));
    load_number(f);
}

/* Its first argument may be this process alone. */
static void refuse_for_others(struct filter *f, uint32_t call) {
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4));
    load_argument(f, 0);
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getpid(), 1, 0));
    end_with(f, fail_with(EPERM));
    load_number(f);
}

static void allow_family(struct filter *f, int family) {
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)family, 0, 1));
    end_with(f, SECCOMP_RET_ALLOW);
}

/* A pair of sockets is never more than memory, so socketpair stays. */
static void refuse_sockets(struct filter *f, unsigned needs) {
    struct filter families = {.count = 0};
    if (needs & SANDBOX_SOCKETS)
        return;
    if (needs & SANDBOX_UNIX)
        allow_family(&families, AF_UNIX);
    if (needs & SANDBOX_INET) {
        allow_family(&families, AF_INET);
        allow_family(&families, AF_INET6);
    }
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0,
                                        (uint8_t)(families.count + 2)));
    load_argument(f, 0);
    for (unsigned i = 0; i < families.count; i++)
        add(f, families.ops[i]);
    end_with(f, fail_with(EPERM));
    if (needs & SANDBOX_LISTEN)
        return;
    refuse(f, SYS_bind, EPERM);
    refuse(f, SYS_listen, EPERM);
}

static void build(struct filter *f, unsigned needs) {
    f->count = 0;
    load(f, offsetof(struct seccomp_data, arch));
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SANDBOX_ARCH, 1, 0));
    end_with(f, fail_with(EPERM)); /* calls of another machine have other numbers */
    load_number(f);
#ifdef __x86_64__
    enum { X32_BIT = 0x40000000 };
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
    end_with(f, fail_with(EPERM));
#endif
    for (size_t i = 0; i < ARRAY_LEN(REFUSED); i++)
        refuse(f, REFUSED[i], EPERM);
    refuse_processes(f);
    refuse_for_others(f, SYS_kill);
    refuse_for_others(f, SYS_tgkill); /* what abort and raise call */
    refuse_sockets(f, needs);
    end_with(f, SECCOMP_RET_ALLOW);
}

int sandbox_enter(unsigned needs, struct error *err) {
    struct filter filter;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || SANDBOX_ARCH == 0)
        return error_set(err, ERR_UNSUPPORTED, "this system cannot take privileges away");
    build(&filter, needs);
    struct sock_fprog program = {.len = filter.count, .filter = filter.ops};
    long rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (rc == 0)
        return 0;
    bool absent = rc < 0 && (errno == ENOSYS || errno == EINVAL || errno == EPERM);
    return error_set(err, absent ? ERR_UNSUPPORTED : ERR_IO, "no seccomp filter can be set: %s",
                     rc > 0 ? "a thread has another one" : strerror(errno));
}

/* Of a sanitizer: it looks for leaks at the end, from a process of its own. */
#if defined(__SANITIZE_ADDRESS__)
enum { NEEDS_PROCESSES = 1 };
#elif defined(__has_feature)
enum { NEEDS_PROCESSES = __has_feature(address_sanitizer) };
#else
enum { NEEDS_PROCESSES = 0 };
#endif

void sandbox_start(bool on, unsigned needs) {
    struct error err;
    if (on && !NEEDS_PROCESSES && sandbox_enter(needs, &err))
        log_warn("running without a sandbox: %s", err.text);
}

void sandbox_start_files(bool on, const struct sandbox_place *places, size_t count) {
    struct error err;
    int rc = on && !NEEDS_PROCESSES ? sandbox_enter_files(places, count, &err) : 0;
    if (rc == ERR_UNSUPPORTED)
        log_debug("files are not restricted: %s", err.text);
    else if (rc)
        log_warn("files are not restricted: %s", err.text);
}

unsigned sandbox_need_of(const char *endpoint) {
    return (strstr(endpoint, "tcp:") ? SANDBOX_INET : 0) |
           (strstr(endpoint, "ipc:") ? SANDBOX_UNIX : 0);
}
