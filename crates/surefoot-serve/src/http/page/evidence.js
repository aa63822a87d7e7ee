// What the newest decisions and the counters say, and whether the logs are sound.

import { askAlone, of } from "./ask.js";
import { bars, overTime } from "./charts.js";
import { $, item, list, pairs, percent, shown, text } from "./nodes.js";

export const showActivity = (activity, last) => {
  const { decisions: n, stretch_seconds: length, stretches } = activity;
  if (n === 0) return;
  const newest = `of the newest ${n.toLocaleString()} decisions`;
  const points = (value) => stretches.map((stretch) => ({ at: new Date(stretch.from), value: value(stretch), solid: stretch.final }));
  overTime($("reward-chart"), points((stretch) => stretch.mean_reward), "mean reward per decision");
  text("reward-of", `${newest}, in stretches of ${length} s; dashed where rewards may still come`);
  // The stretches at both ends are not whole.
  const whole = stretches.slice(1, -1);
  const rate = whole.length ? whole.reduce((sum, { decisions }) => sum + decisions, 0) / whole.length / length : null;
  overTime($("rate-chart"), points((stretch) => stretch.decisions / length).slice(1, -1).map((p) => ({ ...p, solid: true })), "decisions per second");
  text("rate-of", rate === null ? "" : `${shown(rate)} decisions per second on average`);

  const most = [...activity.actions].sort((a, b) => b.decisions - a.decisions).slice(0, 12);
  text("actions-of", newest + (activity.actions.length > 12 ? `; 12 of ${activity.actions.length} actions` : ""));
  bars($("actions-chart"), most.map(({ action, decisions }) => [String(action), decisions, percent(decisions / n)]), "Shares of actions");
  const effective = last?.report.effective_records;
  text("propensities-of", `${newest}; the smallest is ${shown(activity.smallest_propensity)}`);
  text("effective", effective === null || effective === undefined ? ""
    : `For the challenger of round ${last.round}, its ${last.records.toLocaleString()} decisions are worth ${shown(effective)} ` +
      `of its own (effective sample size, ${percent(effective / last.records)}).`);
  bars($("propensities-chart"), activity.propensities.map(({ above, up_to, decisions }) =>
    [`${above} to ${up_to}`, decisions, percent(decisions / n)]), "Propensities");
};

/** The numbers of one loop in the text format of Prometheus. */
const counters = (metrics, loop) => {
  const found = new Map();
  for (const line of metrics.split("\n")) {
    const match = /^surefoot_(\w+)\{([^}]*)\} (\S+)$/.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries([...match[2].matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((m) => [m[1], m[2]]));
    const label = labels.outcome ?? labels.reason ?? labels.le;
    if (labels.loop === loop) found.set(match[1] + (label ? ` ${label}` : ""), +match[3]);
  }
  return found;
};

const DURATIONS = "decision_duration_seconds_bucket ";

export const showTraffic = (metrics, loop, status) => {
  const all = counters(metrics, loop);
  const count = (name) => (all.get(name) ?? 0).toLocaleString();
  pairs($("traffic"), [
    ["decisions", status.decisions.toLocaleString()],
    ["rewards joined", count("rewards_total joined")],
    ["repeated, counted once", count("rewards_total duplicate")],
    ["late, never counted", count("rewards_total late")],
    ["before their decision", status.parked.toLocaleString()],
    ["refused: overload", count("refused_total overload")],
    ["refused: store", count("refused_total store")],
  ]);
  const requests = all.get("decision_duration_seconds_count") ?? 0;
  if (requests === 0) {
    text("latency-of", "No decision was asked for since the server started.");
    return;
  }
  // The buckets are sums over all shorter durations.
  const ends = [...all].filter(([name]) => name.startsWith(DURATIONS)).map(([name, n]) => [name.slice(DURATIONS.length), n]);
  const within = (share) => {
    const [end] = ends.find(([, n]) => n >= share * requests) ?? ["+Inf"];
    return end === "+Inf" ? "in more than 1 s" : `within ${1000 * end} ms`;
  };
  text("latency-of", `${requests.toLocaleString()} requests since the start: half were answered ${within(0.5)}, 99 % ${within(0.99)}`);
  const bins = ends.map(([end, n], i) => [end === "+Inf" ? "more" : `up to ${1000 * end} ms`, n - (i ? ends[i - 1][1] : 0)]);
  bars($("latency-chart"), bins.map(([name, n]) => [name, n, percent(n / requests)]), "Time to answer requests for decisions");
};

const SEVERITIES = { error: "\u2718 error", warning: "\u26a0 warning", note: "\u2139 note" };

/** Lint findings, with drift said first. */
export const lint = async (loop) => {
  $("lint-button").disabled = true;
  text("lint", "reading the logs");
  try {
    const report = await askAlone(of(loop, "/lint"));
    const drift = report.findings.filter(({ check }) => check === "drift");
    const others = report.findings.filter(({ check }) => check !== "drift");
    const told = (f) => {
      const line = item("li", item("strong", `${SEVERITIES[f.severity] ?? f.severity}, ${f.check}: `));
      line.append(f.message, ...(f.hint ? [` (${f.hint})`] : []));
      return line;
    };
    text("drift", drift.length ? "" : "No drift of contexts was found between rounds.");
    if (drift.length) $("drift").append(list(drift.map(told)));
    text("lint", `${report.errors} errors and ${report.warnings} warnings in ${report.summary.records.toLocaleString()} records.`);
    if (others.length) $("lint").append(list(others.map(told)));
  } catch (error) {
    text("lint", error.message);
  } finally {
    $("lint-button").disabled = false;
  }
};
