// Steering a task of the session that is shown: a form for each type of event.

import { html } from "../core/reactive.js";
import { post } from "../core/api.js";
import { dialog, submits, toast } from "./dialog.js";
import { form } from "./forms.js";
import { viewsOf } from "./state.js";

const text = (title) => ({ type: "string", title });
const reason = { reason: text("Reason") };
const decision = { patch_id: text("Patch"), decision: text("Why") };

// What docs/guides/sessions.md says that each type needs.
export const TYPES = {
  USER_MESSAGE: { about: "Say something to the agent.", properties: { text: text("Message") }, required: ["text"] },
  INJECT_CONTEXT: {
    about: "Tell it something that it should know.",
    properties: { text: text("Context"), scope: { enum: ["foreground", "task_only"] }, severity: { enum: ["note", "correction"] } },
    required: ["text"],
  },
  REDIRECT: { about: "Give it another goal.", properties: { instruction: text("Instruction") }, required: ["instruction"] },
  PAUSE: { about: "Stop it until somebody resumes it.", properties: reason, required: [] },
  RESUME: { about: "Let it go on.", properties: reason, required: [] },
  PRIORITIZE: { about: "Change its priority; greater is sooner.", properties: { priority: { type: "integer", title: "Priority" } }, required: ["priority"] },
  CANCEL: { about: "End it, with all that it spawned.", properties: { ...reason, hard: { type: "boolean", title: "At once" } }, required: [] },
  APPROVE: { about: "Apply a patch that waits.", properties: decision, required: ["patch_id"] },
  REJECT: { about: "Drop a patch that waits.", properties: decision, required: ["patch_id"] },
};

export function steerDialog(run) {
  const tasks = viewsOf(run.states.value, "tasks").flatMap(({ state }) => state.values());
  const patches = viewsOf(run.states.value, "session").flatMap(({ state }) => state.pending.keys());
  dialog("Steer", (close) => {
    if (!tasks.length) return html`<p class="empty">This session has no task to steer.</p>`;
    const ids = tasks.map((task) => task.task_id);
    const chosen = form({ enum: ids, title: "Task" });
    const type = form({ enum: Object.keys(TYPES), title: "What" });
    const place = document.createElement("div");
    const about = html`<p class="quiet"></p>`.firstElementChild;
    let fields = null;
    const show = () => {
      const { about: said, properties, required } = TYPES[type.value()];
      about.textContent = said;
      const known = properties.patch_id && patches.length ? { ...properties, patch_id: { enum: patches, title: "Patch" } } : properties;
      fields = form({ type: "object", properties: known, required, title: "With" });
      place.replaceChildren(fields.node);
    };
    const node = submits(html`${chosen.node}${type.node}${about}${place}`, [["Steer"]], async () => {
      const event = { session_id: run.id, task_id: chosen.value(), event_type: type.value(), payload: fields.value() };
      const done = await post("steer", event);
      toast(done.took_effect ? "It is on record and took effect." : "There was nothing to decide.");
      close();
    });
    node.addEventListener("change", (event) => event.target === node.querySelectorAll("select")[1] && show());
    const running = tasks.findLast((task) => ["RUNNING", "PAUSED", "PENDING"].includes(task.status));
    node.querySelector("select").value = ids.indexOf((running ?? tasks.at(-1)).task_id);
    show();
    return node;
  });
}

export function forkDialog(run) {
  const at = run.isNow.value ? null : run.current.value?.position;
  dialog("Fork", (close) => {
    const to = form(text("Id of the new session"), "to", false);
    const about = html`<p>A new session that goes on from ${at ? html`<code>${at.split("~")[0]}</code>, the moment that is shown` : "now"}. The original stays as it is.</p>`;
    return submits(html`${about}${to.node}`, [["Fork"]], async () => {
      const made = await post("fork", { session_id: run.id, at, to: to.value() });
      toast(`Forked into ${made.session_id}`);
      close();
      location.hash = `#/session/${encodeURIComponent(made.session_id)}`;
    });
  });
}

export function feedbackDialog(run, traces) {
  dialog("Feedback", (close) => {
    const trace = form({ enum: traces, title: "Trace" });
    const score = form({ type: "number", title: "Score" }, "score", false);
    const comment = form(text("Comment"), "comment", false);
    return submits(html`${trace.node}${score.node}${comment.node}`, [["Save"]], async () => {
      await post("feedback", { trace_id: trace.value(), score: score.value(), comment: comment.value() });
      toast("Thank you: it is on record.");
      close();
    });
  });
}
