/*
 * Many streaming clients on one thread: opens the connections, sends one request on each, counts
 * the events that come back, and tells what that cost the gateway: gateway_load --port P --pid
 * GATEWAY --connections 1000 --tokens 2000.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/option.h"

struct settings {
    int64_t port, pid, connections, tokens, prompt_words, read_bytes;
    bool chat, usage;
};
#define AT(m) offsetof(struct settings, m)
static const struct option_row rows[] = {
    {.name = "port",
     .type = OPTION_INT,
     .offset = AT(port),
     .fallback = "8080",
     .min = 1,
     .max = 65535,
     .help = "The gateway's port on the loopback."},
    {.name = "pid",
     .type = OPTION_INT,
     .offset = AT(pid),
     .fallback = "0",
     .min = 0,
     .max = 1e9,
     .help = "The gateway's process; its CPU time and memory are told."},
    {.name = "connections",
     .type = OPTION_INT,
     .offset = AT(connections),
     .fallback = "1000",
     .min = 1,
     .max = 20000,
     .help = "Streams at once."},
    {.name = "tokens",
     .type = OPTION_INT,
     .offset = AT(tokens),
     .fallback = "2000",
     .min = 1,
     .max = 1e6,
     .help = "Tokens of each."},
    {.name = "prompt-words",
     .type = OPTION_INT,
     .offset = AT(prompt_words),
     .fallback = "20",
     .min = 1,
     .max = 1e6,
     .help = "Words of each prompt."},
    {.name = "read-bytes",
     .type = OPTION_INT,
     .offset = AT(read_bytes),
     .fallback = "65536",
     .min = 1,
     .max = 1 << 20,
     .help = "Bytes of one read."},
    {.name = "chat",
     .type = OPTION_BOOL,
     .offset = AT(chat),
     .fallback = "true",
     .help = "Chat instead of completions."},
    {.name = "usage", .type = OPTION_BOOL, .offset = AT(usage), .help = "Ask for the usage chunk."},
};
static const struct option_table options = {.program = "gateway_load",
                                            .synopsis = "[OPTIONS]",
                                            .summary =
                                                "Streams from a gateway on many connections.",
                                            .rows = rows,
                                            .count = ARRAY_LEN(rows)};

struct client {
    int fd;
    uint64_t events, bytes;
    bool newline, done, begun;
};

static void make_request(const struct settings *s, int64_t i, struct buf *out) {
    struct buf body;
    buf_init(&body, 0);
    buf_add_str(&body,
                s->chat ? "{\"messages\":[{\"role\":\"user\",\"content\":\"" : "{\"prompt\":\"");
    for (int64_t w = 0; w < s->prompt_words; w++)
        buf_addf(&body, "word%lld ", (long long)(w + i));
    buf_addf(&body, "%s\",\"stream\":true,\"ignore_eos\":true,\"seed\":%lld,\"max_tokens\":%lld%s}",
             s->chat ? "\"}],\"model\":\"fake" : "", (long long)i, (long long)s->tokens,
             s->usage ? ",\"stream_options\":{\"include_usage\":true}" : "");
    buf_addf(out,
             "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
             "application/json\r\nContent-Length: %zu\r\n\r\n",
             s->chat ? "/v1/chat/completions" : "/v1/completions", body.len);
    buf_add_bytes(out, buf_bytes(&body));
    buf_release(&body);
}

static int open_client(const struct settings *s, int64_t i) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)s->port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct buf request;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        perror("gateway_load: connect");
        exit(1);
    }
    buf_init(&request, 0);
    make_request(s, i, &request);
    if (write(fd, request.data, request.len) != (ssize_t)request.len)
        exit(1);
    buf_release(&request);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

/* Counts the blank lines that end events, whatever the reads cut. */
static void count_events(struct client *c, const char *data, size_t len) {
    const char *at = data, *end = data + len;
    c->bytes += len;
    if (c->newline && len && *at == '\n')
        c->events++;
    while ((at = memchr(at, '\n', (size_t)(end - at))) && ++at < end)
        c->events += *at == '\n';
    c->newline = data[len - 1] == '\n';
    if (len >= 16 && memmem(len > 64 ? end - 64 : data, len > 64 ? 64 : len, "data: [DONE]", 12))
        c->done = true;
}

static double cpu_seconds(int64_t pid) {
    char path[64], line[1024];
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fgets(line, sizeof line, file)) {
        const char *at = strrchr(line, ')');
        if (!at || sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                          &kernel) != 2)
            user = kernel = 0;
    }
    fclose(file);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static double resident_kb(int64_t pid) {
    char path[64], line[256];
    long kb = 0;
    snprintf(path, sizeof path, "/proc/%lld/status", (long long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &kb) == 1)
            break;
    fclose(file);
    return (double)kb;
}

struct totals {
    uint64_t events, bytes, reads;
    int64_t done;
    double seconds, first_seconds, rss_kb, cpu_s;
};

static void read_all(const struct settings *s, struct client *clients, int epoll_fd,
                     struct totals *t) {
    struct epoll_event ready[512];
    char *data = mem_alloc((size_t)s->read_bytes);
    int64_t begin_us = clock_us(), begun = 0;
    double cpu_begin = cpu_seconds(s->pid);
    while (t->done < s->connections) {
        int n = epoll_wait(epoll_fd, ready, 512, 60000);
        if (n <= 0)
            break;
        for (int i = 0; i < n; i++) {
            struct client *c = &clients[ready[i].data.u64];
            ssize_t len = read(c->fd, data, (size_t)s->read_bytes);
            t->reads++;
            if (len < 0 && (errno == EAGAIN || errno == EINTR))
                continue;
            if (!c->begun) {
                c->begun = true;
                if (++begun == s->connections)
                    t->first_seconds = (double)(clock_us() - begin_us) * 1e-6;
            }
            if (len > 0)
                count_events(c, data, (size_t)len);
            if (len > 0 && !c->done)
                continue;
            if (t->done == s->connections / 2)
                t->rss_kb = resident_kb(s->pid);
            t->done++;
            epoll_ctl(epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
            close(c->fd);
        }
        if (t->rss_kb == 0 && begun == s->connections)
            t->rss_kb = resident_kb(s->pid);
    }
    t->seconds = (double)(clock_us() - begin_us) * 1e-6;
    t->cpu_s = cpu_seconds(s->pid) - cpu_begin;
    mem_free(data);
}

int main(int argc, char **argv) {
    struct settings s;
    struct error err;
    size_t positional;
    int outcome = option_parse(&options, &s, argc, argv, NULL, 0, &positional, &err);
    if (outcome != OPTION_RUN) {
        if (outcome < 0)
            fprintf(stderr, "gateway_load: %s\n", err.text);
        return outcome < 0;
    }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    double rss_before_kb = resident_kb(s.pid);
    struct client *clients = mem_calloc((size_t)s.connections, sizeof *clients);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct totals t = {0};
    double cpu_before = cpu_seconds(s.pid);
    for (int64_t i = 0; i < s.connections; i++) {
        clients[i].fd = open_client(&s, i);
        struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = (uint64_t)i}};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, clients[i].fd, &event);
    }
    read_all(&s, clients, epoll_fd, &t);
    double cpu_s = cpu_seconds(s.pid) - cpu_before;
    int64_t short_count = 0;
    for (int64_t i = 0; i < s.connections; i++) {
        t.events += clients[i].events;
        t.bytes += clients[i].bytes;
        short_count += !clients[i].done;
    }
    double tokens = (double)s.connections * (double)s.tokens;
    printf("streams %lld, unfinished %lld, tokens each %lld, events %llu, bytes an event %.0f\n",
           (long long)s.connections, (long long)short_count, (long long)s.tokens,
           (unsigned long long)t.events, (double)t.bytes / (double)MAX(t.events, 1));
    printf("wall %.2f s (all begun after %.2f s), %.0f tokens/s, %.1f events a read\n", t.seconds,
           t.first_seconds, tokens / t.seconds, (double)t.events / (double)MAX(t.reads, 1));
    if (s.pid)
        printf("gateway cpu %.2f s: %.0f tokens/s per core; resident %.1f MB before, %.1f MB at "
               "most seen: %.1f KB a "
               "stream less 4 bytes a token\n",
               cpu_s, tokens / cpu_s, rss_before_kb / 1024, t.rss_kb / 1024,
               (t.rss_kb - rss_before_kb) / (double)s.connections - 4e-3 * (double)s.tokens);
    mem_free(clients);
    return short_count != 0;
}
