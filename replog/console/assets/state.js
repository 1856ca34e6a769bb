// The state that the console has sent so far.
import { STATES } from "./page.js";

export const state = { rows: new Map(), parts: {}, changes: [], heard: 0, connected: false };
const KEPT_CHANGES = 200;

export function take(news) {
  if (news.all) {
    state.rows.clear();
    state.changes = [];
  }
  for (const row of news.rows) state.rows.set(row.key, row);
  Object.assign(state.parts, news.parts);
  state.changes = state.changes.concat(news.changes).slice(-KEPT_CHANGES);
}

// Returns how far the slowest replica that should be in sync is behind its leader; null: not known.
export function lagOf(row) {
  const end = row.offsets[row.leader]?.[2];
  if (end === undefined) return null;
  const behind = row.replicas.map((broker) => row.offsets[broker]?.[2]).filter((other) => other !== undefined);
  return Math.max(0, ...behind.map((other) => end - other));
}

export function counts() {
  const found = Object.fromEntries(STATES.map((name) => [name, 0]));
  for (const row of state.rows.values()) found[row.state] += 1;
  return found;
}

export function perBroker() {
  const found = new Map();
  const of = (broker) => found.get(broker) ?? found.set(broker, { leads: 0, replicas: 0, out: 0 }).get(broker);
  for (const row of state.rows.values()) {
    if (row.leader >= 0) of(row.leader).leads += 1;
    for (const broker of row.replicas) {
      of(broker).replicas += 1;
      if (!row.isr.includes(broker) && !row.adding.includes(broker)) of(broker).out += 1;
    }
  }
  return found;
}
