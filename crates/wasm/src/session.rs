//! A session: keys and correlations, texts that are asked about, and texts that are written.
use crate::answer::{opened, told, Answer};
use crate::error::{damaged, strange, unasked, Result};
use crate::framed::{Framed, Transport};
use crate::front::{embedded, share_of, Tokenizer};
pub use crate::greeting::Event;
use crate::greeting::{adapt, ask, greeted};
use crate::part::PublicPart;
use crate::program::Program;
use crate::run::{run, Past, Standing, Unknown};
use crate::writing::{Wish, Writing, Written, KEY_BYTES};
use serde::Serialize;
use tacita_mpc::ot::CotKind;
use tacita_mpc::{Party, Role};

const END: &[u8] = &[0];
const CLASSIFY: &[u8] = &[1];

/// Bytes both ways, framing included, and times that this party waited for the other.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Cost {
    pub sent: u64,
    pub received: u64,
    pub rounds: u64,
}

/// One connected client.
pub struct Session {
    party: Party,
    part: PublicPart,
    tokenizer: Tokenizer,
    ready: bool,
    writing: Option<Writing>,
}

impl Session {
    /// Greets the server, takes its public part, and tells it the link, as a few round trips are long.
    ///
    /// # Errors
    /// [`crate::ClientError`] of every kind but `Text`.
    pub fn greet(link: impl Transport + 'static, watch: &mut dyn FnMut(Event)) -> Result<Self> {
        let clock = link.clock();
        let mut party = Party::new(Role::Client, Box::new(Framed::new(link)));
        let part = greeted(&mut party, watch)?;
        let tokenizer = Tokenizer::parse(part.tokenizer()?, part.program().front.vocab)?;
        adapt(&mut party, clock)?;
        Ok(Self {
            party,
            part,
            tokenizer,
            ready: false,
            writing: None,
        })
    }

    /// The server's model on a text, or a question and its context, that it does not see.
    ///
    /// # Errors
    /// [`crate::ClientError::Text`] before anything is sent; `Refused`; those of the protocols.
    pub fn classify(&mut self, texts: &[&str], watch: &mut dyn FnMut(Event)) -> Result<Answer> {
        if self.program().writes() {
            return unasked("this model writes texts");
        }
        let program = self.part.program();
        self.tokenizer.require_fit(&program.reading.task, texts)?;
        let given = embedded(
            texts,
            &self.tokenizer,
            self.part.tables(),
            &program.front,
            program.tokens,
        )?;
        let input = share_of(&given.states, program)?;
        ask(&mut self.party, &[CLASSIFY])?;
        self.set_up(watch)?;
        let (party, program) = (&mut self.party, self.part.program());
        let standing = Standing {
            mask: &given.mask,
            past: &mut Past::default(),
            prepared: None,
        };
        let mut node = |name: &str| watch(Event::Node(name));
        let share = run(party, program, &mut Unknown, input, standing, &mut node)?;
        let columns = share.shape().last().copied().unwrap_or(1).max(1);
        let theirs = party.receive(8 * share.values().len())?;
        let (words, _) = theirs.as_chunks();
        let own = share.values().iter().zip(words);
        let sums: Vec<u64> = own
            .map(|(&own, &word)| share.ring().add(own, u64::from_le_bytes(word)))
            .collect();
        let real = given.mask.iter().filter(|&&real| real).count();
        let rows = if program.reading.task == "text" { 1 } else { real };
        let numbers = opened(&sums, program.answered);
        let shown = &numbers[..numbers.len().min(rows * columns)];
        let mut answer = told(&program.reading, shown, true);
        answer.understand(&program.reading, &given.tokens, &self.tokenizer);
        Ok(answer)
    }

    /// Has a text written behind a prompt that the server does not see, and gives its first token.
    ///
    /// # Errors
    /// [`crate::ClientError::Text`] before anything is sent; `Refused`; those of the protocols.
    pub fn write(&mut self, prompt: &str, wish: Wish, watch: &mut dyn FnMut(Event)) -> Result<Written> {
        let writing = Writing::new(prompt, wish, &self.part, &self.tokenizer)?;
        writing.request(&mut self.party, self.part.program())?;
        self.set_up(watch)?;
        self.party.receive(KEY_BYTES)?; // by which the server would know the text again
        self.writing = Some(writing);
        self.next(watch)
    }

    /// The next token of the text that is written.
    ///
    /// # Errors
    /// Where there is no such text; those of the protocols.
    pub fn next(&mut self, watch: &mut dyn FnMut(Event)) -> Result<Written> {
        let Some(mut writing) = self.writing.take() else {
            return strange("no text is being written");
        };
        let written = writing.token(&mut self.party, &self.part, &self.tokenizer, watch)?;
        match written.last {
            true => writing.end(&mut self.party)?,
            false => self.writing = Some(writing),
        }
        Ok(written)
    }

    /// Ends the text that is written, if there is one: the server turns to what comes next.
    ///
    /// # Errors
    /// Those of the channel.
    pub fn enough(&mut self) -> Result<()> {
        match self.writing.take() {
            Some(mut writing) => writing.end(&mut self.party),
            None => Ok(()),
        }
    }

    /// Says goodbye.
    ///
    /// # Errors
    /// Those of the channel.
    pub fn end(&mut self) -> Result<()> {
        self.enough()?;
        self.party.send(END)?;
        Ok(self.party.finish()?)
    }

    /// What it took so far.
    pub fn cost(&self) -> Cost {
        Cost {
            sent: self.party.sent(),
            received: self.party.received(),
            rounds: self.party.profile().rounds(),
        }
    }

    /// What the program says of the model.
    pub fn program(&self) -> &Program {
        self.part.program()
    }

    /// Keys and correlations, once.
    fn set_up(&mut self, watch: &mut dyn FnMut(Event)) -> Result<()> {
        if self.ready {
            return Ok(());
        }
        watch(Event::Node("set-up"));
        let kind = match self.program().correlations.as_str() {
            "ferret" => CotKind::Ferret,
            "softspoken" => CotKind::SoftSpoken,
            _ => return damaged("program", "correlations of another kind"),
        };
        self.party.measured("setup", |party| {
            party.setup_ot(kind)?;
            party.setup_linear()?;
            party.setup_products()
        })?;
        self.ready = true;
        Ok(())
    }
}
