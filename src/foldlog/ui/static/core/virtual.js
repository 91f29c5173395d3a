// A list of any length: only what can be seen is in the page. Heights are measured once seen.

import { firstWhere } from "../folds/fold.js";
import { effect, element, onEnd, root, signal } from "./reactive.js";

const BEYOND = 400; // pixels above and below that are rendered as well

// Properties: `items()` returns an array of objects, another one if it changed; `render(item)` a
// node; `guess` a height; `tail()` whether to stay at the end; `label`.
export const virtualList = element("fl-list", (host) => {
  const { items, render, guess = 36, tail = () => false, label = "" } = host;
  const heights = new WeakMap(); // of items that are not as high as guessed
  const scrolled = signal(0);
  const inner = document.createElement("div");
  inner.className = "rows";
  host.tabIndex = 0;
  host.setAttribute("role", "list");
  if (label) host.setAttribute("aria-label", label);
  let shown = new Map();
  let stuck = true;
  let tops = new Float64Array(1);
  let measured = null; // the list that `tops` is of; null where a height has changed
  const watcher = new ResizeObserver(() => (scrolled.value += 1));

  const measure = (list) => {
    if (list === measured) return;
    measured = list;
    tops = new Float64Array(list.length + 1);
    for (let i = 0; i < list.length; i++) tops[i + 1] = tops[i] + (heights.get(list[i]) ?? guess);
    inner.style.height = `${tops[list.length]}px`; // before anything scrolls to a place in it
  };
  const placeAt = (offset, count) => firstWhere(count, (place) => tops[place + 1] > offset);

  const drop = ({ node, end }) => {
    end();
    watcher.unobserve(node);
    node.remove();
  };

  const draw = (list) => {
    const top = host.scrollTop;
    const first = placeAt(top - BEYOND, list.length);
    const last = Math.min(placeAt(top + host.clientHeight + BEYOND, list.length) + 1, list.length);
    const next = new Map();
    for (let i = first; i < last; i++) {
      const item = list[i];
      if (shown.has(item)) next.set(item, shown.get(item));
      else {
        const [inside, end] = root(() => render(item));
        const node = document.createElement("div");
        node.setAttribute("role", "listitem");
        node.className = "row";
        node.append(inside);
        next.set(item, { node, end });
        watcher.observe(node); // a picture comes later than the text around it
      }
      const { node } = next.get(item);
      node.dataset.place = i;
      node.style.transform = `translateY(${tops[i]}px)`;
      if (node.parentNode !== inner) inner.append(node);
    }
    for (const [item, each] of shown) if (!next.has(item)) drop(each);
    shown = next;
    for (const [item, { node }] of shown) {
      const height = node.offsetHeight;
      if (!height || height === (heights.get(item) ?? guess)) continue;
      heights.set(item, height);
      measured = null;
    }
    return measured === null;
  };

  const settle = (list) => {
    for (let round = 0; round < 4; round++) {
      measure(list);
      if (stuck && tail()) host.scrollTop = tops[list.length];
      if (!draw(list)) break;
    }
    if (stuck && tail()) host.scrollTop = tops[list.length];
  };

  host.reveal = (place) => {
    const list = items();
    measure(list);
    const above = tops[place] < host.scrollTop;
    const below = tops[place + 1] > host.scrollTop + host.clientHeight;
    if (above || below) host.scrollTop = Math.max(tops[place] - host.clientHeight / 3, 0);
    settle(list);
  };

  effect(() => {
    scrolled.value;
    const list = items();
    tail();
    requestAnimationFrame(() => host.isConnected && settle(list));
  });
  host.addEventListener("scroll", () => {
    stuck = host.scrollTop + host.clientHeight >= host.scrollHeight - 24;
    scrolled.value += 1;
  });
  watcher.observe(host);
  onEnd(() => {
    watcher.disconnect();
    for (const each of shown.values()) drop(each);
    shown = new Map();
  });
  return inner;
});
