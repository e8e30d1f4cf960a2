//! Which implementation of the kernels runs: decided once for the process, by the processor or by
//! `TACITA_SIMD`.
use crate::RingError;
use std::hint::black_box;
use std::sync::OnceLock;

/// Name of the variable that chooses a path.
const VARIABLE: &str = "TACITA_SIMD";

/// Which implementation runs. All give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// u64/u128 integers, without any vector instruction of ours: what the others are tested against. Its
    /// time may depend on the values.
    Scalar,
    /// Four doubles at a time, two in a register: 64-bit ARM.
    Neon,
    /// Four doubles at a time.
    Avx2,
    /// Eight doubles at a time.
    Avx512,
    /// The same, with conversions between bases on 52-bit integer products, and residues unpacked by shuffles
    /// of bytes: every processor has both or none.
    Ifma,
}

impl Path {
    /// From the fastest to the slowest.
    const ALL: [Self; 5] = [Self::Ifma, Self::Avx512, Self::Avx2, Self::Neon, Self::Scalar];

    /// As `TACITA_SIMD` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Ifma => "avx512ifma",
        }
    }

    /// Can this processor run it?
    pub fn is_supported(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                let avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq");
                avx512 && Self::Avx2.is_supported()
            }
            #[cfg(target_arch = "x86_64")]
            Self::Ifma => {
                let more = is_x86_feature_detected!("avx512ifma") && is_x86_feature_detected!("avx512vbmi");
                more && Self::Avx512.is_supported()
            }
            #[allow(unreachable_patterns)] // where every path is of this architecture
            _ => false,
        }
    }

    /// The path called `wanted`, or the fastest one, of those that `supported` admits.
    fn choose(wanted: Option<&str>, supported: impl Fn(Self) -> bool) -> Result<Self, RingError> {
        let mut all = Self::ALL.into_iter();
        let Some(name) = wanted else {
            return Ok(all.find(|&p| supported(p)).unwrap_or(Self::Scalar));
        };
        let refused = |reason| RingError::SimdPath {
            name: name.chars().take(32).collect(),
            reason,
        };
        let path = all.find(|p| p.name() == name).ok_or(refused("is no path"))?;
        let can = supported(path).then_some(path);
        can.ok_or(refused("needs instructions that this processor lacks"))
    }
}

/// The path of `TACITA_SIMD` where it is set, else the fastest that the processor has.
///
/// # Errors
/// [`RingError::SimdPath`] for an unknown name or one that the processor cannot run; [`RingError::Rounding`]
/// when this thread does not round to nearest, on which all exactness rests (threads inherit the mode of the
/// one that starts them).
pub fn chosen() -> Result<Path, RingError> {
    stored().clone()
}

/// [`chosen`], made at the first call.
#[inline]
pub(super) fn stored() -> &'static Result<Path, RingError> {
    static CHOSEN: OnceLock<Result<Path, RingError>> = OnceLock::new();
    CHOSEN.get_or_init(choose)
}

fn choose() -> Result<Path, RingError> {
    if !rounds_to_nearest() {
        return Err(RingError::Rounding);
    }
    let wanted = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
    let wanted = wanted.map(|name| name.to_string_lossy().into_owned());
    Path::choose(wanted.as_deref(), Path::is_supported)
}

/// Whether a quarter of a unit in the last place vanishes and three quarters become a whole one, on both
/// sides of zero: rounding upwards, downwards and towards zero each fail at one of the four.
fn rounds_to_nearest() -> bool {
    let (one, unit) = (black_box(1.0f64), black_box(f64::EPSILON));
    let (less, more) = (black_box(0.25 * unit), black_box(0.75 * unit));
    one + less == 1.0 && -one - less == -1.0 && one + more > 1.0 && -one - more < -1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_supported_path_unless_one_is_named() {
        let without_avx512 = |p| p != Path::Avx512 && p != Path::Ifma;
        assert_eq!(Path::choose(None, |_| true), Ok(Path::Ifma));
        assert_eq!(Path::choose(None, |p| p != Path::Ifma), Ok(Path::Avx512));
        assert_eq!(Path::choose(None, without_avx512), Ok(Path::Avx2));
        assert_eq!(Path::choose(None, |p| p == Path::Scalar), Ok(Path::Scalar));
        for path in Path::ALL {
            assert_eq!(Path::choose(Some(path.name()), |_| true), Ok(path));
        }
    }

    #[test]
    fn unknown_and_unsupported_names_are_refused() {
        for name in ["sse", "AVX2", "reference", " ", "avx2,fma"] {
            let error = Path::choose(Some(name), |_| true).unwrap_err().to_string();
            assert!(error.contains("is no path") && error.contains("hint"), "{error}");
        }
        let error = Path::choose(Some("avx512"), |p| p == Path::Scalar)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("avx512") && error.contains("processor lacks"),
            "{error}"
        );
    }

    #[test]
    fn a_thread_that_rounds_otherwise_is_noticed() {
        assert!(rounds_to_nearest());
        #[cfg(target_arch = "x86_64")]
        for mode in [1, 2, 3] {
            assert!(!with_rounding(mode, rounds_to_nearest), "mode {mode}");
        }
    }

    /// Runs `f` with bits 13 and 14 of MXCSR set to `mode`.
    #[cfg(target_arch = "x86_64")]
    fn with_rounding<T>(mode: u32, f: impl FnOnce() -> T) -> T {
        let mut before = 0u32;
        // SAFETY: reads and writes the control register of this thread and restores it.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut before) };
        let changed = (before & !0x6000) | (mode << 13);
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &changed) };
        let result = f();
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &before) };
        result
    }
}
