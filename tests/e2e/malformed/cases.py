"""Malformed requests against a running gateway, by raw sockets: each must be answered as listed, or the connection cut.

    failures = run_cases("127.0.0.1", 8000)          # a list of strings, empty when all is well
    python3 tests/e2e/malformed/cases.py HOST PORT   # by hand; API_KEY in the environment when the server wants one

A case is the bytes sent and the answers expected, one for each request in them. An answer is a set of allowed statuses; every refusal
must carry OpenAI's error object, and a refusal of the framing must be followed by the end of the connection. CUT (no answers) stands for
a request that never becomes complete: we leave, and the server must not mind. Standard library only.
"""
import json
import os
import re
import socket
import sys

TIMEOUT_S = 30
CUT = ()
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


class Case:
    """framing: the refusal (the last answer) is about the framing, so the connection must end after it."""

    def __init__(self, name, raw, *answers, framing=False):
        self.name, self.raw, self.answers, self.framing = name, raw, [set(a) for a in answers], framing


# ---- building requests ----

def head(method, target, headers):
    lines = [b"%s %s HTTP/1.1" % (method, target), b"Host: localhost"]
    return b"\r\n".join(lines + headers) + b"\r\n\r\n"


def post(path, body, key=None, extra=()):
    headers = [b"Content-Type: application/json", b"Content-Length: %d" % len(body), *extra]
    if key:
        headers.append(b"Authorization: Bearer " + key.encode())
    return head(b"POST", path.encode(), headers) + body


def chat(model, **fields):
    request = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    return {**request, **fields}


def completion(model, **fields):
    return {"model": model, "prompt": "hi", "max_tokens": 1, **fields}


# ---- framing ----

def framing_cases(path, body, key):
    """The same good body under a bad frame. REQ stands for what is right in front of the damage."""
    auth = b"Authorization: Bearer %s\r\n" % key.encode() if key else b""
    line = b"POST " + path.encode() + b" HTTP/1.1\r\n"
    std = b"Host: localhost\r\nContent-Type: application/json\r\n" + auth
    length = b"Content-Length: %d\r\n" % len(body)
    te = b"Transfer-Encoding: chunked\r\n"
    good_chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)

    def frame(name, raw, *statuses):
        return Case(name, raw, statuses or (400,), framing=True)

    yield frame("length and chunked", line + std + length + te + b"\r\n" + good_chunks)
    yield frame("chunked and length", line + std + te + length + b"\r\n" + good_chunks)
    yield frame("length twice", line + std + length + length + b"\r\n" + body)
    yield frame("two lengths", line + std + length + b"Content-Length: 5\r\n\r\n" + body)
    for text in (b"+%d", b"-%d", b"%d.0", b"0x%d", b"%d,%d", b"%d %d", b"'%d'", b"%de0"):
        value = text % ((len(body),) * text.count(b"%d"))
        yield frame("length " + value.decode(), line + std + b"Content-Length: " + value + b"\r\n\r\n" + body)
    yield frame("length of nothing", line + std + b"Content-Length:\r\n\r\n" + body)
    yield frame("length of letters", line + std + b"Content-Length: many\r\n\r\n" + body)
    yield frame("length 10^12", line + std + b"Content-Length: 1000000000000\r\n\r\n", 413)
    yield frame("length 2^64", line + std + b"Content-Length: 18446744073709551616\r\n\r\n" + body, 400, 413)
    yield frame("length of 100 digits", line + std + b"Content-Length: " + b"9" * 100 + b"\r\n\r\n" + body, 400, 413)
    for coding in (b"gzip", b"identity", b"chunked, chunked", b"gzip, chunked", b"xchunked", b"\"chunked\"", b"chunked;q=1", b""):
        yield frame("coding '%s'" % coding.decode(), line + std + b"Transfer-Encoding: " + coding + b"\r\n\r\n" + good_chunks,
                    400, 501)
    yield frame("chunked twice", line + std + te + te + b"\r\n" + good_chunks)
    yield frame("coding with a vertical tab", line + std + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + good_chunks)
    for name, raw in (("Content-Length ", length.replace(b":", b" :")), ("Transfer-Encoding ", te.replace(b":", b" :")),
                      ("Transfer-Encoding tab", te.replace(b":", b"\t:"))):
        yield frame("space before the colon: " + name, line + std + raw + b"\r\n" + body)
    for name, raw in (("folded line", b"X: a\r\n b\r\n"), ("folded line, tab", b"X: a\r\n\tb\r\n"), ("no colon", b"Nonsense\r\n"),
                      ("empty name", b": x\r\n"), ("space in a name", b"X Y: z\r\n"), ("zero in a value", b"X: a\0b\r\n"),
                      ("zero in a name", b"X\0: a\r\n"), ("bare CR in a value", b"X: a\rb\r\n"), ("bare LF", b"X: a\n"),
                      ("escape byte", b"X: \x1b[2J\r\n"), ("delete byte", b"X: \x7f\r\n"), ("high byte in a name", b"X\xe9: a\r\n"),
                      ("quote in a name", b"\"X\": a\r\n")):
        yield frame("header: " + name, line + std + length + raw + b"\r\n" + body)
    yield frame("no Host", line + std.replace(b"Host: localhost\r\n", b"") + length + b"\r\n" + body)
    yield frame("two Hosts", line + std + b"Host: localhost\r\n" + length + b"\r\n" + body)
    yield frame("empty Host", line + std.replace(b"Host: localhost", b"Host:") + length + b"\r\n" + body)
    yield frame("Host with a user", line + std.replace(b"Host: localhost", b"Host: a@b") + length + b"\r\n" + body)
    yield frame("two Content-Types", line + std + b"Content-Type: text/plain\r\n" + length + b"\r\n" + body)
    yield frame("two Authorizations", line + std + b"Authorization: Bearer a\r\n" * 2 + length + b"\r\n" + body)
    yield frame("too many headers", line + std + length + b"".join(b"X-%d: y\r\n" % i for i in range(500)) + b"\r\n" + body, 431)
    yield frame("head too large", line + std + b"X: " + b"a" * 70000 + b"\r\n\r\n", 431)
    yield frame("head that never ends", line + std + b"X: " + b"a" * 200000, 431)
    yield frame("target too long", b"POST " + path.encode() + b"?" + b"a" * 60000 + b" HTTP/1.1\r\n" + std + length + b"\r\n" + body,
                414)
    for name, first in (("no version", b"POST " + path.encode() + b"\r\n"), ("lower-case http", line.replace(b"HTTP", b"http")),
                        ("two spaces", line.replace(b"POST ", b"POST  ")), ("tab", line.replace(b"POST ", b"POST\t")),
                        ("space at the end", line.replace(b"\r\n", b" \r\n")), ("leading space", b" " + line),
                        ("bare LF", line.replace(b"\r\n", b"\n")), ("CR CR LF", line.replace(b"\r\n", b"\r\r\n")),
                        ("version 1", line.replace(b"1.1", b"1")), ("version 1.1.1", line.replace(b"1.1", b"1.1.1")),
                        ("colon in the method", line.replace(b"POST", b"PO:ST")), ("zero in the method", line.replace(b"POST", b"PO\0ST")),
                        ("zero in the target", line.replace(b"/v1", b"/\0v1")), ("%00 in the target", line.replace(b"/v1", b"/v1%00")),
                        ("%0d%0a in the target", line.replace(b"/v1", b"/v1%0d%0a")), ("bad escape", line.replace(b"/v1", b"/v1%zz")),
                        ("bad UTF-8 escape", line.replace(b"/v1", b"/%ff%fe")), ("raw UTF-8", line.replace(b"/v1", b"/\xc3\xa9")),
                        ("fragment", line.replace(b" HTTP", b"#x HTTP")), ("space in the target", line.replace(b" HTTP", b" x HTTP")),
                        ("relative target", line.replace(b" /v1", b" v1")), ("star", b"POST * HTTP/1.1\r\n"),
                        ("other scheme", line.replace(b" /v1", b" ftp://test/v1")),
                        ("user in the target", line.replace(b" /v1", b" http://a@b/v1"))):
        yield frame("request line: " + name, first + std + length + b"\r\n" + body)
    for name, first, status in (("HTTP/2.0", line.replace(b"1.1", b"2.0"), 505), ("HTTP/1.9", line.replace(b"1.1", b"1.9"), 505),
                                ("unknown method", line.replace(b"POST", b"BREW"), 501), ("TRACE", line.replace(b"POST", b"TRACE"), 405),
                                ("CONNECT", b"CONNECT test:443 HTTP/1.1\r\n", 405)):
        yield frame("request line: " + name, first + std + length + b"\r\n" + body, status)
    yield frame("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505)
    yield frame("TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 60)
    yield frame("Expect: tea", line + std + b"Expect: tea\r\n" + length + b"\r\n" + body, 417)
    yield frame("chunked in HTTP/1.0", line.replace(b"1.1", b"1.0") + std + te + b"\r\n" + good_chunks)

    chunked = line + std + te + b"\r\n"
    for size in (b"0x5", b"+5", b"-5", b" 5", b"5 ", b"", b"xyz", b"0000000000000000005", b"5\n"):
        yield frame("chunk size %r" % size, chunked + size + b"\r\n" + body + b"\r\n0\r\n\r\n")
    yield frame("chunk of 2^64 - 1", chunked + b"ffffffffffffffff\r\n", 413)
    yield frame("chunk of 2^40", chunked + b"10000000000\r\n", 413)
    yield frame("chunk longer than its size", chunked + b"%x\r\n%sX\r\n0\r\n\r\n" % (len(body), body))
    yield frame("chunk ended by LF", chunked + b"%x\r\n%s\n0\r\n\r\n" % (len(body), body))
    yield frame("chunk size ended by LF", chunked + b"%x\n%s\r\n0\r\n\r\n" % (len(body), body))
    yield frame("long chunk extension", chunked + b"5;" + b"x" * 100000 + b"\r\n")
    yield frame("zero in a chunk extension", chunked + b"5;\0\r\n")
    yield frame("bad trailer", chunked + good_chunks[:-2] + b"X : y\r\n\r\n")
    yield frame("folded trailer", chunked + good_chunks[:-2] + b"X: y\r\n z\r\n\r\n")
    yield frame("endless trailers", chunked + good_chunks[:-2] + b"X: y\r\n" * 20000, 431)

    yield Case("half a request line", line[:9], CUT)
    yield Case("half a head", line + std, CUT)
    yield Case("half a body", line + std + length + b"\r\n" + body[:10], CUT)
    yield Case("half a chunk", chunked + b"100\r\n{", CUT)
    yield Case("nothing", b"", CUT)
    yield Case("only line ends", b"\r\n\r\n", CUT)

    good, live = line + std + length + b"\r\n" + body, b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield Case("garbage behind an answer", live + b"\x00\x01\x02 garbage\r\n\r\n", {200}, {400}, framing=True)
    yield Case("body longer than its length", good + b"}}}}\r\n\r\n", {200}, {400}, framing=True)
    yield Case("second request broken", good + line + std + length + length + b"\r\n" + body, {200}, {400}, framing=True)
    yield Case("smuggled by two frames", line + std + te + length + b"\r\n0\r\n\r\n" + live, {400}, framing=True)
    yield Case("three good, then a bad one", live * 3 + b"GET / HTTP/1.1\r\nBad Header: x\r\n\r\n", {200}, {200}, {200}, {400},
               framing=True)


# ---- JSON ----

def json_cases(path, model):
    name = json.dumps(model).encode()
    rest = b'"prompt":"hi","max_tokens":1' if path == COMPLETIONS else b'"messages":[{"role":"user","content":"hi"}],"max_tokens":1'
    good = b'{"model":' + name + b"," + rest + b"}"
    bad = {
        "empty": b"",
        "white space": b" \n ",
        "no object": b"hello",
        "array": b"[" + good + b"]",
        "string": b'"hi"',
        "number": b"1",
        "null": b"null",
        "cut": good[:-1],
        "cut in a string": good[:12],
        "trailing garbage": good + b"x",
        "two objects": good + good,
        "trailing comma": good[:-1] + b",}",
        "no comma": b'{"model":' + name + b" " + rest + b"}",
        "no colon": b'{"model" ' + name + b"," + rest + b"}",
        "single quotes": good.replace(b'"', b"'"),
        "bare key": b"{model:" + name + b"," + rest + b"}",
        "comment": b"/* c */" + good,
        "byte order mark": b"\xef\xbb\xbf" + good,
        "UTF-16": good.decode().encode("utf-16"),
        "repeated key": good[:-1] + b',"model":' + name + b"}",
        "repeated escaped key": good[:-1] + b',"\\u006dodel":' + name + b"}",
        "repeated nested key": good[:-1] + b',"stream_options":{"include_usage":true,"include_usage":false}}',
        "zero in a value": good.replace(b"hi", b"h\\u0000i"),
        "zero in a key": good[:-1] + b',"a\\u0000b":1}',
        "raw zero": good.replace(b"hi", b"h\0i"),
        "raw control byte": good.replace(b"hi", b"h\x1fi"),
        "raw line feed": good.replace(b"hi", b"h\ni"),
        "invalid UTF-8": good.replace(b"hi", b"h\xffi"),
        "cut UTF-8": good.replace(b"hi", b"h\xe2\x82"),
        "overlong UTF-8": good.replace(b"hi", b"\xc0\x80"),
        "UTF-8 surrogate": good.replace(b"hi", b"\xed\xa0\x80"),
        "past U+10FFFF": good.replace(b"hi", b"\xf4\x90\x80\x80"),
        "lone high surrogate": good.replace(b"hi", b"\\ud800"),
        "lone low surrogate": good.replace(b"hi", b"\\udc00"),
        "surrogates turned round": good.replace(b"hi", b"\\udc00\\ud800"),
        "bad escape": good.replace(b"hi", b"\\x41"),
        "short escape": good.replace(b"hi", b"\\u12"),
        "leading zero": good.replace(b'"max_tokens":1', b'"max_tokens":01'),
        "leading plus": good.replace(b'"max_tokens":1', b'"max_tokens":+1'),
        "hexadecimal": good.replace(b'"max_tokens":1', b'"max_tokens":0x1'),
        "dot without digits": good.replace(b'"max_tokens":1', b'"max_tokens":1.'),
        "NaN": good.replace(b'"max_tokens":1', b'"temperature":NaN'),
        "Infinity": good.replace(b'"max_tokens":1', b'"temperature":Infinity'),
        "-Infinity": good.replace(b'"max_tokens":1', b'"temperature":-Infinity'),
        "number of 5000 digits": good.replace(b'"max_tokens":1', b'"max_tokens":' + b"1" * 5000),
        "100 arrays deep": good[:-1] + b',"x":' + b"[" * 100 + b"]" * 100 + b"}",
        "100000 arrays deep": good[:-1] + b',"x":' + b"[" * 100000,
        "100000 objects deep": good[:-1] + b',"x":' + b'{"a":' * 100000,
        "100 lists in the text": good.replace(b'"hi"', b"[" * 100 + b'"hi"' + b"]" * 100),
    }
    return [Case("%s: JSON: %s" % (path, what), body, {400}) for what, body in bad.items()]


# ---- values ----

WRONG = object()  # the field is left out

COMMON = [
    ("model", [5, ["a"], {"a": 1}, True, "no-such-model", "x" * 100000, "../../etc/passwd", "a\u0001b"]),
    ("max_tokens", ["1", 1.5, -2, -(2**31), 2**63, 10**30, 1e300, True, [1], {"a": 1}]),
    ("temperature", ["hot", -0.1, 1e30, True, [1], {}]),
    ("top_p", ["x", -0.5, 1.5, 1e300, True, []]),
    ("top_k", ["x", -5, 1.5, 10**20, True, []]),
    ("min_p", ["x", -0.1, 1.1, True]),
    ("top_n_sigma", ["x", -1001, 1e30, True, []]),
    ("typical_p", ["x", -0.1, 1.1, 1e30, True, []]),
    ("xtc_probability", ["x", 1.1, 1e30, True]),
    ("xtc_threshold", ["x", -0.1, 1.1, True]),
    ("dynatemp_range", ["x", -1, 2.1, 1e300]),
    ("dynatemp_exponent", ["x", -1, 101, 1e300]),
    ("dry_multiplier", ["x", -1, 101, 1e300]),
    ("dry_base", ["x", 0, 0.99, 101, 1e300]),
    ("dry_allowed_length", ["x", 0, -1, 1.5, 1e30]),
    ("dry_penalty_last_n", ["x", -2, 1.5, 1e30]),
    ("dry_sequence_breakers", ["x", [], [""], [1], ["x" * 41], ["x"] * 65, {}]),
    ("mirostat", ["x", -1, 3, 0.5, True]),
    ("mirostat_tau", ["x", -1, 101, 1e300]),
    ("mirostat_eta", ["x", -1, 1.1, 1e300]),
    ("adaptive_target", ["x", 1.1, 1e300, True]),
    ("adaptive_decay", ["x", -0.1, 1, 1e300]),
    ("samplers", ["?", ["top_k", "top_k"], ["infill"], [1], {}, 5]),
    ("repetition_penalty", ["x", 0, -1, 1e30, True]),
    ("presence_penalty", ["x", -100.5, 101, 1e300, []]),
    ("frequency_penalty", ["x", -100.5, 101, 1e300, []]),
    ("n", ["2", 0, -1, 1.5, 10**6, 10**30, True, []]),
    ("seed", ["x", 1.5, 10**30, [], True]),
    ("stop", [5, True, {}, [1], ["a", None], [["a"]], ["x"] * 10000]),
    ("stop_token_ids", ["a", 5, [-1], [1.5], ["a"], [2**32], [10**30], [None], list(range(100000))]),
    ("stream", ["true", 1, [], {}]),
    ("stream_options", ["x", 1, [], {"include_usage": "x"}]),
    ("ignore_eos", ["x", 1, []]),
    ("user", [5, [], {}]),
]
CHAT_ONLY = [
    ("messages", [WRONG, None, [], "hi", 5, {}, [5], ["hi"], [None], [[]], [{}], [{"role": "user"}], [{"content": "hi"}],
                  [{"role": 5, "content": "hi"}], [{"role": "no-such-role", "content": "hi"}], [{"role": "user", "content": 5}],
                  [{"role": "user", "content": {"a": 1}}], [{"role": "user", "content": [5]}],
                  [{"role": "user", "content": [{"type": "text"}]}], [{"role": "user", "content": [{"type": "text", "text": 5}]}],
                  [{"role": "user", "content": [{"type": "no-such-type"}]}]]),
    ("max_completion_tokens", ["1", 1.5, -2, 10**30]),
    ("logprobs", ["x", 1, []]),
    ("top_logprobs", ["x", -2, 1.5, 1000, 10**30]),
]
COMPLETIONS_ONLY = [
    ("prompt", [WRONG, None, 5, True, {}, [None], [{}], [1, "a"], [1.5], [-1], [2**31], [10**30], [[1], ["a"]], [[[1]]],
                [["a"], [1]]]),
    ("logprobs", ["x", -2, 1.5, 1000, 10**30]),
]


def shorten(value):
    text = "missing" if value is WRONG else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def value_cases(path, model):
    build = chat if path == CHAT else completion
    for field, values in COMMON + (CHAT_ONLY if path == CHAT else COMPLETIONS_ONLY):
        for value in values:
            request = build(model)
            if value is WRONG:
                del request[field]
            else:
                request[field] = value
            if field in ("top_logprobs",):
                request["logprobs"] = True
            allowed = {404} if field == "model" and isinstance(value, str) and value else set()
            yield Case(f"{path}: {field} = {shorten(value)}", json.dumps(request).encode(), {400, 413, 422} | allowed)


# ---- methods and paths ----

def path_cases(body, key):
    auth = [b"Authorization: Bearer " + key.encode()] if key else []
    for method in (b"GET", b"PUT", b"DELETE", b"PATCH", b"QUERY"):
        for path in (CHAT, COMPLETIONS):
            kept = method == b"GET" and path == CHAT  # OpenAI lists the chats that it keeps: refused with the reason
            yield Case(f"{method.decode()} {path}", head(method, path.encode(), auth), {501 if kept else 405})
    yield Case(f"POST {CHAT}/x", post(CHAT + "/x", body, key), {501})  # ... and changes one
    for target in (CHAT + "/", "/" + CHAT, "/v1/chats", "/V1/chat/completions", "/v1/../v1/chat/completions",
                   "/v1/no-such", "/v1/chat/completions%20", "/%2e%2e/etc/passwd", "/v1/chat%2Fcompletion"):
        yield Case(f"POST {target}", post(target, body, key), {404, 405})


# ---- running ----

def all_cases(model, key=None):
    cases = []
    for path, request in ((CHAT, chat(model)), (COMPLETIONS, completion(model))):
        body = json.dumps(request).encode()
        for case in framing_cases(path, body, key):
            case.name = f"{path}: {case.name}"
            cases.append(case)
        for case in json_cases(path, model) + list(value_cases(path, model)):
            case.raw = post(path, case.raw, key)
            cases.append(case)
    cases += path_cases(json.dumps(chat(model)).encode(), key)
    return cases


class Connection:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self.buffer = b""

    def send(self, raw):
        """A server that has refused may close while we still send: what it said is read all the same."""
        try:
            self.socket.sendall(raw)
        except OSError:
            pass

    def more(self):
        try:
            piece = self.socket.recv(65536)
        except ConnectionError:
            piece = b""
        self.buffer += piece
        return bool(piece)

    def take(self, count):
        while len(self.buffer) < count:
            if not self.more():
                raise EOFError("connection ended inside an answer")
        piece, self.buffer = self.buffer[:count], self.buffer[count:]
        return piece

    def line(self):
        while b"\r\n" not in self.buffer:
            if not self.more():
                raise EOFError("connection ended inside a line")
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def response(self):
        """(status, headers, body) of the next final answer."""
        while True:
            status = int(re.fullmatch(rb"HTTP/1\.1 (\d{3}) .*", self.line()).group(1))
            headers = {}
            while line := self.line():
                name, value = line.split(b":", 1)
                headers[name.strip().lower()] = value.strip()
            if status >= 200:
                return status, headers, self.body(headers)

    def body(self, headers):
        if headers.get(b"transfer-encoding") != b"chunked":
            return self.take(int(headers.get(b"content-length", b"0")))
        body = b""
        while size := int(self.line(), 16):
            body += self.take(size)
            self.take(2)
        self.take(2)
        return body

    def ended(self):
        """True when the server closes (or has closed) and sends nothing more."""
        return not self.buffer and not self.more()

    def close(self):
        self.socket.close()


def check_error_shape(status, headers, body):
    if not headers.get(b"content-type", b"").startswith(b"application/json"):
        return f"{status} with content type {headers.get(b'content-type')}"
    error = json.loads(body.decode("utf-8")).get("error")
    if not isinstance(error, dict) or set(error) < {"message", "type", "param", "code"}:
        return f"{status} without an error object: {body[:200]!r}"
    if not isinstance(error["message"], str) or not error["message"] or not isinstance(error["type"], str):
        return f"{status} with a bad error object: {body[:200]!r}"
    if not (error["param"] is None or isinstance(error["param"], str)) or not isinstance(error["code"], (str, int, type(None))):
        return f"{status} with a bad param or code: {body[:200]!r}"
    return None


def run_case(host, port, case):
    """None, or what was wrong."""
    connection = Connection(host, port)
    try:
        connection.send(case.raw)
        if case.answers == [set()]:
            return None
        status = 0
        for number, allowed in enumerate(case.answers):
            status, headers, body = connection.response()
            if status not in allowed:
                return f"answer {number + 1} is {status}, expected one of {sorted(allowed)}: {body[:200]!r}"
            wrong = check_error_shape(status, headers, body) if status >= 400 else None
            if wrong:
                return wrong
        if case.framing and status >= 400:
            if headers.get(b"connection", b"").lower() != b"close":
                return f"{status} without Connection: close"
            if not connection.ended():
                return f"{status}, and the connection goes on: {connection.buffer[:200]!r}"
        return None
    except (EOFError, AttributeError, ValueError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()


def alive(host, port):
    live = Case("alive", head(b"GET", b"/health/live", [b"Connection: close"]), {200})
    return run_case(host, port, live) is None


def first_model(host, port, key=None):
    connection = Connection(host, port)
    auth = [b"Authorization: Bearer " + key.encode()] if key else []
    connection.send(head(b"GET", b"/v1/models", [b"Connection: close"] + auth))
    status, _, body = connection.response()
    connection.close()
    if status != 200:
        raise RuntimeError(f"/v1/models answers {status}")
    return json.loads(body)["data"][0]["id"]


def run_cases(host, port, model=None, key=None, only=""):
    """Runs every case whose name holds `only`; returns the failures as texts. Stops when the server no longer answers."""
    model = model or first_model(host, port, key)
    failures = []
    for case in all_cases(model, key):
        if only not in case.name:
            continue
        wrong = run_case(host, port, case)
        if wrong:
            failures.append(f"{case.name}: {wrong}")
        if not alive(host, port):
            failures.append(f"{case.name}: the server does not answer afterwards")
            break
    return failures


def main(argv):
    host, port = argv[0], int(argv[1])
    key, only = os.environ.get("API_KEY"), argv[2] if len(argv) > 2 else ""
    failures = run_cases(host, port, key=key, only=only)
    for failure in failures:
        print("not ok", failure)
    print(f"{len(all_cases('m'))} cases, {len(failures)} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
