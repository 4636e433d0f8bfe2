"""Types into `trireme chat` over a pseudo-terminal, as a person would, and looks at the screen.

    chat_terminal.py PROGRAM MODEL FOLDER [--plain]     prints a line for each check that fails; 0: none did

--plain: the program has no line editing; only what needs none is tried.
"""
import json
import os
import pty
import re
import select
import signal
import sys
import time

PATIENCE_S = 60


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, argv, environment):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment})

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, pattern):
        """The screen up to where the pattern was met; what follows is left for the next call."""
        looks = PATIENCE_S * 10  # not a clock: time in which this process was held still does not count
        while not (match := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.fd], [], [], 0.1)
            looks -= not ready
            if not ready and looks > 0:
                continue
            if not ready:
                raise AssertionError(f"no {pattern!r} on the screen: {self.seen[-400:]!r}")
            try:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"ended before {pattern!r}: {self.seen[-400:]!r}") from None
        before, self.seen = self.seen[: match.end()], self.seen[match.end() :]
        return before

    def end(self, keys=""):
        """Reads to the end; the exit code. A key that came while the terminal changed its mode is lost, or stands in the line: these are pressed each second."""
        end = time.monotonic() + PATIENCE_S
        while (ended := os.waitpid(self.pid, os.WNOHANG)) == (0, 0):
            if time.monotonic() > end:
                raise AssertionError(f"does not end: {self.seen[-400:]!r}")
            try:
                if select.select([self.fd], [], [], 1.0)[0]:
                    self.seen += os.read(self.fd, 65536).decode(errors="replace")
                else:
                    self.type(keys)
            except OSError:  # the terminal is closed, the program about to end
                time.sleep(0.01)
        return os.waitstatus_to_exitcode(ended[1])

    def kill(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


PROMPT = r"(\x1b\[1m)?> (\x1b\[0m)?"


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def talk(program, model, folder, edits):
    home = {"HOME": folder, "XDG_STATE_HOME": "", "TRIREME_MIN_STEP_MS": "10"}  # so slow that Ctrl-C comes in the middle
    chat = Terminal([program, "chat", "--temperature", "0", "--max-tokens", "400", model], home)
    saved = os.path.join(folder, "saved.json")
    try:
        first = chat.wait_for(PROMPT)
        expect("loading the model" in first, f"loading is not shown: {first!r}")
        chat.type("Hello!\r")
        answer = chat.wait_for(PROMPT)
        expect(re.search(r"\[\d+ tokens, \d+\.\d\d s to the first, [\d.]+ tokens a second\]", answer), f"no figures: {answer!r}")
        expect("\x1b[2m[" in answer, f"figures are not dimmed: {answer!r}")
        chat.type("/save " + saved + "\r")
        chat.wait_for("saved as")
        chat.wait_for(PROMPT)
        chat.type("/save " + saved + "\r")
        chat.wait_for("is there already")
        chat.wait_for(PROMPT)
        with open(saved, encoding="utf-8") as f:
            messages = json.load(f)["messages"]
        expect([m["role"] for m in messages] == ["user", "assistant"] and messages[0]["content"] == "Hello!", f"saved {messages}")
        # many lines, and a line that goes on
        chat.type("/clear\r")
        chat.wait_for(PROMPT)
        chat.type('"""one\r')
        chat.wait_for(r"\. ")
        chat.type('two"""\r')
        chat.wait_for(r"\[\d+ tokens")
        chat.wait_for(PROMPT)
        chat.type("three\\\r")
        chat.wait_for(r"\. ")
        chat.type("four\r")
        chat.wait_for(r"\[\d+ tokens")
        chat.wait_for(PROMPT)
        chat.type("/save! " + saved + "\r")
        chat.wait_for("saved as")
        chat.wait_for(PROMPT)
        with open(saved, encoding="utf-8") as f:
            said = [m["content"] for m in json.load(f)["messages"]]
        expect(said[0] == "one\ntwo" and said[2] == "three\nfour", f"said {said}")
        # Ctrl-C ends the answer, then the line, and never the program
        chat.type("/clear\r")
        chat.wait_for(PROMPT)
        chat.type("Tell me a story.\r")
        chat.wait_for("Once")  # its first word, not the question that the terminal and the editor write
        chat.type("\x03")
        stopped = chat.wait_for(PROMPT)
        count = re.search(r"\[(\d+) tokens", stopped)
        expect(count and int(count.group(1)) < 40, f"was not stopped: {stopped[-200:]!r}")
        chat.type("half a line\x03")
        chat.wait_for("Ctrl-D or /quit ends")
        chat.wait_for(PROMPT)
        chat.type("/load " + saved + "\r")
        chat.wait_for("loaded, 4 messages")
        chat.wait_for(PROMPT)
        chat.type("/system Be brief.\r")
        chat.wait_for("system message: Be brief.")
        chat.wait_for(PROMPT)
        chat.type("/set max-tokens 60\r")
        chat.wait_for(PROMPT)
        chat.type("/set\r")
        chat.wait_for("max-tokens 60")
        chat.wait_for(PROMPT)
        chat.type("/set temperature 9\r")
        chat.wait_for("out of range")
        chat.wait_for(PROMPT)
        chat.type("/sail\r")
        chat.wait_for("there is no /sail")
        chat.wait_for(PROMPT)
        chat.type("/vélà\r")
        chat.wait_for("there is no /vélà")
        chat.wait_for(PROMPT)
        chat.type("/help\r")
        chat.wait_for("/load")
        chat.wait_for(PROMPT)
        if edits:  # two to the left, one out, one to the right; then back to what was typed before
            chat.type("/sett\x1b[D\x1b[D\x7f\x1b[C\r")
            chat.wait_for("there is no /stt")
            chat.wait_for(PROMPT)
            chat.type("\x1b[A\x1b[A\r")
            chat.wait_for("print this")
            chat.wait_for(PROMPT)
        chat.type("\x04")
        expect(chat.end("\x15\x04") == 0, "Ctrl-D is no good end")  # Ctrl-U empties the line
        if edits:
            path = os.path.join(folder, ".local", "state", "trireme", "chat_history")
            expect(os.stat(path).st_mode & 0o777 == 0o600, "the history can be read by others")
    finally:
        chat.kill()


def dumb(program, model, folder):
    """No colours and no editing where the terminal has neither."""
    chat = Terminal([program, "chat", "--temperature", "0", "--max-tokens", "4", model], {"HOME": folder, "TERM": "dumb"})
    try:
        chat.wait_for(r"> ")
        chat.type("half a line\x03")
        chat.wait_for("Ctrl-D or /quit ends")
        chat.wait_for(r"> ")
        chat.type("Hello!\r")
        answer = chat.wait_for(r"\[4 tokens[^]]*\]")
        expect("\x1b[2m" not in answer and "\x1b[1m" not in answer, f"colours on a dumb terminal: {answer!r}")
        chat.wait_for(r"> ")
        chat.type("/quit\r")
        expect(chat.end() == 0, "/quit is no good end")
    finally:
        chat.kill()


def progress(program, model, folder):
    """A line that is wiped when the work is done."""
    convert = Terminal([program, "convert", "--force", model, os.path.join(folder, "x.gguf")], {})
    try:
        seen = convert.wait_for("trireme convert: wrote")
        expect("converting" in seen and seen.index("\r\x1b[K") > seen.index("converting"), f"no progress: {seen!r}")
        expect(convert.end() == 0, "convert failed")
    finally:
        convert.kill()


def main():
    program, model, folder = sys.argv[1:4]
    try:
        talk(program, model, folder, "--plain" not in sys.argv)
        dumb(program, model, folder)
        progress(program, model, folder)
    except AssertionError as failure:
        print(failure)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
