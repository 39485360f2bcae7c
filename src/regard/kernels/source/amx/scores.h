// The scores of a block of keys on the matrix unit.
#pragma once

#include "core/score_block.h"

namespace regard {
namespace ISA {

template <class T, int NV>
void ScoreBlock<T, NV>::scores_of_unit([[maybe_unused]] int64_t j, [[maybe_unused]] int64_t first, [[maybe_unused]] int64_t last,
          [[maybe_unused]] V<T> (&top)[NV]) {
#if defined(__AMX_BF16__)
    const int64_t start = first & -SIDE, stop = up_to(SIDE, last);
    const Bytes keys = filled_rows(p.keys, item, j + start, std::min(stop, p.m - j) - start, p.d,
                                   reinterpret_cast<char*>(workspace.keys_room));
    V<T> most[NV], factor[NV];
    UNROLL for (int v = 0; v < NV; v++) most[v] = top[v], factor[v] = after[v];
    in_steps<2>(start / SIDE, stop / SIDE, [&](auto size, int64_t number) {
        constexpr int R = decltype(size)::value;
        const int64_t c = number * SIDE;
        workspace.keys_ahead.ask(R * SIDE * numbers(p.d) / 16 / workspace.tiles);
        multiply_unit<R, W>(strip + c * W, W, {keys.at + (c - start) * keys.row, keys.row}, bytes_of(queries, W),
                            filled_columns(p.d), false);
        T *at = strip + std::max(c, first) * W, *const end = strip + std::min(c + R * SIDE, last) * W;
        for (; at < end; at += W)
            UNROLL for (int v = 0; v < NV; v++) {
                V<T> x = load(at + v * L<T>) * factor[v];
                store(at + v * L<T>, x);
                most[v] = larger(most[v], x);
            }
    });
    UNROLL for (int v = 0; v < NV; v++) top[v] = most[v];
#endif
}

}  // namespace ISA
}  // namespace regard
