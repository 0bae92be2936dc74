-- Version 1. Times are in ms since 1970 UTC. Names are compared by their bytes, as SQLite does.

CREATE SCHEMA IF NOT EXISTS selvedge;

CREATE TABLE schema_version (version integer NOT NULL);
INSERT INTO schema_version VALUES (0);

CREATE TABLE edges (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE series (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    device text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    UNIQUE (tenant, device, stream)
);

-- By when the cloud stored a row. What devices and edges say of time may be anything, and would make partitions without
-- bound; the cloud's clock makes one a day.
CREATE TABLE telemetry (
    series bigint NOT NULL,
    source_time_ms bigint NOT NULL,
    received_at_ms bigint NOT NULL,
    stored_at_ms bigint NOT NULL,
    epoch bigint NOT NULL,
    sequence bigint NOT NULL,
    number double precision,
    edge integer NOT NULL,
    part smallint NOT NULL,
    kind smallint NOT NULL,
    quality text,
    body bytea
) PARTITION BY RANGE (stored_at_ms);

CREATE INDEX telemetry_by_time ON telemetry (series, source_time_ms, epoch, sequence);

-- Room in each page for a row's next version, so that an update touches no index.
CREATE TABLE latest (
    series bigint NOT NULL,
    edge integer NOT NULL,
    epoch bigint NOT NULL,
    sequence bigint NOT NULL,
    part smallint NOT NULL,
    source_time_ms bigint NOT NULL,
    received_at_ms bigint NOT NULL,
    kind smallint NOT NULL,
    number double precision,
    quality text,
    body bytea,
    PRIMARY KEY (series, edge)
) WITH (fillfactor = 50);

-- "ranges": how many the epoch has in the table of that name.
CREATE TABLE epochs (
    edge integer NOT NULL,
    epoch bigint NOT NULL,
    ranges integer NOT NULL,
    PRIMARY KEY (edge, epoch)
) WITH (fillfactor = 50);

-- The sequences that are in; no two ranges of an epoch touch.
CREATE TABLE ranges (
    edge integer NOT NULL,
    epoch bigint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    PRIMARY KEY (edge, epoch, first)
) WITH (fillfactor = 50);

-- Names are kept as bytes: they may be why the reading was rejected.
CREATE TABLE rejected (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stored_at_ms bigint NOT NULL,
    received_at_ms bigint NOT NULL,
    edge integer NOT NULL,
    epoch bigint NOT NULL,
    sequence bigint NOT NULL,
    tenant bytea NOT NULL,
    device bytea NOT NULL,
    subtopic bytea NOT NULL,
    payload bytea NOT NULL,
    reason text NOT NULL
);

CREATE INDEX rejected_by_age ON rejected (stored_at_ms);
CREATE INDEX rejected_by_tenant ON rejected (substr(tenant, 1, 256), id);
