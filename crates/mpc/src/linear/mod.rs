//! (under construction)

/// What a party keeps between calls.
#[derive(Default)]
pub struct State {}
