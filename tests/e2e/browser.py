"""A headless Chromium, driven by the DevTools protocol over a pipe (no other package is needed).

    with Browser() as b:
        tab = b.tab("http://127.0.0.1:8000/")
        tab.evaluate("document.title")
"""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from run import Skip

PROGRAMS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]


def find_browser():
    named = os.environ.get("TRIREME_CHROMIUM")
    found = named or next((p for p in map(shutil.which, PROGRAMS) if p), None)
    if not found:
        raise Skip("chromium", "no chromium-headless-shell and no chromium")
    return found


class Browser:
    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="trm-browser-")
        to_browser, ours_out = os.pipe()
        ours_in, from_browser = os.pipe()
        argv = [find_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                "--no-first-run", "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
                f"--user-data-dir={self.home}", "about:blank"]
        # Chromium reads from 3 and writes to 4.
        shell = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$0" "$@"'
        self.log = open(os.path.join(self.home, "log"), "wb")
        self.process = subprocess.Popen(["bash", "-c", shell, *argv], pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log)
        os.close(to_browser)
        os.close(from_browser)
        self.output, self.input = os.fdopen(ours_out, "wb", buffering=0), ours_in
        self.pending, self.number, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.output.close()
        os.close(self.input)
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def _read(self):
        while b"\0" not in self.pending:
            more = os.read(self.input, 1 << 20)
            if not more:
                raise AssertionError("the browser has ended: " + Path(self.home, "log").read_text(errors="replace")[-800:])
            self.pending += more
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        """The result of a command; events that come meanwhile are kept in `events`."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        self.output.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") != self.number:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise AssertionError(f"{method}: {answer['error']['message']}")
            return answer["result"]

    def tab(self, url, script="", width=1100, height=800, dark=False, touch=False, replace=None):
        """A tab with storage of its own. `script` runs before the page's; `replace`: {end of a URL: text sent in its place}."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, context, session, replace or {})
        for domain in ["Page", "Runtime", "Network", "Log"]:
            tab.call(f"{domain}.enable")
        if replace:
            tab.call("Fetch.enable", patterns=[{"urlPattern": f"*{end}"} for end in replace])
        tab.call("Page.addScriptToEvaluateOnNewDocument", source=script)
        tab.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        tab.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        tab.go(url)
        return tab


class Tab:
    def __init__(self, browser, context, session, replace):
        self.browser, self.context, self.session, self.replace = browser, context, session, replace

    def call(self, method, **params):
        result = self.browser.call(method, self.session, **params)
        self._answer_replaced()
        return result

    def _answer_replaced(self):
        for event in self.events("Fetch.requestPaused", take=True):
            text = next(t for end, t in self.replace.items() if event["request"]["url"].endswith(end))
            self.browser.call("Fetch.fulfillRequest", self.session, requestId=event["requestId"], responseCode=200,
                              responseHeaders=[{"name": "Content-Type", "value": "text/javascript"}],
                              body=base64.b64encode(text.encode()).decode())

    def events(self, method, take=False):
        """Parameters of this tab's events of one kind so far."""
        all_events = self.browser.events
        mine = [e for e in all_events if e.get("sessionId") == self.session and e["method"] == method]
        if take:
            self.browser.events = [e for e in all_events if e not in mine]
        return [e["params"] for e in mine]

    def go(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def reload(self):
        self.evaluate("window.before = true")
        self.call("Page.reload")
        self.wait("!window.before && document.readyState === 'complete'")

    def evaluate(self, expression):
        """The value of a JavaScript expression; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise AssertionError(f"{expression}: {details.get('exception', {}).get('description', details['text'])}")
        return result["result"].get("value")

    def wait(self, expression, seconds=10):
        """Until an expression is true; its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"not within {seconds} s: {expression}")

    def key(self, key, code=None, text=None):
        number = {"Enter": 13, "Escape": 27, "Tab": 9}[key]
        event = dict(key=key, code=code or key, windowsVirtualKeyCode=number)
        self.call("Input.dispatchKeyEvent", type="keyDown", **event, **({"text": "\r"} if key == "Enter" else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def wheel(self, x, y, dy):
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=dy)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def complaints(self):
        """What the console shows in red: errors, refused scripts, failed loads."""
        entries = [e["entry"] for e in self.events("Log.entryAdded")]
        said = [e["text"] + " " + e.get("url", "") for e in entries if e["level"] == "error"]
        said += [e["exceptionDetails"]["text"] + str(e["exceptionDetails"].get("exception", {}).get("description"))
                 for e in self.events("Runtime.exceptionThrown")]
        return said

    def close(self):
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)
