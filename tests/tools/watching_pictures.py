#!/usr/bin/env python3
"""Takes the pictures of what an operator watches, in docs/images: trireme top, trireme bench plot, and the dashboard's panels.

    ./dev build && build/venv/bin/python tests/tools/watching_pictures.py     # needs prometheus, chromium-headless-shell and pngquant

A server of the bundled model has two minutes of requests, more and more at a time. The panels are drawn here, in the places and with the queries of
dashboard.json, from what Prometheus answers: Debian has no Grafana. Not a test.
"""
import html
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import fcntl
import time
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import test_watching as watching  # noqa: E402
from serve import Serve, binary, free_port  # noqa: E402

IMAGES = ROOT / "docs" / "images"
COLORS = ["#3274d9", "#e0823d", "#2f9e44", "#b83fb8", "#c4162a", "#0d8a8a", "#8f7d13", "#666"]
PANEL, GAP, COLUMNS = (400, 190), 12, 3


def screenshot(name, width, height, page):
    """A picture of a page of HTML."""
    with tempfile.NamedTemporaryFile("w", suffix=".html") as file:
        file.write(page)
        file.flush()
        path = IMAGES / f"{name}.png"
        subprocess.run(["chromium-headless-shell", "--no-sandbox", f"--screenshot={path}", f"--window-size={width},{height}", f"file://{file.name}"],
                       check=True, capture_output=True)
    subprocess.run(["pngquant", "--force", "--ext", ".png", "--skip-if-larger", str(path)], check=False)
    print(path, path.stat().st_size // 1024, "kB")


def of_terminal(command, seconds, columns, rows):
    """The last frame that a program which draws from the upper left corner left on a terminal of this size."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    seen, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        os.set_blocking(terminal, False)
        try:
            seen += os.read(terminal, 65536)
        except BlockingIOError:
            time.sleep(0.05)
    os.write(terminal, b"q")
    os.waitpid(child, 0)
    frame = [part for part in seen.decode().split("\033[H") if "\033[J" in part][-1]
    return re.sub(r"\033\[[0-9;?]*[A-Za-z]", "", frame.split("\033[J")[0]).replace("\r", "").rstrip()


def picture_of_top(url):
    text = of_terminal([binary(), "top", url], 4, 96, 30)
    lines = text.splitlines()
    screenshot("top", 860, 19 * len(lines) + 40,
               "<body style='margin:0;background:#16191d'><pre style='margin:20px;color:#d8dee6;font:15px/19px DejaVu Sans Mono'>"
               + html.escape(text) + "</pre>")


def shown(unit, value):
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "bytes":
        return f"{value / 1e6:.3g} MB"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def series(prometheus, panel, begin, end):
    """[(legend, [(time, value)])] of a panel."""
    found = []
    for target in panel["targets"]:
        expr = target["expr"].replace("$__rate_interval", "10s").replace("$model", ".*")
        query = urllib.parse.urlencode({"query": expr, "start": begin, "end": end, "step": 1})
        for row in prometheus.ask("query_range?" + query)["result"]:
            legend = re.sub(r"{{(\w+)}}", lambda m: row["metric"].get(m[1], ""), target["legendFormat"])
            points = [(t, float(v)) for t, v in row["values"] if v not in ("NaN", "+Inf")]
            if points:
                found.append((legend, points))
    return found


def drawing(panel, rows, begin, end):
    """A panel as SVG: lines over time, their names and last values below."""
    width, height = PANEL
    unit, left, top, bottom = panel["fieldConfig"]["defaults"]["unit"], 54, 26, height - 44
    most = max((v for _, points in rows for _, v in points), default=0) or 1
    out = [f"<rect width='{width}' height='{height}' rx='3' fill='#fff' stroke='#d5d9e0'/>",
           f"<text x='10' y='17' font-weight='bold'>{html.escape(panel['title'])}</text>"]
    for part in (0, 0.5, 1):
        y = bottom - part * (bottom - top)
        out.append(f"<path d='M{left} {y}H{width - 10}' stroke='#e6e9ee'/><text x='{left - 5}' y='{y + 4}' text-anchor='end' fill='#667'>"
                   f"{shown(unit, most * part)}</text>")
    for i, (legend, points) in enumerate(rows):
        line = " ".join(f"{left + (t - begin) / (end - begin) * (width - 10 - left):.1f},{bottom - v / most * (bottom - top):.1f}" for t, v in points)
        out.append(f"<polyline points='{line}' fill='none' stroke='{COLORS[i % len(COLORS)]}' stroke-width='1.4'/>")
    for i, (legend, points) in enumerate(rows[:6]):
        x, y = 12 + i % 3 * 130, bottom + 20 + i // 3 * 14
        out.append(f"<rect x='{x}' y='{y - 7}' width='8' height='8' fill='{COLORS[i % len(COLORS)]}'/><text x='{x + 12}' y='{y}'>"
                   f"{html.escape(legend.strip()[:20])}</text>")
    return "".join(out)


def picture_of_dashboard(prometheus, begin, end):
    y, out = GAP, []
    row_of_panels = []
    panels = json.loads((watching.WATCHING / "dashboard.json").read_text())["panels"]
    for panel in [*panels, {"type": "row", "title": ""}]:
        if panel["type"] == "row":
            y += (len(row_of_panels) + COLUMNS - 1) // COLUMNS * (PANEL[1] + GAP)
            row_of_panels = []
            out.append(f"<text x='{GAP}' y='{y + 14}' font-size='14' font-weight='bold'>{panel['title']}</text>")
            y += 24 if panel["title"] else 0
        else:
            at = len(row_of_panels)
            x, below = GAP + at % COLUMNS * (PANEL[0] + GAP), y + at // COLUMNS * (PANEL[1] + GAP)
            out.append(f"<g transform='translate({x} {below})'>{drawing(panel, series(prometheus, panel, begin, end), begin, end)}</g>")
            row_of_panels.append(panel)
    width = COLUMNS * (PANEL[0] + GAP) + GAP
    screenshot("dashboard", width, y, f"<body style='margin:0;background:#f4f5f8'><svg width='{width}' height='{y}' font-family='DejaVu Sans' "
               f"font-size='10'>{''.join(out)}</svg>")


def bench(url, folder, name, *options):
    file = f"{name}.json"
    subprocess.run([binary(), "bench", "serve", "--base-url", url, "--random-input-len", "64", "--random-output-len", "48", "--ignore-eos",
                    "--save-result", "--save-detailed", "--result-dir", folder, "--result-filename", file, *options],
                   check=True, stdout=subprocess.DEVNULL)
    return file


def main():
    admin = free_port()
    with Serve(args=["--admin-port", admin, "--workers", 2, "--min-step-ms", 20]) as s, tempfile.TemporaryDirectory() as folder:
        url, prometheus, begin = f"http://127.0.0.1:{s.port}", watching.Prometheus(s.port, admin), time.time()
        try:
            files = [bench(url, folder, f"{rate}-a-second", "--request-rate", str(rate), "--num-prompts", str(rate * 40)) for rate in (4, 16)]
            load = subprocess.Popen([binary(), "bench", "serve", "--base-url", url, "--random-input-len", "64", "--random-output-len", "48",
                                     "--ignore-eos", "--max-concurrency", "96", "--num-prompts", "1500"], stdout=subprocess.DEVNULL)
            time.sleep(8)
            picture_of_top(url)
            load.wait()
            time.sleep(3)
            picture_of_dashboard(prometheus, begin + 12, time.time())
            plot = subprocess.run([binary(), "bench", "plot", *files], cwd=folder, check=True, capture_output=True).stdout
            (IMAGES / "plot.svg").write_bytes(plot)
            print(IMAGES / "plot.svg", len(plot) // 1024, "kB")
        finally:
            prometheus.end()


if __name__ == "__main__":
    main()
