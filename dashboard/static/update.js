// Makes a part of the page like a newer copy of it. What is the same in both stays where it is, so that nobody loses
// the focus, a choice, an opened section, or a press that has begun.

const KEPT = ["open"]; // of <details>: whoever reads the page opened it

/** Returns what identifies an element: its id, or attributes; empty for text. Only equal keys are matched. */
function keyOf(node) {
  if (!(node instanceof Element)) return "";
  const value = node.nodeName === "INPUT" ? node.value : "";
  return node.id || ["data-post", "data-body", "href", "name"].map((name) => node.getAttribute(name) ?? "").join("") + value;
}

function isSame(one, other) {
  return one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}

/** Returns the first of a node and its siblings after it that equals `wanted` (without a key only itself), or null. */
function findSame(first, wanted) {
  if (!first || !keyOf(wanted)) return first && isSame(first, wanted) ? first : null;
  for (let each = first; each; each = each.nextSibling) if (isSame(each, wanted)) return each;
  return null;
}

/** Changes the element `old` of the page into `now`, whose new children are moved; busy buttons are left alone. */
export function update(old, now) {
  if (old.ariaBusy === "true") return; // it was pressed, and waits for its answer
  for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) if (!now.hasAttribute(name) && !KEPT.includes(name)) old.removeAttribute(name);
  let at = old.firstChild;
  for (const wanted of [...now.childNodes]) {
    const same = findSame(at, wanted);
    if (!same) {
      old.insertBefore(wanted, at);
      continue;
    }
    for (; at !== same; at = removed(at));
    if (same instanceof Element) update(same, wanted);
    else if (same.data !== wanted.data) same.data = wanted.data;
    at = same.nextSibling;
  }
  while (at) at = removed(at);
}

/** Removes a node and returns its next sibling. */
function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}
