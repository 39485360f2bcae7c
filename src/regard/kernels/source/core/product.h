// The register-tiled product that all others use, and the arena that a thread allocates from.
#pragma once

#include "amx/unit.h"

namespace regard {
namespace ISA {

// ---- the product --------------------------------------------------------------------------------------------

// A barrier: otherwise Clang hoists loads of the next step and runs out of registers.
INLINE void compiler_barrier() {
#if defined(__clang__)
    asm volatile("" ::: "memory");
#endif
}

constexpr auto no_prefetch = []() INLINE_LAMBDA {};

// c[r] += sum over k of a(r, k) * b[k], with vectors b[k] of NV * L lanes that `read` loads. a(r, k) is a[r * lda + k]
// if ACROSS, else a[k * lda + r]. Sums run over k in order. `prefetch` is called in each step.
template <class T, int R, int NV, bool ACROSS, class Read, class Prefetch>
INLINE void product_of(V<T> (&c)[R][NV], const T* a, int64_t lda, int64_t depth, Read&& read, Prefetch&& prefetch) {
    auto add = [&](int64_t k) INLINE_LAMBDA {
        V<T> bk[NV];
        compiler_barrier(), read(k, bk);
        UNROLL for (int r = 0; r < R; r++) {
            V<T> ark = broadcast_element(ACROSS ? a + r * lda + k : a + k * lda + r);
            UNROLL for (int x = 0; x < NV; x++) c[r][x] = add_products<T>(ark, bk[x], c[r][x]);
        }
    };
    if constexpr (R * NV >= ROWS * 2)  // the hot case: unrolling hides the loop counter
        _Pragma("GCC unroll 2") for (int64_t k = 0; k < depth; k++) prefetch(), add(k);
    else
        for (int64_t k = 0; k < depth; k++) prefetch(), add(k);
}
template <class T, int R, int NV, bool ACROSS, class Prefetch>
INLINE void product(V<T> (&c)[R][NV], const T* a, int64_t lda, const T* b, int64_t ldb, int64_t depth,
                    Prefetch&& prefetch) {
    auto read = [&](int64_t k, V<T>(&bk)[NV])
                    INLINE_LAMBDA { UNROLL for (int x = 0; x < NV; x++) bk[x] = load(b + k * ldb + x * L<T>); };
    product_of<T, R, NV, ACROSS>(c, a, lda, depth, read, prefetch);
}
template <class T, int R, int NV, bool ACROSS>
INLINE void product(V<T> (&c)[R][NV], const T* a, int64_t lda, const T* b, int64_t ldb, int64_t depth) {
    product<T, R, NV, ACROSS>(c, a, lda, b, ldb, depth, no_prefetch);
}
// The same, with prefetching for tiles.
template <class T, int R, int NV, bool ACROSS>
INLINE void product(V<T> (&c)[R][NV], const T* a, int64_t lda, const T* b, int64_t ldb, int64_t depth,
                    BlockPrefetcher& prefetcher) {
    if constexpr (!PREFETCHES || R < ROWS) return product<T, R, NV, ACROSS>(c, a, lda, b, ldb, depth);
    product<T, R, NV, ACROSS>(c, a, lda, b, ldb, depth, prefetcher.next(depth));
}

// Call f(number of rows, first row) in steps of R rows, then R / 2 and so on for the tail.
template <int R, class F>
INLINE void for_steps(int64_t first, int64_t last, F&& f) {
    for (; first + R <= last; first += R) f(std::integral_constant<int, R>{}, first);
    if constexpr (R > 1) for_steps<R / 2>(first, last, f);
}

// ---- memory -------------------------------------------------------------------------------------------------

struct Arena {
    char* at;
    template <class T>
    T* allocate(int64_t count) {
        T* start = reinterpret_cast<T*>(at);
        at += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
        return start;
    }
};

}  // namespace ISA
}  // namespace regard
