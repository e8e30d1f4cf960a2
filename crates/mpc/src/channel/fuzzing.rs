//! A framed channel over bytes in memory: what comes from the wire before any protocol sees it.
use super::queue::Sink;
use super::stream::Source;
use super::{frame::Side, Channel, Closer, StreamChannel};
use crate::Result;
use std::io::{self, Cursor, Read, Write};
use std::time::{Duration, Instant};

/// The messages of these lengths that the accepting end takes off a stream of bytes.
///
/// # Errors
/// Those of [`Channel::receive`]; the channel must then be closed for good, which is checked.
pub fn receive_all(bytes: &[u8], lengths: &[usize]) -> Result<Vec<Vec<u8>>> {
    let source = Bytes(Cursor::new(bytes.to_vec()));
    let mut channel = StreamChannel::new(Box::new(source), Nowhere, Side::Accepted, Duration::from_secs(1))?;
    let found = lengths
        .iter()
        .map(|&len| channel.receive(len))
        .collect::<Result<_>>();
    assert!(found.is_ok() || (channel.receive(0).is_err() && channel.send(&[]).is_err()));
    found
}

struct Bytes(Cursor<Vec<u8>>);

impl Read for Bytes {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl Source for Bytes {
    fn deadline(&mut self, _at: Instant) {}

    fn shut(&mut self) {}

    fn closer(&self) -> Option<Closer> {
        None
    }
}

struct Nowhere;

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Nowhere {
    fn end(&mut self) {}
}
