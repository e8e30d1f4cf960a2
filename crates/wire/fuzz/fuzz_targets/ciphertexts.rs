#![no_main]
use libfuzzer_sys::fuzz_target;
use tacita_wire_fuzz::{both, insecure_toy_n8};

fuzz_target!(|data: &[u8]| {
    both(data, |bytes| {
        let _ = tacita_wire::CiphertextFile::read(&mut &bytes[..], insecure_toy_n8(), None);
    });
});
