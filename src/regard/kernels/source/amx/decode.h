// Few queries on the matrix unit, and the same bits for one query from vectors.
#pragma once

#include "decode/decode.h"

#if defined(__AMX_BF16__)
namespace regard {
namespace ISA {

// Several queries: keys are the unit's left side, as they are stored, and queries its columns.
template <class T>
void Decode<T>::scores_of_unit(int64_t j, int64_t keys) {
    Soon soon = keys_soon;
    for (int64_t c = 0; c < keys; c += SIDE) {
        const int64_t count = std::min(SIDE, keys - c);
        const Bytes at = count == SIDE ? Bytes{row_of(p.keys, j + c), p.keys.row}
                                       : filled_rows(p.keys, first_item, j + c, count, p.d,
                                                     reinterpret_cast<char*>(keys_room));
        __asm__ volatile("" ::: "memory");
        _tile_zero(0);
        int64_t f = 0;
        for (; f + SUMMED <= p.d; f += SUMMED) {
            soon.template ask<SIDE * 2 * SUMMED>(0);
            _tile_loadd(4, queries + f / 2 * SIDE, 64);
            _tile_loadd(2, at.at + 2 * f, at.row);
            _tile_dpbf16ps(0, 2, 4);
        }
        if (f < p.d) {
            soon.template ask<SIDE * SUMMED>(0);
            _tile_loadd(6, queries + f / 2 * SIDE, 64);
            _tile_loadd(5, at.at + 2 * f, at.row);
            _tile_dpbf16ps(0, 5, 6);
        }
        _tile_stored(0, square, 64);
        __asm__ volatile("" ::: "memory");
        turn_rows<T>(square, SIDE, SIDE, up_to(4, rows), strip + c, K, SIDE);
    }
    keys_soon = soon;
}

// What the unit makes of SUMMED values for one query: sums of those with even numbers, and of others, are added up last.
template <class T>
template <int NV>
void Decode<T>::add_apart(Bytes values, int64_t first, int64_t keys, T faded, int64_t f) {
    for (; f + NV * L<T> <= p.e; f += NV * L<T>) {
        V<T> sums[2][NV] = {};
        auto add = [&](int64_t k, auto odd) INLINE_LAMBDA {
            V<T> wide[NV], weight = all(strip[first + k]);
            if (NV > 1) values_soon.template ask<NV * BYTES / 2>(k);
            Half<BFLOAT16>::read(values.at + 2 * f, values.row, k, wide);
            UNROLL for (int v = 0; v < NV; v++)
                sums[decltype(odd)::value][v] = fma(weight, wide[v], sums[decltype(odd)::value][v]);
        };
        int64_t k = 0;
        for (; k + 2 <= keys; k += 2) add(k, std::false_type()), add(k + 1, std::true_type());
        if (k < keys) add(k, std::false_type());
        UNROLL for (int v = 0; v < NV; v++) {
            T* at = out->context() + f + v * L<T>;
            store(at, load(at) * faded + (sums[0][v] + sums[1][v]));
        }
    }
    if constexpr (NV > 1) return add_apart<1>(values, first, keys, faded, f);
    for (; f < p.e; f++) {
        T sums[2] = {}, &sum = out->context()[f];
        for (int64_t k = 0; k < keys; k++)
            sums[k % 2] = fma1(number(half(values, k, f), BFLOAT16), strip[first + k], sums[k % 2]);
        sum = sum * faded + (sums[0] + sums[1]);
    }
}

// Values as they are stored, of which nothing can reach whom it should not.
template <class T>
Bytes Decode<T>::clean_rows(int64_t j, int64_t keys) {
    auto* to = reinterpret_cast<uint16_t*>(values_room);
    const Bytes from = {row_of(p.values, j), p.values.row};
    for (int64_t k = 0; k < keys; k++)
        for (int64_t f = 0; f < p.e; f++) {
            const uint16_t found = half(from, k, f);
            to[k * p.e + f] = taint_of(widen_bfloat16(found)) ? 0 : found;
        }
    return {reinterpret_cast<const char*>(to), 2 * p.e};
}

// Several queries: weights are the unit's left side, and pairs of two keys' values its right one. Columns are summed up
// in the order in which pairs lie: first of each 32 those whose number modulo 8 is below 4.
template <class T>
void Decode<T>::add_values_of_unit(int64_t j, int64_t keys, const T* faded) {
    const int64_t width = up_to(SUMMED, p.e);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r * width; c < (r + 1) * width; c += L<T>) store(sums + c, load(sums + c) * faded[r]);
    for (int64_t c = 0; c < keys; c += SUMMED) {
        pair_values(j + c, std::min(SUMMED, keys - c));
        __asm__ volatile("" ::: "memory");
        _tile_loadd(7, strip + c / 2, 4 * K);
        for (int64_t f = 0; f < width; f += SUMMED) {
            _tile_loadd(1, sums + f, 4 * width);
            _tile_loadd(4, values_room + f, 4 * width);
            _tile_dpbf16ps(1, 7, 4);
            _tile_stored(1, sums + f, 4 * width);
            _tile_loadd(3, sums + f + SIDE, 4 * width);
            _tile_loadd(2, values_room + f + SIDE, 4 * width);
            _tile_dpbf16ps(3, 7, 2);
            _tile_stored(3, sums + f + SIDE, 4 * width);
        }
        __asm__ volatile("" ::: "memory");
    }
}

template <class T>
void Decode<T>::pair_values(int64_t j, int64_t count) {
    const int64_t row = p.values.row, whole = clean ? 0 : p.e & -SUMMED;
    const char* at = row_of(p.values, j);
    T* to = values_room;
    Soon soon = values_soon;
    auto pair = [&](__m512i one, __m512i two) INLINE_LAMBDA {
        _mm512_storeu_si512(to, _mm512_unpacklo_epi16(one, two));
        _mm512_storeu_si512(to + SIDE, _mm512_unpackhi_epi16(one, two));
        to += SUMMED;
    };
    for (int64_t k = 0; k < SUMMED; k += 2, at += 2 * row) {
        for (int64_t byte = 0; byte < 4 * p.e; byte += 256) soon.template ask<256>(0);
        int64_t f = 0;
        if (k + 2 <= count)
            for (; f < whole; f += SUMMED) pair(_mm512_loadu_si512(at + 2 * f), _mm512_loadu_si512(at + row + 2 * f));
        for (; f < p.e; f += SUMMED) {
            const __mmask32 some = first_of_halves(p.e - f);
            pair(finite_halves(_mm512_maskz_loadu_epi16(k < count ? some : 0, at + 2 * f)),
                 finite_halves(_mm512_maskz_loadu_epi16(k + 1 < count ? some : 0, at + row + 2 * f)));
        }
    }
    values_soon = soon;
}

// 0 in place of what is not, where that is in the way.
template <class T>
__m512i Decode<T>::finite_halves(__m512i x) const {
    if (!clean) return x;
    const __m512i most = _mm512_set1_epi16(0x7f80);
    return _mm512_maskz_mov_epi16(_mm512_cmpneq_epi16_mask(_mm512_and_si512(x, most), most), x);
}

template <class T>
void Decode<T>::take_sums() {
    const int64_t width = up_to(SUMMED, p.e);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t f = 0; f < p.e; f += SUMMED) {
            V<T> low = load(sums + r * width + f), high = load(sums + r * width + f + SIDE);
            T* to = out[r].context() + f;
            store(to, __builtin_shufflevector(low, high, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23));
            if (f + SIDE < p.e)
                store(to + SIDE,
                      __builtin_shufflevector(low, high, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31));
        }
}

}  // namespace ISA
}  // namespace regard
#endif
