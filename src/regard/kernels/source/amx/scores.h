// Scores of a block of keys on the matrix unit.
#pragma once

#include "core/score_block.h"

namespace regard {
namespace ISA {

template <class T, int NV>
void ScoreBlock<T, NV>::scores_amx([[maybe_unused]] int64_t j, [[maybe_unused]] int64_t first,
                                   [[maybe_unused]] int64_t last, [[maybe_unused]] V<T> (&maximum)[NV]) {
#if defined(__AMX_BF16__)
    const int64_t start = first & -TILE_SIDE, stop = round_up(TILE_SIDE, last);
    const ByteRows keys = padded_rows(p.keys, item, j + start, std::min(stop, p.m - j) - start, p.d,
                                      reinterpret_cast<char*>(workspace.keys_buffer));
    V<T> largest_score[NV], factor[NV];
    UNROLL for (int v = 0; v < NV; v++) largest_score[v] = maximum[v], factor[v] = score_scale[v];
    for_steps<2>(start / TILE_SIDE, stop / TILE_SIDE, [&](auto size, int64_t index) {
        constexpr int R = decltype(size)::value;
        const int64_t c = index * TILE_SIDE;
        workspace.keys_prefetcher.prefetch(R * TILE_SIDE * elements(p.d) / 16 / workspace.tiles);
        amx_multiply<R, W>(score_block + c * W, W, {keys.at + (c - start) * keys.row, keys.row}, byte_rows(queries, W),
                           padded_columns(p.d), false);
        T *at = score_block + std::max(c, first) * W, *const end = score_block + std::min(c + R * TILE_SIDE, last) * W;
        for (; at < end; at += W) UNROLL for (int v = 0; v < NV; v++) {
                V<T> x = load(at + v * L<T>) * factor[v];
                store(at + v * L<T>, x);
                largest_score[v] = larger(largest_score[v], x);
            }
    });
    UNROLL for (int v = 0; v < NV; v++) maximum[v] = largest_score[v];
#endif
}

}  // namespace ISA
}  // namespace regard
