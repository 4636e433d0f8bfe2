#!/usr/bin/env python3
"""Renders every golden under shared data with our engine and with jinja2 in HF's settings, and compares.

    template_diff.py --program BUILD/bin/text_render SHARED/chat_templates

Needs: pip install jinja2==3.1.2 (the goldens' version; later ones refuse list.pop, which templates in use need). Where jinja2 refuses, we must refuse too; messages are shown but not compared.
"""
import argparse
import copy
import datetime
import json
import subprocess
import sys
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = datetime.datetime(2025, 7, 10, 12, 0, 0)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(lineno)

    def _run(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: NOW.strftime(f)
    return env


def reference(env, template, variables):
    try:
        return {"text": env.from_string(template).render(**copy.deepcopy(variables))}
    except Exception as e:  # all that jinja2 and Python raise
        return {"error": f"{type(e).__name__}: {e}"}


def cases(root):
    goldens = root / "goldens"
    contexts = json.loads((goldens / "contexts.json").read_text())
    for line in (goldens / "rendered_jinja2.jsonl").open():
        r = json.loads(line)
        if "context" in r:
            path = root / r["template"]
            yield "rendered", f"{r['template']} {r['context']}", path.read_text(), contexts[r["context"]], r.get("output")
        else:
            yield "compile", r["template"], (root / r["template"]).read_text(), contexts["simple"], None
    for c in json.loads((goldens / "hf_jinja_e2e.json").read_text())["cases"]:
        yield "e2e", c["name"], c["template"], c["vars"], c["expected"] if c["jinja2_agrees"] else None
    for name in ("hf_jinja_units", "llama.cpp_jinja_cases"):
        for c in json.loads((goldens / f"{name}.json").read_text()):
            yield name, c["name"], c["template"], c["vars"], c["expected"] if c["jinja2_agrees"] else None
    d = json.loads((goldens / "llama.cpp_chat_template_cases.json").read_text())
    for c in d["cases"]:
        variables = {"messages": d["messages"], "add_generation_prompt": d["add_generation_prompt"], "bos_token": c.get("bos_token", ""), "eos_token": c.get("eos_token", "")}
        yield "chat", c["name"], c["template"], variables, c.get("jinja2_3.1.2_output")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--program", required=True)
    p.add_argument("--show", type=int, default=10)
    p.add_argument("root", type=Path)
    args = p.parse_args()
    env = environment()
    ours = subprocess.Popen([args.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    counts, shown = {}, 0
    for group, name, template, variables, golden in cases(args.root):
        want = reference(env, template, variables)
        request = {"template": template, "vars": variables, "now": int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())}
        ours.stdin.write((json.dumps(request, ensure_ascii=False) + "\n").encode())
        ours.stdin.flush()
        line = ours.stdout.readline()
        assert line, f"our program died on {name}"
        got = json.loads(line)
        same = got.get("text") == want.get("text") and ("text" in got) == ("text" in want)
        if golden is not None and want.get("text") != golden:
            print(f"  golden and jinja2 here differ: {group} {name}", file=sys.stderr)
        good, total = counts.get(group, (0, 0))
        counts[group] = (good + same, total + 1)
        if not same and shown < args.show:
            shown += 1
            print(f"  {group} {name}\n    want {json.dumps(want)[:1500]}\n    got  {json.dumps(got)[:1500]}", file=sys.stderr)
    for group, (good, total) in counts.items():
        print(f"{group}: {good} of {total} as jinja2")
    sys.exit(0 if all(g == t for g, t in counts.values()) else 1)


if __name__ == "__main__":
    main()
