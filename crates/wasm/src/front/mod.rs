//! Text to the model's input: tokens, rows of the published tables, their norm, fixed point.
mod embed;
mod normalize;
mod tokenizer;

pub use embed::{embedded, entered, Embedded, Entered, Tables};
pub use tokenizer::Tokenizer;
