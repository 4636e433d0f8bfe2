"""Runs end-to-end test files: every function test_* of the named modules, one line each ("ok", "not ok", "skip KIND").

    python3 tests/e2e/run.py [-k SUBSTRING] file.py ...
"""
import importlib.util
import os
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))


class Skip(Exception):
    """Raised by a test that lacks its means: Skip(kind, why)."""


def required(kind):
    return kind in os.environ.get("TRIREME_TEST_REQUIRE", "").replace(",", " ").split()


def main(argv):
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # `trireme run` would wait for the end of a pipe that is left open
    pattern = ""
    if argv[:1] == ["-k"]:
        pattern, argv = argv[1], argv[2:]
    failures = 0
    for path in argv:
        spec = importlib.util.spec_from_file_location(Path(path).stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, test in list(vars(module).items()):
            if not name.startswith("test_") or not callable(test) or pattern not in name:
                continue
            label, began = f"e2e.{Path(path).stem}.{name[5:]}", time.monotonic()
            try:
                note = test()
                print(f"ok {label} ({time.monotonic() - began:.1f} s{'; ' + note if note else ''})", flush=True)
            except Skip as s:
                kind, why = s.args
                if required(kind):
                    failures += 1
                    print(f"not ok {label}: needs {kind}, which is required here: {why}", flush=True)
                else:
                    print(f"skip {kind} {label}: {why}", flush=True)
            except BaseException as e:
                failures += 1
                traceback.print_exc()
                print(f"not ok {label}: {type(e).__name__}: {' '.join(str(e).split())[:600]}", flush=True)
                if isinstance(e, KeyboardInterrupt):
                    return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.modules["run"] = sys.modules["__main__"]
    sys.exit(main(sys.argv[1:]))
