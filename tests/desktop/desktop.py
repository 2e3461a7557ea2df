"""A real desktop session without a screen, for the tests of the app: X server, window manager, a panel that is a
StatusNotifier host, a notification daemon, a session bus and a system bus of its own, and a throw-away home."""

import contextlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
APP = Path(os.environ.get("METACLAW_APP", TARGET / "debug" / "metaclaw-app"))
CLI = Path(os.environ.get("METACLAW_BIN", APP.parent / "metaclaw"))
SHOTS = os.environ.get("METACLAW_SHOTS")

PROGRAMS = ("Xvfb", "openbox", "xfce4-panel", "dunst", "dunstctl", "xdotool", "xclip", "dbus-daemon", "WebKitWebDriver")

try:
    from gi.repository import Gio, GLib
except ImportError:
    Gio = GLib = None

PANEL = """<?xml version="1.0" encoding="UTF-8"?>
<channel name="xfce4-panel" version="1.0">
  <property name="configver" type="int" value="2"/>
  <property name="panels" type="array">
    <value type="int" value="1"/>
    <property name="dark-mode" type="bool" value="true"/>
    <property name="panel-1" type="empty">
      <property name="position" type="string" value="p=6;x=0;y=0"/>
      <property name="length" type="uint" value="100"/>
      <property name="position-locked" type="bool" value="true"/>
      <property name="icon-size" type="uint" value="22"/>
      <property name="size" type="uint" value="28"/>
      <property name="plugin-ids" type="array"><value type="int" value="1"/></property>
    </property>
  </property>
  <property name="plugins" type="empty"><property name="plugin-1" type="string" value="systray"/></property>
</channel>
"""
DUNST = "[global]\n    width = 360\n    origin = top-right\n    offset = 10x40\n    timeout = 60\n    idle_threshold = 0\n"


def missing():
    """What this machine lacks for these tests."""
    lacks = [name for name in PROGRAMS if not shutil.which(name)]
    if Gio is None:
        lacks.append("python3-gi")
    lacks += [str(path) for path in (APP, CLI) if not path.exists()]
    return lacks


def until(condition, what, seconds=60):
    """The first true value of the condition. What raises is not true yet."""
    end = time.monotonic() + seconds
    error = None
    while True:
        try:
            value = condition()
            if value:
                return value
        except (OSError, LookupError, subprocess.SubprocessError, *([GLib.Error] if GLib else [])) as raised:
            error = raised
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}" + (f" ({error})" if error else ""))
        time.sleep(0.05)


class Desktop:
    """The session. Everything in it ends with it."""

    def __init__(self, panel=True):
        self.home = Path(tempfile.mkdtemp(prefix="metaclaw-desktop-"))
        self.metaclaw = self.home / ".metaclaw"
        self.children = []
        self.apps = []
        config = self.home / ".config"
        (config / "dunst").mkdir(parents=True)
        (config / "dunst" / "dunstrc").write_text(DUNST)
        channel = config / "xfce4" / "xfconf" / "xfce-perchannel-xml"
        channel.mkdir(parents=True)
        (channel / "xfce4-panel.xml").write_text(PANEL)
        run = self.home / "run"
        run.mkdir(mode=0o700)
        kept = ("PATH", "LANG", "LD_LIBRARY_PATH")
        self.env = {name: os.environ[name] for name in kept if name in os.environ} | {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(config),
            "XDG_DATA_HOME": str(self.home / ".local" / "share"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "XDG_RUNTIME_DIR": str(run),
            "XDG_SESSION_TYPE": "x11",
            "XDG_CURRENT_DESKTOP": "XFCE",
            "GDK_BACKEND": "x11",
            "NO_AT_BRIDGE": "1",
            "GTK_A11Y": "none",
            "LIBGL_ALWAYS_SOFTWARE": "1",
            "LANG": "C.UTF-8",
        }
        try:
            self.start(panel)
        except BaseException:
            self.close()
            raise

    def start(self, panel):
        told, tell = os.pipe()
        self.spawn("Xvfb", "-displayfd", str(tell), "-screen", "0", "1280x800x24", "-nolisten", "tcp", pass_fds=(tell,))
        os.close(tell)
        with os.fdopen(told) as line:
            self.env["DISPLAY"] = ":" + line.readline().strip()
        self.env["DBUS_SESSION_BUS_ADDRESS"] = self.bus_address("session")
        # The app takes its system bus from here; the tests play logind on it.
        self.env["DBUS_SYSTEM_BUS_ADDRESS"] = self.bus_address("system")
        self.bus = connect(self.env["DBUS_SESSION_BUS_ADDRESS"])
        self.spawn("openbox")
        self.spawn("dunst")
        until(lambda: self.owned("org.freedesktop.Notifications"), "a notification daemon")
        if panel:
            self.spawn("xfce4-panel", "--disable-wm-check")
            until(lambda: self.owned("org.kde.StatusNotifierWatcher"), "a tray")

    def bus_address(self, name):
        path = self.home / f"{name}.bus"
        self.spawn("dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address=unix:path={path}")
        until(path.exists, f"the {name} bus")
        return f"unix:path={path}"

    def spawn(self, *command, **options):
        log = (self.home / f"{Path(command[0]).name}.log").open("ab")
        child = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options)
        log.close()
        self.children.append(child)
        return child

    def close(self):
        for app in self.apps:
            app.kill()
        for child in reversed(self.children):
            child.terminate()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def owned(self, name):
        return self.call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "NameHasOwner", "(s)", name
        )

    def call(self, to, path, interface, method, kinds="()", *values):
        """Calls a method on the session bus; a single result comes unpacked."""
        given = GLib.Variant(kinds, values)
        answer = self.bus.call_sync(to, path, interface, method, given, None, Gio.DBusCallFlags.NONE, 5000, None)
        result = answer.unpack()
        return result[0] if len(result) == 1 else result

    def property(self, to, path, interface, name):
        return self.call(to, path, "org.freedesktop.DBus.Properties", "Get", "(ss)", interface, name)

    def configure(self, **settings):
        """Writes config.yaml: free port, and the given sections."""
        self.metaclaw.mkdir(exist_ok=True)
        settings.setdefault("proxy", {})["port"] = 0
        (self.metaclaw / "config.yaml").write_text(json.dumps(settings))

    def app(self, *args, env=()):
        """Starts the app."""
        app = App(self, self.spawn(str(APP), *args) if not env else self.with_env(dict(env), str(APP), *args))
        self.apps.append(app)
        return app

    def with_env(self, more, *command):
        before = self.env
        self.env = before | more
        try:
            return self.spawn(*command)
        finally:
            self.env = before

    def run(self, *command, timeout=30):
        """What a program printed; it must end well."""
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=timeout, check=True)
        return done.stdout.strip()

    def windows(self):
        """The visible windows of the app."""
        command = ("xdotool", "search", "--onlyvisible", "--name", "^MetaClaw$")
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=10)
        return done.stdout.split()

    def press(self, x, y):
        """A click of the mouse."""
        self.run("xdotool", "mousemove", str(x), str(y), "click", "1")

    def close_window(self, window):
        """Asks the window to close, as a person does with the keys of the window manager."""
        self.run("xdotool", "windowactivate", "--sync", window, "key", "alt+F4")

    def shot(self, name):
        """A picture of the screen, where METACLAW_SHOTS names a folder."""
        if SHOTS and shutil.which("import"):
            self.run("import", "-window", "root", f"{SHOTS}/{name}.png")

    def api(self, method, path, body=None):
        """Asks the control API over its socket."""
        return unix_request(self.metaclaw / "control.sock", method, path, body)

    def logs(self):
        """What the programs said, for a test that fails."""
        texts = []
        for path in sorted([*self.home.glob("*.log"), *self.metaclaw.glob("logs/*"), *self.metaclaw.glob("*.log")]):
            with contextlib.suppress(OSError):
                texts.append(f"== {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-15:]))
        return "\n".join(texts)


class App:
    """A started app."""

    def __init__(self, desktop, process):
        self.desktop, self.process = desktop, process

    def tray(self):
        return Tray(self.desktop, self.process.pid)

    def children(self, name):
        """Its child processes of that name."""
        found = subprocess.run(("pgrep", "-P", str(self.process.pid), "-f", name), capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split()]

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()

    def ended(self, seconds=15):
        """Its exit code."""
        return self.process.wait(seconds)


class Tray:
    """The app's item at the StatusNotifier watcher, and its menu."""

    ITEM = "org.kde.StatusNotifierItem"

    def __init__(self, desktop, pid):
        self.desktop = desktop
        self.name, self.path = until(lambda: self.find(pid), "a tray icon of the app")
        self.menu = desktop.property(self.name, self.path, self.ITEM, "Menu")

    def find(self, pid):
        watcher = ("org.kde.StatusNotifierWatcher", "/StatusNotifierWatcher", "org.kde.StatusNotifierWatcher")
        for item in self.desktop.property(*watcher, "RegisteredStatusNotifierItems"):
            name, slash, rest = item.partition("/")
            owner = self.desktop.call(
                "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetConnectionUnixProcessID",
                "(s)", name,
            )
            if owner == pid:
                return name, slash + rest
        return None

    def connection(self):
        """The connection that the item speaks over now."""
        return self.desktop.call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetNameOwner", "(s)", self.name
        )

    def entries(self):
        """Label to id, of entries and of those in submenus; a label that is greyed out has no id."""
        _, layout = self.desktop.call(
            self.name, self.menu, "com.canonical.dbusmenu", "GetLayout", "(iias)", 0, -1, []
        )
        found = {}

        def walk(node):
            number, properties, children = node
            if "label" in properties:
                found[properties["label"]] = number if properties.get("enabled", True) else None
            for child in children:
                walk(child)

        walk(layout)
        return found

    def click(self, label):
        number = until(lambda: self.entries().get(label), f"the entry {label}")
        self.desktop.call(
            self.name, self.menu, "com.canonical.dbusmenu", "Event", "(isvu)", number, "clicked", GLib.Variant("i", 0), 0
        )

    def has(self, label):
        until(lambda: label in self.entries(), f"{label!r} in the menu, which has {list(self.entries())}")

    def activate(self):
        """A left click."""
        self.desktop.call(self.name, self.path, self.ITEM, "Activate", "(ii)", 0, 0)

    def picture(self):
        """Its pixels."""
        return bytes(self.desktop.property(self.name, self.path, self.ITEM, "IconPixmap")[0][2])


class WebDriver:
    """The window's page, through WebKitWebDriver: it starts the app and looks into it."""

    def __init__(self, desktop, *args):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        more = {"TAURI_AUTOMATION": "true", "TAURI_WEBVIEW_AUTOMATION": "true"}
        desktop.with_env(more, "WebKitWebDriver", f"--port={self.port}", "--host=127.0.0.1")
        until(lambda: self.ask("GET", "/status"), "WebKitWebDriver")
        options = {"webkitgtk:browserOptions": {"binary": str(APP), "args": list(args)}}
        session = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        self.session = f"/session/{session['sessionId']}"

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            value = json.loads(answer.read())["value"]
        finally:
            connection.close()
        if answer.status != 200:
            raise LookupError(value)
        return value

    def script(self, text):
        return self.ask("POST", f"{self.session}/execute/sync", {"script": text, "args": []})

    def wait(self, text, *args):
        """A script that calls its last argument when it is done."""
        return self.ask("POST", f"{self.session}/execute/async", {"script": text, "args": list(args)})

    def click(self, name):
        """A real click on the button of that name."""
        where = {"using": "xpath", "value": f"//button[normalize-space()={json.dumps(name)}]"}
        found = until(lambda: self.ask("POST", f"{self.session}/element", where), f"the button {name!r}")
        self.ask("POST", f"{self.session}/element/{next(iter(found.values()))}/click", {})

    def text(self, selector="body"):
        return self.script(f"return document.querySelector({json.dumps(selector)}).innerText")

    def reads(self, words, selector="body"):
        until(lambda: words in self.text(selector), f"{words!r} in the window, which reads {self.text()[:400]!r}")

    def end(self):
        with contextlib.suppress(OSError, LookupError, http.client.HTTPException):
            self.ask("DELETE", self.session)


class DesktopTest(unittest.TestCase):
    """A test in a session of its own."""

    PANEL = True

    def setUp(self):
        lacks = missing()
        if lacks:
            self.assertFalse(os.environ.get("METACLAW_NO_SKIP"), f"missing: {', '.join(lacks)}")
            self.skipTest(f"not installed here: {', '.join(lacks)}")
        self.desktop = Desktop(panel=self.PANEL)
        self.addCleanup(self.desktop.close)
        self.addCleanup(self.tell)

    def tell(self):
        outcome = self._outcome
        result = getattr(outcome, "result", None)
        if result and any(test is self for test, _ in [*result.failures, *result.errors, *getattr(outcome, "errors", [])]):
            print(self.desktop.logs())


class Provider(http.server.ThreadingHTTPServer):
    """A provider of chat completions: `answer` makes the status and the body of the request's text."""

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), ProviderHandler)
        self.answer = answer
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def end(self):
        self.shutdown()
        self.server_close()


def failing(_):
    """Everything fails, at once and for good."""
    return 503, {"error": {"message": "down for maintenance", "type": "server_error"}}


def teaching(asked):
    """Agents get an answer; who asks for a skill gets one."""
    said = "30 9 * * * /usr/bin/report"
    if "You keep the skill library" in asked:
        said = json.dumps({
            "action": "create",
            "name": "check-timezone-in-cron",
            "description": "Checks the time zone of scheduled jobs. Use when a cron line is written or explained.",
            "category": "productivity",
            "keywords": ["cron time zone"],
            "body": "State the time zone the scheduler runs in. If it is unknown, ask first.",
            "turns": [2],
            "reason": "The user corrected the time zone of a job.",
        })
    message = {"role": "assistant", "content": said}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return 200, {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


class ProviderHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        status, value = self.server.answer(self.rfile.read(int(self.headers.get("content-length", 0))).decode())
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def turn(base_url, key, *said, **more):
    """One turn as an agent sends it, by what was said in it so far, the person first; the status it gets."""
    host = re.fullmatch(r"http://([^/]+)/v1", base_url).group(1)
    connection = http.client.HTTPConnection(host, timeout=20)
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said or ("Is anybody there?",))]
    body = json.dumps({"model": "m", "messages": messages})
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}", **more}
    connection.request("POST", "/v1/chat/completions", body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def connect(address):
    flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
    return Gio.DBusConnection.new_for_address_sync(address, flags, None, None)


def unix_request(path, method, target, body=None):
    class Connection(http.client.HTTPConnection):
        def connect(self):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(str(path))

    connection = Connection("localhost", timeout=20)
    try:
        headers = {"content-type": "application/json"}
        connection.request(method, target, None if body is None else json.dumps(body), headers)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()
