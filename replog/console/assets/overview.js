// The verdict at the top, the figures, and the changes of partitions.
import { ago, byId, clock, count, day, make, number, setChildren, setClass, setText } from "./page.js";
import { counts, perBroker, state } from "./state.js";

const SILENT_MS = 30000; // a sign of life comes every ten seconds
const SHOWN = 40; // lines of changes
const NAMED = 4; // partitions on a line

export function showOverview() {
  const [kind, symbol, word, told] = verdict();
  setClass(byId("verdict"), `verdict ${kind}`);
  setText(byId("symbol"), symbol);
  setText(byId("word"), word);
  setText(byId("told"), told);
  document.title = `${word}: replog console`;
  const cluster = state.parts.cluster;
  setText(byId("cluster"), cluster ? ` · cluster ${cluster.id}` : "");
  setText(byId("live"), state.connected ? "live" : state.heard ? `last heard ${ago(state.heard)}` : "connecting");
  if (cluster) showFigures(cluster);
}

function verdict() {
  const { cluster, trouble } = state.parts;
  if (!state.connected || (state.heard && Date.now() - state.heard > SILENT_MS)) {
    return ["unknown", "?", state.heard ? "NO CONSOLE" : "CONNECTING", state.heard
      ? "The console does not answer; what is shown is from before. The page connects again by itself."
      : "The page fills as soon as the cluster answers."];
  }
  if (trouble) return ["unknown", "?", "NO ANSWER", `What is shown is from before. ${trouble}`];
  if (!cluster) return ["unknown", "?", "CONNECTING", "The console asks the cluster for the first time."];
  const found = counts();
  const those = (state) => cluster.brokers.filter((broker) => broker.state === state);
  const others = cluster.brokers.filter((broker) => broker.state !== "active");
  const brokers = others.length ? ` ${others.map((broker) => `Broker ${broker.id} is ${broker.state}.`).slice(0, 5).join(" ")}` : "";
  const failed = cluster.brokers.filter((broker) => broker.disks.some((disk) => disk.error));
  if (found.offline) {
    return ["fault", "✕", "OFFLINE", `${count(found.offline, "partition has", "partitions have")} no leader: nobody reads or writes there.${brokers}`];
  }
  if (found["below min"]) {
    return ["fault", "!", "BELOW MINIMUM", `${count(found["below min"], "partition has", "partitions have")} too few replicas in sync: acks=all is refused there.${brokers}`];
  }
  if (state.parts.standing?.verdict === "DIVERGED") {
    return ["fault", "≠", "DIVERGED", `An audit found replicas that are not equal, in ${count(state.parts.standing.diverged_partitions, "partition", "partitions")}: see Audits.${brokers}`];
  }
  if (found["out of sync"]) {
    return ["warn", "↓", "OUT OF SYNC", `${count(found["out of sync"], "partition lacks a replica", "partitions lack a replica")} in sync; all can be read and written.${brokers}`];
  }
  if (cluster.silent) return ["warn", "!", "NO CONTROLLER", "The brokers do not hear a controller: they serve on, and nobody is elected until one is back."];
  if (failed.length) return ["warn", "!", "DISK FAILED", `A log directory has failed on broker ${failed.map((broker) => broker.id).join(", ")}.${brokers}`];
  if (those("fenced").length) return ["warn", "!", "BROKER DOWN", `Every partition is in sync all the same.${brokers}`];
  if (those("stopping").length) return ["warn", "→", "BROKER STOPPING", `Every replica is in sync.${brokers}`];
  return ["ok", "✓", "IN SYNC", `Every replica is in sync, and every broker serves.${brokers}`];
}

function showFigures(cluster) {
  const found = counts();
  const serve = cluster.brokers.filter((broker) => ["active", "cordoned"].includes(broker.state)).length;
  const behind = [...perBroker().values()].reduce((sum, broker) => sum + broker.out, 0);
  const figures = [
    ["brokers that serve", number(serve), ` of ${number(cluster.brokers.length)}`],
    ["partitions", number(state.rows.size), ""],
    ["replicas out of sync", number(behind), ""],
    ["below min. in sync", number(found["below min"] + found.offline), ""],
    ["offline", number(found.offline), ""],
    ["moving", number(found.moving), ""],
    ["metadata version", number(cluster.version), ""],
  ];
  const build = () => figures.map(([name, value, rest]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value, make("small", {}, rest))));
  setChildren(byId("figures"), JSON.stringify(figures), build);
}

// Shows changes, the newest first. Changes of many partitions at once, for one reason, share a line.
export function showTimeline() {
  const { since, trouble } = state.parts.history ?? {};
  setText(byId("since"), trouble ? `Not known: ${trouble}`
    : since ? `Elections, changes of in-sync replicas and moves since ${day(since)}, when this controller began to decide. It keeps the last 20 of each partition.` : "");
  const groups = [];
  for (const change of state.changes) {
    const last = groups.at(-1);
    if (last && last[0].why === change.why && change.at - last.at(-1).at < 2000) last.push(change);
    else groups.push([change]);
  }
  const shown = groups.slice(-SHOWN).reverse();
  setChildren(byId("changes"), shown.map((group) => group.at(-1).version).join() + groups.length, () =>
    shown.length ? shown.map(changeItem) : [make("p", { class: "note" }, "Nothing yet.")]);
}

export function changeItem(group) {
  const [first] = group;
  const done = new Map(); // counts of each change
  for (const { did } of group) {
    for (const [kind, words] of did) done.set(`${kind}\n${words}`, (done.get(`${kind}\n${words}`) ?? 0) + 1);
  }
  const keys = [...new Set(group.map((change) => change.key))];
  const named = keys.slice(0, NAMED).join(", ") + (keys.length > NAMED ? ` and ${keys.length - NAMED} more` : "");
  const tags = [...done].slice(0, 8).map(([what, times]) => {
    const [kind, words] = what.split("\n");
    return make("span", { class: `tag k-${kind}` }, times > 1 ? `${words} (${times} times)` : words);
  });
  const where = keys.length > 1 ? `${count(keys.length, "partition", "partitions")}: ${named}` : named;
  return make("li", {}, make("time", { datetime: new Date(first.at).toISOString(), title: day(first.at) }, clock(first.at)),
    make("div", {}, make("span", {}, first.why || "the controller decided", " "), make("small", {}, make("bdi", {}, where)), make("div", { class: "did" }, ...tags)));
}
