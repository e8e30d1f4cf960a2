//! The client of one plan: its steps are those of `tacita.client.session`, on bytes in place of files.
use super::answer::read;
use super::budget::{answers_of_a_key, warning};
use super::description::{Description, Run, Source, TensorOf};
use super::keys::{hex, Hashing, Secret};
use super::{envelope, Receipt, TableFile};
use crate::answer::{told, Answer};
use crate::error::{damaged, ClientError, Result};
use crate::front::{embedded, Embedded, Tokenizer};
use crate::part::digest;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use tacita_ckks::keys::KeySpec;
use tacita_ckks::{CkksParameters, Complex64, Evaluator};
use tacita_rlwe::encrypt as rlwe;
use tacita_wire::{key_record_bytes, CiphertextReader, CiphertextWriter, HEADER_BYTES};
use zeroize::Zeroize;

/// Difference of the logarithms (base 2) of two scales that are the same.
const SAME_SCALE: f64 = 1e-9;

/// Of one plan. Holds the secret, once there is one, until it is dropped.
pub struct Client {
    description: Description,
    encoder: Evaluator,
    specs: Vec<KeySpec>,
    tokenizer: Tokenizer,
    tables: TableFile,
    secret: Option<Secret>,
    /// Hash of the request that was made last.
    asked: Option<String>,
    /// That the secret decrypted, and how many it may.
    answers: u64,
    budget: Option<u64>,
}

impl Client {
    /// From what the server published: the description, tokenizer.json, embedding.safetensors.
    /// `allow_insecure`: see [`Description::parse`].
    ///
    /// # Errors
    /// [`ClientError::Damaged`].
    pub fn new(description: &[u8], tokenizer: &[u8], tables: Vec<u8>, allow_insecure: bool) -> Result<Self> {
        let (description, params, specs) = Description::parse(description, allow_insecure)?;
        let Ok(tokenizer) = std::str::from_utf8(tokenizer) else {
            return damaged("tokenizer", "not text");
        };
        let front = &description.front;
        Ok(Self {
            tokenizer: Tokenizer::parse(tokenizer, front.vocab)?,
            tables: TableFile::parse(tables, front, description.hidden)?,
            budget: answers_of_a_key(
                params.rlwe(),
                &description.reading,
                description.response.numbers.len(),
            ),
            encoder: Evaluator::new(params, Arc::default()),
            answers: 0,
            description,
            specs,
            secret: None,
            asked: None,
        })
    }

    /// What the server says of the plan.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Bits of security, as estimated for the parameters.
    pub fn security_bits(&self) -> u32 {
        self.params().rlwe().security_bits()
    }

    /// Bytes of the file of evaluation keys.
    pub fn key_bytes(&self) -> u64 {
        let records = self
            .specs
            .iter()
            .map(|spec| key_record_bytes(self.params(), spec) as u64);
        HEADER_BYTES as u64 + records.sum::<u64>()
    }

    /// Refuses a text that cannot be asked about, before keys are made for it.
    ///
    /// # Errors
    /// [`ClientError::Text`].
    pub fn check(&self, text: &str) -> Result<()> {
        self.entered(text).map(drop)
    }

    /// Draws a new secret; the id of the keys that belong to it.
    ///
    /// # Errors
    /// As [`Secret::generate`].
    pub fn draw(&mut self) -> Result<String> {
        let secret = Secret::generate(self.params())?;
        let id = secret.id();
        self.secret = Some(secret);
        self.answers = 0;
        Ok(id)
    }

    /// Writes the evaluation keys; the hash of all of them. Errors: as [`Secret::write_keys`].
    ///
    /// # Errors
    /// [`ClientError::Peer`] before [`Self::draw`].
    pub fn write_keys(&self, out: impl Write) -> Result<String> {
        let mut out = Hashing::new(out);
        self.secret()?.write_keys(self.params(), &self.specs, &mut out)?;
        Ok(out.finish())
    }

    /// The bytes of request.ct.
    ///
    /// # Errors
    /// [`ClientError::Text`] for a text that is empty or too long.
    pub fn encrypt(&mut self, text: &str) -> Result<Vec<u8>> {
        let (secret, mut entered) = (self.secret()?, self.entered(text)?);
        let mut tensors = BTreeMap::new();
        for tensor in &self.description.request {
            let made = tensor
                .vectors
                .iter()
                .map(|runs| self.encrypted(secret, tensor, runs, &entered));
            tensors.insert(tensor.name.clone(), made.collect::<Result<Vec<_>>>()?);
        }
        entered.states.zeroize();
        entered.mask.zeroize();
        let request = envelope::request(&self.description.plan, &secret.id(), &tensors);
        self.asked = Some(hex(&digest(&request)));
        Ok(request)
    }

    /// The answer to the last request, of the bytes of response.ct; with a warning where the secret has
    /// decrypted more of them than it should.
    ///
    /// # Errors
    /// [`ClientError::Peer`] for a receipt of something else, [`ClientError::Damaged`] for a response that is
    /// not one of this plan and these keys.
    pub fn decrypt(&mut self, response: &[u8], receipt: &Receipt) -> Result<Answer> {
        let (secret, places) = (self.secret()?, &self.description.response);
        let plan = &self.description.plan;
        let asked = self.asked.as_deref().unwrap_or_default();
        receipt.check(plan, asked, &hex(&digest(response)))?;
        let tensor = (places.name.as_str(), places.count);
        let cts = envelope::response(response, plan, &secret.id(), tensor)?;
        let slots: Result<Vec<_>> = cts.iter().map(|ct| self.decrypted(secret, ct)).collect();
        let found = read(places, &slots?);
        let mut answer = told(&self.description.reading, &found.values, found.sound);
        self.answers += 1;
        answer.warnings.extend(warning(self.answers, self.budget));
        Ok(answer)
    }

    fn params(&self) -> &CkksParameters {
        self.encoder.params()
    }

    fn secret(&self) -> Result<&Secret> {
        let missing = || ClientError::Peer("there are no keys yet".to_owned());
        self.secret.as_ref().ok_or_else(missing)
    }

    fn entered(&self, text: &str) -> Result<Embedded> {
        let (said, front) = (&self.description, &self.description.front);
        embedded(text, &self.tokenizer, &self.tables, front, said.tokens)
    }

    fn encrypted(
        &self,
        secret: &Secret,
        tensor: &TensorOf,
        runs: &[Run],
        entered: &Embedded,
    ) -> Result<Vec<u8>> {
        let (params, bound) = (self.params(), self.description.bound);
        let real = entered.mask.iter().filter(|&&real| real).count() as f64;
        let width = self.description.hidden;
        let number = |at: usize| match tensor.source {
            Source::Hidden => entered.states[at / width][at % width] / bound,
            Source::Mask => f64::from(u8::from(entered.mask[at])) / real,
        };
        let mut slots = vec![Complex64::default(); params.slots()];
        for &Run(first, count, source, stride) in runs {
            let numbers = (0..count).map(|step| number(source + step * stride));
            slots[first..first + count]
                .iter_mut()
                .zip(numbers)
                .for_each(|(z, x)| z.re = x);
        }
        let native = params
            .native_level("encrypt", tensor.level)
            .map_err(ClientError::engine)?;
        let scale = params.scale(native);
        let plain = self.encoder.encode(&slots, scale, native + 1);
        slots.iter_mut().for_each(|z| z.re.zeroize());
        let mut plain = plain.map_err(ClientError::engine)?;
        let encrypted = rlwe::encrypt_secret(params.rlwe(), &secret.key, &plain, scale);
        plain.wipe();
        let (ct, seed) = encrypted.map_err(ClientError::engine)?;
        let writer = CiphertextWriter::new(Vec::new(), params, secret.owner, 1);
        let written = writer.and_then(|mut writer| {
            writer.write_seeded(&ct, &seed)?;
            writer.finish()
        });
        written.map_err(ClientError::engine)
    }

    fn decrypted(&self, secret: &Secret, ct: &[u8]) -> Result<Vec<Complex64>> {
        let params = self.params();
        let read = CiphertextReader::new(ct, params, Some(secret.owner)).and_then(|mut reader| {
            let first = reader.next().transpose()?;
            Ok(first.filter(|_| reader.next().is_none()))
        });
        let Ok(Some(ct)) = read else {
            return damaged("response", "not a ciphertext of these keys");
        };
        let native = params
            .native_level("decrypt", self.description.response.level)
            .map_err(ClientError::engine)?;
        let same = (ct.scale.log2() - params.scale(native).log2()).abs() <= SAME_SCALE;
        if ct.limbs() != native + 1 || !same {
            return damaged("response", "another level or scale than the plan's");
        }
        let low = ct.truncated(ct.limbs().min(2));
        let mut plain = rlwe::decrypt(params.rlwe(), &secret.key, &low);
        let slots = self.encoder.decode(&plain, low.scale);
        plain.wipe();
        Ok(slots)
    }
}
