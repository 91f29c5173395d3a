-- The tables of the StateStore specification 2.11 ("Database Schema Recommendations") that are
-- measured, with every index it names.

CREATE TABLE flow_events (
    id BIGSERIAL PRIMARY KEY,
    trace_id VARCHAR(128) NOT NULL,
    ts DOUBLE PRECISION NOT NULL,
    kind VARCHAR(64) NOT NULL,
    node_name VARCHAR(128),
    node_id VARCHAR(128),
    event_fp VARCHAR(64) NOT NULL,
    payload JSONB,
    created_at TIMESTAMPTZ DEFAULT NOW(),
    UNIQUE (trace_id, event_fp)
);
CREATE INDEX idx_events_trace_ts ON flow_events(trace_id, ts, id);
CREATE INDEX idx_events_kind ON flow_events(kind);

CREATE TABLE planner_pauses (
    token VARCHAR(128) PRIMARY KEY,
    payload JSONB NOT NULL,
    created_at TIMESTAMPTZ DEFAULT NOW(),
    expires_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX idx_pauses_expires ON planner_pauses(expires_at);

CREATE TABLE memory_states (
    key VARCHAR(256) PRIMARY KEY,
    state JSONB NOT NULL,
    updated_at TIMESTAMPTZ DEFAULT NOW()
);

CREATE TABLE state_updates (
    id BIGSERIAL PRIMARY KEY,
    session_id VARCHAR(64) NOT NULL,
    task_id VARCHAR(64) NOT NULL,
    trace_id VARCHAR(64),
    update_id VARCHAR(64) NOT NULL UNIQUE,
    update_type VARCHAR(32) NOT NULL,
    content JSONB,
    step_index INTEGER,
    total_steps INTEGER,
    created_at TIMESTAMPTZ DEFAULT NOW()
);
CREATE INDEX idx_updates_session ON state_updates(session_id);
CREATE INDEX idx_updates_task ON state_updates(session_id, task_id);
CREATE INDEX idx_updates_cursor ON state_updates(session_id, id);

CREATE TABLE steering_events (
    id BIGSERIAL PRIMARY KEY,
    session_id VARCHAR(64) NOT NULL,
    task_id VARCHAR(64) NOT NULL,
    event_id VARCHAR(64) NOT NULL UNIQUE,
    event_type VARCHAR(32) NOT NULL,
    payload JSONB,
    trace_id VARCHAR(64),
    source VARCHAR(32) DEFAULT 'user',
    created_at TIMESTAMPTZ DEFAULT NOW()
);
CREATE INDEX idx_steering_session ON steering_events(session_id);
CREATE INDEX idx_steering_task ON steering_events(session_id, task_id);
