//! Parameters: a literal with public fields goes in, an immutable checked object comes out.
use crate::{security, RlweError};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use tacita_ring::{BaseConverter, Modulus, NttTable};

/// Unchecked description of an RLWE instance.
#[derive(Clone, Debug)]
pub struct ParametersLiteral {
    /// Preset name; must start with `insecure_` when below 128 bits.
    pub name: String,
    /// log2 of the ring degree N.
    pub log_n: u32,
    /// Ciphertext primes, bottom limb first.
    pub q: Vec<u64>,
    /// Special primes; none where nothing is ever key-switched.
    pub p: Vec<u64>,
    /// Limbs per key-switching digit; none: as many as its special primes hold, see [`Parameters::digit`].
    pub digit_limbs: usize,
}

/// log2 of what the special primes of a key exceed each of its digits by, where digits go by their bits: the
/// key's error then stays below the rounding of the division.
const DIGIT_MARGIN: f64 = 5.0;

/// Checked parameters with every table that follows from them. Cheap to clone.
#[derive(Clone)]
pub struct Parameters(Arc<Inner>);

struct Inner {
    literal: ParametersLiteral,
    tables: Vec<NttTable>,
    /// By number of special primes: the first limb of each digit, and the number of limbs.
    cuts: Vec<Vec<usize>>,
    /// Limbs of keys that the chain leaves out: see [`Parameters::without`].
    gap: Range<usize>,
    /// Mod-up converters by first limb of the digit and digit length.
    mod_up: Vec<Vec<OnceLock<BaseConverter>>>,
    /// Mod-down from the first `np` special primes, optionally with the top ciphertext limb `l` as one more.
    mod_down: Vec<OnceLock<BaseConverter>>,
    mod_down_rescale: Vec<Vec<OnceLock<BaseConverter>>>,
    /// From the first special prime and two ciphertext primes.
    wide: OnceLock<BaseConverter>,
    hash: [u8; 32],
}

impl Parameters {
    /// Checks a literal and builds its tables.
    ///
    /// # Errors
    /// [`RlweError::Insecure`] when log2(QP) exceeds the table and the name does not start with `insecure_`;
    /// [`RlweError::Parameters`] for repeated primes or empty chains; ring errors for bad primes.
    pub fn new(literal: ParametersLiteral) -> Result<Self, RlweError> {
        let cuts = (0..=literal.p.len()).map(|k| cuts(&literal, k)).collect();
        Self::with_cuts(literal, cuts, 0..0)
    }

    /// The chain without some ciphertext limbs, for keys of the whole chain: what ends below the gap need not
    /// carry its limbs. A digit is what the gap leaves of it, since a key's digit is zero or one modulo each
    /// prime.
    ///
    /// # Errors
    /// [`RlweError::Parameters`] for a gap that leaves no limb of a digit, begins at the lowest limb or is
    /// beyond the chain.
    pub fn without(&self, gap: Range<usize>) -> Result<Self, RlweError> {
        let fail = || RlweError::Parameters(format!("a chain without limbs {gap:?} lacks a digit"));
        let mut literal = self.0.literal.clone();
        let inside = 0 < gap.start && gap.start <= gap.end && gap.end <= literal.q.len();
        if !inside || !self.0.gap.is_empty() {
            return Err(fail());
        }
        let at = |limb: &usize| limb - (limb.clamp(&gap.start, &gap.end) - gap.start);
        let cuts: Vec<Vec<usize>> = self.0.cuts.iter().map(|c| c.iter().map(at).collect()).collect();
        if cuts
            .last()
            .is_none_or(|cuts| cuts.windows(2).any(|w| w[0] == w[1]))
        {
            return Err(fail());
        }
        literal.q.drain(gap.clone());
        Self::with_cuts(literal, cuts, gap)
    }

    /// The same chain with fewer digits, for keys that were [joined](crate::SwitchingKey::joined): neighbours
    /// are one where their limbs are still as short as digits must be. What a gap leaves of digits is short.
    ///
    /// # Errors
    /// None for a chain that was built already.
    pub fn with_joined_digits(&self) -> Result<Self, RlweError> {
        let literal = self.0.literal.clone();
        let joined = |(special, cuts): (usize, &Vec<usize>)| {
            let ends = cuts.windows(2).map(|w| w[1]);
            let mut joined = vec![0];
            let mut last = 0;
            for end in ends {
                if last > 0 && !fits(&literal, special, joined[joined.len() - 1]..end) {
                    joined.push(last);
                }
                last = end;
            }
            joined.push(last);
            joined
        };
        let cuts = self.0.cuts.iter().enumerate().map(joined).collect();
        Self::with_cuts(literal, cuts, self.0.gap.clone())
    }

    fn with_cuts(
        literal: ParametersLiteral,
        cuts: Vec<Vec<usize>>,
        gap: Range<usize>,
    ) -> Result<Self, RlweError> {
        check(&literal)?;
        let primes: Vec<u64> = literal.q.iter().chain(&literal.p).copied().collect();
        let tables = primes
            .iter()
            .map(|&p| NttTable::new(Modulus::new(p)?, literal.log_n))
            .collect::<Result<Vec<_>, _>>()?;
        let hash = fingerprint(&literal);
        let lengths = cuts.iter().flat_map(|cuts| cuts.windows(2).map(|w| w[1] - w[0]));
        let (longest, limbs) = (lengths.max().unwrap_or(0), literal.q.len());
        let lock_row = |n: usize| (0..n).map(|_| OnceLock::new()).collect::<Vec<_>>();
        Ok(Self(Arc::new(Inner {
            mod_up: (0..limbs).map(|i| lock_row(longest.min(limbs - i))).collect(),
            cuts,
            gap,
            mod_down: lock_row(literal.p.len()),
            mod_down_rescale: (0..literal.p.len()).map(|_| lock_row(literal.q.len())).collect(),
            wide: OnceLock::new(),
            tables,
            hash,
            literal,
        })))
    }

    /// Preset name.
    pub fn name(&self) -> &str {
        &self.0.literal.name
    }
    /// log2 of the ring degree.
    pub fn log_n(&self) -> u32 {
        self.0.literal.log_n
    }
    /// Ring degree N.
    pub fn n(&self) -> usize {
        1 << self.log_n()
    }
    /// Number of ciphertext primes.
    pub fn q_len(&self) -> usize {
        self.0.literal.q.len()
    }
    /// Number of special primes.
    pub fn p_len(&self) -> usize {
        self.0.literal.p.len()
    }
    /// Ciphertext primes, bottom limb first.
    pub fn q(&self) -> &[u64] {
        &self.0.literal.q
    }
    /// Special primes.
    pub fn p(&self) -> &[u64] {
        &self.0.literal.p
    }
    /// Limbs per key-switching digit; none where they go by bits.
    pub fn digit_limbs(&self) -> usize {
        self.0.literal.digit_limbs
    }
    /// Digits of a ciphertext of `limbs` limbs for keys with `special` special primes.
    pub fn digits(&self, limbs: usize, special: usize) -> usize {
        let cuts = &self.0.cuts[special];
        cuts[..cuts.len() - 1].partition_point(|&first| first < limbs)
    }
    /// The limbs of digit `d` of these: `digit_limbs` each, or else as many as have a product that is 5
    /// bits shorter than the special primes'.
    pub fn digit(&self, d: usize, limbs: usize, special: usize) -> Range<usize> {
        let cuts = &self.0.cuts[special];
        cuts[d]..cuts[d + 1].min(limbs)
    }
    /// log2 of the product of all primes.
    pub fn log_qp(&self) -> f64 {
        self.q().iter().chain(self.p()).map(|&p| (p as f64).log2()).sum()
    }
    /// Security in bits, by table, for the dense secret.
    pub fn security_bits(&self) -> u32 {
        security::security_bits(self.log_n(), self.log_qp())
    }
    /// Fingerprint of the literal: files made under other parameters are refused by it.
    pub fn hash(&self) -> &[u8; 32] {
        &self.0.hash
    }
    /// NTT table by global prime index: ciphertext primes first, then special ones.
    pub fn table(&self, index: usize) -> &NttTable {
        &self.0.tables[index]
    }
    /// Modulus by global prime index.
    pub fn modulus(&self, index: usize) -> &Modulus {
        self.0.tables[index].modulus()
    }
    /// Global index of special prime `k`.
    pub fn p_index(&self, k: usize) -> usize {
        self.q_len() + k
    }

    /// The first limbs of all digits of keys with so many special primes.
    pub(crate) fn first_limbs(&self, special: usize) -> &[usize] {
        let cuts = &self.0.cuts[special];
        &cuts[..cuts.len() - 1]
    }

    /// The limb of a key that belongs to ciphertext limb `limb`.
    pub fn key_limb(&self, limb: usize) -> usize {
        let gap = &self.0.gap;
        limb + if limb < gap.start { 0 } else { gap.len() }
    }

    /// Converter from the limbs of a digit to all primes (targets by global index).
    pub fn mod_up(&self, digit: &Range<usize>) -> &BaseConverter {
        self.0.mod_up[digit.start][digit.len() - 1]
            .get_or_init(|| self.converter(&digit.clone().collect::<Vec<_>>()))
    }

    /// Converter from the first `np` special primes to all primes.
    pub fn mod_down(&self, np: usize) -> &BaseConverter {
        self.0.mod_down[np - 1]
            .get_or_init(|| self.converter(&(0..np).map(|k| self.p_index(k)).collect::<Vec<_>>()))
    }

    /// Converter from the first `np` special primes and ciphertext limb `top` to all primes: mod-down and
    /// rescale in one.
    pub fn mod_down_rescale(&self, np: usize, top: usize) -> &BaseConverter {
        self.0.mod_down_rescale[np - 1][top].get_or_init(|| {
            let mut from: Vec<usize> = (0..np).map(|k| self.p_index(k)).collect();
            from.push(top);
            self.converter(&from)
        })
    }

    /// Converter from the first special prime and the two lowest ciphertext primes to all primes.
    pub(crate) fn wide(&self) -> &BaseConverter {
        self.0
            .wide
            .get_or_init(|| self.converter(&[self.p_index(0), 0, 1]))
    }

    fn converter(&self, from: &[usize]) -> BaseConverter {
        let pick = |i: &usize| *self.modulus(*i);
        let all: Vec<Modulus> = (0..self.q_len() + self.p_len()).map(|i| pick(&i)).collect();
        BaseConverter::new(&from.iter().map(pick).collect::<Vec<_>>(), &all)
    }
}

impl std::fmt::Debug for Parameters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Parameters({}, N=2^{}, {}+{} primes, log2(QP)={:.1})",
            self.name(),
            self.log_n(),
            self.q_len(),
            self.p_len(),
            self.log_qp()
        )
    }
}

fn check(l: &ParametersLiteral) -> Result<(), RlweError> {
    let fail = |m: String| Err(RlweError::Parameters(m));
    if !(5..=17).contains(&l.log_n) {
        return fail(format!("log_n = {} is outside 5..=17", l.log_n));
    }
    if l.q.is_empty() {
        return fail("empty prime chain".into());
    }
    let mut all: Vec<u64> = l.q.iter().chain(&l.p).copied().collect();
    all.sort_unstable();
    if all.windows(2).any(|w| w[0] == w[1]) {
        return fail("a prime occurs twice in Q and P".into());
    }
    let log_qp: f64 = all.iter().map(|&p| (p as f64).log2()).sum();
    let limit = security::max_log_qp(l.log_n).unwrap_or(0.0);
    if log_qp > limit && !l.name.starts_with("insecure_") {
        return Err(RlweError::Insecure {
            log_n: l.log_n,
            log_qp,
            limit,
        });
    }
    Ok(())
}

/// Whether ciphertext limbs may be one digit of keys with so many special primes.
fn fits(l: &ParametersLiteral, special: usize, range: Range<usize>) -> bool {
    let bits = |primes: &[u64]| primes.iter().map(|&p| (p as f64).log2()).sum::<f64>();
    match l.digit_limbs {
        0 => bits(&l.q[range]) <= bits(&l.p[..special]) - DIGIT_MARGIN,
        limbs => range.len() <= limbs,
    }
}

/// First limbs of digits for keys with so many special primes, and the number of limbs.
fn cuts(l: &ParametersLiteral, special: usize) -> Vec<usize> {
    let mut cuts = vec![0];
    for i in 1..l.q.len() {
        if !fits(l, special, cuts[cuts.len() - 1]..i + 1) {
            cuts.push(i);
        }
    }
    cuts.push(l.q.len());
    cuts
}

fn fingerprint(l: &ParametersLiteral) -> [u8; 32] {
    let mut h = blake3::Hasher::new();
    h.update(b"tacita parameters v1");
    h.update(&u64::from(l.log_n).to_le_bytes());
    for part in [&l.q, &l.p] {
        h.update(&(part.len() as u64).to_le_bytes());
        part.iter().for_each(|p| {
            h.update(&p.to_le_bytes());
        });
    }
    h.update(&(l.digit_limbs as u64).to_le_bytes());
    *h.finalize().as_bytes()
}
