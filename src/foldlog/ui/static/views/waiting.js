// The inbox: what waits for a person, over all sessions, and the answers.

import { element, html, root, signal } from "../core/reactive.js";
import { ago, clip } from "../core/format.js";
import { get, post } from "../core/api.js";
import { polled } from "../core/polled.js";
import { content } from "../render/content.js";
import { form, schemaOf } from "./forms.js";
import { submits, toast } from "./dialog.js";

export const waitingView = element("fl-waiting", (host) => {
  const { session = null, about } = host;
  const items = signal(null);
  const { error, look } = polled(async () => {
    const found = (await get("waiting", { session })).waiting;
    const known = JSON.stringify(items.value?.map((each) => each.id));
    if (known !== JSON.stringify(found.map((each) => each.id))) items.value = found;
  });
  const cards = new Map(); // by id: what somebody has begun to fill in stays when others come
  const shown = (found) => {
    for (const id of cards.keys()) if (!found.some((each) => each.id === id)) cards.delete(id);
    return found.map((each) => {
      if (!cards.has(each.id)) cards.set(each.id, root(() => card(each, about, look).firstElementChild)[0]);
      return cards.get(each.id);
    });
  };
  return html`<div class="page"><h1>Waiting for a person</h1>
    ${() => (error.value ? html`<p class="error" role="alert">${error.value}</p>` : null)}
    ${() => {
      if (items.value === null) return html`<p class="empty" role="status">Loading…</p>`;
      if (!items.value.length) return html`<p class="empty">Nothing waits. Pauses, patches, paused tasks and questions come here.</p>`;
      return null;
    }}
    <ol class="cards" ?hidden=${() => !items.value?.length}>${() => shown(items.value ?? [])}</ol></div>`;
});

function card(item, about, look) {
  const asked = item.asked;
  const title = item.line || `A ${item.kind}`;
  const where = item.session_id ? html`<a href=${`#/session/${encodeURIComponent(item.session_id)}`}>${clip(item.session_id, 60)}</a>` : html`<span>${clip(item.state_id ?? item.trace_id ?? "", 60)}</span>`;
  return html`<li class="card waits"><header><span class="tag" data-group="steering">${item.kind}</span>
      <h2 dir="auto">${clip(title, 160)}</h2></header>
    <p class="quiet">${where} ${item.task_id ? `· ${clip(item.task_id, 60)} ` : ""}· ${ago(Date.parse(item.since) / 1000)}
      ${item.until ? ` · until ${new Date(item.until).toLocaleString()}` : ""}${item.by ? ` · for ${clip(item.by, 40)}` : ""}</p>
    ${asked && typeof asked === "object" ? html`<details><summary>What is asked</summary>${content(asked, { open: 2 })}</details>` : null}
    ${asked?.answer_in ? html`<p>Answer it in ${clip(asked.answer_in, 160)}.</p>` : about.read_only ? html`<p class="quiet">This page is read-only.</p>` : answering(item, look)}</li>`;
}

function answering(item, look) {
  const give = async (answer) => {
    const done = await post("answer", { id: item.id, answer, session: item.session_id });
    toast(`${item.kind} ${done.decision}`);
    await look();
  };
  if (item.kind !== "question") {
    const [yes, no] = { patch: ["Approve", "Reject"], task: ["Resume", "Cancel the task"], pause: ["Resume"], step: ["It happened", "It did not"] }[item.kind];
    return submits(null, [[yes, "primary", "yes"], ...(no ? [[no, "danger", "no"]] : [])], (value) => give(value === "yes"));
  }
  const schema = schemaOf(item.asked);
  if (schema) {
    const fields = form(schema);
    return submits(fields.node, [["Answer"]], () => give(fields.value()));
  }
  const text = form({ type: "string", title: "Or an answer in words" }, "text", false);
  const verbs = html`<div class="buttons"><button class="primary" value="yes">Yes</button><button value="no">No</button></div>`;
  return submits(html`${verbs}${text.node}`, [["Answer", "", "text"]], (value) => {
    if (value !== "text") return give(value === "yes");
    const said = text.value();
    if (said === undefined) throw new Error("the answer is missing");
    return give(said);
  });
}
