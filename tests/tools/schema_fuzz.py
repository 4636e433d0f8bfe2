"""Random schemas and values near them, judged by `trireme grammar` and by jsonschema: every disagreement is printed.

    python tests/tools/schema_fuzz.py [SCHEMAS [SEED]]

A schema is drawn from the keywords of drafts 2020-12 and 7 over few names, patterns and numbers, so that its keywords meet. Values are drawn
likewise, then mended towards the schema or spoilt. A schema that we refuse proves nothing; how many were, and why, is printed at the end. Needs
jsonschema. Ends with 1 where the two disagree.
"""
import collections
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import jsonschema

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (os.environ.get("BUILD_RELEASE") or str(ROOT / "build" / "release")) + "/bin/trireme"
NAMES = ["a", "b", "ab", "c1", "x", "é"]
PATTERNS = ["^a", "b$", "^[a-c]+$", "[0-9]", "^.{2,3}$", "^(?!a)", "x|é", "^a(?=b)", "^$", "^(ab|c1)*$", "^[^a]+$"]
FORMATS = ["date", "ipv4", "uuid", "unheard-of"]
STRINGS = ["", "a", "b", "ab", "abc", "c1", "x", "é", "aé", "ba", "1", "2024-02-29", "2023-02-29", "127.0.0.1", "127.0.0.256",
           "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "a\"b", "a\\", "\t"]
NUMBERS = [0, 1, 2, 3, -1, 5, 10, 0.5, 1.5, -2.5, 2.25, 12, 100, -100]
STEPS = [1, 2, 3, 0.5, 0.25, 5]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
OLD = "http://json-schema.org/draft-07/schema#"
NEW = "https://json-schema.org/draft/2020-12/schema"


class Draw:
    """One schema: what is drawn depends on the seed alone."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.old = self.r.random() < 0.3
        self.definitions = self.r.sample(["d1", "d2", "d3"], self.r.choice([0, 0, 1, 2]))
        # few keywords at a time, else nearly all of it is refused
        self.keywords = set(self.r.sample(
            ["not", "anyOf", "oneOf", "allOf", "if", "dependent", "contains", "unique", "pattern", "format", "multiple", "names", "patternProperties",
             "additional", "counts", "prefix", "unevaluated", "enum", "const"], self.r.choice([3, 5, 8])))

    def has(self, keyword, chance=0.4):
        return keyword in self.keywords and self.r.random() < chance

    def value(self, depth=0):
        r = self.r
        kind = r.choice(TYPES if depth < 2 else TYPES[:5])
        if kind == "null":
            return None
        if kind == "boolean":
            return r.random() < 0.5
        if kind == "integer":
            return r.choice([n for n in NUMBERS if isinstance(n, int)])
        if kind == "number":
            return r.choice(NUMBERS)
        if kind == "string":
            return r.choice(STRINGS)
        if kind == "array":
            return [self.value(depth + 1) for _ in range(r.choice([0, 1, 1, 2, 3, 4]))]
        return {n: self.value(depth + 1) for n in r.sample(NAMES, r.choice([0, 1, 1, 2, 3]))}

    def some(self, depth, least=1, most=3):
        return [self.schema(depth + 1) for _ in range(self.r.randint(least, most))]

    def of_numbers(self, s):
        r = self.r
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if r.random() < 0.25:
                s[key] = r.choice(NUMBERS)
        if self.has("multiple"):
            s["multipleOf"] = r.choice(STEPS)

    def of_strings(self, s):
        r = self.r
        if r.random() < 0.3:
            s["minLength"] = r.randint(0, 3)
        if r.random() < 0.3:
            s["maxLength"] = r.randint(0, 4)
        if self.has("pattern"):
            s["pattern"] = r.choice(PATTERNS)
        if self.has("format"):
            s["format"] = r.choice(FORMATS)

    def of_arrays(self, s, depth):
        r = self.r
        if self.has("prefix"):
            s["items" if self.old else "prefixItems"] = self.some(depth)
            if r.random() < 0.5:
                s["additionalItems" if self.old else "items"] = self.schema(depth + 1)
        elif r.random() < 0.6:
            s["items"] = self.schema(depth + 1)
        if r.random() < 0.3:
            s["minItems"] = r.randint(0, 3)
        if r.random() < 0.3:
            s["maxItems"] = r.randint(0, 4)
        if self.has("unique"):
            s["uniqueItems"] = True
        if self.has("contains"):
            s["contains"] = self.schema(depth + 1)
            if not self.old and r.random() < 0.5:
                s[r.choice(["minContains", "maxContains"])] = r.randint(0, 3)
        if self.has("unevaluated", 0.3) and not self.old:
            s["unevaluatedItems"] = r.choice([False, {"type": "string"}])

    def of_objects(self, s, depth):
        r = self.r
        if r.random() < 0.8:
            s["properties"] = {n: self.schema(depth + 1) for n in r.sample(NAMES, r.randint(1, 3))}
        if r.random() < 0.4:
            s["required"] = r.sample(NAMES, r.randint(1, 2))
        if self.has("patternProperties"):
            s["patternProperties"] = {p: self.schema(depth + 1) for p in r.sample(PATTERNS, r.randint(1, 2))}
        if self.has("additional", 0.6):
            s["additionalProperties"] = r.choice([False, False, True, self.schema(depth + 1)])
        if self.has("names"):
            s["propertyNames"] = r.choice([{"pattern": r.choice(PATTERNS)}, {"maxLength": 2}, {"enum": r.sample(NAMES, 2)},
                                           {"not": {"enum": r.sample(NAMES, 2)}}, self.schema(depth + 1)])
        if self.has("counts"):
            s[r.choice(["minProperties", "maxProperties"])] = r.randint(0, 3)
        if self.has("dependent"):
            names, kind = r.sample(NAMES, 3), r.random() < 0.5
            if self.old:
                s["dependencies"] = {names[0]: names[1:] if kind else self.schema(depth + 1)}
            else:
                s["dependentRequired" if kind else "dependentSchemas"] = {names[0]: names[1:] if kind else self.schema(depth + 1)}
        if self.has("unevaluated", 0.3) and not self.old:
            s["unevaluatedProperties"] = r.choice([False, {"type": "string"}])

    def schema(self, depth=0):
        r = self.r
        if r.random() < 0.06:
            return r.random() < 0.8
        if self.definitions and r.random() < 0.15:
            ref = {"$ref": "#/%s/%s" % ("definitions" if self.old else "$defs", r.choice(self.definitions))}
            return ref
        if self.has("enum", 0.2):
            return {"enum": [self.value(1) for _ in range(r.randint(1, 4))]}
        if self.has("const", 0.2):
            return {"const": self.value(1)}
        s = {}
        types = r.sample(TYPES if depth < 3 else TYPES[:5], r.choice([1, 1, 1, 2]))
        if r.random() < 0.8:
            s["type"] = types[0] if len(types) == 1 else types
        for kind in types:
            if kind in ("integer", "number"):
                self.of_numbers(s)
            elif kind == "string":
                self.of_strings(s)
            elif kind == "array":
                self.of_arrays(s, depth)
            elif kind == "object":
                self.of_objects(s, depth)
        if depth < 3:
            for key in ("allOf", "anyOf", "oneOf"):
                if self.has(key, 0.25):
                    s[key] = self.some(depth)
            if self.has("not", 0.25):
                s["not"] = self.schema(depth + 1)
            if self.has("if", 0.25):
                s["if"] = self.schema(depth + 1)
                for key in ("then", "else"):
                    if r.random() < 0.7:
                        s[key] = self.schema(depth + 1)
        return s

    def document(self):
        s = self.schema()
        if isinstance(s, bool):
            s = {"properties": {"a": s}}
        if self.old and "$ref" in s:
            s = {"allOf": [s]}
        if self.definitions:
            s["definitions" if self.old else "$defs"] = {n: self.schema(1) for n in self.definitions}
        s["$schema"] = OLD if self.old else NEW
        return s

    # ---- values near a schema ----

    def near(self, root, s, depth=0):
        r = self.r
        if depth > 4 or not isinstance(s, dict) or r.random() < 0.12:
            return self.value(min(depth, 2))
        if "$ref" in s:
            at = root
            for step in s["$ref"].split("/")[1:]:
                at = at[step]
            return self.near(root, at, depth + 1)
        if "const" in s:
            return s["const"]
        if "enum" in s:
            return r.choice(s["enum"])
        lists = [k for k in ("anyOf", "oneOf", "allOf") if s.get(k)]
        inner = [k for k in ("if", "then", "else") if s.get(k) is not None]
        if lists and r.random() < 0.6:
            return self.near(root, {**s, "anyOf": None, "oneOf": None, "allOf": None, **self.merged(s, r.choice(s[r.choice(lists)]))}, depth + 1)
        if inner and r.random() < 0.5:
            return self.near(root, {**s, "if": None, **self.merged(s, s[r.choice(inner)])}, depth + 1)
        kinds = s.get("type") or ("object" if s.get("properties") or s.get("required") else
                                  "array" if s.get("items") or s.get("prefixItems") or s.get("contains") else r.choice(TYPES))
        kind = kinds if isinstance(kinds, str) else r.choice(kinds)
        if kind == "array":
            places = s.get("prefixItems") or (s["items"] if isinstance(s.get("items"), list) else [])
            rest = s.get("additionalItems") if isinstance(s.get("items"), list) else s.get("items")
            some = [self.near(root, p, depth + 1) for p in places[:r.randint(0, len(places))]]
            if len(some) == len(places):
                more = r.randint(0, 3)
                some += [self.near(root, s["contains"] if s.get("contains") and r.random() < 0.5 else rest, depth + 1) for _ in range(more)]
            return some
        if kind == "object":
            own, out = s.get("properties") or {}, {}
            names = list(s.get("required") or []) + [n for n in own if r.random() < 0.5]
            names += [r.choice(NAMES)] if r.random() < 0.3 else []
            for n in names:
                out[n] = self.near(root, own.get(n, s.get("additionalProperties")), depth + 1)
            return out
        if kind in ("integer", "number"):
            edges = [s[k] for k in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if k in s and r.random() < 0.8]
            if edges:
                return r.choice(edges) + r.choice([0, 0, 1, -1, 0.5, -0.25])
            return r.choice(NUMBERS)
        return r.choice(STRINGS) if kind == "string" else None if kind == "null" else r.random() < 0.5

    @staticmethod
    def merged(s, branch):
        if not isinstance(branch, dict):
            return {}
        out = dict(branch)
        if isinstance(s.get("properties"), dict) and isinstance(branch.get("properties"), dict):
            out["properties"] = {**s["properties"], **branch["properties"]}
        if "required" in s and "required" in branch:
            out["required"] = s["required"] + branch["required"]
        return out

    def text(self, value):
        """The value as some program may write it; numbers without exponents."""
        r = self.r
        text = json.dumps(value, ensure_ascii=r.random() < 0.3, indent=r.choice([None, None, None, 1]))
        if isinstance(value, int) and not isinstance(value, bool) and r.random() < 0.2:
            text += ".0"
        return text


def verdicts(schema):
    """Formats bind in draft 7; in 2020-12 they are annotations."""
    if schema["$schema"] == OLD:
        return jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker(["date", "ipv4", "uuid"]))
    return jsonschema.Draft202012Validator(schema)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    cases, lines = [], []
    for n in range(count):
        d = Draw(seed * 1000003 + n)
        schema = d.document()
        values = [d.near(schema, schema) for _ in range(24)] + [d.value() for _ in range(6)]
        texts = [d.text(v) for v in values]
        cases.append((seed * 1000003 + n, schema, values, texts))
        lines.append(json.dumps({"schema": schema, "texts": texts}))
    out = subprocess.run([PROGRAM, "grammar", "--jsonl"], input="\n".join(lines) + "\n", capture_output=True, text=True, encoding="utf-8")
    answers = out.stdout.splitlines()
    if out.returncode or len(answers) != count:
        sys.exit("trireme grammar ended with %d after %d of %d: %s" % (out.returncode, len(answers), count, out.stderr[-2000:]))
    refused, wrong, judged, valid = collections.Counter(), 0, 0, 0
    for (draw, schema, values, texts), line in zip(cases, answers):
        answer = json.loads(line)
        if not answer["ok"]:
            error = answer["error"]
            refused[(error if isinstance(error, str) else str(error.get("message")))[:70]] += 1
            never = "no text satisfies" in str(error)
            if not never:
                continue
            answer = {"accepts": [False] * len(texts)}
        judge = verdicts(schema)
        for value, text, ours in zip(values, texts, answer["accepts"]):
            try:
                theirs = judge.is_valid(value)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # a schema that refers to itself: a RecursionError, or a panic of jsonschema's library
                continue
            judged, valid = judged + 1, valid + theirs
            if ours != theirs:
                wrong += 1
                print(json.dumps({"draw": draw, "schema": schema, "text": text, "ours": ours, "jsonschema": theirs}, ensure_ascii=False))
                break
    print("%d schemas, %d compiled, %d texts judged (%d valid), %d schemas disagree" % (
        count, count - sum(refused.values()), judged, valid, wrong))
    for why, times in refused.most_common(30):
        print("%6d refused: %s" % (times, why))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
