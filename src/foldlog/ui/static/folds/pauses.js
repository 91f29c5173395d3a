// One pause: what waits to be resumed. Mirrors projections/foldlog_projections/pauses.py.

const UPSERT = /^~[0-9a-f]{40}~[0-9a-f]{16}$/;

const contentOf = (id) => (UPSERT.test(id) ? id.slice(0, -17) : id);

export const pauses = {
  initial: () => ({ waiting: null, offered: [], spent: [] }),
  replaces: (_, type) => (type === "pause.consumed" ? null : ""),
  apply(state, record, envelope) {
    if (envelope.type === "pause.consumed") {
      return { waiting: null, offered: [], spent: [...state.spent, ...state.offered] };
    }
    const content = contentOf(envelope.id);
    if (state.spent.includes(content)) return state;
    return { ...state, waiting: record, offered: [...state.offered, content] };
  },
};
