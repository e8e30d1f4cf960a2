//! How the kernels are built: their text, and what it is told.

use crate::OpenClError;

/// What the kernels compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// Doubles with fused multiply-add.
    F64,
    /// 64-bit integers.
    U64,
}

impl Flavour {
    /// The macro that chooses it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "F64",
            Self::U64 => "U64",
        }
    }
}

/// The text of all kernels, in the order in which it is compiled.
pub fn sources() -> String {
    [
        include_str!("../kernels/field.cl"),
        include_str!("../kernels/transform.cl"),
        include_str!("../kernels/elements.cl"),
        include_str!("../kernels/doubles.cl"),
        include_str!("../kernels/sums.cl"),
        include_str!("../kernels/products.cl"),
        include_str!("../kernels/ciphertexts.cl"),
    ]
    .join("\n")
}

/// The text of the kernels with its parameters.
#[derive(Clone, Debug)]
pub struct Build {
    pub flavour: Flavour,
    /// Levels of a transform that run in registers, from 1 to 4.
    pub log_radix: u32,
    /// What is compiled: [`sources`], but for tests that it finds mistakes.
    pub source: String,
}

/// The sides of the matrix that a transform works on, and how many columns or rows a work-group shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub log_tall: u32,
    pub log_wide: u32,
    pub log_shared: u32,
    pub log_radix: u32,
}

/// Columns, or rows, of a work-group: so that neighbours read 64 bytes.
const LOG_SHARED: u32 = 3;

impl Build {
    pub fn new(flavour: Flavour) -> Self {
        Self {
            flavour,
            log_radix: 4,
            source: sources(),
        }
    }

    /// For this degree, within so many bytes of local memory.
    pub(crate) fn shape(&self, log_n: u32, local: u64) -> Result<Shape, OpenClError> {
        if !(2..=17).contains(&log_n) || !(1..=4).contains(&self.log_radix) {
            let reason = format!("log_n = {log_n}, radix 2^{}", self.log_radix);
            return Err(OpenClError::mismatch("Build::shape", reason));
        }
        let (log_tall, log_wide) = (log_n / 2, log_n - log_n / 2);
        let padded = (1u64 << log_wide) + ((1u64 << log_wide) >> 4);
        let log_shared = (0..=LOG_SHARED)
            .rev()
            .find(|shared| (padded * 8) << shared <= local);
        Ok(Shape {
            log_tall,
            log_wide,
            log_shared: log_shared.unwrap_or(0),
            log_radix: self.log_radix,
        })
    }

    pub(crate) fn options(&self, log_n: u32, shape: Shape) -> String {
        let (
            flavour,
            Shape {
                log_radix,
                log_shared,
                ..
            },
        ) = (self.flavour.name(), shape);
        format!(
            "-cl-std=CL1.2 -D {flavour} -D LOG_N={log_n} -D LOG_RADIX={log_radix} -D LOG_SHARED={log_shared}"
        )
    }
}

impl Shape {
    /// The grid (work-groups of a limb, limbs) and the work-items of a group, for columns.
    pub(crate) fn columns(self, limbs: usize) -> ([usize; 2], usize) {
        self.side(self.log_tall, self.log_wide, limbs)
    }

    /// The same for rows.
    pub(crate) fn rows(self, limbs: usize) -> ([usize; 2], usize) {
        self.side(self.log_wide, self.log_tall, limbs)
    }

    fn side(self, log_len: u32, log_count: u32, limbs: usize) -> ([usize; 2], usize) {
        let (shared, radix) = (self.log_shared.min(log_count), self.log_radix.min(log_len));
        (
            [1 << (log_count - shared), limbs],
            1 << (log_len - radix + shared),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contraction is on by default and would round other products; `rint` is fifty slow conversions on some
    /// cards.
    #[test]
    fn the_text_keeps_products_apart_and_rounds_by_additions() {
        let text = sources();
        assert!(text.starts_with("//") && text.contains("#pragma OPENCL FP_CONTRACT OFF"));
        let call = |name: &str| text.contains(&format!("{name}("));
        assert!(!call("rint") && !call("round") && !call("mad"));
    }

    #[test]
    fn work_groups_share_what_fits_into_local_memory() {
        let build = Build::new(Flavour::F64);
        let shared = |log_n, local| build.shape(log_n, local).map(|shape| shape.log_shared);
        assert_eq!(shared(16, 32 << 10), Ok(3));
        assert_eq!(shared(17, 32 << 10), Ok(2));
        assert!(shared(1, 32 << 10).is_err() && shared(18, 32 << 10).is_err());
        assert_eq!(
            build.shape(16, 32 << 10).map(|shape| shape.rows(5)),
            Ok(([32, 5], 128))
        );
    }
}
