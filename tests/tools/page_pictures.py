#!/usr/bin/env python3
"""Takes the pictures of the chat page in docs/images: an example chat, in light and dark colours and on a phone.

    ./dev build && python3 tests/tools/page_pictures.py     # needs chromium-headless-shell and pngquant
"""
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import test_page as page  # noqa: E402

ANSWER = """The prefix cache keeps the blocks of earlier prompts. A new prompt begins with the longest chain of blocks that it shares.

| prompt | tokens | from the cache |
| --- | ---: | ---: |
| the first | 1200 | 0 |
| the same again | 1200 | 1184 |
| its next turn | 1460 | 1328 |

A block is found by a *chained* hash, so equal text behind a different beginning is another block:

```c
uint64_t hash = parent;
for (int i = 0; i < BLOCK_TOKENS; i++) /* each token once */
    hash = mix(hash, tokens[i]);
```
"""
THOUGHT = "They want to know how prompts share blocks. A table, then the hash."
METRICS = "vllm:num_requests_running 11\nvllm:num_requests_waiting 3\nvllm:kv_cache_usage_perc 0.42\n"
EARLIER = ["Tell me a story about rowers", "What is a trireme?", "Write a haiku about blocks"]


def take(name, **options):
    tab = page.open_page(**options)
    tab.evaluate("fake.metrics = " + json.dumps(METRICS))
    touch = options.get("touch")
    for question in [] if touch else EARLIER:
        page.ask(tab, question)
        page.answer(tab, "…")
        page.click(tab, "#new")
    tab.evaluate("document.querySelector('#text').focus()")
    tab.type("How does the prefix cache find what two prompts share?")
    page.click(tab, "#send")
    tab.wait("fake.streams.length")
    page.say(tab, THOUGHT, kind="reasoning", tokens=1)
    tab.evaluate("new Promise(done => setTimeout(done, 900))")
    page.say(tab, ANSWER, tokens=168)
    page.answer(tab, "")
    tab.wait("/11 running/.test(document.querySelector('#load-text').textContent)")
    tab.evaluate("new Promise(done => setTimeout(done, 300))")
    path = ROOT / "docs" / "images" / f"{name}.png"
    tab.screenshot(path)
    subprocess.run(["pngquant", "--force", "--ext", ".png", "--skip-if-larger", str(path)], check=False)
    print(path, path.stat().st_size // 1024, "kB")
    tab.close()


def main():
    take("page", width=1100, height=820)
    take("page-dark", width=1100, height=820, dark=True)
    take("page-phone", **page.PHONE)


if __name__ == "__main__":
    main()
