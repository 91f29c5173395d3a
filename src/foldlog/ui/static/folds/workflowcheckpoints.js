// Checkpoints of workflows. Mirrors projections/foldlog_projections/agent_framework/workflowcheckpoints.py.

import { Table } from "./fold.js";

export const workflowcheckpoints = {
  initial: () => new Table(),
  apply: (state, record) => state.put(record.id, record),
};
