// Dialogs, messages, and forms that both the page and its dialogs use.

import { html } from "../core/reactive.js";

export function dialog(title, body) {
  const node = html`<dialog aria-label=${title}><header><h2>${title}</h2>
    <button class="icon close" aria-label="Close">×</button></header></dialog>`.firstElementChild;
  const close = () => node.close();
  node.querySelector(".close").addEventListener("click", close);
  node.append(body(close));
  node.addEventListener("close", () => node.remove());
  document.body.append(node);
  node.showModal();
  return node;
}

export function toast(text, tone = "") {
  const region = document.getElementById("toasts");
  const node = html`<p class="toast" data-tone=${tone}>${text}</p>`.firstElementChild;
  region.append(node);
  node.addEventListener("click", () => node.remove());
  setTimeout(() => node.remove(), 6000);
}

// A form with buttons: [label, class, value]. They wait while `act(value)` runs; where it fails,
// the reason is shown above them.
export function submits(body, buttons, act) {
  const form = html`<form>${body}<p class="problem" role="alert"></p><div class="buttons">
    ${buttons.map(([label, tone = "primary", value = ""]) => html`<button class=${tone} value=${value}>${label}</button>`)}</div></form>`.firstElementChild;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const all = form.querySelectorAll("button");
    for (const each of all) each.disabled = true;
    const problem = form.querySelector(".problem");
    problem.textContent = "";
    try {
      await act(event.submitter?.value);
    } catch (error) {
      problem.textContent = error.errors ? error.errors.join("; ") : error.message;
    }
    for (const each of all) each.disabled = false;
  });
  return form;
}
