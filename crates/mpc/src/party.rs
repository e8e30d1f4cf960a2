//! One party of a running session: its role, its end of the link, its correlations and keys, and what each
//! operation cost.
use crate::channel::{Channel, Closer, Ended, Link, Parts, Take};
use crate::compare::Prices;
use crate::profile::{Meter, Profile};
use crate::{linear, ot, products, Result};
use std::sync::mpsc;
use std::time::Instant;

/// Who one is. The client holds the input and the lattice secret, the server the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Holds the input; encrypts.
    Client,
    /// Holds the model; evaluates.
    Server,
}

impl Role {
    /// The peer's.
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

type Early = Box<dyn FnOnce(&mut Party) -> Result<()> + Send>;

/// State of one party.
pub struct Party {
    role: Role,
    channel: Box<dyn Channel>,
    profile: Profile,
    #[allow(dead_code)] // until the modules below use them
    pub(crate) ot: ot::State,
    #[allow(dead_code)]
    pub(crate) linear: linear::State,
    #[allow(dead_code)]
    pub(crate) products: products::State,
    /// By which comparisons are planned; the peer has the same.
    pub(crate) prices: Prices,
    /// What is taken ahead of what is received next ([`Party::beside`]).
    early: Option<Early>,
    /// Where tests keep what this party sends.
    #[cfg(test)]
    pub(crate) tape: Option<crate::simulator::Tape>,
}

impl Party {
    /// A party at its end of a link; no message is exchanged yet.
    pub fn new(role: Role, channel: Box<dyn Channel>) -> Self {
        Self {
            role,
            channel,
            profile: Profile::default(),
            ot: ot::State::default(),
            linear: linear::State::default(),
            products: products::State::default(),
            prices: Prices::default(),
            early: None,
            #[cfg(test)]
            tape: None,
        }
    }

    /// Who this is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether this is the client.
    pub fn is_client(&self) -> bool {
        self.role == Role::Client
    }

    /// Chooses windows of products and look-ups of comparisons for a link from now on: fewer bytes where it
    /// is slow, fewer rounds where it is long, less work where it is neither. Both parties must say the same
    /// one; without a call it is [`Link::default`].
    pub fn set_link(&mut self, link: Link) {
        self.set_linear_costs(linear::costs_over(link));
        self.prices = Prices::of(link);
    }

    /// Sends one message.
    ///
    /// # Errors
    /// As [`Channel::send`].
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        self.profile.sending();
        #[cfg(test)]
        if let Some(tape) = &self.tape {
            tape.keep(self.profile.operation(), message);
        }
        self.channel.send(message)
    }

    /// Receives one message of exactly `len` bytes.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn receive(&mut self, len: usize) -> Result<Vec<u8>> {
        self.catch_up()?;
        self.profile.receiving();
        self.channel.receive(len)
    }

    /// Sends one message whose parts, of these lengths, are made while those before them travel.
    ///
    /// # Errors
    /// As [`Channel::send_parts`].
    pub(crate) fn send_parts(&mut self, lengths: &[usize], parts: Parts<'_>) -> Result<()> {
        self.profile.sending();
        #[cfg(test)]
        if let Some(tape) = &self.tape {
            let whole = parts.collect::<Result<Vec<_>>>()?.concat();
            tape.keep(self.profile.operation(), &whole);
            return self.channel.send(&whole);
        }
        self.channel.send_parts(lengths, parts)
    }

    /// Receives one message in parts of these lengths, each as soon as it is there.
    ///
    /// # Errors
    /// As [`Channel::receive_parts`].
    pub(crate) fn receive_parts(&mut self, lengths: &[usize], take: Take<'_>) -> Result<()> {
        self.profile.receiving();
        self.channel.receive_parts(lengths, take)
    }

    /// Transfers both ways in one round: the client chooses and takes what the server answers, whose own
    /// choices come along with it, and answers those last. What the client says next goes with that.
    pub(crate) fn both_ways<C, A, T>(
        &mut self,
        choose: impl FnOnce(&mut Self) -> Result<C>,
        answer: impl FnOnce(&mut Self) -> Result<A>,
        take: impl FnOnce(&mut Self, C) -> Result<T>,
    ) -> Result<(A, T)> {
        if self.is_client() {
            let chosen = choose(self)?;
            let taken = take(self, chosen)?;
            return Ok((answer(self)?, taken));
        }
        let kept = answer(self)?;
        let chosen = choose(self)?;
        Ok((kept, take(self, chosen)?))
    }

    /// Runs `body`, which may choose first; before it receives anything `early` runs, for whose messages this
    /// party asked before. So one answer does not wait for the other. `body` must not do the same.
    pub(crate) fn beside<E: Send + 'static, T>(
        &mut self,
        early: impl FnOnce(&mut Self) -> Result<E> + Send + 'static,
        body: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<(E, T)> {
        debug_assert!(self.early.is_none());
        let (give, taken) = mpsc::channel();
        self.early = Some(Box::new(move |party| {
            // the other end is held until this has run
            let _ = give.send(early(party)?);
            Ok(())
        }));
        let result = body(self).and_then(|value| self.catch_up().map(|()| value));
        self.early = None;
        let value = result?;
        match taken.try_recv() {
            Ok(early) => Ok((early, value)),
            Err(_) => unreachable!("`catch_up` has run it"),
        }
    }

    /// Takes what is to be taken ahead of what is received next.
    pub(crate) fn catch_up(&mut self) -> Result<()> {
        self.early.take().map_or(Ok(()), |early| early(self))
    }

    /// Runs `body` and books its time, bytes and rounds under `name` (within the operations that are
    /// running).
    ///
    /// # Errors
    /// Those of `body`.
    pub fn measured<T>(&mut self, name: &str, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.begin(name);
        let result = body(self);
        self.end();
        result
    }

    /// Books what follows under `name`, until the matching [`Party::end`].
    pub fn begin(&mut self, name: &str) {
        self.profile.enter(name, self.meter());
    }

    /// Ends the innermost operation begun; nothing when there is none.
    pub fn end(&mut self) {
        self.profile.leave(self.meter());
    }

    fn meter(&self) -> Meter {
        Meter {
            sent: self.channel.sent(),
            received: self.channel.received(),
            skipped: self.channel.skipped(),
        }
    }

    /// What the operations cost so far.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Bytes sent so far, framing included.
    pub fn sent(&self) -> u64 {
        self.channel.sent()
    }

    /// Bytes received so far, framing included.
    pub fn received(&self) -> u64 {
        self.channel.received()
    }

    /// Seconds that a simulated link would have added to what the clock on the wall shows (0 for real links).
    pub fn skipped_seconds(&self) -> f64 {
        self.channel.skipped().as_secs_f64()
    }

    /// No wait goes past this moment; see [`Channel::limit`].
    pub fn limit(&mut self, until: Option<Instant>) {
        self.channel.limit(until);
    }

    /// Bytes that may wait for the peer to read them; see [`Channel::capacity`].
    pub fn capacity(&mut self, bytes: usize) {
        self.channel.capacity(bytes);
    }

    /// A way to close the link while this party waits in it; see [`Channel::closer`].
    pub fn closer(&self) -> Option<Closer> {
        self.channel.closer()
    }

    /// Orderly end of the session: what is queued is written, the peer is told, the connection closed.
    /// Counters stay readable; nothing can be sent or received any more. A second call does nothing.
    ///
    /// # Errors
    /// As [`Channel::finish`].
    pub fn finish(&mut self) -> Result<()> {
        let result = self.channel.finish();
        self.channel = Box::new(Ended::after(self.channel.as_ref()));
        result
    }
}
