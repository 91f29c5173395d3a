// A run's steps and questions. Mirrors projections/foldlog_projections/runs/runs.py, without who has it.

import { Table } from "./fold.js";

const PHASES = {
  "run.step_started": "started",
  "run.step_done": "done",
  "run.step_failed": "failed",
  "run.step_retracted": "retracted",
  "run.step_unrecorded": "unrecorded",
  "run.step_doubted": "doubted",
  "run.asked": "asked",
  "run.answered": "done",
};

export const runs = {
  initial: () => ({ steps: new Table() }),
  apply(state, record, { type, ts }) {
    if (type === "run.rewound") return { steps: rewound(state.steps, record.step) };
    if (type === "run.used") return { steps: used(state.steps, record) };
    const phase = PHASES[type];
    return phase ? { steps: state.steps.put(record.step, step(state.steps, type, record, ts)) } : state;
  },
};

function step(steps, type, record, ts) {
  const phase = PHASES[type];
  const fresh = { step: record.step, ts, phase: "retracted", kind: "step", attempt: 0 };
  const before = steps.get(record.step) ?? fresh;
  if (type === "run.step_started") return { ...fresh, ...record, phase, attempt: before.attempt + 1 };
  if (type === "run.asked") {
    const { question, since, until } = record;
    return { ...fresh, ts: since, phase, kind: "question", question, until };
  }
  if (type === "run.answered") {
    const seconds = Math.max(ts - before.ts, 0);
    return { ...before, phase, seconds, result: record.answer, by: record.by };
  }
  return { ...before, ...record, phase };
}

function rewound(steps, first) {
  const names = steps.keys();
  const at = first ? names.indexOf(first) : 0;
  return steps.without(at < 0 ? [] : names.slice(at));
}

function used(steps, record) {
  const before = steps.get(record.step);
  if (!before) return steps;
  const sum = (name) => (before[name] ?? 0) + (record[name] ?? 0);
  const [input_tokens, output_tokens, cost_usd] = ["input_tokens", "output_tokens", "cost_usd"].map(sum);
  return steps.put(record.step, { ...before, input_tokens, output_tokens, cost_usd });
}
