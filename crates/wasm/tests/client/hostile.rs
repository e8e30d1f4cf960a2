//! Programs and public parts of a server that means harm: refused, never a panic.
use crate::vectors::Vector;
use std::thread;
use std::time::Duration;
use tacita_mpc::channel::memory_pair;
use tacita_mpc::{Party, Ring, Role};
use tacita_wasm::part::PublicPart;
use tacita_wasm::program::Program;
use tacita_wasm::run::{run, Unknown};
use tacita_wasm::tensor::Tensor;

/// Runs a program whose peer has left: it fails at its first message if not before.
fn fails(text: &str) {
    let Ok(program) = Program::parse(text.as_bytes()) else {
        return;
    };
    let values = vec![0; program.tokens * program.hidden];
    let shape = vec![program.tokens, program.hidden];
    let (channel, _) = memory_pair(Duration::from_millis(10));
    let mut party = Party::new(Role::Client, Box::new(channel));
    let Ok(input) = Tensor::new(shape, Ring::new(program.entered.ring), values) else {
        return;
    };
    let mask = vec![true; program.tokens];
    let found = run(&mut party, &program, &mut Unknown, input, &mask, &mut |_| ());
    assert!(found.is_err(), "{text}");
}

/// The program with one step, `what`, on the input.
fn single(what: &str) -> String {
    let vector = Vector::read("gelu-pooler").program;
    let steps = vector.find("\"steps\":").unwrap();
    let step = format!("{{\"do\":{what},\"in\":[0],\"out\":[1]}}");
    format!(
        "{}\"steps\":[{step}],\"tokens\":16,\"version\":1}}",
        &vector[..steps]
    )
}

#[test]
fn steps_with_other_numbers_are_refused() {
    for what in [
        r#"{"reduce":{"ring":0}}"#,
        r#"{"reduce":{"ring":65}}"#,
        r#"{"shift_down":{"bits":64,"ring":0}}"#,
        r#"{"shift_down":{"bits":4294967295,"ring":1}}"#,
        r#"{"shift_up":{"bits":64,"ring":64}}"#,
        r#"{"scale":{"factor":-3,"ring":12}}"#,
        r#"{"columns":{"widths":[18446744073709551615,17]}}"#,
        r#"{"rows":{"count":-9223372036854775808}}"#,
        r#"{"heads":{"count":0}}"#,
        r#"{"merge":{}}"#,
        r#"{"reshape":{"shape":[]}}"#,
        r#"{"reshape":{"shape":[4294967296,4294967296,0]}}"#,
        r#"{"hide":{"gap":-9223372036854775808,"fraction":63,"ring":64,"back":null,"on":null}}"#,
        r#"{"hide":{"gap":1,"fraction":18,"ring":64,"back":18446744073709551615,"on":0}}"#,
        r#"{"average":{"tokens":99999999999,"fraction":18,"ring":64}}"#,
        r#"{"extend":{"ring":64,"to":0}}"#,
        r#"{"linear":{"rows":16,"inputs":16,"outputs":9999999999,"ring":64,"opened":false}}"#,
        r#"{"linear":{"rows":0,"inputs":0,"outputs":0,"ring":64,"opened":false}}"#,
        r#"{"product":{"heads":1,"rows":1,"inner":1,"columns":1,"ring":64,"opened":false}}"#,
        r#"{"times":{"held":64,"short":64,"ring":64,"slack":4294967295}}"#,
        r#"{"softmax":{"ring":64,"fraction":63,"range":4294967295,"power":1,"to":1,"inverse":0}}"#,
        r#"{"square":{"ring":64,"to":1,"slack":4294967295}}"#,
        r#"{"tanh":{"ring":64,"fraction":18,"to":64,"finer":18,"range":4294967295}}"#,
        r#"{"gelu":{"ring":64,"fraction":18,"to":1,"range":4294967295,"form":"abs4"}}"#,
        r#"{"gelu":{"ring":64,"fraction":18,"to":64,"range":3,"form":"seg4"}}"#,
        r#"{"silu":{"ring":64,"fraction":18,"to":64,"range":0,"form":"abs8"}}"#,
        r#"{"norm":{"ring":64,"fraction":18,"to":64,"finer":18,"centred":true,
            "bound":1e308,"least":1e-308,"gamma":1e308,"epsilon":0.0}}"#,
        r#"{"norm":{"ring":64,"fraction":18,"to":64,"finer":18,"centred":true,
            "bound":-1.0,"least":1.0,"gamma":1.0,"epsilon":0.0}}"#,
        r#"{"send":{}}"#,
    ] {
        fails(&single(what));
    }
}

#[test]
fn changed_programs_do_no_harm() {
    let text = Vector::read("gelu-pooler").program;
    let digits: Vec<usize> = (0..text.len())
        .filter(|&i| text.as_bytes()[i].is_ascii_digit())
        .collect();
    let chunks = digits.chunks(digits.len().div_ceil(2));
    thread::scope(|scope| {
        for chunk in chunks {
            let text = &text;
            scope.spawn(move || {
                for &at in chunk {
                    for digit in ["0", "99999"] {
                        fails(&format!("{}{digit}{}", &text[..at], &text[at + 1..]));
                    }
                }
            });
        }
    });
    for at in 0..text.len() {
        assert!(Program::parse(&text.as_bytes()[..at]).is_err());
    }
}

#[test]
fn damaged_parts_are_refused() {
    let vector = Vector::read("gelu-pooler");
    let (part, program) = (vector.part(), vector.program());
    for at in 0..part.len() {
        assert!(PublicPart::parse(part[..at].to_vec(), &program).is_err());
    }
    for at in 0..28 {
        for bit in 0..8 {
            let mut damaged = part.clone();
            damaged[at] ^= 1 << bit;
            assert!(
                PublicPart::parse(damaged, &program).is_err(),
                "byte {at} bit {bit}"
            );
        }
    }
    let longer = [&part[..], &[0]].concat();
    assert!(PublicPart::parse(longer, &program).is_err());
}
