//! The client beside vectors that Python wrote: one program, so that the engine is linked once.
mod files;
mod front;
mod hostile;
mod plans;
mod session;
mod steps;
mod texts;
mod vectors;
