// Pictures as SVG, drawn from numbers. Colours are in page.css; every picture has its numbers as a text.

import { shown } from "./nodes.js";

const make = (name, attributes = {}, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

const picture = (place, width, height, label) => {
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  place.replaceChildren(svg);
  return svg;
};

/** The width of a picture: that of its place, so that texts have their usual size. */
const room = (place, most) => Math.min(Math.max(place.clientWidth, 280), most);

/** Round numbers that cover a range. */
export const ticks = (low, high, count = 5) => {
  const rough = (high - low || 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
  const all = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) all.push(+at.toPrecision(12));
  return all;
};

/** Rewards and certificates per round, with promotions. `rounds` are {round, reward, proven, promoted}. */
export const overRounds = (place, rounds) => {
  const [width, height, left, right, top, bottom] = [room(place, 900), 300, 52, 12, 28, 34];
  const values = rounds.flatMap((r) => [r.reward, r.proven]).filter((v) => v !== null && v !== undefined);
  if (values.length === 0) {
    place.replaceChildren("No round has been learned from yet.");
    return;
  }
  const last = rounds[rounds.length - 1];
  const label = `Mean reward and certified reward over ${rounds.length} rounds; in round ${last.round} ` +
    `${shown(last.reward)} and ${shown(last.proven)}. The table below has all numbers.`;
  const svg = picture(place, width, height, label);
  const low = Math.min(...values, 0), high = Math.max(...values) || 1;
  const first = rounds[0].round, span = Math.max(last.round - first, 1);
  const x = (round) => left + ((round - first) / span) * (width - left - right);
  const y = (value) => height - bottom - ((value - low) / (high - low || 1)) * (height - top - bottom);
  for (const at of ticks(low, high)) {
    svg.append(make("line", { class: "axis", x1: left, x2: width - right, y1: y(at), y2: y(at) }),
      make("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, shown(at)));
  }
  for (const at of ticks(first, last.round, 8).filter((v) => Number.isInteger(v))) {
    svg.append(make("text", { x: x(at), y: height - 14, "text-anchor": "middle" }, String(at)));
  }
  svg.append(make("text", { x: width - right, y: height - 1, "text-anchor": "end" }, "round"));
  for (const r of rounds.filter((r) => r.promoted)) {
    svg.append(make("line", { class: "promotion", x1: x(r.round), x2: x(r.round), y1: top, y2: height - bottom }));
  }
  const series = [["reward", "circle"], ["proven", "rect"]];
  for (const [name, mark] of series) {
    const points = rounds.filter((r) => r[name] !== null && r[name] !== undefined);
    const style = name === "reward" ? "reward" : "proof";
    svg.append(make("polyline", { class: style, points: points.map((r) => `${x(r.round)},${y(r[name])}`).join(" ") }));
    for (const r of points.length > 80 ? points.slice(-1) : points) {
      const at = mark === "circle" ? { cx: x(r.round), cy: y(r[name]), r: 3.5 }
        : { x: x(r.round) - 3.5, y: y(r[name]) - 3.5, width: 7, height: 7 };
      svg.append(make(mark, { class: `${style}-dot`, ...at },
        make("title", {}, `round ${r.round}: ${name === "reward" ? "mean reward" : "certified"} ${shown(r[name])}`)));
    }
  }
  svg.append(make("circle", { class: "reward-dot", cx: left + 6, cy: 12, r: 4 }),
    make("text", { class: "key", x: left + 16, y: 16 }, "mean reward"),
    make("rect", { class: "proof-dot", x: left + 112, y: 8, width: 8, height: 8 }),
    make("text", { class: "key", x: left + 126, y: 16 }, "certified, at least"),
    make("line", { class: "promotion", x1: left + 246, x2: left + 246, y1: 4, y2: 20 }),
    make("text", { class: "key", x: left + 254, y: 16 }, "promotion"));
};

/** A number over time. `points` are {at, value, solid}: those that may change are dashed. */
export const overTime = (place, points, what) => {
  if (points.length < 2) {
    place.replaceChildren("Not enough time has passed.");
    return;
  }
  const [width, height, left, right, top, bottom] = [room(place, 560), 170, 52, 14, 10, 22];
  const [first, end] = [points[0].at.getTime(), points.at(-1).at.getTime()];
  const high = Math.max(...points.map(({ value }) => value)) || 1, low = Math.min(...points.map(({ value }) => value), 0);
  const x = (at) => left + ((at - first) / (end - first || 1)) * (width - left - right);
  const y = (value) => height - bottom - ((value - low) / (high - low || 1)) * (height - top - bottom);
  const svg = picture(place, width, height, `${what} over time, from ${points[0].at.toLocaleString()} to ` +
    `${points.at(-1).at.toLocaleString()}: ${points.map(({ value }) => shown(value)).join(", ")}`);
  for (const at of ticks(low, high, 4)) {
    svg.append(make("line", { class: "axis", x1: left, x2: width - right, y1: y(at), y2: y(at) }),
      make("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, shown(at)));
  }
  const day = points.at(-1).at - points[0].at > 86_400_000;
  const time = (at) => (day ? at.toLocaleDateString() : at.toLocaleTimeString());
  svg.append(make("text", { x: left, y: height - 4 }, time(points[0].at)),
    make("text", { x: width - right, y: height - 4, "text-anchor": "end" }, time(points.at(-1).at)));
  const path = (some) => some.map(({ at, value }) => `${x(at)},${y(value)}`).join(" ");
  const open = points.findIndex(({ solid }) => !solid);
  const closed = open < 0 ? points.length : open;
  if (closed > 0) svg.append(make("polyline", { class: "reward", points: path(points.slice(0, closed)) }));
  if (open >= 0) svg.append(make("polyline", { class: "reward open", points: path(points.slice(Math.max(open - 1, 0))) }));
};

/** Bars with a name and a number each. `entries` are [name, value, text]. */
export const bars = (place, entries, title) => {
  const label = `${title}: ${entries.map(([name, , text]) => `${name} ${text}`).join(", ")}`;
  const [width, row, left] = [room(place, 480), 24, 110];
  const most = Math.max(...entries.map(([, value]) => value), 1e-12);
  const svg = picture(place, width, Math.max(entries.length * row, row), label);
  entries.forEach(([name, value, text], i) => {
    const short = name.length > 14 ? `${name.slice(0, 13)}\u2026` : name;
    svg.append(make("text", { class: "key", x: left - 8, y: i * row + 16, "text-anchor": "end" }, short, make("title", {}, name)),
      make("rect", { class: "bar", x: left, y: i * row + 4, height: row - 8, width: Math.max((value / most) * (width - left - 70), 1) }),
      make("text", { x: left + (value / most) * (width - left - 70) + 6, y: i * row + 16 }, text));
  });
};
