//! What happens beside the traffic: time passes, the log is written, read and tidied, connections stall.

use broker::{ConnId, Position, Record};

use crate::run::Run;

impl Run {
    pub(crate) fn open(&mut self, who: usize) {
        let Some(conn) = self.ready(who) else { return };
        self.out.wires.get_mut(&conn).expect("connected").has_room = true;
        self.broker.writable(self.now, ConnId(conn), &mut self.out);
    }

    pub(crate) fn toggle_room(&mut self, who: usize) {
        let Some(conn) = self.ready(who) else { return };
        let wire = self.out.wires.get_mut(&conn).expect("connected");
        wire.has_room = !wire.has_room;
        if wire.has_room {
            self.broker.writable(self.now, ConnId(conn), &mut self.out);
        }
    }

    pub(crate) fn commit_some(&mut self) {
        let next: Vec<usize> = self
            .groups
            .iter()
            .copied()
            .filter(|end| *end > self.out.durable)
            .collect();
        if !next.is_empty() {
            let end = self.rng.pick(&next);
            self.commit(end);
        }
    }

    pub(crate) fn commit_all(&mut self) {
        self.commit(self.out.log.len());
    }

    pub(crate) fn commit(&mut self, end: usize) {
        self.out.trace(|| format!("commit {end}"));
        self.out.durable = end;
        self.groups.retain(|other| *other > end);
        if std::mem::take(&mut self.out.is_commit_awaited) {
            self.broker.committed(self.now, &mut self.out);
        }
    }

    pub(crate) fn load_one(&mut self) {
        let Some(position) = self.out.loads.pop_first() else {
            return;
        };
        let body = self.out.log[position.0 as usize - 1].body.clone();
        self.broker.loaded(self.now, position, Some(&body), &mut self.out);
    }

    pub(crate) fn load_all(&mut self) {
        while !self.out.loads.is_empty() {
            self.load_one();
        }
    }

    pub(crate) fn pass_time(&mut self) {
        let ms = self.rng.pick(&[1, 999, 3_000, 6_000, 120_000]);
        self.advance(ms);
    }

    pub(crate) fn advance(&mut self, ms: u64) {
        self.now.monotonic_ms += ms;
        self.now.unix_ms += ms;
        self.out.now_ms = self.now.unix_ms;
        self.due_wills();
        for who in 0..self.clients.len() {
            let Some(session) = self.reference.sessions.get(&who) else {
                continue;
            };
            let ends = session.ended_at_ms.filter(|_| session.expiry_s != u32::MAX);
            if ends.is_some_and(|at_ms| at_ms + u64::from(session.expiry_s) * 1000 <= self.now.unix_ms) {
                self.session_ends(who);
            }
        }
        self.broker.tick(self.now, &mut self.out);
    }

    /// The log takes the place of its oldest records back.
    pub(crate) fn collect(&mut self) {
        self.commit_all();
        let end = self.out.start + self.rng.below(self.out.durable - self.out.start + 1);
        for at in self.out.start..end {
            let entry = &self.out.log[at];
            if entry.is_cancelled {
                continue;
            }
            let (meta, body) = (entry.meta.clone(), entry.body.clone());
            let record = Record::decode(&meta, &body).expect("what was logged");
            // Values that were released are offered as well: the log does not know them one by one.
            if record.is_tombstone() {
                continue;
            }
            if self
                .broker
                .relocate(self.now, Position(at as u64 + 1), &record, &mut self.out)
                .is_err()
            {
                return;
            }
            assert!(self.out.log[at].is_released);
        }
        self.commit_all();
        self.out.start = end;
    }
}
