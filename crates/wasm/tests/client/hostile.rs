//! Programs and public parts of a server that means harm: refused, never a panic.
use crate::vectors::Vector;
use std::thread;
use std::time::Duration;
use tacita_mpc::channel::memory_pair;
use tacita_mpc::{Party, Ring, Role};
use tacita_wasm::part::PublicPart;
use tacita_wasm::program::Program;
use tacita_wasm::run::{run, Past, Standing, Unknown};
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
    let standing = Standing {
        mask: &mask,
        past: &mut Past::default(),
        prepared: None,
    };
    let found = run(&mut party, &program, &mut Unknown, input, standing, &mut |_| ());
    assert!(found.is_err(), "{text}");
}

/// The program with one step, `what`, on the input.
fn single(what: &str) -> String {
    let mut program: serde_json::Value = serde_json::from_str(&Vector::read("gelu-pooler").text()).unwrap();
    one(&mut program, &serde_json::from_str(what).unwrap())
}

fn one(program: &mut serde_json::Value, what: &serde_json::Value) -> String {
    program["steps"] = serde_json::json!([{"do": what, "in": [0], "out": [1]}]);
    program["reading"]["labels"] = serde_json::json!([]);
    program["result"] = serde_json::json!(1);
    program["entered"]["ring"] = serde_json::json!(64);
    program["answered"] = program["entered"].clone();
    program.to_string()
}

/// That it is refused before anything runs.
fn refused(text: &str) {
    assert!(Program::parse(text.as_bytes()).is_err(), "{text}");
}

#[test]
fn a_step_that_fits_is_taken() {
    let fits = single(r#"{"relu":{"ring":64}}"#);
    assert!(Program::parse(fits.as_bytes()).is_ok());
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
        r#"{"group":{"heads":0}}"#,
        r#"{"turn":{"bits":12,"ring":64,"base":10000.0}}"#,
        r#"{"append":{"store":0,"ring":64}}"#,
        r#"{"hide":{"gap":-9223372036854775808,"fraction":63,"ring":64,"back":null,"on":null}}"#,
        r#"{"hide":{"gap":1,"fraction":18,"ring":64,"back":18446744073709551615,"on":0}}"#,
        r#"{"hide":{"gap":1,"fraction":18,"ring":64,"back":18446744073709551615,"on":18446744073709551615}}"#,
        r#"{"average":{"fraction":18,"ring":64}}"#,
        r#"{"extend":{"ring":64,"to":0}}"#,
        r#"{"linear":{"outputs":9999999999,"ring":64,"opened":false}}"#,
        r#"{"linear":{"outputs":1048577,"ring":64,"opened":false}}"#,
        r#"{"linear":{"outputs":0,"ring":64,"opened":false}}"#,
        r#"{"linear":{"outputs":2,"ring":63,"opened":false}}"#,
        r#"{"product":{"ring":64,"opened":false,"transposed":false,"store":null}}"#,
        r#"{"times":{"held":64,"short":64,"ring":64,"slack":4294967295}}"#,
        r#"{"softmax":{"ring":64,"fraction":63,"range":4294967295,"power":1,"to":1,"inverse":0}}"#,
        r#"{"square":{"ring":64,"to":64,"slack":4294967295}}"#,
        r#"{"tanh":{"ring":64,"fraction":18,"to":64,"finer":18,"range":4294967295}}"#,
        r#"{"tanh":{"ring":64,"fraction":18,"to":64,"finer":64,"range":3}}"#,
        r#"{"elu":{"ring":64,"fraction":18,"to":64,"range":3}}"#,
        r#"{"elu":{"ring":64,"fraction":64,"to":64,"finer":18,"range":3}}"#,
        r#"{"gelu":{"ring":64,"fraction":18,"to":64,"range":4294967295,"form":"abs4"}}"#,
        r#"{"gelu":{"ring":64,"fraction":18,"to":64,"range":3,"form":"seg4"}}"#,
        r#"{"gelu":{"ring":64,"fraction":18,"to":64,"range":41,"form":"abs4"}}"#,
        r#"{"gelu":{"ring":64,"fraction":62,"to":64,"range":3,"form":"abs4"}}"#,
        r#"{"silu":{"ring":64,"fraction":18,"to":64,"range":0,"form":"abs8"}}"#,
        r#"{"silu":{"ring":64,"fraction":18,"to":64,"range":3,"form":"abs4"}}"#,
        r#"{"silu":{"ring":64,"fraction":18,"to":16,"range":3,"form":"abs8"}}"#,
        r#"{"tiles":{"heads":1,"rows":1,"back":null,"on":null}}"#,
        r#"{"join":{}}"#,
        r#"{"send":{}}"#,
    ] {
        refused(&single(what));
    }
}

/// Products of as many weights as this would be a number of more than 32 bits, which a page has not.
#[test]
fn products_of_too_many_weights_are_refused() {
    let mut program: serde_json::Value = serde_json::from_str(&Vector::read("gelu-pooler").text()).unwrap();
    let linear =
        |outputs: usize| serde_json::json!({"linear": {"outputs": outputs, "ring": 64, "opened": false}});
    (program["tokens"], program["hidden"]) = (1.into(), 2048.into());
    for (outputs, taken) in [(1 << 20, true), ((1 << 20) + 1, false)] {
        let text = one(&mut program, &linear(outputs));
        assert_eq!(Program::parse(text.as_bytes()).is_ok(), taken, "{outputs}");
    }
    program["hidden"] = 2049.into();
    refused(&one(&mut program, &linear(1 << 20)));
}

/// One with other tiles than the vector's.
fn tiled(change: &dyn Fn(&mut Vec<serde_json::Value>, usize, usize)) -> String {
    let mut program: serde_json::Value = serde_json::from_str(&Vector::read("tiles").text()).unwrap();
    let steps = program["steps"].as_array_mut().unwrap();
    let first = |name: &str| {
        steps
            .iter()
            .position(|step| step["do"].get(name).is_some())
            .unwrap()
    };
    let (begin, end) = (first("tiles"), first("join"));
    change(steps, begin, end);
    program.to_string()
}

#[test]
fn tiles_that_do_not_fit_are_refused() {
    use serde_json::{json, Value};
    assert!(Program::parse(tiled(&|_, _, _| ()).as_bytes()).is_ok());
    type Change = Box<dyn Fn(&mut Vec<Value>, usize, usize)>;
    let set = |name: &'static str, value: Value| -> Change {
        Box::new(move |steps, begin, _| steps[begin]["do"]["tiles"][name] = value.clone())
    };
    let changes: Vec<Change> = vec![
        set("rows", json!(0)),
        set("heads", json!(0)),
        set("back", json!(-3)),
        set("rows", Value::Null),
        Box::new(|steps, begin, _| steps[begin]["in"] = json!([0, 0, 0])),
        Box::new(|steps, begin, _| steps[begin]["out"][2] = json!(u64::MAX)),
        Box::new(|steps, _, end| steps[end]["do"] = json!({"merge": {}})),
        Box::new(|steps, begin, end| steps[end]["in"] = steps[begin]["out"].as_array().unwrap()[..1].into()),
        Box::new(|steps, begin, end| steps[begin + 1]["in"][0] = steps[end]["out"][0].clone()),
        Box::new(|steps, begin, _| steps[begin + 1]["in"][0] = json!(0)),
        Box::new(|steps, begin, end| steps[end + 1]["in"][0] = steps[begin]["out"][0].clone()),
        Box::new(|steps, begin, _| {
            let append = json!({"append": {"store": 0, "ring": 64}});
            (steps[begin + 1]["in"], steps[begin + 1]["do"]) = (json!([steps[begin]["out"][0]]), append);
        }),
        Box::new(|steps, begin, _| {
            let (tiles, out) = (steps[begin]["do"].clone(), steps[begin]["out"].clone());
            steps[begin + 1] = json!({"do": tiles, "in": out, "out": steps[begin + 1]["out"]});
        }),
    ];
    for (at, change) in changes.iter().enumerate() {
        assert!(Program::parse(tiled(change).as_bytes()).is_err(), "change {at}");
    }
}

/// A text of 8,192 tokens may have as many tiles; in each of them every step is walked, or counted.
#[test]
fn steps_of_tiles_that_run_too_often_are_refused() {
    use serde_json::json;
    let parsed = |steps: usize| {
        let mut program: serde_json::Value = serde_json::from_str(&single(r#"{"merge":{}}"#)).unwrap();
        (program["tokens"], program["hidden"]) = (json!(8192), json!(1));
        let tiles = json!({"tiles": {"heads": 1, "rows": 1, "back": null, "on": null}});
        let mut all = vec![
            json!({"do": {"heads": {"count": 1}}, "in": [0], "out": [1]}),
            json!({"do": tiles, "in": [1, 1, 1], "out": [2, 3, 4]}),
        ];
        let last = 2 + steps; // the register that the steps of tiles write last, of which one is `tiles`
        all.extend((4..=last).map(|at| {
            let read = if at == 4 { 2 } else { at };
            json!({"do": {"reduce": {"ring": 64}}, "in": [read], "out": [at + 1]})
        }));
        all.push(json!({"do": {"join": {}}, "in": [last + 1], "out": [last + 2]}));
        all.push(json!({"do": {"merge": {}}, "in": [last + 2], "out": [last + 3]}));
        (program["steps"], program["result"]) = (json!(all), json!(last + 3));
        Program::parse(program.to_string().as_bytes()).map(drop)
    };
    assert!(parsed(512).is_ok());
    let said = parsed(513).unwrap_err().to_string();
    assert!(said.contains("tiles, over 4194304 steps of them"), "{said}");
}

#[test]
fn answers_of_other_numbers_than_labels_are_refused() {
    let vector = Vector::read("gelu-pooler");
    let taken = |task: &str, labels: &[&str]| {
        let mut program: serde_json::Value = serde_json::from_str(&vector.text()).unwrap();
        let reading = &mut program["reading"];
        (reading["task"], reading["labels"]) = (task.into(), labels.into());
        Program::parse(program.to_string().as_bytes()).is_ok()
    };
    assert!(taken("text", &["a", "b"]) && taken("text", &[]) && taken("span", &["a", "b"]));
    let cases: [(&str, &[&str]); 6] = [
        ("text", &["a"]),
        ("text", &["a", "b", "c"]),
        ("span", &[]),
        ("tokens", &[]),
        ("words", &[]),
        ("next", &[]),
    ];
    for (task, labels) in cases {
        assert!(!taken(task, labels), "{task} {labels:?}");
    }
}

/// The program with heads whose rows turn by angles of such scales.
fn turning(scales: &str) -> String {
    let mut program: serde_json::Value = serde_json::from_str(&single(r#"{"merge":{}}"#)).unwrap();
    let text = format!(r#"{{"turn":{{"bits":12,"ring":64,"base":10000.0,"scales":{scales}}}}}"#);
    let turn: serde_json::Value = serde_json::from_str(&text).unwrap();
    program["steps"] = serde_json::json!([
        {"do": {"heads": {"count": 1}}, "in": [0], "out": [1]},
        {"do": turn, "in": [1], "out": [2]},
        {"do": {"merge": {}}, "in": [2], "out": [3]},
    ]);
    program["result"] = serde_json::json!(3);
    program.to_string()
}

#[test]
fn scales_are_one_for_each_angle_and_slow_it_down() {
    let angles = Vector::read("gelu-pooler").program().hidden / 2;
    let scales = |scale: &str, count: usize| format!("[{}]", vec![scale; count].join(","));
    for scale in ["0.0", "-0.0", "0.125", "5e-324", "1.0"] {
        assert!(Program::parse(turning(&scales(scale, angles)).as_bytes()).is_ok());
    }
    for scale in [
        "1.0000000000000002",
        "-0.5",
        "1e308",
        "-1e308",
        "null",
        "\"1\"",
        "[]",
    ] {
        refused(&turning(&scales(scale, angles)));
    }
    for count in [1, angles - 1, angles + 1, 2 * angles] {
        refused(&turning(&scales("0.5", count)));
    }
    refused(&turning("7"));
}

#[test]
fn norms_with_other_bounds_are_refused() {
    for (bound, least, gamma, epsilon) in [
        ("1e308", "1e-308", "1e308", "0.0"),
        ("-1.0", "1.0", "1.0", "0.0"),
        ("1.0", "1.0", "1.0", "1.1"),
        ("1e-12", "1e-12", "1.0", "0.0"),
        ("1.0", "2.0", "1.0", "0.0"),
        ("1.0", "1e-6", "1.0", "0.0"),
    ] {
        let form = r#""ring":64,"fraction":18,"to":64,"finer":18,"centred":true"#;
        let bounds = format!("\"bound\":{bound},\"least\":{least},\"gamma\":{gamma},\"epsilon\":{epsilon}");
        refused(&single(&format!("{{\"norm\":{{{form},{bounds}}}}}")));
    }
}

#[test]
fn changed_programs_do_no_harm() {
    let text = Vector::read("gelu-pooler").text();
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
    let part = vector.part();
    for at in (0..64).chain((64..part.len()).step_by(61)) {
        assert!(PublicPart::parse(part[..at].to_vec()).is_err());
    }
    for at in 0..28 {
        for bit in 0..8 {
            let mut damaged = part.clone();
            damaged[at] ^= 1 << bit;
            assert!(PublicPart::parse(damaged).is_err(), "byte {at} bit {bit}");
        }
    }
    let longer = [&part[..], &[0]].concat();
    assert!(PublicPart::parse(longer).is_err());
}
