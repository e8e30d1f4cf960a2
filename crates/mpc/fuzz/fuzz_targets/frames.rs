#![no_main]
use libfuzzer_sys::fuzz_target;
use tacita_mpc::channel::frame::{encode, expect, Side, HEADER_BYTES};

fuzz_target!(|data: &[u8]| {
    let Some((header, rest)) = data.split_first_chunk::<HEADER_BYTES>() else { return };
    let (sequence, len) = (u32::from(rest.first().copied().unwrap_or_default()), rest.len());
    let taken = expect(header, Side::Dialled, sequence, len).is_ok();
    assert_eq!(taken, *header == encode(Side::Dialled, sequence, len as u32));
});
