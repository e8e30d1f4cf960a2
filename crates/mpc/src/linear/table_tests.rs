use super::*;
use crate::testing::{join, run_pair};

fn table(shape: TableShape) -> Vec<i64> {
    let limit = 1i64 << (shape.bits - 2);
    let value = |i: usize| (i as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64) >> 20;
    let mut table: Vec<i64> = (0..shape.rows * shape.columns)
        .map(|i| value(i) % limit)
        .collect();
    table[0] = limit - 1;
    *table.last_mut().unwrap() = 1 - limit;
    table
}

#[test]
fn rows_come_back_as_shares() {
    for (rows, columns, bits, tokens) in [
        (1, 1, 4, vec![0, 0, 0]),
        (50, 128, 26, vec![3, 49, 0, 3]),
        (97, 96, 26, (0..97).rev().collect::<Vec<_>>()),
        (11, 100, 20, vec![10]),
        (5, 8192, 32, vec![4, 1]),
        (5, 3, 32, vec![]),
    ] {
        let shape = TableShape { rows, columns, bits };
        let values = table(shape);
        let server = TableServer::new(&values, shape).unwrap();
        let client = TableClient::from_message(server.message(), shape).unwrap();
        let count = tokens.len();
        let (a, b) = run_pair(|p| client.lookup(p, &tokens), |p| server.lookup(p, count));
        let found = join(Ring::new(bits), &a, &b);
        assert_eq!(found.len(), count * columns);
        for (at, v) in found.into_iter().enumerate() {
            let expected = values[tokens[at / columns] * columns + at % columns];
            let error = Ring::new(bits).signed(Ring::new(bits).from_signed(v - expected));
            assert!(
                error.abs() < 1 << SLACK,
                "{shape:?}, value {at}: {v} for {expected}"
            );
        }
    }
}

#[test]
fn equal_tokens_are_answered_afresh() {
    let shape = TableShape {
        rows: 40,
        columns: 256,
        bits: 24,
    };
    let server = TableServer::new(&table(shape), shape).unwrap();
    let client = TableClient::from_message(server.message(), shape).unwrap();
    let layout = shape.layout(32);
    let packer = Packer::new(&client.params, &client.keys.automorphisms, layout, LIMBS);
    let answer = |tokens: &[usize]| client.response(&packer, layout, tokens, 0).unwrap().bytes;
    let same = (answer(&[7; 32]), answer(&[7; 32]));
    let other = answer(&[8; 32]);
    let equal = |x: &[u8], y: &[u8]| x.iter().zip(y).filter(|(a, b)| a == b).count() as f64 / x.len() as f64;
    for share in [equal(&same.0, &same.1), equal(&same.0, &other)] {
        assert!(
            (share - 1.0 / 256.0).abs() < 1e-3,
            "{share} of the bytes are equal"
        );
    }
}

#[test]
fn bad_tables_tokens_and_messages_are_refused() {
    let shape = TableShape {
        rows: 4,
        columns: 8,
        bits: 10,
    };
    assert!(TableServer::new(&[256; 32], shape).is_err() && TableServer::new(&[0; 31], shape).is_err());
    for wrong in [
        TableShape { rows: 0, ..shape },
        TableShape {
            columns: N + 1,
            ..shape
        },
        TableShape { bits: 3, ..shape },
    ] {
        assert!(wrong.table_len().is_err());
    }
    let server = TableServer::new(&[1; 32], shape).unwrap();
    let message = server.message();
    assert_eq!(message.len(), shape.table_len().unwrap());
    assert!(TableClient::from_message(&message[1..], shape).is_err());
    assert!(TableClient::from_message(&vec![0xff; message.len()], shape).is_err());
    let client = TableClient::from_message(message, shape).unwrap();
    run_pair(
        |p| {
            assert!(client.lookup(p, &[4]).is_err());
            Ok(())
        },
        |_| Ok(()),
    );
}
