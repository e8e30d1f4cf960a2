// Arithmetic modulo primes below 2^50, in one of two flavours: F64 (doubles with fused multiply-add) or U64
// (64-bit integers). It is OpenCL C 1.2, and every other file of this folder follows it in one program.
//
// A *limb* is N canonical residues, integers in [0, p). Between kernels every limb is canonical, so both
// flavours hold the same integers; the bounds within kernels are multiples of p. The build defines F64 or U64
// and LOG_N, with N = 2^LOG_N.

#pragma OPENCL FP_CONTRACT OFF
#ifdef F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double T;
typedef double2 T2; // a factor w: its centred representative, and that divided by p
typedef double4 T4; // a modulus of b bits: p, 1/p, nothing, b
#else
typedef ulong T;
typedef ulong2 T2; // a factor w, and floor(w 2^64 / p)
typedef ulong4 T4; // a modulus of b bits: p, floor(2^64 / p), floor(2^(b + 62) / p), b
#endif

#define N (1u << LOG_N)
// Terms of a sum between two reductions: products are below 7p/8, a canonical or reduced sum below p, all
// below 8p. As integers they are below 4p, and all below 2^62.
#ifdef F64
#define LAZY_TERMS 8
#else
#define LAZY_TERMS 1024
#endif

#ifdef F64
// The nearest integer of |x| < 2^51, ties to even: two additions where `rint` is a slow conversion.
static inline T nearest(T x) { return (x + 6755399441055744.0) - 6755399441055744.0; }

static inline T add_p_if_negative(T x, T4 m) { return x < 0.0 ? x + m.x : x; }

// |x| < 8p to about [-p/2, p/2].
static inline T reduce(T x, T4 m) { return fma(-nearest(x * m.y), m.x, x); }

// Where levels of a transform would leave the range of exact integers.
static inline T reduce_sum(T x, T4 m) { return reduce(x, m); }

// |x| < 8p to [0, p).
static inline T canonical(T x, T4 m) { return add_p_if_negative(reduce(x, m), m); }

// x w for |x| <= kp: below (1/2 + k/8) p in absolute value.
static inline T multiply_factor(T x, T2 w, T4 m) {
    T q = nearest(x * w.y), h = x * w.x, l = fma(x, w.x, -h);
    return fma(-q, m.x, h) + l;
}

// a b for canonical a and b: below 7p/8 in absolute value.
static inline T product(T a, T b, T4 m) {
    T h = a * b, l = fma(a, b, -h), q = nearest(h * m.y);
    return fma(-q, m.x, h) + l;
}

static inline T canonical_product(T a, T b, T4 m) { return add_p_if_negative(product(a, b, m), m); }
static inline T canonical_multiple(T a, T2 w, T4 m) { return add_p_if_negative(multiply_factor(a, w, m), m); }

// sum + y w, y modulo another prime q and centred: below 9p/16, if |sum| is left out.
static inline T add_multiple_centred(T sum, T y, T q, T2 w, T4 m) {
    return sum + multiply_factor(y + y > q ? y - q : y, w, m);
}

// An integer below 2^52, which becomes the lowest bits of a double.
static inline T of_integer(ulong x) { return as_double(x | 0x4330000000000000ul) - 4503599627370496.0; }
static inline T add_lazy(T a, T b, T4 m) { return a + b; }
static inline T subtract_lazy(T a, T b, T4 m) { return a - b; }
static inline T negate_canonical(T a, T4 m) { return a == 0.0 ? a : m.x - a; }
#else
// Any x to [0, 2p).
static inline T reduce(T x, T4 m) { return x - mul_hi(x, m.y) * m.x; }

// They have room: 17 levels of the forward transform stay below 2^57.
static inline T reduce_sum(T x, T4 m) { return x; }

static inline T subtract_p_if_reached(T x, T4 m) { return x >= m.x ? x - m.x : x; }

static inline T canonical(T x, T4 m) { return subtract_p_if_reached(reduce(x, m), m); }

// x w for any x: below 2p.
static inline T multiply_factor(T x, T2 w, T4 m) { return x * w.x - mul_hi(x, w.y) * m.x; }

// a b for canonical a and b: below 3p. The quotient misses at most 1/2 by the bits that are shifted out,
// 2^-12 by its constant and 1 by its floor.
static inline T product(T a, T b, T4 m) {
    T low = a * b, shifted = (mul_hi(a, b) << (66 - m.w)) | (low >> (m.w - 2));
    return low - mul_hi(shifted, m.z) * m.x;
}

static inline T canonical_product(T a, T b, T4 m) { return canonical(product(a, b, m), m); }

// The same of any a.
static inline T canonical_multiple(T a, T2 w, T4 m) {
    return subtract_p_if_reached(multiply_factor(a, w, m), m);
}

// sum + y w, y modulo another prime q and centred: 4p more than the sum at most.
static inline T add_multiple_centred(T sum, T y, T q, T2 w, T4 m) {
    bool is_negative = y + y > q;
    T multiple = multiply_factor(is_negative ? q - y : y, w, m);
    return is_negative ? sum + 4 * m.x - multiple : sum + multiple;
}

static inline T of_integer(ulong x) { return x; }
static inline T add_lazy(T a, T b, T4 m) { return a + b; }
// b < 4p
static inline T subtract_lazy(T a, T b, T4 m) { return a + 4 * m.x - b; }
static inline T negate_canonical(T a, T4 m) { return a == 0 ? a : m.x - a; }
#endif
