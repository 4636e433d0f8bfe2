#!/usr/bin/env python3
"""Renders random templates with our engine and with jinja2 in HF's settings, and compares: the same text, or errors in both.

    template_random.py --program BUILD/bin/text_render --count 20000 --seed 1

Needs: pip install jinja2==3.1.2 (see template_diff.py). A template is made of statements and expressions by a grammar; most are small,
so that an error in one does not hide the rest. What is known to differ is in SKIP.
"""
import argparse
import datetime
import json
import random
import re
import subprocess
import sys

from template_diff import NOW, environment, reference

VARS = {
    "s": "Some text, é\n  two  lines ", "w": "word", "empty": "", "h": "<a href='x'>b & \"c\"</a>", "n": 7, "z": 0, "neg": -3, "f": 2.5,
    "t": True, "no": False, "none_": None, "l": [3, 1, 2], "ls": ["b", "A", "c"], "e": [], "d": {"a": 1, "b": [1, 2], "items": 5, "k": "v"},
    "m": [{"role": "user", "content": "Hi", "n": 1}, {"role": "assistant", "content": "", "n": 2, "x": None},
          {"role": "user", "content": [{"type": "text", "text": "t"}], "n": 3}],
    "deep": {"a": {"b": {"c": [1, {"d": "x"}]}}},
}
# addresses, classes as text, and methods and filters that no prompt needs
SKIP = re.compile(r" at 0x|<class|<function|not supported|(?i:generator object)|pprint|Markup")
FILTERS = """abs capitalize center(9) count d('x') default('y',true) dictsort e escape first float forceescape format(1) indent indent(2,true)
 int items join join('-') last length list lower max min reject('odd') rejectattr('n') replace('e','E') reverse round round(1) safe select
 select('string') selectattr('n','equalto',2) selectattr('role','in',['user']) slice(2) sort sort(reverse=true) string striptags sum title tojson tojson(indent=2) trim
 trim('x') truncate(5) truncate(5,true,'') unique upper urlencode wordcount map('upper') map(attribute='role') map(attribute='zz',default='q')
 batch(2) batch(2,'-') groupby('role') sum(attribute='n') sort(attribute='n') wordwrap(4) filesizeformat pprint attr('role') xmlattr
 tojson(separators=(',',':')) tojson(sort_keys=true) join('/',attribute='role') min(attribute='n') tojson(ensure_ascii=true)""".split("\n")
FILTERS = [f for line in FILTERS for f in re.findall(r"[a-z]+(?:\((?:[^()]|\([^()]*\))*\))?", line)]
TESTS = """defined undefined none boolean true false integer float number string mapping iterable sequence callable odd even divisibleby(2) divisibleby(3)
 eq(1) equalto('word') ne(1) gt(1) ge(2) lt(3) le(2) in([1,2,'word']) lower upper sameas(none) escaped""".split()
METHODS = """upper() lower() strip() lstrip() rstrip() strip('x') split() split(',') split('e',1) rsplit(' ',1) startswith('S') endswith(('x','d')) replace('e','') title()
 capitalize() find('o') count('e') index('o') splitlines() isdigit() isalpha() isupper() islower() join(['a','b']) format(1,2) zfill(9) ljust(9) rjust(9,'*')
 center(9) partition(' ') rpartition(' ') swapcase() removeprefix('So') removesuffix('d') isspace() isalnum() istitle() expandtabs() items() keys() values()
 get('a') get('zz') get('zz',4) copy() index(1) isidentifier() casefold()""".split()
METHODS = re.findall(r"\w+\((?:[^()]|\([^()]*\))*\)", " ".join(METHODS))


class Maker:
    def __init__(self, rng):
        self.r = rng
        self.names = list(VARS)

    def pick(self, *options):
        return self.r.choice(options)

    def name(self):
        return self.r.choice(self.names + ["undef", "loop", "x"])

    def literal(self):
        return self.pick("1", "0", "-2", "3.5", "'a'", "\"b c\"", "''", "true", "false", "none", "[]", "[1,2,3]", "['a','b']", "{}", "{'a':1}",
                         "(1,2)", "()", "1e3", "'\\n'", "'é'", "1_000", "0x1f")

    def expr(self, depth):
        if depth <= 0:
            return self.pick(self.name(), self.name(), self.literal())
        e = lambda: self.expr(depth - 1 - self.r.randrange(2))
        k = self.r.randrange(22)
        if k < 4:
            return f"{e()}|{self.r.choice(FILTERS)}"
        if k < 6:
            return f"({e()}) is {self.pick('', 'not ')}{self.r.choice(TESTS)}"
        if k < 8:
            return f"{self.pick(self.name(), '(' + e() + ')')}.{self.r.choice(METHODS)}"
        if k == 8:
            return f"{self.name()}.{self.pick('role', 'a', 'b', 'n', 'items', 'k', 'index', 'first', 'x')}"
        if k == 9:
            return f"{self.name()}[{e()}]"
        if k == 10:
            return f"{self.name()}[{self.pick('', '0', '1', '-1', '-2')}:{self.pick('', '1', '2', '-1')}{self.pick('', ':-1', ':2', ':1')}]"
        if k < 14:
            return f"({e()} {self.pick('+', '-', '*', '/', '//', '%', '**', '~', '==', '!=', '<', '>', '<=', '>=', 'and', 'or', 'in', 'not in', '~')} {e()})"
        if k == 14:
            return f"({e()} if {e()} else {e()})"
        if k == 15:
            return f"({e()} if {e()})"
        if k == 16:
            return f"(not {e()})"
        if k == 17:
            return f"[{e()}, {e()}]"
        if k == 18:
            return f"{{'k': {e()}, 'j': {e()}}}"
        if k == 19:
            return f"range({self.pick('3', '1,4', '4,0,-2', '0')})|list"
        if k == 20:
            return f"-({e()})"
        return f"{e()} < {e()} < {e()}"

    def ws(self):
        return self.pick("", "", "", "-", "+")

    def tag(self, body):
        left, right = self.pick("", "", "-", "+"), self.pick("", "", "-", "+")
        return "{%" + left + " " + body + " " + right + "%}"

    def text(self):
        return self.pick("", " ", "\n", "x", "a\n  ", "  b", "\n\n", "{", "}}", "é ", "# ")

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.r.randrange(1, 4)))

    def statement(self, depth):
        k = self.r.randrange(20 if depth > 0 else 8)
        e = lambda: self.expr(self.r.randrange(4))
        b = lambda: self.body(depth - 1)
        if k < 2:
            return self.text()
        if k < 7:
            left, right = self.pick("", "", "-"), self.pick("", "", "-")
            return "{{" + left + " " + e() + " " + right + "}}"
        if k == 7:
            return self.pick("{# c #}", "{#- c -#}\n", "  {# c\n #}\n", "{%- raw %} {{ x }} {% endraw -%}", "{% raw -%}\n{% x %}\n{%- endraw %}")
        if k < 10:
            out = self.tag(f"if {e()}") + b()
            if self.r.random() < 0.3:
                out += self.tag(f"elif {e()}") + b()
            if self.r.random() < 0.4:
                out += self.tag("else") + b()
            return out + self.tag("endif")
        if k < 13:
            target, source = self.pick(("x", e()), ("x", "m"), ("k, v", "d.items()"), ("x", "l"), ("a, b", "[(1,2),(3,4)]"), ("x", "range(4)"))
            more = self.pick("", "", "", " if x", " if loop_ is not defined", " recursive")
            inner = b() + self.pick("", "{{ loop.index }}", "{{ loop.first }}{{ loop.last }}", "{{ loop.revindex0 }}/{{ loop.length }}", "{{ loop.previtem }}",
                                    "{{ loop.nextitem is defined }}", "{{ loop.cycle('a','b') }}", "{{ loop.changed(x) }}", "{{ loop.depth0 }}",
                                    self.tag(f"if {e()}") + self.tag(self.pick("break", "continue")) + self.tag("endif"))
            out = self.tag(f"for {target} in {source}{more}") + inner
            if self.r.random() < 0.2:
                out += self.tag("else") + b()
            return out + self.tag("endfor")
        if k < 15:
            return self.tag(self.pick(f"set x = {e()}", f"set x, y = {self.pick('1, 2', 'l[:2]', e())}", f"set ns = namespace(a={e()})", "set ns.a = 5"))
        if k == 15:
            return self.tag(self.pick("set x", "set x | upper", "set x | trim")) + b() + self.tag("endset")
        if k == 16:
            call = self.pick("f()", "f(1)", "f(1, 2)", "f(b=3)", "f(1, z=2)", "f(1,2,3)", f"f({e()})", "f.name", "f.arguments", "f.catch_kwargs")
            return self.tag(self.pick("macro f(a, b=2)", "macro f()", "macro f(a='x')", "macro f(a, b=a)")) + b() + self.pick(
                "{{ a }}{{ b }}", "{{ varargs }}", "{{ kwargs }}", "{{ caller() if caller }}") + self.tag("endmacro") + "{{ " + call + " }}"
        if k == 17:
            filters = self.pick("upper", "trim", "indent(2)", "replace('a', 'b')", "trim|upper", "tojson")
            return self.tag("filter " + filters) + b() + self.tag("endfilter")
        if k == 18:
            return self.tag(f"with x = {e()}{self.pick('', ', y = x')}") + b() + self.tag("endwith")
        return (self.tag("macro g(q)") + "[{{ q }}{{ caller(1) }}]" + self.tag("endmacro") + self.tag("call(u) g(" + e() + ")") + b() + "{{ u }}" + self.tag("endcall"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--program", required=True)
    p.add_argument("--count", type=int, default=20000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--show", type=int, default=20)
    args = p.parse_args()
    env = environment()
    ours = subprocess.Popen([args.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    now = int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())
    same = rendered = skipped = 0
    for i in range(args.count):
        maker = Maker(random.Random(args.seed * 1000003 + i))
        template = maker.body(2)
        want = reference(env, template, VARS)
        ours.stdin.write((json.dumps({"template": template, "vars": VARS, "now": now}, ensure_ascii=False) + "\n").encode())
        ours.stdin.flush()
        line = ours.stdout.readline()
        assert line, f"our program died on {template!r}"
        got = json.loads(line)
        if got.get("text") == want.get("text") and ("text" in got) == ("text" in want):
            same += 1
            rendered += "text" in got
        elif SKIP.search(json.dumps(want) + json.dumps(got) + template):
            skipped += 1
        elif args.show > 0:
            args.show -= 1
            print(f"{template!r}\n    want {json.dumps(want)[:300]}\n    got  {json.dumps(got)[:300]}", file=sys.stderr)
    print(f"{same} of {args.count} as jinja2 ({rendered} rendered), {skipped} known to differ")
    sys.exit(0 if same + skipped == args.count else 1)


if __name__ == "__main__":
    main()
