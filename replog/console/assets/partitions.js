// The map of all partitions; the table of the worst ones, or those searched for; and the lines below a row: its
// replicas, their lineage side by side, and its changes.
import { changeItem } from "./overview.js";
import { ago, byId, make, MEANINGS, number, setChildren, setClass, setText, stateClass, STATES, SYMBOLS } from "./page.js";
import { counts, lagOf, state } from "./state.js";

const PAGE = 25;
const TOPICS_DRAWN = 60;
const CELLS_DRAWN = 120; // a topic's
const REFRESH_MS = 5000; // of the lines below a row
const chosen = { page: 0, states: new Set() };
const lines = new Map(); // table bodies on this page

export function beginPartitions(show) {
  const turn = (by) => () => { chosen.page += by; show(); };
  byId("before").addEventListener("click", turn(-1));
  byId("after").addEventListener("click", turn(1));
  byId("words").addEventListener("input", () => { chosen.page = 0; show(); });
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  byId("states").addEventListener("click", (event) => {
    const name = event.target.closest("button")?.dataset.state;
    if (!name) return;
    if (!chosen.states.delete(name)) chosen.states.add(name);
    chosen.page = 0;
    show();
  });
}

const rank = (row) => STATES.indexOf(row.state);
const inOrder = (a, b) => rank(a) - rank(b) || (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition);

export function showPartitions() {
  const sorted = [...state.rows.values()].sort(inOrder);
  showStates();
  showMap(sorted);
  const words = byId("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = sorted.filter((row) => (!chosen.states.size || chosen.states.has(row.state)) &&
    words.every((word) => row.key.toLowerCase().includes(word)));
  const pages = Math.max(1, Math.ceil(wanted.length / PAGE));
  chosen.page = Math.min(Math.max(0, chosen.page), pages - 1);
  const first = chosen.page * PAGE;
  const shown = wanted.slice(first, first + PAGE);
  setText(byId("shown"), wanted.length ? `${number(first + 1)}–${number(first + shown.length)} of ${number(wanted.length)}` : "none");
  byId("before").disabled = chosen.page === 0;
  byId("after").disabled = chosen.page >= pages - 1;
  showLines(shown);
}

function showStates() {
  const found = counts();
  const box = byId("states");
  setChildren(box, JSON.stringify(STATES), () => STATES.map((name) => make("button", { type: "button", "data-state": name, title: MEANINGS[name] },
    make("span", { class: `key ${stateClass(name)}`, "aria-hidden": "true" }, SYMBOLS[name]), make("span", {}, name), make("b", {}))));
  for (const button of box.children) {
    button.setAttribute("aria-pressed", chosen.states.has(button.dataset.state));
    setText(button.lastChild, number(found[button.dataset.state]));
  }
}

function showMap(sorted) {
  const topics = new Map(); // sorted by their worst partitions
  for (const row of sorted) (topics.get(row.topic) ?? topics.set(row.topic, []).get(row.topic)).push(row);
  const map = byId("map");
  const drawn = [...topics].slice(0, TOPICS_DRAWN);
  const signature = drawn.map(([topic, rows]) => topic + rows.map((row) => rank(row) + "" + row.partition).join()).join("\n") + topics.size;
  setChildren(map, signature, () => {
    const boxes = drawn.map(([topic, rows]) => topicBox(topic, rows));
    if (topics.size > drawn.length) boxes.push(make("p", { class: "note" }, `and ${number(topics.size - drawn.length)} topics more, none worse than these`));
    return boxes;
  });
}

function topicBox(topic, rows) {
  const bad = rows.filter((row) => rank(row) < STATES.indexOf("not preferred")).length;
  const told = `${number(rows.length)} ${rows.length === 1 ? "partition" : "partitions"}${bad ? `, ${number(bad)} not in order` : ""}`;
  const cells = rows.slice(0, CELLS_DRAWN).sort((a, b) => a.partition - b.partition).map((row) =>
    make("span", { class: stateClass(row.state), title: `${row.key}: ${row.state}` }, SYMBOLS[row.state]));
  if (rows.length > CELLS_DRAWN) cells.push(make("span", { class: "more" }, `+${number(rows.length - CELLS_DRAWN)}`));
  const search = () => {
    byId("words").value = topic;
    byId("words").dispatchEvent(new Event("input"));
  };
  return make("div", { class: "topic" },
    make("button", { type: "button", onclick: search, title: "Search for this topic" }, make("bdi", {}, topic), make("small", {}, told)),
    make("div", { class: "cells", "aria-hidden": "true" }, ...cells));
}

function showLines(shown) {
  const table = byId("rows");
  const keys = new Set(shown.map((row) => row.key));
  for (const [key, line] of lines) {
    if (keys.has(key)) continue;
    line.body.remove();
    lines.delete(key);
  }
  const focused = document.activeElement;
  let after = table.tHead;
  for (const row of shown) {
    const line = lines.get(row.key) ?? newLine(row);
    if (after.nextElementSibling !== line.body) after.after(line.body); // otherwise lines would move that need not
    after = line.body;
    fill(line, row);
  }
  if (table.contains(focused)) focused.focus({ preventScroll: true }); // a line that moves loses it
}

function newLine(row) {
  const cell = (attributes = {}) => make("td", attributes);
  const name = make("button", { type: "button", class: "name", "aria-expanded": "false", onclick: () => toggleDetail(line) }, make("bdi", {}, row.key));
  const line = { row, name, tag: make("span", {}), chips: cell({ class: "chips" }), why: cell({ class: "why" }) };
  line.watermark = cell({ class: "n", "data-label": "high watermark" });
  line.end = cell({ class: "n", "data-label": "log end" });
  line.lag = cell({ class: "n", "data-label": "lag" });
  line.body = make("tbody", { "data-key": row.key }, make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, line.tag),
    line.chips, line.watermark, line.end, line.lag, line.why));
  lines.set(row.key, line);
  return line;
}

function fill(line, row) {
  const changed = line.row.last?.version !== row.last?.version;
  line.row = row;
  setClass(line.tag, `tag ${stateClass(row.state)}`);
  setText(line.tag, `${SYMBOLS[row.state]} ${row.state}`);
  const chips = row.replicas.map((broker) => chipOf(row, broker));
  setChildren(line.chips, JSON.stringify(chips), () => chips.map(([kind, symbol, broker, told]) =>
    make("span", { class: `chip ${kind}`, title: told }, `${symbol} ${broker}`, make("span", { class: "hidden" }, ` ${told}`))));
  const leader = row.offsets[row.leader];
  const lag = lagOf(row);
  setText(line.watermark, leader ? number(leader[1]) : "–");
  setText(line.end, leader ? number(leader[2]) : "–");
  setText(line.lag, lag === null ? "–" : number(lag));
  setClass(line.lag, lag ? "n behind" : "n");
  const last = row.last;
  setChildren(line.why, last ? String(last.version) : "", () => last
    ? [last.did.map(([, words]) => words).join("; "), make("small", {}, `${last.why || "the controller"} · `, make("time", { "data-at": last.at }))]
    : [make("small", { title: "none that the controller remembers" }, "–")]);
  const time = line.why.querySelector("time");
  if (time) setText(time, ago(last.at));
  updateDetail(line, changed);
}

function chipOf(row, broker) {
  if (broker === row.leader) return ["leader", "★", broker, `broker ${broker} leads in epoch ${row.epoch}`];
  if (row.adding.includes(broker) && !row.isr.includes(broker)) return ["adding", "+", broker, `broker ${broker} is coming`];
  if (row.removing.includes(broker)) return ["removing", "−", broker, `broker ${broker} is leaving`];
  if (row.isr.includes(broker)) return ["isr", "✓", broker, `broker ${broker} is in sync`];
  if (row.elr.includes(broker)) return ["elr", "◇", broker, `broker ${broker} is out of sync, and eligible to lead`];
  return ["out", "↓", broker, `broker ${broker} is out of sync`];
}

function toggleDetail(line) {
  const open = !line.detail;
  line.name.setAttribute("aria-expanded", open);
  if (!open) {
    line.detail.remove();
    delete line.detail;
    return;
  }
  line.replicas = make("div", {});
  line.lineage = make("div", {});
  line.past = make("div", {});
  const columns = make("div", { class: "columns" }, make("div", {}, line.replicas, line.lineage), line.past);
  line.detail = make("tr", { class: "detail" }, make("td", { colspan: "7" }, columns));
  line.body.append(line.detail);
  updateDetail(line, true);
}

function updateDetail(line, changed) {
  if (!line.detail) return;
  showReplicas(line);
  if (changed || Date.now() - line.asked > REFRESH_MS) ask(line);
}

async function ask(line) {
  line.asked = Date.now();
  const { topic, partition } = line.row;
  try {
    const answer = await fetch("partition?" + new URLSearchParams({ topic, partition }));
    if (answer.ok && line.detail) show(line, await answer.json());
  } catch {
    line.asked = 0; // ask again with the next news
  }
}

function showReplicas(line) {
  const { replicas, offsets, leader, min, isr, elr, epoch } = line.row;
  const nobody = isr.length + elr.length ? "no leader" : "no leader, and no replica is known to have everything: it waits until all have said how far they go";
  const end = offsets[leader]?.[2];
  const rows = replicas.map((broker) => {
    const [start, watermark, own] = offsets[broker] ?? [];
    const lag = end === undefined || own === undefined ? undefined : Math.max(0, end - own);
    return [broker, start, watermark, own, lag].map((value) => (value === undefined ? "–" : number(value)));
  });
  setChildren(line.replicas, JSON.stringify([rows, leader, min, isr, elr, epoch]), () => [
    make("h4", {}, `${isr.length} in sync, at least ${min} for acks=all · ${leader < 0 ? nobody : `leader epoch ${epoch}`}`),
    table(["replica", "log start", "high watermark", "log end", "lag"], rows),
  ]);
}

function show(line, { changes, lineage }) {
  setChildren(line.lineage, JSON.stringify(lineage), () => {
    const brokers = Object.keys(lineage);
    const starts = brokers.map((broker) => new Map(lineage[broker]));
    const epochs = [...new Set(starts.flatMap((of) => [...of.keys()]))].sort((a, b) => a - b);
    const rows = epochs.map((epoch) => [`e${epoch}`, ...starts.map((of) => (of.has(epoch) ? number(of.get(epoch)) : "–"))]);
    return [make("h4", {}, "Leader epochs, and where each begins"), brokers.length
      ? table(["epoch", ...brokers.map((broker) => `replica ${broker}`)], rows, true) : make("p", { class: "note" }, "No replica answers.")];
  });
  setChildren(line.past, JSON.stringify(changes.map((change) => change.version)), () => [
    make("h4", {}, "What became of it"),
    changes.length ? make("ol", { class: "changes" }, ...changes.toReversed().map((change) => changeItem([change])))
      : make("p", { class: "note" }, "Nothing that the controller remembers."),
  ]);
}

function table(head, rows, mark = false) {
  const cells = ([first, ...rest], tag) => [make("th", { scope: tag === "th" ? "col" : "row" }, first), ...rest.map((text) => make(tag, { class: "n" }, text))];
  const differs = ([, ...rest]) => mark && new Set(rest.filter((text) => text !== "–")).size > 1;
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...cells(head, "th"))),
    make("tbody", {}, ...rows.map((row) => make("tr", { class: differs(row) ? "differs" : null, title: differs(row) ? "not the same on all replicas" : null }, ...cells(row, "td"))))));
}
