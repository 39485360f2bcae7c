// Few queries on the matrix unit, and the same bits for one query from vectors.
#pragma once

#include "decode/decode.h"

#if defined(__AMX_BF16__)
namespace regard {
namespace ISA {

// Scores of several queries: keys are the left operand, in place, and queries the columns of the right one.
template <class T>
void Decode<T>::scores_amx(int64_t j, int64_t keys) {
    RowPrefetcher prefetcher = keys_prefetcher;
    for (int64_t c = 0; c < keys; c += TILE_SIDE) {
        const int64_t count = std::min(TILE_SIDE, keys - c);
        const ByteRows at = count == TILE_SIDE ? ByteRows{row_of(p.keys, j + c), p.keys.row}
                                               : padded_rows(p.keys, first_item, j + c, count, p.d,
                                                             reinterpret_cast<char*>(keys_buffer));
        __asm__ volatile("" ::: "memory");
        _tile_zero(0);
        int64_t f = 0;
        for (; f + DOT_STEP <= p.d; f += DOT_STEP) {
            prefetcher.template prefetch<TILE_SIDE * 2 * DOT_STEP>(0);
            _tile_loadd(4, queries + f / 2 * TILE_SIDE, 64);
            _tile_loadd(2, at.at + 2 * f, at.row);
            _tile_dpbf16ps(0, 2, 4);
        }
        if (f < p.d) {
            prefetcher.template prefetch<TILE_SIDE * DOT_STEP>(0);
            _tile_loadd(6, queries + f / 2 * TILE_SIDE, 64);
            _tile_loadd(5, at.at + 2 * f, at.row);
            _tile_dpbf16ps(0, 5, 6);
        }
        _tile_stored(0, tile_out, 64);
        __asm__ volatile("" ::: "memory");
        transpose_rows<T>(tile_out, TILE_SIDE, TILE_SIDE, round_up(4, rows), score_block + c, K, TILE_SIDE);
    }
    keys_prefetcher = prefetcher;
}

// The matrix unit's sum of DOT_STEP values for one query: even and odd keys are summed separately and added last.
template <class T>
template <int NV>
void Decode<T>::add_values_vector(ByteRows values, int64_t first, int64_t keys, T rescale, int64_t f) {
    for (; f + NV * L<T> <= p.e; f += NV * L<T>) {
        V<T> sums[2][NV] = {};
        auto add = [&](int64_t k, auto odd) INLINE_LAMBDA {
            V<T> widened[NV], weight = broadcast(score_block[first + k]);
            if (NV > 1) values_prefetcher.template prefetch<NV * BYTES / 2>(k);
            Half<BFLOAT16>::read(values.at + 2 * f, values.row, k, widened);
            UNROLL for (int v = 0; v < NV; v++) sums[decltype(odd)::value][v] =
                fma(weight, widened[v], sums[decltype(odd)::value][v]);
        };
        int64_t k = 0;
        for (; k + 2 <= keys; k += 2) add(k, std::false_type()), add(k + 1, std::true_type());
        if (k < keys) add(k, std::false_type());
        UNROLL for (int v = 0; v < NV; v++) {
            T* at = partial->context() + f + v * L<T>;
            store(at, load(at) * rescale + (sums[0][v] + sums[1][v]));
        }
    }
    if constexpr (NV > 1) return add_values_vector<1>(values, first, keys, rescale, f);
    for (; f < p.e; f++) {
        T sums[2] = {}, &sum = partial->context()[f];
        for (int64_t k = 0; k < keys; k++)
            sums[k % 2] = fma1(to_compute_type(half(values, k, f), BFLOAT16), score_block[first + k], sums[k % 2]);
        sum = sum * rescale + (sums[0] + sums[1]);
    }
}

// Values as stored, with 0 for non-finite elements.
template <class T>
ByteRows Decode<T>::finite_rows(int64_t j, int64_t keys) {
    auto* to = reinterpret_cast<uint16_t*>(values_buffer);
    const ByteRows from = {row_of(p.values, j), p.values.row};
    for (int64_t k = 0; k < keys; k++)
        for (int64_t f = 0; f < p.e; f++) {
            const uint16_t value = half(from, k, f);
            to[k * p.e + f] = taint_of(widen_bfloat16(value)) ? 0 : value;
        }
    return {reinterpret_cast<const char*>(to), 2 * p.e};
}

// Several queries: weights are the left operand, and pairs of two keys' values the right one. The columns of the sums
// are permuted like the pairs: of each 32, first those whose index modulo 8 is below 4.
template <class T>
void Decode<T>::add_values_amx(int64_t j, int64_t keys, const T* rescale) {
    const int64_t width = round_up(DOT_STEP, p.e);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r * width; c < (r + 1) * width; c += L<T>) store(sums + c, load(sums + c) * rescale[r]);
    for (int64_t c = 0; c < keys; c += DOT_STEP) {
        pair_values(j + c, std::min(DOT_STEP, keys - c));
        __asm__ volatile("" ::: "memory");
        _tile_loadd(7, score_block + c / 2, 4 * K);
        for (int64_t f = 0; f < width; f += DOT_STEP) {
            _tile_loadd(1, sums + f, 4 * width);
            _tile_loadd(4, values_buffer + f, 4 * width);
            _tile_dpbf16ps(1, 7, 4);
            _tile_stored(1, sums + f, 4 * width);
            _tile_loadd(3, sums + f + TILE_SIDE, 4 * width);
            _tile_loadd(2, values_buffer + f + TILE_SIDE, 4 * width);
            _tile_dpbf16ps(3, 7, 2);
            _tile_stored(3, sums + f + TILE_SIDE, 4 * width);
        }
        __asm__ volatile("" ::: "memory");
    }
}

template <class T>
void Decode<T>::pair_values(int64_t j, int64_t count) {
    const int64_t row = p.values.row, full_columns = excludes_nonfinite ? 0 : p.e & -DOT_STEP;
    const char* at = row_of(p.values, j);
    T* to = values_buffer;
    RowPrefetcher prefetcher = values_prefetcher;
    auto pair = [&](__m512i one, __m512i two) INLINE_LAMBDA {
        _mm512_storeu_si512(to, _mm512_unpacklo_epi16(one, two));
        _mm512_storeu_si512(to + TILE_SIDE, _mm512_unpackhi_epi16(one, two));
        to += DOT_STEP;
    };
    for (int64_t k = 0; k < DOT_STEP; k += 2, at += 2 * row) {
        for (int64_t byte = 0; byte < 4 * p.e; byte += 256) prefetcher.template prefetch<256>(0);
        int64_t f = 0;
        if (k + 2 <= count)
            for (; f < full_columns; f += DOT_STEP)
                pair(_mm512_loadu_si512(at + 2 * f), _mm512_loadu_si512(at + row + 2 * f));
        for (; f < p.e; f += DOT_STEP) {
            const __mmask32 present = first_halves(p.e - f);
            pair(finite_halves(_mm512_maskz_loadu_epi16(k < count ? present : 0, at + 2 * f)),
                 finite_halves(_mm512_maskz_loadu_epi16(k + 1 < count ? present : 0, at + row + 2 * f)));
        }
    }
    values_prefetcher = prefetcher;
}

// Replace non-finite elements by 0 if they are excluded.
template <class T>
__m512i Decode<T>::finite_halves(__m512i x) const {
    if (!excludes_nonfinite) return x;
    const __m512i exponent_mask = _mm512_set1_epi16(0x7f80);
    return _mm512_maskz_mov_epi16(_mm512_cmpneq_epi16_mask(_mm512_and_si512(x, exponent_mask), exponent_mask), x);
}

template <class T>
void Decode<T>::store_sums() {
    const int64_t width = round_up(DOT_STEP, p.e);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t f = 0; f < p.e; f += DOT_STEP) {
            V<T> low = load(sums + r * width + f), high = load(sums + r * width + f + TILE_SIDE);
            T* to = partial[r].context() + f;
            store(to, __builtin_shufflevector(low, high, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23));
            if (f + TILE_SIDE < p.e)
                store(to + TILE_SIDE,
                      __builtin_shufflevector(low, high, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31));
        }
}

}  // namespace ISA
}  // namespace regard
#endif
