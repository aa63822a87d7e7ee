/** The client against a server that makes trouble: `node --test out/client.test.js`. */

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Client, SurefootError } from "./client.js";

type Fault = (request: IncomingMessage, response: ServerResponse) => void;

const problem = (status: number): Fault => (_, response) => {
  response.writeHead(status, { "Content-Type": "application/problem+json", "Retry-After": "0" });
  response.end(JSON.stringify({ type: "urn:surefoot:x", title: "x", status, detail: "x should be 1, but is 2" }));
};
const lost: Fault = (request) => request.socket.destroy();
const never: Fault = () => undefined;
const decided: Fault = (_, response) => {
  response.writeHead(201, { "Content-Type": "application/json" });
  response.end(JSON.stringify({ action: "red", propensity: 0.5 }));
};

/** Runs a server that does this with one request after the other, and gives what it was sent. */
async function against(faults: Fault[], work: (url: string) => Promise<void>): Promise<string[]> {
  const sent: string[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    sent.push(body);
    (faults.shift() ?? problem(500))(request, response);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
  return sent;
}

test("a request that is sent again is the same event", async () => {
  const sent = await against([problem(503), lost, never, problem(429), decided], async (url) => {
    const decision = await new Client(url, "shop", { timeout: 500 }).decide({ context: { x: 1 } });
    assert.equal(decision.action, "red");
  });
  assert.equal(sent.length, 5);
  assert.equal(new Set(sent).size, 1);
  assert.match(JSON.parse(sent[0] ?? "").event_id, /^[0-9a-f-]{36}$/);
});

test("what the caller did wrong is not sent again", async () => {
  const sent = await against([problem(422)], async (url) => {
    const refused = new Client(url, "shop").decide({ context: {} });
    await assert.rejects(refused, (error) => error instanceof SurefootError && error.problem.status === 422);
  });
  assert.equal(sent.length, 1);
});

test("patience ends", async () => {
  const busy = Array.from({ length: 50 }, () => problem(503));
  await against(busy, async (url) => {
    await assert.rejects(new Client(url, "shop", { patience: 300 }).status(), /503 x: x should be 1, but is 2/);
  });
});
