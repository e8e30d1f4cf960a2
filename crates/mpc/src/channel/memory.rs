//! Two ends in one process: tests, and the oracle for the others.
use super::Channel;
use crate::{MpcError, Result};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// One end of an in-memory link.
pub struct MemoryChannel {
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
    timeout: Duration,
    sent: u64,
    received: u64,
}

/// Both ends of a fresh link; a party waits at most `timeout` for a message.
pub fn memory_pair(timeout: Duration) -> (MemoryChannel, MemoryChannel) {
    let ((a, from_a), (b, from_b)) = (channel(), channel());
    let end = |to, from| MemoryChannel {
        to,
        from,
        timeout,
        sent: 0,
        received: 0,
    };
    (end(a, from_b), end(b, from_a))
}

impl Channel for MemoryChannel {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.sent += message.len() as u64;
        self.to
            .send(message.to_vec())
            .map_err(|_| MpcError::Closed { op: "send" })
    }

    fn receive(&mut self, len: usize) -> Result<Vec<u8>> {
        let message = self.from.recv_timeout(self.timeout).map_err(|e| match e {
            RecvTimeoutError::Disconnected => MpcError::Closed { op: "receive" },
            RecvTimeoutError::Timeout => MpcError::Timeout {
                op: "receive",
                seconds: self.timeout.as_secs_f64(),
            },
        })?;
        self.received += message.len() as u64;
        if message.len() != len {
            let detail = format!("a message of {} bytes where {len} were expected", message.len());
            return Err(MpcError::Message {
                op: "receive",
                detail,
            });
        }
        Ok(message)
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn received(&self) -> u64 {
        self.received
    }
}
