//! A text that both parties write, token by token (`tacita.two_party.writing`): the client learns the tokens
//! and not their logits, the server how many there are.
use crate::error::{strange, unasked, Result};
use crate::front::{prompted, share_of, Tokenizer};
use crate::greeting::{ask, Event};
use crate::part::PublicPart;
use crate::program::{Do, Program};
use crate::run::{run, Past, Prepared, Standing, Unknown};
use crate::tensor::{misfit, ring, Tensor};
use tacita_mpc::compare::{argmax_rows, Window};
use tacita_mpc::Party;
use zeroize::Zeroize;

const WRITE: &[u8] = &[3];
const MORE: &[u8] = &[1];
const ENOUGH: &[u8] = &[0];
pub(crate) const KEY_BYTES: usize = 16;
/// Rows that are prepared together.
const AT_ONCE: usize = 32;
/// A prompt is padded to a multiple of so many tokens, which the server learns.
const ROUND: usize = 16;
/// At which logits are told apart.
const CHOICE_FRACTION: u32 = 10;
/// What the server adds to a logit at temperature 1, from the least to the most.
const NOISE_SPREAD: f64 = 36.0;
const MOST_THOUSANDTHS: u32 = 8000;

/// What is wished of a text. most: tokens. thousandths: of the temperature, 0 for the likeliest token.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Wish {
    pub most: usize,
    pub thousandths: u32,
}

/// One token of a text. id: its number. text: what it adds, empty while a character is not complete. last:
/// whether none follows. near: what the tokens spell that might as well have come, where its chooser says.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Written {
    pub id: u32,
    pub text: String,
    pub last: bool,
    pub near: Vec<String>,
}

impl Wish {
    /// Refuses one that means nothing.
    ///
    /// # Errors
    /// [`crate::ClientError::Text`].
    pub fn check(self, writes: bool) -> Result<()> {
        if !writes || self.most == 0 || self.thousandths > MOST_THOUSANDTHS {
            return unasked("this model writes no such text: from 1 token on, at a temperature from 0 to 8");
        }
        Ok(())
    }
}

/// A text as its client knows it, whoever chooses its tokens.
pub struct Text {
    /// The prompt's, then those that were written. Wiped when dropped.
    pub ids: Vec<u32>,
    /// Characters of the prompt as it is spelled, and behind it those that were shown.
    prompt: usize,
    shown: usize,
    left: usize,
}

impl Drop for Text {
    fn drop(&mut self) {
        self.ids.zeroize();
    }
}

impl Text {
    /// A text behind a prompt, of `most` tokens more at most and of `tokens` in all. around: whether the
    /// tokenizer adds its own. What is written last is not read.
    ///
    /// # Errors
    /// [`crate::ClientError::Text`] for a prompt that does not fit.
    pub fn new(
        prompt: &str,
        around: bool,
        most: usize,
        tokens: usize,
        tokenizer: &Tokenizer,
    ) -> Result<Self> {
        let ids = tokenizer.encode(prompt, around)?;
        if ids.len() > (tokens + 1).saturating_sub(most) {
            let count = ids.len();
            return unasked(format!(
                "a prompt of {count} tokens and {most} behind it, this model takes {tokens}: shorten it"
            ));
        }
        Ok(Self {
            prompt: tokenizer.decode(&ids).chars().count(),
            ids,
            shown: 0,
            left: most,
        })
    }

    /// Writes the next token: what it adds, all that no later one can change.
    pub fn write(&mut self, id: u32, ends: &[u32], tokenizer: &Tokenizer) -> Written {
        self.ids.push(id);
        self.left -= 1;
        let last = self.left == 0 || ends.contains(&id);
        let text: Vec<char> = tokenizer.decode(&self.ids).chars().skip(self.prompt).collect();
        let whole = text
            .iter()
            .rposition(|&c| c != char::REPLACEMENT_CHARACTER)
            .map_or(0, |at| at + 1);
        let upto = if last { text.len() } else { whole.max(self.shown) };
        let added = text.get(self.shown..upto).unwrap_or_default().iter().collect();
        self.shown = upto;
        Written {
            id,
            text: added,
            last,
            near: vec![],
        }
    }

    /// What a token would spell behind the text.
    pub fn spelled(&self, id: u32, tokenizer: &Tokenizer) -> String {
        let before = tokenizer.decode(&self.ids).chars().count();
        let all = [&self.ids[..], &[id]].concat();
        tokenizer.decode(&all).chars().skip(before).collect()
    }
}

/// A text that both parties write.
pub struct Writing {
    wish: Wish,
    text: Text,
    /// Rows of the prompt, padding included, and which of all rows so far are real.
    slots: usize,
    mask: Vec<bool>,
    past: Past,
    prepared: Prepared,
}

impl Writing {
    /// A text behind a prompt. Nothing is sent.
    ///
    /// # Errors
    /// [`crate::ClientError::Text`] for a prompt that does not fit, or a wish that means nothing.
    pub fn new(prompt: &str, wish: Wish, part: &PublicPart, tokenizer: &Tokenizer) -> Result<Self> {
        let program = part.program();
        wish.check(program.writes())?;
        let begun = program.begin.len();
        let text = Text::new(prompt, begun == 0, wish.most, program.tokens, tokenizer)?;
        let (count, room) = (text.ids.len(), program.tokens + 1 - wish.most);
        let turned = program
            .steps
            .iter()
            .any(|step| matches!(step.what, Do::Turn { .. }));
        let exact = begun > 0 && turned;
        let slots = if exact {
            count
        } else {
            room.min(count.div_ceil(ROUND) * ROUND)
        };
        let mut mask = vec![true; begun];
        mask.resize(begun + slots - count, false);
        mask.resize(begun + slots, true);
        Ok(Self {
            wish,
            text,
            slots,
            mask,
            past: Past::empty(program, begun)?,
            prepared: Prepared::default(),
        })
    }

    /// Asks for the text.
    ///
    /// # Errors
    /// `Refused`; those of the channel.
    pub fn request(&self, party: &mut Party, program: &Program) -> Result<()> {
        if self.slots > program.tokens {
            return misfit("a prompt of too many tokens");
        }
        let fields = [
            self.slots as u32,
            self.wish.most as u32,
            self.wish.thousandths,
            0,
            0,
        ];
        let mut request: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        request.extend([0; KEY_BYTES]); // a new text
        ask(party, &[WRITE, &request])
    }

    /// The next token.
    ///
    /// # Errors
    /// Those of the protocols; a token that is not in the vocabulary.
    pub fn token(
        &mut self,
        party: &mut Party,
        part: &PublicPart,
        tokenizer: &Tokenizer,
        watch: &mut dyn FnMut(Event),
    ) -> Result<Written> {
        party.send(MORE)?;
        let program = part.program();
        let input = self.input(part)?;
        if input.shape()[0] == 1 && self.prepared.left() == 0 {
            watch(Event::Node("prepare"));
            let rows = self.text.left.clamp(1, AT_ONCE);
            self.prepared.prepare(party, program, &self.past, rows)?;
        }
        let standing = Standing {
            mask: &self.mask,
            past: &mut self.past,
            prepared: Some(&mut self.prepared),
        };
        let mut node = |name: &str| watch(Event::Node(name));
        let logits = run(party, program, &mut Unknown, input, standing, &mut node)?;
        watch(Event::Node("choose"));
        let id = self.chosen(party, program, &logits)?;
        self.mask.push(true);
        Ok(self.text.write(id, &program.ends, tokenizer))
    }

    /// Ends a text of which the server still waits for tokens.
    ///
    /// # Errors
    /// Those of the channel.
    pub fn end(&mut self, party: &mut Party) -> Result<()> {
        if std::mem::take(&mut self.text.left) > 0 {
            party.send(ENOUGH)?;
        }
        Ok(())
    }

    /// The share of the prompt, padded on its left with copies of its first row, or of the last token.
    fn input(&self, part: &PublicPart) -> Result<Tensor> {
        let (program, begun) = (part.program(), part.program().begin.len());
        let first = self.past.rows == begun;
        let (ids, position) = match self.text.ids.split_last() {
            Some((last, before)) if !first => (std::slice::from_ref(last), begun + before.len()),
            _ => (&self.text.ids[..], begun),
        };
        let mut rows = prompted(part.tables(), &program.front, ids, position)?;
        if first {
            let padding = vec![rows[0].clone(); self.slots - rows.len()];
            rows.splice(0..0, padding);
        }
        share_of(&rows, program)
    }

    /// The number of the likeliest token, after the chance that the server adds.
    fn chosen(&self, party: &mut Party, program: &Program, logits: &Tensor) -> Result<u32> {
        let words = logits.values().len();
        let bound = program.reading.bound + f64::from(self.wish.thousandths) / 1000.0 * NOISE_SPREAD;
        let bits = bound.max(1.0).log2().ceil() as u32 + 2 + CHOICE_FRACTION;
        let Some(drop) = program.answered.fraction.checked_sub(CHOICE_FRACTION) else {
            return misfit("logits of too few bits");
        };
        let (to, index) = (ring(bits)?, ring((words.max(2) - 1).ilog2() + 1)?);
        if logits.ring().bits() < bits + drop {
            return misfit("logits of too few bits");
        }
        let low = logits.values().iter().map(|&v| match drop {
            0 => to.reduce(v),
            _ => to.reduce((v >> drop).wrapping_add(1)), // a unit, which is right on average
        });
        let low: Vec<u64> = low.collect();
        let window = Window { bits, drop: 0 };
        let (_, own) = argmax_rows(party, &low, 1, words, to, window, index)?;
        let theirs = party.receive(8)?;
        let theirs = u64::from_le_bytes(theirs[..8].try_into().expect("eight bytes"));
        let id = index.add(own[0], theirs);
        if id as usize >= program.front.vocab {
            return strange("the server chose a token that there is not");
        }
        Ok(id as u32)
    }
}
