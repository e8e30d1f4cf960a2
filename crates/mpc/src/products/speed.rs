//! What 2^16 elements cost; run alone: `cargo test --release -p tacita-mpc products::speed -- --ignored
//! --nocapture`.
use super::{share_operand, square, sum_of_products};
use crate::profile::cpu_seconds;
use crate::testing::{run_both, split};
use crate::{Party, Result, Ring};
use std::time::Instant;

const LEN: usize = 1 << 16;

/// Prints one party's traffic, the time and the CPU time of the process, that is of both parties together.
fn timed<T>(party: &mut Party, name: &str, body: impl FnOnce(&mut Party) -> Result<T>) -> Result<T> {
    let (began, cpu, bytes) = (Instant::now(), cpu_seconds(), party.sent() + party.received());
    let result = body(party)?;
    let bits = (party.sent() + party.received() - bytes) as f64 * 8.0 / LEN as f64;
    let (role, wall, cpu) = (party.role(), began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    println!("{role:?} {name}: {bits:.1} bits an element, {wall:.4} s, {cpu:.4} CPU-s of both");
    Ok(result)
}

#[test]
#[ignore = "prints timings and checks nothing: run by hand with --nocapture"]
fn costs_of_sixty_five_thousand_products() {
    let values: Vec<i64> = (0..LEN as i64).map(|i| i % 4000 - 2000).collect();
    for (bits, slack) in [(32, 15), (40, 15), (64, 30)] {
        let ring = Ring::new(bits);
        run_both(split(ring, &values, 1), |party, x| {
            party.setup_products()?;
            square(party, &x[..1], ring, slack)?;
            timed(party, &format!("{bits}-bit square"), |party| {
                square(party, &x, ring, slack)
            })?;
            timed(party, &format!("{bits}-bit product"), |party| {
                let (x, y) = (
                    share_operand(party, &x, ring, slack)?,
                    share_operand(party, &x, ring, slack)?,
                );
                sum_of_products(party, &[(&x, &y)])
            })
        });
    }
}
