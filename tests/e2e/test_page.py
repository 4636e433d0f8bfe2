"""The page at / in a headless Chromium: what a reader sees, and what must not happen."""
import atexit
import functools
import gzip
import http.client
import json
import re
from pathlib import Path

from browser import Browser
from run import Skip
from serve import ROOT, Serve

PAGE = ROOT / "gateway" / "page"
FAKE = (Path(__file__).parent / "page_fake.js").read_text()
PHONE = dict(width=390, height=844, touch=True)


@functools.cache
def server():
    s = Serve()
    s.__enter__()
    atexit.register(s.stop)
    return s


@functools.cache
def browser():
    b = Browser()
    atexit.register(b.close)
    return b


def get(path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server().port, timeout=10)
    connection.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def libraries_built_in():
    return b"lib/marked.js" in get("/page/libraries.js")[2]


def need_libraries():
    if not libraries_built_in():
        raise Skip("page-libraries", "this build has none of the page's libraries")


def open_page(fake=True, **options):
    tab = browser().tab(f"http://127.0.0.1:{server().port}/", script=FAKE if fake else "", **options)
    tab.wait("document.querySelector('#model').value")
    return tab


def closed(tab):
    """A page whose test is over: nothing may have gone wrong in its console."""
    complaints = tab.complaints()
    tab.close()
    assert not complaints, complaints


def ask(tab, text):
    tab.evaluate("document.querySelector('#text').focus()")
    tab.type(text)
    before = tab.evaluate("fake.requests.length")
    tab.key("Enter")
    tab.wait(f"fake.requests.length === {before + 1}")


def say(tab, text, i=-1, tokens=None, kind="content"):
    tab.evaluate(f"fake.say({i}, {json.dumps({kind: text})}, {json.dumps(tokens)})")


def answer(tab, text, i=-1):
    say(tab, text, i)
    tab.evaluate(f"fake.finish({i})")
    tab.wait("!document.querySelector('#send').hidden")


def shown(tab):
    return tab.evaluate("document.querySelector('#turns').innerText")


def click(tab, selector):
    tab.evaluate(f"document.querySelector({json.dumps(selector)}).click()")


def press(tab, label, within="body"):
    """Presses the last button with this label."""
    script = f"[...document.querySelectorAll({json.dumps(within + ' button')})].filter(b => b.textContent === {json.dumps(label)}).at(-1)"
    assert tab.evaluate(f"!!{script}"), f"no button {label}"
    tab.evaluate(f"{script}.click()")


# ---- how it is served ----


def test_files_have_tags_and_go_out_compressed_to_who_takes_it():
    status, headers, plain = get("/")
    assert status == 200 and headers["Content-Encoding"] is None and headers["Content-Type"].startswith("text/html")
    for path in ["/", "/page/main.js", "/page/page.css"]:
        status, headers, packed = get(path, Accept_Encoding="br, gzip;q=0.5")
        assert status == 200 and headers["Content-Encoding"] == "gzip" and headers["Vary"] == "Accept-Encoding"
        other = get(path, Accept_Encoding="gzip;q=0, br")
        assert gzip.decompress(packed) == other[2] and other[1]["ETag"] != headers["ETag"]
        again = get(path, Accept_Encoding="gzip", If_None_Match=f'"old", W/{headers["ETag"]}')
        assert again[0] == 304 and again[2] == b"" and again[1]["ETag"] == headers["ETag"]
        assert get(path, Accept_Encoding="gzip", If_None_Match='"old"')[0] == 200
    assert get("/page/none.js")[0] == 404 and get("/page/../server.c")[0] in (400, 404)


def test_policy_lets_nothing_in_from_elsewhere():
    policy = get("/")[1]["Content-Security-Policy"]
    for rule in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "require-trusted-types-for 'script'"]:
        assert rule in policy, rule
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    page = get("/")[2].decode()
    assert "<style" not in page and not re.search(r"<script(?! type=\"module\" src=)", page) and not re.search(r"\son\w+=", page)
    tab = open_page()
    urls = {e["request"]["url"] for e in tab.events("Network.requestWillBeSent")}
    assert len(urls) > 10 and all(u.startswith(f"http://127.0.0.1:{server().port}/") for u in urls), urls
    closed(tab)


# ---- a chat ----


def test_real_model_answers():
    tab = open_page(fake=False)
    tab.evaluate("document.querySelector('#text').focus()")
    tab.type("Hello! Who are you?")
    tab.key("Enter")
    tab.wait("document.querySelector('.assistant[aria-busy=false]') !== null", 30)
    text = shown(tab)
    assert re.search(r"\d+ tokens · \d+(\.\d)? tok/s · first after [\d.]+ m?s", text), text
    assert len(tab.evaluate("document.querySelector('.assistant .markdown').textContent")) > 5, text
    tab.wait("/^Batch: [0-9]+ running, [0-9]+ waiting$/m.test(document.querySelector('#load').innerText)")
    closed(tab)


def test_a_key_is_asked_for_and_used():
    with Serve(args=["--api-key", "sesame"]) as s:
        tab = browser().tab(f"http://127.0.0.1:{s.port}/")
        tab.wait("/needs an API key/.test(document.querySelector('#note').textContent)")
        assert tab.evaluate("document.querySelector('#model').hidden && document.querySelector('#load').hidden")
        click(tab, "#open-settings")
        tab.evaluate("document.querySelector('#settings-form').elements.key.value = 'sesame'")
        click(tab, "#settings-done")
        tab.wait("document.querySelector('#model').value && !document.querySelector('#note').textContent")
        tab.reload()
        tab.wait("document.querySelector('#model').value")
        assert "sesame" not in tab.evaluate("JSON.stringify(localStorage)"), "the key outlives the tab"
        tab.evaluate("document.querySelector('#text').focus()")
        tab.type("Hello!")
        tab.key("Enter")
        tab.wait("document.querySelector('.assistant[aria-busy=false] .figures')?.textContent.includes('tokens')", 30)
        tab.close()


def test_turns_say_who_speaks():
    tab = open_page()
    ask(tab, "Hello")
    answer(tab, "Hi.")
    model = tab.evaluate("document.querySelector('#model').value")
    assert tab.evaluate("[...document.querySelectorAll('#turns article h2')].map(h => h.textContent)") == ["You", model]
    closed(tab)


def test_markdown_has_code_and_tables():
    need_libraries()
    tab = open_page()
    ask(tab, "Show me")
    for piece in ["# Title\n\nSome **bold** te", "xt.\n\n| a | b |\n|---|--:|\n| 1 | 2", " |\n\n```python\ndef f(x):\n", "    return 1\n```\n\n- one\n"]:
        say(tab, piece)
    answer(tab, "- two\n\n3. three\n4. four\n\n- [x] done\n\n[link](https://example.com/)")
    count = lambda selector: tab.evaluate(f"document.querySelectorAll('.assistant .markdown {selector}').length")
    assert count("h1") == 1 and count("strong") == 1 and count("ul li") == 3 and count("table td") == 2
    style = lambda selector, name: tab.evaluate(f"getComputedStyle(document.querySelector('.markdown {selector}')).{name}")
    assert style("td:last-child", "textAlign") == "right" and style("td", "textAlign") == "left"
    assert count("ol[start] li") == 2 and count("input[type=checkbox]:checked:disabled") == 1
    assert count("pre .hljs-keyword") >= 2, "the code has no colours"
    assert tab.evaluate("document.querySelector('.code pre').textContent") == "def f(x):\n    return 1\n"
    assert tab.evaluate("document.querySelector('.markdown a').rel") == "noopener noreferrer"
    press(tab, "Copy code")
    assert tab.evaluate("fake.copied") == "def f(x):\n    return 1\n"
    closed(tab)


def test_answers_cannot_run_code_or_call_home():
    need_libraries()
    tab = open_page()
    ask(tab, "Attack me")
    attack = ("<script>window.hit = 1</script> <img src=x onerror='window.hit = 2'>\n\n<svg onload='window.hit = 3'></svg>\n\n"
              "[a](javascript:window.hit=4) ![secret](http://127.0.0.1:1/?secret)\n\n<iframe src='http://127.0.0.1:1/'></iframe>\n\n"
              "<a href='x' onclick='window.hit=5'>b</a> <form action='http://127.0.0.1:1/'><input name=q></form> <style>*{display:none}</style>\n\n"
              "```html\n<img src=x onerror='window.hit = 6'>\n```\n\n```\"onmouseover=\"window.hit=7\nx\n```\n")
    answer(tab, attack)
    tab.evaluate("document.querySelectorAll('.markdown *').forEach(e => { e.tagName !== 'A' && e.click(); e.dispatchEvent(new Event('mouseover')) })")
    assert tab.evaluate("window.hit") is None
    found = tab.evaluate("[...document.querySelectorAll('.markdown :is(script, img, svg, iframe, form, style, object, [onclick], [onerror], [style])')].length")
    assert found == 0, "unclean elements"
    links = tab.evaluate("[...document.querySelectorAll('.markdown a')].map(a => a.getAttribute('href'))")
    assert links == [None, "http://127.0.0.1:1/?secret"], links
    assert "<script>window.hit = 1</script>" in shown(tab), "HTML in an answer is shown, not lost"
    urls = [e["request"]["url"] for e in tab.events("Network.requestWillBeSent")]
    assert not any("127.0.0.1:1/" in u for u in urls)
    closed(tab)


def test_thoughts_are_folded():
    tab = open_page()
    ask(tab, "Think")
    say(tab, "Let me see.", kind="reasoning")
    tab.wait("document.querySelector('.thought summary')?.textContent === 'Thinking…'")
    assert "Let me see." not in shown(tab)
    answer(tab, "Done.")
    assert tab.evaluate("!document.querySelector('.thought').open")
    tab.wait("/^Thought for [0-9.]+ m?s$/.test(document.querySelector('.thought summary').textContent)")
    click(tab, ".thought summary")
    assert "Let me see." in shown(tab) and "Done." in shown(tab)
    ask(tab, "Go on")
    assert tab.evaluate("JSON.stringify(fake.requests.at(-1).messages)").count("Let me see") == 0
    closed(tab)


def test_tokens_per_second_are_shown():
    tab = open_page()
    ask(tab, "Count")
    say(tab, "one ", tokens=1)
    tab.evaluate("new Promise(done => setTimeout(done, 60))")
    say(tab, "two three", tokens=31)
    found = re.search(r"31 tokens · (\d+) tok/s", tab.wait("/tok.s/.test(document.querySelector('#turns').innerText) && document.querySelector('#turns').innerText"))
    assert found and 0 < int(found[1]) <= 30 / 0.06, found
    closed(tab)


def test_regenerate_edit_and_copy():
    tab = open_page()
    ask(tab, "First question")
    answer(tab, "First **answer**")
    press(tab, "Copy", ".assistant")
    assert tab.evaluate("fake.copied") == "First **answer**"
    press(tab, "Regenerate")
    tab.wait("fake.requests.length === 2")
    assert tab.evaluate("fake.requests[1].messages") == [{"role": "user", "content": "First question"}]
    answer(tab, "Second answer")
    tab.wait("!/First answer/.test(document.querySelector('#turns').innerText)")
    ask(tab, "More")
    answer(tab, "More answer")
    click(tab, ".user .tools button:last-child")
    assert tab.evaluate("document.activeElement.value") == "First question"
    tab.key("Escape")
    assert tab.evaluate("document.querySelectorAll('.edit').length") == 0
    click(tab, ".user .tools button:last-child")
    tab.evaluate("document.activeElement.select()")
    tab.type("Edited question")
    press(tab, "Send again")
    tab.wait("fake.requests.length === 4")
    assert tab.evaluate("fake.requests[3].messages") == [{"role": "user", "content": "Edited question"}]
    answer(tab, "Edited answer")
    text = shown(tab)
    assert "Edited answer" in text and "Second answer" not in text and "More" not in text, text
    closed(tab)


def test_system_prompt_and_settings_reach_the_request_and_stay():
    tab = open_page()
    click(tab, "#open-settings")
    tab.evaluate("(f => { f.system.value = 'Be brief.'; f.temperature.value = '0.5'; f.max_tokens.value = '77' })"
                 "(document.querySelector('#settings-form').elements)")
    click(tab, "#settings-done")
    tab.wait("!document.querySelector('#settings').open")
    ask(tab, "Hi")
    request = tab.evaluate("fake.requests[0]")
    assert request["messages"][0] == {"role": "system", "content": "Be brief."} and request["temperature"] == 0.5
    assert request["max_tokens"] == 77 and "top_p" not in request and "seed" not in request
    answer(tab, "Hello.")
    tab.reload()
    tab.wait("document.querySelector('#model').value")
    ask(tab, "Again")
    assert tab.evaluate("fake.requests[0].messages[0].content") == "Be brief."
    closed(tab)


def test_history_is_kept_in_the_browser():
    tab = open_page()
    ask(tab, "Chat one")
    answer(tab, "Answer one")
    click(tab, "#new")
    assert "Answer one" not in shown(tab)
    ask(tab, "Chat two")
    say(tab, "Half of answer two")
    tab.wait("/Half of/.test(document.querySelector('#turns').innerText)")
    tab.evaluate("new Promise(done => setTimeout(done, 2300))")  # it is saved every two seconds
    tab.reload()
    tab.wait("document.querySelectorAll('#chats li').length === 2")
    text = shown(tab)
    assert "Half of answer two" in text and "Stopped." in text, text
    tab.evaluate("document.querySelectorAll('#chats .open')[1].click()")
    assert "Answer one" in shown(tab) and "answer two" not in shown(tab)
    tab.evaluate("document.querySelectorAll('#chats .remove')[1].click()")
    tab.wait("document.querySelectorAll('#chats li').length === 1")
    assert "Answer one" not in shown(tab)
    tab.reload()
    tab.wait("document.querySelectorAll('#chats li').length === 1")
    closed(tab)


# ---- what went wrong once ----


def test_new_chat_in_mid_answer_does_not_leak_the_old_answer():
    tab = open_page()
    ask(tab, "Old question")
    say(tab, "Old beginning ")
    tab.wait("/Old beginning/.test(document.querySelector('#turns').innerText)")
    click(tab, "#new")
    assert tab.evaluate("document.querySelector('#stop').hidden"), "the new chat has nothing to stop"
    say(tab, "and old end", 0)
    tab.evaluate("new Promise(done => setTimeout(done, 200))")
    assert "old" not in shown(tab).lower(), shown(tab)
    ask(tab, "New question")
    assert tab.evaluate("fake.requests[1].messages") == [{"role": "user", "content": "New question"}]
    tab.evaluate("fake.finish(0)")
    answer(tab, "New answer")
    assert "old" not in shown(tab).lower(), shown(tab)
    ask(tab, "And now?")
    assert "old" not in tab.evaluate("JSON.stringify(fake.requests[2].messages)").lower()
    tab.evaluate("fake.finish(2)")
    tab.evaluate("[...document.querySelectorAll('#chats .open')].find(b => /Old/.test(b.textContent)).click()")
    assert "Old beginning and old end" in shown(tab) and "New" not in shown(tab)
    closed(tab)


def test_scrolling_up_is_not_pulled_down():
    tab = open_page()
    ask(tab, "A long one")
    place = "document.querySelector('#scroller').scrollTop"
    away = "(s => s.scrollHeight - s.scrollTop - s.clientHeight)(document.querySelector('#scroller'))"
    say(tab, "line\n\n" * 80)
    tab.wait(f"{place} > 500 && {away} < 30")
    say(tab, "line\n\n" * 40)
    tab.wait("document.querySelectorAll('.markdown')[0].textContent.length > 450")
    tab.wait(f"{away} < 30")  # it follows
    top = tab.evaluate(place)
    tab.wheel(700, 400, -300)
    tab.wait(f"{place} < {top - 100}")
    tab.evaluate("new Promise(done => setTimeout(done, 300))")  # until the wheel has come to rest
    top = tab.evaluate(place)
    for _ in range(4):
        say(tab, "line\n\n" * 10)
        tab.evaluate("new Promise(done => setTimeout(done, 80))")
    tab.evaluate("fake.finish(-1)")
    tab.wait("!document.querySelector('#send').hidden")
    assert abs(tab.evaluate(place) - top) < 2, "it was pulled away"
    assert not tab.evaluate("document.querySelector('#newest').hidden")
    click(tab, "#newest")
    tab.wait(f"{away} < 30 && document.querySelector('#newest').hidden")
    closed(tab)


def test_enter_while_streaming_does_not_abort():
    tab = open_page()
    ask(tab, "Question")
    say(tab, "Part one, ")
    tab.type("My next question")
    tab.key("Enter")
    tab.evaluate("new Promise(done => setTimeout(done, 100))")
    assert not tab.evaluate("fake.streams[0].aborted") and tab.evaluate("fake.requests.length") == 1
    assert tab.evaluate("document.querySelector('#text').value") == "My next question", "what was typed is kept"
    answer(tab, "part two.")
    assert "Part one, part two." in shown(tab)
    tab.key("Enter")
    tab.wait("fake.requests.length === 2")
    press(tab, "Stop")
    tab.wait("fake.streams[1].aborted && /Stopped/.test(document.querySelector('#turns').innerText)")
    closed(tab)


def test_failures_are_said_and_the_question_stays():
    tab = open_page()
    ask(tab, "Question")
    tab.evaluate("fake.send(-1, {error: {message: 'the worker is gone'}})")
    tab.wait("/the worker is gone/.test(document.querySelector('.end.error')?.innerText)")
    press(tab, "Regenerate")
    tab.wait("fake.requests.length === 2")
    say(tab, "Half")
    tab.evaluate("fake.cut(-1)")
    tab.wait("/connection ended before/.test(document.querySelector('.end.error')?.innerText)")
    assert "Question" in shown(tab) and "Half" in shown(tab)
    closed(tab)


# ---- the picture of the load ----


def test_load_is_drawn_from_the_metrics_or_not_at_all():
    tab = open_page()
    figures = ('vllm:num_requests_running{{model_name="{0}"}} 5\nvllm:num_requests_waiting{{model_name="{0}"}} 2\n'
               'vllm:kv_cache_usage_perc{{model_name="{0}"}} 0.5\nvllm:num_requests_running{{model_name="another"}} 9\n')
    tab.evaluate("fake.metrics = " + json.dumps(figures.format(tab.evaluate("document.querySelector('#model').value"))))
    tab.wait("/5 running, 2 waiting/.test(document.querySelector('#load').innerText)")
    cells = lambda selector: tab.evaluate(f"document.querySelectorAll('{selector}').length")
    assert cells("#batch .on") == 5 and cells("#batch .waits") == 2
    assert cells("#blocks .on") * 2 == cells("#blocks i") > 0 and "50 % in use" in tab.evaluate("document.querySelector('#load').innerText")
    tab.evaluate("fake.metrics = 'up 1\\n'")
    tab.wait("document.querySelector('#load').hidden")
    closed(tab)


# ---- every reader, every screen ----


def test_works_plain_without_the_libraries():
    tab = open_page(replace={"/page/libraries.js": (PAGE / "plain.js").read_text()})
    ask(tab, "Plain?")
    answer(tab, "**plain** <b>text</b>\n\n```\ncode\n```")
    assert "**plain** <b>text</b>\n\n```\ncode" in shown(tab)
    assert tab.evaluate("document.querySelectorAll('.markdown *').length") == 0
    closed(tab)


def test_fits_a_phone():
    need_libraries()
    tab = open_page(**PHONE)
    ask_by_button(tab, "A question that is rather long for a narrow screen, with averyveryveryveryveryverylongwordinthemiddle")
    answer(tab, "| a | b | c | d | e | f |\n|-|-|-|-|-|-|\n" + "| some text " * 6 + "|\n\n```\n" + "x" * 300 + "\n```\n\n" + "y" * 300)
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert tab.evaluate("document.querySelector('#scroller').scrollWidth <= document.querySelector('#scroller').clientWidth")
    assert tab.evaluate("getComputedStyle(document.querySelector('#side')).visibility") == "hidden"
    click(tab, "#menu")
    tab.wait("document.querySelector('#side').getBoundingClientRect().left === 0 && document.activeElement.id === 'new'")
    tab.key("Escape")
    tab.wait("getComputedStyle(document.querySelector('#side')).visibility === 'hidden' && document.activeElement.id === 'menu'")
    small = tab.evaluate("[...document.querySelectorAll('header button, #ask button')].filter(b => b.offsetWidth && b.offsetHeight < 24).length")
    assert small == 0
    closed(tab)


def ask_by_button(tab, text):
    tab.evaluate("document.querySelector('#text').focus()")
    tab.type(text)
    click(tab, "#send")
    tab.wait("fake.requests.length === 1")


CONTRAST = """(() => {
  const parse = c => { const g = document.createElement('canvas').getContext('2d'); g.fillStyle = c; g.fillRect(0, 0, 1, 1);
                       return [...g.getImageData(0, 0, 1, 1).data] };
  const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
                       return .2126 * r + .7152 * g + .0722 * b };
  const ground = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c } };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || !e.checkVisibility({visibilityProperty: true})) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) bad.push(`${e.tagName}.${e.className} ${((a + .05) / (b + .05)).toFixed(2)}`);
  }
  return bad;
})()"""


def test_can_be_read_and_operated_by_everybody():
    for dark in [False, True]:
        tab = open_page(dark=dark)
        ask(tab, "Hello")
        say(tab, "Hm.", kind="reasoning")
        answer(tab, "Text `code` [link](https://example.com/)\n\n```python\n# comment\ndef f(x): return 'a' + str(1)\n```\n\n> quote")
        assert tab.evaluate("document.querySelector('#note').textContent") == "The answer is complete."
        low = tab.evaluate(CONTRAST)
        assert not low, f"contrast under 4.5: {low}"
        tab.evaluate("document.querySelector('#open-settings').focus()")
        click(tab, "#open-settings")
        nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
        controls = {"button", "textbox", "combobox", "spinbutton", "link", "dialog", "checkbox"}
        nameless = [n["role"]["value"] for n in nodes if not n["ignored"] and n["role"]["value"] in controls and not n.get("name", {}).get("value")]
        assert not nameless and len(nodes) > 30, nameless
        tab.key("Escape")
        tab.wait("document.activeElement.id === 'open-settings'")
        assert tab.evaluate("document.querySelector('.assistant').getAttribute('aria-busy')") == "false"
        assert tab.evaluate("document.querySelector('#note').getAttribute('role')") == "status"
        closed(tab)


def test_moves_nothing_for_who_wants_no_motion():
    tab = open_page()
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    ask(tab, "Wait")
    assert tab.evaluate("document.querySelector('.waiting') !== null && document.getAnimations().length") == 0
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "no-preference"}])
    tab.wait("document.getAnimations().length === 1")
    tab.close()
