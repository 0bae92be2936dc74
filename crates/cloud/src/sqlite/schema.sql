-- Version 1. Times are in ms since 1970 UTC.

CREATE TABLE edges (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE series (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    device TEXT NOT NULL,
    stream TEXT NOT NULL,
    UNIQUE (tenant, device, stream)
) STRICT;

CREATE TABLE telemetry (
    id INTEGER PRIMARY KEY,
    series INTEGER NOT NULL,
    source_time_ms INTEGER NOT NULL,
    received_at_ms INTEGER NOT NULL,
    stored_at_ms INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    edge INTEGER NOT NULL,
    part INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    number REAL,
    quality TEXT,
    body BLOB
) STRICT;

CREATE INDEX telemetry_by_time ON telemetry (series, source_time_ms, epoch, sequence);

-- By which rows are removed. Rows come in its order, so that it costs little.
CREATE INDEX telemetry_by_age ON telemetry (stored_at_ms);

CREATE TABLE latest (
    series INTEGER NOT NULL,
    edge INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    part INTEGER NOT NULL,
    source_time_ms INTEGER NOT NULL,
    received_at_ms INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    number REAL,
    quality TEXT,
    body BLOB,
    PRIMARY KEY (series, edge)
) STRICT, WITHOUT ROWID;

-- `ranges`: how many the epoch has in the table of that name.
CREATE TABLE epochs (
    edge INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    ranges INTEGER NOT NULL,
    PRIMARY KEY (edge, epoch)
) STRICT, WITHOUT ROWID;

-- The sequences that are in; no two ranges of an epoch touch.
CREATE TABLE ranges (
    edge INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (edge, epoch, first)
) STRICT, WITHOUT ROWID;

-- Names are kept as bytes: they may be why the reading was rejected.
CREATE TABLE rejected (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    stored_at_ms INTEGER NOT NULL,
    received_at_ms INTEGER NOT NULL,
    edge INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    tenant BLOB NOT NULL,
    device BLOB NOT NULL,
    subtopic BLOB NOT NULL,
    payload BLOB NOT NULL,
    reason TEXT NOT NULL
) STRICT;

CREATE INDEX rejected_by_age ON rejected (stored_at_ms);
CREATE INDEX rejected_by_tenant ON rejected (substr(tenant, 1, 256), id);
