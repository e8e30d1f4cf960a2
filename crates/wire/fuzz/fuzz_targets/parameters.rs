#![no_main]
use libfuzzer_sys::fuzz_target;
use tacita_wire_fuzz::both;

fuzz_target!(|data: &[u8]| {
    both(data, |bytes| {
        let _ = tacita_wire::read_parameters(&mut &bytes[..], true);
    });
});
