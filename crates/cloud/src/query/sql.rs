//! The queries. Parameters are numbered in the order in which they first occur: SQLite numbers them so.

/// The columns of a point.
macro_rules! point {
    () => {
        "edges.name, t.epoch, t.sequence, t.source_time_ms, t.received_at_ms, t.kind, t.number, t.quality, t.body"
    };
}

pub(super) const SERIES: &str = "SELECT id FROM series WHERE tenant = $1 AND device = $2 AND stream = $3";

pub(super) const STREAMS: &str = "
SELECT stream FROM series
WHERE tenant = $1 AND device = $2 AND (CAST($3 AS text) IS NULL OR stream > $3)
ORDER BY stream LIMIT $4";

/// Of several edges' latest, the one that was received last; the greater name where that is the same.
pub(super) const LATEST: &str = concat!(
    "SELECT ",
    point!(),
    ", series.stream
FROM series
JOIN latest t ON t.series = series.id
JOIN edges ON edges.id = t.edge
WHERE series.tenant = $1 AND series.device = $2 AND (CAST($3 AS text) IS NULL OR series.stream > $3)
AND NOT EXISTS (
    SELECT 1 FROM latest other JOIN edges other_edge ON other_edge.id = other.edge
    WHERE other.series = t.series
    AND (other.received_at_ms, other_edge.name) > (t.received_at_ms, edges.name)
)
ORDER BY series.stream LIMIT $4"
);

pub(super) const RANGE: &str = concat!(
    "SELECT ",
    point!(),
    ", t.source_time_ms, t.epoch, t.sequence, t.edge, t.part
FROM telemetry t
JOIN edges ON edges.id = t.edge
WHERE t.series = $1
AND (t.source_time_ms, t.epoch, t.sequence, t.edge, t.part) > ($2, $3, $4, $5, $6)
AND t.source_time_ms < $7
ORDER BY t.source_time_ms, t.epoch, t.sequence, t.edge, t.part LIMIT $8"
);

/// From the rows of that time on, whatever series they are of: a device's whole history is not looked at for its end.
pub(super) const STORED: &str = concat!(
    "SELECT ",
    point!(),
    ", t.stored_at_ms, t.epoch, t.sequence, t.edge, t.part, series.device, series.stream
FROM telemetry t CROSS JOIN series CROSS JOIN edges
WHERE t.stored_at_ms >= $1
AND (t.stored_at_ms, t.epoch, t.sequence, t.edge, t.part) > ($1, $2, $3, $4, $5)
AND series.id = t.series AND edges.id = t.edge
AND series.tenant = $6
AND (CAST($7 AS text) IS NULL OR series.device = $7) AND (CAST($8 AS text) IS NULL OR series.stream = $8)
ORDER BY t.stored_at_ms, t.epoch, t.sequence, t.edge, t.part LIMIT $9"
);

/// A number of a bucket's first or last source time.
macro_rules! number_at {
    ($time:literal, $order:literal) => {
        concat!(
            "(SELECT number FROM telemetry WHERE series = $1 AND number IS NOT NULL AND source_time_ms = ",
            $time,
            " ORDER BY ",
            $order,
            " LIMIT 1)"
        )
    };
}

/// First and last are looked up by the index when their times are known: ordering all rows for them takes several times
/// as long as one pass over them.
pub(super) const BUCKETS: &str = concat!(
    "SELECT bucket, count, least, greatest, mean, ",
    number_at!("first_ms", "epoch, sequence, edge, part"),
    ", ",
    number_at!("last_ms", "epoch DESC, sequence DESC, edge DESC, part DESC"),
    "
FROM (
    SELECT (source_time_ms - $2) / $3 AS bucket, count(*) AS count, min(number) AS least, max(number) AS greatest,
        avg(number) AS mean, min(source_time_ms) AS first_ms, max(source_time_ms) AS last_ms
    FROM telemetry
    WHERE series = $1 AND source_time_ms >= $2 AND source_time_ms < $4 AND number IS NOT NULL
    GROUP BY (source_time_ms - $2) / $3
) AS buckets
ORDER BY bucket"
);

/// By the beginning of the tenant, as the index is: a rejected name may be longer than any index takes.
pub(super) const REJECTED: &str = "
SELECT r.id, edges.name, r.epoch, r.sequence, r.received_at_ms, r.reason, r.device, r.subtopic, r.payload
FROM rejected r
JOIN edges ON edges.id = r.edge
WHERE substr(r.tenant, 1, 256) = $1 AND r.id > $2
ORDER BY r.id LIMIT $3";
