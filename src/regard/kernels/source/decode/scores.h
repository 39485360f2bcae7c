// Scores of few queries: lanes are keys.
#pragma once

#include "decode/decode.h"

namespace regard {
namespace ISA {

template <class T>
template <class S>
void Decode<T>::products(const char* at, int64_t row, int64_t keys) {
    constexpr int SIZE = sizeof(typename S::Number);
    // So many queries meet vectors while they are in registers; for more of them a cache is the better place.
    constexpr int MET = PAIRS || BYTES < 32 ? PACK : BYTES == 64 && SIZE >= 4 ? 4 : 1, R = UNIT || MET == 1 ? 1 : 4;
    if constexpr (MET < PACK)
        if (rows > MET) return turned_first<S, 4, 2>(at, row, keys);
    if constexpr (BYTES < 64 && SIZE < int(sizeof(T))) turned_first<S, 1, 4>(at, row, keys);
    else if (rows == 1) turned_on_the_way<S, 1, 1>(at, row, keys);
    else turned_on_the_way<S, R, R == 1 ? 1 : VECTORS>(at, row, keys);
}

template <class T>
template <class S, int R, int M>
void Decode<T>::turned_on_the_way(const char* at, int64_t row, int64_t keys) {
    constexpr int COUNT = M * Pieces<typename S::Number>::COUNT;
    int64_t c = 0;
    for (; c + COUNT <= keys; c += COUNT)
        for (int64_t r = 0; r < rows; r += R) multiply<S, R, M>(at + c * row, row, r, c);
    if (c == keys) return;
    const int64_t bytes = numbers(p.d) * sizeof(typename S::Number);  // fewer than vectors hold: nobody looks
    for (int64_t r = c; r < keys; r++) memcpy(spare + (r - c) * bytes, at + r * row, bytes);  // at other lanes
    for (int64_t r = 0; r < rows; r += R) multiply<S, R, M>(spare, bytes, r, c);
}

// Scores of R queries with M vectors of keys, which are turned over on the way.
template <class T>
template <class S, int R, int M>
void Decode<T>::multiply(const char* from, int64_t row, int64_t first, int64_t c) {
    using P = Pieces<typename S::Number>;
    constexpr int H = UNIT ? 2 : P::COUNT / L<T>;
    const int64_t columns = numbers(p.d);
    typename P::Rows at[M];
    for (int m = 0; m < M; m++) P::begin(at[m], from + m * P::COUNT * row, row);
    const T* q[R];
    for (int r = 0; r < R; r++) q[r] = queries + std::min(first + r, rows - 1) * p.d;
    V<T> sums[R][M][H] = {}, whole[R] = {};
    Soon soon = keys_soon;
    InOrder next = keys_next;
    const bool read_on = R * M == 1 && foreseen();
    auto add = [&](const V<T> (&wide)[M][H], int64_t f) INLINE_LAMBDA {
        UNROLL for (int r = 0; r < R; r++) {
            V<T> one = spread(q[r] + f);
            UNROLL for (int m = 0; m < M; m++)
                UNROLL for (int h = 0; h < H; h++)
                    sums[r][m][h] = UNIT ? fma(all(q[r][2 * f + h]), wide[m][h], sums[r][m][h])
                                         : add_products<T>(one, wide[m][h], sums[r][m][h]);
        }
    };
    auto join = [&]() INLINE_LAMBDA {  // as the unit does
        UNROLL for (int r = 0; r < R; r++) {
            whole[r] += sums[r][0][0] + sums[r][0][H - 1];
            UNROLL for (int h = 0; h < H; h++) sums[r][0][h] = V<T>{};
        }
    };
    int64_t f = 0;
    for (; f + P::PIECE <= columns; f += P::PIECE) {
        typename P::V x[M][P::PIECE];
        constexpr int READ = 16 * M * P::COUNT;
        if (!read_on) soon.template ask<READ>(f / P::PIECE);
        UNROLL for (int m = 0; m < M; m++) P::next(at[m], row, x[m]);
        V<T> wide[M][H];
        UNROLL for (int i = 0; i < P::PIECE; i++) {
            UNROLL for (int m = 0; m < M; m++) S::widen(x[m][i], wide[m]);
            add(wide, f + i);
        }
        if (read_on) next.template read<READ>();
        if (UNIT && f % SIDE == SIDE - P::PIECE) join();
    }
    for (; f < columns; f++) {
        V<T> wide[M][H];
        for (int m = 0; m < M; m++) {
            typename S::Number x[P::COUNT];
            for (int r = 0; r < P::COUNT; r++)
                memcpy(x + r, from + (m * P::COUNT + r) * row + f * sizeof *x, sizeof *x);
            S::widen(P::load(x), wide[m]);
        }
        add(wide, f);
    }
    if (UNIT) join();
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int h = 0; h < (UNIT ? 1 : M * H); h++)
            store(strip + std::min(first + r, rows - 1) * K + c + h * L<T>, UNIT ? whole[r] : sums[r][h / H][h % H]);
    keys_soon = soon;
    if (read_on) keys_next = next;
}

// Scores of keys that are read more than once, or widened where registers are few: NV vectors of keys are turned over as
// they are stored, into the nearest cache, and widened as R queries read them. Both ask for keys, so that memory never
// rests.
template <class T>
template <class S, int R, int NV>
void Decode<T>::turned_first(const char* at, int64_t row, int64_t keys) {
    using Number = typename S::Number;
    constexpr int W = NV * L<T>, SIZE = sizeof(Number);
    using OfHalf = SoonInSteps<8 * BYTES / SIZE>;
    auto* turned = reinterpret_cast<Number*>(spare);
    for (int64_t c = 0; c < keys; c += W) {
        keys_soon = turn_rows(reinterpret_cast<const Number*>(at + c * row), row / SIZE, std::min<int64_t>(W, keys - c),
                              p.d, turned, W, W, OfHalf{keys_soon});
        for (int64_t r = 0; r < rows; r += R) {
            V<T> sums[R][NV] = {};
            sum_up<S, R, NV, 2>(sums, queries + r * p.d, p.d, p.d, spare, W * SIZE, keys_soon);
            UNROLL for (int u = 0; u < R; u++)
                UNROLL for (int v = 0; v < NV; v++) store(strip + (r + u) * K + c + v * L<T>, sums[u][v]);
        }
    }
}

}  // namespace ISA
}  // namespace regard
