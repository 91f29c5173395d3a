// What had happened, in order, at the moment that is shown.

import { computed, effect, element, html } from "../core/reactive.js";
import { clip, clock, visible } from "../core/format.js";
import { virtualList } from "../core/virtual.js";
import { artifact, content } from "../render/content.js";
import { json } from "../render/json.js";
import { conversation, shortly } from "./said.js";

const isNew = (run, { envelope, more }) => !run.isNow.value && [envelope, ...(more ?? [])].includes(run.current.value);

export const conversationView = element("fl-conversation", (host) => {
  const { run } = host;
  const said = computed(() => conversation(run, run.states.value, run.count.value));
  const list = virtualList({
    label: "Story",
    guess: 96,
    items: () => said.value,
    tail: () => true,
    render: (each) => turn(run, each),
  });
  effect(() => {
    const current = run.current.value;
    const place = said.value.findIndex((each) => each.envelope === current || each.more?.includes(current));
    if (place >= 0 && !run.isNow.value) requestAnimationFrame(() => list.isConnected && list.reveal?.(place));
  });
  return html`${() => (said.value.length || !run.log.count.value ? null : html`<p class="empty">Nothing to tell yet at this moment.</p>`)}${list}`;
});

function turn(run, said) {
  const body = said.artifact ? artifact(run, said.artifact) : said.role === "note" ? note(run, said) : spoken(said);
  return html`<article class="turn" data-role=${said.role} data-tone=${said.isError ? "FAILED" : null} css=${{ "--depth": said.depth ?? 0 }}
    aria-current=${() => (isNew(run, said) ? "true" : null)}>${body}
    ${(said.more ?? []).map(({ line }) => html`<p class="more" data-tone=${line.tone || null}>${clip(shortly(line), 400)}</p>`)}</article>`.firstElementChild;
}

function spoken(said) {
  const { author, role, conversation, status, envelope } = said;
  return html`<header>
      <span class="who">${clip(author ?? role, 60)}</span>
      ${author && author !== role ? html`<span class="quiet">${role}</span>` : null}
      ${[conversation, status, envelope.cut && "cut"].filter(Boolean).map((each) => html`<span class="tag">${clip(each, 40)}</span>`)}
      <time class="quiet">${clock(envelope.recorded_at)}</time>
    </header>
    ${said.thoughts.map((text) => html`<details class="thought"><summary>Thought</summary>${content(text)}</details>`)}
    ${[...said.texts, ...said.others].map((each) => content(each))}
    ${said.calls.map((each) => exchange("→", each))}
    ${said.results.map((each) => exchange("←", each, role === "tool"))}`;
}

// A call of a tool, or what it returned.
function exchange(mark, { name, value = null, isError }, isAlone = false) {
  const text = value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);
  return html`<details class=${mark === "→" ? "call" : "call result"} data-tone=${isError ? "FAILED" : null} ?open=${isAlone && text.length < 200}>
    <summary><span class="mark" aria-hidden="true">${mark}</span> <span class="name">${visible(name ?? (mark === "→" ? "tool" : "result"))}</span>
      ${isError ? html`<span class="tag">failed</span>` : null} <span class="args">${clip(text, 140)}</span></summary>
    ${content(value, { open: 2 })}</details>`;
}

function note(run, { envelope, group, title, inside, by, task, waits, isAsked, more, calls = [], open = 0 }) {
  const about = [by, task].filter(Boolean).map((each) => clip(each, 60));
  const texts = inside && typeof inside === "object" ? Object.values(inside) : [inside];
  const isEmpty = inside === null || inside === undefined || (typeof inside === "object" && !texts.length);
  const isOne = texts.length === 1 && typeof texts[0] === "string";
  return html`<header><span class="tag" data-group=${group}>${clip(title, 90)}</span>
      ${() => ((isAsked && !more) || waits?.(run.states.value) ? html`<a class="tag" data-group="steering" href="#/waiting">waits</a>` : null)}
      <span class="quiet">${[...about, clock(envelope.recorded_at)].join(" · ")}</span></header>
    ${isEmpty ? null : isOne ? content(texts[0]) : json(inside, { open })}${calls.map((each) => exchange("→", each))}`;
}
