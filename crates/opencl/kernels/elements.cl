// Work on single values of canonical limbs: one work-item each, limbs in the second dimension of the grid.
// `out`, `a` and `b` are the slots of first limbs; `out` may be `a` or `b`, but for `permute`.

#define ELEMENTS __global T *slots, uint out, __global const uint *basis, __global const T4 *moduli
#define OF_THIS_VALUE                                                                                        \
    uint i = get_global_id(0), limb = get_group_id(1);                                                       \
    T4 m = moduli[basis[limb]];
#define AT(slot) slots[(size_t)((slot) + limb) * N + i]
#define ELEMENTWISE(name, parameters, value)                                                                 \
    __kernel void name(ELEMENTS, parameters) {                                                               \
        OF_THIS_VALUE                                                                                        \
        AT(out) = value;                                                                                     \
    }
#define TWO uint a, uint b
#define SCALED uint a, __global const T2 *factors
#define SCALED_DIFFERENCE uint a, uint b, __global const T2 *factors

static inline T sum_canonical(T a, T b, T4 m) {
    T sum = a + b;
    return sum >= m.x ? sum - m.x : sum;
}

static inline T difference_canonical(T a, T b, T4 m) { return a >= b ? a - b : a + m.x - b; }

ELEMENTWISE(copy, uint a, AT(a))
ELEMENTWISE(negate, uint a, negate_canonical(AT(a), m))
ELEMENTWISE(add, TWO, sum_canonical(AT(a), AT(b), m))
ELEMENTWISE(subtract, TWO, difference_canonical(AT(a), AT(b), m))
ELEMENTWISE(multiply, TWO, canonical_product(AT(a), AT(b), m))
ELEMENTWISE(multiply_add, TWO, canonical(AT(out) + product(AT(a), AT(b), m), m))
// With the factor of each limb.
ELEMENTWISE(multiply_scalar, SCALED, canonical_multiple(AT(a), factors[limb], m))
ELEMENTWISE(multiply_scalar_add, SCALED, canonical(AT(out) + multiply_factor(AT(a), factors[limb], m), m))
ELEMENTWISE(subtract_multiply_scalar, SCALED_DIFFERENCE,
            canonical_multiple(difference_canonical(AT(a), AT(b), m), factors[limb], m))

static inline uint reverse_bits(uint x) {
    x = ((x >> 1) & 0x55555555u) | ((x & 0x55555555u) << 1);
    x = ((x >> 2) & 0x33333333u) | ((x & 0x33333333u) << 2);
    x = ((x >> 4) & 0x0f0f0f0fu) | ((x & 0x0f0f0f0fu) << 4);
    x = ((x >> 8) & 0x00ff00ffu) | ((x & 0x00ff00ffu) << 8);
    return ((x >> 16) | (x << 16)) >> (32 - LOG_N);
}

// The values of a(X^galois): value i is that at psi^((2 brv(i) + 1) galois).
__kernel void permute(ELEMENTS, uint a, uint galois) {
    OF_THIS_VALUE
    uint exponent = (2 * reverse_bits(i) + 1) * galois;
    uint source = reverse_bits((exponent >> 1) & (N - 1));
    AT(out) = slots[(size_t)(a + limb) * N + source];
}
