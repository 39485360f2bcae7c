// Weighted sums of values for few queries: lanes are elements of a value.
#pragma once

#include "decode/decode.h"

namespace regard {
namespace ISA {

#if !defined(__AMX_BF16__)
template <class T>
void Decode<T>::sum_values(int64_t j, int64_t keys) {
    int64_t c = 0;
    auto add_stored = [&](auto stored, int64_t count) {
        for (const int64_t step = rows > 4 ? VALUE_BATCH : count; c < count; c += step)
            accumulate_values<decltype(stored)>(row_of(p.values, j + c), p.values.row, c, std::min(step, count - c));
        c = count;
    };
    if (!excludes_nonfinite) {
#if defined(__AVX512BF16__)
        if (p.e % (2 * L<T>) == 0) add_stored(Paired(), keys / 2 * 2);
#else
        if (p.values_type == p.compute) return add_stored(Plain<T>(), keys);
#endif
        if constexpr (WIDENS && sizeof(T) == 4)
            return p.values_type == FLOAT16 ? add_stored(Half<FLOAT16>(), keys) : add_stored(Half<BFLOAT16>(), keys);
    }
    for (; c < keys; c += VALUE_BATCH) {
        const int64_t count = std::min(VALUE_BATCH, keys - c);
        Block<T> values = finite_values(j + c, count);
        accumulate_values<Plain<T>>(reinterpret_cast<const char*>(values.at), values.stride * int64_t(sizeof(T)), c,
                                    count);
    }
}
#endif

// Values with 0 for non-finite elements if they are excluded.
template <class T>
Block<T> Decode<T>::finite_values(int64_t j, int64_t keys) {
#if defined(__AVX512BF16__)
    const int64_t width = width_of<T>(p.e);
    pair_rows(p.values, first_item, j, keys, p.e, values_buffer, width);
    if (excludes_nonfinite) remove_nonfinite<false>(values_buffer, width, p.e, keys, [](int64_t, int64_t, uint8_t) {});
    return {values_buffer, width};
#endif
    Block<T> values = rows_of<T>(p.values, p.values_type, first_item, j, keys, p.e, values_buffer);
    if (!excludes_nonfinite) return values;
    for (int64_t c = 0; c < keys; c++)
        for (int64_t f = 0; f < p.e; f++) {
            T x = values.at[c * values.stride + f];
            values_buffer[c * p.e + f] = taint_of(x) ? T(0) : x;
        }
    return {values_buffer, p.e};
}

template <class T>
template <class S>
void Decode<T>::accumulate_values(const char* values, int64_t row, int64_t first, int64_t keys) {
    constexpr int MIN_VECTORS = PAIRS && sizeof(typename S::Stored) == 2 ? 2 : 1;
    int64_t c = 0;
    if (rows == 1) {
        if constexpr (MAX_VECTORS > 8) c = add_columns<S, 1, MAX_VECTORS>(values, row, first, keys, c);
        c = add_columns<S, 1, 8>(values, row, first, keys, c);
        c = add_columns<S, 1, 4>(values, row, first, keys, c);
        c = add_columns<S, 1, MIN_VECTORS>(values, row, first, keys, c);
    } else if constexpr (ROW_WISE) {
        for (int64_t r = 0; r < rows; r += 4)
            c = rows - r > 2 ? add_row_wise<S, 4, 3>(values, row, first, keys, r)
                             : add_row_wise<S, 2, 4>(values, row, first, keys, r);
    } else {
        c = add_columns<S, 4, BYTES == 64 ? 4 : 2>(values, row, first, keys, c);
        c = add_columns<S, 4, MIN_VECTORS>(values, row, first, keys, c);
    }
    if (c < (PAIRS ? width_of<T>(p.e) : p.e)) add_tail<S>(values, row, first, keys, c);
}

// Add all full vectors of columns to R queries from r on; returns the first remaining column. M rows are read
// sequentially at a time: their weights are in registers, and the sums in the L1 cache.
template <class T>
template <class S, int R, int M>
int64_t Decode<T>::add_row_wise(const char* values, int64_t row, int64_t first, int64_t keys, int64_t r) {
    constexpr int64_t SIZE = L<T> * sizeof(typename S::Stored);  // bytes of a stored vector
    const int64_t stop = p.e / L<T> * L<T>, interval = RowPrefetcher::BATCH_BYTES * ((rows + 3) / 4);
    T* at[R];
    for (int u = 0; u < R; u++) at[u] = sums_of(r + u);
    RowPrefetcher prefetcher = values_prefetcher;
    int64_t k = 0, read = 0;
    auto add_rows = [&](auto count) INLINE_LAMBDA {
        constexpr int N = decltype(count)::value;
        V<T> weights[R][N];
        UNROLL for (int u = 0; u < R; u++) UNROLL for (int i = 0; i < N; i++) weights[u][i] =
            broadcast(score_block[(r + u) * K + first + k + i]);
        const char* from = values + k * row;
        for (int64_t c = 0; c < stop; c += L<T>, from += SIZE) {
            if ((read += N * SIZE) >= interval) read -= interval, prefetcher.prefetch();
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
    while (k + M <= keys) add_rows(std::integral_constant<int, M>());
    while (k < keys) add_rows(std::integral_constant<int, 1>());
    values_prefetcher = prefetcher;
    return stop;
}

// Add the last columns from c on, which do not fill a vector.
template <class T>
template <class S>
void Decode<T>::add_tail(const char* values, int64_t row, int64_t first, int64_t keys, int64_t c) {
    typename S::Stored x;
    for (; c < p.e; c++)
        for (int64_t r = 0; r < rows; r++) {
            T sum = sums_of(r)[c];
            for (int64_t k = 0; k < keys; k++) {
                memcpy(&x, values + k * row + c * sizeof x, sizeof x);
                sum = fma1(to_compute_type(x, p.values_type), score_block[r * K + first + k], sum);
            }
            sums_of(r)[c] = sum;
        }
}

// Sums of products with vectors in their storage type. Prefetches 1 / PART of the bytes that it reads, divided among
// the queries.
template <class T>
template <class S, int R, int NV, int PART>
void Decode<T>::accumulate(V<T> (&sums)[R][NV], const T* a, int64_t lda, int64_t depth, const char* from, int64_t row,
                           RowPrefetcher& shared_prefetcher) {
    constexpr int SIZE = sizeof(typename S::Stored);
    constexpr int BYTES_READ = NV * L<T> * SIZE * (PAIRS && SIZE == 2 ? 2 : 1) / PART;
    const int64_t interval = std::max<int>(1, RowPrefetcher::BATCH_BYTES / BYTES_READ) * ((rows + R - 1) / R);
    int64_t next = 0;
    RowPrefetcher prefetcher = shared_prefetcher;
    const bool reads_sequentially = R == 1 && this->reads_sequentially();
    auto prefetch = [&](int64_t k) INLINE_LAMBDA {
        if (NV == 1 || reads_sequentially) return;  // the other vectors prefetch the last ones
        if (R == 1) prefetcher.template prefetch<BYTES_READ>(k);
        else if (k == next)
            prefetcher.template prefetch<std::max<int>(BYTES_READ, RowPrefetcher::BATCH_BYTES)>(0), next += interval;
    };
    if constexpr (R == 1 && !PAIRS)
        for (int64_t k = 0; k < depth; k++) {
            prefetch(k);
            const V<T> weight = broadcast(a[k]);
            UNROLL for (int v = 0; v < NV; v++) {  // one at a time for lack of registers
                V<T> x[1];
                S::read(from + v * L<T> * SIZE, row, k, x);
                sums[0][v] = fma(weight, x[0], sums[0][v]);
            }
        }
    else
        product_of<T, R, NV, true>(
            sums, a, lda, depth,
            [&](int64_t k, V<T>(&bk)[NV]) INLINE_LAMBDA {
                prefetch(k);
                S::read(from, row, k, bk);
            },
            no_prefetch);
    shared_prefetcher = prefetcher;
}

// Add columns from c on in steps of NV vectors to R queries at a time; returns the first remaining column.
template <class T>
template <class S, int R, int NV>
int64_t Decode<T>::add_columns(const char* values, int64_t row, int64_t first, int64_t keys, int64_t c) {
    using Stored = typename S::Stored;
    const int64_t columns = PAIRS ? width_of<T>(p.e) : p.e;
    for (; c + NV * L<T> <= columns; c += NV * L<T>)
        for (int64_t r = 0; r < rows; r += R) {
            V<T> sums[R][NV];
            T* at[R];
            for (int u = 0; u < R; u++) at[u] = sums_of(r + u) + c;
            UNROLL for (int u = 0; u < R; u++) UNROLL for (int v = 0; v < NV; v++) sums[u][v] = load(at[u] + v * L<T>);
            const char* from = values + c * sizeof(Stored);
            accumulate<S, R, NV, 1>(sums, score_block + r * K + first / (PAIRS + 1), K, elements(keys), from, row,
                                    values_prefetcher);
            UNROLL for (int u = 0; u < R; u++) UNROLL for (int v = 0; v < NV; v++) store(at[u] + v * L<T>, sums[u][v]);
        }
    return c;
}

}  // namespace ISA
}  // namespace regard
