// The page of a loop. It reads the same paths as everybody (/openapi.json), follows the loop's events, and holds no number of
// its own.

import { ask, forgetKey, keepKey, of, read } from "./ask.js";
import { lint, showActivity, showTraffic } from "./evidence.js";
import { showActs, showRounds, showRules, showStatus } from "./glance.js";
import { $, item, text } from "./nodes.js";
import { evaluateFiles, showHistory, showPolicies } from "./policies.js";

/** How often to ask where the loop stands, and for the newest decisions, in milliseconds. */
const [OFTEN, SELDOM] = [2000, 10000];
/** Logs of so many decisions are checked without being asked. */
const SMALL = 50000;

let loop = null;
let rules = null;
/** The newest round that was learned from. */
let last = null;

const failed = (error) => {
  if (error.status === 401 || error.status === 403) {
    forgetKey();
    $("main").hidden = true;
    $("key").hidden = false;
    text("key-why", error.message);
    $("key-text").focus();
    return;
  }
  $("live").classList.remove("on");
  text("live", "not connected");
  $("trouble").hidden = false;
  text("trouble", error.message);
};

const whole = async () => {
  const [status, rounds, acts] = await Promise.all([read(of(loop)), read(of(loop, "/rounds")), read(of(loop, "/acts"))]);
  last = rounds.findLast(({ report }) => report) ?? null;
  const certificates = last ? await read(of(loop, `/certificates?from_round=${last.round}`)) : [];
  showRounds(rounds, status, rules, certificates);
  showPolicies(loop, rounds, status);
  showActs(acts);
};

const newest = async () => {
  const [status, activity, metrics] = await Promise.all([read(of(loop)), read(of(loop, "/activity")), ask("/metrics")]);
  showActivity(activity, last);
  showTraffic(await metrics.text(), loop, status);
  return status;
};

/** Follows the events of the loop. Headers cannot be sent with EventSource, so the stream is read here. */
const follow = async () => {
  for (;;) {
    try {
      const response = await ask(of(loop, "/events"), { headers: { Accept: "text/event-stream" } });
      $("live").classList.add("on");
      text("live", "live");
      await whole();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { done, value } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        if (lines.some((line) => line.startsWith("data:"))) await whole();
      }
    } catch (error) {
      failed(error);
      if (!$("key").hidden) return;
    }
    await new Promise((again) => setTimeout(again, OFTEN));
  }
};

const start = async () => {
  $("key").hidden = true;
  try {
    const loops = await read("/v1/loops");
    const asked = decodeURIComponent((/^\/loops\/([^/]+)$/.exec(location.pathname) ?? [])[1] ?? "");
    loop = asked || loops[0]?.name;
    $("loops").replaceChildren(...loops.map(({ name }) => item("a", name,
      { href: `/loops/${encodeURIComponent(name)}`, ...(name === loop ? { "aria-current": "page" } : {}) })));
    if (!loop) throw new Error("This server has no loop.");
    rules = await read(of(loop, "/rules"));
    document.title = `${loop} \u2013 Surefoot`;
    $("main").hidden = false;
    showRules(loop, rules);
    await whole();
    const { decisions } = await newest();
    await showHistory(loop);
    if (last && decisions <= SMALL) lint(loop);
  } catch (error) {
    failed(error);
    return;
  }
  follow();
  setInterval(() => read(of(loop)).then((status) => showStatus(status, rules)).catch(failed), OFTEN);
  setInterval(() => newest().catch(failed), SELDOM);
};

$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  keepKey($("key-text").value);
  $("key-text").value = "";
  start();
});
$("lint-button").addEventListener("click", () => lint(loop));
$("policy-file").addEventListener("change", async ({ target }) => {
  if (target.files.length) await evaluateFiles(loop, target.files, $("over").value);
  // The same file can be chosen again.
  target.value = "";
});
start();
