#!/usr/bin/env python3
"""shell_completion.py zsh PREFIX TEXT -- WANTED: types TEXT and a tab into an interactive shell, and expects WANTED on its screen."""
import os
import pty
import select
import sys
import time


def read_until(fd, wanted, seconds):
    seen, end = b"", time.monotonic() + seconds
    while wanted.encode() not in seen and time.monotonic() < end:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                seen += os.read(fd, 4096)
            except OSError:
                break
    return seen.decode(errors="replace")


def main():
    _, shell, prefix, text, _, wanted = sys.argv
    pid, fd = pty.fork()
    if pid == 0:
        env = {"PATH": f"{prefix}/bin:/usr/bin:/bin", "TERM": "dumb", "HOME": prefix, "PS1": "ready> ", "COLUMNS": "200"}
        os.execvpe(shell, [shell, "-f", "-i"], env)
    try:
        os.write(fd, f"fpath=({prefix}/share/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -D; echo lo''aded\n".encode())
        seen = read_until(fd, "loaded", 20)
        os.write(fd, text.encode() + b"\t")
        seen = read_until(fd, wanted, 10)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    if wanted not in seen:
        sys.exit(f"the screen shows {seen!r}")


main()
