// What a record is called, and what it says in a line, is declared by its kind: `line` has it.

import { costsOf } from "../core/log.js";

export const groupOf = ({ line }) => line.group;

// Whether a record only says where others are.
export const isList = ({ line }) => line.group === "lists";

// A group's name on a button.
export const headed = (group) => group[0].toUpperCase() + group.slice(1);

export const costs = (envelope) => costsOf(envelope.view[0], envelope.record);

// The task that a task was spawned from.
export const parentOf = (task) => {
  const parent = task.context_snapshot?.spawned_from_task_id;
  return parent && parent !== task.task_id ? parent : null;
};
