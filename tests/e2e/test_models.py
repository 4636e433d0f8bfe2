"""Several models behind one port: names, what is told of each, and that neither is in the other's way."""
import asyncio
import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

from serve import Serve, binary, bundled_model, processes
from stream import Result, request, run_many
from tiny_models import put_whole_norm


@contextlib.contextmanager
def two_models(*args):
    with tempfile.TemporaryDirectory(prefix="trm-model-") as folder:
        put_whole_norm(folder)
        extra = ["--threads", 1, "--min-step-ms", 10, "--model", f"tiny={folder},max-context=256,slots=4", *args]
        with Serve(model=f"demo={bundled_model()},alias=main,alias=other", args=extra) as s:
            for name in ("demo", "tiny"):
                s.wait(lambda: s.get(f"/health/ready?model={name}")[0] == 200, 20, f"{name} is ready")
            yield s


def answer(s, **fields):
    return s.post("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0, **fields})


def story(model, i, tokens=120):
    return ("/v1/completions", {"model": model, "prompt": f"Story {i}: once", "max_tokens": tokens, "temperature": 0.8, "seed": i, "stream": True,
                                "ignore_eos": True, "stream_options": {"include_usage": True}})


def workers_of(s, model):
    return [p for p, argv in processes(s.run_dir).items() if argv[1:2] == ["worker"] and f"--served-model-name={model}" in argv]


def test_each_model_is_found_by_its_names():
    with two_models() as s:
        demo, tiny = answer(s, model="demo")[1], answer(s, model="tiny")[1]
        assert (demo["model"], tiny["model"]) == ("demo", "tiny") and demo["choices"][0]["text"] != tiny["choices"][0]["text"]
        for fields in ({}, {"model": "main"}, {"model": "other"}, {"model": "demo:latest"}):
            assert answer(s, **fields)[1]["choices"][0]["text"] == demo["choices"][0]["text"], fields
        status, body, _ = answer(s, model="third")
        assert status == 404 and body["error"]["code"] == "model_not_found", body
        listed = json.loads(s.get("/v1/models")[1])["data"]
        assert [(m["id"], m["max_model_len"] == 256) for m in listed] == [("demo", False), ("main", False), ("other", False), ("tiny", True)], listed
        for path in ("/api/tags", "/api/ps"):
            assert [m["name"] for m in json.loads(s.get(path)[1])["models"]] == ["demo", "main", "other", "tiny"]
        props = [json.loads(s.get(f"/props{query}")[1]) for query in ("", "?model=tiny", "?model=main")]
        assert [p["model_alias"] for p in props] == ["demo", "tiny", "demo"] and props[1]["default_generation_settings"]["n_ctx"] == 256
        assert s.get("/props?model=third")[0] == 404
        page = s.metrics("gateway")
        for name in ("demo", "tiny"):
            assert page[f'vllm:generation_tokens_total{{model_name="{name}"}}'] >= 8
        assert page['trireme_model_slots{model_name="tiny"}'] == 4
        told = json.loads(subprocess.run([binary(), "status", "--json", "--run-dir", s.run_dir], capture_output=True, check=True, timeout=20).stdout)
        assert sorted(p["model"] for p in told["processes"] if p["role"] == "worker") == ["demo", "tiny"], told


def test_one_models_load_is_not_the_others():
    with two_models("--queue-max", 4) as s:
        requests = [story("tiny", i, 60) for i in range(40)] + [story("demo", i, 20) for i in range(8)]
        results = run_many(s.port, requests)[0]
        assert any(r.status == 429 for r in results[:40]) and any(r.done for r in results[:40])
        assert all(r.status == 200 and r.done and not r.error for r in results[40:]), [(r.status, r.error) for r in results[40:]]


def test_streams_of_both_outlive_a_worker_and_the_scheduler():
    requests = [story("tiny" if i % 2 else "demo", i) for i in range(8)]
    with two_models() as s:
        wanted = [r.key() for r in run_many(s.port, requests)[0]]
        assert all(key[0] == 200 for key in wanted), wanted

        async def kill(results):
            while not all(len(r.times) > 20 for r in results):
                await asyncio.sleep(0.01)
            killed = asyncio.get_running_loop().time()
            os.kill(workers_of(s, "tiny")[0], signal.SIGKILL)
            before = [len(r.times) for r in results]
            await asyncio.sleep(0.15)
            told = [len(r.times) - n for r, n in zip(results, before)]
            os.kill(s.pids("scheduler")[0], signal.SIGKILL)
            return told, killed
        results, (told, _) = run_many(s.port, requests, during=kill)
        assert all(n > 3 for n in told[::2]), f"the other model's streams paused: {told}"
        assert [r.key() for r in results] == wanted


def test_one_model_is_not_ready_alone():
    with two_models() as s:
        stopped = [s.supervisor_pid(), *workers_of(s, "tiny")]  # the supervisor too, which would start another one within milliseconds
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            s.wait(lambda: s.get("/health/ready?model=tiny")[0] == 503, 10, "tiny is not ready")
            status, text = s.get("/health/ready")
            assert status == 200 and json.loads(text)["models"]["demo"] is True and json.loads(text)["models"]["tiny"] is False, text
            assert answer(s, model="demo")[0] == 200
        finally:
            for pid in reversed(stopped):
                os.kill(pid, signal.SIGCONT)
        s.wait(lambda: s.get("/health/ready?model=tiny")[0] == 200, 20, "tiny is ready again")
        assert s.get("/health/ready?model=third")[0] == 503


@contextlib.contextmanager
def on_demand(*args, demo="", tiny="", env=None):
    """demo and tiny, loaded when they are needed."""
    with tempfile.TemporaryDirectory(prefix="trm-model-") as folder:
        put_whole_norm(folder)
        extra = ["--threads", 1, "--min-step-ms", 10, "--model", f"tiny={folder},alias=small,on-demand{tiny}", *args]
        with Serve(model=f"demo={bundled_model()}{demo}", args=extra, env=env) as s:
            yield s


def states(s, headers=None):
    request_ = urllib.request.Request(f"http://127.0.0.1:{s.port}/v1/models", headers=headers or {})
    with urllib.request.urlopen(request_, timeout=5) as r:
        return {m["id"]: m["status"]["value"] for m in json.load(r)["data"]}


def command(s, *words):
    return subprocess.run([binary(), *words, "--run-dir", s.run_dir], capture_output=True, text=True, timeout=60)


def told(s):
    return {m["model"]: m for m in json.loads(command(s, "status", "--json").stdout)["models"]}


def lists_models_from_elsewhere(s):
    def ps(*words):
        return subprocess.run([binary(), "ps", *words], capture_output=True, text=True, timeout=20)
    url = f"http://127.0.0.1:{s.port}"
    assert ps("--server", url).stdout == "model loaded: demo\nmodel unloaded: small\nmodel unloaded: tiny\n", ps("--server", url)
    assert json.loads(ps("--server", url, "--json").stdout)["models"][0] == {"model": "demo", "state": "loaded"}
    assert ps("--server", "http://127.0.0.1:1").returncode == 1 and "cannot reach" in ps("--server", "http://127.0.0.1:1").stderr


def test_a_model_is_loaded_on_first_use_and_unloaded_when_idle():
    with on_demand(tiny=",idle-unload=1s") as s:
        s.wait(lambda: states(s).get("demo") == "loaded", 20, "demo is loaded")
        lists_models_from_elsewhere(s)
        assert states(s) == {"demo": "loaded", "tiny": "unloaded", "small": "unloaded"} and not workers_of(s, "tiny")
        first = answer(s, model="small")
        assert first[0] == 200 and first[1]["model"] == "tiny", first
        assert states(s)["tiny"] == "loaded" and len(workers_of(s, "tiny")) == 1
        s.wait(lambda: not workers_of(s, "tiny"), 10, "tiny is unloaded again")
        s.wait(lambda: states(s)["tiny"] == "unloaded", 5, "and that is told")
        results = run_many(s.port, [story("tiny", i, 100) for i in range(4)])[0]  # longer than idle-unload
        assert all(r.done and r.status == 200 and not r.error for r in results), [(r.status, r.error) for r in results]
        assert states(s)["demo"] == "loaded", "a model that is not on demand stays"


def test_models_take_turns_where_one_has_room():
    with on_demand("--models-max", 1, demo=",on-demand") as s:
        seen = set()

        async def both():
            first = Result(story("tiny", 1)[1])
            running = asyncio.create_task(request(s.port, *story("tiny", 1), first, timeout=60))
            while len(first.times) < 5:
                await asyncio.sleep(0.01)
            others = [Result(story("demo", i, 20)[1]) for i in range(3)]
            waiting = [asyncio.create_task(request(s.port, *story("demo", i, 20), r, timeout=60)) for i, r in enumerate(others)]
            while not running.done():
                seen.add((bool(workers_of(s, "tiny")), bool(workers_of(s, "demo"))))
                await asyncio.sleep(0.05)
            await asyncio.gather(*waiting)
            return [first, *others]
        results = asyncio.run(both())
        assert all(r.done and r.status == 200 and not r.error for r in results), [(r.status, r.error) for r in results]
        assert seen == {(True, False)}, f"tiny was cut, or both were loaded: {seen}"
        assert told(s)["demo"]["state"] == "loaded" and told(s)["tiny"]["state"] == "unloaded"


def test_ollamas_load_waits_until_the_model_is_there():
    """A request without a prompt: answered when the model is loaded, refused for a key that may not use it, which has nothing loaded."""
    with tempfile.NamedTemporaryFile("w", prefix="trm-keys-") as keys:
        keys.write("all\ndemo models=demo\n")
        keys.flush()
        with on_demand("--api-key-file", keys.name) as s:
            def load(path, model, key="all", **fields):
                return s.post(path, {"model": model, **fields}, headers={"Authorization": f"Bearer {key}"})
            all_states = lambda: states(s, {"Authorization": "Bearer all"})
            s.wait(lambda: all_states()["demo"] == "loaded", 20, "demo is loaded")
            status, body, _ = load("/api/generate", "tiny", "demo")
            assert status == 403 and not workers_of(s, "tiny"), (status, body)
            assert load("/v1/completions", "tiny", "demo", prompt="Once")[0] == 403 and not workers_of(s, "tiny")
            assert all_states()["tiny"] == "unloaded"
            status, body, _ = load("/api/generate", "tiny")
            assert status == 200 and body["done_reason"] == "load" and body["response"] == "", body
            assert all_states()["tiny"] == "loaded"
            status, body, _ = load("/api/chat", "tiny", messages=[])
            assert status == 200 and body["done_reason"] == "load" and body["message"]["content"] == "", body
            assert load("/api/generate", "third")[0] == 404


def test_commands_load_and_unload_and_no_stream_is_cut():
    with on_demand() as s:
        assert (command(s, "load", "tiny").stdout, told(s)["tiny"]["state"]) == ("loaded\n", "loaded")
        wanted = run_many(s.port, [story("tiny", 1)])[0][0].key()

        async def unload(results):
            while len(results[0].times) < 20:
                await asyncio.sleep(0.01)
            return await asyncio.to_thread(command, s, "unload", "tiny"), results[0].done
        (result,), (done, ended) = run_many(s.port, [story("tiny", 1)], during=unload)
        assert done.stdout == "unloaded\n" and result.key() == wanted, (done, result.error)
        assert ended and not workers_of(s, "tiny"), "it was said to be unloaded before its stream had ended"
        for words, says in [(("load", "third"), "which model?"), (("unload", "third"), "no model of that name"), (("load",), "which model?"),
                            (("scale", "2", "tiny"), "not loaded")]:
            bad = command(s, *words)
            assert bad.returncode == 1 or bad.returncode == 2, bad
            assert says in bad.stderr, bad.stderr
        os.kill(s.supervisor_pid(), signal.SIGKILL)
        s.process.wait()
        s.start()
        s.wait(lambda: command(s, "status").returncode == 0, 10, "the supervisor answers again")
        assert told(s)["tiny"]["state"] == "unloaded" and answer(s, model="demo")[0] == 200


def test_a_model_is_added_while_serving():
    """By its path, to a server that was begun with one model: that one's streams and its being the one for requests without a name stay."""
    with tempfile.TemporaryDirectory(prefix="trm-model-") as folder, Serve(args=["--threads", 1, "--min-step-ms", 10, "--models-memory", "64m"]) as s:
        os.mkdir(f"{folder}/tiny")
        put_whole_norm(f"{folder}/tiny")
        first = answer(s)[1]["choices"][0]["text"]
        name = json.loads(s.get("/v1/models")[1])["data"][0]["id"]
        wanted = run_many(s.port, [story(name, 1)])[0][0].key()

        async def add(results):
            while len(results[0].times) < 5:
                await asyncio.sleep(0.01)
            return await asyncio.to_thread(command, s, "load", f"{folder}/tiny")
        (result,), done = run_many(s.port, [story(name, 1)], during=add)
        assert done.stdout == "loaded\n" and result.key() == wanted, (done, result.error)
        s.wait(lambda: states(s) == {name: "loaded", "tiny": "loaded"}, 10, "both are listed")
        assert answer(s)[1]["choices"][0]["text"] == first and answer(s, model=name)[0] == 200
        tiny = answer(s, model="tiny")[1]
        assert tiny["model"] == "tiny" and tiny["choices"][0]["text"] != first
        assert command(s, "load", "tiny").stdout == "loaded\n" and len(workers_of(s, "tiny")) == 1

        for word, says in [(f"tiny={folder}/tiny", "two models are called 'tiny'"), (f"{name}={folder}/tiny", "a model is called"),
                           (f"a={folder}/tiny,alias=b", "aliases"), (f"a={folder}/tiny,slots=x", "whole number"), (folder, "is no model"),
                           (f"big={folder}/tiny,memory=1g", "--models-memory is 67108864"), ("third", "which model?")]:
            bad = command(s, "load", word)
            assert bad.returncode == 1 and says in bad.stderr, (word, bad.stderr)

        before = workers_of(s, "tiny")
        os.kill(s.supervisor_pid(), signal.SIGKILL)
        s.process.wait()
        s.start()
        s.wait(lambda: command(s, "status").returncode == 0, 10, "the supervisor answers again")
        s.wait(lambda: told(s).get("tiny", {}).get("state") == "loaded", 20, "it goes on with what was added")
        assert workers_of(s, "tiny") == before and answer(s, model="tiny")[1]["choices"] == tiny["choices"]
        os.kill(before[0], signal.SIGKILL)
        s.wait(lambda: workers_of(s, "tiny") not in ([], before), 20, "its worker is started again")
        assert answer(s, model="tiny")[1]["choices"] == tiny["choices"]
        assert command(s, "unload", "tiny").stdout == "unloaded\n" and not workers_of(s, "tiny")
        assert command(s, "load", "tiny").stdout == "loaded\n" and answer(s, model="tiny")[0] == 200
        os.kill(s.supervisor_pid(), signal.SIGKILL)
        s.process.wait()
        os.unlink(f"{s.run_dir}/models-added")
        s.start()
        s.wait(lambda: not workers_of(s, "tiny"), 20, "a worker whose model is not known any more has ended")
        assert answer(s)[1]["choices"][0]["text"] == first


def test_a_model_that_is_added_on_demand_comes_back_after_an_idle_unload():
    """To a server none of whose own models is on demand; its gateways, too, were told of none when they began."""
    with tempfile.TemporaryDirectory(prefix="trm-model-") as folder, Serve(args=["--threads", 1]) as s:
        put_whole_norm(folder)
        assert command(s, "load", f"tiny={folder},on-demand,idle-unload=1s").stdout == "loaded\n"
        for _ in range(2):
            s.wait(lambda: states(s).get("tiny") == "unloaded", 10, "tiny is unloaded when nobody uses it")
            assert answer(s, model="tiny")[1]["model"] == "tiny"
        s.wait(lambda: states(s).get("tiny") == "unloaded", 10, "tiny is unloaded again")
        os.kill(s.pids("gateway")[0], signal.SIGKILL)
        s.wait(lambda: s.get("/health/ready")[0] == 200, 10, "another gateway is ready")
        s.wait(lambda: answer(s, model="tiny")[0] == 200, 20, "a gateway that never saw it loaded has it loaded")


def test_a_model_that_is_added_on_demand_outlives_the_scheduler():
    """The one after it has never heard of a model that is not loaded, nor has a gateway that begins then."""
    with tempfile.TemporaryDirectory(prefix="trm-model-") as folder, Serve(args=["--threads", 1]) as s:
        put_whole_norm(folder)
        assert command(s, "load", f"tiny={folder},on-demand,idle-unload=1s").stdout == "loaded\n"
        for also in ((), ("gateway",)):
            s.wait(lambda: states(s).get("tiny") == "unloaded" and not workers_of(s, "tiny"), 10, "tiny is unloaded when nobody uses it")
            for role in ("scheduler", *also):
                os.kill(s.pids(role)[0], signal.SIGKILL)
            s.wait(lambda: s.get("/health/ready")[0] == 200, 20, "the first model is served again")
            s.wait(lambda: answer(s, model="tiny")[0] == 200, 20, f"tiny is loaded again after the end of the scheduler {also}")


def test_a_model_that_cannot_be_added_leaves_no_trace():
    """Whoever asked is told why, nobody lists it, and its name and place are free: for the same model when it has been mended, too."""
    with tempfile.TemporaryDirectory(prefix="trm-model-") as folder, Serve(args=["--threads", 1]) as s:
        for name in ("one", "two"):
            os.mkdir(f"{folder}/{name}")
            put_whole_norm(f"{folder}/{name}")
        s.wait(lambda: "loaded" in states(s).values(), 20, "the first is loaded")
        (name,) = states(s)
        weights = f"{folder}/one/model.safetensors"
        whole = open(weights, "rb").read()
        os.truncate(weights, len(whole) // 2)
        bad = command(s, "load", f"{folder}/one")
        assert bad.returncode == 1 and "model.safetensors" in bad.stderr, bad
        assert list(told(s)) == [name] and not workers_of(s, "one"), told(s)
        s.wait(lambda: list(states(s)) == [name], 5, "it is listed no more")
        assert answer(s, model="one")[0] == 404
        with open(weights, "wb") as f:
            f.write(whole)
        assert command(s, "load", f"{folder}/one").stdout == command(s, "load", f"{folder}/two").stdout == "loaded\n"
        assert answer(s, model="one")[0] == 200 and answer(s, model="two")[0] == 200

        (kept,) = workers_of(s, "two")
        os.kill(s.supervisor_pid(), signal.SIGKILL)
        s.process.wait()
        os.rename(f"{folder}/one", f"{folder}/moved")
        s.start()
        s.wait(lambda: command(s, "status").returncode == 0, 10, "the supervisor answers again")
        s.wait(lambda: not workers_of(s, "one"), 20, "the worker of the one that is not there any more has ended")
        assert sorted(told(s)) == sorted([name, "two"]) and workers_of(s, "two") == [kept], "the other one kept its place"
        rows = json.loads(command(s, "status", "--json").stdout)["processes"]
        assert [p["state"] for p in rows if p["pid"] == kept] == ["running"], ("and its worker, which had nothing to do with it", rows)
        assert command(s, "load", f"one={folder}/moved").stdout == "loaded\n"
        assert workers_of(s, "two") == [kept] and answer(s, model="one")[0] == 200 and answer(s, model="two")[0] == 200


def test_load_says_at_once_that_there_will_be_no_room():
    with on_demand("--models-max", 1) as s:
        begun = time.monotonic()
        bad = command(s, "load", "tiny")
        assert bad.returncode == 1 and "no room for 'tiny'" in bad.stderr and "--models-max" in bad.stderr, bad
        assert time.monotonic() - begun < 10


def test_an_operator_adds_models_over_http():
    """As trireme load does: a path, with options; the reason comes back where it cannot be loaded. Other keys may not."""
    with tempfile.TemporaryDirectory(prefix="trm-model-") as folder:
        for name in ("tiny", "broken"):
            os.mkdir(f"{folder}/{name}")
            put_whole_norm(f"{folder}/{name}")
        os.truncate(f"{folder}/broken/model.safetensors", 1000)
        with open(f"{folder}/keys", "w") as f:
            f.write("boss admin\nuser\n")
        with Serve(args=["--threads", 1, "--api-key-file", f"{folder}/keys", "--models-memory", "64m"], env={"HF_HUB_OFFLINE": "1"}) as s:
            def ask(key, path, **fields):
                return s.post(path, fields, headers={"Authorization": f"Bearer {key}"})
            boss = {"Authorization": "Bearer boss"}
            s.wait(lambda: "loaded" in states(s, boss).values(), 20, "the first is loaded")
            (first,) = states(s, boss)
            status, body, _ = ask("user", "/models/add", model=f"{folder}/tiny")
            assert status == 403 and "admin" in body["error"]["message"] and list(told(s)) == [first], body
            for word, says in [(f"{folder}/broken", "model.safetensors"), (f"{folder}/none", "which model?"), (f"big={folder}/tiny,memory=1g", "--models-memory"),
                               (folder, "is no model"), ("--help", "as trireme load takes it"), (f"a={folder}/tiny\nb", "as trireme load takes it"),
                               ("no/such", "HF_HUB_OFFLINE"), ("", "as trireme load takes it")]:
                status, body, _ = ask("boss", "/models/add", model=word)
                assert status == 400 and says in body["error"]["message"], (word, status, body)
                assert list(told(s)) == [first], (word, told(s))
            assert ask("boss", "/models/add", model=f"small={folder}/tiny,slots=2")[:2] == (200, {"success": True})
            assert told(s)["small"]["state"] == "loaded" and "--slots=2" in processes(s.run_dir)[workers_of(s, "small")[0]]
            assert ask("user", "/v1/completions", model="small", prompt="Once", max_tokens=4)[0] == 200
            assert ask("boss", "/models/add", model="small")[0] == 200, "one that is there is loaded already"
            os.kill(s.pids("scheduler")[0], signal.SIGKILL)
            s.wait(lambda: ask("user", "/v1/completions", model="small", prompt="Once", max_tokens=4)[0] == 200, 20, "all goes on")
            assert ask("boss", "/models/unload", model="small")[0] == 200


def test_a_model_that_was_added_is_removed():
    """By a command and over HTTP, by keys that may: its streams end first, its name and place are free, nobody lists it, also after a restart."""
    with tempfile.TemporaryDirectory(prefix="trm-model-") as folder:
        os.mkdir(f"{folder}/tiny")
        put_whole_norm(f"{folder}/tiny")
        with open(f"{folder}/keys", "w") as f:
            f.write("boss admin\nuser\n")
        with Serve(args=["--threads", 1, "--min-step-ms", 10, "--api-key-file", f"{folder}/keys"], env={"TRIREME_API_KEY": ""}) as s:
            def ask(key, path, **fields):
                return s.post(path, fields, headers={"Authorization": f"Bearer {key}"})

            def unknown():
                return ask("user", "/v1/completions", model="tiny", prompt="Once", max_tokens=4)[0] == 404
            boss = {"Authorization": "Bearer boss"}
            s.wait(lambda: "loaded" in states(s, boss).values(), 20, "the first is loaded")
            (first,) = states(s, boss)
            s.wait(lambda: ask("boss", "/models/remove", model=first)[0] != 503, 20, "the scheduler knows who serves")
            for key, model, status, says in [("user", "tiny", 403, "admin"), ("boss", "tiny", 404, "does not exist"), ("boss", first, 400, "at its start")]:
                got, body, _ = ask(key, "/models/remove", model=model)
                assert got == status and says in body["error"]["message"], (key, model, got, body)
            bad = command(s, "remove", first)
            assert bad.returncode == 1 and "at its start" in bad.stderr, bad
            for word, says in [(("remove",), "which model?"), (("remove", "tiny"), "no model of that name")]:
                assert says in command(s, *word).stderr, word

            for round_ in range(4):
                assert command(s, "load", f"{folder}/tiny").stdout == "loaded\n", round_
                if round_ % 2:
                    assert ask("boss", "/models/remove", model="tiny")[:2] == (200, {"success": True}), round_
                else:
                    assert command(s, "remove", "tiny").stdout == "removed\n", round_
                assert list(told(s)) == [first] and not workers_of(s, "tiny"), told(s)
                if round_ < 2:
                    s.wait(lambda: list(states(s, boss)) == [first], 5, "it is listed no more")
                    s.wait(unknown, 5, "requests for it are 404")

            assert command(s, "load", f"{folder}/tiny").stdout == "loaded\n"
            path, body = story("tiny", 1)

            async def remove_under_a_stream():
                running = Result(body)
                task = asyncio.create_task(request(s.port, path, body, running, headers=["Authorization: Bearer boss"], timeout=60))
                while len(running.times) < 10:
                    await asyncio.sleep(0.01)
                status = (await asyncio.to_thread(ask, "boss", "/models/remove", model="tiny"))[0]
                ended = running.done
                await task
                return status, ended, running
            status, ended, running = asyncio.run(remove_under_a_stream())
            assert status == 200 and ended and not running.error, (status, ended, running.error)
            os.kill(s.supervisor_pid(), signal.SIGKILL)
            s.process.wait()
            s.start()
            s.wait(lambda: command(s, "status").returncode == 0, 10, "the supervisor answers again")
            assert list(told(s)) == [first]


def test_whoever_adds_a_model_is_told_when_nobody_is_left_to_do_it():
    """The hub never answers; the supervisor that was asked dies, or the scheduler: neither leaves the client waiting."""
    with tempfile.NamedTemporaryFile("w", prefix="trm-keys-") as keys, socket.create_server(("127.0.0.1", 0)) as hub:
        keys.write("boss admin\n")
        keys.flush()
        hub_url = f"http://127.0.0.1:{hub.getsockname()[1]}"
        with Serve(args=["--threads", 1, "--api-key-file", keys.name], env={"HF_ENDPOINT": hub_url}) as s:
            boss = {"Authorization": "Bearer boss"}

            def add_and_kill(pid):
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    asked = pool.submit(s.post, "/models/add", {"model": "some/model"}, headers=boss)
                    hub.settimeout(20)
                    with hub.accept()[0]:  # trireme load asks for its files
                        os.kill(pid, signal.SIGKILL)
                        status, body, _ = asked.result(20)
                return status, body["error"]["message"]
            s.wait(lambda: "loaded" in states(s, boss).values(), 20, "the first is loaded")
            status, text = add_and_kill(s.pids("scheduler")[0])
            assert status == 503 and "the scheduler has ended" in text and "/v1/models" in text, (status, text)
            s.wait(lambda: s.get("/health/ready")[0] == 200, 20, "it is ready again")
            status, text = add_and_kill(s.supervisor_pid())
            assert status == 503 and "has ended meanwhile" in text and "/v1/models" in text, (status, text)
            s.process.wait()
            s.start()
            s.wait(lambda: command(s, "status").returncode == 0, 10, "the supervisor answers again")


def put_revision(folder, name, link):
    """A model of this name in the folder, which `link` leads to from now on; its template differs, and so do its weights."""
    at = os.path.join(folder, name)
    shutil.copytree(bundled_model(), at)
    if name != "first":
        path = os.path.join(at, "model.safetensors")
        data = bytearray(open(path, "rb").read())
        size = int.from_bytes(data[:8], "little")
        begin, end = json.loads(data[8:8 + size])["model.norm.weight"]["data_offsets"]
        for i in range(begin + 8 + size, end + 8 + size, 2):  # bf16: the sign of every other value
            data[i + 1] ^= 0x80 if (i // 2) % 2 else 0
        open(path, "wb").write(data)
        with open(os.path.join(at, "chat_template.jinja"), "a") as f:
            f.write("{# another #}")
    point(link, at)
    return at


def point(link, at):
    os.symlink(at, link + ".new")
    os.rename(link + ".new", link)


def test_a_new_revision_beside_the_old_one_cuts_no_stream():
    """The link leads to another folder: what runs ends where it began, what comes is answered by the new one. A broken one changes nothing."""
    with tempfile.TemporaryDirectory(prefix="trm-model-") as folder:
        link = os.path.join(folder, "current")
        put_revision(folder, "first", link)
        with Serve(model=f"story={link}", args=["--threads", 1, "--min-step-ms", 15, "--slots", 4, "--drain-timeout", "60s"]) as s:
            asked = [story("story", i, 80) for i in range(8)]  # four run, four wait
            first = [r.key() for r in run_many(s.port, asked)[0]]
            (before,) = workers_of(s, "story")
            second = put_revision(folder, "second", link)

            async def reload(results):
                while len(results[0].times) < 10:
                    await asyncio.sleep(0.01)
                moved = await asyncio.to_thread(command, s, "reload")
                new = await asyncio.gather(*[request(s.port, *story("story", i, 20)) for i in range(3)])
                return moved, [r.done for r in results], new
            results, (moved, ended, new) = run_many(s.port, asked, during=reload)
            assert moved.stdout == "new requests go to the new revision\n", moved
            assert [r.key() for r in results] == first, [r.error for r in results]
            assert not all(ended), "it waited for the streams"
            s.wait(lambda: len(workers_of(s, "story")) == 1 and before not in workers_of(s, "story"), 10, "the old one ended")
            again = run_many(s.port, [story("story", i, 20) for i in range(3)])[0]
            assert [r.key() for r in new] == [r.key() for r in again] and all(r.done for r in new), [r.error for r in new]
            assert not any(old.text[0].startswith(r.text[0]) for old, r in zip(results, new)), "the old one answered"

            broken = put_revision(folder, "broken", link)
            os.truncate(os.path.join(broken, "model.safetensors"), 100000)
            bad = command(s, "reload", "story")
            assert bad.returncode == 1 and "the revision before it stays" in bad.stderr and "model.safetensors" in bad.stderr, bad
            (after,) = workers_of(s, "story")
            assert answer(s, model="story")[0] == 200
            os.unlink(link)
            bad = command(s, "reload", "story")
            assert bad.returncode == 1 and "cannot find the model" in bad.stderr, bad

            point(link, second)
            os.kill(s.supervisor_pid(), signal.SIGKILL)
            s.process.wait()
            s.start()
            s.wait(lambda: command(s, "status").returncode == 0, 10, "the supervisor answers again")
            assert workers_of(s, "story") == [after] and answer(s, model="story")[0] == 200


def test_a_model_that_cannot_be_loaded_is_no_reason_to_end():
    with tempfile.TemporaryDirectory(prefix="trm-model-") as folder:
        put_whole_norm(folder)
        weights = os.path.join(folder, "model.safetensors")
        with Serve(model=f"demo={bundled_model()}", args=["--threads", 1, "--model-wait", "2s", "--model", f"bad={folder},on-demand"]) as s:
            os.truncate(weights, os.path.getsize(weights) // 2)
            bad = command(s, "load", "bad")
            assert bad.returncode == 1 and "model.safetensors" in bad.stderr, bad
            assert told(s)["bad"]["state"] == "failed" and "model.safetensors" in told(s)["bad"]["reason"]
            assert answer(s, model="bad")[0] == 503 and answer(s, model="demo")[0] == 200
            assert not workers_of(s, "bad"), "what failed just now is not tried for each request"


def test_requests_for_a_model_that_cannot_be_loaded_are_told_why_at_once():
    """Those that have waited for the load, those that come after it, and those of a model that has no room; in each API's own shape."""
    with tempfile.TemporaryDirectory(prefix="trm-model-") as folder:
        put_whole_norm(folder)
        weights = os.path.join(folder, "model.safetensors")
        args = ["--threads", 1, "--model-wait", "60s", "--models-memory", "64m", "--model", f"bad={folder},alias=worse,on-demand",
                "--model", f"big={folder},on-demand,memory=1g"]
        with Serve(model=f"demo={bundled_model()}", args=args) as s:
            s.wait(lambda: states(s).get("demo") == "loaded", 20, "demo is loaded")
            whole = os.path.getsize(weights)
            data = open(weights, "rb").read()
            os.truncate(weights, whole // 2)
            begun = time.monotonic()

            async def many():
                return await asyncio.gather(*[request(s.port, *story(name, i), timeout=60) for i, name in enumerate(("bad", "worse", "bad"))])
            for r in asyncio.run(many()):
                assert r.status == 503 and "model.safetensors" in r.error and folder not in r.error, (r.status, r.error)
            chat = {"messages": [{"role": "user", "content": "Hi"}]}
            for path, fields in [("/v1/messages", {**chat, "max_tokens": 4}), ("/api/chat", chat), ("/v1/chat/completions", chat),
                                 ("/v1/responses", {"input": "Hi"})]:
                status, body, _ = s.post(path, {"model": "bad", **fields})
                error = body["error"] if path == "/api/chat" else body["error"]["message"]
                assert status == 503 and "cannot be loaded" in error and "model.safetensors" in error, (path, status, body)
            status, body, _ = answer(s, model="big")
            assert status == 503 and "--models-memory" in body["error"]["message"], (status, body)
            assert time.monotonic() - begun < 20, "they waited for --model-wait"
            with open(weights, "wb") as f:
                f.write(data)
            assert command(s, "load", "bad").stdout == "loaded\n"
            assert answer(s, model="worse")[0] == 200


def test_keys_say_which_models_and_who_may_load_them():
    with tempfile.NamedTemporaryFile("w", prefix="trm-keys-") as keys:
        keys.write("boss admin\nuser models=demo\nboth models=tiny,demo priority-min=-5\n")
        keys.flush()
        with on_demand("--api-key-file", keys.name) as s:
            def ask(key, path, **fields):
                return s.post(path, fields, headers={"Authorization": f"Bearer {key}"})
            prompt = {"prompt": "Once", "max_tokens": 4, "temperature": 0}
            s.wait(lambda: states(s, {"Authorization": "Bearer boss"}).get("demo") == "loaded", 20, "demo is loaded")
            assert ask("user", "/v1/completions", model="demo", **prompt)[0] == 200
            assert states(s, {"Authorization": "Bearer user"}) == {"demo": "loaded"}
            status, body, _ = ask("user", "/models/load", model="tiny")
            assert status == 403 and "admin" in body["error"]["message"], body
            status, body, _ = ask("boss", "/models/load", model="third")
            assert status == 404 and body["error"]["code"] == "model_not_found", body
            assert ask("boss", "/models/load", model="small")[:2] == (200, {"success": True})
            s.wait(lambda: states(s, {"Authorization": "Bearer boss"})["tiny"] == "loaded", 20, "tiny is loaded")
            status, body, _ = ask("user", "/v1/completions", model="tiny", **prompt)
            assert status == 403 and "tiny" in body["error"]["message"], body
            assert ask("both", "/v1/completions", model="tiny", **prompt)[0] == 200
            assert ask("both", "/models/reload", model="tiny")[0] == 403
            (one,) = workers_of(s, "tiny")
            assert ask("boss", "/models/reload", model="tiny")[0] == 200
            s.wait(lambda: workers_of(s, "tiny") and one not in workers_of(s, "tiny"), 20, "tiny is loaded anew")
            assert ask("boss", "/models/unload", model="tiny")[0] == 200
            s.wait(lambda: not workers_of(s, "tiny"), 10, "tiny is unloaded")
