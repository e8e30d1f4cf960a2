//! Texts to tokens and to the input, beside Python's and the tokenizers library's.
use crate::vectors::{content, Vector};
use serde::Deserialize;
use tacita_wasm::front::{embedded, share_of, Origin, Token, Tokenizer};

#[derive(Deserialize)]
struct Tokens {
    texts: Vec<String>,
    ids: Vec<u32>,
    types: Vec<u32>,
    /// Part, start, end, start and end of the word, where a token is of a text.
    places: Vec<Option<[usize; 5]>>,
}

/// Tokens are those of the library, and stand where it says.
fn same(tokenizer: &Tokenizer, wanted: &Tokens) {
    let texts: Vec<&str> = wanted.texts.iter().map(String::as_str).collect();
    let found = tokenizer.tokens(&texts).unwrap();
    let ids: Vec<u32> = found.iter().map(|token| token.id).collect();
    assert_eq!(ids, wanted.ids, "{texts:?}");
    let kinds: Vec<u32> = found.iter().map(|token| token.kind).collect();
    assert_eq!(kinds, wanted.types, "{texts:?}");
    let place = |token: &Token| {
        let Origin { part, place, word } = token.origin.as_ref()?;
        Some([*part, place.start, place.end, word.start, word.end])
    };
    assert_eq!(
        found.iter().map(place).collect::<Vec<_>>(),
        wanted.places,
        "{texts:?}"
    );
}

fn default_tokenizer() -> String {
    content("python/tacita/data/models/sst2-tiny/tokenizer.json")
}

#[test]
fn tokens_are_those_of_the_library() {
    let tokenizer = Tokenizer::parse(&default_tokenizer(), 15_000).unwrap();
    let all: Vec<Tokens> = serde_json::from_str(&content("tests/vectors/program/tokens.json")).unwrap();
    assert!(all.len() > 10);
    for each in &all {
        same(&tokenizer, each);
    }
    assert!(tokenizer.tokens(&["a", " "]).is_err() && tokenizer.tokens(&["a"; 3]).is_err());
}

#[test]
fn tokens_of_bytes_are_those_of_the_library_and_spell_the_text() {
    let file = content("python/tacita/data/models/austen-tiny/tokenizer.json");
    let tokenizer = Tokenizer::parse(&file, 1 << 15).unwrap();
    let all: Vec<Tokens> = serde_json::from_str(&content("tests/vectors/program/bytes.json")).unwrap();
    assert!(all.len() > 10);
    for each in &all {
        same(&tokenizer, each);
        let spelled = tokenizer.decode(&each.ids);
        assert_eq!([spelled], each.texts[..], "without the token that begins it");
    }
    let second = |token: &Token| token.origin.as_ref().is_some_and(|origin| origin.part == 1);
    let pair = tokenizer.tokens(&["a", "b c"]).unwrap();
    assert_eq!(pair.iter().filter(|token| second(token)).count(), 2);
}

/// Where every pair were looked at for each that is joined, this took minutes. The ids are the library's.
#[test]
fn a_long_word_is_joined_as_the_library_does() {
    const SENSIBILITY: [u32; 4] = [84, 841, 1381, 1130];
    const ISSIPPI: [u32; 8] = [74, 394, 327, 458, 458, 74, 394, 74];
    let file = content("python/tacita/data/models/austen-tiny/tokenizer.json");
    let tokenizer = Tokenizer::parse(&file, 1 << 15).unwrap();
    const THERE: [u32; 5] = [1746, 1017, 259, 1017, 1407];
    let cases = [
        ("sensibility", [&SENSIBILITY[..]; 3]),
        ("there", [&THERE[..1], &THERE[1..3], &THERE[3..]]),
        ("mississippi", [&[78, 458, 458], &ISSIPPI[..5], &ISSIPPI]),
    ];
    for (word, [first, middle, last]) in cases {
        for count in [2, 1000, (1 << 18) / word.len()] {
            let wanted = [first, &middle.repeat(count - 2), last].concat();
            let found = tokenizer.encode(&word.repeat(count), false).unwrap();
            assert!(found == wanted, "{word}, {count} times");
        }
    }
}

#[test]
fn a_text_of_which_nothing_is_known_is_told_apart() {
    let tokenizer = Tokenizer::parse(&default_tokenizer(), 15_000).unwrap();
    let nothing = |text| tokenizer.knows_nothing_of(&tokenizer.tokens(&[text]).unwrap());
    assert!(nothing("\u{1f980}") && nothing("\u{1f980} \u{1f980}") && !nothing("a \u{1f980}"));
    assert!(!tokenizer.knows_nothing_of(&[]));
}

#[test]
fn texts_that_a_task_cannot_be_about_are_refused() {
    let tokenizer = Tokenizer::parse(&default_tokenizer(), 15_000).unwrap();
    let refused = |task, texts: &[&str]| tokenizer.require_fit(task, texts).err().map(|e| e.to_string());
    assert!(refused("span", &["how tall is it"]).unwrap().contains("context"));
    assert!(refused("words", &["a film"]).is_some());
    assert_eq!(refused("span", &["how tall", "the tower"]), None);
    assert_eq!(refused("words", &["a [MASK] film"]), None);
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
            let tokens = program.tokens;
            let found = embedded(&[&asked.text], &tokenizer, part.tables(), &program.front, tokens).unwrap();
            let share = share_of(&found.states, &program).unwrap();
            let pairs = share.values().iter().zip(&asked.input);
            assert_eq!(pairs.len(), program.tokens * program.hidden);
            let unused = 64 - program.entered.ring;
            let signed = |a: u64| (a << unused) as i64 >> unused;
            assert!(pairs.into_iter().all(|(&a, &b)| signed(a).abs_diff(b) <= 1));
            let mask: Vec<f64> = found.mask.iter().map(|&real| f64::from(u8::from(real))).collect();
            assert_eq!(mask, asked.mask);
        }
    }
}
