use super::cases::{self, Case};
use super::link::Simulator;
use super::statistics::{alike, uniform, unrelated, LEAST};
use super::{writing, Class, Sent, Tape, DROPPED};
use crate::linear::table::{TableServer, TableShape};
use crate::ot::CotKind;
use crate::testing::run_pair;
use crate::{Party, Ring, Role};
use std::collections::BTreeSet;

const EXTREMES: [u64; 2] = [0, u64::MAX];
const ROLES: [Role; 2] = [Role::Client, Role::Server];

/// What client and server send, and what is opened, in a real run.
fn real(case: &Case, extreme: u64) -> ([Vec<Sent>; 2], Vec<u64>) {
    let tapes = [Tape::default(), Tape::default()];
    let run = |party: &mut Party, tape: &Tape| {
        party.tape = Some(tape.clone());
        (case.run)(party, extreme)
    };
    let (opened, _) = run_pair(|party| run(party, &tapes[0]), |party| run(party, &tapes[1]));
    (tapes.map(|tape| tape.take()), opened)
}

fn index(role: Role) -> usize {
    usize::from(role == Role::Server)
}

/// What a party with input `extreme` is given by a simulator that knows the schedule, and what it opens.
fn simulated(case: &Case, role: Role, extreme: u64, schedule: &[Vec<Sent>; 2]) -> (Vec<Sent>, Vec<u64>) {
    let other = ROLES[1 - index(role)];
    let (own, theirs) = (&schedule[index(role)], &schedule[index(other)]);
    let due = Class::of(other, theirs)
        .into_iter()
        .zip(theirs.iter().map(|sent| sent.bytes.len()));
    let given = Tape::default();
    let public = (case.public)(extreme);
    let simulator = Simulator::new(public, due.collect(), Class::of(role, own), given.clone());
    let mut party = Party::new(role, Box::new(simulator));
    let opened = (case.run)(&mut party, extreme).expect("the party cannot tell");
    (given.take(), opened)
}

fn lengths(messages: &[Sent]) -> Vec<usize> {
    messages.iter().map(|sent| sent.bytes.len()).collect()
}

/// The classes that were long enough to be judged.
fn check(case: &Case) -> BTreeSet<String> {
    let (first, again, other) = (
        real(case, EXTREMES[0]).0,
        real(case, EXTREMES[0]).0,
        real(case, EXTREMES[1]).0,
    );
    let mut judged = BTreeSet::new();
    for role in ROLES {
        let sender = ROLES[1 - index(role)];
        let [first_view, again, other] = [&first, &again, &other].map(|sides| &sides[index(sender)]);
        let classes = Class::of(sender, first_view);
        assert_eq!(
            lengths(first_view),
            lengths(other),
            "{}: the schedule depends on inputs",
            case.name
        );
        assert_eq!(classes, Class::of(sender, other));
        let fake = simulated(case, role, EXTREMES[0], &first).0;
        assert_eq!(lengths(first_view), lengths(&fake));
        for (i, class) in classes.into_iter().enumerate() {
            let [one, two, three, four] =
                [first_view, again, other, &fake].map(|messages| class.looked_at(&messages[i].bytes));
            if one.len() < LEAST {
                continue;
            }
            let what = format!("{}: message {i} to the {role:?}, {class:?}", case.name);
            for (source, bytes) in [
                ("real", &one),
                ("real, other input", &three),
                ("simulated", &four),
            ] {
                uniform(bytes).unwrap_or_else(|found| panic!("{what}, {source}: {found}"));
            }
            unrelated(&one, &two).unwrap_or_else(|found| panic!("{what}, two runs: {found}"));
            unrelated(&one, &three).unwrap_or_else(|found| panic!("{what}, two inputs: {found}"));
            unrelated(&one, &four).unwrap_or_else(|found| panic!("{what}, real and simulated: {found}"));
            for real in [&one, &three] {
                alike(real, &four).unwrap_or_else(|found| panic!("{what}, real and simulated: {found}"));
            }
            let name = format!("{class:?}");
            judged.insert(format!(
                "{} to the {role:?}",
                name.split(' ').next().unwrap_or_default()
            ));
        }
    }
    judged
}

#[test]
fn every_class_of_message_passes_the_tests_that_its_simulation_passes() {
    let judged: BTreeSet<String> = cases::all().iter().flat_map(check).collect();
    for expected in [
        "Points to the Client",
        "Points to the Server",
        "Random to the Client",
        "Random to the Server",
        "MatrixKeys to the Server",
        "MatrixRequests to the Server",
        "MatrixResponses to the Client",
        "SlotKey to the Server",
        "SlotRequest to the Server",
        "SlotResponse to the Client",
        "TableAnswer to the Server",
        "Opened to the Client",
    ] {
        assert!(judged.contains(expected), "{expected} is not among {judged:?}");
    }
}

/// A prepared row goes to the server, both parties see the other's share of an opened factor; neither case
/// has other random messages.
#[test]
fn messages_of_texts_that_are_written_pass_them_too() {
    let (server, client) = ("Random to the Server", "Random to the Client");
    let seen = [&[server][..], &[client, server], &[client, server]];
    for (case, seen) in writing::all().iter().zip(seen) {
        let judged = check(case);
        let random: Vec<&String> = judged.iter().filter(|name| name.starts_with("Random")).collect();
        assert_eq!(random, seen, "{}", case.name);
    }
}

/// The table itself reaches the client outside a session: one of zeros stands for it.
#[test]
fn a_hidden_table_looks_like_one_of_zeros() {
    let shape = TableShape {
        rows: 50,
        columns: 128,
        bits: 26,
    };
    let message = |value| {
        TableServer::new(&vec![value; 50 * 128], shape)
            .unwrap()
            .message()
            .to_vec()
    };
    let (table, again, zeros) = (message((1 << 24) - 1), message((1 << 24) - 1), message(0));
    for bytes in [&table, &zeros] {
        uniform(bytes).unwrap();
    }
    unrelated(&table, &again).unwrap();
    alike(&table, &zeros).unwrap();
}

/// Rounding adds a unit as often in a real run as in the simulated one, where no weights are: it tells masks,
/// not noise.
#[test]
fn opened_values_are_rounded_as_the_simulator_rounds_them() {
    let case = cases::all()
        .into_iter()
        .find(|case| case.name == "opened logits")
        .unwrap();
    let extreme = 12_345;
    let (schedule, opened) = real(&case, extreme);
    let fake = simulated(&case, Role::Client, extreme, &schedule).1;
    let exact = (case.public)(extreme).output[0];
    let low = (exact % (1 << DROPPED)) as f64 / f64::from(1u32 << DROPPED);
    assert!((0.2..0.8).contains(&low), "both outcomes must be possible: {low}");
    let kept = Ring::new(64 - DROPPED);
    let units = |values: &[u64]| -> Vec<i64> {
        let unit = |v: &u64| kept.signed(kept.sub(*v, exact >> DROPPED));
        values.iter().map(unit).collect()
    };
    let ups = [&opened, &fake].map(|values| {
        let units = units(values);
        assert!(units.iter().all(|u| (-1..=1).contains(u)));
        units.iter().sum::<i64>() as f64
    });
    let deviation = (2.0 * opened.len() as f64 / 4.0).sqrt();
    assert!(
        (ups[0] - ups[1]).abs() < 6.0 * deviation,
        "{ups:?} of {}",
        opened.len()
    );
}

/// With correlations that both runs share, choices differ by the choices alone: the tests must see it.
#[test]
fn randomness_that_is_used_twice_is_noticed() {
    let case = cases::transfers(CotKind::InsecureTestDealer);
    let runs = [real(&case, 0).0, real(&case, 0).0];
    for sender in ROLES {
        let [one, two] = [&runs[0], &runs[1]].map(|sides| &sides[index(sender)]);
        for (one, two) in one.iter().zip(two).filter(|(one, _)| one.bytes.len() >= LEAST) {
            assert!(unrelated(&one.bytes, &two.bytes).is_err());
        }
    }
}

/// Messages that a careless party might send instead, each noticed by a test.
#[test]
fn bare_values_are_noticed() {
    assert!(uniform(&[0xff; 4 * LEAST]).is_err(), "choices without masks");
    let table: Vec<u8> = (0..8192).map(|i| [0b0111_0001u8, 0b0001_0111][i % 2]).collect();
    assert!(uniform(&table).is_err(), "a table without pads");
    let small: Vec<u8> = (0..8192u64).flat_map(|i| (i * i % 1000).to_le_bytes()).collect();
    assert!(uniform(&small).is_err(), "shares that are values");
    let borrows: Vec<u8> = (0..LEAST as u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 26)
        .flat_map(|mask| 0u64.wrapping_sub(mask).to_le_bytes()[..5].to_vec())
        .collect();
    assert!(uniform(&borrows).is_err(), "a difference that is not reduced");
    let pad: Vec<u8> = (0..4 * LEAST as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect();
    assert!(alike(&pad, &small).is_err() && unrelated(&pad, &pad).is_err());
}
