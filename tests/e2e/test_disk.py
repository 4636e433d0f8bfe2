"""Disks that are full: the log, the run folder, the caches, what is downloaded or converted. What runs goes on; what cannot be
done is said, and leaves nothing half-done behind. A folder is made small by a tmpfs of its own, in a namespace of its own."""
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from run import Skip
from serve import Serve, binary, bundled_model
from test_hub import NAME, Place

ASK = {"prompt": "Once upon a time", "max_tokens": 4}


def in_small_folder(argv, folder, size, after='exec "$@"'):
    """The command, for which this folder is a disk of so many bytes. after: shell that runs "$@", instead."""
    if subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode:
        raise Skip("namespaces", "no tmpfs can be mounted in a namespace of our own")
    os.makedirs(folder, exist_ok=True)
    script = f'folder=$1; mount -t tmpfs -o "size=$2,mode=700" none "$folder" || exit 99; shift 2; {after}'
    return ["unshare", "-rm", "sh", "-c", script, "sh", str(folder), str(size), *argv]


def leave_room(folder, size):
    """Fills the disk of this folder but for so many bytes."""
    disk = os.statvfs(folder)
    with open(folder / "filler", "wb") as f:
        os.posix_fallocate(f.fileno(), 0, disk.f_bavail * disk.f_frsize - size)


class Small(Serve):
    """trireme serve with a folder of a few bytes: `run`, its run folder, or `cache`."""

    def __init__(self, name, size, **options):
        super().__init__(**options)
        self.folder = f"{self.run_dir}/{name}"
        if name == "run":
            self.argv[self.argv.index("--run-dir") + 1] = self.folder
        self.argv = in_small_folder(self.argv, self.folder, size)

    def inside(self, name="") -> Path:
        return Path(f"/proc/{self.supervisor_pid()}/root{self.folder}/{name}")

    def fill(self):
        leave_room(self.inside(), 0)

    def answers(self):
        try:
            return self.post("/v1/completions", ASK, timeout=5)[0] == 200
        except OSError:  # a gateway that has just been started does not listen yet
            return False

    def ends_well(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0


def test_a_full_log_ends_nothing():
    s = Serve()
    log, s.log_path = s.log_path, "/dev/full"
    try:
        s.start()
        s.wait_ready()
        assert s.post("/v1/completions", ASK)[0] == 200
        os.kill(s.pids("worker")[0], signal.SIGKILL)
        s.wait(lambda: s.post("/v1/completions", ASK, timeout=5)[0] == 200, 30, "answers after a worker's death")
        s.process.send_signal(signal.SIGTERM)
        assert s.process.wait(20) == 0
    finally:
        s.log_path = log
        s.stop()


def test_a_limit_of_file_sizes_ends_nothing():
    """ulimit -f: what is past it is not written, as on a full disk, and no signal comes of it."""
    s = Serve()
    s.argv = ["sh", "-c", 'ulimit -f 20 && exec "$@"', "sh", *s.argv]  # blocks of 512 bytes or 1024
    with s:
        for _ in range(100):
            assert s.post("/v1/completions", ASK)[0] == 200
        size = os.path.getsize(s.log_path)
        assert size <= 20 * 1024, f"the log has {size} bytes, and the limit was to be met"
        os.kill(s.pids("worker")[0], signal.SIGKILL)
        s.wait(lambda: s.post("/v1/completions", ASK, timeout=5)[0] == 200, 30, "answers after a worker's death")
        s.process.send_signal(signal.SIGTERM)
        assert s.process.wait(20) == 0


def test_a_full_run_folder_ends_nothing():
    """Each process dies once and is started again; who they are is written down as soon as there is room."""
    with Small("run", "2m") as s:
        s.fill()
        for role in ("worker", "gateway", "scheduler"):
            before = s.pids(role)[0]
            os.kill(before, signal.SIGKILL)
            s.wait(lambda: s.pids(role) not in ([], [before]), 20, f"another {role}")
            s.wait(s.answers, 30, f"answers after a {role}'s death")
        assert "cannot remember the children" in s.log()
        s.inside("filler").unlink()
        living = [f"{role} 0 {s.pids(role)[0]} " for role in ("worker", "gateway", "scheduler")]
        s.wait(lambda: all(line in s.inside("children").read_text() for line in living), 10, "the children are written down")
        assert not s.inside("children.new").exists()
        s.ends_well()


def test_a_run_folder_without_room_is_told_at_the_start():
    s = Small("run", "4k")
    try:
        s.start()
        assert s.process.wait(30) == 1
        assert "No space left on device" in s.log()
    finally:
        s.stop()


def test_a_full_cache_is_done_without():
    with Small("cache", "16k") as s:
        assert s.answers()
        left = [str(p) for p in s.inside().rglob("*") if p.is_file()]
        assert not left, f"half of something is left in the cache: {left}"
        s.ends_well()


def test_what_is_converted_has_room_or_leaves_nothing():
    """A file in one piece, and files beside each other: no target, and no half of one."""
    with tempfile.TemporaryDirectory(prefix="trm-disk-") as home:
        for target in ("tiny.gguf", "folder"):
            argv = [binary(), "convert", bundled_model(), f"{home}/small/{target}"]
            done = subprocess.run(in_small_folder(argv, f"{home}/small", "256k", '"$@"; code=$?; find "$folder" -type f; exit $code'),
                                  capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and "No space left on device" in done.stderr, f"{done.returncode}: {done.stderr}"
            assert not done.stdout.strip(), f"left behind: {done.stdout}"


def test_a_download_goes_on_once_there_is_room():
    """Something else fills the disk while the weights come: the command says so and ends. Once that is gone, it has the rest sent alone."""
    with Place() as p:
        again = '"$@"; echo "ended with $?"; rm "$folder/filler"; exec "$@"'
        argv = in_small_folder([binary(), "pull", NAME], f"{p.home}/hf", "80m", again)
        process, blobs = None, []

        def fill(request):
            if request.kind == "blob":
                blobs.append(request.range)
                if len(blobs) == 2:  # the room was there when it was asked for
                    leave_room(Path(f"/proc/{process.pid}/root{p.home}/hf"), 1_000_000)
        p.hub.fault = fill
        process = subprocess.Popen(argv, env={**p.env, "TRIREME_HUB_CONNECTIONS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = process.communicate(timeout=60)
        assert "ended with 1" in out and "No space left on device" in err, f"{out}{err}"
        assert process.returncode == 0, err
        assert len(blobs) < 2 * 8, f"{len(blobs)} ranges for a file of 8"
        return f"{len(blobs)} ranges were sent of 8"
