// Vectors of the instruction set: arithmetic, exponentials, transposes.
#pragma once

#include "core/problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace regard {
namespace ISA {

// ---- lanes: vectors of the instruction set ------------------------------------------------------------------

#if defined(__AVX512F__)
constexpr int BYTES = 64, ROWS = 8;  // bytes of a vector; rows of a register tile of 3 vectors
#elif defined(__AVX2__)
constexpr int BYTES = 32, ROWS = 4;
#elif defined(__aarch64__)
constexpr int BYTES = 16, ROWS = 8;
#else
constexpr int BYTES = 16, ROWS = 4;
#endif
#if defined(__AVX2__) || defined(__aarch64__)
#define TRAINS  // this instruction set has the functions for training
#endif
#if defined(__AMX_BF16__)
constexpr int TILE_VECTORS = 4;  // vectors of queries in a tile
#else
constexpr int TILE_VECTORS = 3;
#endif
// chunks of a decode task if there are enough tasks: values are read after all of its keys
constexpr int CHUNKS_PER_TASK = 4;
constexpr int QUERIES_PER_TASK = 16;  // queries of a decode task
constexpr bool PREFETCHES = BYTES >= 32;  // whether tiles prefetch
// vectors of keys for four queries, such that chains of additions do not stall
constexpr int KEY_VECTORS = BYTES < 64 ? 2 : 1;

template <class T>
struct Lanes {
    static constexpr int COUNT = BYTES / sizeof(T);
    using Int = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    typedef T V __attribute__((vector_size(BYTES)));
    typedef Int I __attribute__((vector_size(BYTES)));
    typedef T Anywhere __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias));
};
template <class T>
using V = typename Lanes<T>::V;
template <class T>
using I = typename Lanes<T>::I;
template <class T>
constexpr int L = Lanes<T>::COUNT;
template <class T>
constexpr int FEW_QUERIES = std::max(4, L<T> / 2);  // up to so many queries of an item, lanes are keys and values
template <class T>
constexpr T INF = std::numeric_limits<T>::infinity();

#define INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define COLD __attribute__((noinline, cold))  // optimised for size
#define INLINE_LAMBDA __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")

template <class T>
INLINE V<T> load(const T* p) {
    return *reinterpret_cast<const typename Lanes<T>::Anywhere*>(p);
}
template <class T>
INLINE void store(T* p, V<T> x) {
    *reinterpret_cast<typename Lanes<T>::Anywhere*>(p) = x;
}
template <class T>
INLINE V<T> broadcast(T x) {
    return x - V<T>{};
}

// fma(a, b, c): a * b + c, rounded once where the instruction set can, for scalars and vectors alike. larger(a, b): b
// if either is NaN.
#if defined(__AVX512F__)
INLINE V<float> fma(V<float> a, V<float> b, V<float> c) { return (V<float>)_mm512_fmadd_ps(a, b, c); }
INLINE V<double> fma(V<double> a, V<double> b, V<double> c) { return (V<double>)_mm512_fmadd_pd(a, b, c); }
INLINE V<float> larger(V<float> a, V<float> b) { return (V<float>)_mm512_max_ps(a, b); }
INLINE V<double> larger(V<double> a, V<double> b) { return (V<double>)_mm512_max_pd(a, b); }
#elif defined(__AVX2__)
INLINE V<float> fma(V<float> a, V<float> b, V<float> c) { return (V<float>)_mm256_fmadd_ps(a, b, c); }
INLINE V<double> fma(V<double> a, V<double> b, V<double> c) { return (V<double>)_mm256_fmadd_pd(a, b, c); }
INLINE V<float> larger(V<float> a, V<float> b) { return (V<float>)_mm256_max_ps(a, b); }
INLINE V<double> larger(V<double> a, V<double> b) { return (V<double>)_mm256_max_pd(a, b); }
#elif defined(__aarch64__)
INLINE V<float> fma(V<float> a, V<float> b, V<float> c) {
    return (V<float>)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
INLINE V<double> fma(V<double> a, V<double> b, V<double> c) {
    return (V<double>)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
template <class X>
INLINE X larger(X a, X b) {
    return a > b ? a : b;
}
#else
template <class X>
INLINE X fma(X a, X b, X c) {
    return a * b + c;
}
template <class X>
INLINE X larger(X a, X b) {
    return a > b ? a : b;
}
#endif

template <class T>
INLINE T fma1(T a, T b, T c) {
#if defined(__FMA__) || defined(__aarch64__)
    return std::fma(a, b, c);
#else
    return a * b + c;
#endif
}

// ---- exp2 and tanh ------------------------------------------------------------------------------------------

template <class T>
struct MathConstants;
template <>
struct MathConstants<float> {
    static constexpr float ROUND = 12582912.0f;  // 1.5 * 2^23: adding it moves the integer part to the low bits
    static constexpr float LEAST = -150.0f;  // 2^x is 0 up to here
    static constexpr int MANTISSA = 23, HALFWAY = 64, ONE = 127;
    static constexpr int FINE = 0;  // fraction bits of x that index a table of powers
    // 2^f = 1 + f * (...) for |f| <= 1/2, relative error below 4e-9
    static constexpr float EXP2[] = {0.69314722539501108653f,   0.24022651084117293574f,   0.055502973141993247575f,
                                     0.0096180307825051537978f, 0.0013410000966100157069f, 0.00015469731977475548114f};
    // tanh y = y + y^3 * (...) in y^2 for |y| <= 0.55, relative error below 4e-9
    static constexpr float TANH[] = {-0.33333332007976979681f, 0.1333311372902087191f, -0.053909428827460545439f,
                                     0.021309388664443473807f, -0.0066102278311147345141f};
    static constexpr float EXP_LIMIT = 20.0f;  // exp(4 * EXP_LIMIT) is finite
};
template <>
struct MathConstants<double> {
    static constexpr double ROUND = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double LEAST = -1075.0;
    static constexpr int MANTISSA = 52, HALFWAY = 512, ONE = 1023;
#if defined(__AVX2__)
    static constexpr int FINE = 2;
#else
    static constexpr int FINE = 0;
#endif
    // relative error below 1e-19
    static constexpr double EXP2[] = {0.69314718055994530745,     0.24022650695910071224,    0.055504108664821770966,
                                      0.0096181291076284866168,   0.0013333558146374230244,  0.00015403530393354775175,
                                      0.000015252733871034374202, 1.3215486823296216342e-6,  1.0178045296501752225e-7,
                                      7.0548914678111156862e-9,   4.4575330189438569545e-10, 2.5737813502097132775e-11};
    // for |f| <= 1/8, relative error below 1e-17
    static constexpr double EXP2_QUARTER[] = {0.693147180559945,     0.2402265069591007,    0.05550410866508856,
                                              0.009618129107646981,  0.0013333557618312095, 0.00015403530027328314,
                                              1.525671006663821e-05, 1.3218242873613306e-06};
    // for |f| <= 1/32, relative error below 2e-17; 2^(i / 16)
    static constexpr double EXP2_NEAR[] = {0.6931471805599457,   0.24022650695910075,   0.0555041086566393,
                                           0.009618129106919537, 0.0013333781576784268, 0.00015403723980749256};
    static constexpr double SIXTEENTHS[] = {1.0,
                                            1.0442737824274138,
                                            1.0905077326652577,
                                            1.1387886347566916,
                                            1.189207115002721,
                                            1.241857812073484,
                                            1.2968395546510096,
                                            1.3542555469368927,
                                            1.4142135623730951,
                                            1.4768261459394993,
                                            1.5422108254079407,
                                            1.6104903319492543,
                                            1.681792830507429,
                                            1.7562521603732995,
                                            1.8340080864093424,
                                            1.9152065613971474};
    // relative error below 3e-18
    static constexpr double TANH[] = {
        -0.33333333333333332561,    0.13333333333332714826,     -0.053968253967434014504,   0.021869488493666941903,
        -0.0088632343978143548378,  0.0035921103786890238773,   -0.0014556618301007160336,  0.00058893605200740577697,
        -0.00023463474108872371445, 0.000085113136855776715155, -0.000020602765376366341605};
    static constexpr double EXP_LIMIT = 170.0;
};
constexpr double LOG2E = 1.4426950408889634074;

template <class T, int N>
INLINE V<T> polynomial(V<T> x, const T (&c)[N]) {
    V<T> y = broadcast(c[N - 1]);
    UNROLL for (int i = N - 2; i >= 0; i--) y = fma(y, x, broadcast(c[i]));
    return y;
}

#if defined(__AVX512F__)
// y * 2^near, 0 where x is at most LEAST.
INLINE V<float> times_exp2(V<float> y, V<float> near, V<float> x) {
    __mmask16 nonzero = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(MathConstants<float>::LEAST), _CMP_NLE_UQ);
    return (V<float>)_mm512_maskz_scalef_ps(nonzero, (__m512)y, (__m512)near);
}
INLINE V<double> times_exp2(V<double> y, V<double> near, V<double> x) {
    __mmask8 nonzero = _mm512_cmp_pd_mask((__m512d)x, _mm512_set1_pd(MathConstants<double>::LEAST), _CMP_NLE_UQ);
    return (V<double>)_mm512_maskz_scalef_pd(nonzero, (__m512d)y, (__m512d)near);
}

INLINE V<float> exp2_wide(V<float> x) {
    V<float> f = (V<float>)_mm512_reduce_ps((__m512)x, 0), near = x - f;
    return times_exp2(fma(polynomial<float>(f, MathConstants<float>::EXP2), f, broadcast(1.0f)), near, x);
}
// A table of 16 powers in two registers halves the degree. The lowest bits of x + ROUND / 16 count sixteenths.
INLINE V<double> exp2_wide(V<double> x) {
    using N = MathConstants<double>;
    V<double> t = x + N::ROUND / 16, near = t - N::ROUND / 16, f = x - near;
    auto low = (__m512d)load(N::SIXTEENTHS), high = (__m512d)load(N::SIXTEENTHS + 8);
    auto power = (V<double>)_mm512_permutex2var_pd(low, (__m512i)t, high);
    return times_exp2(fma(power, polynomial<double>(f, N::EXP2_NEAR) * f, power), near, x);
}
#endif

#if defined(__AVX2__) && !defined(__AVX512F__)
// 2^(i / 4), with i in the lowest two bits of each element: a table of four powers saves a third of the terms.
INLINE V<double> quarter_power(I<double> i) {
    using N = MathConstants<double>;
    const V<double> powers = {N::SIXTEENTHS[0], N::SIXTEENTHS[4], N::SIXTEENTHS[8], N::SIXTEENTHS[12]};
    // The permutation selects 32-bit halves, with index 2 i for the lower and 2 i + 1 for the upper.
    const __m256 lower = _mm256_moveldup_ps((__m256)(i << 1));
    const __m256i halves = _mm256_or_si256((__m256i)lower, _mm256_set1_epi64x(int64_t(1) << 32));
    return (V<double>)_mm256_permutevar8x32_ps((__m256)powers, halves);
}
#endif

// 2^x for x up to 2 LOG2E EXP_LIMIT: exact at 0, gradual underflow, NaN is kept. Far too small x must not produce
// subnormal intermediates, which cost some processors a hundred cycles: masked logits are such numbers.
template <class T>
INLINE V<T> exp2(V<T> x) {
#if defined(__AVX512F__)
    return exp2_wide(x);
#else
    using N = MathConstants<T>;
    using Bits = std::make_unsigned_t<typename Lanes<T>::Int>;
    typedef Bits U __attribute__((vector_size(BYTES)));
    constexpr T SHIFT = N::ROUND / (1 << N::FINE) + N::HALFWAY;
    // Scale in two steps, since 2^near alone may be subnormal; 2^halfway is normal, or 0 for the smallest x.
    x = larger(broadcast(T(-N::HALFWAY - N::ONE)), x);
    V<T> t = x + SHIFT, near = t - SHIFT, f = x - near, y;
#if defined(__AVX2__)
    if constexpr (N::FINE > 0) {
        V<T> power = quarter_power((I<T>)t);
        y = fma(power, polynomial<T>(f, N::EXP2_QUARTER) * f, power);
    } else
#endif
        y = fma(polynomial<T>(f, N::EXP2), f, broadcast(T(1)));
    V<T> halfway = (V<T>)(((U)t >> N::FINE << N::MANTISSA) + (Bits(N::ONE) << N::MANTISSA));
    return (y * halfway) * (sizeof(T) == 4 ? T(0x1p-64) : T(0x1p-512));
#endif
}
template <class T>
INLINE T exp2(T x) {
    return exp2<T>(broadcast(x))[0];
}

template <class T>
INLINE V<T> tanh(V<T> x) {
    constexpr typename Lanes<T>::Int SIGN = std::numeric_limits<typename Lanes<T>::Int>::min();
    I<T> sign = (I<T>)x & SIGN;
    V<T> size = (V<T>)((I<T>)x & ~SIGN), square = x * x;
    V<T> near_zero = fma(polynomial<T>(square, MathConstants<T>::TANH) * square, size, size);
    V<T> decay = exp2<T>(size * T(-2 * LOG2E));
    V<T> far = (T(1) - decay) / (T(1) + decay);
    return (V<T>)((I<T>)(size < T(0.55) ? near_zero : far) | sign);
}

// ---- transposed squares of lanes ----------------------------------------------------------------------------

template <class T, int S, size_t... C>
INLINE void transpose_pair(V<T>& a, V<T>& b, std::index_sequence<C...>) {
    constexpr int n = L<T>;
    V<T> low = __builtin_shufflevector(a, b, ((C & S) ? n + int(C) - S : int(C))...);
    b = __builtin_shufflevector(a, b, ((C & S) ? n + int(C) : int(C) + S)...);
    a = low;
}
template <class T, int S = 1>
INLINE void transpose_square(V<T> (&rows)[L<T>]) {
    if constexpr (S < L<T>) {
        UNROLL for (int i = 0; i < L<T>; i++) if (!(i & S))
            transpose_pair<T, S>(rows[i], rows[i | S], std::make_index_sequence<L<T>>());
        transpose_square<T, 2 * S>(rows);
    }
}

// ---- rows transposed by segments of 16 bytes ----------------------------------------------------------------

// Vectors of stored elements S, joined from 16-byte segments of several rows: half the shuffles of a full transpose.
template <class S>
struct Segments {
    static constexpr int COUNT = BYTES / sizeof(S), SEGMENT = 16 / sizeof(S), ROWS = BYTES / 16;
    typedef S V __attribute__((vector_size(BYTES)));
    using Rows = const char* [ROWS];

    static INLINE V load(const S* at) {
        V x;
        memcpy(&x, at, BYTES);
        return x;
    }
    static INLINE V join(const Rows& at, int64_t byte) {
#if defined(__AVX512F__)
        __m512i x = _mm512_castsi128_si512(load_segment(at[0] + byte));
        x = _mm512_inserti32x4(x, load_segment(at[1] + byte), 1);
        x = _mm512_inserti32x4(x, load_segment(at[2] + byte), 2);
        return (V)_mm512_inserti32x4(x, load_segment(at[3] + byte), 3);
#elif defined(__AVX2__)
        // a broadcast load and a blend need no shuffle
        const __m256i second = _mm256_broadcastsi128_si256(load_segment(at[1] + byte));
        return (V)_mm256_blend_epi32(_mm256_castsi128_si256(load_segment(at[0] + byte)), second, 0xf0);
#else
        V x;
        memcpy(&x, at[0] + byte, 16);
        return x;
#endif
    }
    // Interleave the first or the second halves of all segments of two vectors.
    template <int HALF, int... C>
    static INLINE V zip(V a, V b, std::integer_sequence<int, C...>) {
        return __builtin_shufflevector(a, b,
                                       (C / SEGMENT * SEGMENT + (C % SEGMENT + HALF * SEGMENT) / 2 + C % 2 * COUNT)...);
    }
    static INLINE void transpose_square(V (&x)[SEGMENT]) {
        constexpr auto elements = std::make_integer_sequence<int, COUNT>();
        UNROLL for (int step = 1; step < SEGMENT; step *= 2) {
            V y[SEGMENT];
            UNROLL for (int i = 0; i < SEGMENT; i += 2) {
                y[i] = zip<0>(x[i / 2], x[(i + SEGMENT) / 2], elements);
                y[i + 1] = zip<1>(x[i / 2], x[(i + SEGMENT) / 2], elements);
            }
            UNROLL for (int i = 0; i < SEGMENT; i++) x[i] = y[i];
        }
    }

    static INLINE void begin(Rows& at, const void* in, int64_t row) {
        for (int l = 0; l < ROWS; l++) at[l] = static_cast<const char*>(in) + l * SEGMENT * row;
    }
    // x[i][r] = element i of row r, for COUNT rows and the next SEGMENT elements; `row` is the stride in bytes.
    static INLINE void next(Rows& at, int64_t row, V (&x)[SEGMENT]) {
        UNROLL for (int i = 0; i < SEGMENT; i++) x[i] = join(at, i * row);
        UNROLL for (int l = 0; l < ROWS; l++) at[l] += 16;
        transpose_square(x);
    }

   private:
#if defined(__AVX2__)
    static INLINE __m128i load_segment(const char* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
#endif
};

// out[c * step + r] = in[r * stride + c] for fewer rows than lanes, and 0 in the others: the last row is read in place of
// those that are missing. Returns the number of columns, a multiple of SEGMENT.
template <class T>
NOINLINE int64_t transpose_few_rows(const T* in, int64_t stride, int64_t rows, int64_t columns, T* out, int64_t step) {
    using P = Segments<T>;
    typename P::Rows at[P::SEGMENT];
    char present[BYTES] = {};  // a mask, whatever the size of an element
    memset(present, -1, rows * sizeof(T));
    for (int i = 0; i < P::SEGMENT; i++)
        for (int l = 0; l < P::ROWS; l++)
            at[i][l] = reinterpret_cast<const char*>(in + std::min<int64_t>(l * P::SEGMENT + i, rows - 1) * stride);
    I<float> mask;
    memcpy(&mask, present, BYTES);
    int64_t c = 0;
    for (; c + P::SEGMENT <= columns; c += P::SEGMENT) {
        typename P::V x[P::SEGMENT];
        UNROLL for (int i = 0; i < P::SEGMENT; i++) x[i] = P::join(at[i], c * int64_t(sizeof(T)));
        P::transpose_square(x);
        UNROLL for (int i = 0; i < P::SEGMENT; i++) store(out + (c + i) * step, (V<T>)((I<float>)x[i] & mask));
    }
    return c;
}

// out[c * step + r] = in[r * stride + c] for r < rows, c < columns; other lanes up to width get 0. Calls prefetch()
// before every COUNT * SEGMENT elements, and returns it.
template <class T, class Prefetch>
NOINLINE Prefetch transpose_rows(const T* in, int64_t stride, int64_t rows, int64_t columns, T* out, int64_t step,
                                 int64_t width, Prefetch prefetch) {
    using P = Segments<T>;
    for (int64_t r = 0; r < width; r += L<T>) {
        int64_t c = 0;
        if (r + L<T> <= rows) {
            typename P::Rows at;
            P::begin(at, in + r * stride, stride * int64_t(sizeof(T)));
            for (; c + P::SEGMENT <= columns; c += P::SEGMENT) {
                typename P::V x[P::SEGMENT];
                prefetch();
                P::next(at, stride * int64_t(sizeof(T)), x);
                UNROLL for (int i = 0; i < P::SEGMENT; i++) store(out + (c + i) * step + r, (V<T>)x[i]);
            }
        } else if constexpr (sizeof(T) == 4) {  // for the others, too, the library would be 8 KB larger
            if (r < rows) c = transpose_few_rows(in + r * stride, stride, rows - r, columns, out + r, step);
        }
        for (int64_t f = c; f < columns; f++) store(out + f * step + r, V<T>{});
        for (int64_t i = r; i < std::min(rows, r + L<T>); i++)
            for (int64_t f = c; f < columns; f++) out[f * step + i] = in[i * stride + f];
    }
    return prefetch;
}

template <class T>
void transpose_rows(const T* in, int64_t stride, int64_t rows, int64_t columns, T* out, int64_t step, int64_t width) {
    transpose_rows(in, stride, rows, columns, out, step, width, [] {});
}

// out[r * stride + c] = in[c * width + r] for r < rows, c < columns.
template <class T>
NOINLINE void store_transposed(const T* in, int64_t width, int64_t rows, int64_t columns, T* out, int64_t stride) {
    using P = Segments<T>;
    int64_t c = 0;
    for (; c + P::SEGMENT <= columns; c += P::SEGMENT)
        for (int64_t r = 0; r < rows; r += L<T>) {
            typename P::V x[P::SEGMENT];
            UNROLL for (int i = 0; i < P::SEGMENT; i++) x[i] = P::load(in + (c + i) * width + r);
            P::transpose_square(x);
            const char* pieces = reinterpret_cast<const char*>(x);
            for (int64_t u = 0; u < std::min<int64_t>(L<T>, rows - r); u++)
                memcpy(out + (r + u) * stride + c, pieces + u % P::SEGMENT * BYTES + u / P::SEGMENT * 16, 16);
        }
    for (; c < columns; c++)
        for (int64_t r = 0; r < rows; r++) out[r * stride + c] = in[c * width + r];
}

}  // namespace ISA
}  // namespace regard
