//! Parameters: the literal travels, the reader rebuilds and checks it.
use crate::blob::{read_blob, write_blob};
use crate::error::short_hex;
use crate::fields::{to_u16, Fields};
use crate::{Kind, Owner, WireError};
use std::io::{Read, Write};
use tacita_rlwe::{Parameters, ParametersLiteral, RlweError};

const WRITE: &str = "write parameters";
const READ: &str = "read parameters";
/// Longest name in bytes.
const MAX_NAME: usize = 64;
/// Most primes in Q or P.
const MAX_PRIMES: usize = 64;
/// name length, log_n, digit_limbs, primes of Q, primes of P.
const FIELDS: usize = 5 * 2;

/// Writes parameters as a file: name, log2 N, digit_limbs, Q, P.
///
/// # Errors
/// [`WireError::Field`] when a length exceeds its cap, [`WireError::Io`].
pub fn write_parameters(w: &mut impl Write, params: &Parameters) -> Result<(), WireError> {
    let lengths = [
        ("name", params.name().len(), MAX_NAME),
        ("log_n", params.log_n() as usize, 17),
        ("digit_limbs", params.digit_limbs(), MAX_PRIMES),
        ("primes of Q", params.q_len(), MAX_PRIMES),
        ("primes of P", params.p_len(), MAX_PRIMES),
    ];
    let mut body = Vec::new();
    for (field, value, cap) in lengths {
        check_cap(WRITE, field, value, cap)?;
        body.extend_from_slice(&to_u16(WRITE, field, value)?.to_le_bytes());
    }
    body.extend_from_slice(params.name().as_bytes());
    for p in params.q().iter().chain(params.p()) {
        body.extend_from_slice(&p.to_le_bytes());
    }
    write_blob(w, Kind::PARAMETERS, params.hash(), Owner::default(), &body)
}

/// Reads parameters and builds their tables. `allow_insecure` admits those below 128 bits: for tests.
///
/// # Errors
/// Those of [`read_blob`]; [`WireError::Field`], [`WireError::Length`] for a malformed body;
/// [`WireError::Insecure`]; [`WireError::Rlwe`] when the literal is refused; [`WireError::Parameters`] when
/// it is not what the header's hash says.
pub fn read_parameters(r: &mut impl Read, allow_insecure: bool) -> Result<Parameters, WireError> {
    let cap = FIELDS + MAX_NAME + 2 * MAX_PRIMES * 8;
    let (header, body) = read_blob(r, Kind::PARAMETERS, None, cap as u64)?;
    let literal = parse(&body)?;
    if literal.name.starts_with("insecure_") && !allow_insecure {
        return Err(WireError::Insecure {
            op: READ,
            name: literal.name,
        });
    }
    let params = Parameters::new(literal).map_err(rlwe)?;
    if *params.hash() != header.parameters {
        return Err(WireError::Parameters {
            op: READ,
            found: short_hex(&header.parameters),
            expected: short_hex(params.hash()),
        });
    }
    Ok(params)
}

fn parse(body: &[u8]) -> Result<ParametersLiteral, WireError> {
    let mut fields = Fields::new(READ, body);
    let mut next = |field, cap| -> Result<usize, WireError> {
        let value = usize::from(fields.u16()?);
        check_cap(READ, field, value, cap)?;
        Ok(value)
    };
    let name = next("name", MAX_NAME)?;
    let log_n = next("log_n", 17)?;
    let digit_limbs = next("digit_limbs", MAX_PRIMES)?;
    let q = next("primes of Q", MAX_PRIMES)?;
    let p = next("primes of P", MAX_PRIMES)?;
    let wanted = FIELDS + name + 8 * (q + p);
    if body.len() != wanted {
        return Err(WireError::Length {
            op: READ,
            found: body.len() as u64,
            wanted: wanted as u64,
        });
    }
    let name = utf8(fields.take(name)?)?;
    let mut primes = |n: usize| -> Result<Vec<u64>, WireError> { (0..n).map(|_| fields.u64()).collect() };
    Ok(ParametersLiteral {
        name,
        log_n: log_n as u32,
        q: primes(q)?,
        p: primes(p)?,
        digit_limbs,
    })
}

fn utf8(bytes: &[u8]) -> Result<String, WireError> {
    let text = std::str::from_utf8(bytes).map_err(|e| WireError::Field {
        op: READ,
        field: "name",
        found: e.to_string(),
        expected: "UTF-8".into(),
    })?;
    Ok(text.to_owned())
}

fn check_cap(op: &'static str, field: &'static str, value: usize, cap: usize) -> Result<(), WireError> {
    let error = || WireError::Field {
        op,
        field,
        found: value.to_string(),
        expected: format!("at most {cap}"),
    };
    (value <= cap).then_some(()).ok_or_else(error)
}

fn rlwe(source: RlweError) -> WireError {
    WireError::Rlwe { op: READ, source }
}
