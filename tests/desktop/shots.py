"""Pictures of every page in the real web view, light, 1100 x 720, into the folder given: shots.py FOLDER [PAGE…]."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

from desktop import CLI, ROOT, Desktop, WebDriver, missing, until

SETTLED = """
    const [hash, done] = arguments;
    if (hash) location.hash = hash;
    let calm = 0, last = "";
    const look = () => {
      const now = document.body.innerHTML;
      calm = now === last && !document.querySelector("[aria-busy=true]") ? calm + 1 : 0;
      last = now;
      if (calm > 20) done(true); else requestAnimationFrame(look);
    };
    look();
"""


@contextlib.contextmanager
def standing(*args):
    """A seeded service in a home of its own, and the pages it has."""
    command = ("node", str(ROOT / "ui" / "e2e" / "stand.mjs"), str(CLI), *args)
    stand = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(stand.stdout.readline())
    finally:
        stand.stdin.close()
        stand.wait(20)


def take(out, wanted, *args):
    with standing(*args) as stand:
        desktop = Desktop()
        try:
            desktop.env["METACLAW_HOME"] = stand["home"]
            window = WebDriver(desktop)
            (frame,) = until(desktop.windows, "a window")
            for name, place in stand["places"].items():
                if wanted and name not in wanted:
                    continue
                window.wait(SETTLED, place)
                if name in ("skills-effect", "skills-history"):
                    tab = 1 if name == "skills-effect" else 2
                    window.script(f"document.querySelectorAll('[role=tab]')[{tab}].click()")
                    window.wait(SETTLED, None)
                desktop.run("import", "-window", frame, str(out / f"{name}.png"))
                print(name, flush=True)
            window.end()
        finally:
            desktop.close()


lacks = missing()
if lacks:
    sys.exit(f"missing: {', '.join(lacks)}")
folder, pages = Path(sys.argv[1]), sys.argv[2:]
folder.mkdir(parents=True, exist_ok=True)
take(folder, pages, "fresh")
take(folder, pages)
