use super::*;
use crate::testing::{join, run_both, split};

fn values(ring: Ring, len: usize, seed: u64) -> Vec<i64> {
    let top = 1u64 << (ring.bits() - 1);
    let edges = [0, u64::MAX, top, top - 1, 1, top | 1];
    let random = |i: usize| {
        (i as u64 + seed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(17)
    };
    (0..len)
        .map(|i| {
            ring.signed(ring.reduce(if i % 3 == 0 {
                edges[(i / 3 + seed as usize) % 6]
            } else {
                random(i)
            }))
        })
        .collect()
}

fn wrapping(ring: Ring, x: i64, y: i64) -> i64 {
    ring.signed(ring.from_signed(x.wrapping_mul(y)))
}

fn assert_close(ring: Ring, found: &[i64], expected: impl ExactSizeIterator<Item = i64>, bound: i64) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = ring.signed(ring.sub(ring.from_signed(*found), ring.from_signed(expected)));
        assert!(
            error.abs() <= bound,
            "{} bits, element {i}: off by {error}",
            ring.bits()
        );
    }
}

#[test]
fn products_are_right_within_the_slack_in_every_ring() {
    for (bits, slack) in [
        (15, 0),
        (20, 10),
        (24, 7),
        (32, 15),
        (32, 0),
        (37, 18),
        (48, 12),
        (63, 20),
        (64, 30),
        (64, 0),
    ] {
        let (ring, len) = (Ring::new(bits), 501);
        let (x, y) = (values(ring, len, 1), values(ring, len, 2));
        let ((x0, x1), (y0, y1)) = (split(ring, &x, 3), split(ring, &y, 4));
        let shares = run_both(((x0, y0), (x1, y1)), |party, (x, y)| {
            party.setup_products()?;
            product(party, &x, &y, ring, slack)
        });
        let bound = (1i64 << slack) / 2 + 1;
        let expected = x.iter().zip(&y).map(|(&x, &y)| wrapping(ring, x, y));
        assert_close(ring, &join(ring, &shares.0, &shares.1), expected, bound);
    }
}

#[test]
fn any_length_and_reused_operands() {
    let (ring, slack) = (Ring::new(32), 15);
    for len in [0, 1, 8191, 8192, 8193] {
        let x: Vec<i64> = (0..len as i64).map(|i| (i * 37) % 1025 - 512).collect();
        let shares = run_both(split(ring, &x, 5), |party, share| {
            party.setup_products()?;
            let x = share_operand(party, &share, ring, 4)?;
            let squared = sum_of_products(party, &[(&x, &x)])?;
            let squares = share_operand(party, &squared, ring, 4)?;
            let cubed = sum_of_products(party, &[(&x, &squares)])?;
            Ok((square(party, &share, ring, slack)?, cubed))
        });
        let squares = join(ring, &shares.0 .0, &shares.1 .0);
        assert_close(ring, &squares, x.iter().map(|x| x * x), 1 << (slack - 1));
        // the square's error of 2^3 + 1 grows by |x| <= 512
        let cubes = join(ring, &shares.0 .1, &shares.1 .1);
        assert_close(ring, &cubes, x.iter().map(|x| x * x * x), 512 * 9 + 9);
    }
}

#[test]
fn sums_take_one_response_and_terms_of_one_operand_are_joined() {
    let (ring, slack, len) = (Ring::new(32), 15, 10_000);
    let [x, y, z] = [1, 2, 3].map(|seed| values(ring, len, seed));
    let split = |seed| [&x, &y, &z].map(|v| split(ring, v, seed));
    let [(x0, x1), (y0, y1), (z0, z1)] = split(9);
    let shares = run_both(([x0, y0, z0], [x1, y1, z1]), |party, shares| {
        party.setup_products()?;
        let sent = |party: &mut Party, i: usize| share_operand(party, &shares[i], ring, slack);
        let (x, y, z) = (sent(party, 0)?, sent(party, 1)?, sent(party, 2)?);
        let before = party.profile().costs()["operand"].clone();
        let sum = sum_of_products(party, &[(&x, &y), (&x, &z), (&z, &z)])?;
        let cost = party.profile().costs()["products"].clone();
        // two ciphertexts of 8192 slots
        let bits = |bytes: u64| bytes as f64 * 8.0 / (2.0 * 8192.0);
        let response = bits(cost.sent + cost.received);
        assert!(
            (127.0..129.0).contains(&response),
            "{response} bits an element in a response"
        );
        let public_key = 8192.0 * 164.0 / 8.0;
        let request = bits(before.sent + before.received - public_key as u64) / 3.0;
        assert!(
            (163.0..166.0).contains(&request),
            "{request} bits an element in a request"
        );
        Ok(sum)
    });
    let expected = (0..len).map(|i| {
        let products = [(x[i], y[i]), (x[i], z[i]), (z[i], z[i])].map(|(a, b)| wrapping(ring, a, b));
        products.into_iter().fold(0i64, i64::wrapping_add)
    });
    assert_close(
        ring,
        &join(ring, &shares.0, &shares.1),
        expected,
        3 << (slack - 2),
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let ring = Ring::new(32);
    let _ = run_both((vec![1u64; 4], vec![2u64; 4]), |party, x| {
        assert!(share_operand(party, &x, ring, 5).is_err(), "no keys yet");
        party.setup_products()?;
        assert!(share_operand(party, &x, ring, 33).is_err());
        assert!(product(party, &x, &x[1..], ring, 5).is_err());
        let operand = share_operand(party, &x, ring, 5)?;
        let other = share_operand(party, &x, ring, 6)?;
        assert!(sum_of_products(party, &[(&operand, &other)]).is_err());
        assert!(sum_of_products(party, &[]).is_err());
        Ok(())
    });
}

#[test]
fn garbage_from_the_peer_is_an_error() {
    let ring = Ring::new(32);
    crate::testing::run_pair(
        |party| {
            // what a client would send for one plaintext prime, with residues out of range
            let garbage = vec![0xff; 32 + 8192 / 8 * 164];
            party.send(&garbage)?;
            let _ = party.send(&garbage); // the server may have refused the first one and be gone
            Ok(())
        },
        |party| {
            party.setup_products()?;
            let result = share_operand(party, &[1; 8], ring, 15);
            assert!(matches!(result, Err(MpcError::Message { .. })));
            Ok(())
        },
    );
}

/// 2^-78 a coefficient, and a limit to the products of a sum.
#[test]
fn chances_of_failure_add_up_and_endless_sums_are_refused() {
    let (ring, slack) = (Ring::new(32), 15);
    let _ = run_both((vec![1u64; 9000], vec![2u64; 9000]), |party, x| {
        party.setup_products()?;
        assert_eq!(party.failure_log2(), f64::NEG_INFINITY);
        let x = share_operand(party, &x, ring, slack)?;
        sum_of_products(party, &[(&x, &x)])?;
        let once = party.failure_log2();
        assert!((-66.0..-63.0).contains(&once), "two ciphertexts: 2^{once}");
        sum_of_products(party, &[(&x, &x)])?;
        assert!((party.failure_log2() - once - 1.0).abs() < 1e-9);
        let part = || operand::Part::new(&x, None);
        let many: Vec<_> = (0..100_000).map(|_| part()).collect();
        let refused = lattice::evaluate(party, &many, vec![0; 9000]).expect_err("too many terms");
        assert!(refused.to_string().contains("100000 products"), "{refused}");
        Ok(())
    });
}
