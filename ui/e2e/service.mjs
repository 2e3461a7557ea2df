// The real service in a home of its own, with the built pages beside it, for the length of a test run.
import { spawn } from "node:child_process";
import { cp, link, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import net from "node:net";
import os from "node:os";
import path from "node:path";

const freePort = () =>
  new Promise((done) => {
    const probe = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => done(port));
    });
  });

export async function startService(binary) {
  const dir = await mkdtemp(path.join(os.tmpdir(), "metaclaw-ui-"));
  const bin = path.join(dir, "bin");
  await mkdir(bin);
  const program = path.join(bin, "metaclaw");
  await link(binary, program).catch(() => cp(binary, program));
  await cp(new URL("../dist/", import.meta.url).pathname, path.join(bin, "ui"), { recursive: true });
  const home = path.join(dir, "home");
  const [port, uiPort] = [await freePort(), await freePort()];
  const child = spawn(program, ["start", "--port", String(port), "--ui-port", String(uiPort)], { env: { ...process.env, METACLAW_HOME: home }, stdio: "ignore" });
  // A run that is broken off leaves nothing behind.
  for (const [signal, code] of [["SIGINT", 130], ["SIGTERM", 143]]) {
    process.once(signal, () => {
      child.kill("SIGKILL");
      process.exit(code);
    });
  }
  const ui = `http://127.0.0.1:${uiPort}`;
  let token = "";
  for (let tries = 0; ; tries++) {
    token = await readFile(path.join(home, "control.token"), "utf8").catch(() => "");
    const up = token !== "" && (await fetch(`${ui}/api/v1/status`, { headers: { authorization: `Bearer ${token}` } }).then((r) => r.ok, () => false));
    if (up) break;
    if (tries > 200) throw new Error("the service did not start");
    await new Promise((done) => setTimeout(done, 50));
  }
  const api = async (method, route, body) => {
    const response = await fetch(`${ui}/api/v1${route}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const value = await response.json();
    if (!response.ok) throw new Error(`${method} ${route}: ${JSON.stringify(value)}`);
    return value;
  };
  return {
    ui,
    home,
    token,
    agents: `http://127.0.0.1:${port}/v1`,
    api,
    currentToken: () => readFile(path.join(home, "control.token"), "utf8"),
    async stop() {
      const ended = new Promise((done) => child.once("exit", done));
      child.kill("SIGTERM");
      await ended;
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Says something through the agents' port, as an agent would. */
export async function say(service, key, session, messages, agent = "openclaw", headers = {}) {
  const response = await fetch(`${service.agents}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${key}`, "user-agent": agent === "openclaw" ? "OpenClaw/2026.11" : "python-openai/2", "x-session-id": session, "x-turn-type": "main", ...headers },
    body: JSON.stringify({ model: "any", stream: true, stream_options: { include_usage: true }, messages }),
  });
  const text = await response.text();
  return text
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice(6)).choices?.[0]?.delta?.content ?? "")
    .join("");
}
