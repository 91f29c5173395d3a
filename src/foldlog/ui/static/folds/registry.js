// The fold of each kind. Mirrors projections/foldlog_projections/registry.py.
//
// A kind that is not listed, such as one of your own, is shown as its records, in order.

import { a2atasks } from "./a2atasks.js";
import { agentstates } from "./agentstates.js";
import { artifacts } from "./artifacts.js";
import { belongings } from "./belongings.js";
import { bindings } from "./bindings.js";
import { checkpoints } from "./checkpoints.js";
import { conversations } from "./conversations.js";
import { every, last, lastBut } from "./folds.js";
import { messages } from "./messages.js";
import { pauses } from "./pauses.js";
import { runs } from "./runs.js";
import { session } from "./session.js";
import { tasks } from "./tasks.js";
import { traces } from "./traces.js";
import { workflowcheckpoints } from "./workflowcheckpoints.js";

const FOLDS = {
  a2atasks,
  agentstates,
  artifacts,
  belongings,
  bindings,
  checkpoints,
  conversations,
  events: every,
  feedback: every,
  memory: last,
  messages,
  pauses,
  planner: every,
  runs,
  scoped: lastBut("scoped.embedded"),
  session,
  steering: every,
  tasks,
  traces,
  trajectory: last,
  updates: every,
  workflowcheckpoints,
};

export function foldOf(kind) {
  return Object.hasOwn(FOLDS, kind) ? FOLDS[kind] : every;
}
