// The page of a loop. It reads the same paths as everybody (/openapi.json), follows the loop's events, and holds no number of
// its own.

import { bars, overRounds, shown } from "./charts.js";

const $ = (id) => document.getElementById(id);
const KEY = "surefoot-key";
/** How often to ask where the loop stands, and for the newest decisions, in milliseconds. */
const [OFTEN, SELDOM] = [2000, 10000];
const NEWEST = 1000;

let loop = null;
let rules = null;
let before = null;

class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

const ask = async (path, options = {}) => {
  const key = sessionStorage.getItem(KEY);
  const headers = { ...(key ? { Authorization: `Bearer ${key}` } : {}), ...options.headers };
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Refused(response.status, problem.detail ?? `${response.status} ${response.statusText}`);
};
const read = async (path) => (await ask(path)).json();
const of = (part) => `/v1/loops/${encodeURIComponent(loop)}${part}`;

const text = (id, value) => { $(id).textContent = value; };
const item = (tag, content, attributes = {}) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(content);
  return node;
};
const rows = (table, head, body) => {
  const line = (cells, tag) => {
    const row = document.createElement("tr");
    row.append(...cells.map((cell) => (cell instanceof Node && cell.nodeName === "TD" ? cell
      : item(tag, cell, tag === "th" ? { scope: "col" } : {}))));
    return row;
  };
  const [top, rest] = [document.createElement("thead"), document.createElement("tbody")];
  top.append(line(head, "th"));
  rest.append(...body.map((cells) => line(cells, "td")));
  table.replaceChildren(top, rest);
};
const pairs = (list, entries) => list.replaceChildren(...entries.flatMap(([name, value]) => [item("dt", name), item("dd", value)]));
const short = (fingerprint) => (fingerprint ? fingerprint.slice(0, 12) : "the caller's own");
const when = (written) => new Date(written).toLocaleString();
const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

/** Why a round's policy runs or does not. */
const verdict = (round) => {
  const report = round.report;
  if (!report) return "not learned from yet";
  const name = `the policy learned from round ${round.round} (${short(report.learned)})`;
  if (!report.gate) {
    return report.promoted ? `promoted: the gate "${rules.gate}" lets every policy run that is learned`
      : `not promoted: the gate "${rules.gate}" had nothing to compare ${name} with`;
  }
  const width = rules.reward_range[1] - rules.reward_range[0];
  const gain = -report.gate.certified_risk_difference * width;
  return report.promoted ? `promoted: proven to bring at least ${shown(gain)} more than what ran`
    : `not promoted: it could not be proven to bring more than what runs; the proof reaches ${shown(gain)}, and the gate ` +
      `"${report.gate.gate}" needs more`;
};

const showStatus = (status) => {
  text("runs", status.mode === "live" ? short(status.policy) : `${status.mode} mode`);
  const goal = rules.round.records ?? rules.round.at_least;
  $("progress").max = goal;
  $("progress").value = Math.min(status.round_decisions, goal);
  text("progress-text", `${status.round_decisions.toLocaleString()} of ${goal.toLocaleString()}`);
  text("progress-of", `decisions of round ${status.round}` +
    (status.learning ? "; a round is being learned from" : status.waiting_rounds ? "; a round waits for its rewards" : ""));
  text("head", status.ledger_head);
  const now = performance.now();
  const rate = before ? (1000 * (status.decisions - before.decisions)) / (now - before.now) : null;
  before = { decisions: status.decisions, now };
  $("traffic").dataset.rate = rate === null ? "" : rate.toFixed(1);
  $("traffic").dataset.decisions = status.decisions;
  $("traffic").dataset.parked = status.parked;
  const trouble = status.failed ? `Learning failed and waits for an operator: ${status.failed}`
    : status.paused ? "An operator holds the policy that decides: what is learned is not deployed." : "";
  $("trouble").hidden = !trouble;
  text("trouble", trouble);
  if (status.could_take_over) {
    text("runs-since", `policy ${short(status.could_take_over)} could take over: it is proven to be better`);
  }
};

const showRounds = (rounds, status) => {
  const learned = rounds.filter((round) => round.report);
  const last = learned[learned.length - 1];
  const since = [...rounds].reverse().find((round, i, all) => i + 1 === all.length || all[i + 1].policy !== round.policy);
  if (since && !status.could_take_over) text("runs-since", `since round ${since.round}, ${when(since.opened_at)}`);
  overRounds($("rounds-chart"), learned.map(({ round, report }) => (
    { round, reward: report.mean_reward, proven: report.certified_reward, promoted: report.promoted })));
  rows($("rounds-table"), ["round", "decisions", "mean reward", "certified", "effective", "verdict"],
    [...learned].reverse().map((round) => [String(round.round), String(round.records) + (round.closed_by_hand ? ", closed by hand" : ""),
      shown(round.report.mean_reward), shown(round.report.certified_reward), shown(round.report.effective_records),
      item("td", verdict(round), { class: "wrap" })]));
  rows($("policies"), ["policy", "learned from", "certified", "", ""], [...learned].reverse().filter((round) => round.report.learned).map((round) => {
    const print = round.report.learned;
    const save = item("button", "download", { type: "button" });
    save.addEventListener("click", () => download(print, save));
    return [item("code", short(print), { title: print }), `round ${round.round}`, shown(round.report.certified_reward),
      print === status.policy ? "runs" : round.report.promoted ? "was promoted" : "", save];
  }));
  if (!last) {
    ["proven", "brings"].forEach((id) => text(id, "not yet"));
    text("proven-of", "the first round must be full, and its rewards in");
    text("verdict-text", "None yet.");
    text("words", "Nothing is proven yet.");
    return;
  }
  const report = last.report;
  const [low] = rules.reward_range;
  const proven = report.certified_reward ?? low;
  const nothing = proven <= low;
  text("proven", nothing ? "nothing yet" : `\u2265 ${shown(proven)}`);
  text("proven-of", `per decision, for the policy of round ${last.round}, with ${percent(1 - report.delta)} confidence`);
  text("brings", shown(report.mean_reward));
  text("brings-of", `per decision, in round ${last.round}, of ${report.records.toLocaleString()} decisions`);
  text("verdict-text", `Round ${last.round}: ${verdict(last)}.`);
  text("words", nothing
    ? `The records do not yet prove that policy ${short(report.learned)} brings more than the lowest reward, ${shown(low)}.`
    : `With ${percent(1 - report.delta)} confidence, at every round so far, the policy that was learned brings at least what its ` +
      `certificate says. The newest one, ${short(report.learned)}, brings at least ${shown(proven)} per decision; ` +
      `what ran in round ${last.round} brought ${shown(report.mean_reward)}.`);
};

const showDecisions = (decisions) => {
  if (decisions.length === 0) return;
  const newest = `of the newest ${decisions.length.toLocaleString()} decisions`;
  const counts = new Map(rules.actions.map((action) => [String(action), 0]));
  for (const { action } of decisions) counts.set(String(action), (counts.get(String(action)) ?? 0) + 1);
  const most = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 12);
  text("actions-of", newest + (counts.size > 12 ? `; 12 of ${counts.size} actions` : ""));
  bars($("actions-chart"), most.map(([name, n]) => [name, n, percent(n / decisions.length)]),
    `Shares of actions: ${most.map(([name, n]) => `${name} ${percent(n / decisions.length)}`).join(", ")}`);
  const edges = [0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1];
  const bins = edges.slice(1).map((to, i) => [`${edges[i]} to ${to}`,
    decisions.filter(({ propensity: p }) => p > edges[i] && p <= to).length]);
  const least = Math.min(...decisions.map((decision) => decision.propensity));
  text("propensities-of", `${newest}; the smallest is ${shown(least)}`);
  bars($("propensities-chart"), bins.map(([name, n]) => [name, n, percent(n / decisions.length)]),
    `Propensities: ${bins.map(([name, n]) => `${name}: ${percent(n / decisions.length)}`).join(", ")}`);
};

/** The numbers of one loop in the text format of Prometheus. */
const counters = (metrics) => {
  const found = new Map();
  for (const line of metrics.split("\n")) {
    const match = /^surefoot_(\w+)\{([^}]*)\} (\S+)$/.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries([...match[2].matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((m) => [m[1], m[2]]));
    if (labels.loop === loop) found.set(match[1] + (labels.outcome ?? labels.reason ?? labels.le ? ` ${labels.outcome ?? labels.reason ?? labels.le}` : ""), +match[3]);
  }
  return found;
};

const showTraffic = (metrics) => {
  const all = counters(metrics);
  const requests = all.get("decision_duration_seconds_count") ?? 0;
  const within = (share) => {
    const buckets = [...all].filter(([name]) => name.startsWith("decision_duration_seconds_bucket "));
    const found = buckets.find(([, n]) => n >= share * requests);
    return found ? `within ${1000 * +found[0].split(" ")[1]} ms` : "more than all buckets";
  };
  const { decisions, rate, parked } = $("traffic").dataset;
  pairs($("traffic"), [
    ["decisions", `${(+decisions).toLocaleString()}${rate ? `, ${rate} a second now` : ""}`],
    ["rewards joined", (all.get("rewards_total joined") ?? 0).toLocaleString()],
    ["repeated", (all.get("rewards_total duplicate") ?? 0).toLocaleString()],
    ["late, never counted", (all.get("rewards_total late") ?? 0).toLocaleString()],
    ["before their decision", parked],
    ["refused: overload", (all.get("refused_total overload") ?? 0).toLocaleString()],
    ["refused: store", (all.get("refused_total store") ?? 0).toLocaleString()],
    ["half of the requests", requests ? within(0.5) : "no request over HTTP yet"],
    ["99 % of the requests", requests ? within(0.99) : "no request over HTTP yet"],
  ]);
};

const showRules = () => {
  const round = rules.round.records ? `${rules.round.records.toLocaleString()} decisions`
    : `${rules.round.every}, at least ${rules.round.at_least} decisions`;
  pairs($("rules"), [["mode", rules.mode], ["actions", rules.most_candidates ? `candidates of each decision, at most ${rules.most_candidates}`
    : rules.actions.slice(0, 20).join(", ") + (rules.actions.length > 20 ? ", ..." : "")],
    ["reward", `from ${rules.reward_range[0]} to ${rules.reward_range[1]}, ${rules.aggregation} within ${rules.window_seconds} s, else ${rules.default_reward}`],
    ["a round ends after", round], ["gate", rules.gate], ["delta", String(rules.delta)]]);
  const assumed = ["every decision of a round counts, with the probability it was drawn with",
    `a record's reward is the ${rules.aggregation} one within ${rules.window_seconds} s of its decision, else ${rules.default_reward}; later ones never count`,
    "whether and when a reward comes depends on nothing but the context and the action",
    "visitors come from one distribution; a certificate says nothing about a world that has changed",
    "nobody closed a round because of its rewards"];
  $("assumes").replaceChildren(...assumed.map((line) => item("li", line)));
};

const showActs = (acts) => {
  if (acts.length === 0) {
    text("acts", "Nothing.");
    return;
  }
  const list = document.createElement("ul");
  list.append(...acts.slice(-20).reverse().map(({ at, by, act }) => item("li", `${when(at)}, ${by}: ${act}`)));
  $("acts").replaceChildren(list);
};

const download = async (print, button) => {
  button.disabled = true;
  try {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await (await ask(of(`/policies/${print}`))).blob());
    link.download = `${print}.safetensors`;
    link.click();
    URL.revokeObjectURL(link.href);
  } catch (error) {
    failed(error);
  } finally {
    button.disabled = false;
  }
};

const lint = async () => {
  $("lint-button").disabled = true;
  text("lint", "reading the logs");
  try {
    const report = await read(of("/lint"));
    const findings = report.findings ?? [];
    if (findings.length === 0) text("lint", "Nothing was found.");
    else {
      const list = document.createElement("ul");
      list.append(...findings.map((f) => item("li", `${f.severity ?? f.level}: ${f.message ?? f.what ?? JSON.stringify(f)}`)));
      $("lint").replaceChildren(list);
    }
  } catch (error) {
    text("lint", error.message);
  } finally {
    $("lint-button").disabled = false;
  }
};

const failed = (error) => {
  if (error.status === 401 || error.status === 403) {
    sessionStorage.removeItem(KEY);
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
  const [status, rounds, acts] = await Promise.all([read(of("")), read(of("/rounds")), read(of("/acts"))]);
  showStatus(status);
  showRounds(rounds, status);
  showActs(acts);
};

const newest = async () => {
  const { decisions } = await read(of(""));
  showDecisions(await read(of(`/decisions?from=${Math.max(decisions - NEWEST, 0)}&limit=${NEWEST}`)));
  showTraffic(await (await ask("/metrics")).text());
};

/** Follows the events of the loop. Headers cannot be sent with EventSource, so the stream is read here. */
const follow = async () => {
  for (;;) {
    try {
      const response = await ask(of("/events"), { headers: { Accept: "text/event-stream" } });
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
    rules = await read(of("/rules"));
    document.title = `${loop} \u2013 Surefoot`;
    $("main").hidden = false;
    showRules();
    await whole();
    await newest();
  } catch (error) {
    failed(error);
    return;
  }
  follow();
  setInterval(() => read(of("")).then(showStatus).catch(failed), OFTEN);
  setInterval(() => newest().catch(failed), SELDOM);
};

$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, $("key-text").value);
  $("key-text").value = "";
  start();
});
$("lint-button").addEventListener("click", lint);
start();
