// Symbols, words and elements that several parts of the page share.
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

// Elements are made of text, never of markup: a topic's name may be anything.
export const byId = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// Elements that do not change stay in place, otherwise they would lose focus and selection.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setClass(element, name) {
  if (element.className !== name) element.className = name;
}

// Replaces the children if `signature` has changed.
export function setChildren(element, signature, build) {
  if (element.dataset.signature === signature) return;
  element.dataset.signature = signature;
  element.replaceChildren(...build());
}
