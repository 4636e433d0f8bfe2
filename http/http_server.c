/*
 * http_server.c - listener, event threads, posted functions, drain.
 */
#include "http/http_internal.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/loopback.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    REFUSED_MAX = 64,         /* connections past connections_max that still get their 503 */
    UNSENT_MAX_BYTES = 65536, /* that the kernel holds for a slow client */
    ACCEPT_PAUSE_MS = 100,    /* after running out of descriptors */
};

void http_config_init(struct http_config *config) {
    *config = (struct http_config){
        .backlog = 1024,
        .thread_count = 1,
        .connections_max = 4096,
        .head_max_bytes = 16384,
        .target_max_bytes = 8192,
        .headers_max = 100,
        .body_max_bytes = 4u << 20,
        .bodies_max_bytes = 256u << 20,
        .unread_max_bytes = 256u << 20,
        .head_deadline_ms = 10000,
        .body_deadline_ms = 30000,
        .body_window_ms = 5000,
        .body_window_bytes = 5 * 1024,
        .idle_timeout_ms = 75000,
        .write_timeout_ms = 30000,
        .linger_ms = 2000,
        .low_water = 16384,
        .high_water = 65536,
        .pending_max_bytes = 4u << 20,
        .posts_max = 65536,
    };
}

/* ---- the listening socket ---- */

static int try_listen(const struct addrinfo *ai, const struct http_config *config) {
    int one = 1, saved,
        fd = socket(ai->ai_family, ai->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, ai->ai_protocol);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        (!config->share_port || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0) &&
        bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, config->backlog) == 0)
        return fd;
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static uint16_t bound_port(int fd) {
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;
    if (getsockname(fd, (struct sockaddr *)&addr, &len))
        return 0;
    if (addr.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)(void *)&addr)->sin6_port);
    return ntohs(((struct sockaddr_in *)(void *)&addr)->sin_port);
}

/* On this host; listen_fd stays -1, with errno, where no address of it can be bound. */
static int listen_on(struct http_server *server, const char *host, const char *port,
                     struct error *err) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(host, port, &hints, &list);
    if (rc)
        return error_set(err, ERR_INVALID, "cannot resolve the host '%s': %s", host,
                         gai_strerror(rc));
    for (const struct addrinfo *ai = list; ai && server->listen_fd < 0; ai = ai->ai_next)
        server->listen_fd = try_listen(ai, &server->config);
    int saved = errno;
    freeaddrinfo(list);
    errno = saved;
    return 0;
}

static int open_listener(struct http_server *server, struct error *err) {
    char port[8];
    snprintf(port, sizeof port, "%u", server->config.port);
    int rc = listen_on(server, server->host, port, err), saved = errno;
    if (!rc && server->listen_fd < 0 && loopback_is_missing(server->host, saved)) {
        rc = listen_on(server, LOOPBACK_V6, port, err);
        saved = errno == EADDRINUSE ? errno : saved;
        if (server->listen_fd >= 0)
            log_info("there is no %s here: listening on [" LOOPBACK_V6 "]", server->host);
    }
    if (rc)
        return rc;
    errno = saved; /* of the host that was asked for */
    if (server->listen_fd < 0)
        return error_set_errno(err, "cannot listen on '%s' port %s", server->host, port);
    server->port = bound_port(server->listen_fd);
    return 0;
}

/* ---- posted functions ---- */

static void wake(struct http_thread *thread) {
    uint64_t one = 1;
    ssize_t rc;
    do
        rc = write(thread->wake_fd, &one, sizeof one);
    while (rc < 0 && errno == EINTR);
}

static bool post(struct http_thread *thread, void (*fn)(void *ctx), void *ctx) {
    struct http_post item = {fn, ctx};
    bool taken;
    pthread_mutex_lock(&thread->lock);
    bool first = thread->posts.count == 0;
    taken = !thread->closed && thread->posts.count < thread->server->config.posts_max;
    if (taken)
        vec_push(&thread->posts, item);
    pthread_mutex_unlock(&thread->lock);
    if (taken && first)
        wake(thread);
    if (!taken)
        metric_add(&http_metrics[HTTP_METRIC_POSTS_FULL], 1);
    return taken;
}

bool http_thread_post(struct http_server *server, int thread_idx, void (*fn)(void *ctx),
                      void *ctx) {
    CHECK(thread_idx >= 0 && thread_idx < server->config.thread_count);
    return post(&server->threads[thread_idx], fn, ctx);
}

/* The two arrays change places, so that nothing is allocated once both have grown. */
static size_t run_posts(struct http_thread *thread, bool close_if_empty) {
    pthread_mutex_lock(&thread->lock);
    struct http_post *items = thread->posts.items;
    size_t count = thread->posts.count, cap = thread->posts.cap;
    thread->posts.items = thread->taken.items;
    thread->posts.cap = thread->taken.cap;
    thread->posts.count = 0;
    if (close_if_empty && !count)
        thread->closed = true;
    pthread_mutex_unlock(&thread->lock);
    thread->taken.items = items;
    thread->taken.cap = cap;
    for (size_t i = 0; i < count; i++)
        items[i].fn(items[i].ctx);
    return count;
}

/* ---- ticks ---- */

static void arm_tick(struct http_thread *thread) {
    const struct http_config *c = &thread->server->config;
    bool calm = thread->calm_ticks >= HTTP_TICKS_CALM && c->calm_tick_ms;
    uint32_t ms = calm ? c->calm_tick_ms : c->tick_ms;
    struct timeval tv = timeval_of_ms(ms);
    if (thread->tick)
        event_add(thread->tick, &tv);
}

static void on_tick(evutil_socket_t fd, short what, void *arg) {
    struct http_thread *thread = arg;
    bool waits = thread->server->config.on_tick(thread->server->config.ctx, thread->idx);
    thread->calm_ticks = waits ? 0 : MIN(thread->calm_ticks + 1, (uint32_t)HTTP_TICKS_CALM);
    arm_tick(thread);
}

void http_thread_stir(struct http_thread *thread) {
    bool was_calm = thread->calm_ticks >= HTTP_TICKS_CALM;
    thread->calm_ticks = 0;
    if (was_calm)
        arm_tick(thread);
}

static void on_wake(evutil_socket_t fd, short what, void *arg) {
    struct http_thread *thread = arg;
    uint64_t count;
    if (read(fd, &count, sizeof count) < 0 && errno != EAGAIN)
        LOG_LIMITED(LOG_WARN, "cannot read an eventfd: errno=%d", errno);
    if (run_posts(thread, false))
        http_thread_stir(thread);
    if (atomic_load(&thread->stopping))
        event_base_loopbreak(thread->base);
}

/* ---- accepting (thread 0) ---- */

struct u128 http_address_of(const struct sockaddr *addr) {
    enum { SEED = 0x61646472, V4_AT = 12 };
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)addr;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)addr;
    if (addr->sa_family != AF_INET6)
        return hash128(&v4->sin_addr, sizeof v4->sin_addr, SEED);
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        return hash128(v6->sin6_addr.s6_addr + V4_AT, sizeof v4->sin_addr, SEED);
    return hash128(&v6->sin6_addr, sizeof v6->sin6_addr / 2, SEED);
}

uint32_t http_server_holder(const struct http_server *server, struct u128 id) {
    return hash64(&id, sizeof id, server->seed) % HTTP_SHARE_HOLDERS;
}

static void peer_text(const struct sockaddr *addr, char out[HTTP_PEER_TEXT_MAX]) {
    char host[INET6_ADDRSTRLEN] = "?";
    if (addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)(const void *)addr;
        inet_ntop(AF_INET6, &a->sin6_addr, host, sizeof host);
        snprintf(out, HTTP_PEER_TEXT_MAX, "[%s]:%u", host, ntohs(a->sin6_port));
    } else if (addr->sa_family == AF_INET) {
        const struct sockaddr_in *a = (const struct sockaddr_in *)(const void *)addr;
        inet_ntop(AF_INET, &a->sin_addr, host, sizeof host);
        snprintf(out, HTTP_PEER_TEXT_MAX, "%s:%u", host, ntohs(a->sin_port));
    }
}

static void adopt(void *arg) {
    struct http_newcomer *n = arg;
    http_conn_new(n);
    mem_free(n);
}

static void count_connection(struct http_server *server, uint32_t holder, int by) {
    http_share_add_total(&server->connections, by);
    http_share_add_total(&server->connected, by);
    http_share_add_held(&server->connected, holder, by);
}

void http_server_forget(struct http_server *server, uint32_t holder, bool refused) {
    if (refused)
        atomic_fetch_sub(&server->refused_count, 1);
    else
        count_connection(server, holder, -1);
    atomic_fetch_sub(&server->connection_count, 1);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *addr,
                      int addr_len, void *arg) {
    struct http_server *server = arg;
    struct u128 address;
    struct http_network *network = http_network_enter(&server->networks, addr, &address);
    uint32_t holder = http_server_holder(server, address);
    bool refused = !http_share_allows(&server->connections, holder, 1) ||
                   !http_share_allows_used(&server->connected, holder);
    /* a handshake is more than a stranger past the bounds is worth */
    bool may_answer = !server->config.tls && atomic_load(&server->refused_count) < REFUSED_MAX;
    bool answered = !refused || may_answer;
    int one = 1, unsent = UNSENT_MAX_BYTES;
    metric_add(&http_metrics[refused ? HTTP_METRIC_REFUSED : HTTP_METRIC_ACCEPTED], 1);
    if (answered) {
        struct http_newcomer *n = mem_alloc(sizeof *n);
        atomic_fetch_add(&server->connection_count, 1);
        if (refused)
            atomic_fetch_add(&server->refused_count, 1);
        else
            count_connection(server, holder, 1);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
        *n = (struct http_newcomer){.thread = &server->threads[server->next_thread_idx],
                                    .fd = fd,
                                    .address = address,
                                    .network = network,
                                    .refused = refused};
        server->next_thread_idx = (server->next_thread_idx + 1) % server->config.thread_count;
        peer_text(addr, n->peer);
        if (post(n->thread, adopt, n))
            return;
        mem_free(n);
        http_server_forget(server, holder, refused);
    }
    http_network_leave(&server->networks, network);
    close(fd);
}

static void on_accept_again(evutil_socket_t fd, short what, void *arg) {
    struct http_server *server = arg;
    if (server->listener)
        evconnlistener_enable(server->listener);
}

/* Out of descriptors or memory: accept would fail again at once, so wait a little. */
static void on_accept_error(struct evconnlistener *listener, void *arg) {
    struct http_server *server = arg;
    struct timeval pause = {.tv_usec = ACCEPT_PAUSE_MS * 1000};
    LOG_LIMITED(LOG_WARN, "cannot accept a connection: %s", strerror(errno));
    evconnlistener_disable(listener);
    evtimer_add(server->accept_again, &pause);
}

static void start_accepting(struct http_server *server) {
    struct event_base *base = server->threads[0].base;
    server->accept_again = evtimer_new(base, on_accept_again, server);
    server->listener =
        evconnlistener_new(base, on_accept, server, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC,
                           0, server->listen_fd);
    CHECK(server->accept_again && server->listener);
    evconnlistener_set_error_cb(server->listener, on_accept_error);
    server->listen_fd = -1;
}

static void stop_accepting(struct http_server *server) {
    if (server->listener)
        evconnlistener_free(server->listener);
    if (server->accept_again)
        event_free(server->accept_again);
    server->listener = NULL;
    server->accept_again = NULL;
}

/* ---- event threads ---- */

static void on_flush(evutil_socket_t fd, short what, void *arg) {
    http_thread_flush(arg);
}

static int init_thread(struct http_server *server, int idx, struct error *err) {
    struct http_thread *t = &server->threads[idx];
    t->server = server;
    t->idx = idx;
    t->dirty_last = &t->dirty_first;
    pthread_mutex_init(&t->lock, NULL);
    t->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (t->wake_fd < 0)
        return error_set_errno(err, "cannot make an eventfd");
    t->base = event_base_new();
    if (!t->base)
        return error_set_errno(err, "cannot make an event base");
    t->wake = event_new(t->base, t->wake_fd, EV_READ | EV_PERSIST, on_wake, t);
    t->flush = event_new(t->base, -1, 0, on_flush, t);
    if (server->config.tick_ms && server->config.on_tick)
        t->tick = event_new(t->base, -1, 0, on_tick, t);
    CHECK(t->wake && t->flush && event_add(t->wake, NULL) == 0);
    return 0;
}

static void release_thread(struct http_thread *t) {
    if (!t->server)
        return;
    if (t->tick)
        event_free(t->tick);
    if (t->flush)
        event_free(t->flush);
    if (t->wake)
        event_free(t->wake);
    if (t->base)
        event_base_free(t->base);
    if (t->wake_fd >= 0)
        close(t->wake_fd);
    vec_release(&t->posts);
    vec_release(&t->taken);
    pthread_mutex_destroy(&t->lock);
}

/* Cuts what is left, runs what was posted, until neither makes more of the other. */
static void end_connections(struct http_thread *thread) {
    do {
        while (thread->conns) {
            for (struct http_conn *c = thread->conns; c; c = c->next)
                http_conn_lose(c, HTTP_CUT_ABORT);
            http_thread_flush(thread);
        }
    } while (run_posts(thread, true) || thread->conns);
    /* bufferevents are freed by a last turn of the loop */
    event_base_loop(thread->base, EVLOOP_NONBLOCK);
}

static void *thread_main(void *arg) {
    struct http_thread *thread = arg;
    arm_tick(thread);
    if (thread->idx == 0 && !atomic_load(&thread->server->draining))
        start_accepting(thread->server);
    event_base_loop(thread->base, EVLOOP_NO_EXIT_ON_EMPTY);
    if (thread->idx == 0)
        stop_accepting(thread->server);
    if (thread->tick)
        event_del(thread->tick);
    end_connections(thread);
    return NULL;
}

static int start_thread(struct http_thread *thread, struct error *err) {
    char name[16];
    sigset_t all, old;
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int rc = pthread_create(&thread->id, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc)
        return error_set(err, ERR_IO, "cannot start an event thread: %s", strerror(rc));
    snprintf(name, sizeof name, "http-%d", thread->idx);
    pthread_setname_np(thread->id, name);
    thread->started = true;
    return 0;
}

/* ---- the server ---- */

struct http_server *http_server_new(const struct http_config *config, struct error *err) {
    CHECK(config->on_request && config->thread_count >= 1 &&
          config->thread_count <= HTTP_THREADS_MAX);
    CHECK(config->low_water <= config->high_water && config->posts_max > 0);
    struct http_server *server = mem_alloc(sizeof *server);
    int rc = 0;
    server->config = *config;
    server->listen_fd = -1;
    server->limits = (struct http_limits){config->head_max_bytes, config->target_max_bytes,
                                          config->headers_max, config->body_max_bytes};
    server->seed = config->holders_seed ? config->holders_seed : random_u128().lo;
    http_networks_init(&server->networks, server->seed);
    server->connections.max = server->connected.max = config->connections_max;
    server->bodies.max = config->bodies_max_bytes;
    server->unread.max = config->unread_max_bytes;
    snprintf(server->host, sizeof server->host, "%s", config->host ? config->host : "127.0.0.1");
    signal(SIGPIPE, SIG_IGN);
    rc = open_listener(server, err);
    for (int i = 0; i < config->thread_count && !rc; i++)
        rc = init_thread(server, i, err);
    if (rc)
        http_server_free(&server);
    return server;
}

int http_server_start(struct http_server *server, struct error *err) {
    CHECK(!server->running);
    server->running = true;
    for (int i = server->config.thread_count - 1; i >= 0; i--) {
        int rc = start_thread(&server->threads[i], err);
        if (rc)
            return rc;
    }
    return 0;
}

uint16_t http_server_port(const struct http_server *server) {
    return server->port;
}
uint32_t http_server_connection_count(const struct http_server *server) {
    return atomic_load(&((struct http_server *)(uintptr_t)server)->connection_count);
}

static void drain_thread(void *arg) {
    struct http_thread *thread = arg;
    if (thread->idx == 0)
        stop_accepting(thread->server);
    for (struct http_conn *c = thread->conns; c; c = c->next)
        http_conn_drain(c);
}

void http_server_drain(struct http_server *server) {
    if (atomic_exchange(&server->draining, true))
        return;
    for (int i = 0; i < server->config.thread_count; i++)
        if (!post(&server->threads[i], drain_thread, &server->threads[i]))
            log_warn("cannot tell http thread %d to drain", i);
}

bool http_server_wait_drained(struct http_server *server, int64_t timeout_ms) {
    int64_t end = clock_ms() + timeout_ms;
    while (http_server_connection_count(server) > 0) {
        if (clock_ms() >= end)
            return false;
        sleep_ms(2);
    }
    return true;
}

static void stop_thread(struct http_thread *thread) {
    atomic_store(&thread->stopping, true);
    wake(thread);
}

void http_server_free(struct http_server **server_ptr) {
    struct http_server *server = *server_ptr;
    if (!server)
        return;
    for (int i = 0; i < HTTP_THREADS_MAX; i++)
        if (server->threads[i].started)
            stop_thread(&server->threads[i]);
    for (int i = 0; i < HTTP_THREADS_MAX; i++)
        if (server->threads[i].started)
            pthread_join(server->threads[i].id, NULL);
    for (int i = 0; i < HTTP_THREADS_MAX; i++)
        release_thread(&server->threads[i]);
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    http_networks_release(&server->networks);
    mem_free(server);
    *server_ptr = NULL;
}
