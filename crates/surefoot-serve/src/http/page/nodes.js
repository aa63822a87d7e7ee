// Small helpers for texts, lists and tables. Everything is added as text, never as HTML.

export const $ = (id) => document.getElementById(id);
export const text = (id, value) => { $(id).textContent = value; };

export const item = (tag, content, attributes = {}) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(content);
  return node;
};

export const list = (entries) => {
  const node = document.createElement("ul");
  node.append(...entries.map((entry) => (entry instanceof Node ? entry : item("li", entry))));
  return node;
};

export const rows = (table, head, body) => {
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

export const pairs = (place, entries) => place.replaceChildren(
  ...entries.flatMap(([name, value]) => [item("dt", name), item("dd", value)]));

export const short = (fingerprint) => (fingerprint ? fingerprint.slice(0, 12) : "the caller's own");
export const when = (written) => new Date(written).toLocaleString();
export const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
export const shown = (value) => (value === null || value === undefined ? "none" : Number(value.toPrecision(4)).toString());
