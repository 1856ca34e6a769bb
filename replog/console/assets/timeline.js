// Changes of partitions, the newest first. Changes of many at once, for one reason, share a line.
import { byId, make, setChildren, setText } from "./dom.js";
import { state } from "./state.js";
import { clock, count, day } from "./words.js";

const SHOWN = 40;
const NAMED = 4; // partitions on a line

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
