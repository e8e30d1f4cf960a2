//! How a session begins (`tacita.two_party.protocol.handshake`), and the permission for what follows.
use crate::error::{strange, ClientError, Result};
use crate::part::{digest, PublicPart, MAX_BYTES};
use std::time::Duration;
use tacita_mpc::channel::Link;
use tacita_mpc::Party;

const MAGIC: &[u8; 10] = b"TACITA-2PC";
const REFUSAL: &[u8; 10] = b"TACITA-NO!";
const VERSION: u16 = 11;
const CHUNK: usize = 1 << 20;
const SEND: &[u8] = &[1];
const AGREED: &[u8] = &[1];
const LINK: &[u8] = &[5];
const ECHO: &[u8] = &[6];
/// Round trips that are measured at most, and milliseconds that they may take together.
const ECHOES: usize = 8;
const ECHO_MILLISECONDS: f64 = 20.0;

/// What a session tells whoever watches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// Bytes of the public part that came, and all of them.
    Loaded(usize, usize),
    /// A step of the model begins: its name.
    Node(&'a str),
}

/// Greets the server up to the agreed plan.
pub(crate) fn greeted(party: &mut Party, watch: &mut dyn FnMut(Event)) -> Result<PublicPart> {
    let part = PublicPart::parse(received_part(party, watch)?)?;
    party.send(&part.plan_hash())?;
    if party.receive(1)? != AGREED {
        return strange("the server runs another plan than it announced: reload the page");
    }
    Ok(part)
}

/// Tells the server the link that is nearest to the least of a few round trips; both choose windows and
/// look-ups for it. Of a long link one is enough.
pub(crate) fn adapt(party: &mut Party, clock: fn() -> f64) -> Result<()> {
    let (mut least, mut spent) = (f64::INFINITY, 0.0);
    for _ in 0..ECHOES {
        let began = clock();
        party.send(ECHO)?;
        if party.receive(1)? != ECHO {
            return strange("the server answers no echo: reload the page");
        }
        let taken = (clock() - began).max(0.0);
        (least, spent) = (least.min(taken), spent + taken);
        if spent >= ECHO_MILLISECONDS {
            break;
        }
    }
    let link = Link::nearest(Duration::from_secs_f64(1e-3 * least.min(1e6)));
    let [kilobits, micros] = [link.bandwidth / 1e3, link.rtt.as_secs_f64() * 1e6].map(|x| x.round() as u32);
    party.send(LINK)?;
    party.send(&[kilobits.to_le_bytes(), micros.to_le_bytes()].concat())?;
    party.set_link(link);
    Ok(())
}

/// Sends a request, in so many messages, and waits for the server's permission.
pub(crate) fn ask(party: &mut Party, request: &[&[u8]]) -> Result<()> {
    for message in request {
        party.send(message)?;
    }
    let said = party.receive(10)?;
    permission(u16::from_le_bytes([said[0], said[1]]), &said[2..])
}

fn received_part(party: &mut Party, watch: &mut dyn FnMut(Event)) -> Result<Vec<u8>> {
    party.send(&[&MAGIC[..], &VERSION.to_le_bytes()].concat())?;
    let said = party.receive(52)?;
    let version = u16::from_le_bytes([said[10], said[11]]);
    if said[..10] == *REFUSAL {
        permission(version, &said[12..20])?;
    }
    if said[..10] != *MAGIC || version != VERSION {
        return strange("the other side is not a tacita server of this release");
    }
    let length = u64::from_le_bytes(said[12..20].try_into().expect("eight bytes"));
    if !(1..=MAX_BYTES).contains(&length) {
        return strange(format!("the server announces a public part of {length} bytes"));
    }
    party.send(SEND)?;
    let (length, mut data) = (length as usize, vec![]);
    while data.len() < length {
        data.extend(party.receive(CHUNK.min(length - data.len()))?);
        watch(Event::Loaded(data.len(), length));
    }
    if digest(&data) != said[20..] {
        return strange("the server's public part does not match its hash: try again");
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
