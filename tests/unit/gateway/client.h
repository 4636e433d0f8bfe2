/*
 * client.h - a plain blocking HTTP client for the gateway's tests, and an answer taken apart with
 * cJSON (not with our own reader).
 */
#ifndef TESTS_UNIT_GATEWAY_CLIENT_H
#define TESTS_UNIT_GATEWAY_CLIENT_H

#include <arpa/inet.h>
#include <cJSON.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

enum { CLIENT_CHOICES = 8 };

struct answer {
    int status;           /* 0: no answer at all */
    struct buf raw, body; /* as received; without head and chunking */
    struct buf text[CLIENT_CHOICES];
    /* of the first choice; calls as NAME ID ARGUMENTS, a line each, pieces joined */
    struct buf reasoning, calls;
    char finish[CLIENT_CHOICES][16];
    int events, pings, prompt_tokens, completion_tokens, cached_tokens;
    bool done, error_event;
};

static inline void answer_init(struct answer *a) {
    memset(a, 0, sizeof *a);
}
static inline void answer_release(struct answer *a) {
    buf_release(&a->raw);
    buf_release(&a->body);
    for (int i = 0; i < CLIENT_CHOICES; i++)
        buf_release(&a->text[i]);
    buf_release(&a->reasoning);
    buf_release(&a->calls);
}

/* From this address of the loopback. */
static inline int client_connect_from(uint16_t port, uint32_t own) {
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {htonl(own)}};
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval timeout = {60, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    /* unbound, the system chooses the usual address, and a port that others may share */
    if ((own != INADDR_LOOPBACK && bind(fd, (struct sockaddr *)&from, sizeof from) < 0) ||
        connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}
static inline int client_connect(uint16_t port) {
    return client_connect_from(port, INADDR_LOOPBACK);
}

static inline int client_open_from(uint16_t port, uint32_t own, const char *method,
                                   const char *path, const char *headers, const char *body) {
    struct buf out;
    int fd = client_connect_from(port, own);
    if (fd < 0)
        return fd;
    buf_init(&out, 0);
    buf_addf(&out, "%s %s HTTP/1.1\r\n%s%sConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
             method, path, headers && strstr(headers, "Host: ") ? "" : "Host: localhost\r\n",
             headers && strstr(headers, "Content-Type: ") ? ""
                                                          : "Content-Type: application/json\r\n",
             headers ? headers : "", body ? strlen(body) : 0, body ? body : "");
    for (size_t at = 0; at < out.len;) {
        ssize_t n = write(fd, out.data + at, out.len - at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    buf_release(&out);
    return fd;
}

static inline int client_open(uint16_t port, const char *method, const char *path,
                              const char *headers, const char *body) {
    return client_open_from(port, INADDR_LOOPBACK, method, path, headers, body);
}

/* Undoes chunked coding. */
static inline void client_unchunk(struct answer *a, const char *at, const char *end) {
    while (at < end) {
        char *after;
        unsigned long len = strtoul(at, &after, 16);
        at = after + 2;
        if (len == 0 || at + len > end)
            return;
        buf_add(&a->body, at, len);
        at += len + 2;
    }
}

static inline const cJSON *member(const cJSON *object, const char *name) {
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static inline const char *client_string(const cJSON *object, const char *name) {
    const cJSON *v = member(object, name);
    return cJSON_IsString(v) ? v->valuestring : "";
}

static inline void add_json(const cJSON *value, struct buf *out) {
    char *text = cJSON_PrintUnformatted(value);
    buf_add_str(out, text);
    cJSON_free(text);
}

static inline bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static inline bool ends(const char *text, const char *with) {
    size_t len = strlen(text), tail = strlen(with);
    return len >= tail && strcmp(text + len - tail, with) == 0;
}

static inline void client_take_calls(struct answer *a, const cJSON *holder) {
    const cJSON *call;
    buf_add_str(&a->reasoning, client_string(holder, "reasoning"));
    cJSON_ArrayForEach(call, cJSON_GetObjectItemCaseSensitive(holder, "tool_calls")) {
        const cJSON *function = cJSON_GetObjectItemCaseSensitive(call, "function");
        const char *name = client_string(function, "name");
        if (*name && a->calls.len)
            buf_add_byte(&a->calls, '\n');
        if (*name)
            buf_addf(&a->calls, "%s %s ", name, client_string(call, "id"));
        buf_add_str(&a->calls, client_string(function, "arguments"));
    }
}

static inline void client_take_json(struct answer *a, const char *text, size_t len) {
    cJSON *json = cJSON_ParseWithLength(text, len), *choice;
    const cJSON *usage = cJSON_GetObjectItemCaseSensitive(json, "usage");
    a->error_event |= cJSON_GetObjectItemCaseSensitive(json, "error") != NULL;
    cJSON_ArrayForEach(choice, cJSON_GetObjectItemCaseSensitive(json, "choices")) {
        int index = cJSON_GetObjectItemCaseSensitive(choice, "index")->valueint;
        const cJSON *holder = cJSON_GetObjectItemCaseSensitive(choice, "delta");
        if (!holder)
            holder = cJSON_GetObjectItemCaseSensitive(choice, "message");
        const cJSON *piece = holder ? cJSON_GetObjectItemCaseSensitive(holder, "content")
                                    : cJSON_GetObjectItemCaseSensitive(choice, "text");
        const cJSON *finish = cJSON_GetObjectItemCaseSensitive(choice, "finish_reason");
        if (index < 0 || index >= CLIENT_CHOICES)
            continue;
        if (index == 0)
            client_take_calls(a, holder);
        if (cJSON_IsString(piece))
            buf_add_str(&a->text[index], piece->valuestring);
        if (cJSON_IsString(finish))
            snprintf(a->finish[index], sizeof a->finish[index], "%s", finish->valuestring);
    }
    if (cJSON_GetObjectItemCaseSensitive(usage, "prompt_tokens")) { /* OpenAI's */
        a->prompt_tokens = cJSON_GetObjectItemCaseSensitive(usage, "prompt_tokens")->valueint;
        a->completion_tokens =
            cJSON_GetObjectItemCaseSensitive(usage, "completion_tokens")->valueint;
        a->cached_tokens =
            cJSON_GetObjectItemCaseSensitive(
                cJSON_GetObjectItemCaseSensitive(usage, "prompt_tokens_details"), "cached_tokens")
                ->valueint;
    }
    cJSON_Delete(json);
}

static inline const char *client_blank_line(const char *at, const char *end) {
    while ((at = memchr(at, '\n', (size_t)(end - at))) && at + 1 < end && at[1] != '\n')
        at++;
    return at && at + 1 < end ? at : NULL;
}

static inline void client_take_events(struct answer *a) {
    const char *at = buf_text(&a->body), *body_end = at + a->body.len, *end;
    for (; (end = client_blank_line(at, body_end)); at = end + 2) {
        if (*at == ':')
            a->pings++;
        if (strncmp(at, "data: ", 6) != 0)
            continue;
        a->events++;
        if (strncmp(at + 6, "[DONE]", 6) == 0)
            a->done = true;
        else
            client_take_json(a, at + 6, (size_t)(end - at - 6));
    }
}

/* Reads until the end, closes, takes the answer apart. */
static inline void client_finish(int fd, struct answer *a) {
    char data[16384];
    ssize_t n;
    while ((n = read(fd, data, sizeof data)) > 0)
        buf_add(&a->raw, data, (size_t)n);
    close(fd);
    const char *head_end = a->raw.data ? strstr(a->raw.data, "\r\n\r\n") : NULL;
    if (!head_end || sscanf(a->raw.data, "HTTP/1.1 %d", &a->status) != 1)
        return;
    const char *chunked = strstr(a->raw.data, "Transfer-Encoding: chunked"),
               *end = a->raw.data + a->raw.len;
    if (chunked && chunked < head_end)
        client_unchunk(a, head_end + 4, end);
    else
        buf_add(&a->body, head_end + 4, (size_t)(end - head_end - 4));
    const char *events = strstr(a->raw.data, "text/event-stream");
    if (events && events < head_end)
        client_take_events(a);
    else
        client_take_json(a, buf_text(&a->body), a->body.len);
}

static inline void client_request(uint16_t port, const char *method, const char *path,
                                  const char *headers, const char *body, struct answer *a) {
    answer_init(a);
    int fd = client_open(port, method, path, headers, body);
    if (fd >= 0)
        client_finish(fd, a);
}

static inline int client_status(uint16_t port, const char *path) {
    struct answer a;
    client_request(port, "GET", path, NULL, NULL, &a);
    int status = a.status;
    answer_release(&a);
    return status;
}

/* The answer's field, or ""; until the next call. */
static inline const char *client_field(const struct answer *a, const char *name) {
    static char value[256];
    char key[64];
    const char *end = strstr(buf_text(&a->raw), "\r\n\r\n");
    snprintf(key, sizeof key, "\r\n%s: ", name);
    const char *at = strstr(buf_text(&a->raw), key);
    value[0] = 0;
    if (at && at < end)
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at + strlen(key), "\r"),
                 at + strlen(key));
    return value;
}

#endif
