/* What is said to whoever calls a command wrongly, before anything is read or asked; and what trireme
 * status, scale, load and their like ask of a supervisor and make of its answers. */
#include "run_commands.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#define NOWHERE "http://127.0.0.1:1"

TEST(what_is_missing_or_too_much_is_said) {
    static const struct expected ROWS[] = {
        {{"run"}, NULL, 2, NULL, "trireme run: give a model folder and a prompt\n"},
        {{"run", "m"}, NULL, 1, NULL, "trireme run: there is no prompt: standard input is empty\n"},
        {{"run", "--prompt=p"}, NULL, 2, NULL, "trireme run: give a model folder\n"},
        {{"run", "--url=" NOWHERE},
         NULL,
         1,
         NULL,
         "trireme run: there is no prompt: standard input is empty\n"},
        {{"run", "--model=m"},
         NULL,
         1,
         NULL,
         "trireme run: there is no prompt: standard input is empty\n"},
        {{"run", "--cpu", "--gpu", "m", "p"},
         NULL,
         2,
         NULL,
         "trireme run: --cpu and --gpu: which of them?\n"},
        {{"run", "--cpu", "--url=" NOWHERE, "p"},
         NULL,
         2,
         NULL,
         "trireme run: a running server computes where it was told to\n"},
        {{"run", "--gpu", "--url=" NOWHERE, "p"},
         NULL,
         2,
         NULL,
         "trireme run: a running server computes where it was told to\n"},
        {{"run", "--url=" NOWHERE, "m", "p"},
         NULL,
         2,
         NULL,
         "trireme run: unexpected argument 'p': '" NOWHERE "' (--url, --port or TRIREME_PORT)"},
        {{"run", "--url=" NOWHERE, "--prompt=p", "m"},
         NULL,
         2,
         NULL,
         "trireme run: unexpected argument 'm': '" NOWHERE "'"},
        {{"run", "--prompt=p", "m", "q"},
         NULL,
         2,
         NULL,
         "trireme run: unexpected argument 'q': --prompt was given\n"},
        {{"run", "m", "p", "q"}, NULL, 2, NULL, "trireme run: unexpected argument 'q'"},
        {{"run", "--prompt=p", "--url=" NOWHERE}, NULL, 1, "\n", "trireme run: "},
        {{"generate"}, NULL, 2, NULL, "trireme generate: give a model folder and a prompt\n"},
        {{"chat"}, NULL, 2, NULL, "trireme chat: give a model folder\n"},
        {{"chat", "m", "n"}, NULL, 2, NULL, "trireme chat: unexpected argument 'n'"},
        {{"info"}, NULL, 2, NULL, "trireme info: give a model folder\n"},
        {{"perplexity"},
         NULL,
         2,
         NULL,
         "trireme perplexity: give a model and a text: MODEL FILE, or --model and --file\n"},
        {{"perplexity", "m"}, NULL, 2, NULL, "trireme perplexity: give a model and a text"},
        {{"perplexity", "--file=f"}, NULL, 2, NULL, "trireme perplexity: give a model and a text"},
        {{"convert", "m"}, NULL, 2, NULL, "trireme convert: give a model and where to write\n"},
        {{"convert", "--out=o"},
         NULL,
         2,
         NULL,
         "trireme convert: give a model and where to write\n"},
        {{"quantize", "m", "o"},
         NULL,
         2,
         NULL,
         "trireme quantize: give a model, where to write, and a type\n"},
        {{"quantize", "m", "o", "--type=q4_0"},
         NULL,
         2,
         NULL,
         "trireme quantize: --out must end with .gguf for --type 'q4_0'\n"},
        {{"quantize", "m", "o.gguf", "--type=fp8"},
         NULL,
         2,
         NULL,
         "trireme quantize: --type 'fp8' goes into a folder, not into a .gguf file\n"},
        {{"quantize", "m", "o.gguf", "--type=q9"},
         NULL,
         2,
         NULL,
         "trireme quantize: --type 'q9' is no type that can be written; known: "},
        {{"convert", "m", "o", "--type=fp8"},
         NULL,
         2,
         NULL,
         "trireme convert: --type 'fp8' is no type that can be written; known: "},
        {{"convert", MODEL, MODEL}, NULL, 2, NULL, "cannot be written over while it is read\n"},
        {{"convert", MODEL, MODEL "/../model"},
         NULL,
         2,
         NULL,
         "cannot be written over while it is read\n"},
        {{"pull"}, NULL, 2, NULL, "which model? give ORG/NAME or ollama:NAME\n"},
        {{"pull", "ollama:a", "--revision=b"},
         NULL,
         2,
         NULL,
         "models of Ollama take their tag behind a colon: ollama:NAME:TAG\n"},
        {{"pull", "a/b", "--file=c"},
         NULL,
         2,
         NULL,
         "trireme pull: 'a/b@main:c' is no model's name: behind the revision"},
        {{"delete"}, NULL, 2, NULL, "which model? give ORG/NAME or ollama:NAME\n"},
        {{"delete", "a/b:c.gguf"},
         NULL,
         1,
         NULL,
         "files are not deleted one by one: leave out ':c.gguf'"},
        {{"delete", "a/b:Q4_K_M"},
         NULL,
         1,
         NULL,
         "files are not deleted one by one: leave out ':Q4_K_M'"},
        {{"doctor", "m", "n"}, NULL, 2, NULL, "trireme doctor: unexpected argument 'n'"},
        {{"scale"}, NULL, 2, NULL, "trireme scale: how many workers?\n"},
        {{"load"}, NULL, 2, NULL, "trireme load: which model?\n"},
        {{"unload"}, NULL, 2, NULL, "trireme unload: which model?\n"},
        {{"stop"}, NULL, 2, NULL, "trireme stop: which model?\n"},
        {{"remove"}, NULL, 2, NULL, "trireme remove: which model?\n"},
        {{"load", "a", "b"}, NULL, 2, NULL, "trireme load: unexpected argument 'b'"},
        {{"scale", "1", "a", "b"}, NULL, 2, NULL, "trireme scale: unexpected argument 'b'"},
        {{"status", "a"}, NULL, 2, NULL, "trireme status: unexpected argument 'a'"},
        {{"status", "--run-dir=/nowhere"},
         NULL,
         1,
         NULL,
         "trireme status: no supervisor answers on '/nowhere/control.sock' (No such file or "
         "directory); is trireme serve running with this --run-dir or --port?"},
        {{"ps", "--url=" NOWHERE}, NULL, 1, NULL, "trireme ps: "},
        {{"render"}, NULL, 2, NULL, "trireme render: --template FILE is needed\n"},
        {{"render", "t", "--now=noon"},
         NULL,
         2,
         NULL,
         "trireme render: --now 'noon' is no time such as 2025-07-10T12:00:00\n"},
        {{"decode", "--model=m", "--vocab=v"},
         NULL,
         2,
         NULL,
         "trireme decode: give a model, or --vocab\n"},
        {{"bench", "--url=" NOWHERE}, NULL, 2, NULL, "trireme bench: say serve, compare, plot"},
        {{"keygen"}, NULL, 2, NULL, "trireme keygen: which role? gateway, worker, supervisor"},
        {{"keygen", "captain", "--out=x"}, NULL, 2, NULL, "trireme keygen: which role?"},
        {{"keygen", "worker"}, NULL, 2, NULL, "trireme keygen: where to? give --out FILE\n"},
        {{"keygen", "all"}, NULL, 2, NULL, "trireme keygen: where to? give --out FOLDER\n"},
    };
    setenv("HF_HOME", in_folder("hf"), 1);
    check_rows(ROWS, ARRAY_LEN(ROWS));
}

/* ---- a supervisor's end ---- */

/* Answers one line after the other; keeps what it was asked. */
struct supervisor_end {
    const char *const *replies;
    int fd;
    struct buf asked;
};

static void *answer_lines(void *arg) {
    struct supervisor_end *s = arg;
    for (size_t i = 0; s->replies[i]; i++) {
        int fd = accept(s->fd, NULL, NULL);
        char byte = 0;
        while (recv(fd, &byte, 1, 0) == 1) {
            buf_add_byte(&s->asked, byte);
            if (byte == '\n')
                break;
        }
        CHECK(send(fd, s->replies[i], strlen(s->replies[i]), MSG_NOSIGNAL) >= 0);
        close(fd);
    }
    return NULL;
}

/* What a command does whose lines are answered so; asked: all that it asks. */
static int run_answered(const char *const *words, const char *const *replies, struct buf *asked) {
    struct supervisor_end s = {.replies = replies};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    pthread_t thread;
    snprintf(at.sun_path, sizeof at.sun_path, "%s", in_folder("control.sock"));
    unlink(at.sun_path);
    s.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(s.fd >= 0 && !bind(s.fd, (struct sockaddr *)&at, sizeof at) && !listen(s.fd, 4));
    CHECK(!pthread_create(&thread, NULL, answer_lines, &s));
    int code = run("", words);
    shutdown(s.fd, SHUT_RDWR); /* a line that nobody asked */
    pthread_join(thread, NULL);
    close(s.fd);
    buf_release(asked);
    *asked = s.asked;
    return code;
}

TEST(supervisors_are_asked_and_answer) {
    static const struct {
        const char *words[4], *replies[3], *asked;
        int code;
        const char *out, *err;
    } ROWS[] = {
        {{"status"}, {"ok a; b;c\nmore"}, "status\n", 0, "a\nb\nc\n", ""},
        {{"status"}, {"a; b\n"}, "status\n", 0, "a\nb\n", ""}, /* of one that says no ok */
        {{"scale", "2"}, {"ok 2 workers\n"}, "scale 2\n", 0, "2 workers\n", ""},
        {{"scale", "2", "m"}, {"ok\n"}, "scale 2 m\n", 0, "ok\n", ""},
        {{"load", "m"}, {"error it is large\n"}, "load m\n", 1, "", "trireme load: it is large\n"},
        {{"load", "/nowhere/m"},
         {"unknown-model no m\n"},
         "load /nowhere/m\n",
         1,
         "",
         "trireme load: which model? '/nowhere/m' is neither one of this server, nor a path, nor"},
        {{"load", MODEL},
         {"unknown-model no m\n", "ok done\n"},
         "load " MODEL "\nadd " MODEL "\n",
         0,
         "done\n",
         ""},
        {{"load", "n=" MODEL ",tp=2"},
         {"unknown-model no m\n", "ok done\n"},
         "load n=" MODEL ",tp=2\nadd n=" MODEL ",tp=2\n",
         0,
         "done\n",
         ""},
        {{"load", MODEL ",a=b"},
         {"unknown-model no m\n", "ok done\n"},
         "load " MODEL ",a=b\nadd " MODEL ",a=b\n",
         0,
         "done\n",
         ""},
        {{"unload", "m"},
         {"unknown-model no m here\n"},
         "unload m\n",
         1,
         "",
         "trireme unload: no m here\n"},
        {{"stop", "m"}, {"error no\n"}, "unload m\n", 1, "", "trireme stop: no\n"},
        {{"reload"}, {"ok\n"}, "reload\n", 0, "ok\n", ""},
        {{"reload", "m"}, {"ok it is\n"}, "reload m\n", 0, "it is\n", ""},
        {{"remove", "m"}, {"ok it is\n"}, "remove m\n", 0, "it is\n", ""},
        {{"status"}, {""}, "status\n", 1, "", "trireme status: the supervisor hung up\n"},
    };
    struct buf asked = {0};
    char *real = realpath(MODEL, NULL); /* as a model is added */
    bool same = real && !strcmp(real, MODEL);
    free(real);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        if (!same && strstr(ROWS[i].asked, "\nadd "))
            continue; /* the sources lie behind a link */
        const char *words[6] = {ROWS[i].words[0], "--run-dir", folder};
        for (size_t k = 1; k < 4 && ROWS[i].words[k]; k++)
            words[k + 2] = ROWS[i].words[k];
        int code = run_answered(words, ROWS[i].replies, &asked);
        if (code != ROWS[i].code || strcmp(buf_text(&asked), ROWS[i].asked) ||
            strcmp(buf_text(&out), ROWS[i].out) ||
            (*ROWS[i].err ? !strstr(buf_text(&err), ROWS[i].err) : err.len > 0))
            check_fail(__FILE__, __LINE__, "row %zu: exit code %d, asks '%s', prints '%s' and '%s'",
                       i, code, buf_text(&asked), buf_text(&out), buf_text(&err));
    }
    buf_release(&asked);
}

/* Each line of a state is a process, a model, or what the supervisor says of itself. */
TEST(a_state_is_one_object) {
    static const char *const REPLIES[] = {
        "ok worker 0 running process 17 (adopted) for 3 s of m; gateway 1 starting process 18 for 0 "
        "s; model loaded, 3 running or waiting: m; model unloaded, 0 running or waiting: n (cannot "
        "be loaded: it is torn); serving\n",
        NULL};
    static const char *const WORDS[] = {"status", "--json", "--run-dir", folder, NULL};
    struct buf asked = {0};
    EXPECT_EQ(run_answered(WORDS, REPLIES, &asked), 0);
    char *to = out.data; /* without the white space of the layout */
    for (const char *from = buf_text(&out); from < out.data + out.len; from++)
        if (*from != '\n' && *from != '\t')
            *to++ = *from;
    *to = 0;
    EXPECT_STR(out.data,
               "{\"processes\":[{\"role\":\"worker\",\"index\":0,\"state\":\"running\",\"pid\":17,"
               "\"adopted\":true,\"seconds\":3,\"model\":\"m\"}, {\"role\":\"gateway\",\"index\":1,"
               "\"state\":\"starting\",\"pid\":18,\"adopted\":false,\"seconds\":0}],\"models\":["
               "{\"model\":\"m\",\"state\":\"loaded\",\"busy\":3}, {\"model\":\"n\",\"state\":"
               "\"unloaded\",\"busy\":0,\"reason\":\"it is torn\"}],\"state\":\"serving\"}");
    buf_release(&asked);
}
