// Signals, and templates that follow them. Only the fixed parts of a template are parsed as markup.
let running = null; // the effect or computed value that reads signals now
let owner = null; // collects what must end with the element or effect that made it
const due = new Set();

class Signal {
  readers = new Set();
  constructor(value) {
    this.current = value;
  }
  get value() {
    if (running) {
      this.readers.add(running);
      running.sources.add(this);
    }
    return this.current;
  }
  set value(value) {
    if (Object.is(value, this.current)) return;
    this.current = value;
    for (const reader of [...this.readers]) reader.stale();
  }
}

class Computed extends Signal {
  sources = new Set();
  dirty = true;
  constructor(compute) {
    super(undefined);
    this.compute = compute;
  }
  get value() {
    if (this.dirty) {
      this.dirty = false;
      forget(this);
      this.current = within(this, owner, this.compute);
    }
    return super.value;
  }
  stale() {
    if (this.dirty) return;
    this.dirty = true;
    for (const reader of [...this.readers]) reader.stale();
  }
}

class Effect {
  sources = new Set();
  owned = [];
  constructor(run) {
    this.run = run;
    owner?.push(() => this.end());
    this.go();
  }
  stale() {
    if (!due.size) queueMicrotask(flush);
    due.add(this);
  }
  go() {
    this.end();
    within(this, this.owned, this.run);
  }
  end() {
    due.delete(this);
    release(this.owned);
    forget(this);
  }
}

function forget(reader) {
  for (const source of reader.sources) source.readers.delete(reader);
  reader.sources.clear();
}

function within(reader, owned, run) {
  const before = [running, owner];
  [running, owner] = [reader, owned];
  try {
    return run();
  } finally {
    [running, owner] = before;
  }
}

const release = (owned) => owned.splice(0).forEach((end) => end());

function flush() {
  for (const effect of due) {
    due.delete(effect);
    try {
      effect.go();
    } catch (error) {
      reportError(error); // the others still have their turn
    }
  }
}

export const signal = (value) => new Signal(value);
export const computed = (compute) => new Computed(compute);
export const effect = (run) => new Effect(run);
export const onEnd = (end) => owner?.push(end);

// What `run` returns, and a function that ends whatever it has begun to follow.
export function root(run) {
  const owned = [];
  return [within(null, owned, run), () => release(owned)];
}

const templates = new WeakMap();

// A template's nodes. `@click=${f}` listens, `.value=${v}` sets a property, `?hidden=${v}` sets an
// attribute or removes it, `css=${{}}` sets styles, `class=${v}` any other attribute. A function
// is called again whenever a signal that it read changes.
export function html(strings, ...values) {
  if (!templates.has(strings)) templates.set(strings, parse(strings));
  const nodes = document.importNode(templates.get(strings).content, true);
  const walker = document.createTreeWalker(nodes, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_COMMENT);
  const found = [];
  while (walker.nextNode()) found.push(walker.currentNode);
  for (const node of found) {
    if (node.nodeType === Node.COMMENT_NODE) {
      if (node.data.startsWith("\u0001")) fill(node, values[Number(node.data.slice(1))]);
      continue;
    }
    for (const { name, value } of [...node.attributes]) {
      if (!value.startsWith("\u0001")) continue;
      node.removeAttribute(name);
      bind(node, name, values[Number(value.slice(1))]);
    }
  }
  return nodes;
}

function parse(strings) {
  const template = document.createElement("template");
  let markup = "";
  strings.forEach((part, place) => {
    markup += part;
    if (place === strings.length - 1) return;
    const inTag = markup.lastIndexOf("<") > markup.lastIndexOf(">");
    markup += inTag ? `"\u0001${place}"` : `<!--\u0001${place}-->`;
  });
  template.innerHTML = markup.replace(/>\s+</g, "> <").trim();
  return template;
}

function bind(node, name, value) {
  if (name[0] === "@") node.addEventListener(name.slice(1), value);
  else if (typeof value === "function") effect(() => assign(node, name, value()));
  else assign(node, name, value);
}

function assign(node, name, value) {
  if (name[0] === ".") node[name.slice(1)] = value;
  else if (name[0] === "?") node.toggleAttribute(name.slice(1), Boolean(value));
  else if (name === "css") for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v);
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value);
}

function nodesOf(value) {
  if (value === null || value === undefined || value === false) return [];
  if (value instanceof DocumentFragment) return [...value.childNodes];
  if (value instanceof Node) return [value];
  if (Array.isArray(value)) return value.flatMap(nodesOf);
  return [document.createTextNode(String(value))];
}

function fill(marker, value) {
  if (typeof value !== "function") return marker.before(...nodesOf(value));
  let shown = [];
  effect(() => {
    const next = nodesOf(value()); // a node that stays where it was keeps its focus
    for (const node of shown) if (!next.includes(node)) node.remove();
    next.reduceRight((after, node) => (node.nextSibling === after || after.before(node), node), marker);
    shown = next;
  });
}

// A custom element: `make(element)` returns its nodes once it is in the page. What it follows
// ends when it leaves. Returns a function that makes one with the given properties.
export function element(name, make) {
  class Made extends HTMLElement {
    connectedCallback() {
      if (this.end) return;
      const [nodes, end] = root(() => make(this));
      this.end = end;
      this.replaceChildren(...nodesOf(nodes));
    }
    disconnectedCallback() {
      queueMicrotask(() => {
        if (this.isConnected) return;
        this.end?.();
        this.end = null;
      });
    }
  }
  customElements.define(name, Made);
  return (properties = {}) => Object.assign(document.createElement(name), properties);
}
