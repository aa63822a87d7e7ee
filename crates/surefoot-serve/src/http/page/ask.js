// Requests to the server that sent the page, with the key that was typed in, and to nobody else.

const KEY = "surefoot-key";

/** A request that the server has refused. */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const keepKey = (key) => sessionStorage.setItem(KEY, key);
export const forgetKey = () => sessionStorage.removeItem(KEY);

export const ask = async (path, options = {}) => {
  const key = sessionStorage.getItem(KEY);
  const headers = { ...(key ? { Authorization: `Bearer ${key}` } : {}), ...options.headers };
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Refused(response.status, problem.detail ?? `${response.status} ${response.statusText}`);
};

export const read = async (path) => (await ask(path)).json();

/** The path of a loop, or of a part of it. */
export const of = (loop, part = "") => `/v1/loops/${encodeURIComponent(loop)}${part}`;

let before = Promise.resolve();

/** Asks for what reads all logs of a loop. The server does one such thing at a time: the page asks for one after the other, and
 * again if somebody else was first. */
export const askAlone = (path, options = {}) => {
  const asked = before.then(async () => {
    for (let tries = 0; ; tries += 1) {
      try {
        return await (await ask(path, options)).json();
      } catch (error) {
        if (error.status !== 503 || tries === 30) throw error;
        await new Promise((again) => setTimeout(again, 1000));
      }
    }
  });
  before = asked.catch(() => null);
  return asked;
};
