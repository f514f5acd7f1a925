/** Elements without markup: whatever is text stays text. */

/**
 * An element. `props`: `class`, `on` (events), `data` (data attributes), `text`, else attributes;
 * an attribute that is null, undefined or false is left out.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...any} children
 * @returns {any}
 */
export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

/**
 * @param {any} node
 * @param {Record<string, any>} props
 * @param {any[]} children
 */
function fill(node, { on = {}, data = {}, text, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) setAttribute(node, name, value);
  for (const [name, value] of Object.entries(data)) node.dataset[name] = value;
  for (const [name, listener] of Object.entries(on)) node.addEventListener(name, listener);
  if (text !== undefined) node.textContent = text;
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** Sets or, for null and false, removes; touches the node only when something changes. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value === true ? "" : value);
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Replaces the children only when `signature` differs from last time, so that focus and open parts stay. */
export function rerender(node, signature, makeChildren) {
  if (node.collapsewatchSignature === signature) return;
  node.collapsewatchSignature = signature;
  const focused = node.contains(document.activeElement) ? /** @type {any} */ (document.activeElement).dataset.focusKey : undefined;
  node.replaceChildren(
    ...makeChildren()
      .flat(Infinity)
      .filter((child) => child !== null),
  );
  if (focused !== undefined) node.querySelector(`[data-focus-key="${CSS.escape(focused)}"]`)?.focus();
}

/**
 * Keeps one child per item, in order: `create(item)` makes `{root, update}`; a child that stays is
 * updated in place, so that its focus, selection and open details survive live data.
 */
export class KeyedList {
  #container;
  #keyOf;
  #create;
  #children = new Map();

  constructor(container, { keyOf, create }) {
    this.#container = container;
    this.#keyOf = keyOf;
    this.#create = create;
  }

  update(items) {
    const kept = new Map();
    const wanted = new Set(items.map((item) => this.#keyOf(item)));
    // Those that go do so first: a child that is moved past them would lose its focus.
    for (const [key, child] of this.#children) {
      if (wanted.has(key)) continue;
      child.root.remove();
      child.destroy?.();
    }
    let place = this.#container.firstElementChild;
    for (const item of items) {
      const key = this.#keyOf(item);
      const child = this.#children.get(key) ?? this.#create(item);
      kept.set(key, child);
      child.update(item);
      if (child.root === place) place = place.nextElementSibling;
      else this.#container.insertBefore(child.root, place);
    }
    this.#children = kept;
  }
}
