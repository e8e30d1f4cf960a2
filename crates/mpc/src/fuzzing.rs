//! What `crates/fuzz` needs of this crate and nobody else may have: private decoders, and transfers out of
//! a public seed, so that one party alone can be run against hostile bytes in microseconds. Exists with
//! the feature `fuzzing` only.
pub use crate::channel::fuzzing::receive_all;
use crate::channel::Channel;
pub use crate::ot::fuzzing::{
    base_point, ferret_batch, soft_spoken_batch, soft_spoken_trees, FERRET_BYTES, SOFT_BYTES, TREES_BYTES,
};
use crate::ot::CotKind;
use crate::{Party, Result, Role};

/// A party whose correlated transfers come from a seed that everybody knows: no set-up, no security.
///
/// # Errors
/// Never: dealt transfers need no message.
pub fn insecure_party(role: Role, channel: impl Channel + 'static) -> Result<Party> {
    let mut party = Party::new(role, Box::new(channel));
    party.setup_ot(CotKind::InsecureTestDealer)?;
    Ok(party)
}
