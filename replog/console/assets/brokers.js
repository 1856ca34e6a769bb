// Brokers with their disks, controllers, and the last audit.
import { byId, bytes, count, day, make, number, setChildren, setText } from "./page.js";
import { perBroker, state } from "./state.js";

const SLOW_MS = 100; // a step of the event loop that is worth showing
const TAGS = { active: ["s-in-sync", "✓"], cordoned: ["s-not-preferred", "⊘"], stopping: ["s-moving", "→"], fenced: ["s-offline", "✕"] };

export function showBrokers() {
  const cluster = state.parts.cluster;
  if (!cluster) return;
  const sums = perBroker();
  const cards = cluster.brokers.map((broker) => ({ ...broker, ...(sums.get(broker.id) ?? { leads: 0, replicas: 0, out: 0 }) }));
  setChildren(byId("cards"), JSON.stringify(cards), () => cards.map(card));
  const others = cluster.controllers.filter((address) => address !== cluster.controller);
  setText(byId("controllers"), `Controller ${cluster.controller || "unknown"}${cluster.silent ? ", which brokers do not hear" : ""}${others.length ? `; standing by: ${others.join(", ")}` : ""}`);
}

function card(broker) {
  const [style, symbol] = TAGS[broker.state] ?? ["", "?"];
  const parts = [
    make("h3", {}, `Broker ${broker.id}`, make("span", { class: `tag ${style}` }, `${symbol} ${broker.state}`)),
    make("p", {}, `leads ${number(broker.leads)} of ${count(broker.replicas, "replica", "replicas")}, ${number(broker.out)} out of sync`),
    make("p", { class: "note" }, `${broker.address}${broker.rack ? ` · rack ${broker.rack}` : ""} · epoch ${number(broker.broker_epoch)}`),
  ];
  if (broker.step_ms !== null) {
    const slow = broker.step_ms >= SLOW_MS;
    parts.push(make("p", { class: slow ? "fault-text" : "note" }, `${slow ? "! " : ""}longest step of its event loop: ${number(broker.step_ms)} ms`));
  }
  for (const trouble of new Set([broker.trouble, broker.disks_trouble].filter(Boolean))) parts.push(make("p", { class: "fault-text" }, `! ${trouble}`));
  return make("div", { class: "card" }, ...parts, ...broker.disks.map(disk));
}

function disk({ directory, error, total, usable, size }) {
  const name = make("p", {}, make("code", {}, directory));
  if (error) return make("div", {}, name, make("p", { class: "fault-text" }, `✕ failed: ${error}`));
  if (total < 0) return make("div", {}, name, make("p", { class: "note" }, `${bytes(size)} of logs`));
  const used = total - usable;
  const told = `${bytes(used)} of ${bytes(total)} used, ${bytes(size)} of it logs`;
  return make("div", {}, name, make("meter", { min: 0, max: total, low: 0.8 * total, high: 0.9 * total, optimum: 0, value: used, "aria-label": `${directory}: ${told}` }), make("p", { class: "note" }, told));
}

const STYLES = { CONSISTENT: ["s-in-sync", "✓"], DIVERGED: ["s-offline", "≠"] };

function verdict(word) {
  const [style, symbol] = STYLES[word] ?? ["s-not-preferred", "?"];
  return make("span", { class: `tag ${style}` }, `${symbol} ${word}`);
}

export function showAudit() {
  showStanding(state.parts.standing);
  const audit = state.parts.audit;
  setChildren(byId("report"), JSON.stringify(audit ?? null), () => {
    if (!audit) return [make("p", { class: "note" }, "Start the console with --audit DIR to see what an audit wrote there: ", make("code", {}, "replog audit run --report-dir DIR"))];
    if (audit.trouble) return [make("p", {}, audit.trouble)];
    const told = `${count(audit.partitions_compared, "partition", "partitions")} compared at level ${audit.level}, ${count(audit.count, "finding", "findings")} · ${day(audit.at)}`;
    return [make("p", {}, verdict(audit.verdict), ` ${told}`),
      make("ol", { class: "findings" }, ...audit.findings.map((found, at) => finding(found, at + 1, audit.explain))),
      audit.count > audit.findings.length ? make("p", { class: "note" }, `The first ${audit.findings.length}; report.html beside them has more.`) : ""];
  });
}

// The last verdict of `replog audit follow`.
function showStanding(standing) {
  setChildren(byId("standing"), JSON.stringify(standing ?? null), () => {
    if (!standing) return [make("p", { class: "note" }, "No audit goes on: start one with ", make("code", {}, "replog audit follow"))];
    if (standing.trouble) return [make("p", {}, `What the audit that goes on has said is not known: ${standing.trouble}`)];
    const where = standing.diverged_partitions ? ` in ${standing.diverged.slice(0, 5).join(", ")}${standing.diverged_partitions > 5 ? ", …" : ""}` : "";
    const equal = standing.consistent_at_ms ? `last proved equal ${day(standing.consistent_at_ms)}` : "never proved equal";
    return [make("p", {}, verdict(standing.verdict), make("bdi", {}, where), ` ${count(standing.partitions, "partition", "partitions")} compared all the time at level ${standing.level} · ${day(standing.at_ms)}; ${equal}`)];
  });
}

function finding(found, at, explain) {
  const where = found.partition === null ? found.topic : `${found.topic}-${found.partition}`;
  const offsets = found.first_offset === null ? "" : ` offsets ${number(found.first_offset)} – ${number(found.last_offset)}`;
  const wrong = found.wrong_replica === null ? "undetermined" : `most likely wrong: replica ${found.wrong_replica}`;
  return make("li", {}, make("span", { class: "tag s-offline" }, found.class), " ", make("bdi", {}, where), `${offsets}, ${wrong}. ${found.why} `,
    make("br"), `${found.remedy} `, make("br"), make("code", { class: "command" }, `${explain} ${at}`));
}
