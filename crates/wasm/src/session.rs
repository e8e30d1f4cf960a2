//! A session: the greeting (`tacita.two_party.protocol.handshake`), keys and correlations, texts.
use crate::answer::{opened, told, Answer};
use crate::error::{damaged, ClientError, Result};
use crate::framed::{Framed, Transport};
use crate::front::{entered, Tokenizer};
use crate::part::{digest, PublicPart, MAX_BYTES};
use crate::program::Program;
use crate::run::{run, Unknown};
use tacita_mpc::ot::CotKind;
use tacita_mpc::{Party, Role};

const MAGIC: &[u8; 10] = b"TACITA-2PC";
const REFUSAL: &[u8; 10] = b"TACITA-NO!";
const VERSION: u16 = 3;
const CHUNK: usize = 1 << 20;
const END: &[u8] = &[0];
const CLASSIFY: &[u8] = &[1];
const SEND: &[u8] = &[1];
const AGREED: &[u8] = &[1];

/// What a session tells whoever watches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// Bytes of the public part that came, and all of them.
    Loaded(usize, usize),
    /// A step of the model begins: its name.
    Node(&'a str),
}

/// One connected client.
pub struct Session {
    party: Party,
    program: Program,
    part: PublicPart,
    tokenizer: Tokenizer,
    ready: bool,
}

impl Session {
    /// Greets the server and takes its public part.
    ///
    /// # Errors
    /// [`ClientError`] of every kind but `Text`.
    pub fn greet(
        link: impl Transport + 'static,
        program: Program,
        watch: &mut dyn FnMut(Event),
    ) -> Result<Self> {
        let mut party = Party::new(Role::Client, Box::new(Framed::new(link)));
        let data = received_part(&mut party, watch)?;
        let part = PublicPart::parse(data, &program)?;
        let vocab = program.front.as_ref().map_or(0, |front| front.vocab);
        let tokenizer = Tokenizer::parse(part.tokenizer()?, vocab)?;
        party.send(part.plan_hash())?;
        if party.receive(1)? != AGREED {
            let said = "the server runs another plan than it announced: reload the page";
            return Err(ClientError::Peer(said.to_owned()));
        }
        Ok(Self {
            party,
            program,
            part,
            tokenizer,
            ready: false,
        })
    }

    /// The server's model on a text that it does not see.
    ///
    /// # Errors
    /// [`ClientError::Text`] before anything is sent; `Refused`; those of the protocols.
    pub fn classify(&mut self, text: &str, watch: &mut dyn FnMut(Event)) -> Result<Answer> {
        let given = entered(text, &self.tokenizer, &self.part, &self.program)?;
        self.party.send(CLASSIFY)?;
        let said = self.party.receive(10)?;
        permission(u16::from_le_bytes([said[0], said[1]]), &said[2..])?;
        self.set_up(watch)?;
        let mut told_node = |name: &str| watch(Event::Node(name));
        let (party, program) = (&mut self.party, &self.program);
        let share = run(
            party,
            program,
            &mut Unknown,
            given.share,
            &given.mask,
            &mut told_node,
        )?;
        let theirs = party.receive(8 * share.values().len())?;
        let (words, _) = theirs.as_chunks();
        let own = share.values().iter().zip(words);
        let sums: Vec<u64> = own
            .map(|(&own, &word)| share.ring().add(own, u64::from_le_bytes(word)))
            .collect();
        let columns = self.program.shape.last().copied().unwrap_or(1).max(1);
        let real = given.mask.iter().filter(|&&real| real).count();
        let rows = if self.program.reading.task == "text" {
            1
        } else {
            real
        };
        let numbers = opened(&sums, self.program.answered);
        let shown = &numbers[..numbers.len().min(rows * columns)];
        Ok(told(&self.program.reading, shown, true))
    }

    /// Says goodbye.
    ///
    /// # Errors
    /// Those of the channel.
    pub fn end(&mut self) -> Result<()> {
        self.party.send(END)?;
        Ok(self.party.finish()?)
    }

    /// Bytes sent and received, framing included.
    pub fn bytes(&self) -> (u64, u64) {
        (self.party.sent(), self.party.received())
    }

    /// Times that this party waited for the other.
    pub fn rounds(&self) -> u64 {
        self.party.profile().rounds()
    }

    /// What the program says of the model.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Keys and correlations, once.
    fn set_up(&mut self, watch: &mut dyn FnMut(Event)) -> Result<()> {
        if self.ready {
            return Ok(());
        }
        watch(Event::Node("set-up"));
        let kind = match self.program.correlations.as_str() {
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

fn received_part(party: &mut Party, watch: &mut dyn FnMut(Event)) -> Result<Vec<u8>> {
    party.send(&[&MAGIC[..], &VERSION.to_le_bytes()].concat())?;
    let said = party.receive(52)?;
    let version = u16::from_le_bytes([said[10], said[11]]);
    if said[..10] == *REFUSAL {
        permission(version, &said[12..20])?;
    }
    if said[..10] != *MAGIC || version != VERSION {
        let said = "the other side is not a tacita server of this release";
        return Err(ClientError::Peer(said.to_owned()));
    }
    let length = u64::from_le_bytes(said[12..20].try_into().expect("eight bytes"));
    if !(1..=MAX_BYTES).contains(&length) {
        let said = format!("the server announces a public part of {length} bytes");
        return Err(ClientError::Peer(said));
    }
    party.send(SEND)?;
    let (length, mut data) = (length as usize, vec![]);
    while data.len() < length {
        data.extend(party.receive(CHUNK.min(length - data.len()))?);
        watch(Event::Loaded(data.len(), length));
    }
    if digest(&data) != said[20..] {
        let said = "the server's public part does not match its hash: try again";
        return Err(ClientError::Peer(said.to_owned()));
    }
    Ok(data)
}

/// The server's no, where it is one (`tacita.two_party.protocol.refusal`).
fn permission(reason: u16, number: &[u8]) -> Result<()> {
    let number = u64::from_le_bytes(number.try_into().expect("eight bytes"));
    let said = match reason {
        0 if number == 0 => return Ok(()),
        1 => format!("the server is full ({number} sessions): try again later"),
        2 => format!("the server takes {number} sessions of one client at a time: try again later"),
        3 => format!("the server answers {number} texts of one client, and this one had them"),
        4 => "the key of the server's hidden table has served its texts: connect again".to_owned(),
        6 => format!("this client's quota holds no more, and is whole again in {number} seconds"),
        _ => format!("the server refuses for reason {reason}: reload the page"),
    };
    Err(ClientError::Refused(said))
}
