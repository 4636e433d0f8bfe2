/*
 * test_running.c - which servers are found on this machine, and which of several is meant.
 */
#include "base/fsutil.h"
#include "check.h"
#include "cli/run_dir.h"
#include "cli/running.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int inputs[8];
static size_t input_count;

/* A process of this name that waits to be killed by the caller. */
static int start_called(const char *name) {
    int started[2], input[2], pid;
    char byte;
    if (pipe2(started, O_CLOEXEC) || pipe2(input, O_CLOEXEC) || (pid = fork()) < 0)
        abort();
    if (!pid) {
        dup2(input[0], STDIN_FILENO);
        execl("/bin/cat", name, (char *)NULL);
        _exit(127);
    }
    close(started[1]);
    close(input[0]);
    while (read(started[0], &byte, 1) < 0) {} /* closed by exec: it has its name */
    close(started[0]);
    inputs[input_count++] = input[1];
    return pid;
}

static size_t lines_of(const char *text, const char *line) {
    size_t count = 0, len = strlen(line);
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
        count += strcspn(at, "\n") == len && !memcmp(at, line, len);
    return count;
}

TEST(running_servers_are_found_by_their_processes_names) {
    char dir[] = "/tmp/trireme-running-XXXXXX", name[80], longer[80], gone[80];
    struct buf found = {0};
    EXPECT(mkdtemp(dir) != NULL);
    snprintf(name, sizeof name, "trireme(%s)", dir);
    snprintf(gone, sizeof gone, "trireme(%s/gone)", dir);
    snprintf(longer, sizeof longer, "trireme(%s) worker", dir);
    const char *const names[] = {name, name, gone, longer, "trireme()", "trireme(relative)"};
    int pids[ARRAY_LEN(names)];
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        pids[i] = start_called(names[i]);
    running_list(&found);
    EXPECT_EQ(lines_of(buf_text(&found), dir), 1);
    EXPECT(!strstr(buf_text(&found), "gone") && !strstr(buf_text(&found), "relative"));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
        close(inputs[i]);
    }
    buf_reset(&found);
    running_list(&found);
    EXPECT_EQ(lines_of(buf_text(&found), dir), 0);
    buf_release(&found);
    EXPECT_EQ(rmdir(dir), 0);
}

TEST(running_server_is_the_only_one_or_that_of_the_default_port) {
    struct error err;
    struct buf text = {0};
    char *usual = run_dir_default(8000), *chosen = running_choose("", &err);
    EXPECT_STR(chosen, usual);
    mem_free(chosen);
    chosen = running_choose("/run/a\n", &err);
    EXPECT_STR(chosen, "/run/a");
    mem_free(chosen);
    EXPECT(running_choose("/run/a\n/run/b\n", &err) == NULL);
    EXPECT(strstr(err.text, "/run/a, /run/b") && strstr(err.text, "--run-dir"));
    buf_addf(&text, "/run/a\n%s\n/run/b\n", usual);
    chosen = running_choose(buf_text(&text), &err);
    EXPECT_STR(chosen, usual);
    mem_free(chosen);
    buf_reset(&text);
    buf_addf(&text, "%s0\n", usual); /* port 80000: another name that begins alike */
    chosen = running_choose(buf_text(&text), &err);
    EXPECT(chosen && strcmp(chosen, usual) != 0);
    mem_free(chosen);
    mem_free(usual);
    buf_release(&text);
}
