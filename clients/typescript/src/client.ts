/**
 * A small client of `surefoot serve`, by `fetch`: for browsers and Node.js, without dependencies. Copy it, or use the types alone.
 *
 * Every decision has an id that is made here, so a request that is sent again is the same event and is decided once.
 */

import type { components } from "./api.js";

type Schemas = components["schemas"];
export type Action = string | number;
export type Problem = Schemas["Problem"];
export type Status = Schemas["Status"];
export type Round = Schemas["RoundAnswer"];
export type Reward = Schemas["RewardRequest"];
export type Outcome = Schemas["RewardAnswer"]["outcome"];
export type Decision = Omit<Schemas["DecisionAnswer"], "action"> & { action: Action };
export type DecisionRequest = Omit<Schemas["DecisionRequest"], "eligible"> & { eligible?: Action[] };

export interface Settings {
  /** The caller's key. */
  key?: string;
  /** How many milliseconds an attempt may take. */
  timeout?: number;
  /** For how many milliseconds to try again if the connection is lost or the server cannot do it now. */
  patience?: number;
}

/** The server refused, with what is allowed and what came. */
export class SurefootError extends Error {
  constructor(readonly problem: Problem) {
    super(`${problem.status} ${problem.title}: ${problem.detail}`);
    this.name = "SurefootError";
  }
}

/** Statuses of something that may be over soon; 502 and 504 are those of a proxy. */
const PASSING = [408, 429, 502, 503, 504];
const FIRST_WAIT = 100;
const LONGEST_WAIT = 5000;

export class Client {
  readonly #base: string;
  readonly #settings: Required<Omit<Settings, "key">> & { key?: string };

  constructor(url: string, loop: string, settings: Settings = {}) {
    this.#base = `${url.replace(/\/+$/, "")}/v1/loops/${encodeURIComponent(loop)}`;
    this.#settings = { timeout: 10_000, patience: 30_000, ...settings };
  }

  /** Decides on an event. The same `event_id` always gets the same decision. */
  decide(request: DecisionRequest): Promise<Decision> {
    return this.#ask<Decision>("POST", "/decisions", { ...request, event_id: request.event_id ?? crypto.randomUUID() });
  }

  /** Sends a reward. Without `reward_id` it is the only one of its event. When this resolves, it is on the server's disk. */
  async reward(reward: Reward): Promise<Outcome> {
    return (await this.#ask<Schemas["RewardAnswer"]>("POST", "/rewards", reward)).outcome;
  }

  /** Where the loop stands. */
  status(): Promise<Status> {
    return this.#ask<Status>("GET", "");
  }

  /** The rounds with what was learned from them. */
  rounds(): Promise<Round[]> {
    return this.#ask<Round[]>("GET", "/rounds");
  }

  /** Sends a request that the server does once, until it is answered. */
  async #ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    const until = Date.now() + this.#settings.patience;
    for (let failed = 0; ; failed++) {
      let failure: unknown;
      let asked = 0;
      try {
        const answer = await this.#fetch(method, path, body);
        if (answer.ok) return (await answer.json()) as T;
        failure = await refusal(answer);
        if (!PASSING.includes(answer.status)) throw failure;
        asked = 1000 * (Number(answer.headers.get("retry-after")) || 0);
      } catch (error) {
        if (error === failure) throw error;
        failure = error;
      }
      // Waits double, and half of each is random, so that callers that failed together do not come back together.
      const wait = asked + Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** failed) * (0.5 + 0.5 * Math.random());
      if (Date.now() + wait > until) throw failure;
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  #fetch(method: string, path: string, body: unknown): Promise<Response> {
    const headers: Record<string, string> = {};
    if (this.#settings.key !== undefined) headers["Authorization"] = `Bearer ${this.#settings.key}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const signal = AbortSignal.timeout(this.#settings.timeout);
    return fetch(this.#base + path, { method, headers, signal, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  }
}

/** The error of an answer that is not a success. */
async function refusal(answer: Response): Promise<Error> {
  if (answer.headers.get("content-type")?.startsWith("application/problem+json")) {
    return new SurefootError((await answer.json()) as Problem);
  }
  return new Error(`the answer should be one of Surefoot, but is ${answer.status}`);
}
