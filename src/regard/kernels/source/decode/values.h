// Sums of values for few queries: lanes are numbers of a value.
#pragma once

#include "decode/decode.h"

namespace regard {
namespace ISA {

#if !defined(__AMX_BF16__)
template <class T>
void Decode<T>::sum_values(int64_t j, int64_t keys) {
    int64_t c = 0;
    auto done = [&](auto stored, int64_t count) {
        for (const int64_t step = rows > 4 ? BITE : count; c < count; c += step)
            collect<decltype(stored)>(row_of(p.values, j + c), p.values.row, c, std::min(step, count - c));
        c = count;
    };
    if (!clean) {
#if defined(__AVX512BF16__)
        if (p.e % (2 * L<T>) == 0) done(Paired(), keys / 2 * 2);
#else
        if (p.values_type == p.compute) return done(Plain<T>(), keys);
#endif
        if constexpr (WIDENS && sizeof(T) == 4)
            return p.values_type == FLOAT16 ? done(Half<FLOAT16>(), keys) : done(Half<BFLOAT16>(), keys);
    }
    for (; c < keys; c += BITE) {
        const int64_t count = std::min(BITE, keys - c);
        Block<T> values = values_of(j + c, count);
        collect<Plain<T>>(reinterpret_cast<const char*>(values.at), values.stride * int64_t(sizeof(T)), c, count);
    }
}
#endif

// Values of which nothing can reach whom it should not.
template <class T>
Block<T> Decode<T>::values_of(int64_t j, int64_t keys) {
#if defined(__AVX512BF16__)
    const int64_t width = width_of<T>(p.e);
    pair_rows(p.values, first_item, j, keys, p.e, values_room, width);
    if (clean) clean_pairs<false>(values_room, width, p.e, keys, [](int64_t, int64_t, uint8_t) {});
    return {values_room, width};
#endif
    Block<T> values = rows_of<T>(p.values, p.values_type, first_item, j, keys, p.e, values_room);
    if (!clean) return values;
    for (int64_t c = 0; c < keys; c++)
        for (int64_t f = 0; f < p.e; f++) {
            T x = values.at[c * values.stride + f];
            values_room[c * p.e + f] = taint_of(x) ? T(0) : x;
        }
    return {values_room, p.e};
}

template <class T>
template <class S>
void Decode<T>::collect(const char* values, int64_t row, int64_t first, int64_t keys) {
    constexpr int LEAST = PAIRS && sizeof(typename S::Number) == 2 ? 2 : 1;
    int64_t c = 0;
    if (rows == 1) {
        if constexpr (MOST > 8) c = add<S, 1, MOST>(values, row, first, keys, c);
        c = add<S, 1, 8>(values, row, first, keys, c);
        c = add<S, 1, 4>(values, row, first, keys, c);
        c = add<S, 1, LEAST>(values, row, first, keys, c);
    } else if constexpr (ALONG) {
        for (int64_t r = 0; r < rows; r += 4)
            c = rows - r > 2 ? add_along<S, 4, 3>(values, row, first, keys, r)
                             : add_along<S, 2, 4>(values, row, first, keys, r);
    } else {
        c = add<S, 4, BYTES == 64 ? 4 : 2>(values, row, first, keys, c);
        c = add<S, 4, LEAST>(values, row, first, keys, c);
    }
    if (c < (PAIRS ? width_of<T>(p.e) : p.e)) rest<S>(values, row, first, keys, c);
}

// All whole vectors of columns to R queries from r on; returns where columns are left. Rows are read from end to end, M at
// a time, as memory likes it best: their weights are in registers, and sums in the nearest cache.
template <class T>
template <class S, int R, int M>
int64_t Decode<T>::add_along(const char* values, int64_t row, int64_t first, int64_t keys, int64_t r) {
    constexpr int64_t SIZE = L<T> * sizeof(typename S::Number);  // of a vector as it is stored
    const int64_t stop = p.e / L<T> * L<T>, lot = Soon::LOT * ((rows + 3) / 4);
    T* at[R];
    for (int u = 0; u < R; u++) at[u] = sums_of(r + u);
    Soon soon = values_soon;
    int64_t k = 0, read = 0;
    auto meet = [&](auto some) INLINE_LAMBDA {
        constexpr int N = decltype(some)::value;
        V<T> weights[R][N];
        UNROLL for (int u = 0; u < R; u++)
            UNROLL for (int i = 0; i < N; i++) weights[u][i] = all(strip[(r + u) * K + first + k + i]);
        const char* from = values + k * row;
        for (int64_t c = 0; c < stop; c += L<T>, from += SIZE) {
            if ((read += N * SIZE) >= lot) read -= lot, soon.ask();
            V<T> x[N][1];
            UNROLL for (int i = 0; i < N; i++) S::read(from, row, i, x[i]);
            UNROLL for (int u = 0; u < R; u++) {
                V<T> sum = load(at[u] + c);
                UNROLL for (int i = 0; i < N; i++) sum = fma(weights[u][i], x[i][0], sum);
                store(at[u] + c, sum);
            }
        }
        k += N;
    };
    while (k + M <= keys) meet(std::integral_constant<int, M>());
    while (k < keys) meet(std::integral_constant<int, 1>());
    values_soon = soon;
    return stop;
}

// The last columns, from c on, which fill no vector.
template <class T>
template <class S>
void Decode<T>::rest(const char* values, int64_t row, int64_t first, int64_t keys, int64_t c) {
    typename S::Number x;
    for (; c < p.e; c++)
        for (int64_t r = 0; r < rows; r++) {
            T sum = sums_of(r)[c];
            for (int64_t k = 0; k < keys; k++) {
                memcpy(&x, values + k * row + c * sizeof x, sizeof x);
                sum = fma1(number(x, p.values_type), strip[r * K + first + k], sum);
            }
            sums_of(r)[c] = sum;
        }
}

// Sums of products with vectors as they are stored. Meanwhile one of PART such bytes is asked for, by all queries that
// take turns together.
template <class T>
template <class S, int R, int NV, int PART>
void Decode<T>::sum_up(V<T> (&sums)[R][NV], const T* a, int64_t lda, int64_t depth, const char* from, int64_t row,
                       Soon& asked) {
    constexpr int SIZE = sizeof(typename S::Number);
    constexpr int READ = NV * L<T> * SIZE * (PAIRS && SIZE == 2 ? 2 : 1) / PART;
    const int64_t every = std::max<int>(1, Soon::LOT / READ) * ((rows + R - 1) / R);
    int64_t next = 0;
    Soon soon = asked;
    const bool foreseen = R == 1 && this->foreseen();
    auto ask = [&](int64_t k) INLINE_LAMBDA {
        if (NV == 1 || foreseen) return;  // a row's last vectors come with the others
        if (R == 1) soon.template ask<READ>(k);
        else if (k == next) soon.template ask<std::max<int>(READ, Soon::LOT)>(0), next += every;
    };
    if constexpr (R == 1 && !PAIRS)
        for (int64_t k = 0; k < depth; k++) {
            ask(k);
            const V<T> one = all(a[k]);
            UNROLL for (int v = 0; v < NV; v++) {  // one by one: there are no registers for all at once
                V<T> x[1];
                S::read(from + v * L<T> * SIZE, row, k, x);
                sums[0][v] = fma(one, x[0], sums[0][v]);
            }
        }
    else
        product_of<T, R, NV, true>(sums, a, lda, depth, [&](int64_t k, V<T> (&bk)[NV]) INLINE_LAMBDA {
            ask(k);
            S::read(from, row, k, bk);
        }, nobody);
    asked = soon;
}

// Columns from c on by steps of NV vectors, to R queries at a time; returns where columns are left.
template <class T>
template <class S, int R, int NV>
int64_t Decode<T>::add(const char* values, int64_t row, int64_t first, int64_t keys, int64_t c) {
    using Number = typename S::Number;
    const int64_t columns = PAIRS ? width_of<T>(p.e) : p.e;
    for (; c + NV * L<T> <= columns; c += NV * L<T>)
        for (int64_t r = 0; r < rows; r += R) {
            V<T> sums[R][NV];
            T* at[R];
            for (int u = 0; u < R; u++) at[u] = sums_of(r + u) + c;
            UNROLL for (int u = 0; u < R; u++)
                UNROLL for (int v = 0; v < NV; v++) sums[u][v] = load(at[u] + v * L<T>);
            const char* from = values + c * sizeof(Number);
            sum_up<S, R, NV, 1>(sums, strip + r * K + first / (PAIRS + 1), K, numbers(keys), from, row,
                                values_soon);
            UNROLL for (int u = 0; u < R; u++)
                UNROLL for (int v = 0; v < NV; v++) store(at[u] + v * L<T>, sums[u][v]);
        }
    return c;
}

}  // namespace ISA
}  // namespace regard
