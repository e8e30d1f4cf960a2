//! What 2^16 elements cost; run alone: `cargo test --release -p tacita-mpc products::speed -- --ignored --nocapture`.
use super::{share_operand, square, sum_of_products};
use crate::testing::{run_both, split};
use crate::{Party, Result, Ring};
use std::time::Instant;

const LEN: usize = 1 << 16;

/// Seconds of this thread's CPU (one rayon worker does the party's work).
fn timed<T>(party: &mut Party, name: &str, body: impl FnOnce(&mut Party) -> Result<T>) -> Result<T> {
    let (began, bytes) = (Instant::now(), party.sent() + party.received());
    let result = body(party)?;
    let bits = (party.sent() + party.received() - bytes) as f64 * 8.0 / LEN as f64;
    let role = party.role();
    println!(
        "{role:?} {name}: {bits:.1} bits an element, {:.4} s",
        began.elapsed().as_secs_f64()
    );
    Ok(result)
}

#[test]
#[ignore = "prints timings"]
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
