// Numbers as they are stored: half precision widened, or multiplied in pairs.
#pragma once

#include "lanes.h"

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

// ---- what is needed soon -------------------------------------------------------------------------------------

// Who asks for rows early doesn't wait for memory. Four lines are asked for at a time: of rows without gaps one in each
// quarter of the next block, since the machine foresees what follows in several pages of memory at a time. AMD's cores
// get them sooner in the order in which they lie.
struct Soon {
    static constexpr int64_t LOT = 256;  // bytes that are asked for at a time
    const char* at;
    int64_t row, bytes;      // from row to row, and of each that are needed
    int64_t apart, further;  // from line to line of the four, and to the next four
    int64_t byte;
    INLINE void ask() {
        UNROLL for (int line = 0; line < 4; line++) __builtin_prefetch(at + byte + line * apart, 0, 2);
        byte += further;
        if (byte >= bytes) byte = 0, at += row;
    }
    template <int READ>
    INLINE void ask(int64_t step) {  // for as many bytes as are read in each step
        constexpr int OFTEN = std::max<int>(1, LOT / READ), TIMES = std::max<int>(1, READ / LOT);
        if (step % OFTEN) return;
        UNROLL for (int time = 0; time < TIMES; time++) ask();
    }
};
template <int READ>
struct SoonInSteps : Soon {
    int64_t step = 0;
    INLINE void operator()() { ask<READ>(step++); }
};

// Many queries ask for the next block while they multiply this one. Where its rows have no gaps, each step of a product asks
// for as many bytes as it reads, so that memory is never asked for more than it can give; where they have, some rows at once
// before a product.
struct Ahead {
    static constexpr int64_t AT_ONCE = 8;
    struct Lines {
        const char* at;
        int64_t apart;
        INLINE void operator()() { __builtin_prefetch(at, 0, 2), at += apart; }  // ask for one
    };
    const char* at;              // something that is near, where nothing is to be asked for
    int64_t row = 0, lines = 0;  // from row to row, and lines of a row; none: a row is what a step asks for
    int64_t rows = 0;            // that are left
    ONCE Lines next(int64_t count) {
        if (rows <= 0) return {at, 0};
        if (!lines) return rows -= count, Lines{std::exchange(at, at + count * row), row};
        for (int64_t r = 0; r < AT_ONCE; r++, at += row)
            for (int64_t line = 0; line < lines; line++) __builtin_prefetch(at + line * 64, 0, 2);
        rows -= AT_ONCE;
        return {at, 0};
    }
    COLD void ask(int64_t count) {  // at once
        Lines line = next(count);
        for (int64_t i = 0; line.apart && i < count; i++) line();
    }
};

constexpr int64_t size_of(int32_t type) { return type == FLOAT64 ? 8 : type == FLOAT32 ? 4 : 2; }

// Whether the processor foresees rows that are read in the order in which they lie: AMD's cores do.
inline bool foresees(const Matrices& x, int64_t columns, int32_t type) {
    return BYTES >= 32 && made_by_amd && columns * size_of(type) == x.row;
}
// Rows that come after an item's block from row j on: of those far apart, which share few places of a cache, not too many.
COLD inline Soon rows_soon(const Matrices& x, int64_t item, int64_t j, int64_t columns, int32_t type) {
    const int64_t bytes = columns * size_of(type), quarter = KEYS_AT_ONCE / 4 * x.row;
    const char* at = reinterpret_cast<const char*>(x.at(item)) + j * x.row;
    if (bytes != x.row) return {at + KEYS_AT_ONCE / 4 * x.row, x.row, bytes, 64, Soon::LOT, 0};
    at += KEYS_AT_ONCE * x.row;
    if (foresees(x, columns, type)) return {at, 0, std::numeric_limits<int64_t>::max(), 64, Soon::LOT, 0};
    return {at, x.row, quarter, quarter, 64, 0};
}
INLINE Soon at_half_pace(Soon x) {
    x.further /= 2;
    return x;
}
// Rows that are foreseen come sooner than any that are asked for. Where several are worked on side by side, somebody has to
// read those behind them in their order.
struct InOrder {
    const char *at, *last;
    template <int READ>
    INLINE void read() {
        UNROLL for (int byte = 0; byte < READ; byte += 64) (void)*std::min<const volatile char*>(at + byte, last);
        at += READ;
    }
};
// The block after the one at row j; where rows have gaps, those so far away.
ONCE inline Ahead rows_ahead(const Matrices& x, int64_t item, int64_t j, int64_t columns, int32_t type, int64_t away) {
    const int64_t bytes = columns * size_of(type);
    const bool gaps = bytes != x.row;
    const char* at = reinterpret_cast<const char*>(x.at(item)) + (j + (gaps ? away : KEYS_AT_ONCE)) * x.row;
    if (gaps) return {at, x.row, (bytes + 63) / 64, KEYS_AT_ONCE};
#if defined(__AMX_BF16__)
    const int64_t step = 64;
#else
    const int64_t step = ROWS * (PAIRS ? 4 : size_of(type));  // as much as is read
#endif
    return {at, step, 0, KEYS_AT_ONCE * bytes / step};
}

template <class T>
INLINE Ahead lines_ahead(const T* at, int64_t count) {
    return {reinterpret_cast<const char*>(at), 64, 0, (count * int64_t(sizeof(T)) + 63) / 64};
}

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
