//! What is left of a link after its orderly end.
use super::Channel;
use crate::{MpcError, Result};
use std::time::Duration;

/// Counters of a link that is closed; sending and receiving fail.
pub struct Ended {
    sent: u64,
    received: u64,
    skipped: Duration,
}

impl Ended {
    /// The counters of a link about to be dropped.
    pub fn after(channel: &dyn Channel) -> Self {
        Self {
            sent: channel.sent(),
            received: channel.received(),
            skipped: channel.skipped(),
        }
    }
}

impl Channel for Ended {
    fn send(&mut self, _: &[u8]) -> Result<()> {
        Err(MpcError::Closed { op: "send" })
    }

    fn receive(&mut self, _: usize) -> Result<Vec<u8>> {
        Err(MpcError::Closed { op: "receive" })
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn received(&self) -> u64 {
        self.received
    }

    fn skipped(&self) -> Duration {
        self.skipped
    }
}

#[cfg(test)]
mod tests {
    use crate::channel::memory_pair;
    use crate::{MpcError, Party, Role};
    use std::time::Duration;

    #[test]
    fn a_finished_party_keeps_its_counters_and_its_peer_hears_of_the_end() {
        let (left, right) = memory_pair(Duration::from_secs(60));
        let (mut client, mut server) = (
            Party::new(Role::Client, Box::new(left)),
            Party::new(Role::Server, Box::new(right)),
        );
        client.send(b"last").unwrap();
        client.finish().unwrap();
        client.finish().unwrap();
        assert_eq!((client.sent(), client.received()), (4, 0));
        assert!(matches!(client.send(b"more"), Err(MpcError::Closed { .. })));
        assert!(matches!(client.receive(1), Err(MpcError::Closed { .. })));
        assert_eq!(server.receive(4).unwrap(), b"last");
        assert!(matches!(server.receive(1), Err(MpcError::Closed { .. })));
    }
}
