// A task of an A2A server. Mirrors projections/foldlog_projections/a2a/a2atasks.py.

import { patch } from "./delta.js";

export const a2atasks = {
  initial: () => ({ version: 0, body: null, configs: {} }),
  apply(state, record, { type }) {
    if (type === "agent_task.saved") {
      return { ...state, version: record.version, body: record.change ? patch(state.body, record.change) : state.body };
    }
    const { [record.config_id]: _, ...others } = state.configs[record.owner] ?? {};
    const configs = record.config === null ? others : { ...others, [record.config_id]: record.config };
    return { ...state, configs: { ...state.configs, [record.owner]: configs } };
  },
};
