// The negacyclic transform of many limbs, in two kernels each way. A limb is a matrix of 2^LOG_TALL rows of
// 2^LOG_WIDE values: the columns take the first levels of the forward transform, the rows the others. Value i
// of a transformed limb is a(psi^(2 brv(i) + 1)).
//
// A work-item holds 2^LOG_RADIX values (fewer where a side is shorter) and runs as many levels on them; then
// the work-items of a group exchange their values through local memory. Roots come in heap order: those of
// the children of node k are 2k and 2k + 1, so a pass needs to know the node at its top alone.

#ifndef LOG_RADIX
#define LOG_RADIX 4
#endif
// Neighbouring columns, or rows, of one work-group.
#ifndef LOG_SHARED
#define LOG_SHARED 3
#endif

// Constants of a call reach its loops, which are unrolled: values stay in registers.
#define INLINED static inline __attribute__((always_inline))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define LOG_TALL (LOG_N / 2)
#define LOG_WIDE (LOG_N - LOG_TALL)
// One value in 16 is room, so that no two work-items meet in a bank of local memory.
#define PADDED(i) ((i) + ((i) >> 4))

// Where value j of work-item t stands among 2^log_size, in the pass of `levels` levels after `done`.
static inline uint place(int log_size, int log_radix, int done, int levels, uint t, uint j) {
    int shift = log_size - done - levels;
    return ((t >> shift) << (log_radix + shift)) + (j << shift) + (t & ((1u << shift) - 1));
}

// `levels` levels of Cooley and Tukey on every 2^levels values of x, the first of which have `top` as node.
INLINED void forward_levels(T *x, int log_radix, int levels, uint top, __global const T2 *roots, T4 m) {
#pragma unroll
    for (int j = 0; j < (1 << log_radix); j++)
        if (!((j >> (levels - 1)) & 1)) x[j] = reduce_sum(x[j], m);
#pragma unroll
    for (int i = 0; i < levels; i++) {
#pragma unroll
        for (int j = 0; j < (1 << (log_radix - 1)); j++) {
            int gap = 1 << (levels - 1 - i), low = j / gap * 2 * gap + j % gap;
            T u = x[low], v = multiply_factor(x[low + gap], roots[(top << i) + (low >> (levels - i))], m);
            x[low] = add_lazy(u, v, m);
            x[low + gap] = subtract_lazy(u, v, m);
        }
    }
}

// The same of Gentleman and Sande, from the bottom to the top. Sums are reduced at every second level, so
// that differences stay below 4p. With `scale`, the very last level multiplies by its factors.
INLINED void inverse_levels(T *x, int log_radix, int levels, uint top, __global const T2 *roots, T4 m,
                                  __global const T2 *scale) {
#pragma unroll
    for (int i = levels - 1; i >= 0; i--) {
#pragma unroll
        for (int j = 0; j < (1 << (log_radix - 1)); j++) {
            int gap = 1 << (levels - 1 - i), low = j / gap * 2 * gap + j % gap;
            T sum = add_lazy(x[low], x[low + gap], m), difference = subtract_lazy(x[low], x[low + gap], m);
            if (scale && i == 0) {
                x[low] = multiply_factor(sum, scale[0], m);
                x[low + gap] = multiply_factor(difference, scale[1], m);
            } else {
                bool is_due = ((levels - 1 - i) & 1) || i == 0;
                x[low] = is_due ? reduce(sum, m) : sum;
                x[low + gap] = multiply_factor(difference, roots[(top << i) + (low >> (levels - i))], m);
            }
        }
    }
}

// The passes of one kernel, which defines SIZE and RADIX (logarithms of its side and of the values of a
// work-item), ROOT (the node at the top of its side), LOCAL and VALUE (where it keeps value i) and FENCE.
// Pass k has RADIX levels after k RADIX, the last one what is left.
#define LEVELS(k) SMALLER(RADIX, SIZE - (k)*RADIX)
#define LAST ((SIZE - 1) / RADIX)
#define PLACE(k, j) place(SIZE, RADIX, (k)*RADIX, LEVELS(k), t, j)
#define TOP(k) ((ROOT << ((k)*RADIX)) + (PLACE(k, 0) >> (SIZE - (k)*RADIX)))
#define LOAD(AT, k)                                                                                          \
    _Pragma("unroll") for (uint j = 0; j < (1u << RADIX); j++) x[j] = AT(PLACE(k, j));
#define STORE(AT, k)                                                                                         \
    _Pragma("unroll") for (uint j = 0; j < (1u << RADIX); j++) AT(PLACE(k, j)) = x[j];
// A work-item stores where it loaded, so one barrier parts the passes.
#define EXCHANGE(from, to)                                                                                   \
    STORE(LOCAL, from)                                                                                       \
    barrier(FENCE);                                                                            \
    LOAD(LOCAL, to)
#define FORWARD_PASS(k)                                                                                      \
    if ((k) <= LAST) {                                                                                       \
        if ((k) > 0) { EXCHANGE((k)-1, k) }                                                                  \
        forward_levels(x, RADIX, LEVELS(k), TOP(k), roots, m);                                               \
    }
#define INVERSE_PASS(k)                                                                                      \
    if ((k) <= LAST) {                                                                                       \
        inverse_levels(x, RADIX, LEVELS(k), TOP(k), roots, m, (k) == 0 ? SCALE : 0);                         \
        if ((k) > 0) { EXCHANGE(k, (k)-1) }                                                                  \
    }
#define FORWARD_PASSES                                                                                       \
    FORWARD_PASS(0) FORWARD_PASS(1) FORWARD_PASS(2) FORWARD_PASS(3) FORWARD_PASS(4)                          \
    FORWARD_PASS(5) FORWARD_PASS(6) FORWARD_PASS(7) FORWARD_PASS(8)
#define INVERSE_PASSES                                                                                       \
    INVERSE_PASS(8) INVERSE_PASS(7) INVERSE_PASS(6) INVERSE_PASS(5)                                          \
    INVERSE_PASS(4) INVERSE_PASS(3) INVERSE_PASS(2) INVERSE_PASS(1) INVERSE_PASS(0)
#define CANONICAL                                                                                            \
    _Pragma("unroll") for (int j = 0; j < (1 << RADIX); j++) x[j] = canonical(x[j], m);

// What every kernel of this file takes: slots of N values, of which those from `first` on are transformed in
// place; the prime of each; moduli and roots by prime.
#define LIMBS                                                                                                \
    __global T *slots, uint first, __global const uint *basis, __global const T4 *moduli,                    \
        __global const T2 *all_roots
#define OF_THIS_LIMB                                                                                         \
    uint limb = get_group_id(1), prime = basis[limb];                                                        \
    T4 m = moduli[prime];                                                                                    \
    __global const T2 *roots = all_roots + (size_t)prime * N;                                                \
    __global T *values = slots + (size_t)(first + limb) * N;                                                 \
    T x[1 << RADIX];

// Columns.
#define SIZE LOG_TALL
// A work-item stores to the limb where another one has loaded before the barrier.
#define FENCE (CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define RADIX SMALLER(LOG_RADIX, LOG_TALL)
#define ROOT 1u
#define LOG_COLUMNS SMALLER(LOG_SHARED, LOG_WIDE)
#define COLUMN_ITEMS (1 << (LOG_TALL - RADIX + LOG_COLUMNS))
#define OF_THIS_COLUMN                                                                                       \
    uint shared = get_local_id(0) & ((1u << LOG_COLUMNS) - 1), t = get_local_id(0) >> LOG_COLUMNS;           \
    uint column = (get_group_id(0) << LOG_COLUMNS) + shared;
#define VALUE(i) values[((i) << LOG_WIDE) + column]
#define LOCAL(i) exchange[(PADDED(i) << LOG_COLUMNS) + shared]

__kernel __attribute__((reqd_work_group_size(COLUMN_ITEMS, 1, 1)))
void forward_columns(LIMBS) {
    __local T exchange[PADDED(1 << LOG_TALL) << LOG_COLUMNS];
    OF_THIS_LIMB OF_THIS_COLUMN
    LOAD(VALUE, 0)
    FORWARD_PASSES
    STORE(VALUE, LAST)
}

// all_scales: by limb, the factors of the last level: c/n, and c/n times the root of that level.
#define SCALE (all_scales + 2 * limb)
__kernel __attribute__((reqd_work_group_size(COLUMN_ITEMS, 1, 1)))
void inverse_columns(LIMBS, __global const T2 *all_scales) {
    __local T exchange[PADDED(1 << LOG_TALL) << LOG_COLUMNS];
    OF_THIS_LIMB OF_THIS_COLUMN
    LOAD(VALUE, LAST)
    INVERSE_PASSES
    CANONICAL
    STORE(VALUE, 0)
}
#undef SIZE
#undef RADIX
#undef ROOT
#undef VALUE
#undef LOCAL
#undef SCALE
#undef FENCE

// Rows. Neighbours read and write neighbours only in the places of the first pass.
#define SIZE LOG_WIDE
#define FENCE CLK_LOCAL_MEM_FENCE
#define RADIX SMALLER(LOG_RADIX, LOG_WIDE)
#define ROOT ((1u << LOG_TALL) + row)
#define LOG_ROWS SMALLER(LOG_SHARED, LOG_TALL)
#define ROW_ITEMS (1 << (LOG_WIDE - RADIX + LOG_ROWS))
#define OF_THIS_ROW                                                                                          \
    uint shared = get_local_id(0) >> (LOG_WIDE - RADIX);                                                     \
    uint t = get_local_id(0) & ((1u << (LOG_WIDE - RADIX)) - 1);                                             \
    uint row = (get_group_id(0) << LOG_ROWS) + shared;
#define VALUE(i) values[(row << LOG_WIDE) + (i)]
#define LOCAL(i) exchange[shared * PADDED(1 << LOG_WIDE) + PADDED(i)]
#define SCALE ((__global const T2 *)0)

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void forward_rows(LIMBS) {
    __local T exchange[PADDED(1 << LOG_WIDE) << LOG_ROWS];
    OF_THIS_LIMB OF_THIS_ROW
    LOAD(VALUE, 0)
    FORWARD_PASSES
    if (LAST > 0) { EXCHANGE(LAST, 0) }
    CANONICAL
    STORE(VALUE, 0)
}

__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void inverse_rows(LIMBS) {
    __local T exchange[PADDED(1 << LOG_WIDE) << LOG_ROWS];
    OF_THIS_LIMB OF_THIS_ROW
    LOAD(VALUE, 0)
    if (LAST > 0) { EXCHANGE(0, LAST) }
    INVERSE_PASSES
    STORE(VALUE, 0)
}
