// Context, patches, groups, acknowledgements. Mirrors projections/foldlog_projections/sessions/session.py.

import { patch } from "./delta.js";
import { Table } from "./fold.js";

export const session = {
  initial: () => ({
    context: null,
    version: 0,
    hash: null,
    pending: new Table(),
    decided: new Table(),
    acknowledged: new Table(),
    groups: new Table(),
  }),
  apply(state, record, envelope) {
    const { type } = envelope;
    if (type === "context.changed") {
      const context = patch(state.context, record.delta);
      return { ...state, context, version: record.version, hash: record.hash };
    }
    if (type === "patch.queued") {
      return { ...state, pending: state.pending.put(record.patch_id, record) };
    }
    if (type === "patch.decided") {
      const decided = state.decided.put(record.patch_id, record.outcome);
      return { ...state, decided, pending: state.pending.without([record.patch_id]) };
    }
    if (type === "steering.acknowledged") {
      if (state.acknowledged.has(record.event_id)) return state;
      return { ...state, acknowledged: state.acknowledged.put(record.event_id, record.worker) };
    }
    return { ...state, groups: grouped(state.groups, type, record) };
  },
};

function grouped(groups, type, record) {
  if (type === "group.opened") {
    const more = { status: "open", task_ids: [], ended: {}, sealed_at: null, ended_at: null };
    return groups.put(record.group_id, { ...record, ...more });
  }
  const group = groups.get(record.group_id);
  if (!group) return groups;
  let changed = group;
  let at = null;
  if (type === "group.joined") {
    changed = { ...group, task_ids: [...group.task_ids, record.task_id] };
  } else if (type === "group.sealed") {
    changed = { ...group, status: "sealed", sealed_at: record.sealed_at };
    at = record.sealed_at;
  } else if (type === "group.task_ended") {
    changed = { ...group, ended: { ...group.ended, [record.task_id]: record.status } };
    at = record.ended_at;
  }
  return groups.put(record.group_id, at === null ? changed : judged(changed, at));
}

function judged(group, at) {
  if (group.status !== "sealed" || group.task_ids.some((id) => !(id in group.ended))) return group;
  const failed = Object.values(group.ended).some((status) => status !== "COMPLETE");
  return { ...group, status: failed ? "failed" : "complete", ended_at: at };
}
