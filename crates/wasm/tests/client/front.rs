//! Texts to tokens and to the input, beside Python's and the tokenizers library's.
use crate::vectors::{content, Vector};
use serde::Deserialize;
use tacita_wasm::front::{entered, Tokenizer};

#[derive(Deserialize)]
struct Tokens {
    text: String,
    ids: Vec<u32>,
}

fn default_tokenizer() -> String {
    content("python/tacita/data/models/sst2-tiny/tokenizer.json")
}

#[test]
fn tokens_are_those_of_the_library() {
    let tokenizer = Tokenizer::parse(&default_tokenizer(), 15_000).unwrap();
    let all: Vec<Tokens> = serde_json::from_str(&content("tests/vectors/program/tokens.json")).unwrap();
    assert!(all.len() > 10);
    for Tokens { text, ids } in all {
        assert_eq!(tokenizer.encode(&text, true).unwrap(), ids, "{text:?}");
    }
}

#[test]
fn tokens_of_bytes_are_those_of_the_library_and_spell_the_text() {
    let file = content("python/tacita/data/models/austen-tiny/tokenizer.json");
    let tokenizer = Tokenizer::parse(&file, 1 << 15).unwrap();
    let all: Vec<Tokens> = serde_json::from_str(&content("tests/vectors/program/bytes.json")).unwrap();
    assert!(all.len() > 10);
    for Tokens { text, ids } in all {
        assert_eq!(tokenizer.encode(&text, true).unwrap(), ids, "{text:?}");
        assert_eq!(tokenizer.decode(&ids), text, "without the token that begins it");
    }
}

#[test]
fn empty_texts_are_refused() {
    let tokenizer = Tokenizer::parse(&default_tokenizer(), 15_000).unwrap();
    for text in ["", "  \n", "\u{200b}\u{7}"] {
        assert!(tokenizer.encode(text, true).is_err(), "{text:?}");
    }
    assert!(tokenizer.encode(&"x".repeat((1 << 20) + 1), true).is_err());
}

#[test]
fn other_tokenizers_are_refused() {
    let known = default_tokenizer();
    let bytes = content("python/tacita/data/models/austen-tiny/tokenizer.json");
    let bytes = bytes.replacen("\"use_regex\":true", "\"use_regex\":false", 1);
    let other = known.replace("BertPreTokenizer", "Whitespace");
    let padded = known.replacen("\"normalized\":false", "\"normalized\":true", 1);
    assert_ne!(known, padded);
    for text in [&bytes, &other, &padded, "{}", "", &known[..1000]] {
        assert!(Tokenizer::parse(text, 15_000).is_err());
    }
    assert!(Tokenizer::parse(&known, 14_999).is_err());
}

#[test]
fn the_input_is_that_of_python_within_a_unit() {
    for name in ["gelu-pooler", "relu-mean"] {
        let (vector, program) = (Vector::read(name), Vector::read(name).program());
        let part = vector.parsed_part();
        let tokenizer = Tokenizer::parse(part.tokenizer().unwrap(), 32).unwrap();
        for asked in &vector.texts {
            assert_eq!(tokenizer.encode(&asked.text, true).unwrap(), asked.ids);
            let found = entered(&asked.text, &tokenizer, &part, &program).unwrap();
            let pairs = found.share.values().iter().zip(&asked.input);
            assert_eq!(pairs.len(), program.tokens * program.hidden);
            assert!(pairs.into_iter().all(|(&a, &b)| (a as i64).abs_diff(b) <= 1));
            let mask: Vec<f64> = found.mask.iter().map(|&real| f64::from(u8::from(real))).collect();
            assert_eq!(mask, asked.mask);
        }
    }
}
