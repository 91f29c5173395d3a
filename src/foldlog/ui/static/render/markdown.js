// Markdown as nodes: headings, lists, code, quotes, tables, emphasis, links. Nothing in a text is
// ever parsed as HTML, and a link goes to http, https or mail only.

import { visible } from "../core/format.js";

const INLINE = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|__([^_\n]+)__|\*([^*\s][^*\n]*)\*|\[([^\]\n]+)\]\(([^)\s]+)\)|(https?:\/\/[^\s<>()]+)/g;

export function markdown(text) {
  const node = make("div", "markdown");
  node.dir = "auto";
  const lines = visible(text).split("\n");
  let at = 0;
  while (at < lines.length) at = block(node, lines, at);
  return node;
}

function make(name, className = "", text = "") {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.textContent = text;
  return node;
}

// Render the block that begins at a line, and return where the next one begins.
function block(parent, lines, at) {
  const line = lines[at];
  if (!line.trim()) return at + 1;
  const fence = /^\s*(```+|~~~+)/.exec(line);
  if (fence) return code(parent, lines, at, fence[1]);
  const heading = /^(#{1,6})\s+(.*)/.exec(line);
  if (heading) {
    // Headings of a message must not stand among those of the page.
    const node = make("p", `heading h${heading[1].length}`);
    inline(node, heading[2]);
    parent.append(node);
    return at + 1;
  }
  if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
    parent.append(make("hr"));
    return at + 1;
  }
  if (/^\s*>/.test(line)) return quote(parent, lines, at);
  if (/^\s*([-*+]|\d+[.)])\s/.test(line)) return list(parent, lines, at);
  if (line.includes("|") && /^[\s|:-]+$/.test(lines[at + 1] ?? "") && lines[at + 1].includes("-")) {
    return table(parent, lines, at);
  }
  return paragraph(parent, lines, at);
}

function code(parent, lines, at, fence) {
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().startsWith(fence)) end += 1;
  const pre = make("pre");
  pre.tabIndex = 0;
  pre.append(make("code", "", lines.slice(at + 1, end).join("\n")));
  parent.append(pre);
  return end + 1;
}

function quote(parent, lines, at) {
  const node = make("blockquote");
  const inside = [];
  while (at < lines.length && /^\s*>/.test(lines[at])) inside.push(lines[at++].replace(/^\s*>\s?/, ""));
  inline(node, inside.join("\n"));
  parent.append(node);
  return at;
}

function list(parent, lines, at) {
  const ordered = /^\s*\d/.test(lines[at]);
  const node = make(ordered ? "ol" : "ul");
  const item = /^(\s*)([-*+]|\d+[.)])\s+(.*)/;
  while (at < lines.length && item.test(lines[at])) {
    const [, indent, , text] = item.exec(lines[at]);
    const li = make("li", indent.length > 1 ? "inner" : "");
    let whole = text;
    at += 1;
    while (at < lines.length && /^\s{2,}\S/.test(lines[at]) && !item.test(lines[at])) {
      whole += `\n${lines[at++].trim()}`;
    }
    inline(li, whole);
    node.append(li);
  }
  parent.append(node);
  return at;
}

function table(parent, lines, at) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|");
  const node = make("table");
  const row = (line, name) => {
    const tr = make("tr");
    for (const cell of cells(line)) {
      const td = make(cell.trim() ? name : "td"); // a heading says something
      inline(td, cell.trim());
      tr.append(td);
    }
    node.append(tr);
  };
  row(lines[at], "th");
  at += 2;
  while (at < lines.length && lines[at].includes("|")) row(lines[at++], "td");
  const scroller = make("div", "scroller");
  scroller.append(node);
  parent.append(scroller);
  return at;
}

function paragraph(parent, lines, at) {
  const node = make("p");
  const inside = [];
  const begins = /^\s*(```|~~~|#{1,6}\s|>|([-*+]|\d+[.)])\s)/;
  do inside.push(lines[at++]);
  while (at < lines.length && lines[at].trim() && !begins.test(lines[at]));
  inline(node, inside.join("\n"));
  parent.append(node);
  return at;
}

function inline(parent, text) {
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    parent.append(text.slice(from, found.index));
    from = found.index + found[0].length;
    const [whole, literal, strong, strong2, em, label, target, bare] = found;
    if (literal !== undefined) parent.append(make("code", "", literal));
    else if (strong ?? strong2) parent.append(make("strong", "", strong ?? strong2));
    else if (em !== undefined) parent.append(make("em", "", em));
    else parent.append(link(label ?? bare, target ?? bare) ?? whole);
  }
  parent.append(text.slice(from));
}

function link(label, target) {
  if (!/^(https?:|mailto:)/i.test(target)) return null;
  const node = make("a", "", label);
  node.href = target;
  node.target = "_blank";
  node.rel = "noopener noreferrer";
  return node;
}
