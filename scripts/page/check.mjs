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
      assert.match(await page.textContent("#verdict-text"), new RegExp(`^Round ${round}: promoted`));
      break;
    }
    const shares = await page.locator("#actions-chart text.key").count();
    assert.equal(shares, 10);
  });
  await check("a promotion appears without a reload", async () => {
    const rows = () => document.querySelectorAll("#rounds-table tbody tr").length;
    const before = await page.evaluate(rows);
    await page.waitForFunction((before) => document.querySelectorAll("#rounds-table tbody tr").length > before, before, { timeout: 120_000 });
    assert.ok(await page.locator("#rounds-chart .promotion").count() > before);
    assert.equal((await page.evaluate(() => performance.getEntriesByType("navigation"))).length, 1);
  });
  await check("everything can be reached by the keyboard", async () => {
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
    await page.locator("summary").first().focus();
    await page.keyboard.press("Enter");
    assert.ok(await page.locator("#assumes li").first().isVisible());
  });
  await check("no serious accessibility fault, light and dark", async () => {
    await accessible(page);
    const dark = await open(demo, { colorScheme: "dark" });
    await dark.waitForSelector("#rounds-chart svg");
    await accessible(dark);
    await dark.close();
  });
  await check("screenshots in three sizes, without scrolling sideways", async () => {
    for (const [name, width, height, colorScheme] of [["wide", 1280, 900, "light"], ["tablet", 820, 1100, "dark"], ["phone", 390, 844, "light"]]) {
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
