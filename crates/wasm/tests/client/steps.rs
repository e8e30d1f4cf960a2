//! Steps whose numbers are those of Python's run.
use crate::vectors::Vector;
use serde_json::json;
use std::time::Duration;
use tacita_mpc::channel::memory_pair;
use tacita_mpc::{Party, Role};
use tacita_wasm::program::Program;
use tacita_wasm::run::{run, Past, Standing, Unknown};
use tacita_wasm::tensor::{ring, Tensor};

const FRACTION: u32 = 20; // `two_party.arithmetic.base.MEAN_WEIGHT`

/// Those of a mean over the real ones of 8,192 rows.
fn weights(mask: &[bool]) -> Vec<i64> {
    let mut program: serde_json::Value = serde_json::from_str(&Vector::read("relu-mean").text()).unwrap();
    (program["tokens"], program["hidden"]) = (json!(mask.len()), json!(1));
    program["reading"]["labels"] = json!([]);
    program["steps"] = json!([
        {"do": {"average": {"fraction": FRACTION, "ring": 64}}, "in": [], "out": [1]},
        {"do": {"merge": {}}, "in": [1], "out": [2]},
    ]);
    (program["result"], program["answered"]["ring"]) = (json!(2), json!(64));
    let program = Program::parse(program.to_string().as_bytes()).unwrap();
    let entered = ring(program.entered.ring).unwrap();
    let input = Tensor::new(vec![mask.len(), 1], entered, vec![0; mask.len()]).unwrap();
    let mut party = Party::new(Role::Client, Box::new(memory_pair(Duration::ZERO).0));
    let past = &mut Past::default();
    let prepared = None;
    let standing = Standing { mask, past, prepared };
    let found = run(&mut party, &program, &mut Unknown, input, standing, &mut |_| ()).unwrap();
    found.values().iter().map(|&weight| weight as i64).collect()
}

/// However long the text, and wherever its padding: the mean of 8,160 equal rows is one of them.
#[test]
fn the_weights_of_a_mean_are_one_together() {
    for rows in [1, 3, 511, 8160] {
        for first in [0, 8192 - rows] {
            let mut mask = [false; 8192];
            mask[first..first + rows].fill(true);
            let found = weights(&mask);
            assert_eq!(found.iter().sum::<i64>(), 1 << FRACTION, "{rows}");
            let each = f64::from(1 << FRACTION) / rows as f64;
            for (weight, real) in found.into_iter().zip(mask) {
                let off = if real { weight as f64 - each } else { weight as f64 };
                assert!(off.abs() < f64::from(u8::from(real)).max(1e-9), "{rows}");
            }
        }
    }
}
