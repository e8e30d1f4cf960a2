//! A peer that sends what the fuzzer makes up: every message has the length that is expected, and any
//! content.
use tacita_mpc::channel::Channel;
use tacita_mpc::{MpcError, Result};

/// No message of the protocols under test is longer at the sizes that are tested.
const LONGEST: usize = 1 << 16;

/// Answers each `receive` with the next bytes of its input; when these are used up the peer has gone, or
/// sends zeros.
pub(crate) struct Hostile {
    rest: Vec<u8>,
    at: usize,
    /// Whether the end of the input is the end of the connection.
    leaves: bool,
    received: u64,
}

impl Hostile {
    pub(crate) fn new(data: &[u8], leaves: bool) -> Self {
        let (rest, at, received) = (data.to_vec(), 0, 0);
        Self {
            rest,
            at,
            leaves,
            received,
        }
    }
}

impl Channel for Hostile {
    fn send(&mut self, _message: &[u8]) -> Result<()> {
        Ok(())
    }

    fn receive(&mut self, len: usize) -> Result<Vec<u8>> {
        assert!(len <= LONGEST, "{len} bytes are no message of this session");
        let part = &self.rest[self.at..self.rest.len().min(self.at + len)];
        if self.leaves && part.len() < len {
            return Err(MpcError::Closed { op: "receive" });
        }
        let mut message = part.to_vec();
        self.at += part.len();
        message.resize(len, 0);
        self.received += len as u64;
        Ok(message)
    }

    fn sent(&self) -> u64 {
        0
    }

    fn received(&self) -> u64 {
        self.received
    }
}
