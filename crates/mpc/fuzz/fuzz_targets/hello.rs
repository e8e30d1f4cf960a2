#![no_main]
use libfuzzer_sys::fuzz_target;
use std::time::Duration;
use tacita_mpc::channel::{memory_pair, Channel};
use tacita_mpc::session::HELLO_BYTES;
use tacita_mpc::{Party, Role};

fuzz_target!(|data: &[u8]| {
    let (ours, mut theirs) = memory_pair(Duration::from_millis(1));
    let mut hello = data.to_vec();
    hello.resize(HELLO_BYTES, 0);
    if theirs.send(&hello).is_ok() {
        let _ = Party::new(Role::Client, Box::new(ours)).handshake(&[0; 32]);
    }
});
