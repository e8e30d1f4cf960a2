//! Steps that a page runs, as a server publishes them (`tacita-wasm`).
use crate::Target;
use tacita_wasm::program::Program;
use tacita_wasm::ClientError;

/// A program's fields are plain JSON: it is read, or refused as damaged.
pub(crate) const PROGRAM: Target = Target {
    name: "page_program",
    cap: 1 << 20, // twice the steps that fit into the longest input
    longest: 1 << 14,
    body: |data| match Program::parse(data) {
        Ok(program) => assert!(program.tokens > 0 && program.hidden > 0),
        Err(ClientError::Damaged { .. }) => {}
        Err(other) => panic!("not an error about the program: {other}"),
    },
};
