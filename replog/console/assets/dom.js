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
