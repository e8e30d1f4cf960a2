//! Texts that a server writes on ciphertexts, a request a token, beside the engine that servers run.
use crate::files::{evaluated, evaluated_by, opened, receipt, World, FOUR_TOKENS};
use crate::vectors::content;
use serde_json::{json, Value};
use tacita_ckks::{Ciphertext, CkksParameters, Complex64, Evaluator};
use tacita_wasm::files::Client;
use tacita_wasm::front::{embedded, reversed, Tokenizer};
use tacita_wasm::part::Tables;
use tacita_wasm::program::FrontConfig;
use tacita_wasm::writing::{Text, Wish, Written};
use tacita_wasm::ClientError;

impl World {
    /// A model that writes: its 32 logits are the first numbers of the rows, the last token's first.
    pub fn writing(ends: Value) -> Self {
        let mut world = Self::new();
        let model = &mut world.plan["model"];
        (model["task"], model["labels"], model["ends"]) = (json!("next"), json!([]), ends);
        (
            model["embeddings"]["backwards"],
            model["embeddings"]["last_token"],
        ) = (json!(true), json!(true));
        assert_eq!(model["embeddings"]["vocab"], 32);
        let all = model["hidden"].as_u64().unwrap() * 16 - 1;
        let layout = &mut world.plan["layout"];
        let tensors = &mut layout["request"]["tensors"];
        tensors["hidden"]["runs"] = json!([[1, 0, 2, 40, 0, 32, 1, 1], [99, all]]);
        tensors["mask"]["runs"] = json!([[90, 16]]);
        let response = &mut layout["response"];
        response["size"] = json!(32);
        response["numbers"] = json!([[0, 0, 32, 1, 1]]);
        response["copies"] = json!([[40, 0, 32, 1, 1]]);
        response["norms"] = json!([[90, 0]]);
        world
    }

    /// How a text to read becomes the input.
    fn front(&self) -> FrontConfig {
        let mut front = self.plan["model"]["embeddings"].clone();
        (front["backwards"], front["last_token"]) = (json!(false), json!(false));
        serde_json::from_value(front).unwrap()
    }
}

/// The server's part of the next token of a text, and what the client says of it.
fn next_token(client: &mut Client, keys: &[u8]) -> tacita_wasm::Result<Written> {
    let params = CkksParameters::preset("insecure_toy_n8").unwrap();
    let request = client.encrypt_next()?;
    let response = evaluated(&params, keys, &request);
    let signed = receipt(&client.plan().hash.clone(), &request, &response);
    let (written, warning) = client.token(&response, &signed)?.unwrap();
    assert_eq!(warning, None);
    Ok(written)
}

/// The mask is right for texts of four tokens alone, so the second answer fails its checks.
#[test]
fn a_text_is_written_a_request_a_token() {
    let wish = |most, thousandths| Wish { most, thousandths };
    let world = World::writing(json!([]));
    let (mut client, mut keys) = (world.client().unwrap(), Vec::new());
    client.draw().unwrap();
    client.write_keys(&mut keys).unwrap();
    assert!(client.encrypt_next().is_err() && client.encrypt(&[FOUR_TOKENS]).is_err());
    for (most, thousandths) in [(0, 0), (1, 8001), (14, 0), (usize::MAX, 0)] {
        let refused = client.write(FOUR_TOKENS, wish(most, thousandths));
        assert!(matches!(refused, Err(ClientError::Text(_))), "{most}");
    }
    client.write(FOUR_TOKENS, wish(13, 0)).unwrap();
    let found = next_token(&mut client, &keys).unwrap();
    let part = world.vector.parsed_part();
    let tokenizer = Tokenizer::parse(part.tokenizer().unwrap(), 32).unwrap();
    let front = serde_json::from_value(world.plan["model"]["embeddings"].clone()).unwrap();
    let tables = Tables::of_file(world.tables.clone(), &front, client.plan().hidden).unwrap();
    let ids = tokenizer.encode(FOUR_TOKENS, true).unwrap();
    let rows = reversed(&ids, &tables, &front, 16).unwrap();
    assert_eq!(rows.mask.iter().filter(|&&real| real).count(), 4);
    let last = embedded(&[FOUR_TOKENS], &tokenizer, &tables, &world.front(), 16).unwrap();
    assert_eq!(
        (&rows.states[0], &rows.states[15]),
        (&last.states[3], &last.states[0])
    );
    let logits = &rows.states.concat()[..32];
    let most = logits.iter().copied().fold(f64::MIN, f64::max);
    assert!((logits[found.id as usize] - most).abs() < 0.004 && !found.last);
    let doubted = next_token(&mut client, &keys).err().unwrap().to_string();
    assert!(doubted.contains("fails its own checks"), "{doubted}");
    client.write(FOUR_TOKENS, wish(13, 1)).unwrap(); // hardly warm: the likeliest, or a tie of it
    let warm = next_token(&mut client, &keys).unwrap();
    assert!((logits[warm.id as usize] - most).abs() < 0.02);
    let mut ending = World::writing(json!([found.id])).client().unwrap();
    let mut keys = Vec::new();
    ending.draw().unwrap();
    ending.write_keys(&mut keys).unwrap();
    ending.write(FOUR_TOKENS, wish(13, 0)).unwrap();
    assert!(next_token(&mut ending, &keys).unwrap().last && ending.encrypt_next().is_err());
}

/// Rounded to whole numbers, other words are as likely as the chosen one; and numbers that are the words'
/// shares of a choice are those of one word.
#[test]
fn words_that_are_as_likely_are_named_and_a_choice_is_of_one() {
    let wish = |thousandths| Wish { most: 2, thousandths };
    let written = |world: &World| {
        let (mut client, mut keys) = (world.client().unwrap(), Vec::new());
        client.draw().unwrap();
        client.write_keys(&mut keys).unwrap();
        client.write(FOUR_TOKENS, wish(0)).unwrap();
        next_token(&mut client, &keys)
    };
    let mut world = World::writing(json!([]));
    (world.plan["decimals"], world.plan["noise"]) = (json!(0), json!(1e-2));
    assert_eq!(written(&world).unwrap().near.len(), 4); // at 2.97, 2.75, 2.56 and 1.68, where it is at 3.36
    world.plan["layout"]["response"]["bound"] = json!(1.0);
    (world.plan["gap"], world.plan["answer"]) = (json!(0.5), json!(1.25));
    let refused = written(&world).err().unwrap().to_string();
    assert!(refused.contains("several words were chosen"), "{refused}");
    assert!(world.client().unwrap().write(FOUR_TOKENS, wish(700)).is_err());
    (world.plan["decimals"], world.plan["noise"]) = (json!(1), json!(1e-4));
    assert!(world.client().is_ok());
    for (pointer, value) in [
        ("/gap", json!(-0.5)),
        ("/gap", json!(1e300)),
        ("/answer", json!(8.0)),
        ("/decimals", json!(2)),
        ("/layout/response/bound", json!(2.0)),
    ] {
        let right = std::mem::replace(world.plan.pointer_mut(pointer).unwrap(), value.clone());
        assert!(world.client().is_err(), "{pointer} {value}");
        *world.plan.pointer_mut(pointer).unwrap() = right;
    }
}

#[test]
fn a_token_is_spelled_as_it_stands_behind_its_text() {
    let tokenizer = content("python/tacita/data/models/austen-tiny/tokenizer.json");
    let tokenizer = Tokenizer::parse(&tokenizer, 1 << 15).unwrap();
    let text = Text::new("Emma could", true, 1, 16, &tokenizer).unwrap();
    let ids = tokenizer.encode("Emma could not", true).unwrap();
    let (&last, before) = ids.split_last().unwrap();
    assert_eq!(
        (before, text.spelled(last, &tokenizer)),
        (&text.ids[..], " not".to_owned())
    );
}

#[test]
fn a_model_that_does_not_say_what_ends_a_text_is_refused() {
    for (ends, why) in [
        (json!(null), "an earlier release"),
        (json!([32]), "tokens that end"),
        (json!(vec![1; 17]), "tokens that end"),
    ] {
        let refused = World::writing(ends).client().err().unwrap().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

/// Each request is one row and names the one before it; of a text that the server lost the first row is next.
#[test]
fn a_text_is_read_row_by_row_where_the_server_keeps_them() {
    let mut world = World::writing(json!([]));
    let hidden = world.plan["model"]["hidden"].as_u64().unwrap();
    world.plan["kept"] = json!([{"name": "x", "count": 1, "level": 1, "kind": "real"}]);
    assert!(world.client().is_err()); // all rows in a request
    let tensors = &mut world.plan["layout"]["request"]["tensors"];
    tensors["hidden"]["runs"] = json!([
        [1, 0, 2, 40, 0, 32 / hidden, hidden, 0, hidden, 1, 1],
        [99, hidden - 1]
    ]);
    tensors["mask"]["runs"] = json!([[90, 0]]);
    let (mut client, mut keys) = (world.client().unwrap(), Vec::new());
    client.draw().unwrap();
    client.write_keys(&mut keys).unwrap();
    let (most, thousandths) = (2, 0);
    client.write(FOUR_TOKENS, Wish { most, thousandths }).unwrap();
    // a row of so many tokens, 1 / count at each; half the norm's check is one half whatever they are
    let next = |client: &mut Client, count: usize| {
        let half = |evaluator: &Evaluator, mask: &Ciphertext| {
            let mut rest = vec![Complex64::new(0.0, 0.0); 128];
            rest[90].re = 0.5 - 1.0 / count as f64;
            evaluator.add_vector(mask, &rest).unwrap()
        };
        let params = CkksParameters::preset("insecure_toy_n8").unwrap();
        let request = client.encrypt_next().unwrap();
        let response = evaluated_by(&params, &keys, &request, half);
        let signed = receipt(&client.plan().hash.clone(), &request, &response);
        let after = opened(&request).0["after"].as_str().unwrap().to_owned();
        let written = client.token(&response, &signed).unwrap();
        (after, signed.request, written.map(|(written, _)| written))
    };
    let rows: Vec<_> = (1..=4).map(|count| next(&mut client, count)).collect();
    assert_eq!(rows[0].0, "");
    assert!(rows.windows(2).all(|pair| pair[0].1 == pair[1].0));
    assert!(rows[..3].iter().all(|row| row.2.is_none()));
    client.encrypt_next().unwrap(); // which was lost on the way, and the text with it
    client.restart();
    let again: Vec<_> = (1..=5).map(|count| next(&mut client, count)).collect();
    assert_eq!(again[0].0, "");
    assert!(again[..4].iter().all(|row| row.2.is_none()));
    assert!(!rows[3].2.as_ref().unwrap().last && again[4].2.as_ref().unwrap().last);
}
