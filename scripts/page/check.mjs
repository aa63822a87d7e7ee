// Checks the page of `surefoot serve` in a real browser: what it shows, that it follows the loop, keys, accessibility, and that
// nothing leaves the machine. Screenshots in three sizes are written beside the report.
//
//     node scripts/page/check.mjs target/debug/surefoot target/page

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import bundled from "@sparticuz/chromium";
import { chromium } from "playwright-core";

const [surefoot, out] = process.argv.slice(2).map((path) => resolve(path));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const KEYED = `
[[key]]
name = "reader"
roles = ["read"]
sha256 = "${createHash("sha256").update("a-long-random-key").digest("hex")}"

[[loop]]
name = "shop"
actions = ["red", "green"]
features = [{ name = "x", kind = "number" }]
reward = { window = "1h" }
round = { records = 1000 }
gate = "improvement"
`;

const servers = [];
/** Starts a server on a port of its own, and returns its address. */
const serve = (...flags) => new Promise((done, failed) => {
  const server = spawn(surefoot, ["serve", ...flags, "--listen", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  servers.push(server);
  let said = "";
  server.stderr.on("data", (part) => {
    said += part;
    const address = /listening on (http:\S+?),/.exec(said);
    if (address) done(address[1]);
  });
  server.on("exit", () => failed(new Error(`the server ended: ${said}`)));
});

const folder = mkdtempSync(join(tmpdir(), "surefoot-page-"));
mkdirSync(out, { recursive: true });
const checks = [];
const check = async (name, work) => {
  await work();
  checks.push(name);
  console.log(`ok: ${name}`);
};

let browser;
try {
  const demo = await serve("--demo", "--data", join(folder, "demo"));
  writeFileSync(join(folder, "keyed.toml"), KEYED);
  const keyed = await serve(join(folder, "keyed.toml"), "--data", join(folder, "keyed"));
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? await bundled.executablePath(),
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
  const faults = [];
  const open = async (address, options = {}) => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
    page.on("console", (message) => { if (message.type() === "error") faults.push(message.text()); });
    page.on("pageerror", (error) => faults.push(error.message));
    page.on("request", (request) => {
      if (!request.url().startsWith(address) && !request.url().startsWith("blob:")) faults.push(`a request to ${request.url()}`);
    });
    await page.goto(address);
    return page;
  };
  const api = async (path) => (await fetch(demo + path)).json();
  const accessible = async (page) => {
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), []);
  };

  const page = await open(demo);
  await check("the demo's loop is shown, and its first rounds are learned from", async () => {
    await page.waitForSelector("#rounds-chart svg", { timeout: 120_000 });
    assert.equal(await page.textContent("nav a[aria-current]"), "digits");
    await page.waitForFunction(() => document.querySelectorAll("#rounds-table tbody tr").length >= 2, null, { timeout: 120_000 });
  });
  await check("numbers on the page are those of the API", async () => {
    // Both are read again if a round was learned from in between.
    for (let tries = 0; ; tries += 1) {
      const rounds = (await api("/v1/loops/digits/rounds")).filter(({ report }) => report);
      const { round, report } = rounds[rounds.length - 1];
      const [brings, proven, of] = await Promise.all(["#brings", "#proven", "#brings-of"].map((id) => page.textContent(id)));
      if (!of.includes(`round ${round},`) && tries < 50) {
        await page.waitForTimeout(200);
        continue;
      }
      assert.equal(Number(brings), Number(report.mean_reward.toPrecision(4)));
      assert.equal(Number(proven.replace("\u2265", "")), Number(report.certified_reward.toPrecision(4)));
      assert.ok((await page.textContent("#verdict-text")).includes(`Round ${round}: ${report.verdict}.`));
      assert.ok((await page.textContent("#words")).includes(`at least ${Number(report.certified_reward.toPrecision(4))} per decision`)
        || report.certified_reward <= 0);
      break;
    }
    const shares = await page.locator("#actions-chart text.key").count();
    assert.equal(shares, 10);
    assert.match(await page.textContent("#effective"), /effective sample size/);
  });
  await check("reward over time, throughput and latency are drawn", async () => {
    for (const id of ["reward-chart", "rate-chart", "latency-chart", "propensities-chart"]) {
      await page.waitForSelector(`#${id} svg`, { timeout: 60_000 });
    }
    assert.match(await page.textContent("#rate-of"), /decisions per second/);
    assert.match(await page.textContent("#latency-of"), /99 % (within|in more)/);
    const { smallest_propensity: smallest } = await api("/v1/loops/digits/activity");
    assert.ok(smallest > 0 && smallest <= 1);
  });
  await check("lint and drift are told in words", async () => {
    await page.click("#lint-button");
    await page.waitForFunction(() => /errors and \d+ warnings in/.test(document.getElementById("lint").textContent), null, { timeout: 60_000 });
    const { errors, warnings, findings } = await api("/v1/loops/digits/lint");
    assert.match(await page.textContent("#lint"), new RegExp(`^${errors} errors and ${warnings} warnings`));
    const drift = findings.some(({ check }) => check === "drift");
    assert.equal(/No drift/.test(await page.textContent("#drift")), !drift);
  });
  await check("a stored policy is evaluated with one click, on rounds that it was not learned from", async () => {
    await page.locator("#policies tbody tr").last().getByRole("button", { name: "evaluate" }).click();
    await page.waitForSelector("#evaluation li", { timeout: 60_000 });
    const first = (await api("/v1/loops/digits/rounds"))[0].report.learned;
    const body = await (await fetch(`${demo}/v1/loops/digits/policies/${first}`)).blob();
    const headers = { "Content-Type": "application/octet-stream" };
    const told = (await page.locator("#evaluation li").allTextContents()).join("\n");
    const path = "/v1/loops/digits/evaluations?from_round=1";
    const { records } = await (await fetch(demo + path, { method: "POST", headers, body })).json();
    // A round more may have been learned from since.
    const counted = Number(/([\d,]+) decisions of rounds 1 and later/.exec(told)[1].replaceAll(",", ""));
    assert.ok(counted > 0 && counted <= records && counted % 300 === 0, told);
    const file = join(folder, "policy.safetensors");
    writeFileSync(file, Buffer.from(await body.arrayBuffer()));
    await page.setInputFiles("#policy-file", file);
    await page.waitForFunction(() => /which|rounds that were learned from/.test(document.getElementById("evaluation").textContent)
      && document.getElementById("evaluation-of").textContent === "policy.safetensors", null, { timeout: 60_000 });
    assert.match(await page.textContent("#evaluation"), /too optimistic/);
  });
  await check("rounds and promotions appear without a reload", async () => {
    const rows = () => document.querySelectorAll("#rounds-table tbody tr").length;
    const before = await page.evaluate(rows);
    await page.waitForFunction((before) => document.querySelectorAll("#rounds-table tbody tr").length > before, before, { timeout: 120_000 });
    await page.waitForFunction(() => document.querySelectorAll("#rounds-chart .promotion").length > 1, null, { timeout: 120_000 });
    assert.equal((await page.evaluate(() => performance.getEntriesByType("navigation"))).length, 1);
  });
  await check("everything can be reached by the keyboard", async () => {
    const keyed = await open(demo);
    await keyed.waitForSelector("#assumes li", { state: "attached" });
    await keyed.keyboard.press("Tab");
    assert.equal(await keyed.evaluate(() => document.activeElement.className), "skip");
    await keyed.locator("summary").first().focus();
    await keyed.keyboard.press("Enter");
    assert.ok(await keyed.locator("#assumes li").first().isVisible());
    assert.match(await keyed.textContent("#assumes"), /rewards are in \[0, 1\]/);
  });
  await check("no serious accessibility fault, light and dark", async () => {
    await accessible(page);
    const dark = await open(demo, { colorScheme: "dark" });
    await dark.waitForSelector("#rounds-chart svg");
    await accessible(dark);
    await dark.close();
  });
  await check("screenshots in three sizes, light and dark, without scrolling sideways", async () => {
    for (const [name, width, height, colorScheme] of [["wide", 1280, 900, "light"], ["wide-dark", 1280, 900, "dark"],
      ["tablet", 820, 1100, "light"], ["tablet-dark", 820, 1100, "dark"], ["phone", 390, 844, "light"], ["phone-dark", 390, 844, "dark"]]) {
      const sized = await open(demo, { viewport: { width, height }, colorScheme });
      await sized.waitForSelector("#propensities-chart svg");
      assert.ok(await sized.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} is too wide`);
      await sized.screenshot({ path: join(out, `${name}.png`), fullPage: true });
      await sized.close();
    }
  });
  await check("nothing was wrong in the console, and no request left the machine", async () => assert.deepEqual(faults, []));

  const locked = await open(keyed);
  await check("a wrong key shows a clear message, and the right one opens the page", async () => {
    await locked.waitForSelector("#key-text:visible");
    await accessible(locked);
    await locked.fill("#key-text", "wrong");
    await locked.click("#key button");
    await locked.waitForFunction(() => /key/i.test(document.getElementById("key-why").textContent));
    assert.ok(await locked.locator("#main").isHidden());
    await locked.fill("#key-text", "a-long-random-key");
    await locked.click("#key button");
    await locked.waitForSelector("#main:visible");
    assert.equal(await locked.textContent("#words"), "Nothing is proven yet.");
  });
  await check("the page forbids everything but itself", async () => {
    const { headers } = await fetch(demo);
    assert.match(headers.get("content-security-policy"), /default-src 'none'.*frame-ancestors 'none'/);
    assert.equal((await fetch(`${demo}/page/other.js`)).status, 404);
  });
  console.log(`${checks.length} checks of the page passed; screenshots are in ${out}`);
} finally {
  await browser?.close();
  servers.forEach((server) => { server.removeAllListeners("exit"); server.kill("SIGKILL"); });
  rmSync(folder, { recursive: true, force: true });
}
