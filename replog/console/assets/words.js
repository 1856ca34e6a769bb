// Symbols and words that several parts of the page share.
export const STATES = ["offline", "below min", "out of sync", "moving", "not preferred", "in sync"];
export const SYMBOLS = { offline: "✕", "below min": "!", "out of sync": "↓", moving: "→", "not preferred": "↔", "in sync": "✓" };
export const MEANINGS = {
  offline: "no leader: nobody reads or writes",
  "below min": "too few replicas in sync: acks=all is refused",
  "out of sync": "a replica is not in sync",
  moving: "replicas are moving to other brokers",
  "not preferred": "in sync, but its first replica does not lead",
  "in sync": "all replicas are in sync",
};

export const number = (value) => Number(value).toLocaleString("en").replaceAll(",", "\u202f");
export const count = (value, one, many) => `${number(value)} ${value === 1 ? one : many}`;
export const stateClass = (state) => "s-" + state.replaceAll(" ", "-");

export function ago(ms) {
  const s = Math.max(0, Math.round((Date.now() - ms) / 1000));
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86400)} days ago`;
}

export const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
export const day = (ms) => new Date(ms).toLocaleString("en-GB");

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let at = 0;
  for (; value >= 999.5 && at < units.length - 1; at += 1) value /= 1000;
  return `${at ? value.toPrecision(3) : value} ${units[at]}`;
}
