//! The first exchange of a session: do both sides speak the same version about the same plan?
use crate::{MpcError, Party, Result, Role};

/// Version of the two-party protocol: changes with every change of a message.
pub const VERSION: u32 = 8;

const MAGIC: [u8; 8] = *b"tacita2p";

/// Bytes of a hello, in all versions: magic 8, version 4, role 1, zeros 3, plan 32.
pub const HELLO_BYTES: usize = 48;

fn hello(role: Role, plan: &[u8; 32]) -> [u8; HELLO_BYTES] {
    let mut out = [0; HELLO_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12] = code(role);
    out[16..].copy_from_slice(plan);
    out
}

const fn code(role: Role) -> u8 {
    match role {
        Role::Client => 1,
        Role::Server => 2,
    }
}

/// What is wrong with the peer's hello, if anything.
fn differs(own: &[u8; HELLO_BYTES], theirs: &[u8]) -> Option<String> {
    if theirs[..8] != MAGIC {
        return Some("the peer's first message is no greeting of this protocol".to_owned());
    }
    let version = u32::from_le_bytes([theirs[8], theirs[9], theirs[10], theirs[11]]);
    if version != VERSION {
        return Some(format!(
            "the peer speaks version {version} of the protocol, this side version {VERSION}"
        ));
    }
    if theirs[12] == own[12] {
        return Some("both sides have the same role".to_owned());
    }
    if !(1..=2).contains(&theirs[12]) || theirs[13..16] != [0; 3] {
        return Some("the peer's greeting is malformed".to_owned());
    }
    let short = |plan: &[u8]| plan[..6].iter().map(|b| format!("{b:02x}")).collect::<String>();
    (theirs[16..] != own[16..]).then(|| {
        let (mine, peer) = (short(&own[16..]), short(&theirs[16..]));
        format!("the peer's plan is {peer}..., this side's {mine}...")
    })
}

impl Party {
    /// Greets the peer and checks its greeting: magic, version, the other role, and `plan`, a hash of
    /// everything public that both sides must agree on (shapes, scales, options). Call it before anything
    /// else. 48 bytes each way, one round.
    ///
    /// # Errors
    /// `Message` naming what differs, on *both* sides, since both check after both have sent.
    pub fn handshake(&mut self, plan: &[u8; 32]) -> Result<()> {
        self.measured("handshake", |party| {
            let own = hello(party.role(), plan);
            party.send(&own)?;
            let theirs = party.receive(HELLO_BYTES)?;
            match differs(&own, &theirs) {
                None => Ok(()),
                Some(detail) => Err(MpcError::Message {
                    op: "handshake",
                    detail,
                }),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::memory_pair;
    use std::time::Duration;

    fn greet(roles: [Role; 2], plans: [[u8; 32]; 2]) -> [Result<()>; 2] {
        let (left, right) = memory_pair(Duration::from_secs(60));
        std::thread::scope(|scope| {
            let other = scope.spawn(move || Party::new(roles[1], Box::new(right)).handshake(&plans[1]));
            let mine = Party::new(roles[0], Box::new(left)).handshake(&plans[0]);
            [mine, other.join().expect("no panic")]
        })
    }

    #[test]
    fn equal_plans_and_different_roles_agree() {
        let results = greet([Role::Client, Role::Server], [[7; 32]; 2]);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    #[test]
    fn both_sides_hear_of_a_difference() {
        for result in greet([Role::Client, Role::Server], [[7; 32], [9; 32]]) {
            let text = result.expect_err("other plan").to_string();
            assert!(
                text.contains("070707070707") && text.contains("090909090909"),
                "{text}"
            );
        }
        for result in greet([Role::Server; 2], [[7; 32]; 2]) {
            assert!(result.expect_err("same role").to_string().contains("same role"));
        }
    }

    #[test]
    fn versions_and_garbage_are_named() {
        let own = hello(Role::Client, &[1; 32]);
        let mut theirs = hello(Role::Server, &[1; 32]);
        assert_eq!(differs(&own, &theirs), None);
        theirs[8] = 77;
        assert!(differs(&own, &theirs).unwrap().contains("version 77"));
        theirs = hello(Role::Server, &[1; 32]);
        theirs[14] = 1;
        assert!(differs(&own, &theirs).unwrap().contains("malformed"));
        assert!(differs(&own, &[0; HELLO_BYTES]).unwrap().contains("no greeting"));
    }
}
