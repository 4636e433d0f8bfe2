#include "cli/talk.h"

#include "cli/model_path.h"
#include "cli/progress.h"
#include "gateway/calls/health.h"

#include "base/clock.h"
#include "base/loopback.h"
#include "formats/json.h"
#include "formats/json_document.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READY_MS = 120000, ANSWER_MS = 600000, PROBE_MS = 3000, LOG_TAIL_BYTES = 4000 };
enum { TMPDIR_BYTES = 64 };
#define RUN_DIR_NAME "trireme-talk-"

const struct option_foreign talk_foreign[TALK_FOREIGN_COUNT] = {
    {.flags = "--paged-attention --graphs", .note = "it is always so"},
    {.flags = "--verbose-prompt", .reason = "trireme render MODEL prints what a chat becomes"},
};

/* The private server ends with us (SIGTERM when this process is gone), in a session of its own so
 * that Ctrl-C is for us alone. */
static void become_server(const struct talk *t, const char *model, const char *log) {
    char port[16], threads[32], context[48], layers[48];
    snprintf(port, sizeof port, "%u", t->client.port);
    snprintf(threads, sizeof threads, "--threads=%" PRId64, t->settings->threads);
    snprintf(context, sizeof context, "--max-context=%" PRId64, t->settings->max_context);
    snprintf(layers, sizeof layers, "--layers-on-gpu=%" PRId64, t->settings->layers_on_gpu);
    /* we ask it over plain HTTP, on the loopback, without a key */
    static const char *const UNSET[] = {"TRIREME_TLS_CERT", "TRIREME_TLS_KEY",
                                        "TRIREME_API_KEY_FILE"};
    for (size_t i = 0; i < ARRAY_LEN(UNSET); i++)
        unsetenv(UNSET[i]);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (!t->settings->verbose) {
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, STDERR_FILENO);
        dup2(fd, STDOUT_FILENO);
    }
    const char *device = t->settings->cpu   ? "--device=cpu"
                         : t->settings->gpu ? "--device=cuda"
                                            : "--device=auto";
    if (t->settings->vocab)
        setenv("TRIREME_VOCAB", t->settings->vocab, 1);
    if (t->settings->vocab_dir)
        setenv("TRIREME_VOCAB_DIR", t->settings->vocab_dir, 1);
    execl("/proc/self/exe", "trireme", "serve", "--port", port, "--run-dir", t->run_dir, threads,
          context, device, layers, "--drain-timeout=0", "--stop-timeout=1s", "--model", model,
          (char *)NULL);
    _exit(126);
}

static void log_name(const struct talk *t, char out[128]) {
    snprintf(out, 128, "%s/log", t->run_dir);
}

/* False: there is nothing in it. */
static bool show_log(const struct talk *t) {
    char path[128], text[LOG_TAIL_BYTES];
    log_name(t, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    off_t len = lseek(fd, 0, SEEK_END);
    ssize_t n =
        pread(fd, text, sizeof text, len > (off_t)sizeof text ? len - (off_t)sizeof text : 0);
    if (n > 0)
        fwrite(text, 1, (size_t)n, stderr);
    close(fd);
    return n > 0;
}

static int wait_ready(struct talk *t, struct error *err) {
    struct progress progress;
    struct buf body;
    progress_begin(&progress, "loading the model");
    buf_init(&body, 1 << 20);
    int rc = ERR_TIMEOUT;
    for (int64_t end = clock_ms() + READY_MS; clock_ms() < end; sleep_ms(30)) {
        struct error ignored;
        buf_reset(&body);
        if (api_call(&t->client, "/health/ready", NULL, &body, PROBE_MS, &ignored) == 200) {
            rc = 0;
            break;
        }
        progress_show(&progress, 0, 0);
        if (strstr(buf_text(&body), HEALTH_BROKEN)) {
            rc = error_set(err, ERR_INVALID, "the model's tokenizer or template cannot be used");
            break;
        }
        if (waitpid(t->server_pid, NULL, WNOHANG) == t->server_pid) {
            t->server_pid = 0;
            rc = error_set(err, ERR_CLOSED, "the server ended before it was ready");
            break;
        }
    }
    if (rc == ERR_TIMEOUT)
        error_set(err, rc, "the server was not ready within %d s", READY_MS / 1000);
    progress_end(&progress);
    buf_release(&body);
    return rc;
}

/* In TMPDIR, unless the names of sockets would be too long there. */
static int make_run_dir(struct talk *t, struct error *err) {
    const char *where = getenv("TMPDIR");
    if (!where || where[0] != '/' || strlen(where) > TMPDIR_BYTES)
        where = "/tmp";
    snprintf(t->run_dir, sizeof t->run_dir, "%s/" RUN_DIR_NAME "XXXXXX", where);
    if (mkdtemp(t->run_dir))
        return 0;
    t->run_dir[0] = 0;
    return error_set_errno(err, "cannot make a folder in '%s'", where);
}

static int serve_path(struct talk *t, const char *model, struct error *err) {
    char log[128], url[64];
    uint16_t port;
    int rc = loopback_free_port(&port, err);
    if (rc)
        return rc;
    rc = make_run_dir(t, err);
    if (rc)
        return rc;
    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    rc = api_client_init(&t->client, url, NULL, err);
    if (rc)
        return rc;
    log_name(t, log);
    fflush(NULL);
    t->server_pid = fork();
    if (t->server_pid < 0)
        return error_set_errno(err, "cannot start a server");
    if (t->server_pid == 0)
        become_server(t, model, log);
    int64_t begin_ms = clock_ms();
    rc = wait_ready(t, err);
    t->load_ms = clock_ms() - begin_ms;
    if (rc && !t->settings->verbose && !show_log(t))
        rc = error_set(err, rc,
                       "the server could not be started, and wrote nothing to its log in '%s': is "
                       "there room on the disk?",
                       t->run_dir);
    return rc;
}

/* A hub's model is downloaded first, where its progress is seen. */
static int start_server(struct talk *t, const char *model, struct error *err) {
    char *path;
    int rc = model_path_find(model, &path, NULL, err);
    if (!rc)
        rc = serve_path(t, path ? path : model, err);
    mem_free(path);
    return rc;
}

int talk_begin(struct talk *t, const struct talk_settings *settings, const char *model,
               struct error *err) {
    *t = (struct talk){.settings = settings, .show_reasoning = settings->show_think};
    if (settings->url && settings->vocab)
        return error_set(err, ERR_INVALID,
                         "a running server has a vocabulary: --vocab is for one "
                         "that is started for this");
    if (settings->url)
        return api_client_init(&t->client, settings->url, settings->api_key, err);
    int rc = start_server(t, model, err);
    if (rc)
        talk_end(t);
    return rc;
}

/* The folder is ours alone (mkdtemp) and flat. */
static void clear_folder(const char *path) {
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    rmdir(path);
}

void talk_end(struct talk *t) {
    CHECK(!t->run_dir[0] ||
          strstr(t->run_dir, "/" RUN_DIR_NAME)); /* it is removed, with all in it */
    if (t->server_pid > 0) {
        kill(t->server_pid, SIGTERM);
        while (waitpid(t->server_pid, NULL, 0) < 0 && errno == EINTR) {}
    }
    t->server_pid = 0;
    if (!t->run_dir[0])
        return;
    clear_folder(t->run_dir);
    t->run_dir[0] = 0;
}

/* --- one answer --- */

struct reply {
    struct talk *talk;
    struct buf *answer;
    bool in_reasoning;
    struct error *err;
    int rc;
};

/* What an event adds to the answer: of a chat, or of a completion. */
static const char *text_of(const cJSON *event) {
    const char *text = json_document_text(event, "choices.0.delta.content");
    return text ? text : json_document_text(event, "choices.0.text");
}

static const char *reasoning_of(const cJSON *event) {
    const char *text = json_document_text(event, "choices.0.delta.reasoning_content");
    return text ? text : json_document_text(event, "choices.0.delta.reasoning");
}

static void count_event(struct talk_figures *f, const cJSON *event, bool has_text) {
    const cJSON *tokens = json_document_find(event, "usage.completion_tokens");
    if (cJSON_IsNumber(tokens))
        f->tokens = (int64_t)tokens->valuedouble;
    if (!has_text)
        return;
    f->last_ms = clock_ms();
    if (!f->first_ms)
        f->first_ms = f->last_ms;
    if (!cJSON_IsNumber(tokens))
        f->tokens++;
}

/* Thoughts are dim on a terminal; the answer begins on a line of its own. */
static void print_reasoning(struct reply *reply, const char *thought, const char *text) {
    bool dims = isatty(STDOUT_FILENO);
    if (thought && *thought) {
        printf("%s%s", reply->in_reasoning || !dims ? "" : "\033[2m", thought);
        reply->in_reasoning = true;
    }
    if (text && *text && reply->in_reasoning) {
        printf("%s\n", dims ? "\033[0m" : "");
        reply->in_reasoning = false;
    }
    fflush(stdout);
}

/* Prints an event's text. An "error" event, or one that is no JSON, ends the answer. */
static bool print_event(void *ctx, struct bytes data) {
    struct reply *reply = ctx;
    cJSON *event;
    if (bytes_equal(data, bytes_str("[DONE]")))
        return false;
    reply->rc = json_document_parse(data, &event, reply->err);
    if (reply->rc)
        return false;
    const char *text = text_of(event), *thought = reasoning_of(event);
    count_event(&reply->talk->figures, event, text || thought);
    if (reply->talk->show_reasoning)
        print_reasoning(reply, thought, text);
    if (text) {
        fputs(text, stdout);
        fflush(stdout);
    }
    if (text && reply->answer)
        buf_add_str(reply->answer, text);
    bool failed = json_document_find(event, "error") != NULL;
    cJSON_Delete(event);
    if (failed) {
        char *why = api_error_text(data);
        reply->rc =
            error_set(reply->err, ERR_CLOSED, "%s", *why ? why : "the server ended the answer");
        mem_free(why);
    }
    return !failed;
}

/* What is at its default is not sent: other servers may not know it. */
static void add_number(struct json_writer *w, const char *name, double value, double fallback) {
    if (value == fallback)
        return;
    json_key(w, name);
    json_double(w, value);
}

static void build_body(const struct talk_settings *s, const char *json, struct buf *body) {
    struct json_writer w;
    json_writer_init(&w, body);
    json_begin_object(&w);
    if (s->url && s->model) {
        json_key(&w, "model");
        json_string(&w, s->model);
    }
    json_key(&w, s->raw ? "prompt" : "messages");
    json_raw(&w, bytes_str(json));
    json_key(&w, "max_tokens");
    json_int(&w, s->max_tokens);
    json_key(&w, "temperature");
    json_double(&w, s->temperature);
    json_key(&w, "top_p");
    json_double(&w, s->top_p);
    add_number(&w, "min_p", s->min_p, 0);
    add_number(&w, "repeat_last_n", (double)s->repeat_last_n, -1);
    add_number(&w, "repetition_penalty", s->repetition_penalty, 1);
    add_number(&w, "frequency_penalty", s->frequency_penalty, 0);
    add_number(&w, "presence_penalty", s->presence_penalty, 0);
    if (s->top_k) {
        json_key(&w, "top_k");
        json_int(&w, s->top_k);
    }
    if (s->seed >= 0) {
        json_key(&w, "seed");
        json_int(&w, s->seed);
    }
    json_key(&w, "stream");
    json_bool(&w, true);
    json_key(&w, "stream_options");
    json_begin_object(&w);
    json_key(&w, "include_usage");
    json_bool(&w, true);
    json_end_object(&w);
    json_end_object(&w);
}

void talk_stats(const struct talk *t) {
    const struct talk_figures *f = &t->figures;
    double seconds = (double)(f->last_ms - f->first_ms) / 1000;
    if (!t->settings->stats)
        return;
    fprintf(stderr, "[stats] ");
    if (t->server_pid)
        fprintf(stderr, "model loaded in %.2f s | ", (double)t->load_ms / 1000);
    fprintf(stderr, "%" PRId64 " tokens generated", f->tokens);
    if (f->first_ms)
        fprintf(stderr, " | first after %" PRId64 " ms", f->first_ms - f->begin_ms);
    if (seconds > 0 && f->tokens > 1)
        fprintf(stderr, " | %.1f T/s", (double)(f->tokens - 1) / seconds);
    fprintf(stderr, "\n");
}

bool talk_was_stopped(const struct talk *t) {
    return t->client.stop && *t->client.stop;
}

int talk_ask(struct talk *t, const char *json, struct buf *answer, struct error *err) {
    struct buf body, out;
    CHECK(t->client.port && t->settings);
    struct reply reply = {.talk = t, .answer = answer, .err = err};
    t->figures = (struct talk_figures){.begin_ms = clock_ms()};
    buf_init(&body, 0);
    buf_init(&out, 0);
    build_body(t->settings, json, &body);
    const char *path = t->settings->raw ? "/v1/completions" : "/v1/chat/completions";
    int rc =
        api_stream(&t->client, path, buf_text(&body), print_event, &reply, &out, ANSWER_MS, err);
    if (rc > 0 && rc != 200) {
        char *why = api_error_text(buf_bytes(&out));
        if (strstr(why, "no chat template"))
            rc = error_set(err, ERR_UNSUPPORTED,
                           "this model has no chat template; `trireme run --raw` completes a text "
                           "as it is");
        else
            rc =
                error_set(err, ERR_INVALID, "the server answers %d%s%s", rc, *why ? ": " : "", why);
        mem_free(why);
    }
    if (reply.in_reasoning && isatty(STDOUT_FILENO))
        printf("\033[0m");
    buf_release(&body);
    buf_release(&out);
    return rc < 0 ? rc : reply.rc;
}
