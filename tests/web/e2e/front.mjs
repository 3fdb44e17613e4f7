// @ts-check
/**
 * Stands before a gateway and passes everything on unread, but one path, which it answers itself: so a test can put a
 * script beside the page under the page's own content-security policy.
 */

import { createServer, request as ask } from "node:http";
import { connect } from "node:net";

/**
 * @param {string} address of the gateway
 * @param {string} path
 * @param {string} script
 * @returns {Promise<{address: string, close: () => Promise<void>}>}
 */
export async function front(address, path, script) {
  const { hostname, port } = new URL(address);
  /** @type {Set<import("node:stream").Duplex>} */
  const sockets = new Set();
  const server = createServer((request, response) => {
    if (request.url === path) {
      response.setHeader("Content-Type", "text/javascript");
      response.end(script);
      return;
    }
    const { method, url, headers } = request;
    const onward = ask({ hostname, port, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", () => response.destroy());
    request.pipe(onward);
  });
  server.on("upgrade", (request, peer, head) => {
    const onward = connect(Number(port), hostname, () => {
      const lines = [`GET ${request.url} HTTP/1.1`];
      for (let i = 0; i < request.rawHeaders.length; i += 2)
        lines.push(`${request.rawHeaders[i]}: ${request.rawHeaders[i + 1]}`);
      onward.write(`${lines.join("\r\n")}\r\n\r\n`);
      onward.write(head);
      onward.pipe(peer).pipe(onward);
    });
    for (const [one, other] of [
      [onward, peer],
      [peer, onward],
    ]) {
      sockets.add(/** @type {import("node:stream").Duplex} */ (one));
      one?.on("error", () => other?.destroy());
      one?.on("close", () => other?.destroy());
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
  const own = server.address();
  return {
    address: `http://127.0.0.1:${typeof own === "object" ? own?.port : own}/`,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
