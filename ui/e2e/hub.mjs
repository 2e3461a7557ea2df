// A model hub for tests: lists one file with its checksum and gives half of it, the rest when it is let go.
import { createHash } from "node:crypto";
import http from "node:http";

export async function startHub({ file = "Qwen3-0.6B-Q8_0.gguf", bytes = Buffer.concat([Buffer.from("GGUF"), Buffer.alloc(2_000_000, 7)]) } = {}) {
  const oid = createHash("sha256").update(bytes).digest("hex");
  const asked = [];
  let letGo;
  const free = new Promise((done) => (letGo = done));
  const server = http.createServer(async (request, response) => {
    asked.push(request.url);
    if (request.url.startsWith("/api/models/")) {
      response.writeHead(200, { "content-type": "application/json" });
      return response.end(JSON.stringify([{ path: file, size: bytes.length, lfs: { oid, size: bytes.length } }]));
    }
    const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? "")?.[1] ?? 0);
    const head = { "content-type": "application/octet-stream", "content-length": bytes.length - from };
    response.writeHead(from > 0 ? 206 : 200, from > 0 ? { ...head, "content-range": `bytes ${from}-${bytes.length - 1}/${bytes.length}` } : head);
    const half = bytes.length >> 1;
    if (from < half) response.write(bytes.subarray(from, half));
    await free;
    response.end(bytes.subarray(Math.max(from, half)));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, asked, letGo, stop };
}
