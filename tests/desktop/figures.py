"""The app's own figures, printed as a Markdown table: memory and idle time with no window, the start, the window."""

import re
import sys
import time
from datetime import datetime

from desktop import APP, Desktop, missing, until

SERVICE = {"llm": {"provider": "custom", "api_base": "http://127.0.0.1:9/v1", "api_key": "k", "model_id": "m"}}
STARTS = 5
IDLE = 60


def pss(pid):
    """Proportional set size, MB."""
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        return int(re.search(r"^Pss:\s+(\d+)", rollup.read(), re.M).group(1)) / 1024


def ticks(pid):
    """Processor time of the process, ms."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 10


def logged(desktop, words):
    """When a line of the log was written, seconds since 1970."""
    for path in desktop.metaclaw.rglob("*.log"):
        for line in path.read_text().splitlines():
            if words in line:
                return datetime.fromisoformat(line.split()[0].replace("Z", "+00:00")).timestamp()
    return None


def start(*args):
    """A fresh session with the app in it, and when it was begun."""
    desktop = Desktop()
    desktop.configure(**SERVICE)
    begun = time.time()
    return desktop, desktop.app(*args), begun


def ready():
    desktop, _, begun = start("--background")
    try:
        return (until(lambda: logged(desktop, "serving agents"), "the service") - begun) * 1000
    finally:
        desktop.close()


def window():
    desktop, _, begun = start()
    try:
        return (until(lambda: logged(desktop, "the window has drawn"), "the window", 60) - begun) * 1000
    finally:
        desktop.close()


def idle():
    desktop, app, _ = start("--background")
    try:
        app.tray().has("Running, auto mode")
        # What the start allocated goes back to the system within some seconds.
        time.sleep(10)
        before = ticks(app.process.pid)
        time.sleep(IDLE)
        used = ticks(app.process.pid) - before
        alone = pss(app.process.pid)
        app.tray().activate()
        until(lambda: logged(desktop, "the window has drawn"), "the window", 60)
        (shown,) = until(desktop.windows, "a window")
        desktop.close_window(shown)
        until(lambda: not desktop.windows(), "the end of the window")
        time.sleep(10)
        # With what WebKit leaves running for the next window.
        return used / IDLE / 10, alone, sum(map(pss, [app.process.pid, *app.children("WebKit")]))
    finally:
        desktop.close()


def middle(values):
    return sorted(values)[len(values) // 2]


lacks = missing()
if lacks:
    sys.exit(f"missing: {', '.join(lacks)}")
percent, alone, after = idle()
print(f"| {APP} | |\n|---|---|")
print(f"| from exec until agents are served, median of {STARTS} | {middle([ready() for _ in range(STARTS)]):.0f} ms |")
print(f"| from exec until the window has drawn, median of {STARTS} | {middle([window() for _ in range(STARTS)]):.0f} ms |")
print(f"| memory with no window (PSS) | {alone:.0f} MB |")
print(f"| memory after a window was opened and closed, with WebKit's network process (PSS) | {after:.0f} MB |")
print(f"| processor over {IDLE} s with no window | {percent:.2f} % |")
