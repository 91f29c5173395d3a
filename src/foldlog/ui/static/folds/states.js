// An execution's last snapshot and its steps. Mirrors projections/foldlog_projections/states.py.

import { joined, patch } from "./delta.js";
import { Table } from "./fold.js";

const PHASES = {
  "step.intended": "intended",
  "step.done": "done",
  "step.failed": "failed",
  "step.unrecorded": "unrecorded",
  "step.waiting": "waiting",
  "step.retracted": "retracted",
};

export const states = {
  initial: () => ({
    value: null,
    epoch: 0,
    owner: "",
    tenure: "",
    steps: new Table(),
    rewound: "",
    saving: "",
    pieces: [],
  }),
  apply(state, record, { type, ts }) {
    if (type === "state.saved") return saved(state, record);
    if (type === "execution.owned") return { ...state, ...record };
    if (type === "execution.rewound") return rewound(state, record.address);
    return { ...state, steps: state.steps.put(record.address, step(state, type, record, ts)) };
  },
};

function saved(state, record) {
  const pieces = record.save === state.saving ? state.pieces : [];
  if (record.partial) return { ...state, saving: record.save, pieces: [...pieces, record.delta] };
  const value = joined([...pieces, record.delta]).reduce(patch, state.value);
  return { ...state, value, saving: "", pieces: [] };
}

function rewound(state, address) {
  const addresses = state.steps.keys();
  const at = addresses.indexOf(address);
  const gone = at < 0 ? [] : addresses.slice(at);
  return { ...state, rewound: address, steps: state.steps.without(gone) };
}

function step(state, type, record, ts) {
  const { epoch } = state;
  const fresh = { address: record.address, event_type: "", phase: "", epoch: 0, attempt: 0, ts };
  const before = state.steps.get(record.address) ?? fresh;
  const phase = PHASES[type];
  if (phase === "intended") {
    const attempt = before.attempt + 1;
    return { ...fresh, event_type: record.event_type, phase, epoch, attempt };
  }
  const made = { ...before, ...record, epoch, phase };
  if (phase === "waiting") {
    made.event_type = "user";
    const asked = JSON.stringify(before.request) !== JSON.stringify(record.request);
    if (before.phase === "waiting" && asked) made.ts = ts;
  }
  return made;
}
