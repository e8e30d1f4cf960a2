//! Coefficients of the chains of squares.
//! Written by `python -m bench two-party-polynomials`, which fits them; do not edit.
use super::chain::{Chain, Stage};

/// a Phi(-a) for GELU(x) = max(x, 0) - |x| Phi(-|x|), on [-0.04, 3.29]: error at most 2.0e-03.
pub const GELU: Chain = Chain {
    sigma: 0.378766387,
    shift: -0.832684087,
    stages: &[
        Stage {
            negate: false,
            mix: &[],
            constant: -0.217374193,
        },
        Stage {
            negate: true,
            mix: &[-0.179957618],
            constant: 0.076280397,
        },
    ],
    exponent: 0,
    low: -0.04,
    high: 3.29,
};

/// as [`GELU`], with a third square, on [-0.04, 4.04]: error at most 1.6e-04.
pub const GELU_FINE: Chain = Chain {
    sigma: 0.307624930,
    shift: -0.911234924,
    stages: &[
        Stage {
            negate: false,
            mix: &[],
            constant: -0.521666411,
        },
        Stage {
            negate: false,
            mix: &[0.204444604],
            constant: -0.471405914,
        },
        Stage {
            negate: false,
            mix: &[0.039233355, -0.295747111],
            constant: -0.189310045,
        },
    ],
    exponent: 0,
    low: -0.04,
    high: 4.04,
};

/// as [`GELU`], for GELU in its form with tanh, on [-0.04, 3.29]: error at most 1.9e-03.
pub const GELU_TANH: Chain = Chain {
    sigma: 0.377980074,
    shift: -0.833388954,
    stages: &[
        Stage {
            negate: false,
            mix: &[],
            constant: -0.218417669,
        },
        Stage {
            negate: true,
            mix: &[-0.180227571],
            constant: 0.076067918,
        },
    ],
    exponent: 0,
    low: -0.04,
    high: 3.29,
};

/// as [`GELU_TANH`], with a third square, on [-0.04, 4.04]: error at most 1.4e-04.
pub const GELU_TANH_FINE: Chain = Chain {
    sigma: 0.306088833,
    shift: -0.909803426,
    stages: &[
        Stage {
            negate: false,
            mix: &[],
            constant: -0.520268127,
        },
        Stage {
            negate: false,
            mix: &[0.210602221],
            constant: -0.472583931,
        },
        Stage {
            negate: false,
            mix: &[0.044580883, -0.298792682],
            constant: -0.192107212,
        },
    ],
    exponent: 0,
    low: -0.04,
    high: 4.04,
};

/// a sigmoid(-a) for SiLU(x) = max(x, 0) - |x| sigmoid(-|x|), on [-0.04, 8.29]: error at most 2.0e-03.
pub const SILU: Chain = Chain {
    sigma: 0.180963210,
    shift: -0.931974991,
    stages: &[
        Stage {
            negate: false,
            mix: &[],
            constant: -0.694837516,
        },
        Stage {
            negate: false,
            mix: &[0.113180893],
            constant: -0.874881242,
        },
        Stage {
            negate: false,
            mix: &[-0.044012897, -0.944106090],
            constant: -0.777996524,
        },
    ],
    exponent: 0,
    low: -0.04,
    high: 8.29,
};

/// as [`SILU`], with a fourth square, on [-0.04, 10.04]: error at most 1.3e-04.
pub const SILU_FINE: Chain = Chain {
    sigma: 0.137490697,
    shift: -0.849542903,
    stages: &[
        Stage {
            negate: false,
            mix: &[],
            constant: 0.089572846,
        },
        Stage {
            negate: false,
            mix: &[1.007863112],
            constant: -0.135236599,
        },
        Stage {
            negate: false,
            mix: &[-0.024116504, -1.361519538],
            constant: 0.320691691,
        },
        Stage {
            negate: true,
            mix: &[-0.373254353, 0.117832345, 0.172553490],
            constant: 0.070255669,
        },
    ],
    exponent: 0,
    low: -0.04,
    high: 10.04,
};

/// BOLT's quartic in the form of [`GELU`], on [-0.04, 2.79]: error at most 4.4e-16.
pub const P4: Chain = Chain {
    sigma: 0.379987478,
    shift: -0.836233439,
    stages: &[
        Stage {
            negate: false,
            mix: &[],
            constant: -0.224276420,
        },
        Stage {
            negate: true,
            mix: &[-0.173088971],
            constant: 0.079270853,
        },
    ],
    exponent: 0,
    low: -0.04,
    high: 2.79,
};

/// exp(x/2) / sqrt(2); its square is exp(x)/2, on [-10.625, 0.25]: error at most 5.7e-05.
pub const ROOT_EXP: Chain = Chain {
    sigma: 0.082305333,
    shift: 0.830363367,
    stages: &[
        Stage {
            negate: false,
            mix: &[],
            constant: -0.019197173,
        },
        Stage {
            negate: false,
            mix: &[0.149355665],
            constant: 0.303625192,
        },
        Stage {
            negate: false,
            mix: &[-0.063898224, 0.114668563],
            constant: -0.085705025,
        },
    ],
    exponent: 0,
    low: -10.625,
    high: 0.25,
};

/// 1 - tanh(a), a >= 0, on [-0.04, 4.04]: error at most 3.6e-04.
pub const TANH: Chain = Chain {
    sigma: 0.288935431,
    shift: -0.922016099,
    stages: &[
        Stage {
            negate: false,
            mix: &[],
            constant: -0.417813718,
        },
        Stage {
            negate: false,
            mix: &[-0.100071152],
            constant: -0.485558164,
        },
        Stage {
            negate: true,
            mix: &[0.052918914, 0.580090205],
            constant: 0.340687777,
        },
    ],
    exponent: 1,
    low: -0.04,
    high: 4.04,
};

/// 1/x, to be doubled, on [0.49, 1.01]: error at most 7.7e-06.
pub const RECIPROCAL: Chain = Chain {
    sigma: 0.941832710,
    shift: -1.084343049,
    stages: &[
        Stage {
            negate: false,
            mix: &[],
            constant: -0.141737092,
        },
        Stage {
            negate: false,
            mix: &[-0.154053510],
            constant: 0.193722571,
        },
        Stage {
            negate: false,
            mix: &[-0.124920167, 0.355228534],
            constant: 0.222237808,
        },
    ],
    exponent: 2,
    low: 0.49,
    high: 1.01,
};

/// 1/sqrt(x), to be doubled, on [0.49, 1.01]: error at most 1.4e-06.
pub const RSQRT: Chain = Chain {
    sigma: 0.821497299,
    shift: -0.955917606,
    stages: &[
        Stage {
            negate: false,
            mix: &[],
            constant: -0.071154709,
        },
        Stage {
            negate: false,
            mix: &[-0.048324887],
            constant: 0.220367688,
        },
        Stage {
            negate: false,
            mix: &[-0.215601571, 0.295944222],
            constant: 0.433975439,
        },
    ],
    exponent: 1,
    low: 0.49,
    high: 1.01,
};
