// A model hub for tests: lists one file with its checksum and gives it in small pieces, from wherever it is asked.
import { createHash } from "node:crypto";
import http from "node:http";

export async function startHub({ file = "Qwen3-0.6B-Q8_0.gguf", bytes = Buffer.concat([Buffer.from("GGUF"), Buffer.alloc(6_000_000, 7)]), pause = 25 } = {}) {
  const oid = createHash("sha256").update(bytes).digest("hex");
  const asked = [];
  const server = http.createServer(async (request, response) => {
    asked.push(request.url);
    if (request.url.startsWith("/api/models/")) {
      response.writeHead(200, { "content-type": "application/json" });
      return response.end(JSON.stringify([{ path: file, size: bytes.length, lfs: { oid, size: bytes.length } }]));
    }
    const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? "")?.[1] ?? 0);
    const head = { "content-type": "application/octet-stream", "content-length": bytes.length - from };
    response.writeHead(from > 0 ? 206 : 200, from > 0 ? { ...head, "content-range": `bytes ${from}-${bytes.length - 1}/${bytes.length}` } : head);
    for (let at = from; at < bytes.length && !response.destroyed; at += 60_000) {
      response.write(bytes.subarray(at, at + 60_000));
      await new Promise((done) => setTimeout(done, pause));
    }
    response.end();
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${server.address().port}`, asked, stop: () => { server.closeAllConnections(); server.close(); } };
}
