"""The window in the real web view: the pages, what they hear, notifications, and drawing that fails."""

import json
import os
import signal
import unittest
from pathlib import Path

from desktop import DesktopTest, Provider, WebDriver, failing, teaching, turn, until


def service(url="http://127.0.0.1:9/v1", **more):
    return {"llm": {"provider": "custom", "api_base": url, "api_key": "k", "model_id": "m"}, **more}


class Window(DesktopTest):
    def open(self, *args):
        driver = WebDriver(self.desktop, *args)
        self.addCleanup(driver.end)
        return driver

    def test_the_pages_load_over_ipc_and_follow_the_service(self):
        self.desktop.configure(**service())
        window = self.open("--page", "home")
        window.reads("Running")
        self.assertEqual(window.script("return location.protocol"), "tauri:")
        self.desktop.shot("window-home")
        checked = "return document.querySelector('[role=radio][aria-checked=true]').innerText"
        self.assertEqual(window.script(checked), "Auto")
        # A change from outside arrives as an event.
        self.desktop.api("PUT", "/api/v1/config/mode", {"value": "skills_only"})
        until(lambda: window.script(checked) == "Skills only", "the new mode in the window")
        # A change from inside arrives at the service.
        window.script("[...document.querySelectorAll('[role=radio]')].find((one) => one.innerText === 'RL').click()")
        until(lambda: self.desktop.api("GET", "/api/v1/config/mode")["value"] == "rl", "the mode set by the window")

    def test_a_page_can_be_named_at_the_start(self):
        self.desktop.configure(**service())
        window = self.open("--page", "skills")
        until(lambda: window.script("return document.title").startswith("Skills"), "the page of skills")
        until(lambda: window.script("return document.querySelectorAll('[data-row]').length") > 5, "skills in the list")
        self.desktop.shot("window-skills")

    def test_the_page_reaches_nothing_but_the_control_api(self):
        self.desktop.configure(**service())
        window = self.open("--page", "home")
        window.reads("Running")
        ask = (
            "return window.__TAURI_INTERNALS__.invoke({}, {}).then((answer) => JSON.stringify(answer), (no) => 'refused: ' + no)"
        )
        outside = window.script(ask.format('"api"', '{request: {method: "GET", path: "/v1/models", body: null}}'))
        self.assertEqual(json.loads(outside)["status"], 404)
        for command in ("plugin:autostart|enable", "plugin:window|close", "plugin:event|emit", "plugin:path|resolve"):
            self.assertIn("refused", window.script(ask.format(json.dumps(command), "{}")), command)
        port = self.desktop.api("GET", "/api/v1/status")["port"]
        fetched = window.script(
            f"return fetch('http://127.0.0.1:{port}/healthz').then(() => 'fetched', (no) => 'refused: ' + no)"
        )
        self.assertIn("refused", fetched)
        window.script("location.href = 'https://example.org/'")
        self.assertEqual(window.script("return location.protocol"), "tauri:")
        inline = "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s);"
        window.script(inline)
        self.assertIsNone(window.script("return window.ran ?? null"))

    def test_files_for_the_person_are_written_where_downloads_go(self):
        self.desktop.configure(**service())
        window = self.open("--page", "settings/diagnostics")
        window.click("Save diagnostics")
        (written,) = until(lambda: list(self.desktop.home.rglob("metaclaw-diagnostics-*.json")), "the file")
        window.reads(str(written))
        self.assertEqual(json.loads(written.read_text())["status"]["state"], "running")
        self.assertEqual(written.stat().st_mode & 0o777, 0o600)

    def test_what_is_copied_in_the_window_is_in_the_clipboard(self):
        self.desktop.configure(**service())
        window = self.open("--page", "home")
        window.reads("Running")
        window.click("Service")
        window.click("Copy address")
        url = self.desktop.api("GET", "/api/v1/status")["base_url"]
        until(lambda: self.desktop.run("xclip", "-selection", "clipboard", "-o") == url, "the address in the clipboard")

    def test_a_provider_that_is_down_is_told_and_a_click_leads_to_its_settings(self):
        provider = Provider(failing)
        self.addCleanup(provider.end)
        self.desktop.configure(
            **service(provider.url, app={"provider_down_minutes": 0}, proxy={"api_key": "agents", "max_retries": 0})
        )
        window = self.open("--page", "home")
        window.reads("Running")
        displayed = lambda: self.desktop.run("dunstctl", "count", "displayed")
        self.assertEqual(displayed(), "0")
        url = self.desktop.api("GET", "/api/v1/status")["base_url"]
        for _ in range(3):
            self.assertGreaterEqual(turn(url, "agents"), 500)
        until(lambda: displayed() == "1", "a notification")
        self.desktop.shot("notification")
        self.desktop.run("dunstctl", "action")
        until(lambda: window.script("return location.hash") == "#/settings/provider", "the page of the provider")
        self.desktop.run("dunstctl", "close-all")
        shown = json.loads(self.desktop.run("dunstctl", "history"))["data"][0][0]
        self.assertEqual(shown["summary"]["data"], "custom does not answer")
        self.assertIn("3 turns failed since", shown["body"]["data"])
        # Told once: a fourth failure is no news.
        self.assertGreaterEqual(turn(url, "agents"), 500)
        until(lambda: len(self.desktop.api("GET", "/api/v1/turns")) == 4, "the fourth turn in the journal")
        self.assertEqual(displayed(), "0")

    def test_a_skill_that_waits_is_told_by_its_name_and_a_click_leads_to_it(self):
        provider = Provider(teaching)
        self.addCleanup(provider.end)
        self.desktop.configure(**service(provider.url, skills={"review": True}, proxy={"api_key": "agents"}))
        window = self.open("--page", "home")
        window.reads("Running")
        until(lambda: self.desktop.api("GET", "/api/v1/skills-learning")["state"]["on"], "a service that learns")
        url = self.desktop.api("GET", "/api/v1/status")["base_url"]
        first, line = "My cron job fires at 9, write the line.", "30 9 * * * /usr/bin/report"
        told = {"x-session-id": "timer", "x-turn-type": "main"}
        self.assertEqual(turn(url, "agents", first, **told), 200)
        wrong = "No, that's wrong. It fires an hour late again, the host is on UTC."
        self.assertEqual(turn(url, "agents", first, line, wrong, **told, **{"x-session-done": "true"}), 200)
        until(lambda: self.desktop.run("dunstctl", "count", "displayed") == "1", "a notification")
        self.desktop.shot("notification-skill")
        self.desktop.run("dunstctl", "action")
        (waits,) = self.desktop.api("GET", "/api/v1/skills-proposals?state=waiting")
        page = f"#/skills/proposal/{waits['id']}"
        until(lambda: window.script("return location.hash") == page, "the page of the proposal")
        self.desktop.run("dunstctl", "close-all")
        shown = json.loads(self.desktop.run("dunstctl", "history"))["data"][0][0]
        self.assertEqual(shown["summary"]["data"], "A skill needs your yes")
        self.assertIn("check-timezone-in-cron", shown["body"]["data"])

    def test_a_kind_that_is_switched_off_is_not_told(self):
        provider = Provider(failing)
        self.addCleanup(provider.end)
        app = {"provider_down_minutes": 0, "notify_provider_down": False}
        self.desktop.configure(**service(provider.url, app=app, proxy={"api_key": "agents", "max_retries": 0}))
        tray = self.desktop.app("--background").tray()
        tray.has("Running, auto mode")
        url = self.desktop.api("GET", "/api/v1/status")["base_url"]
        for _ in range(3):
            turn(url, "agents")
        # The menu has it in any case, so it was heard.
        until(lambda: any(label.startswith("No answer from custom") for label in tray.entries()), "the trouble in the menu")
        self.assertEqual(self.desktop.run("dunstctl", "count", "displayed"), "0")


class BlankWindow(DesktopTest):
    def test_a_window_that_draws_nothing_is_drawn_in_a_plainer_way_from_then_on(self):
        self.desktop.configure(**service())
        app = self.desktop.app()
        stopped = set()

        def environment():
            """Stops every web process before it can draw; the app's variables."""
            for pid in set(app.children("WebKitWebProcess")) - stopped:
                os.kill(pid, signal.SIGSTOP)
                stopped.add(pid)
            return Path(f"/proc/{app.process.pid}/environ").read_bytes()

        plainer = b"WEBKIT_DISABLE_DMABUF_RENDERER=1"
        self.assertNotIn(plainer, environment())
        until(lambda: plainer in environment(), "a new run with plainer drawing", 60)
        for pid in stopped:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.assertEqual(json.loads((self.desktop.metaclaw / "window.json").read_text()), {"plainer": 1})
        until(lambda: self.desktop.api("GET", "/api/v1/status")["state"] == "running", "the service of the new run")
        until(self.desktop.windows, "the window of the new run")
        app.tray().click("Quit")
        self.assertEqual(app.ended(), 0)


if __name__ == "__main__":
    unittest.main()
