// What the desktop shell has to say in the window, against a shell that is played here.
import { clearMocks, mockIPC } from "@tauri-apps/api/mocks";
import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Schemas } from "../src/backend";
import ShellBar from "../src/parts/ShellBar.svelte";
import { inShell, tellPainted, type About } from "../src/shell";
import { live } from "../src/state/live.svelte";
import { prefs } from "../src/state/prefs.svelte";
import { save } from "../src/state/save";
import { toasts } from "../src/state/toasts.svelte";

// Before anything is imported: the pages look once whether they are in the shell.
vi.hoisted(() => Object.assign(globalThis, { isTauri: true }));

const well: About = { tray: true, problem: null, attached: false };
let about: About = well;
const told: string[] = [];

beforeEach(() => {
  prefs.set({ lang: "en" });
  about = well;
  told.length = 0;
  mockIPC((command) => {
    told.push(command);
    return command === "about" ? about : null;
  });
});
afterEach(() => {
  live.status = null;
  clearMocks();
});

const status = (state: Schemas["Status"]["state"]): Schemas["Status"] => ({ state }) as Schemas["Status"];

describe("the line of the shell", () => {
  it("is not there while all is well", async () => {
    live.status = status("running");
    render(ShellBar);
    await waitFor(() => expect(told).toContain("about"));
    expect(screen.queryByRole("status")).toBeNull();
    expect(document.body.classList.contains("barred")).toBe(false);
  });

  it("starts a service that was stopped", async () => {
    live.status = status("stopped");
    render(ShellBar);
    const start = await screen.findByRole("button", { name: "Start" });
    expect(document.body.classList.contains("barred")).toBe(true);
    await fireEvent.click(start);
    expect(told).toContain("start");
    expect((start as HTMLButtonElement).disabled).toBe(true);
  });

  it("says why the service did not start", async () => {
    about = { ...well, problem: "Port 30000 is taken by nginx (process 4)." };
    render(ShellBar);
    expect((await screen.findByRole("status")).textContent).toContain("Port 30000 is taken by nginx (process 4).");
  });

  it("says once that there is no tray", async () => {
    about = { ...well, tray: false };
    live.status = status("running");
    const first = render(ShellBar);
    await fireEvent.click(await screen.findByRole("button", { name: "Understood" }));
    expect(screen.queryByRole("status")).toBeNull();
    first.unmount();
    told.length = 0;
    render(ShellBar);
    await waitFor(() => expect(told).toContain("about"));
    expect(screen.queryByRole("status")).toBeNull();
  });

  it("asks again while the tray is being found out", async () => {
    about = { ...well, tray: null };
    render(ShellBar);
    await waitFor(() => expect(told).toContain("about"));
    about = { ...well, tray: false };
    expect(await screen.findByText(/no tray icons/)).toBeTruthy();
  });
});

it("a file for the person is written by the shell, and it is said where, or why not", async () => {
  mockIPC((command, args) => {
    told.push(`${command} ${JSON.stringify(args)}`);
    return "/home/me/Downloads/a.json";
  });
  await save("a.json", "{}", "application/json");
  expect(told).toEqual(['save {"name":"a.json","text":"{}"}']);
  expect(toasts.current?.text).toBe("Saved as /home/me/Downloads/a.json");
  mockIPC(() => Promise.reject(new Error("no space left")));
  await save("a.json", "{}", "application/json");
  expect(toasts.current?.text).toContain("no space left");
});

it("the window tells when it has drawn", async () => {
  expect(inShell).toBe(true);
  tellPainted();
  await waitFor(() => expect(told).toContain("painted"));
});
