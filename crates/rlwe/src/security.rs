//! Security levels by table.
//!
//! Source: "Security Guidelines for Implementing Homomorphic Encryption" (Bossuat et al., ePrint 2024/463),
//! the table of the largest log2(QP) for 128-bit classical security with a uniform ternary secret and sigma =
//! 3.19. The table's values hold for *dense* secrets. The sparse secret of bootstrapping is argued for apart
//! (docs/decisions): it only ever appears under a modulus of two primes (about 100 bits).

/// (log2 N, largest log2 QP at 128-bit classical security, uniform ternary secret).
const TABLE_128: [(u32, f64); 6] = [
    (12, 106.0),
    (13, 214.0),
    (14, 430.0),
    (15, 868.0),
    (16, 1747.0),
    (17, 3523.0),
];

/// Largest log2(QP) that keeps 128 bits at this ring degree, `None` outside the table.
pub fn max_log_qp(log_n: u32) -> Option<f64> {
    TABLE_128.iter().find(|(l, _)| *l == log_n).map(|(_, q)| *q)
}

/// Security in bits: 128 when the table says so, else a rough lower figure (security is about proportional to
/// N / log QP), good only for telling a user how insecure a toy is.
pub fn security_bits(log_n: u32, log_qp: f64) -> u32 {
    match max_log_qp(log_n) {
        Some(limit) if log_qp <= limit => 128,
        limit => {
            let reference = limit.unwrap_or(1747.0 * f64::from(1u32 << log_n) / 65536.0);
            (128.0 * reference / log_qp).floor().min(127.0) as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_the_boundary() {
        assert_eq!(security_bits(16, 1747.0), 128);
        assert!(security_bits(16, 1748.0) < 128);
        assert!(security_bits(10, 1600.0) < 5);
    }
}
