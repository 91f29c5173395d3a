// The conversation as it stood at the moment that is shown.

import { computed, effect, element, html } from "../core/reactive.js";
import { clip, clock, visible } from "../core/format.js";
import { virtualList } from "../core/virtual.js";
import { artifact, content } from "../render/content.js";
import { json } from "../render/json.js";
import { conversation } from "./said.js";

const isNew = (run, envelope) => !run.isNow.value && (envelope.of ?? envelope) === run.current.value;

export const conversationView = element("fl-conversation", (host) => {
  const { run } = host;
  const said = computed(() => conversation(run, run.states.value, run.count.value));
  const list = virtualList({
    label: "Conversation",
    guess: 96,
    items: () => said.value,
    tail: () => true,
    render: (each) => turn(run, each),
  });
  effect(() => {
    const current = run.current.value;
    const place = said.value.findLastIndex((each) => (each.of ?? each) === current);
    if (place >= 0 && !run.isNow.value) requestAnimationFrame(() => list.isConnected && list.reveal?.(place));
  });
  return html`${() => (said.value.length ? null : html`<p class="empty">No words yet at this moment. The timeline has all that was recorded.</p>`)}${list}`;
});

function turn(run, envelope) {
  const { said } = envelope;
  const body = said.role === "note" ? note(run, envelope, said) : spoken(envelope, said);
  return html`<article class="turn" data-role=${said.role}
    aria-current=${() => (isNew(run, envelope) ? "true" : null)}>${body}</article>`.firstElementChild;
}

function spoken(envelope, said) {
  const shown = said.role === "tool" && !said.texts.length;
  return html`<header>
      <span class="who">${clip(said.author ?? said.role, 60)}</span>
      ${said.author && said.author !== said.role ? html`<span class="quiet">${said.role}</span>` : null}
      ${said.conversation ? html`<span class="tag">${clip(said.conversation, 40)}</span>` : null}
      <time class="quiet">${clock(envelope.recorded_at)}</time>
      ${envelope.cut ? html`<span class="tag">cut</span>` : null}
    </header>
    ${said.thoughts.map((text) => html`<details class="thought"><summary>Thought</summary>${content(text)}</details>`)}
    ${said.texts.map((text) => content(text))}
    ${said.others.map((each) => content(each))}
    ${said.calls.map(({ name, input }) => exchange("→", name ?? "tool", input))}
    ${said.results.map(({ name, output }) => exchange("←", name ?? "result", output, shown))}`;
}

// A call of a tool, or what it returned.
function exchange(mark, name, value = null, isAlone = false) {
  const text = value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);
  return html`<details class=${mark === "→" ? "call" : "call result"} ?open=${isAlone && text.length < 200}><summary><span class="mark" aria-hidden="true">${mark}</span>
      <span class="name">${visible(name)}</span> <span class="args">${clip(text, 140)}</span></summary>
    ${content(value, { open: 2 })}</details>`;
}

function note(run, envelope, { steering, update, feedback, artifact: saved }) {
  if (saved) return artifact(run, saved);
  if (feedback) {
    const score = feedback.score === null || feedback.score === undefined ? "" : ` ${feedback.score}`;
    return html`<header><span class="tag" data-group="feedback">feedback${score}</span>
      <span class="quiet">${clip(feedback.author ?? "", 40)} ${clock(envelope.recorded_at)}</span></header>
      ${feedback.comment ? content(feedback.comment) : null}`;
  }
  const record = steering ?? update;
  const title = (steering ? steering.event_type : update.update_type).toLowerCase().replace("_", " ");
  const inside = steering ? withoutBy(steering.payload) : update.content;
  const by = steering ? steering.payload.by ?? steering.source : record.task_id;
  return html`<header><span class="tag" data-group=${steering ? "steering" : "update"}>${title}</span>
      <span class="quiet">${clip(by ?? "", 40)} · ${clip(record.task_id, 60)} · ${clock(envelope.recorded_at)}</span></header>
    ${Object.keys(inside ?? {}).length || typeof inside === "string" ? body(inside) : null}`;
}

const withoutBy = (payload) => Object.fromEntries(Object.entries(payload).filter(([key]) => key !== "by"));

function body(inside) {
  const texts = typeof inside === "object" ? Object.values(inside) : [];
  if (texts.length === 1 && typeof texts[0] === "string") return content(texts[0]);
  return typeof inside === "string" ? content(inside) : json(inside, { open: 0 });
}
