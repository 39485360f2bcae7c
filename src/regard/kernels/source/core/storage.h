// Numbers as they are stored: half precision widened, or multiplied in pairs.
#pragma once

#include "core/lanes.h"

namespace regard {
namespace ISA {

// ---- numbers as they are stored ------------------------------------------------------------------------------

inline float widen_bfloat16(uint16_t x) {
    uint32_t bits = uint32_t(x) << 16;
    float y;
    memcpy(&y, &bits, 4);
    return y;
}
inline float widen_float16(uint16_t x) {
    uint32_t bits = uint32_t(x & 0x7fff) << 13, sign = uint32_t(x & 0x8000) << 16;
    float y;
    memcpy(&y, &bits, 4);
    y *= 0x1p112f;  // the exponents' biases differ by 112; exact for subnormal numbers too
    memcpy(&bits, &y, 4);
    if ((x & 0x7c00) == 0x7c00) bits |= 0x7f800000;
    bits |= sign;
    memcpy(&y, &bits, 4);
    return y;
}

#if defined(__AVX512F__)
template <int32_t TYPE>
INLINE V<float> wide(__m256i x) {
    if (TYPE == FLOAT16) return (V<float>)_mm512_cvtph_ps(x);
    return (V<float>)_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16);
}
#elif defined(__AVX2__)
template <int32_t TYPE>
INLINE V<float> wide(__m128i x) {
    if (TYPE == FLOAT16) return (V<float>)_mm256_cvtph_ps(x);
    constexpr char O = -1;  // 0; from memory this is one shuffle, and nothing to be shifted
    const __m256i places = _mm256_setr_epi8(O, O, 0, 1, O, O, 2, 3, O, O, 4, 5, O, O, 6, 7,  //
                                            O, O, 8, 9, O, O, 10, 11, O, O, 12, 13, O, O, 14, 15);
    return (V<float>)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(x), places);
}
#endif

inline void widen(const uint16_t* in, int64_t count, int32_t type, float* out) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16) {
        __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
        store(out + i, type == FLOAT16 ? wide<FLOAT16>(half) : wide<BFLOAT16>(half));
    }
#elif defined(__AVX2__)
    for (; i + 8 <= count; i += 8) {
        __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
        store(out + i, type == FLOAT16 ? wide<FLOAT16>(half) : wide<BFLOAT16>(half));
    }
#endif
    if (type == FLOAT16)
        for (; i < count; i++) out[i] = widen_float16(in[i]);
    else
        for (; i < count; i++) out[i] = widen_bfloat16(in[i]);
}

// Some rows of an item's matrix in the compute type: in place where they are stored so, in `room` otherwise.
template <class T>
struct Block {
    const T* at;
    int64_t stride;
};
template <class T>
INLINE Block<T> rows_of(const Matrices& x, int32_t type, int64_t item, int64_t row, int64_t rows, int64_t columns,
                        T* room) {
    const char* start = reinterpret_cast<const char*>(x.at(item)) + row * x.row;
#if defined(__AVX512BF16__)
    return {reinterpret_cast<const T*>(start), x.row / int64_t(sizeof(T))};  // pairs, as they are
#endif
    if (type == (sizeof(T) == 4 ? FLOAT32 : FLOAT64))
        return {reinterpret_cast<const T*>(start), x.row / int64_t(sizeof(T))};
    if constexpr (sizeof(T) == 4)
        for (int64_t r = 0; r < rows; r++)
            widen(reinterpret_cast<const uint16_t*>(start + r * x.row), columns, type, room + r * columns);
    return {room, columns};
}

// ---- pairs of bfloat16 ---------------------------------------------------------------------------------------

// Where the instruction set multiplies pairs of bfloat16 and adds both products to a float, this file is compiled for
// bfloat16 alone: a "number" of queries, keys, weights and values is then a pair, 32 bits wide, and half as many are
// needed. Pairs lie side by side in rows of queries and keys; those of weights and values are of two keys.
#if defined(__AVX512BF16__)
constexpr bool PAIRS = true;
#else
constexpr bool PAIRS = false;
#endif
INLINE int64_t numbers(int64_t count) { return PAIRS ? (count + 1) / 2 : count; }

template <class T>
INLINE V<T> spread(const T* at) {  // one number into all lanes; a pair is no number to be computed with
    if constexpr (!PAIRS) return all(*at);
    typename Lanes<T>::Int bits;
    memcpy(&bits, at, sizeof bits);
    return (V<T>)(bits - I<T>{});
}

template <class T>
INLINE V<T> add_products(V<T> a, V<T> b, V<T> c) {
#if defined(__AVX512BF16__)
    return (V<T>)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
#else
    return fma(a, b, c);
#endif
}

#if defined(__AVX512BF16__)
typedef uint16_t Halves __attribute__((vector_size(BYTES)));
template <int... C>
INLINE V<float> alternate(Halves x, std::integer_sequence<int, C...>) {
    return (V<float>)__builtin_shufflevector(x, x, (C / 2 + C % 2 * 16)...);
}
INLINE V<float> pair(V<float> first, V<float> second) {
    auto both = (Halves)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
    return alternate(both, std::make_integer_sequence<int, 32>());
}
// 32 numbers each of two rows, side by side.
template <int... C>
INLINE void zip_rows(const char* at, int64_t row, V<float>& low, V<float>& high, std::integer_sequence<int, C...>) {
    auto one = (Halves)_mm512_loadu_si512(at), two = (Halves)_mm512_loadu_si512(at + row);
    low = (V<float>)__builtin_shufflevector(one, two, (C / 2 + C % 2 * 32)...);
    high = (V<float>)__builtin_shufflevector(one, two, (C / 2 + 16 + C % 2 * 32)...);
}
// Rows of values two by two: out[t * width + f] holds f of rows 2 t and 2 t + 1, and 0 beyond `rows` and `columns`.
inline void pair_rows(const Matrices& x, int64_t item, int64_t row, int64_t rows, int64_t columns, float* out,
                      int64_t width) {
    const char* start = reinterpret_cast<const char*>(x.at(item)) + row * x.row;
    auto some = [&](int64_t r, int64_t f) {
        if (r >= rows || f >= columns) return _mm512_setzero_si512();
        auto mask = __mmask16(columns - f >= 16 ? 0xffff : (1 << (columns - f)) - 1);
        return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, start + r * x.row + 2 * f));
    };
    for (int64_t r = 0; r < rows; r += 2) {
        float* to = out + r / 2 * width;
        int64_t f = 0;
        for (; f + 32 <= columns && r + 1 < rows; f += 32) {
            V<float> low, high;
            zip_rows(start + r * x.row + 2 * f, x.row, low, high, std::make_integer_sequence<int, 32>());
            store(to + f, low), store(to + f + 16, high);
        }
        for (; f < width; f += 16)
            _mm512_storeu_si512(to + f, _mm512_or_si512(some(r, f), _mm512_slli_epi32(some(r + 1, f), 16)));
    }
}
#endif

// ---- how few queries read keys and values --------------------------------------------------------------------

// A vector of keys' numbers makes one or two of T (`widen`); NV of them are made of values from row k on (`read`).
template <class T>
struct Plain {
    using Number = T;
    static INLINE void widen(typename Pieces<T>::V x, V<T> (&out)[1]) { out[0] = (V<T>)x; }
    template <int NV>
    static INLINE void read(const char* at, int64_t row, int64_t k, V<T> (&out)[NV]) {
        UNROLL for (int v = 0; v < NV; v++) out[v] = load(reinterpret_cast<const T*>(at + k * row) + v * L<T>);
    }
};

#if defined(__AMX_BF16__)
template <class T>
struct InPlace {  // a pair's first number, and its second
    using Number = float;
    static INLINE void widen(Pieces<float>::V x, V<float> (&out)[2]) {
        out[0] = (V<float>)((I<float>)x << 16), out[1] = (V<float>)((I<float>)x & int32_t(0xffff0000));
    }
};
#else
template <class T>
using InPlace = Plain<T>;
#endif

#if defined(__AVX2__) && !defined(__AVX512BF16__)
constexpr bool WIDENS = true;  // in registers
#else
constexpr bool WIDENS = false;
#endif
#if !defined(__AVX2__) || (defined(__AVX512BF16__) && !defined(__AMX_BF16__))
template <int32_t TYPE>
struct Half {};
#endif

#if defined(__AVX512BF16__) && !defined(__AMX_BF16__)
struct Paired {  // values: row k is two rows
    using Number = uint16_t;
    template <int NV>
    static INLINE void read(const char* at, int64_t row, int64_t k, V<float> (&out)[NV]) {
        UNROLL for (int v = 0; v < NV; v += 2)
            zip_rows(at + 2 * k * row + v * 32, row, out[v], out[v + 1], std::make_integer_sequence<int, 32>());
    }
};
#elif defined(__AVX2__)
template <int32_t TYPE>
struct Half {
    using Number = uint16_t;
    static constexpr int SIZE = BYTES / 2;
    typedef uint16_t Some __attribute__((vector_size(SIZE)));

    static INLINE V<float> one(const char* at) {
        Some x;
        memcpy(&x, at, SIZE);
#if defined(__AVX512F__)
        return wide<TYPE>((__m256i)x);
#else
        return wide<TYPE>((__m128i)x);
#endif
    }
#if defined(__AVX512F__)
    static INLINE void widen(Pieces<uint16_t>::V x, V<float> (&out)[2]) {
        out[0] = wide<TYPE>(_mm512_castsi512_si256((__m512i)x));
        out[1] = wide<TYPE>(_mm512_extracti64x4_epi64((__m512i)x, 1));
    }
    static INLINE void widen(const Pieces<uint16_t>::V* at, V<float> (&out)[2]) {
        out[0] = one(reinterpret_cast<const char*>(at)), out[1] = one(reinterpret_cast<const char*>(at) + SIZE);
    }
#endif
    template <int NV>
    static INLINE void read(const char* at, int64_t row, int64_t k, V<float> (&out)[NV]) {
        UNROLL for (int v = 0; v < NV; v++) out[v] = one(at + k * row + v * SIZE);
    }
};
#endif

}  // namespace ISA
}  // namespace regard
