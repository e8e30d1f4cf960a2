//! Frames of the two-party channel: headers, and a whole stream of bytes as the channel takes it apart.
use crate::Target;
use tacita_mpc::channel::frame::{encode, expect, Side, HEADER_BYTES};
use tacita_mpc::fuzzing::receive_all;
use tacita_mpc::MpcError;

/// Messages that the stream's receiver waits for.
pub(crate) const LENGTHS: [usize; 4] = [5, 0, 40, 3];

/// A header is taken exactly when it is the one that must come next.
pub(crate) const FRAMES: Target = Target {
    name: "frames",
    cap: 1 << 12,
    longest: 64,
    body: |data| {
        let Some((header, rest)) = data.split_first_chunk::<HEADER_BYTES>() else {
            return;
        };
        let number = |at: usize| u32::from(rest.get(at).copied().unwrap_or_default());
        let (sequence, len) = (number(0), number(1) << (number(2) % 24));
        let taken = expect(header, Side::Dialled, sequence, len as usize).is_ok();
        assert_eq!(taken, *header == encode(Side::Dialled, sequence, len));
    },
};

/// A channel over the bytes: what it hands out are the payloads of right frames in their order, and an
/// error closes it for good.
pub(crate) const STREAM: Target = Target {
    name: "stream",
    cap: 1 << 14,
    longest: 256,
    body: |data| match receive_all(data, &LENGTHS) {
        Ok(messages) => assert!(messages.iter().map(Vec::len).eq(LENGTHS)),
        Err(MpcError::Message { .. } | MpcError::Closed { .. }) => {}
        Err(other) => panic!("not an error about the peer: {other}"),
    },
};
