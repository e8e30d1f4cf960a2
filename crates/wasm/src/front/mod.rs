//! Text to the model's input: tokens, rows of the published tables, their norm, fixed point.
mod bytes;
mod embed;
mod normalize;
mod template;
mod tokenizer;

pub use embed::{embedded, prompted, reversed, share_of, Embedded};
pub use tokenizer::{Origin, Token, Tokenizer};
