//! Calls, bytes, rounds and seconds by operation.
use crate::moment::Moment;
use std::collections::BTreeMap;
use std::time::Duration;

pub use crate::moment::cpu_seconds;

/// What one operation cost, in all its calls, that of the operations inside it included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Times it ran.
    pub calls: u64,
    /// Bytes sent, framing included.
    pub sent: u64,
    /// Bytes received, framing included.
    pub received: u64,
    /// Times a message was awaited after one had been sent (or at the start).
    pub rounds: u64,
    /// Seconds by the clock, those of a simulated link included.
    pub wall: f64,
    /// CPU seconds of the process, all its threads (of both parties when they share a process).
    pub cpu: f64,
}

/// What a channel has counted at one moment.
#[derive(Clone, Copy, Default)]
pub(crate) struct Meter {
    pub sent: u64,
    pub received: u64,
    pub skipped: Duration,
}

struct Running {
    path: String,
    began: Moment,
    meter: Meter,
    rounds: u64,
}

/// Costs by path ("gelu", "gelu/less").
#[derive(Default)]
pub struct Profile {
    costs: BTreeMap<String, Cost>,
    running: Vec<Running>,
    rounds: u64,
    awaiting: bool,
}

impl Profile {
    /// Costs by path.
    pub fn costs(&self) -> &BTreeMap<String, Cost> {
        &self.costs
    }

    /// Rounds of the session so far.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Path of the innermost operation that is running.
    #[cfg(test)]
    pub(crate) fn operation(&self) -> &str {
        self.running.last().map_or("", |running| &running.path)
    }

    pub(crate) fn sending(&mut self) {
        self.awaiting = false;
    }

    pub(crate) fn receiving(&mut self) {
        if !self.awaiting {
            self.rounds += 1;
        }
        self.awaiting = true;
    }

    pub(crate) fn enter(&mut self, name: &str, meter: Meter) {
        let path = self
            .running
            .last()
            .map_or_else(|| name.to_owned(), |outer| format!("{}/{name}", outer.path));
        let (began, rounds) = (Moment::now(), self.rounds);
        self.running.push(Running {
            path,
            began,
            meter,
            rounds,
        });
    }

    pub(crate) fn leave(&mut self, meter: Meter) {
        let Some(run) = self.running.pop() else { return };
        let wall = run.began.wall() + (meter.skipped - run.meter.skipped);
        let cost = self.costs.entry(run.path).or_default();
        cost.calls += 1;
        cost.sent += meter.sent - run.meter.sent;
        cost.received += meter.received - run.meter.received;
        cost.rounds += self.rounds - run.rounds;
        cost.wall += wall.as_secs_f64();
        cost.cpu += run.began.cpu();
    }
}

#[cfg(test)]
mod tests {
    use crate::channel::{memory_pair, Link, ManualClock, Throttled};
    use crate::testing::run_pair;
    use crate::{Party, Role};
    use std::time::Duration;

    /// One outer operation with two calls of an inner one; the peer answers.
    #[test]
    fn costs_nest_and_add_up() {
        let client = |party: &mut Party| {
            party.measured("outer", |party| {
                party.send(&[0; 5])?;
                for _ in 0..2 {
                    party.measured("inner", |party| {
                        party.send(&[0; 10])?;
                        party.receive(3)?;
                        party.receive(4) // the same round: nothing was sent in between
                    })?;
                }
                Ok(())
            })?;
            let costs = party.profile().costs().clone();
            Ok((costs, party.profile().rounds()))
        };
        let server = |party: &mut Party| {
            party.receive(5)?;
            for _ in 0..2 {
                party.receive(10)?;
                party.send(&[0; 3])?;
                party.send(&[0; 4])?;
            }
            Ok(party.profile().rounds())
        };
        let ((costs, rounds), server_rounds) = run_pair(client, server);
        assert_eq!(costs.keys().collect::<Vec<_>>(), ["outer", "outer/inner"]);
        let (outer, inner) = (&costs["outer"], &costs["outer/inner"]);
        assert_eq!(
            (outer.calls, outer.sent, outer.received, outer.rounds),
            (1, 25, 14, 2)
        );
        assert_eq!(
            (inner.calls, inner.sent, inner.received, inner.rounds),
            (2, 20, 14, 2)
        );
        assert!(outer.wall >= inner.wall && outer.cpu >= inner.cpu && inner.wall > 0.0);
        assert_eq!((rounds, server_rounds), (2, 2));
    }

    #[test]
    fn a_failed_operation_is_booked_and_leaves_the_nesting_intact() {
        let (left, _right) = memory_pair(Duration::from_millis(20));
        let mut party = Party::new(Role::Client, Box::new(left));
        assert!(party.measured("fails", |party| party.receive(1)).is_err());
        party.measured("next", |_| Ok(())).unwrap();
        party.end(); // without a begin: nothing
        assert_eq!(
            party.profile().costs().keys().collect::<Vec<_>>(),
            ["fails", "next"]
        );
    }

    #[test]
    fn the_time_of_a_simulated_link_counts() {
        let (left, right) = memory_pair(Duration::from_secs(60));
        let link = Link {
            bandwidth: 8e6,
            rtt: Duration::from_secs(6),
        };
        let mut client = Party::new(
            Role::Client,
            Box::new(Throttled::new(left, link, ManualClock::default())),
        );
        let mut server = Party::new(
            Role::Server,
            Box::new(Throttled::new(right, link, ManualClock::default())),
        );
        client.send(&[0; 999_984]).unwrap();
        server.measured("wait", |party| party.receive(999_984)).unwrap();
        let wall = server.profile().costs()["wait"].wall;
        assert!((4.0..4.1).contains(&wall), "{wall}");
        assert!((server.skipped_seconds() - 4.0).abs() < 1e-6);
    }
}
