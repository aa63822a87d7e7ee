// The policies of a loop: download, and evaluation on records that did not choose them.

import { ask, askAlone, of, read } from "./ask.js";
import { named } from "./glance.js";
import { $, item, list, rows, short, shown, text } from "./nodes.js";

const OCTETS = { "Content-Type": "application/octet-stream" };

const told = (result, where) => {
  const [policy] = result.policies;
  const best = policy.estimates.find(({ name }) => name === policy.recommended);
  const { lower, upper } = policy.anytime;
  const lines = [
    `${policy.certified ? "Proven" : "Not proven, see below"}: from ${shown(lower)} to ${shown(upper)} per decision, ` +
      `with ${(100 * result.confidence).toFixed(0)} % confidence`,
    best ? `Estimated: ${shown(best.value)} by ${best.name}, with a standard error of ${shown(best.standard_error)}`
      : `No estimate is recommended: ${policy.reason}`,
    `${result.records.toLocaleString()} decisions ${where}, worth ${shown(policy.weights.effective)} of its own (effective sample size)`,
    ...policy.warnings.map((warning) => `Warning: ${warning}`),
  ];
  $("evaluation").replaceChildren(list(lines),
    item("p", "The interval holds for one policy. Do not choose the best of many by it: bring that one as a challenger.", { class: "note" }));
};

const evaluate = async (loop, title, query, where, body, headers = {}) => {
  text("evaluation-of", `${title}: reading the logs`);
  $("evaluation").replaceChildren();
  try {
    told(await askAlone(of(loop, `/evaluations?${query}`), { method: "POST", headers, body }), where);
    text("evaluation-of", title);
  } catch (error) {
    text("evaluation-of", `${title}: ${error.message}`);
  }
};

const download = async (loop, print, button) => {
  button.disabled = true;
  try {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await (await ask(of(loop, `/policies/${print}`))).blob());
    link.download = `${print}.safetensors`;
    link.click();
    URL.revokeObjectURL(link.href);
  } catch (error) {
    text("evaluation-of", error.message);
  } finally {
    button.disabled = false;
  }
};

const button = (label, about, work) => {
  const node = item("button", label, { type: "button", "aria-label": `${label} ${about}` });
  node.addEventListener("click", () => work(node));
  return node;
};

/** A policy that the loop has learned is evaluated on later rounds only: those before have chosen it. */
const stored = (loop, print, round) => async () => {
  const body = await (await ask(of(loop, `/policies/${print}`))).blob();
  await evaluate(loop, `Policy ${short(print)}, learned from round ${round}`, `from_round=${round + 1}`,
    `of rounds ${round + 1} and later, which it was not learned from`, body, OCTETS);
};

export const showPolicies = (loop, rounds, status) => {
  const learned = rounds.filter(({ report }) => report?.learned);
  rows($("policies"), ["policy", "state", "evaluate", "download"], [...learned].reverse().map(({ round, report }) => {
    const print = report.learned;
    const name = item("td", `${named(print)}, `, { class: "wrap narrow" });
    name.append(item("code", short(print), { title: print }));
    return [name,
      print === status.policy ? "runs" : report.running === print ? "was promoted" : "",
      button("evaluate", short(print), stored(loop, print, round)),
      button("download", short(print), (node) => download(loop, print, node))];
  }));
};

/** Policy files of the reader's own: the policy, and the files of features and bases that it names. */
export const evaluateFiles = async (loop, files, over) => {
  const form = new FormData();
  for (const file of files) form.append(/^(basis|features|trees|softmax)-/.test(file.name) ? "file" : "policy", file);
  await evaluate(loop, [...files].map(({ name }) => name).join(", "), `over=${over}`,
    over === "history" ? "of the history" : "of the rounds that were learned from", form);
};

/** The history of the loop, if logs were imported. */
export const showHistory = async (loop) => {
  const about = await read(of(loop, "/history"));
  $("over-history").disabled = !about;
  text("history", about ? `The history has ${about.records.toLocaleString()} records of ${about.logs.split("/").at(-1)}, from before the ` +
    "loop. They are evidence for evaluations, and no certificate uses them." : "");
};
