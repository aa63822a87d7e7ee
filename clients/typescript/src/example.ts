/** Decides on an event and rewards it: `node out/example.js http://127.0.0.1:8080 shop`. `SUREFOOT_KEY` has the key, if any. */

import { Client, SurefootError } from "./client.js";

const [url = "http://127.0.0.1:8080", loop = "shop"] = process.argv.slice(2);
const key = process.env["SUREFOOT_KEY"];
const client = new Client(url, loop, key === undefined ? {} : { key });

const decision = await client.decide({ context: { x: 0.5, device: "phone" } });
console.log(`${decision.event_id}: ${decision.action}, chosen with probability ${decision.propensity}`);
console.log(`its reward is ${await client.reward({ event_id: decision.event_id, reward: 1 })}`);

const status = await client.status();
console.log(`round ${status.round} of ${status.name} has ${status.round_decisions} decisions`);

try {
  await client.decide({ context: {}, eligible: ["no such action"] });
} catch (error) {
  if (!(error instanceof SurefootError)) throw error;
  console.log(`refused: ${error.problem.detail}`);
}
