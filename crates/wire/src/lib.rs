//! Bytes that travel between client and server: parameters, evaluation keys, ciphertexts, plans. No secret
//! keys: the client's key file has a kind of its own ([`Kind::SECRET_KEY`]) and is written elsewhere over
//! [`header`] and [`record`].
//!
//! | module | idea |
//! |---|---|
//! | [`header`] | what a file is, of which version, under which parameters, of whose keys |
//! | [`record`] | length, body, checksum: the framing of everything after the header |
//! | [`ciphertext`] | one ciphertext, with or without its seeded half |
//! | [`ciphertext_file`] | files of them |
//! | [`key_writer`], [`key_reader`] | evaluation keys, one at a time |
//! | [`switching_keys`] | keys of coefficient products, behind the others |
//! | [`blob`] | opaque bytes (plans) |
//! | [`parameters`] | parameter literals, rebuilt and checked on reading |
//! | [`mask`] | uniform ciphertext halves from a public seed |
//!
//! # Format, version 1, keys of a ring that bootstraps version 2 (all integers little endian)
//! ```text
//! file        = header record*count end
//! header      = "TACITA" kind:u8 version:u32 parameter_hash:[32] owner:[16] count:u64 check:[16]
//! record      = length:u64 body:[length] check:[16]
//! check       = first 16 bytes of BLAKE3 over what precedes it
//! ciphertext  = polys:u8(=2) seeded:u8 limbs:u16 scale:f64 [seed:[32] if seeded] residues(c0)
//!               [residues(c1) if not seeded]
//! key         = kind:u8 number:u64 limbs:u16 special:u16 gadget:u8 seed:[32] digits:u16
//!               residues(b_0) residues(b_1) ...
//! residues    = per limb, N residues of the limb's prime, each at the prime's bit length,
//!               least significant bit first
//! ```
//! Every prime is below 2^50 and N is a multiple of 8, so that a limb fills whole bytes.
//!
//! # Hostile bytes
//! A length is compared with its cap, computed from the parameters, before a byte of the body is read;
//! buffers grow with the bytes that arrive, not with the length that is claimed; the checksum is compared
//! before the body is parsed; the length must be the one that the parsed shape implies; every residue must be
//! below its prime. The checksum finds damage, it does not authenticate: whoever alters a file can recompute
//! it, and all that follows must (and does) bear that.
#![forbid(unsafe_code)]

pub mod blob;
pub mod ciphertext;
pub mod ciphertext_file;
pub mod error;
mod fields;
pub mod header;
mod key_body;
pub mod key_reader;
pub mod key_writer;
pub mod mask;
pub mod parameters;
pub mod record;
mod residues;
pub mod switching_keys;

pub use blob::{read_blob, write_blob};
pub use ciphertext::{ciphertext_record_bytes, read_ciphertext, write_ciphertext, write_seeded_ciphertext};
pub use ciphertext_file::{CiphertextFile, CiphertextReader, CiphertextWriter};
pub use error::WireError;
pub use header::{read_header, write_header, Expect, Header, Kind, Owner, HEADER_BYTES, VERSION};
pub use key_body::{key_file_bytes, key_record_bytes, key_version};
pub use key_reader::{read_evaluation_keys, KeyReader};
pub use key_writer::KeyWriter;
pub use parameters::{read_parameters, write_parameters};
pub use record::{expect_end, read_record, write_record, RECORD_OVERHEAD};
pub use switching_keys::{read_switching_keys, switching_keys_bytes, write_switching_keys, KeyShape};
