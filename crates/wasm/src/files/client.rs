//! The client of one plan: its steps are those of `tacita.client.session`, on bytes in place of files.
use super::budget::{answers_of_a_key, bits, warning};
use super::choice::{choose, near, require_choice};
use super::keys::{hex, Hashing, Secret};
use super::layout::{Read, Response, Source};
use super::plan::Plan;
use super::{envelope, Receipt};
use crate::answer::{told, Answer};
use crate::error::{damaged, strange, unasked, ClientError, Result};
use crate::front::{embedded, reversed, Embedded, Token, Tokenizer};
use crate::part::{digest, Tables};
use crate::writing::{Text, Wish, Written};
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
    plan: Plan,
    encoder: Evaluator,
    specs: Vec<KeySpec>,
    tokenizer: Tokenizer,
    tables: Tables,
    secret: Option<Secret>,
    /// Hash of the request that was made last.
    asked: Option<String>,
    /// Of its text, until its answer is read.
    tokens: Vec<Token>,
    writing: Option<Draft>,
    /// That the secret decrypted, and how many it may.
    answers: u64,
    budget: Option<u64>,
}

/// A text that is written.
struct Draft {
    text: Text,
    wish: Wish,
    /// Its rows that the server keeps, where the plan has it keep them, and the hash of the request of the
    /// last.
    read: usize,
    after: String,
}

impl Client {
    /// From what the server published: plan.json, tokenizer.json, embedding.safetensors.
    /// `allow_insecure`: see [`Plan::parse`].
    ///
    /// # Errors
    /// [`ClientError::Damaged`].
    pub fn new(plan: &[u8], tokenizer: &[u8], tables: Vec<u8>, allow_insecure: bool) -> Result<Self> {
        let (plan, params, specs) = Plan::parse(plan, allow_insecure)?;
        let Ok(tokenizer) = std::str::from_utf8(tokenizer) else {
            return damaged("tokenizer", "not text");
        };
        let Response { rows, size, .. } = plan.response;
        let shown = bits(&plan.reading, rows, size, plan.chooses);
        Ok(Self {
            tokenizer: Tokenizer::parse(tokenizer, plan.front.vocab)?,
            tables: Tables::of_file(tables, &plan.front, plan.hidden)?,
            budget: answers_of_a_key(params.rlwe(), shown),
            encoder: Evaluator::new(params, Arc::default()),
            answers: 0,
            plan,
            specs,
            secret: None,
            asked: None,
            tokens: vec![],
            writing: None,
        })
    }

    /// The plan that is asked by.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Bits of security, as estimated for the parameters.
    pub fn security_bits(&self) -> u32 {
        self.params().rlwe().security_bits()
    }

    /// Bytes of the file of evaluation keys.
    pub fn key_bytes(&self) -> u64 {
        let bytes = |spec| key_record_bytes(self.params(), spec) as u64;
        HEADER_BYTES as u64 + self.specs.iter().map(bytes).sum::<u64>()
    }

    /// Refuses a text, or a pair, that cannot be asked about, before keys are made for it.
    ///
    /// # Errors
    /// [`ClientError::Text`].
    pub fn check(&self, texts: &[&str]) -> Result<()> {
        self.entered(texts).map(drop)
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

    /// The bytes of request.ct, of a text or a pair.
    ///
    /// # Errors
    /// [`ClientError::Text`] for a text that is empty or too long.
    pub fn encrypt(&mut self, texts: &[&str]) -> Result<Vec<u8>> {
        let entered = self.entered(texts)?;
        self.writing = None;
        self.request(entered, None)
    }

    /// Begins a text behind a prompt; nothing is encrypted.
    ///
    /// # Errors
    /// [`ClientError::Text`] for a prompt that does not fit, or a wish that means nothing.
    pub fn write(&mut self, prompt: &str, wish: Wish) -> Result<()> {
        wish.check(self.plan.writes())?;
        if self.plan.chooses && wish.thousandths > 0 {
            return unasked("this server tells the likeliest token alone: take a temperature of 0");
        }
        let room = self.plan.tokens.min(self.plan.front.positions);
        self.writing = Some(Draft {
            text: Text::new(prompt, true, wish.most, room, &self.tokenizer)?,
            wish,
            read: 0,
            after: String::new(),
        });
        Ok(())
    }

    /// Has the text that is written read anew, from its first row on: the server keeps it no more.
    pub fn restart(&mut self) {
        if let Some(draft) = &mut self.writing {
            (draft.read, draft.after) = (0, String::new());
        }
    }

    /// The bytes of request.ct, of the text so far; or of its first row that the server does not keep.
    ///
    /// # Errors
    /// [`ClientError::Peer`] where none is written.
    pub fn encrypt_next(&mut self) -> Result<Vec<u8>> {
        let Some(draft) = &self.writing else {
            return no_text();
        };
        let (all, plan) = (&draft.text.ids, &self.plan);
        let (ids, after) = match plan.kept {
            true => (&all[..all.len().min(draft.read + 1)], Some(draft.after.clone())),
            false => (&all[..], None),
        };
        let rows = reversed(ids, &self.tables, &plan.front, plan.tokens)?;
        self.request(rows, after)
    }

    /// The next token of the text, of the bytes of response.ct: the likeliest, with those that the rounding
    /// does not tell from it, or by chance as it was wished; and a warning as of [`Self::decrypt`]. `None`
    /// where rows are left that the server has to read before.
    ///
    /// # Errors
    /// As [`Self::decrypt`]; [`ClientError::Text`] where values left the calibrated ranges, or where the
    /// server chose no word or several.
    pub fn token(&mut self, response: &[u8], receipt: &Receipt) -> Result<Option<(Written, Option<String>)>> {
        let found = self.opened(response, receipt)?;
        let plan = &self.plan;
        let answer = told(&plan.reading, &found.values, found.sound);
        let Some(draft) = &mut self.writing else {
            return no_text();
        };
        let Some(logits) = answer.logits else {
            return unasked(answer.warnings.concat());
        };
        if plan.chooses {
            require_choice(&logits)?;
        }
        if plan.kept {
            (draft.read, draft.after) = (draft.read + 1, self.asked.take().unwrap_or_default());
            if draft.read < draft.text.ids.len() {
                return Ok(None);
            }
        }
        let (text, thousandths) = (&mut draft.text, draft.wish.thousandths);
        let id = choose(&logits, thousandths)?;
        let others = match thousandths {
            0 => near(&logits, id, plan.reading.step()),
            _ => vec![],
        };
        let spelled = others.iter().map(|&id| text.spelled(id, &self.tokenizer));
        let near = spelled.collect();
        let written = Written {
            near,
            ..text.write(id as u32, &plan.ends, &self.tokenizer)
        };
        if written.last {
            self.writing = None;
        }
        Ok(Some((written, warning(self.answers, self.budget))))
    }

    /// The bytes of request.ct, of rows. after: as of [`envelope::request`].
    fn request(&mut self, mut entered: Embedded, after: Option<String>) -> Result<Vec<u8>> {
        let secret = self.secret()?;
        let mut tensors = BTreeMap::new();
        for name in self.plan.request.tensors.keys() {
            tensors.insert(name.clone(), self.tensor(secret, name, &entered)?);
        }
        entered.states.zeroize();
        entered.mask.zeroize();
        let request = envelope::request(&self.plan.hash, &secret.id(), after, &tensors);
        self.forget();
        self.tokens = entered.tokens;
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
        let (found, layout) = (self.opened(response, receipt)?, &self.plan.response);
        let rows = if layout.rows == 1 { 1 } else { self.tokens.len() };
        let shown = &found.values[..found.values.len().min(rows * layout.size)];
        let mut answer = told(&self.plan.reading, shown, found.sound);
        answer.understand(&self.plan.reading, &self.tokens, &self.tokenizer);
        self.forget();
        answer.warnings.extend(warning(self.answers, self.budget));
        Ok(answer)
    }

    /// The numbers of a response to the last request; they count as an answer.
    fn opened(&mut self, response: &[u8], receipt: &Receipt) -> Result<Read> {
        let (secret, layout, plan) = (self.secret()?, &self.plan.response, &self.plan.hash);
        let asked = self.asked.as_deref().unwrap_or_default();
        receipt.check(plan, asked, &hex(&digest(response)))?;
        let tensor = (self.plan.answer.0.as_str(), layout.count);
        let cts = envelope::response(response, plan, &secret.id(), tensor)?;
        let slots: Result<Vec<_>> = cts.iter().map(|ct| self.decrypted(secret, ct)).collect();
        let found = layout.read(self.plan.agreement, &slots?);
        self.answers += 1;
        Ok(found)
    }

    fn params(&self) -> &CkksParameters {
        self.encoder.params()
    }

    fn secret(&self) -> Result<&Secret> {
        self.secret
            .as_ref()
            .map_or_else(|| strange("there are no keys yet"), Ok)
    }

    /// Wipes the text that was asked about.
    fn forget(&mut self) {
        self.tokens.iter_mut().for_each(|token| token.id.zeroize());
        self.tokens.clear();
    }

    fn entered(&self, texts: &[&str]) -> Result<Embedded> {
        let (plan, tokenizer) = (&self.plan, &self.tokenizer);
        tokenizer.require_fit(&plan.reading.task, texts)?;
        embedded(texts, tokenizer, &self.tables, &plan.front, plan.tokens)
    }

    /// The ciphertexts of a tensor of the request, whose places all hold this text.
    fn tensor(&self, secret: &Secret, name: &str, entered: &Embedded) -> Result<Vec<Vec<u8>>> {
        let (request, level) = (&self.plan.request, self.plan.levels[name]);
        let real = entered.mask.iter().filter(|&&real| real).count() as f64;
        let tensor = &request.tensors[name];
        let mut numbers: Vec<f64> = match tensor.source {
            Source::Hidden => entered.states.concat(),
            Source::Mask => entered.mask.iter().map(|&m| f64::from(u8::from(m))).collect(),
        };
        let whole = if tensor.source == Source::Hidden {
            request.bound
        } else {
            real
        };
        numbers.iter_mut().for_each(|x| *x /= whole);
        let mut filled = tensor.fill(request.slots, &numbers);
        numbers.zeroize();
        let made = filled
            .chunks(request.slots)
            .map(|slots| self.encrypted(secret, slots, level));
        let made = made.collect();
        filled.zeroize();
        made
    }

    fn encrypted(&self, secret: &Secret, numbers: &[f64], level: usize) -> Result<Vec<u8>> {
        let params = self.params();
        let mut slots: Vec<_> = numbers.iter().map(|&x| Complex64::new(x, 0.0)).collect();
        let native = params
            .native_level("encrypt", level)
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
            .native_level("decrypt", self.plan.answer.1)
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

fn no_text<T>() -> Result<T> {
    strange("no text is written")
}
