"""The tray in a real session: what it shows, what its menu does, and how the program begins and ends."""

import json
import subprocess
import unittest

from desktop import APP, CLI, DesktopTest, connect, until
from gi.repository import Gio, GLib

SERVICE = {"llm": {"provider": "custom", "api_base": "http://127.0.0.1:9/v1", "api_key": "k", "model_id": "m"}}


class Tray(DesktopTest):
    def state(self):
        return self.desktop.api("GET", "/api/v1/status")["state"]

    def stopped(self):
        return not (self.desktop.metaclaw / "control.sock").exists()

    def test_the_menu_starts_and_stops_the_service_and_the_icon_follows(self):
        self.desktop.configure(**SERVICE)
        tray = self.desktop.app("--background").tray()
        tray.has("Running, auto mode")
        until(lambda: self.state() == "running", "a running service")
        running = tray.picture()
        self.desktop.shot("tray-running")
        tray.click("Stop")
        tray.has("Stopped")
        until(self.stopped, "the end of the service")
        self.assertNotEqual(tray.picture(), running)
        self.desktop.shot("tray-stopped")
        tray.click("Start")
        tray.has("Running, auto mode")
        self.assertEqual((self.state(), tray.picture()), ("running", running))
        self.assertEqual(self.desktop.windows(), [])

    def test_the_menu_changes_the_mode_and_copies_the_address(self):
        self.desktop.configure(**SERVICE)
        tray = self.desktop.app("--background").tray()
        tray.has("Running, auto mode")
        tray.click("Skills only")
        tray.has("Running, skills only")
        self.assertEqual(self.desktop.api("GET", "/api/v1/config/mode")["value"], "skills_only")
        tray.has("Mode: Skills only")
        tray.click("Copy address")
        url = self.desktop.api("GET", "/api/v1/status")["base_url"]
        until(lambda: self.desktop.run("xclip", "-selection", "clipboard", "-o") == url, "the address in the clipboard")

    def test_a_left_click_opens_the_window_and_closing_it_ends_its_process_only(self):
        self.desktop.configure(**SERVICE)
        app = self.desktop.app("--background")
        tray = app.tray()
        tray.has("Running, auto mode")
        self.assertEqual((self.desktop.windows(), app.children("WebKit")), ([], []))
        # The icon is alone in the panel, at its left end.
        until(lambda: tray.picture(), "a picture")
        self.desktop.press(18, 14)
        (window,) = until(self.desktop.windows, "a window")
        (page,) = until(lambda: app.children("WebKitWebProcess"), "a web process")
        network = until(lambda: app.children("WebKitNetworkProcess"), "a network process")
        self.desktop.close_window(window)
        until(lambda: not self.desktop.windows() and not app.children("WebKitWebProcess"), "the end of the window")
        self.assertEqual(self.state(), "running")
        tray.click("Open MetaClaw")
        until(self.desktop.windows, "the window again")
        (again,) = until(lambda: app.children("WebKitWebProcess"), "a web process")
        self.assertNotEqual(again, page)
        # WebKit ends this one with the program only; what counts is that there is never a second.
        self.assertEqual(app.children("WebKitNetworkProcess"), network)

    def test_a_second_start_opens_the_window_of_the_first_unless_it_came_from_the_login(self):
        self.desktop.configure(**SERVICE)
        self.desktop.app("--background").tray().has("Running, auto mode")
        for _ in range(10):
            self.desktop.run(str(APP), "--background")
        self.assertEqual(self.desktop.windows(), [])
        self.desktop.run(str(APP))
        self.assertEqual(len(until(self.desktop.windows, "a window")), 1)
        self.desktop.run(str(APP), "--page", "skills")
        self.assertEqual(len(self.desktop.windows()), 1)

    def test_quit_ends_the_service_and_the_program_and_leaves_nothing(self):
        self.desktop.configure(**SERVICE)
        app = self.desktop.app("--background")
        tray = app.tray()
        tray.has("Running, auto mode")
        tray.click("Quit")
        self.assertEqual(app.ended(), 0)
        self.assertTrue(self.stopped())
        self.assertEqual(list(self.desktop.metaclaw.glob("*.pid")), [])

    def test_a_signal_ends_it_as_cleanly(self):
        self.desktop.configure(**SERVICE)
        app = self.desktop.app("--background")
        app.tray().has("Running, auto mode")
        app.process.terminate()
        self.assertEqual((app.ended(), self.stopped()), (0, True))

    def test_a_service_that_already_runs_is_attached_to_and_goes_on_after_quit(self):
        self.desktop.configure(**SERVICE)
        self.desktop.run(str(CLI), "start", "--daemon")
        self.addCleanup(lambda: subprocess.run((CLI, "stop"), env=self.desktop.env, capture_output=True))
        pid = self.desktop.api("GET", "/api/v1/status")["pid"]
        app = self.desktop.app("--background")
        tray = app.tray()
        tray.has(f"Served by process {pid}")
        tray.click("Quit")
        self.assertEqual(app.ended(), 0)
        self.assertEqual(self.desktop.api("GET", "/api/v1/status")["pid"], pid)
        tray = self.desktop.app("--background").tray()
        tray.has(f"Served by process {pid}")
        tray.click("Stop")
        tray.has("Stopped")
        self.assertTrue(self.stopped())

    def test_what_needs_the_person_opens_the_window_at_login_too(self):
        app = self.desktop.app("--background")
        app.tray().has("Not set up yet")
        until(self.desktop.windows, "the window of a first run")
        self.desktop.shot("first-run")

    def test_after_sleep_the_icon_is_made_anew_and_the_service_answers(self):
        self.desktop.configure(**SERVICE)
        app = self.desktop.app("--background")
        tray = app.tray()
        tray.has("Running, auto mode")
        before = tray.connection()
        bus = connect(self.desktop.env["DBUS_SYSTEM_BUS_ADDRESS"])
        request = GLib.Variant("(su)", ("org.freedesktop.login1", 0))
        bus.call_sync(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "RequestName", request, None,
            Gio.DBusCallFlags.NONE, 5000, None,
        )
        for asleep in (True, False):
            bus.emit_signal(
                None, "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "PrepareForSleep",
                GLib.Variant("(b)", (asleep,)),
            )
        bus.flush_sync(None)
        until(lambda: app.tray().connection() != before, "an icon made anew")
        app.tray().has("Running, auto mode")
        self.assertEqual(self.state(), "running")

    def test_only_release_builds_offer_to_start_at_login_and_write_their_own_path(self):
        self.desktop.configure(**SERVICE)
        tray = self.desktop.app("--background").tray()
        tray.has("Running, auto mode")
        entry = self.desktop.home / ".config" / "autostart" / "MetaClaw.desktop"
        if APP.parent.name == "debug":
            self.assertNotIn("Start at login", tray.entries())
            return
        self.assertFalse(entry.exists())
        tray.click("Start at login")
        until(entry.exists, "an entry")
        self.assertIn(f"Exec={APP} --background", entry.read_text())
        entry.write_text(entry.read_text().replace(str(APP), "/opt/gone/metaclaw-app"))
        tray.click("Quit")
        app = self.desktop.app("--background")
        until(lambda: f"Exec={APP} --background" in entry.read_text(), "the entry of a program that was moved")
        app.tray().click("Start at login")
        until(lambda: not entry.exists(), "the end of the entry")


class AnotherProcess(unittest.TestCase):
    def test_the_app_renders_templates_of_strangers_within_its_limits(self):
        hello = {"messages": [{"role": "user", "content": "hello"}], "tools": [], "bytes": 5, "thinks": False}
        order = {"source": "{{ messages[0].content }}, {{ 6 * 7 }}", "begin": "", "end": "", "conversation": hello}
        # As it is started for it: with no variables, and so with no display.
        done = subprocess.run([APP, "render-template"], input=json.dumps(order), env={}, capture_output=True, text=True)
        self.assertEqual((done.returncode, json.loads(done.stdout or "null")), (0, {"Ok": "hello, 42"}), done.stderr)


class WithoutTray(DesktopTest):
    PANEL = False

    def test_the_window_opens_even_at_login(self):
        self.desktop.configure(**SERVICE)
        self.desktop.app("--background")
        until(self.desktop.windows, "a window", 40)


if __name__ == "__main__":
    unittest.main()
