//! Rust errors as Python exceptions.
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use tacita_ckks::CkksError;
use tacita_coefficients::CoefficientError;
use tacita_mpc::MpcError;
use tacita_opencl::OpenClError;
use tacita_rlwe::RlweError;
use tacita_wire::WireError;

create_exception!(_native, TacitaError, PyException, "Any error of the engine.");
create_exception!(
    _native,
    LevelError,
    TacitaError,
    "No level left for an operation."
);
create_exception!(
    _native,
    KeyMissingError,
    TacitaError,
    "An evaluation key is absent."
);
create_exception!(
    _native,
    FormatError,
    TacitaError,
    "Bytes that are not what they should be."
);
create_exception!(
    _native,
    ParameterError,
    TacitaError,
    "Unknown or insecure parameters."
);
create_exception!(
    _native,
    PeerError,
    TacitaError,
    "The other party is gone, late, not trusted, or does not keep to the protocol."
);

create_exception!(
    _native,
    LateError,
    PeerError,
    "The other party took longer than it may."
);
create_exception!(
    _native,
    GoneError,
    PeerError,
    "The other party closed the connection."
);

pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.add("TacitaError", py.get_type::<TacitaError>())?;
    m.add("LevelError", py.get_type::<LevelError>())?;
    m.add("KeyMissingError", py.get_type::<KeyMissingError>())?;
    m.add("FormatError", py.get_type::<FormatError>())?;
    m.add("ParameterError", py.get_type::<ParameterError>())?;
    m.add("PeerError", py.get_type::<PeerError>())?;
    m.add("LateError", py.get_type::<LateError>())?;
    m.add("GoneError", py.get_type::<GoneError>())
}

/// CKKS errors by kind.
pub fn ckks(e: CkksError) -> PyErr {
    let text = e.to_string();
    match e {
        CkksError::Level { .. } => LevelError::new_err(text),
        CkksError::Rlwe(e) => rlwe(e),
        CkksError::Shape { .. } | CkksError::Device(_) => TacitaError::new_err(text),
    }
}

/// RLWE errors by kind.
pub fn rlwe(e: RlweError) -> PyErr {
    let text = e.to_string();
    match e {
        RlweError::MissingKey(_) => KeyMissingError::new_err(text),
        RlweError::Parameters(_) | RlweError::Insecure { .. } => ParameterError::new_err(text),
        _ => TacitaError::new_err(text),
    }
}

/// Errors of two-party protocols by kind: what the peer or the link did, and what the caller did.
pub fn mpc(e: MpcError) -> PyErr {
    let text = e.to_string();
    match e {
        MpcError::Closed { .. } => GoneError::new_err(text),
        MpcError::Timeout { .. } | MpcError::Late { .. } => LateError::new_err(text),
        MpcError::Message { .. } | MpcError::Io { .. } => PeerError::new_err(text),
        MpcError::Rlwe(e) => rlwe(e),
        _ => TacitaError::new_err(text),
    }
}

/// Wire errors: hostile or damaged bytes.
pub fn wire(e: WireError) -> PyErr {
    FormatError::new_err(e.to_string())
}

/// Input and output errors with the path.
pub fn io(path: &str, e: std::io::Error) -> PyErr {
    FormatError::new_err(format!("{path}: {e}"))
}

/// Errors of coefficient products.
pub fn coefficients(e: CoefficientError) -> PyErr {
    match e {
        CoefficientError::Ckks(e) => ckks(e),
        CoefficientError::Rlwe(e) => rlwe(e),
        other => TacitaError::new_err(other.to_string()),
    }
}

/// Errors of OpenCL: of the driver, its compiler, or the memory of the device.
pub fn opencl(e: OpenClError) -> PyErr {
    TacitaError::new_err(e.to_string())
}
