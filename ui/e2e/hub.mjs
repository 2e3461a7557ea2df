// A model hub for tests: lists one file as the program knows it, or as another one, and gives the beginning of it.
import http from "node:http";

export const QWEN = { path: "Qwen3-0.6B-Q8_0.gguf", size: 639_446_688, oid: "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031" };

export async function startHub() {
  const asked = [];
  let file = QWEN;
  const server = http.createServer((request, response) => {
    asked.push(request.url);
    if (request.url.startsWith("/api/models/")) {
      response.writeHead(200, { "content-type": "application/json" });
      return response.end(JSON.stringify([{ path: file.path, size: file.size, lfs: { oid: file.oid, size: file.size } }]));
    }
    response.writeHead(200, { "content-type": "application/octet-stream", "content-length": file.size });
    response.write(Buffer.concat([Buffer.from("GGUF"), Buffer.alloc(8_000_000, 7)]));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, asked, become: (other) => (file = { ...QWEN, ...other }), stop };
}
