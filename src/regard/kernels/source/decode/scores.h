// Scores of few queries: lanes are keys.
#pragma once

#include "decode/decode.h"

namespace regard {
namespace ISA {

template <class T>
template <class S>
void Decode<T>::products(const char* at, int64_t row, int64_t keys) {
    constexpr int SIZE = sizeof(typename S::Stored);
    // Up to so many queries use a transposed vector while it is in registers; with more, it is stored in the cache.
    constexpr int QUERIES_IN_REGISTERS = PAIRS || BYTES < 32        ? QUERIES_PER_TASK
                                         : BYTES == 64 && SIZE >= 4 ? 4
                                                                    : 1,
                  R = MATRIX_UNIT || QUERIES_IN_REGISTERS == 1 ? 1 : 4;
    if constexpr (QUERIES_IN_REGISTERS < QUERIES_PER_TASK)
        if (rows > QUERIES_IN_REGISTERS) return products_in_memory<S, 4, 2>(at, row, keys);
    if constexpr (BYTES < 64 && SIZE < int(sizeof(T))) products_in_memory<S, 1, 4>(at, row, keys);
    else if (rows == 1) products_in_registers<S, 1, 1>(at, row, keys);
    else products_in_registers<S, R, R == 1 ? 1 : KEY_VECTORS>(at, row, keys);
}

template <class T>
template <class S, int R, int M>
void Decode<T>::products_in_registers(const char* at, int64_t row, int64_t keys) {
    constexpr int COUNT = M * Segments<typename S::Stored>::COUNT;
    int64_t c = 0;
    for (; c + COUNT <= keys; c += COUNT)
        for (int64_t r = 0; r < rows; r += R) multiply<S, R, M>(at + c * row, row, r, c);
    if (c == keys) return;
    const int64_t bytes = elements(p.d) * sizeof(typename S::Stored);
    // Lanes beyond the last key hold garbage that is never used.
    for (int64_t r = c; r < keys; r++) memcpy(key_scratch + (r - c) * bytes, at + r * row, bytes);
    for (int64_t r = 0; r < rows; r += R) multiply<S, R, M>(key_scratch, bytes, r, c);
}

// Scores of R queries and M vectors of keys, which are transposed in registers.
template <class T>
template <class S, int R, int M>
void Decode<T>::multiply(const char* from, int64_t row, int64_t first, int64_t c) {
    using P = Segments<typename S::Stored>;
    constexpr int H = MATRIX_UNIT ? 2 : P::COUNT / L<T>;
    const int64_t columns = elements(p.d);
    typename P::Rows at[M];
    for (int m = 0; m < M; m++) P::begin(at[m], from + m * P::COUNT * row, row);
    const T* q[R];
    for (int r = 0; r < R; r++) q[r] = queries + std::min(first + r, rows - 1) * p.d;
    V<T> sums[R][M][H] = {}, joined[R] = {};
    RowPrefetcher prefetcher = keys_prefetcher;
    SequentialReader next = keys_reader;
    const bool reads_on = R * M == 1 && reads_sequentially();
    auto add = [&](const V<T>(&widened)[M][H], int64_t f) INLINE_LAMBDA {
        UNROLL for (int r = 0; r < R; r++) {
            V<T> query = broadcast_element(q[r] + f);
            UNROLL for (int m = 0; m < M; m++) UNROLL for (int h = 0; h < H; h++) sums[r][m][h] =
                MATRIX_UNIT ? fma(broadcast(q[r][2 * f + h]), widened[m][h], sums[r][m][h])
                            : add_products<T>(query, widened[m][h], sums[r][m][h]);
        }
    };
    auto join_halves = [&]() INLINE_LAMBDA {  // the order of the matrix unit
        UNROLL for (int r = 0; r < R; r++) {
            joined[r] += sums[r][0][0] + sums[r][0][H - 1];
            UNROLL for (int h = 0; h < H; h++) sums[r][0][h] = V<T>{};
        }
    };
    int64_t f = 0;
    for (; f + P::SEGMENT <= columns; f += P::SEGMENT) {
        typename P::V x[M][P::SEGMENT];
        constexpr int BYTES_READ = 16 * M * P::COUNT;
        if (!reads_on) prefetcher.template prefetch<BYTES_READ>(f / P::SEGMENT);
        UNROLL for (int m = 0; m < M; m++) P::next(at[m], row, x[m]);
        V<T> widened[M][H];
        UNROLL for (int i = 0; i < P::SEGMENT; i++) {
            UNROLL for (int m = 0; m < M; m++) S::widen(x[m][i], widened[m]);
            add(widened, f + i);
        }
        if (reads_on) next.template read<BYTES_READ>();
        if (MATRIX_UNIT && f % TILE_SIDE == TILE_SIDE - P::SEGMENT) join_halves();
    }
    for (; f < columns; f++) {
        V<T> widened[M][H];
        for (int m = 0; m < M; m++) {
            typename S::Stored x[P::COUNT];
            for (int r = 0; r < P::COUNT; r++)
                memcpy(x + r, from + (m * P::COUNT + r) * row + f * sizeof *x, sizeof *x);
            S::widen(P::load(x), widened[m]);
        }
        add(widened, f);
    }
    if (MATRIX_UNIT) join_halves();
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int h = 0; h < (MATRIX_UNIT ? 1 : M * H); h++)
        store(score_block + std::min(first + r, rows - 1) * K + c + h * L<T>,
              MATRIX_UNIT ? joined[r] : sums[r][h / H][h % H]);
    keys_prefetcher = prefetcher;
    if (reads_on) keys_reader = next;
}

// Scores with keys transposed into the L1 cache, for keys that are read more than once or widened with few registers.
// NV vectors of keys are transposed as stored, and widened as R queries read them. Both steps prefetch keys, so that
// memory is never idle.
template <class T>
template <class S, int R, int NV>
void Decode<T>::products_in_memory(const char* at, int64_t row, int64_t keys) {
    using Stored = typename S::Stored;
    constexpr int W = NV * L<T>, SIZE = sizeof(Stored);
    using HalfPrefetcher = SteppedPrefetcher<8 * BYTES / SIZE>;
    auto* transposed = reinterpret_cast<Stored*>(key_scratch);
    for (int64_t c = 0; c < keys; c += W) {
        keys_prefetcher =
            transpose_rows(reinterpret_cast<const Stored*>(at + c * row), row / SIZE, std::min<int64_t>(W, keys - c),
                           p.d, transposed, W, W, HalfPrefetcher{keys_prefetcher});
        for (int64_t r = 0; r < rows; r += R) {
            V<T> sums[R][NV] = {};
            accumulate<S, R, NV, 2>(sums, queries + r * p.d, p.d, p.d, key_scratch, W * SIZE, keys_prefetcher);
            UNROLL for (int u = 0; u < R; u++) UNROLL for (int v = 0; v < NV; v++)
                store(score_block + (r + u) * K + c + v * L<T>, sums[u][v]);
        }
    }
}

}  // namespace ISA
}  // namespace regard
