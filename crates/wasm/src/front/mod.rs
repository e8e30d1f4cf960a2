//! Text to the model's input: tokens, rows of the published tables, their norm, fixed point.
mod bytes;
mod embed;
mod normalize;
mod template;
mod tokenizer;

pub use embed::{embedded, entered, prompted, reversed, share_of, Embedded, Entered, Tables};
pub use tokenizer::{Origin, Token, Tokenizer};
