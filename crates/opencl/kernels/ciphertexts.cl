// Work on ciphertexts: constants that differ between the two halves of a limb, periodic vectors as runs of
// one value, and sums of products with them. As in `elements.cl`, `out` may be `a`.

#define HALF (2 * limb + (i >= N / 2))
// Every limb has N >> shift runs.
#define RUN(shift) ((limb << (LOG_N - (shift))) + (i >> (shift)))
#define CONSTANTS uint a, __global const T *constants
#define RUNS uint a, __global const T *runs, uint shift

__kernel void clear(ELEMENTS) {
    OF_THIS_VALUE
    AT(out) = 0;
}
ELEMENTWISE(add_halves, CONSTANTS, sum_canonical(AT(a), constants[HALF], m))
ELEMENTWISE(multiply_halves, SCALED, canonical_multiple(AT(a), factors[HALF], m))
ELEMENTWISE(multiply_halves_add, SCALED, canonical(AT(out) + multiply_factor(AT(a), factors[HALF], m), m))
ELEMENTWISE(add_runs, RUNS, sum_canonical(AT(a), runs[RUN(shift)], m))
ELEMENTWISE(multiply_runs, RUNS, canonical_product(AT(a), runs[RUN(shift)], m))

// out = sum of a_t v_t over the terms. table: by term, the slot of a_t, the word at which the runs of v_t
// begin, and their shift.
__kernel void sum_runs(ELEMENTS, uint terms, __global const uint *table, __global const T *runs) {
    OF_THIS_VALUE
    T sum = 0;
    for (uint t = 0; t < terms; t++) {
        __global const uint *term = table + 3 * t;
        sum = sum + product(AT(term[0]), runs[term[1] + RUN(term[2])], m);
        if (t % LAZY_TERMS == LAZY_TERMS - 1) sum = reduce(sum, m);
    }
    AT(out) = canonical(sum, m);
}
