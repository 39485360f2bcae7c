// The one product that all others are made of, and the memory that a thread works in.
#pragma once

#include "amx/unit.h"

namespace regard {
namespace ISA {

// ---- the one product -----------------------------------------------------------------------------------------

// Clang would load early for the next step what this one leaves no register for.
INLINE void in_order() {
#if defined(__clang__)
    asm volatile("" ::: "memory");
#endif
}

constexpr auto nobody = []() INLINE_LAMBDA {};  // asks for what comes next

// c[r] += sum over k of a(r, k) * b[k], with vectors b[k] of NV * L lanes that `read` fetches; a(r, k) is a[r * lda + k]
// where ACROSS, and a[k * lda + r] otherwise. All sums run over k in order; where there are many, two steps between one look
// at the counter and the next, and `ask` is called in each.
template <class T, int R, int NV, bool ACROSS, class Read, class Ask>
INLINE void product_of(V<T> (&c)[R][NV], const T* a, int64_t lda, int64_t depth, Read&& read, Ask&& ask) {
    auto add = [&](int64_t k) INLINE_LAMBDA {
        V<T> bk[NV];
        in_order(), read(k, bk);
        UNROLL for (int r = 0; r < R; r++) {
            V<T> ark = spread(ACROSS ? a + r * lda + k : a + k * lda + r);
            UNROLL for (int x = 0; x < NV; x++) c[r][x] = add_products<T>(ark, bk[x], c[r][x]);
        }
    };
    if constexpr (R * NV >= ROWS * 2)  // where most of the time goes, counting takes its place beside multiplying
        _Pragma("GCC unroll 2") for (int64_t k = 0; k < depth; k++) ask(), add(k);
    else
        for (int64_t k = 0; k < depth; k++) ask(), add(k);
}
template <class T, int R, int NV, bool ACROSS, class Ask>
INLINE void product(V<T> (&c)[R][NV], const T* a, int64_t lda, const T* b, int64_t ldb, int64_t depth, Ask&& ask) {
    auto read = [&](int64_t k, V<T> (&bk)[NV]) INLINE_LAMBDA {
        UNROLL for (int x = 0; x < NV; x++) bk[x] = load(b + k * ldb + x * L<T>);
    };
    product_of<T, R, NV, ACROSS>(c, a, lda, depth, read, ask);
}
template <class T, int R, int NV, bool ACROSS>
INLINE void product(V<T> (&c)[R][NV], const T* a, int64_t lda, const T* b, int64_t ldb, int64_t depth) {
    product<T, R, NV, ACROSS>(c, a, lda, b, ldb, depth, nobody);
}
// The same for tiles, which ask for what comes next.
template <class T, int R, int NV, bool ACROSS>
INLINE void product(V<T> (&c)[R][NV], const T* a, int64_t lda, const T* b, int64_t ldb, int64_t depth, Ahead& ahead) {
    if constexpr (!ASKS || R < ROWS) return product<T, R, NV, ACROSS>(c, a, lda, b, ldb, depth);
    product<T, R, NV, ACROSS>(c, a, lda, b, ldb, depth, ahead.next(depth));
}

// Call f(number of rows, first row) in steps of R rows, and of half as many, and so on, at the end.
template <int R, class F>
INLINE void in_steps(int64_t first, int64_t last, F&& f) {
    for (; first + R <= last; first += R) f(std::integral_constant<int, R>{}, first);
    if constexpr (R > 1) in_steps<R / 2>(first, last, f);
}

// ---- room: memory that a thread works in ---------------------------------------------------------------------

struct Room {
    char* at;
    template <class T>
    T* take(int64_t count) {
        T* start = reinterpret_cast<T*>(at);
        at += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
        return start;
    }
};

}  // namespace ISA
}  // namespace regard
