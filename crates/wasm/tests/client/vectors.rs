//! Programs of tiny models with their public parts, weights, texts and answers, as
//! `tests/unit/program_vectors.py` writes them; and the server of one.
use serde::Deserialize;
use std::path::PathBuf;
use tacita_mpc::{Party, Ring};
use tacita_wasm::part::PublicPart;
use tacita_wasm::program::Program;
use tacita_wasm::run::{run, Model, Past, Standing};
use tacita_wasm::tensor::Tensor;

#[derive(Clone, Deserialize)]
pub struct Map {
    weights: Vec<i64>,
    bias: Vec<i64>,
}

#[derive(Deserialize)]
pub struct Asked {
    pub text: String,
    pub ids: Vec<u32>,
    pub mask: Vec<f64>,
    pub input: Vec<i64>,
    pub answer: Vec<f64>,
}

#[derive(Deserialize)]
pub struct Vector {
    part: String,
    maps: Vec<Map>,
    norms: Vec<(Vec<f64>, Vec<f64>)>,
    pub texts: Vec<Asked>,
}

impl Vector {
    pub fn read(name: &str) -> Self {
        serde_json::from_str(&content(&format!("tests/vectors/program/{name}.json"))).expect("a vector")
    }

    /// The program's own bytes.
    pub fn text(&self) -> String {
        let part = self.part();
        let length = u32::from_le_bytes(part[10..14].try_into().unwrap()) as usize;
        let tables = usize::from(u16::from_le_bytes([part[26], part[27]]));
        String::from_utf8(part[28 + tables..][..length].to_vec()).expect("JSON")
    }

    pub fn program(&self) -> Program {
        Program::parse(self.text().as_bytes()).expect("its program")
    }

    pub fn part(&self) -> Vec<u8> {
        let digits = self.part.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.map(byte).collect()
    }

    pub fn parsed_part(&self) -> PublicPart {
        PublicPart::parse(self.part()).expect("its public part")
    }

    /// The server's run of one text; its share of the answer goes to the client.
    pub fn serve(&self, party: &mut Party) {
        let program = self.program();
        let ring = Ring::new(program.entered.ring);
        let zeros = vec![0; program.tokens * program.hidden];
        let input = Tensor::new(vec![program.tokens, program.hidden], ring, zeros).unwrap();
        let mut weights = Weights {
            maps: self.maps.clone().into_iter(),
            norms: self.norms.clone().into_iter(),
        };
        let standing = Standing {
            mask: &[],
            past: &mut Past::default(),
            prepared: None,
        };
        let share = run(party, &program, &mut weights, input, standing, &mut |_| ()).expect("its run");
        assert!(weights.maps.next().is_none() && weights.norms.next().is_none());
        let bytes: Vec<u8> = share.values().iter().flat_map(|v| v.to_le_bytes()).collect();
        party.send(&bytes).expect("its share");
    }
}

struct Weights {
    maps: std::vec::IntoIter<Map>,
    norms: std::vec::IntoIter<(Vec<f64>, Vec<f64>)>,
}

impl Model for Weights {
    fn linear(&mut self) -> Option<(Vec<i64>, Vec<u64>)> {
        let map = self.maps.next()?;
        Some((map.weights, map.bias.into_iter().map(|b| b as u64).collect()))
    }

    fn norm(&mut self) -> Option<(Vec<f64>, Vec<f64>)> {
        self.norms.next()
    }
}

/// A file of the repository.
pub fn content(path: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}
