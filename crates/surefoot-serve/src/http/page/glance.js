// What runs, what is proven, and why the last challenger was promoted or not.

import { overRounds } from "./charts.js";
import { $, item, list, pairs, percent, rows, short, shown, text, when } from "./nodes.js";

/** Where policies come from, by fingerprint. */
const origins = new Map();

/** The name of a policy, for people. */
export const named = (print) => (print ? origins.get(print) ?? `policy ${short(print)}` : "the caller's own policy");

/** What every certificate of a loop takes on trust. Numbers of the core speak of costs, and the page of rewards. */
const assumed = (rules, certificate) => {
  const [low, high] = rules.reward_range;
  const proofs = (certificate?.assumptions ?? []).map((line) => line
    .replace("costs are in [-1, 0]", `rewards are in [${low}, ${high}]`).replaceAll("cost", "reward"));
  return [...proofs,
    "every decision of a round counts, with the probability it was drawn with",
    `a record's reward is the ${rules.aggregation} one within ${rules.window_seconds} s of its decision, else ${rules.default_reward}; later ones never count`,
    "whether and when a reward comes depends on nothing but the context and the action",
    "nobody closed a round because of its rewards"];
};

export const showRules = (name, rules) => {
  const round = rules.round.records ? `${rules.round.records.toLocaleString()} decisions`
    : `${rules.round.every}, at least ${rules.round.at_least} decisions`;
  origins.set(rules.first_policy, "the first policy");
  const [low, high] = rules.reward_range;
  const decides = { live: "decides", shadow: "decides in the shadow of another policy", apprentice: "watches the caller's own policy decide" };
  text("about", `The loop ${name} ${decides[rules.mode] ?? rules.mode} between ${rules.actions.length} actions, gets a reward from ` +
    `${low} to ${high} per decision, and learns after every ${round}.`);
  pairs($("rules"), [["mode", rules.mode], ["actions", rules.actions.slice(0, 20).join(", ") + (rules.actions.length > 20 ? ", ..." : "")],
    ["reward", `from ${low} to ${high}, ${rules.aggregation} within ${rules.window_seconds} s, else ${rules.default_reward}`],
    ["a round ends after", round], ["gate", rules.gate], ["delta", String(rules.delta)]]);
};

export const showStatus = (status, rules) => {
  text("runs", status.mode === "live" ? named(status.policy) : `${status.mode} mode`);
  const goal = rules.round.records ?? rules.round.at_least;
  $("progress").max = goal;
  $("progress").value = Math.min(status.round_decisions, goal);
  text("progress-text", `${status.round_decisions.toLocaleString()} of ${goal.toLocaleString()}`);
  text("progress-of", `decisions of round ${status.round}` +
    (status.learning ? "; a round is being learned from" : status.waiting_rounds ? "; a round waits for its rewards" : ""));
  text("head", status.ledger_head);
  const trouble = status.failed ? `Learning failed and waits for an operator: ${status.failed}`
    : status.paused ? "An operator holds the policy that decides: what is learned is not deployed." : "";
  $("trouble").hidden = !trouble;
  text("trouble", trouble);
  if (status.could_take_over) {
    text("runs-since", `${named(status.could_take_over)} could take over: it is proven to be better`);
  }
};

/** Why a round's policy runs or does not. Rounds from before this version have no words. */
const verdict = ({ report }) => report.verdict ?? (report.promoted ? "promoted" : "not promoted");
const mark = ({ report }) => (report.promoted ? "\u2714" : "\u2718");

const GATES = {
  always: "The gate lets every learned policy run, proven or not.",
  improvement: "The gate lets a challenger run only if it is proven to bring more than the policy that runs.",
  "non-inferiority": "The gate lets a challenger run only if it is proven to bring at most a margin less than the policy that runs.",
  "certified-risk": "The gate lets a challenger run only if more is proven of it than of the policy that runs.",
};

const showVerdicts = (learned, rules) => {
  text("gate", GATES[rules.gate.split(":")[0]] ?? `The gate is ${rules.gate}.`);
  rows($("rounds-table"), ["round", "verdict of the gate", "mean reward", "certified", "decisions", "effective"],
    [...learned].reverse().map((round) => [String(round.round), item("td", `${mark(round)} ${verdict(round)}`, { class: "wrap" }),
      shown(round.report.mean_reward), shown(round.report.certified_reward),
      String(round.records) + (round.closed_by_hand ? ", closed by hand" : ""), shown(round.report.effective_records)]));
};

const nothingYet = () => {
  ["proven", "brings"].forEach((id) => text(id, "not yet"));
  text("proven-of", "the first round must be full, and its rewards in");
  text("brings-of", "");
  text("verdict-text", "None yet.");
  text("words", "Nothing is proven yet.");
};

export const showRounds = (rounds, status, rules, certificates) => {
  const learned = rounds.filter((round) => round.report);
  learned.forEach(({ round, report }) => report.learned && origins.set(report.learned, `learned from round ${round}`));
  showStatus(status, rules);
  const since = [...rounds].reverse().find((round, i, all) => i + 1 === all.length || all[i + 1].policy !== round.policy);
  if (since && !status.could_take_over) {
    text("runs-since", `${status.policy ? `policy ${short(status.policy)}, ` : ""}since round ${since.round}, ${when(since.opened_at)}`);
  }
  const newest = certificates.filter(({ kind }) => kind !== "gate").at(-1);
  $("assumes").replaceChildren(...assumed(rules, newest?.certificate).map((line) => item("li", line)));
  overRounds($("rounds-chart"), learned.map(({ round, report }) => (
    { round, reward: report.mean_reward, proven: report.certified_reward, promoted: report.promoted })));
  showVerdicts(learned, rules);
  const last = learned.at(-1);
  if (!last) return nothingYet();
  const { report } = last;
  const [low] = rules.reward_range;
  const proven = report.certified_reward ?? low;
  const nothing = proven <= low;
  const confidence = percent(1 - report.delta);
  const now = report.running === status.policy ? "the policy that runs" : "the policy that runs from the next round on";
  text("proven", nothing ? "nothing yet" : `\u2265 ${shown(proven)}`);
  text("proven-of", `per decision, of ${now}, with ${confidence} confidence`);
  text("brings", shown(report.mean_reward));
  text("brings-of", `per decision, in round ${last.round}` +
    (learned.length > 1 ? `; round ${learned[0].round} brought ${shown(learned[0].report.mean_reward)}` : ""));
  $("verdict-text").replaceChildren(item("strong", `${mark(last)} Round ${last.round}: ${verdict(last)}.`));
  const who = named(report.running);
  const policy = who.startsWith("learned") ? `the policy ${who}` : who;
  text("words", nothing
    ? `The records do not yet prove that ${policy} brings more than the lowest reward, ${shown(low)}.`
    : `With ${confidence} confidence, at every round so far, ${policy} brings at least ${shown(proven)} per decision; ` +
      `what ran in round ${last.round} brought ${shown(report.mean_reward)}.`);
};

export const showActs = (acts) => {
  if (acts.length === 0) text("acts", "Nothing.");
  else $("acts").replaceChildren(list(acts.slice(-20).reverse().map(({ at, by, act }) => `${when(at)}, ${by}: ${act}`)));
};
