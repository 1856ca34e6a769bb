// The lines below a partition's row: its replicas, their lineage side by side, and its changes.
import { make, setChildren } from "./dom.js";
import { changeItem } from "./timeline.js";
import { number } from "./words.js";

const REFRESH_MS = 5000;

export function toggleDetail(line) {
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

export function updateDetail(line, changed) {
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
