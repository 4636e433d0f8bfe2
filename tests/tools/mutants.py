#!/usr/bin/env python3
"""Plants bugs drawn at random in the product's C and asks whether a unit test notices.

    python3 tests/tools/mutants.py [COUNT] [PATH...] [--seed TEXT] [--seconds S] [--notes FILE] [--jobs N] [--first N] [--suites]

A mutant is one change of one to three tokens (mutate.py) in one file; COUNT (20) are drawn from PATH... (files,
FILE:LINE, or folders; all of FOLDERS without any) by the seed (the commit's hash). FILE:LINE tries each change of
a line, to see whether a test that was written for a survivor notices it. The changed file is compiled as the
release build compiles it, but with -O1, and linked in front of that build's libraries, so that nothing else is
built again; then the unit programs of its folder that contain it run (any that do, where its folder has none),
until one fails. What noticed the file's last mutant goes first. A program that fails counts only if it fails
twice, and passes when it is linked the same way with the file as it is: the libraries may have changed since the
program was built. So the programs are built first, of the sanitized build each when it is needed, and what cannot survive, a file that traps at its start, is
tried before anything is drawn. With --suites the simulator runs after them where it contains the file. What none
of them noticed has the same programs of the sanitized build to pass, but for those that never ran the function that
changed: each notes in a file that is given to it whether it did. Where none did, that is said. A mutant that does not compile, or whose
machine code is the same, is not counted: another is drawn. Nor is one that makes no difference, as mutants_same.txt
says with the reason; nor one that nothing noticed while a program did not run for want of time, or fails without a
bug too: what became of it is unknown. Several are tried at once (--jobs), since most programs wait more than they
compute; which ones are drawn does not depend on it. With --first N, only the N programs judge that are likeliest to notice:
a first look that takes little, after which --again without it shows what survives all of them. Programs that wait most of half a minute (WAITERS) never run. All of it is
under build/mutants; the sources are not touched.

--notes FILE keeps each verdict, one line of JSON each. A run with the same seed, paths and file goes on where the
last one ended: what was tried there counts and is not tried again. So a long draw is made in pieces (--seconds),
and with --again its survivors and what is unknown, and they alone, meet the tests that have been written since. Where
a file or the number of files changed meanwhile, others are drawn.

Prints each mutant and what noticed it, then what survived. Exit status 1: fewer than --least percent of them
were noticed.
"""
import argparse
import atexit
import hashlib
import json
import math
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mutate  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("gateway scheduler worker text proto base model formats grammar http lease cli kernels/cpu kernels/ref").split()
WORK = f"{ROOT}/build/mutants"
SLOWEST_S = 60  # of one program whose time is not known yet
WAITERS = ("test_scheduler_process",)  # half a minute each, in which it waits: never run here
KNOWN = f"{WORK}/known.json"  # what runs before this one have learned
SAME = f"{ROOT}/tests/tools/mutants_same.txt"  # changes that change nothing that anybody could see
CHECKED = "proto/liveness.c"  # what is made to trap at its start
NOTING = """/* A byte that the run's file has, also in processes that the program starts; without a file, one that nobody reads. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile unsigned char nowhere;
volatile unsigned char *mutants_note = &nowhere;
__attribute__((constructor(101), no_sanitize("address", "undefined"))) static void begin(void)
{
    const char *path = getenv("MUTANTS_NOTE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *page = fd >= 0 ? mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (page != MAP_FAILED)
        mutants_note = page;
    if (fd >= 0)
        close(fd);
}
"""
TRAP = "__attribute__((constructor)) static void mutants_trap(void)\n{\n    __builtin_trap();\n}\n"


class Build:
    """A build of the tree: how a file is compiled, and which programs contain it."""

    def __init__(self, folder, paths, simulator, like, first):
        self.folder = folder
        self.first = first  # so many of the likeliest programs judge
        self.like = like  # another build of the tree, whose programs contain the same; None: this is the first
        self.commands = {}  # source, relative to the repository: compile commands
        for entry in json.load(open(f"{folder}/compile_commands.json")):
            source = os.path.relpath(entry["file"], ROOT)
            if not source.startswith(("..", "build/", "tests/", "bench/")):
                self.commands.setdefault(source, []).append(shlex.split(entry["command"]))
        self.lock = threading.Lock()
        self.fresh = set()  # programs that are as the tree is now
        self.programs = {}  # unit program: its symbols
        for name in [] if like else self.built(paths, simulator):
            self.programs[name] = symbols(f"{folder}/bin/{name}")
        self.objects = {}  # source: the symbols of its objects
        self.links = {}
        self.parts = {}  # source: the files that it includes
        self.included = {}  # program: headers
        known = json.load(open(KNOWN)).get(folder, {}) if os.path.exists(KNOWN) else {}
        self.durations = known.get("durations", {})  # program: seconds where it succeeded
        self.finders = known.get("finders", {})  # file: the program that noticed its last mutant
        self.clean = {}  # program, file, what it is linked of: it succeeds without a bug
        self.name = os.path.basename(folder)

    def remember(self):
        """For the next run: how long programs take, and what noticed a change of a file."""
        known = json.load(open(KNOWN)) if os.path.exists(KNOWN) else {}
        known[self.folder] = {"durations": self.durations, "finders": self.finders}
        with open(f"{KNOWN}.new", "w") as out:
            json.dump(known, out)
        os.replace(f"{KNOWN}.new", KNOWN)

    def built(self, paths, simulator):
        """The unit programs of these paths' folders as the tree is now; of other folders, what had been built before, if all are asked."""
        asked = subprocess.run(["ninja", "-C", self.folder, "-t", "targets", "all"], capture_output=True, text=True, check=True).stdout
        names = sorted(set(re.findall(r"^bin/(test_(?!emu_)\w+|sim): ", asked, re.M)))
        tops = tuple(f"test_{path.split('/')[0]}_" for path in [*paths, CHECKED])
        others = [n for n in names if os.path.exists(f"{self.folder}/bin/{n}") and (n != "sim" or simulator)]
        some = [n for n in names if n.startswith(tops)]
        names = some + [n for n in others if n not in some and (paths == FOLDERS or n == "sim")]
        self.bring(names)
        return names

    def bring(self, names):
        """Builds programs as the tree is now, each once."""
        with self.lock:
            missing = [n for n in names if n not in self.fresh]
            if not missing:
                return
            done = subprocess.run(["ninja", "-C", self.folder, "-j2", *(f"bin/{n}" for n in missing)], capture_output=True, text=True)
            if done.returncode:
                print(f"{self.folder} does not build:\n{done.stdout[-2000:]}", file=sys.stderr, flush=True)
                os._exit(2)  # of every lane
            self.fresh.update(missing)

    def defines(self, unit):
        """The symbols of a source's objects."""
        if unit not in self.objects:
            paths = [f"{self.folder}/{c[c.index('-o') + 1]}" for c in self.commands[unit]]
            self.objects[unit] = set().union(*(symbols(p) for p in paths if os.path.exists(p)))
        return self.objects[unit]

    def units(self, path):
        """The sources that are compiled anew when this file changes."""
        if path.endswith(".c"):
            return [path] if path in self.commands and runs_here(self.commands[path]) else []
        folder = path.split("/")[0] + "/"
        for source in self.commands:
            if source.startswith(folder) and source not in self.parts:
                self.parts[source] = included(source, set())
        return sorted(source for source, parts in self.parts.items() if path in parts and runs_here(self.commands[source]))

    def holders(self, path, simulator):
        """The programs that contain the file, the likeliest to notice first: of its own folder, or any where that has none."""
        if self.like:
            return self.like.holders(path, simulator)
        units = [self.defines(u) for u in self.units(path)]
        folder = path.split("/")[0]
        stem = path.removesuffix(".c").removesuffix(".inc.h")
        words = set(re.split(r"[_./]", os.path.basename(stem)))
        every = [p for p in self.programs if any(u and u <= self.programs[p] for u in units)]
        near = [p for p in every if p.startswith(f"test_{folder}_") or f"{stem}.h" in self.includes(p)]
        tests = [p for p in near or every if p != "sim" and p not in WAITERS]
        tests.sort(key=lambda p: (p != self.finders.get(path), f"{stem}.h" not in self.includes(p), -len(words & set(p.split("_"))),
                                  self.durations.get(p, 1), p))
        return tests[:self.first] + [p for p in every if p == "sim" and simulator]

    def includes(self, program):
        """What a unit program's own source includes."""
        if program not in self.included:
            folder, _, name = program.removeprefix("test_").partition("_")
            path = f"{ROOT}/tests/unit/{folder}/test_{name}.c"
            text = open(path).read() if os.path.exists(path) else ""
            self.included[program] = set(re.findall(r'^#include "([^"]+)"', text, re.M))
        return self.included[program]

    def link_command(self, program):
        if program not in self.links:
            asked = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", f"bin/{program}"], capture_output=True, text=True, check=True)
            self.links[program] = asked.stdout.strip().splitlines()[-1]
        return self.links[program]


def symbols(path):
    """What an object or a program defines that other objects may use."""
    out = subprocess.run(["nm", "-g", "--defined-only", "-P", path], capture_output=True, text=True, check=True).stdout
    return {line.split(" ", 1)[0] for line in out.splitlines()}


def runs_here(commands):
    """Has this machine the instructions that a source is compiled for? Else no test can tell what is in it."""
    try:
        flags = set(open("/proc/cpuinfo").read().replace("_", "").split())
    except OSError:
        return True
    wanted = [word[2:].replace("-", "") for command in commands for word in command if re.match("-m(avx|amx)", word)]
    return all(name in flags for name in wanted)


def included(path, seen):
    """The files that a source includes, of ours, and what they include."""
    if path in seen or not os.path.exists(f"{ROOT}/{path}"):
        return seen
    seen.add(path)
    for name in re.findall(r'^#\s*include "([^"]+)"', open(f"{ROOT}/{path}").read(), re.M):
        included(name, seen)
    return seen


def machine_code(path):
    """What an object is, but for its debugging information."""
    bare = f"{path}.bare"
    subprocess.run(["objcopy", "--strip-debug", path, bare], check=True)
    return hashlib.sha256(open(bare, "rb").read()).digest()


class Lane:
    """Where one change at a time is laid out, compiled and linked; no other run's."""

    def __init__(self, name):
        self.folder = f"{WORK}/{os.getpid()}-{name}"
        self.overlay = f"{self.folder}/source"
        os.makedirs(self.folder)
        atexit.register(shutil.rmtree, self.folder, True)

    def lay_out(self, path, text):
        """Puts a changed file where compilers look first."""
        shutil.rmtree(self.overlay, ignore_errors=True)
        os.makedirs(os.path.dirname(f"{self.overlay}/{path}"))
        with open(f"{self.overlay}/{path}", "w") as out:
            out.write(text)

    def place(self, build, name):
        os.makedirs(f"{self.folder}/{build.name}", exist_ok=True)
        return f"{self.folder}/{build.name}/{name}"


def compiled(lane, build, unit, out):
    """The objects of one source, with what lies in the overlay in place of the tree's; None: it does not compile."""
    objects = []
    os.makedirs(out, exist_ok=True)
    for i, command in enumerate(build.commands[unit]):
        target = f"{out}/{unit.replace('/', '_')}.{i}.o"
        arguments = [re.sub("^-O[23]$", "-O1", a) for a in command if a not in ("-Werror", "-g")]
        arguments[arguments.index("-o") + 1] = target
        source = f"{lane.overlay}/{unit}"
        arguments[arguments.index("-c") + 1] = source if os.path.exists(source) else f"{ROOT}/{unit}"
        arguments += ["-w", f"-iquote{ROOT}/{os.path.dirname(unit)}", f"-ffile-prefix-map={lane.overlay}/=", f"-ffile-prefix-map={ROOT}/="]
        arguments.insert(1, f"-I{lane.overlay}")
        if shutil.which("ccache"):
            arguments.insert(0, "ccache")
        if subprocess.run(arguments, cwd=build.folder, capture_output=True).returncode:
            return None
        objects.append(target)
    return objects


def noting(lane, build):
    """The object that every program with a bug has besides."""
    out = lane.place(build, "note.o")
    if not os.path.exists(out):
        with open(f"{lane.folder}/note.c", "w") as source:
            source.write(NOTING)
        subprocess.run(["cc", "-O1", "-fPIC", "-c", f"{lane.folder}/note.c", "-o", out], check=True)
    return out


def planted(lane, build, path, text, site):
    """The objects of a changed file, and of the same file as it is; None: there is no bug in them. Both note that the function ran."""
    changed, clean = [], []
    for objects, place, new in ((changed, "changed", site[2]), (clean, "clean", text[site[0]:site[1]])):
        lane.lay_out(path, mutate.noting(text, site, new))
        for unit in build.units(path):
            made = compiled(lane, build, unit, lane.place(build, place))
            if not made:
                return None
            objects += made
    if all(machine_code(a) == machine_code(b) for a, b in zip(clean, changed)):
        return None
    return changed + [noting(lane, build)], clean + [noting(lane, build)]


class OutOfTime(Exception):
    """The time for a change ended while a program ran; it says nothing."""


def passes(build, program, binary, end):
    """(Does a test program succeed, is it plain without a second look). One that takes too long does not: of a processor,
    since others use the machine too, or, where it waits for ever, of the clock. OutOfTime: the end came before."""
    command = [binary, "--seeds", "1..200", "--jobs", "2"] if program == "sim" else [binary]
    env = os.environ | {"TRIREME_TEST_FIRST": "1", "TRIREME_TEST_SEED": "1", "MUTANTS_NOTE": f"{binary}.ran"}
    with open(f"{binary}.ran", "wb") as note:
        note.write(b"\0")
    known, began = build.durations.get(program), time.monotonic()
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    most = SLOWEST_S if known is None else 5 + 5 * known
    try:
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (int(most) + 1, int(most) + 3))
    except ProcessLookupError:
        pass  # it has ended
    try:
        status = process.wait(timeout=max(0, min(4 * most, end - began)))
    except subprocess.TimeoutExpired:
        status = 1
    end_group(process)
    if status and time.monotonic() >= end:
        raise OutOfTime
    if status == 0:
        build.durations[program] = time.monotonic() - began
    return status == 0, status in (0, -signal.SIGXCPU)


def ran(binary):
    """Did the last run of a program reach the function that changed?"""
    return open(f"{binary}.ran", "rb").read(1) == b"\1"


def end_group(process):
    """What a program that failed has left behind ends with it."""
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass
    process.wait()


def linked(lane, build, program, objects):
    """The program with these objects in front of the libraries; None: it does not link."""
    build.bring([program])
    binary = lane.place(build, program)
    command = build.link_command(program).replace(f" -o bin/{program} ", f" {' '.join(objects)} -o {binary} ", 1)
    return None if subprocess.run(command, shell=True, cwd=build.folder, capture_output=True).returncode else binary


def inputs(build, program):
    """What a program is linked of, and how old it is."""
    words = [w for w in shlex.split(build.link_command(program)) if w.endswith((".o", ".a")) and os.path.exists(f"{build.folder}/{w}")]
    return tuple((w, os.stat(f"{build.folder}/{w}").st_mtime_ns) for w in words)


def fails(lane, build, program, path, objects, clean, end):
    """(Does a program fail twice by these objects, and not with the clean ones; did it run what changed?) Not True or False but None: it
    fails, or does not link, with those too."""
    binary = linked(lane, build, program, objects)
    good, plain = passes(build, program, binary, end) if binary else (False, True)
    if good or not plain and passes(build, program, binary, end)[0]:
        return False, ran(binary)
    key = (program, path, inputs(build, program))
    if key not in build.clean:
        without = linked(lane, build, program, clean)
        build.clean[key] = bool(without) and passes(build, program, without, end)[0]
    return (bool(binary), True) if build.clean[key] else (None, True)


def check_itself(lane, build):
    """A trap in a file is noticed, and the same program passes without it: else no count here would mean anything."""
    text = open(f"{ROOT}/{CHECKED}").read()
    for program in build.holders(CHECKED, False)[:1]:
        if not fails(lane, build, program, CHECKED, *planted(lane, build, CHECKED, text, (len(text), len(text), TRAP, "trap")), math.inf)[0]:
            sys.exit(f"{program} of {build.folder} does not notice a trap in {CHECKED}, or fails without it")
        break
    else:
        sys.exit(f"no program of {build.folder} contains {CHECKED}")


class Trial:
    """What became of one change so far."""

    def __init__(self, text, site):
        self.marked = mutate.function_begin(text, site[0]) is not None
        self.mute = []  # why it is not known whether a program would notice: of each that said nothing
        self.idle = set()  # programs that never ran what changed
        self.reached = not self.marked  # one did, or nobody can tell


def noticed(lane, build, path, objects, clean, deadline, simulator, trial):
    """The program that fails by these objects."""
    holders = [p for p in build.holders(path, simulator) if p not in trial.idle]
    for at, program in enumerate(holders):
        late, verdict = time.monotonic() > deadline, None
        try:
            verdict, reached = (None, True) if late else fails(lane, build, program, path, objects, clean, deadline)
        except OutOfTime:
            late = True
        if late:
            trial.mute.append(f"{len(holders) - at} programs did not run")
            return None
        if verdict:
            build.finders[path] = program
            return program
        if verdict is None:
            trial.mute.append(f"{program} fails without a bug too")
        elif reached or not trial.marked:
            trial.reached = True
        else:
            trial.idle.add(program)
    return None


def try_out(lane, builds, path, text, site, args):
    """What became of a change: (counted, who noticed, why that is not known, did anybody run it)."""
    trial = Trial(text, site)
    for build in builds:
        objects = planted(lane, build, path, text, site)
        if not objects:
            return build is not builds[0], None, trial.mute, trial.reached
        program = noticed(lane, build, path, *objects, time.monotonic() + args.each, args.suites, trial)
        if program:
            return True, program + ("" if build is builds[0] else " (sanitized)"), [], True
    return True, None, trial.mute, trial.reached


class Builds:
    """The builds in the order in which a change meets them. The sanitized one is looked at when something has survived the first."""

    def __init__(self, args):
        self.args = args
        self.folders = [f for f in (args.build, args.sanitized) if os.path.exists(f"{f}/compile_commands.json")]
        self.looked_at = []
        self.lock = threading.Lock()

    def __getitem__(self, at):
        if at >= len(self.folders):
            raise IndexError(at)
        with self.lock:
            if at == len(self.looked_at):
                build = Build(self.folders[at], self.args.folders, self.args.suites, self.looked_at[0] if at else None,
                              self.args.first)
                if not self.args.list:
                    check_itself(Lane(f"check-{at}"), build)
                self.looked_at.append(build)
        return self.looked_at[at]


def files_of(build, paths):
    """The files that may be changed, and those that no program contains."""
    found, unseen = [], []
    for top in paths:
        names = [top] if os.path.isfile(f"{ROOT}/{top}") else sorted(
            os.path.relpath(os.path.join(d, f), ROOT) for d, _, files in os.walk(f"{ROOT}/{top}") for f in files)
        for name in names:
            if name.endswith((".c", ".inc.h")) and build.units(name):
                (found if build.holders(name, False) else unseen).append(name)
    return found, unseen


def line_of(text, offset):
    number = text.count("\n", 0, offset) + 1
    return number, text.splitlines()[number - 1].strip()


def draw(files, seed):
    """Changes in the order that the seed gives them: files by their size, each change once."""
    dice, sites, seen, misses = random.Random(seed), {}, set(), 0
    sizes = [os.path.getsize(f"{ROOT}/{path}") for path in files]
    while files and misses < 1000:
        path = dice.choices(files, sizes)[0]
        if path not in sites:
            sites[path] = mutate.sites(open(f"{ROOT}/{path}").read())
        site = dice.choice(sites[path]) if sites[path] else None
        misses += 1
        if site and (path, site) not in seen:
            seen.add((path, site))
            misses = 0
            yield path, site


def of_line(path, line):
    """Each change of one line."""
    text = open(f"{ROOT}/{path}").read()
    return [(path, site) for site in mutate.sites(text) if line_of(text, site[0])[0] == line]


def same_ones():
    """The changes that make no difference: (path, line, what it becomes)."""
    out, path, before = set(), None, None
    for line in open(SAME).read().splitlines():
        if line.startswith("    - "):
            before = line[6:]
        elif line.startswith("    + "):
            out.add((path, before, line[6:]))
        elif not line.startswith(("#", " ")) and ":" in line:
            path = line.split(":")[0]
    return out


def gone(same):
    """Those whose line the file does not have any more."""
    lines = {path: {line.strip() for line in open(f"{ROOT}/{path}")} if os.path.exists(f"{ROOT}/{path}") else set() for path, _, _ in same}
    return sorted((path, before) for path, before, _ in same if before not in lines[path])


class Notes:
    """The verdicts of earlier runs, and where those of this one go: a line of JSON each."""

    def __init__(self, args):
        self.path, self.again = args.notes, args.again
        self.first, self.last = {}, {}  # change: its verdict when it was drawn, and by the latest run of all
        for line in open(self.path) if self.path and os.path.exists(self.path) else []:
            note = json.loads(line)
            change = (note["file"], note["before"], note["after"], note["nth"])
            self.last[change] = note["verdict"]
            if not note["again"]:
                self.first[change] = note["verdict"]

    def survivors(self):
        """Those that nothing has noticed so far, where they stand in the files of today."""
        for (path, before, after, nth), verdict in self.last.items():
            if verdict in ("survived", "unknown") and os.path.exists(f"{ROOT}/{path}"):
                text = open(f"{ROOT}/{path}").read()
                yield from ((path, site) for site in mutate.sites(text) if named(path, text, site) == (path, before, after, nth))

    def verdict(self, path, text, site):
        """What became of a change when it was drawn, where it was."""
        return self.first.get(named(path, text, site)) if self.path and not self.again else None

    def add(self, path, text, site, verdict, program):
        if not self.path:
            return
        number, before, after = lines_of(text, site)
        with open(self.path, "a") as out:
            note = {"file": path, "line": number, "before": before, "after": after, "nth": named(path, text, site)[3], "kind": site[3],
                    "verdict": verdict, "by": program, "again": self.again, "at": time.strftime("%F %T")}
            out.write(json.dumps(note) + "\n")


def named(path, text, site):
    """What a change is called, in whatever line it stands: the last number tells lines that read the same apart."""
    number, before, after = lines_of(text, site)
    return path, before, after, sum(line.strip() == before for line in text.splitlines()[:number - 1])


def drawn(builds, args):
    """The changes to try: each of the lines that are named, else any by chance; and the files that no program contains."""
    if args.again:
        asked = list(Notes(args).survivors())
        args.count = len(asked)
        return asked, []
    lines = [path.rpartition(":") for path in args.paths if ":" in path]
    if lines:
        asked = [change for path, _, line in lines for change in of_line(path, int(line))]
        args.count = len(asked)
        return asked, []
    found, unseen = files_of(builds[0], args.paths)
    return draw(found, args.seed), unseen


def options():
    p = argparse.ArgumentParser(prog="./dev mutants", description="Plants bugs drawn at random and asks whether a unit test notices.")
    p.add_argument("count", nargs="?", type=int, default=20, help="how many (20)")
    p.add_argument("paths", nargs="*", help="files, FILE:LINE or folders (the product's)")
    p.add_argument("--seed", default=None, help="what draws them (the commit's hash)")
    p.add_argument("--seconds", type=int, default=1 << 30, help="draw none after this time")
    p.add_argument("--each", type=int, default=60, help="seconds of test programs for one in each build (60)")
    p.add_argument("--jobs", type=int, default=2, help="how many are tried at once (2)")
    p.add_argument("--first", type=int, default=None, metavar="N", help="only the N likeliest programs judge (all)")
    p.add_argument("--suites", action="store_true", help="the simulator runs too, for what it contains")
    p.add_argument("--least", type=int, default=0, help="percent that have to be noticed (0)")
    p.add_argument("--build", default=f"{ROOT}/build/release", help="the release build (build/release)")
    p.add_argument("--sanitized", default=f"{ROOT}/build/dev", help="what survived meets this one's programs (build/dev, if it is there)")
    p.add_argument("--notes", metavar="FILE", help="keeps verdicts; goes on where a run with this file ended")
    p.add_argument("--again", action="store_true", help="try what survived or is unknown according to --notes, and nothing else")
    p.add_argument("--list", action="store_true", help="only print what would be drawn")
    args = p.parse_args()
    if args.seed is None:
        args.seed = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip() or "none"
    args.paths = [os.path.relpath(os.path.abspath(path), ROOT) for path in args.paths] or FOLDERS
    args.folders = [re.sub(r":\d+$", "", path) for path in args.paths] if args.paths != FOLDERS else FOLDERS
    return args


def lines_of(text, site):
    """(number of the line that changes, the line, what it becomes)."""
    start, end, new, _ = site
    return *line_of(text, start), line_of(text[:start] + new + text[end:], start)[1]


def report(path, text, site, verdict):
    number, before, after = lines_of(text, site)
    print(f"{verdict}: {path}:{number} ({site[3]})\n    - {before}\n    + {after}", flush=True)


def summary(trials, unseen, seconds):
    tried, survivors = trials.tried, trials.survivors
    print(f"\n{tried - len(survivors)} of {tried} noticed; {trials.none} were no change or did not compile, {trials.unknown} are unknown; "
          f"{seconds} s; --seed {trials.args.seed}")
    if trials.args.first:
        print(f"only the {trials.args.first} likeliest programs of each file judged: --notes FILE --again asks all of them about what survived")
    if unseen:
        print(f"in no unit program, so never drawn: {' '.join(unseen)}")
    for survivor in survivors:
        report(*survivor, "survived")
    if tried + trials.unknown == 0:
        print("nothing was drawn: no C file with a unit test, or no time")
    return 1 if tried + trials.unknown == 0 or (tried - len(survivors)) * 100 < trials.args.least * tried else 0


class Trials:
    """The changes that are drawn, tried by several lanes at once; just as many are counted as are asked for."""

    def __init__(self, args, builds, changes):
        self.args, self.builds, self.changes = args, builds, iter(changes)
        self.end = time.monotonic() + args.seconds
        self.same, self.notes = same_ones(), Notes(args)
        self.tried, self.none, self.unknown, self.running = 0, 0, 0, 0
        self.survivors = []
        self.turn = threading.Condition()

    def next_one(self):
        """The next change to try: (path, text, site); None: there is none, or as many as are asked for have been tried."""
        with self.turn:
            while self.tried < self.args.count and self.tried + self.running >= self.args.count:
                self.turn.wait()  # what runs now may not count
            for path, site in self.changes:
                if self.tried >= self.args.count or time.monotonic() > self.end:
                    break
                text = open(f"{ROOT}/{path}").read()
                if (path, *lines_of(text, site)[1:]) in self.same:
                    self.none += 1
                    continue
                known = self.notes.verdict(path, text, site)
                if known:
                    self.count(path, text, site, known)
                    continue
                self.running += 1
                return path, text, site
            return None

    def count(self, path, text, site, verdict):
        self.none += verdict == "none"
        self.unknown += verdict == "unknown"
        self.tried += verdict in ("noticed", "survived")
        if verdict == "survived":
            self.survivors.append((path, text, site))

    def tell(self, path, text, site, counted, program, mute, reached=True):
        verdict = "none" if not counted else "unknown" if mute else "noticed" if program else "survived"
        said = {"unknown": f"unknown, {'; '.join(mute)}", "noticed": f"noticed by {program}", "survived": "SURVIVED" if reached else "SURVIVED: no program runs this function"}
        with self.turn:
            self.running -= 1
            self.turn.notify_all()
            self.count(path, text, site, verdict)
            if not self.args.list:
                self.notes.add(path, text, site, verdict, program)
            if counted:
                report(path, text, site, said[verdict])

    def work(self, lane):
        for path, text, site in iter(self.next_one, None):
            if self.args.list:
                self.tell(path, text, site, True, "nobody yet", [])
            else:
                self.tell(path, text, site, *try_out(lane, self.builds, path, text, site, self.args))

    def run(self):
        lanes = [threading.Thread(target=self.work, args=(Lane(i),), daemon=True) for i in range(1 if self.args.list else self.args.jobs)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()


def main():
    args, began = options(), time.monotonic()
    builds = Builds(args)
    changes, unseen = drawn(builds, args)
    trials = Trials(args, builds, changes)
    trials.run()
    for build in builds.looked_at:
        build.remember()
    for path, before in gone(trials.same):
        print(f"{os.path.relpath(SAME, ROOT)} is about a line that is not there: {path}: {before}")
    return 0 if args.list else summary(trials, unseen, int(time.monotonic() - began))


if __name__ == "__main__":
    sys.exit(main())
