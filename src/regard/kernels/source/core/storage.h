// Storage types: half precision is widened, or multiplied in pairs.
#pragma once

#include "core/lanes.h"

namespace regard {
namespace ISA {

// ---- storage types ------------------------------------------------------------------------------------------

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
    y *= 0x1p112f;  // exponent biases differ by 112; exact for subnormal numbers too
    memcpy(&bits, &y, 4);
    if ((x & 0x7c00) == 0x7c00) bits |= 0x7f800000;
    bits |= sign;
    memcpy(&y, &bits, 4);
    return y;
}

#if defined(__AVX512F__)
template <int32_t TYPE>
INLINE V<float> widened(__m256i x) {
    if (TYPE == FLOAT16) return (V<float>)_mm512_cvtph_ps(x);
    return (V<float>)_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16);
}
#elif defined(__AVX2__)
template <int32_t TYPE>
INLINE V<float> widened(__m128i x) {
    if (TYPE == FLOAT16) return (V<float>)_mm256_cvtph_ps(x);
    constexpr char O = -1;  // index of a zero byte; with a memory operand this is one shuffle and no shift
    const __m256i byte_indices = _mm256_setr_epi8(O, O, 0, 1, O, O, 2, 3, O, O, 4, 5, O, O, 6, 7,  //
                                                  O, O, 8, 9, O, O, 10, 11, O, O, 12, 13, O, O, 14, 15);
    return (V<float>)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(x), byte_indices);
}
#endif

inline void widen(const uint16_t* in, int64_t count, int32_t type, float* out) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16) {
        __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
        store(out + i, type == FLOAT16 ? widened<FLOAT16>(half) : widened<BFLOAT16>(half));
    }
#elif defined(__AVX2__)
    for (; i + 8 <= count; i += 8) {
        __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
        store(out + i, type == FLOAT16 ? widened<FLOAT16>(half) : widened<BFLOAT16>(half));
    }
#endif
    if (type == FLOAT16)
        for (; i < count; i++) out[i] = widen_float16(in[i]);
    else
        for (; i < count; i++) out[i] = widen_bfloat16(in[i]);
}

// Rows of an item's matrix in the compute type: in place if stored so, otherwise widened into `buffer`.
template <class T>
struct Block {
    const T* at;
    int64_t stride;
};
template <class T>
INLINE Block<T> rows_of(const Matrices& x, int32_t type, int64_t item, int64_t row, int64_t rows, int64_t columns,
                        T* buffer) {
    const char* start = reinterpret_cast<const char*>(x.at(item)) + row * x.row;
#if defined(__AVX512BF16__)
    return {reinterpret_cast<const T*>(start), x.row / int64_t(sizeof(T))};  // pairs as stored
#endif
    if (type == (sizeof(T) == 4 ? FLOAT32 : FLOAT64))
        return {reinterpret_cast<const T*>(start), x.row / int64_t(sizeof(T))};
    if constexpr (sizeof(T) == 4)
        for (int64_t r = 0; r < rows; r++)
            widen(reinterpret_cast<const uint16_t*>(start + r * x.row), columns, type, buffer + r * columns);
    return {buffer, columns};
}

// ---- pairs of bfloat16 --------------------------------------------------------------------------------------

// Instruction sets with a bfloat16 dot product multiply pairs and add both products to a float. For these, this file is
// compiled for bfloat16 alone: an element is then a pair, 32 bits wide. Pairs of queries and keys are adjacent in a
// row; pairs of weights and values belong to two keys.
#if defined(__AVX512BF16__)
constexpr bool PAIRS = true;
#else
constexpr bool PAIRS = false;
#endif
INLINE int64_t elements(int64_t count) { return PAIRS ? (count + 1) / 2 : count; }

template <class T>
INLINE V<T> broadcast_element(const T* at) {  // broadcast as bits: arithmetic could change a pair
    if constexpr (!PAIRS) return broadcast(*at);
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
// Interleave 32 elements of two rows.
template <int... C>
INLINE void zip_rows(const char* at, int64_t row, V<float>& low, V<float>& high, std::integer_sequence<int, C...>) {
    auto one = (Halves)_mm512_loadu_si512(at), two = (Halves)_mm512_loadu_si512(at + row);
    low = (V<float>)__builtin_shufflevector(one, two, (C / 2 + C % 2 * 32)...);
    high = (V<float>)__builtin_shufflevector(one, two, (C / 2 + 16 + C % 2 * 32)...);
}
// Interleave rows of values in pairs: out[t * width + f] holds element f of rows 2 t and 2 t + 1, and 0 beyond `rows`
// and `columns`.
inline void pair_rows(const Matrices& x, int64_t item, int64_t row, int64_t rows, int64_t columns, float* out,
                      int64_t width) {
    const char* start = reinterpret_cast<const char*>(x.at(item)) + row * x.row;
    auto padded_half = [&](int64_t r, int64_t f) {
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
            _mm512_storeu_si512(to + f,
                                _mm512_or_si512(padded_half(r, f), _mm512_slli_epi32(padded_half(r + 1, f), 16)));
    }
}
#endif

// ---- reading keys and values in decode ----------------------------------------------------------------------

// How decode reads keys and values. `widen` converts a vector of stored elements to one or two vectors; `read` loads NV
// vectors of row k.
template <class T>
struct Plain {
    using Stored = T;
    static INLINE void widen(typename Segments<T>::V x, V<T> (&out)[1]) { out[0] = (V<T>)x; }
    template <int NV>
    static INLINE void read(const char* at, int64_t row, int64_t k, V<T> (&out)[NV]) {
        UNROLL for (int v = 0; v < NV; v++) out[v] = load(reinterpret_cast<const T*>(at + k * row) + v * L<T>);
    }
};

#if defined(__AMX_BF16__)
template <class T>
struct InPlace {  // the first and the second element of each pair
    using Stored = float;
    static INLINE void widen(Segments<float>::V x, V<float> (&out)[2]) {
        out[0] = (V<float>)((I<float>)x << 16), out[1] = (V<float>)((I<float>)x & int32_t(0xffff0000));
    }
};
#else
template <class T>
using InPlace = Plain<T>;
#endif

#if defined(__AVX2__) && !defined(__AVX512BF16__)
constexpr bool WIDENS = true;  // widened in registers
#else
constexpr bool WIDENS = false;
#endif
#if !defined(__AVX2__) || (defined(__AVX512BF16__) && !defined(__AMX_BF16__))
template <int32_t TYPE>
struct Half {};
#endif

#if defined(__AVX512BF16__) && !defined(__AMX_BF16__)
struct Paired {  // of values: row k is a pair of rows
    using Stored = uint16_t;
    template <int NV>
    static INLINE void read(const char* at, int64_t row, int64_t k, V<float> (&out)[NV]) {
        UNROLL for (int v = 0; v < NV; v += 2)
            zip_rows(at + 2 * k * row + v * 32, row, out[v], out[v + 1], std::make_integer_sequence<int, 32>());
    }
};
#elif defined(__AVX2__)
template <int32_t TYPE>
struct Half {
    using Stored = uint16_t;
    static constexpr int SIZE = BYTES / 2;
    typedef uint16_t Some __attribute__((vector_size(SIZE)));

    static INLINE V<float> widen_vector(const char* at) {
        Some x;
        memcpy(&x, at, SIZE);
#if defined(__AVX512F__)
        return widened<TYPE>((__m256i)x);
#else
        return widened<TYPE>((__m128i)x);
#endif
    }
#if defined(__AVX512F__)
    static INLINE void widen(Segments<uint16_t>::V x, V<float> (&out)[2]) {
        out[0] = widened<TYPE>(_mm512_castsi512_si256((__m512i)x));
        out[1] = widened<TYPE>(_mm512_extracti64x4_epi64((__m512i)x, 1));
    }
    static INLINE void widen(const Segments<uint16_t>::V* at, V<float> (&out)[2]) {
        out[0] = widen_vector(reinterpret_cast<const char*>(at)),
        out[1] = widen_vector(reinterpret_cast<const char*>(at) + SIZE);
    }
#endif
    template <int NV>
    static INLINE void read(const char* at, int64_t row, int64_t k, V<float> (&out)[NV]) {
        UNROLL for (int v = 0; v < NV; v++) out[v] = widen_vector(at + k * row + v * SIZE);
    }
};
#endif

}  // namespace ISA
}  // namespace regard
