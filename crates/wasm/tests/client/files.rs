//! The client of ciphertexts beside the engine that servers run: its keys are taken, its request is computed
//! on, its answer is the number that went in; and nothing that a server sends does harm.
use crate::vectors::Vector;
use curve25519_dalek::{EdwardsPoint, Scalar};
use serde_json::{json, Value};
use sha2::{Digest, Sha256, Sha512};
use std::sync::Arc;
use tacita_ckks::{Ciphertext, CkksParameters, Evaluator};
use tacita_wasm::files::{Client, Receipt};
use tacita_wasm::front::{embedded, Tokenizer};
use tacita_wasm::part::Tables;
use tacita_wasm::Answer;
use tacita_wire::{read_evaluation_keys, CiphertextReader, CiphertextWriter, Owner};

const BOUND: f64 = 4.0;
pub const FOUR_TOKENS: &str = "fine film";

/// A client whose request holds the first two numbers of the states twice, from slot 1 on, and the mask at
/// slot 4, the last number of the states at slot 99; and which looks for an answer one slot before.
pub struct World {
    pub vector: Vector,
    pub plan: Value,
    pub tables: Vec<u8>,
}

impl World {
    pub fn new() -> Self {
        let vector = Vector::read("gelu-pooler");
        let program: Value = serde_json::from_str(&vector.text()).unwrap();
        let (hidden, reading) = (&program["hidden"], &program["reading"]);
        let tensor = |source: &str, runs: Value| json!({"source": source, "count": 1, "runs": runs});
        let all = hidden.as_u64().unwrap() * 16 - 1;
        let info = |name: &str| json!({"name": name, "count": 1, "level": 3, "kind": "real"});
        let plan = json!({
            "format": "tacita-plan", "version": 7, "hash": "ab".repeat(32), "tokens": 16, "batch": 1,
            "model": {
                "name": "a", "hidden": hidden, "normalise": false, "labels": reading["labels"],
                "embeddings": program["front"], "layers": 1,
            },
            "parameters": {"preset": "insecure_toy_n8", "slots": 128},
            "layout": {
                "packing": "rows",
                "request": {
                    "slots": 128, "texts": 1, "tokens": 16, "size": hidden, "bound": BOUND,
                    "tensors": {
                        "hidden": tensor("hidden", json!([[1, 0, 2, 2, 0, 2, 1, 1], [99, all]])),
                        "mask": tensor("mask", json!([[4, 16]])),
                    },
                },
                "response": {
                    "slots": 128, "count": 1, "texts": 1, "rows": 1, "size": 2, "bound": BOUND,
                    "numbers": [[0, 0, 2, 1, 1]], "copies": [[2, 0, 2, 1, 1]], "norms": [[4, 0]],
                    "zeros": [[0, 0, 98, 1, 0], [99, 0, 29, 1, 0]],
                },
            },
            "answer": 2.0 * BOUND, "stages": [{"name": "s", "counts": {"rotate": 1}}],
            "rotations": [[1, 3]], "request": [info("hidden"), info("mask")],
            "response": [info("answer")], "noise": 1e-6, "decimals": 3,
        });
        let tables = tables(&program["front"], program["hidden"].as_u64().unwrap());
        Self { vector, plan, tables }
    }

    pub fn client(&self) -> tacita_wasm::Result<Client> {
        let part = self.vector.parsed_part();
        let (plan, tokenizer) = (self.plan.to_string(), part.tokenizer()?);
        Client::new(plan.as_bytes(), tokenizer.as_bytes(), self.tables.clone(), true)
    }
}

/// A safetensors file of small numbers.
fn tables(front: &Value, hidden: u64) -> Vec<u8> {
    let rows = |name: &str| front[name].as_u64().unwrap();
    let named = [
        ("LayerNorm.bias", vec![hidden]),
        ("LayerNorm.weight", vec![hidden]),
        (
            "position_embeddings.weight",
            vec![rows("first_position") + rows("positions"), hidden],
        ),
        ("token_type_embeddings.weight", vec![rows("types"), hidden]),
        ("word_embeddings.weight", vec![rows("vocab"), hidden]),
    ];
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in named {
        let begin = data.len();
        let numbers = (0..shape.iter().product::<u64>()).map(|i| ((i * 37) % 64) as f32 / 64.0 + 0.25);
        data.extend(numbers.flat_map(f32::to_le_bytes));
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]});
        header.insert(format!("embeddings.{name}"), entry);
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// The header of a request or response, and its ciphertexts.
pub fn opened(file: &[u8]) -> (Value, Vec<&[u8]>) {
    let length = u32::from_le_bytes(file[12..16].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&file[16..16 + length]).unwrap();
    let mut rest = &file[16 + length..file.len() - 32];
    let tensors = header["tensors"].as_object().unwrap().values();
    let lengths: Vec<u64> = tensors
        .flat_map(|v| v.as_array().unwrap())
        .map(|n| n.as_u64().unwrap())
        .collect();
    let cts = lengths.into_iter().map(|length| {
        let (ct, tail) = rest.split_at(length as usize);
        rest = tail;
        ct
    });
    let cts = cts.collect();
    assert_eq!(
        Sha256::digest(&file[..file.len() - 32])[..],
        file[file.len() - 32..]
    );
    (header, cts)
}

fn response(header: &Value, ct: &[u8]) -> Vec<u8> {
    let header = json!({"key": header["key"], "kind": "response", "plan": header["plan"],
        "tensors": {"answer": [ct.len()]}});
    let header = header.to_string();
    let mut out = b"TACITA-CT\0\x01\0".to_vec();
    out.extend((header.len() as u32).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(ct);
    let hash = Sha256::digest(&out);
    out.extend(hash);
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// As a server signs.
pub fn receipt(plan: &str, request: &[u8], response: &[u8]) -> Receipt {
    let (secret, nonce) = (Scalar::from(12345u64), Scalar::from(6789u64));
    let public = EdwardsPoint::mul_base(&secret).compress().0;
    let r = EdwardsPoint::mul_base(&nonce).compress().0;
    let hashes = [request, response].map(Sha256::digest);
    let plan_bytes = vec![0xab; 32];
    let message = [&b"tacita-receipt-1\0"[..], &plan_bytes, &hashes[0], &hashes[1]].concat();
    let k = Sha512::new()
        .chain_update(r)
        .chain_update(public)
        .chain_update(message)
        .finalize();
    let s = nonce + Scalar::from_bytes_mod_order_wide(&k.into()) * secret;
    Receipt {
        plan: plan.to_owned(),
        request: hex(&hashes[0]),
        response: hex(&hashes[1]),
        signature: hex(&[r, s.to_bytes()].concat()),
        signer: hex(&public),
    }
}

/// The server: turns the states by one slot, adds the mask twice.
pub fn evaluated(params: &CkksParameters, keys: &[u8], request: &[u8]) -> Vec<u8> {
    let twice = |evaluator: &Evaluator, mask: &Ciphertext| evaluator.add(mask, mask).unwrap();
    evaluated_by(params, keys, request, twice)
}

/// The same with what is made of the mask.
pub fn evaluated_by(
    params: &CkksParameters,
    keys: &[u8],
    request: &[u8],
    made: impl Fn(&Evaluator, &Ciphertext) -> Ciphertext,
) -> Vec<u8> {
    let (owner, keys) = read_evaluation_keys(keys, params, None, None).unwrap();
    let evaluator = Evaluator::new(params.clone(), Arc::new(keys));
    let (header, cts) = opened(request);
    assert_eq!(header["key"], owner.to_string());
    let read = |ct: &[u8]| -> Ciphertext {
        CiphertextReader::new(ct, params, Some(owner))
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
    };
    let (states, mask) = (read(cts[0]), read(cts[1]));
    let turned = evaluator.rotate(&states, 1).unwrap();
    let sum = evaluator.add(&turned, &made(&evaluator, &mask)).unwrap();
    response(&header, &written(params, owner, &sum))
}

fn written(params: &CkksParameters, owner: Owner, ct: &Ciphertext) -> Vec<u8> {
    let mut writer = CiphertextWriter::new(Vec::new(), params, owner, 1).unwrap();
    writer.write(ct).unwrap();
    writer.finish().unwrap()
}

struct Asked {
    client: Client,
    request: Vec<u8>,
    response: Vec<u8>,
}

impl Asked {
    /// As the server signs it.
    fn answer(&mut self) -> tacita_wasm::Result<Answer> {
        let plan = &self.client.plan().hash;
        let signed = receipt(plan, &self.request, &self.response);
        self.client.decrypt(&self.response, &signed)
    }

    /// The response with another ciphertext in it.
    fn forge(&mut self, change: impl FnOnce(&mut Ciphertext)) {
        let params = CkksParameters::preset("insecure_toy_n8").unwrap();
        let (header, cts) = opened(&self.response);
        let mut reader = CiphertextReader::new(cts[0], &params, None).unwrap();
        let owner = reader.owner();
        let mut ct = reader.next().unwrap().unwrap();
        change(&mut ct);
        self.response = response(&header, &written(&params, owner, &ct));
    }
}

fn asked(world: &World) -> Asked {
    let params = CkksParameters::preset("insecure_toy_n8").unwrap();
    let (mut client, mut keys) = (world.client().unwrap(), Vec::new());
    let id = client.draw().unwrap();
    let hash = client.write_keys(&mut keys).unwrap();
    assert_eq!(
        (hash, keys.len() as u64),
        (hex(&Sha256::digest(&keys)), client.key_bytes())
    );
    let request = client.encrypt(&[FOUR_TOKENS]).unwrap();
    assert_eq!(opened(&request).0["key"], id);
    let response = evaluated(&params, &keys, &request);
    Asked {
        client,
        request,
        response,
    }
}

#[test]
fn a_server_computes_on_its_request_with_its_keys() {
    let world = World::new();
    let mut asked = asked(&world);
    let (answer, client) = (asked.answer().unwrap(), &asked.client);
    let part = world.vector.parsed_part();
    let tokenizer = Tokenizer::parse(part.tokenizer().unwrap(), 32).unwrap();
    assert_eq!(tokenizer.encode(FOUR_TOKENS, true).unwrap().len(), 4);
    let front = serde_json::from_value(world.plan["model"]["embeddings"].clone()).unwrap();
    let tables = Tables::of_file(world.tables.clone(), &front, client.plan().hidden).unwrap();
    let states = embedded(&[FOUR_TOKENS], &tokenizer, &tables, &front, 16)
        .unwrap()
        .states;
    assert!(answer.warnings.is_empty(), "{:?}", answer.warnings);
    let logits = answer.logits.unwrap();
    for (found, expected) in logits.iter().zip(&states[0]) {
        assert!((found - expected).abs() < 0.002, "{found} {expected}");
    }
    assert_eq!(logits.len(), 2);
}

#[test]
fn what_is_not_the_signed_answer_is_refused() {
    let Asked {
        mut client,
        request,
        response,
    } = asked(&World::new());
    let plan = client.plan().hash.clone();
    let signed = |bytes: &[u8]| receipt(&plan, &request, bytes);
    let mut other = response.clone();
    other[60] ^= 1;
    assert!(client.decrypt(&other, &signed(&response)).is_err());
    for at in (0..response.len())
        .step_by(211)
        .chain([0, 10, 13, 20, response.len() - 1])
    {
        let mut damaged = response.clone();
        damaged[at] ^= 4;
        assert!(client.decrypt(&damaged, &signed(&damaged)).is_err(), "byte {at}");
        assert!(client.decrypt(&response[..at], &signed(&response[..at])).is_err());
    }
    assert!(client.decrypt(&response, &signed(&response)).is_ok());
    client.encrypt(&["another film"]).unwrap();
    assert!(client.decrypt(&response, &signed(&response)).is_err());
    client.draw().unwrap();
    assert!(client.encrypt(&["x".repeat(200).as_str()]).is_ok());
}

#[test]
fn an_answer_with_something_where_nothing_belongs_is_doubted() {
    let mut world = World::new();
    world.plan["layout"]["response"]["copies"] = json!([[2, 0], [5, 1]]);
    let answer = asked(&world).answer().unwrap();
    assert!(answer.warnings[0].contains("fails its own checks"));
    assert_eq!((answer.label, answer.logits, answer.trusted), (None, None, false));
}

#[test]
fn another_level_or_scale_than_the_plans_is_refused() {
    let forgeries: [fn(&mut Ciphertext); 3] = [
        |ct| *ct = ct.truncated(1),
        |ct| ct.scale *= 1.0 + 1e-6,
        |ct| ct.scale = f64::from(1 << 10),
    ];
    for forge in forgeries {
        let mut asked = asked(&World::new());
        asked.forge(|_| ());
        assert!(asked.answer().is_ok());
        asked.forge(forge);
        let refused = asked.answer().err().unwrap().to_string();
        assert!(refused.contains("another level or scale"), "{refused}");
    }
}

#[test]
fn damaged_tables_are_refused() {
    let mut world = World::new();
    let whole = world.tables.clone();
    for cut in [0, 7, 8, 100, whole.len() - 1] {
        world.tables = whole[..cut].to_vec();
        assert!(world.client().is_err(), "{cut} bytes");
    }
    for (from, to) in [
        ("\"F32\"", "\"I32\""),
        ("\"F32\"", "\"F64\""),
        ("word_embeddings", "gone_embeddings"),
        ("[0,", "[4,"),
    ] {
        let length = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
        let header = std::str::from_utf8(&whole[8..8 + length])
            .unwrap()
            .replacen(from, to, 1);
        let begin = (header.len() as u64).to_le_bytes();
        world.tables = [&begin[..], header.as_bytes(), &whole[8 + length..]].concat();
        assert!(world.client().is_err(), "{from} {to}");
    }
    world.tables = whole.clone();
    let last = world.tables.len() - 4;
    world.tables[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(world.client().is_err());
}
