// Attention for one instruction set; CMake compiles this file once for each, with ISA as the name.
//
// The lanes of a vector are queries: scores lie as [key][query], so that maxima, sums and products run down the lanes
// and no lane ever meets another. What a query gets therefore cannot depend on where it stands, to the bit. Where
// there are too few queries to fill lanes (decoding), lanes are keys and then values; every sum is taken in the same
// order as in the other arrangement, and no multiplication is fused with an addition unless fma() says so.

#include "problem.h"

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

// ---- lanes: vectors of the instruction set -------------------------------------------------------------------

#if defined(__AVX512F__)
constexpr int BYTES = 64, ROWS = 8;  // size of a vector; rows of the register tile of 3 vectors
#elif defined(__AVX2__)
constexpr int BYTES = 32, ROWS = 4;
#elif defined(__aarch64__)
constexpr int BYTES = 16, ROWS = 8;
#else
constexpr int BYTES = 16, ROWS = 4;
#endif
constexpr int WIDE = 3;        // vectors of queries in a tile
constexpr int KEYS_AT_ONCE = 128;  // keys in a block: a strip of scores stays in the nearest cache
constexpr int CHUNK = 1024;    // keys whose result is kept apart and then merged: threads can share one query
constexpr int FEW = 4;         // queries of an item up to which lanes are keys and values
constexpr int PACK = 16;       // such queries in one task

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
constexpr T INF = std::numeric_limits<T>::infinity();

#define INLINE inline __attribute__((always_inline))
#define INLINE_LAMBDA __attribute__((always_inline))
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
INLINE V<T> all(T x) {
    return x - V<T>{};
}

// a * b + c, rounded once where the instruction set can; the same for one number and for a vector.
// larger(a, b): b where either is NaN.
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

// ---- exp2 and tanh -------------------------------------------------------------------------------------------

template <class T>
struct Numbers;
template <>
struct Numbers<float> {
    static constexpr float ROUND = 12582912.0f;  // 1.5 * 2^23: adding it leaves a whole number in the low bits
    static constexpr float LEAST = -160.0f;
    static constexpr int MANTISSA = 23, HALFWAY = 64, ONE = 127;
    // 2^f = 1 + f * (...) for |f| <= 1/2, relative error below 4e-9
    static constexpr float EXP2[] = {0.69314722539501108653f,  0.24022651084117293574f,   0.055502973141993247575f,
                                     0.0096180307825051537978f, 0.0013410000966100157069f, 0.00015469731977475548114f};
    // tanh y = y + y^3 * (...) in y^2 for |y| <= 0.55, relative error below 4e-9
    static constexpr float TANH[] = {-0.33333332007976979681f, 0.1333311372902087191f, -0.053909428827460545439f,
                                     0.021309388664443473807f, -0.0066102278311147345141f};
    static constexpr float WILD = 20.0f;  // exp(4 * WILD) is finite
};
template <>
struct Numbers<double> {
    static constexpr double ROUND = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double LEAST = -1100.0;
    static constexpr int MANTISSA = 52, HALFWAY = 512, ONE = 1023;
    // relative error below 1e-19
    static constexpr double EXP2[] = {0.69314718055994530745,    0.24022650695910071224,    0.055504108664821770966,
                                      0.0096181291076284866168,  0.0013333558146374230244,  0.00015403530393354775175,
                                      0.000015252733871034374202, 1.3215486823296216342e-6, 1.0178045296501752225e-7,
                                      7.0548914678111156862e-9,  4.4575330189438569545e-10, 2.5737813502097132775e-11};
    // relative error below 3e-18
    static constexpr double TANH[] = {-0.33333333333333332561, 0.13333333333332714826,  -0.053968253967434014504,
                                      0.021869488493666941903, -0.0088632343978143548378, 0.0035921103786890238773,
                                      -0.0014556618301007160336, 0.00058893605200740577697, -0.00023463474108872371445,
                                      0.000085113136855776715155, -0.000020602765376366341605};
    static constexpr double WILD = 170.0;
};
constexpr double LOG2E = 1.4426950408889634074;

template <class T, int N>
INLINE V<T> polynomial(V<T> x, const T (&c)[N]) {
    V<T> y = all(c[N - 1]);
    UNROLL for (int i = N - 2; i >= 0; i--) y = fma(y, x, all(c[i]));
    return y;
}

// 2^x for x below 2^22: exact at 0, gradual underflow, NaN stays.
template <class T>
INLINE V<T> exp2(V<T> x) {
    using N = Numbers<T>;
    x = larger(all(N::LEAST), x);
#if defined(__AVX512F__)
    V<T> near = (x + N::ROUND) - N::ROUND, f = x - near;
    V<T> y = fma(polynomial<T>(f, N::EXP2), f, all(T(1)));
    if constexpr (sizeof(T) == 4) return (V<T>)_mm512_scalef_ps((__m512)y, (__m512)near);
    else return (V<T>)_mm512_scalef_pd((__m512d)y, (__m512d)near);
#else
    // Scaled in two steps, since 2^near alone may be too small to be written; halfway it never is.
    V<T> t = x + (N::ROUND + N::HALFWAY), near = t - (N::ROUND + N::HALFWAY), f = x - near;
    V<T> y = fma(polynomial<T>(f, N::EXP2), f, all(T(1)));
    V<T> halfway = (V<T>)(((I<T>)t << N::MANTISSA) + (typename Lanes<T>::Int(N::ONE) << N::MANTISSA));
    return (y * halfway) * (sizeof(T) == 4 ? T(0x1p-64) : T(0x1p-512));
#endif
}
template <class T>
INLINE T exp2(T x) {
    return exp2<T>(all(x))[0];
}

template <class T>
INLINE V<T> tanh(V<T> x) {
    constexpr typename Lanes<T>::Int SIGN = std::numeric_limits<typename Lanes<T>::Int>::min();
    I<T> sign = (I<T>)x & SIGN;
    V<T> size = (V<T>)((I<T>)x & ~SIGN), square = x * x;
    V<T> small = fma(polynomial<T>(square, Numbers<T>::TANH) * square, size, size);
    V<T> faded = exp2<T>(size * T(-2 * LOG2E));
    V<T> large = (T(1) - faded) / (T(1) + faded);
    return (V<T>)((I<T>)(size < T(0.55) ? small : large) | sign);
}

// ---- squares of lanes, turned over ---------------------------------------------------------------------------

template <class T, int S, size_t... C>
INLINE void turn_pair(V<T>& a, V<T>& b, std::index_sequence<C...>) {
    constexpr int n = L<T>;
    V<T> low = __builtin_shufflevector(a, b, ((C & S) ? n + int(C) - S : int(C))...);
    b = __builtin_shufflevector(a, b, ((C & S) ? n + int(C) : int(C) + S)...);
    a = low;
}
template <class T, int S = 1>
INLINE void turn(V<T> (&rows)[L<T>]) {
    if constexpr (S < L<T>) {
        UNROLL for (int i = 0; i < L<T>; i++)
            if (!(i & S)) turn_pair<T, S>(rows[i], rows[i | S], std::make_index_sequence<L<T>>());
        turn<T, 2 * S>(rows);
    }
}

// With AHEAD, rows that far below are asked for meanwhile: the machine's own look-ahead doesn't see squares coming.
// out[c * step + r] = in[r * stride + c] * by[r] for r < rows, c < columns; other lanes up to width get 0.
template <class T, int AHEAD = 0>
void turn_rows(const T* in, int64_t stride, int64_t rows, int64_t columns, T* out, int64_t step, int64_t width,
               const T* by) {
    for (int64_t r = 0; r < width; r += L<T>) {
        int64_t c = 0;
        if (r + L<T> <= rows)
            for (; c + L<T> <= columns; c += L<T>) {
                V<T> square[L<T>];
                UNROLL for (int i = 0; i < L<T>; i++) {
                    if (AHEAD) __builtin_prefetch(in + (r + i + AHEAD) * stride + c, 0, 2);
                    square[i] = load(in + (r + i) * stride + c);
                    if (by) square[i] *= by[r + i];
                }
                turn<T>(square);
                UNROLL for (int i = 0; i < L<T>; i++) store(out + (c + i) * step + r, square[i]);
            }
        for (; c < columns; c++)
            for (int64_t i = 0; i < L<T>; i++)
                out[c * step + r + i] = r + i >= rows ? T(0) : by ? in[(r + i) * stride + c] * by[r + i]
                                                                   : in[(r + i) * stride + c];
    }
}

// out[r * stride + c] = in[c * width + r] for r < rows, c < columns.
template <class T>
void turn_back(const T* in, int64_t width, int64_t rows, int64_t columns, T* out, int64_t stride) {
    int64_t c = 0;
    for (; c + L<T> <= columns; c += L<T>)
        for (int64_t r = 0; r < rows; r += L<T>) {
            V<T> square[L<T>];
            UNROLL for (int u = 0; u < L<T>; u++) square[u] = load(in + (c + u) * width + r);
            turn<T>(square);
            for (int64_t u = 0; u < std::min<int64_t>(L<T>, rows - r); u++) store(out + (r + u) * stride + c, square[u]);
        }
    for (; c < columns; c++)
        for (int64_t r = 0; r < rows; r++) out[r * stride + c] = in[c * width + r];
}

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

inline void widen(const uint16_t* in, int64_t count, int32_t type, float* out) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= count; i += 16) {
        __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i));
        __m512 full = type == FLOAT16 ? _mm512_cvtph_ps(half)
                                      : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
        _mm512_storeu_ps(out + i, full);
    }
#elif defined(__AVX2__)
    for (; i + 8 <= count; i += 8) {
        __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
        __m256 full = type == FLOAT16 ? _mm256_cvtph_ps(half)
                                      : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
        _mm256_storeu_ps(out + i, full);
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

// ---- who may see whom ----------------------------------------------------------------------------------------

enum Seen { NOBODY, SOME, EVERYBODY };
constexpr int DEPTH = 32;      // of the program's stack; the Python side checks it

INLINE Seen among(bool any, bool every) { return every ? EVERYBODY : any ? SOME : NOBODY; }

INLINE Seen guess_leaf(const Node& x, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys) {
    switch (x.kind) {
        case BAND: {
            int64_t first = j - (i + rows - 1), last = j + keys - 1 - i;  // the least and the largest j - i
            return among(last >= x.low && first <= x.high, first >= x.low && last <= x.high);
        }
        case KEYS: return among(x.left[item] > j, x.left[item] >= j + keys);
        case QUERIES: return among(x.left[item] > i, x.left[item] >= i + rows);
        case DOCUMENTS: {
            auto* a = reinterpret_cast<const int64_t*>(x.left[item]) + i;
            auto* b = reinterpret_cast<const int64_t*>(x.right[item]) + j;
            int64_t least = *std::min_element(a, a + rows), most = *std::max_element(a, a + rows);
            int64_t low = b[0], high = b[0];
            for (int64_t c = 1; c < keys; c++) low = b[c] < low ? b[c] : low, high = b[c] > high ? b[c] : high;
            return among(low <= most && least <= high, low == high && least == most && low == least);
        }
        default: return SOME;
    }
}

// Answer for a block without looking at pairs; SOME means that only a look can tell.
inline Seen guess(const Problem& p, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys) {
    if (!p.nodes) return EVERYBODY;
    Seen stack[DEPTH] = {};
    int top = 0;
    for (int64_t s = 0; s < p.nodes; s++) {
        const Node& x = p.program[s];
        if (x.kind == NOT) stack[top - 1] = Seen(EVERYBODY - stack[top - 1]);
        else if (x.kind == BOTH) top--, stack[top - 1] = std::min(stack[top - 1], stack[top]);
        else stack[top++] = guess_leaf(x, item, i, rows, j, keys);
    }
    return stack[0];
}

// Bits from `first` to `last` - 1.
INLINE uint64_t range(int64_t first, int64_t last) {
    first = std::max<int64_t>(first, 0), last = std::min<int64_t>(last, 64);
    return first >= last ? 0 : (~uint64_t(0) >> (64 - (last - first))) << first;
}

INLINE uint64_t bits_of_bools(const uint8_t* x, int64_t step, int64_t count) {
    uint64_t bits = 0;
    int64_t c = 0;
#if defined(__AVX512BW__)
    if (step == 1 && count == 64) {
        __m512i bytes = _mm512_loadu_si512(x);
        return _mm512_test_epi8_mask(bytes, bytes);
    }
#endif
    if (step == 1)
        for (; c + 8 <= count; c += 8) {
            uint64_t eight;
            memcpy(&eight, x + c, 8);
            bits |= ((eight * 0x0102040810204080) >> 56) << c;
        }
    for (; c < count; c++) bits |= uint64_t(x[c * step] != 0) << c;
    return bits;
}

// Turn a square of 64 x 64 bits over (Warren, "Hacker's Delight", section 7-3).
inline void turn_bits(uint64_t* a) {
    uint64_t mask = 0x00000000ffffffff;
    for (int step = 32; step; step >>= 1, mask ^= mask << step)
        for (int k = 0; k < 64; k = ((k | step) + 1) & ~step) {
            uint64_t t = ((a[k] >> step) ^ a[k | step]) & mask;
            a[k] ^= t << step;
            a[k | step] ^= t;
        }
}

// Who sees a block of keys: for each key a bit for each query of a tile.
using Words = uint64_t[KEYS_AT_ONCE];

inline void look_leaf(const Node& x, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys, Words& words) {
    switch (x.kind) {
        case BAND:
            for (int64_t c = 0; c < keys; c++) words[c] = range(j + c - x.high - i, j + c - x.low - i + 1);
            return;
        case KEYS:
            for (int64_t c = 0; c < keys; c++) words[c] = j + c < x.left[item] ? ~uint64_t(0) : 0;
            return;
        case QUERIES: std::fill_n(words, keys, range(0, x.left[item] - i)); return;
        case DOCUMENTS: {
            auto* left = reinterpret_cast<const int64_t*>(x.left[item]) + i;
            auto* right = reinterpret_cast<const int64_t*>(x.right[item]) + j;
            for (int64_t c = 0; c < keys; c++) {
                words[c] = 0;
                for (int64_t r = 0; r < rows; r++) words[c] |= uint64_t(left[r] == right[c]) << r;
            }
            return;
        }
        default:
            for (int64_t w = 0; w < keys; w += 64) {
                for (int64_t r = 0; r < 64; r++) {
                    auto* at = reinterpret_cast<const uint8_t*>(x.left[item]) + (i + r) * x.row + (j + w) * x.column;
                    words[w + r] = r < rows ? bits_of_bools(at, x.column, std::min<int64_t>(64, keys - w)) : 0;
                }
                turn_bits(words + w);
            }
    }
}

// What a tile of queries sees of a block of keys, and the keys from first to last - 1 that matter.
struct Sight {
    Words words;
    int64_t first, last;
};

inline Seen look(const Problem& p, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys, Sight& s) {
    s.first = 0, s.last = keys;
    Seen seen = guess(p, item, i, rows, j, keys);
    if (seen != SOME) return seen;
    Words stack[DEPTH];
    int top = 0;
    for (int64_t n = 0; n < p.nodes; n++) {
        const Node& x = p.program[n];
        if (x.kind == NOT)
            for (uint64_t& word : stack[top - 1]) word = ~word;
        else if (x.kind == BOTH) {
            top--;
            for (int c = 0; c < KEYS_AT_ONCE; c++) stack[top - 1][c] &= stack[top][c];
        } else look_leaf(x, item, i, rows, j, keys, stack[top++]);
    }
    const uint64_t real = range(0, rows);
    bool every = true;
    s.first = keys, s.last = 0;
    for (int64_t c = 0; c < keys; c++) {
        s.words[c] = stack[0][c] & real;
        every &= s.words[c] == real;
        if (s.words[c]) s.first = std::min(s.first, c), s.last = c + 1;
    }
    return among(s.first < s.last, every);
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
INLINE __m512i narrow(V<float> x) {  // 16 of them, in the low halves of the lanes
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)x));
}
INLINE V<float> pair(V<float> first, V<float> second) {
    return (V<float>)_mm512_or_si512(narrow(first), _mm512_slli_epi32(narrow(second), 16));
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
    alignas(64) uint16_t places[64];  // in two vectors of 32, one behind the other: 0, 32, 1, 33, ...
    for (int u = 0; u < 64; u++) places[u] = uint16_t(u / 2 + u % 2 * 32);
    const __m512i low = _mm512_load_si512(places), high = _mm512_load_si512(places + 32);
    for (int64_t r = 0; r < rows; r += 2) {
        float* to = out + r / 2 * width;
        int64_t f = 0;
        for (; f + 32 <= columns && r + 1 < rows; f += 32) {
            __m512i one = _mm512_loadu_si512(start + r * x.row + 2 * f);
            __m512i two = _mm512_loadu_si512(start + (r + 1) * x.row + 2 * f);
            _mm512_storeu_si512(to + f, _mm512_permutex2var_epi16(one, low, two));
            _mm512_storeu_si512(to + f + 16, _mm512_permutex2var_epi16(one, high, two));
        }
        for (; f < width; f += 16)
            _mm512_storeu_si512(to + f, _mm512_or_si512(some(r, f), _mm512_slli_epi32(some(r + 1, f), 16)));
    }
}
#endif

// ---- the one product -----------------------------------------------------------------------------------------

// c[r] += sum over k of a(r, k) * b[k], with vectors b[k] of NV * L lanes; a(r, k) is a[r * lda + k] where ACROSS, and
// a[k * lda + r] otherwise. All sums run over k in order.
template <class T, int R, int NV, bool ACROSS>
INLINE void product(V<T> (&c)[R][NV], const T* a, int64_t lda, const T* b, int64_t ldb, int64_t depth) {
    for (int64_t k = 0; k < depth; k++) {
        V<T> bk[NV];
        UNROLL for (int x = 0; x < NV; x++) bk[x] = load(b + k * ldb + x * L<T>);
        UNROLL for (int r = 0; r < R; r++) {
            V<T> ark = spread(ACROSS ? a + r * lda + k : a + k * lda + r);
            UNROLL for (int x = 0; x < NV; x++) c[r][x] = add_products<T>(ark, bk[x], c[r][x]);
        }
    }
}

// Call f(number of rows, first row) in steps of R rows, a power of 2, and of smaller powers at the end.
template <int R, class F>
INLINE void in_steps(int64_t first, int64_t last, F&& f) {
    for (; first + R <= last; first += R) f(std::integral_constant<int, R>{}, first);
    if constexpr (R > 1) in_steps<R / 2>(first, last, f);
}

// ---- room: memory that a thread works in ---------------------------------------------------------------------

struct Room {
    char* at;
    template <class T>
    T* take(int64_t count) {
        T* start = reinterpret_cast<T*>(at);
        at += (count * int64_t(sizeof(T)) + 63) / 64 * 64;
        return start;
    }
};

// ---- scores of pairs that are no products: lanes are features ------------------------------------------------

template <class T, int S, size_t... C>
INLINE V<T> swapped(V<T> x, std::index_sequence<C...>) {
    return __builtin_shufflevector(x, x, (int(C) ^ S)...);
}
// The sum of all lanes, the same tree for any number.
template <class T, int S = L<T> / 2>
INLINE T sum(V<T> x) {
    if constexpr (S == 0) return x[0];
    else return sum<T, S / 2>(x + swapped<T, S>(x, std::make_index_sequence<L<T>>()));
}

INLINE V<float> reciprocal(V<float> x) {
#if defined(__AVX512F__)
    V<float> y = (V<float>)_mm512_rcp14_ps((__m512)x);
    return fma(fma(-x, y, all(1.0f)), y, y);
#else
    return 1.0f / x;
#endif
}
INLINE V<double> reciprocal(V<double> x) { return 1.0 / x; }

// Rows of the perceptron's two sides as exp(2 x), so that tanh(x + y) = 1 - 2 / (1 + exp(2 x) exp(2 y)) needs no
// exponential for a pair. Rows with a number too large for that are wild, and their pairs are done one by one.
template <class T>
struct Features {
    T* exps;  // (rows, width), filled up with 1; all 1 where wild
    bool* wild;
    int64_t width;
    Block<T> rows;
};

template <class T>
int64_t width_of(int64_t d) {
    return (d + L<T> - 1) / L<T> * L<T>;
}

template <class T>
Features<T> features(const Problem& p, Room& room, int64_t rows) {
    Features<T> x{};
    if (p.score != PERCEPTRON) return x;
    x.width = width_of<T>(p.d);
    x.exps = room.take<T>(rows * x.width);
    x.wild = room.take<bool>(rows);
    return x;
}

template <class T>
void prepare(const Problem& p, Features<T>& x, Block<T> rows, int64_t first, int64_t last) {
    x.rows = rows;
    if (p.score != PERCEPTRON) return;
    for (int64_t r = first; r < last; r++) {
        T* out = x.exps + r * x.width;
        const T* in = rows.at + r * rows.stride;
        T most = 0;
        for (int64_t c = 0; c < p.d; c++) most = std::abs(in[c]) <= most ? most : std::abs(in[c]);
        x.wild[r] = !(most <= Numbers<T>::WILD);
        memset(out, 0, x.width * sizeof(T));
        if (!x.wild[r]) memcpy(out, in, p.d * sizeof(T));
        for (int64_t c = 0; c < x.width; c += L<T>) store(out + c, exp2<T>(load(out + c) * T(2 * LOG2E)));
    }
}

template <class T>
struct Learned {      // by a score of pairs
    const T* vector;  // PERCEPTRON: (width,), filled up with 0
    T total;          // its sum
    T inverse;        // DISTANCES: 1 / width
};

template <class T>
Learned<T> learned(const Problem& p, Room& room) {
    Learned<T> x{};
    if (p.score == DISTANCES) x.inverse = T(1 / p.width);
    if (p.score != PERCEPTRON) return x;
    int64_t width = width_of<T>(p.d);
    T* vector = room.take<T>(width);
    memcpy(vector, p.vector, p.d * sizeof(T));
    memset(vector + p.d, 0, (width - p.d) * sizeof(T));
    V<T> total{};
    for (int64_t c = 0; c < width; c += L<T>) total += load(vector + c);
    x.vector = vector, x.total = sum<T>(total);
    return x;
}

template <class T>
T wild_pair(const Problem& p, const T* left, const T* right) {
    T score = 0;
    for (int64_t c = 0; c < p.d; c++) score += static_cast<const T*>(p.vector)[c] * std::tanh(left[c] + right[c]);
    return score;
}

// Scores of one query with R keys.
template <class T, int R>
INLINE void perceptron(const Problem& p, const Learned<T>& w, const Features<T>& q, int64_t i, const Features<T>& k,
                       int64_t j, T* out, int64_t step) {
    V<T> found[R] = {};
    for (int64_t c = 0; c < q.width; c += L<T>) {
        V<T> left = load(q.exps + i * q.width + c), vector = load(w.vector + c);
        UNROLL for (int r = 0; r < R; r++) {
            V<T> grown = fma(left, load(k.exps + (j + r) * k.width + c), all(T(1)));
            found[r] = fma(vector, reciprocal(grown), found[r]);
        }
    }
    for (int r = 0; r < R; r++)
        out[(j + r) * step] = q.wild[i] || k.wild[j + r]
                                  ? wild_pair(p, q.rows.at + i * q.rows.stride, k.rows.at + (j + r) * k.rows.stride)
                                  : w.total - 2 * sum<T>(found[r]);
}

template <class T, int R>
INLINE void distances(const Problem& p, const Learned<T>& w, const Features<T>& q, int64_t i, const Features<T>& k,
                      int64_t j, T* out, int64_t step) {
    const T *left = q.rows.at + i * q.rows.stride, *right = k.rows.at + j * k.rows.stride;
    V<T> found[R] = {};
    int64_t c = 0;
    for (; c + L<T> <= p.d; c += L<T>)
        UNROLL for (int r = 0; r < R; r++) {
            V<T> apart = (load(left + c) - load(right + r * k.rows.stride + c)) * w.inverse;
            found[r] = fma(apart, apart, found[r]);
        }
    for (int r = 0; r < R; r++) {
        T total = sum<T>(found[r]);
        for (int64_t t = c; t < p.d; t++) {
            T apart = (left[t] - right[r * k.rows.stride + t]) * w.inverse;
            total = fma1(apart, apart, total);
        }
        out[(j + r) * step] = total;
    }
}

// out[j * step + i * row] for queries i < rows and keys j from first to last - 1.
template <class T>
void score_pairs(const Problem& p, const Learned<T>& w, const Features<T>& q, int64_t rows, const Features<T>& k,
                 int64_t first, int64_t last, T* out, int64_t step, int64_t row) {
    for (int64_t i = 0; i < rows; i++)
        in_steps<4>(first, last, [&](auto size, int64_t j) {
            constexpr int R = decltype(size)::value;
            if (p.score == PERCEPTRON) perceptron<T, R>(p, w, q, i, k, j, out + i * row, step);
            else distances<T, R>(p, w, q, i, k, j, out + i * row, step);
        });
}

// ---- from scores to logits -----------------------------------------------------------------------------------

// Logits are counted in base 2: exp2 is then all that a softmax needs.
template <class T>
struct Scale {
    T factor;  // of what the products or pairs give
    T cap;     // of the hyperbolic tangent after that; 0: none
};
template <class T>
Scale<T> scale_of(const Problem& p) {
    double factor = p.scale * (p.score == DISTANCES ? -0.5 : 1.0);
    return p.softcap != 0 ? Scale<T>{T(factor / p.softcap), T(p.softcap * LOG2E)} : Scale<T>{T(factor * LOG2E), T(0)};
}

// What a query is multiplied with before its products, and what its scores are multiplied with after: the factor goes
// first where that costs no digit.
template <class T>
void place_factor(const Problem& p, T factor, const T* row, T& before, T& after) {
    before = 1, after = factor;
    if (PAIRS || p.score != PRODUCTS) return;  // a pair can't be multiplied without being rounded
    const T largest = std::numeric_limits<T>::max(), size = std::abs(factor);
    V<T> mosts{}, leasts = all(largest);
    int64_t c = 0;
    for (; c + L<T> <= p.d; c += L<T>) {
        V<T> x = load(row + c);
        x = x < 0 ? -x : x;
        mosts = larger(mosts, x);
        leasts = x > 0 && x < leasts ? x : leasts;
    }
    T most = 0, least = largest;
    for (int u = 0; u < L<T>; u++) most = std::max(most, mosts[u]), least = std::min(least, leasts[u]);
    for (; c < p.d; c++) {
        T x = std::abs(row[c]);
        most = std::max(most, x), least = x > 0 ? std::min(least, x) : least;
    }
    if (most * size <= std::numeric_limits<T>::max() && least * size >= std::numeric_limits<T>::min())
        before = factor, after = 1;
}

template <class T>
T bias_number(const Problem& p, const char* at) {
    switch (p.bias_type) {
        case FLOAT32: return T(*reinterpret_cast<const float*>(at));
        case FLOAT64: return T(*reinterpret_cast<const double*>(at));
        case FLOAT16: return T(widen_float16(*reinterpret_cast<const uint16_t*>(at)));
        default: return T(widen_bfloat16(*reinterpret_cast<const uint16_t*>(at)));
    }
}
// The bias of query i and key j lies at start + i * row + j * column.
struct BiasAt {
    const char* start;
    int64_t row, column;
};
template <class T>
BiasAt bias_at(const Problem& p, int64_t item) {
    auto* start = reinterpret_cast<const char*>(p.bias_address[item]);
    if (p.bias == ARRAY_BIAS) return {start, p.bias_row, p.bias_column};
    return {start + (p.m - 1) * int64_t(sizeof(T)), int64_t(sizeof(T)), -int64_t(sizeof(T))};
}

// Copy a tile of the bias to [key][query].
template <class T>
void fetch_bias(const Problem& p, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t first, int64_t last,
                T* out, int64_t width) {
    BiasAt b = bias_at<T>(p, item);
    const char* at = b.start + i * b.row + (j + first) * b.column;
    constexpr int64_t size = sizeof(T);
    bool own = p.bias_type == (size == 4 ? FLOAT32 : FLOAT64) && b.row % size == 0;
    if (own && b.column == size)
        return turn_rows<T>(reinterpret_cast<const T*>(at), b.row / size, rows, last - first, out + first * width,
                            width, width, nullptr);
    for (int64_t c = first; c < last; c++, at += b.column)
        if (own && b.row == size) memcpy(out + c * width, at, rows * size);
        else
            for (int64_t r = 0; r < rows; r++) out[c * width + r] = bias_number<T>(p, at + r * b.row);
}

template <class T>
INLINE V<T> add_bias(V<T> logits, V<T> bias) {
    return bias == -INF<T> ? bias : fma(bias, all(T(LOG2E)), logits);
}

// Whether bit 0, 1, ... of `bits` is set, for each lane.
template <class T>
INLINE I<T> lanes_of(uint64_t bits) {
    I<T> lane = {};
    UNROLL for (int c = 0; c < L<T>; c++) lane[c] = typename Lanes<T>::Int(1) << c;
    return ((typename Lanes<T>::Int(bits) - I<T>{}) & lane) != 0;
}

// ---- the logits of a tile of queries and a block of keys -----------------------------------------------------

template <class T, int NV>
class Strip {
   protected:
    static constexpr int64_t W = NV * L<T>;
    const Problem& p;
    const int64_t item, i, rows;
    const Scale<T> scale;
    Room room;
    T *queries, *strip, *bias = nullptr, *keys_room;
    Block<T> query_rows;
    Learned<T> of_pairs;
    Features<T> left, right;
    V<T> after[NV];
    bool scaled;      // whether any of these is not 1
    bool unfinished;  // whether logits need more than the products give

    Strip(const Problem& p, int64_t item, int64_t i, int64_t rows, Room given)
        : p(p), item(item), i(i), rows(rows), scale(scale_of<T>(p)), room(given) {
        strip = room.take<T>(KEYS_AT_ONCE * W);
        if (p.bias) bias = room.take<T>(KEYS_AT_ONCE * W), memset(bias, 0, KEYS_AT_ONCE * W * sizeof(T));
        keys_room = room.take<T>(KEYS_AT_ONCE * p.d);
        of_pairs = learned<T>(p, room);
        left = features<T>(p, room, W), right = features<T>(p, room, KEYS_AT_ONCE);
        take_queries();
    }

    void take_queries() {
        T* wide = room.take<T>(p.queries_type == p.compute ? 0 : W * p.d);
        Block<T> q = query_rows = rows_of<T>(p.queries, p.queries_type, item, i, rows, p.d, wide);
        T before[W], factor[W];
        scaled = false;
        for (int64_t r = 0; r < W; r++) {
            before[r] = factor[r] = 1;
            if (r < rows) place_factor<T>(p, scale.factor, q.at + r * q.stride, before[r], factor[r]);
            scaled |= factor[r] != 1;
        }
        UNROLL for (int v = 0; v < NV; v++) after[v] = load(factor + v * L<T>);
        unfinished = scale.cap != 0 || p.bias || p.score != PRODUCTS;
        queries = room.take<T>(p.score == PRODUCTS ? p.d * W : 0);
        if (p.score == PRODUCTS)
            return turn_rows<T>(q.at, q.stride, rows, numbers(p.d), queries, W, W, PAIRS ? nullptr : before);
        prepare<T>(p, left, q, 0, rows);
        memset(strip, 0, KEYS_AT_ONCE * W * sizeof(T));
    }

    // Fill the strip [key][query], and raise `top` to the largest of its products.
    void scores(int64_t j, int64_t first, int64_t last, V<T> (&top)[NV]) {
        Block<T> keys = rows_of<T>(p.keys, p.keys_type, item, j, last, p.d, keys_room);
        if (p.score != PRODUCTS) {
            prepare<T>(p, right, keys, first, last);
            return score_pairs<T>(p, of_pairs, left, rows, right, first, last, strip, W, 1);
        }
        in_steps<ROWS>(first, last, [&](auto size, int64_t c) {
            constexpr int R = decltype(size)::value;
            V<T> sums[R][NV] = {};
            product<T, R, NV, true>(sums, keys.at + c * keys.stride, keys.stride, queries, W, numbers(p.d));
            UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int v = 0; v < NV; v++) {
                    if (scaled) sums[r][v] *= after[v];
                    store(strip + (c + r) * W + v * L<T>, sums[r][v]);
                    top[v] = larger(top[v], sums[r][v]);
                }
        });
    }

    // Make logits of the scores: factor, cap, bias, -inf where not seen.
    void finish(int64_t j, Seen seen, const Sight& sight, V<T> (&top)[NV], T* caps = nullptr) {
        if (p.bias) fetch_bias<T>(p, item, i, rows, j, sight.first, sight.last, bias, W);
        for (int64_t c = sight.first; c < sight.last; c++)
            UNROLL for (int v = 0; v < NV; v++) {
                T* at = strip + c * W + v * L<T>;
                V<T> x = p.score == PRODUCTS ? load(at) : load(at) * after[v];
                if (scale.cap != 0) {
                    x = tanh<T>(x);
                    if (caps) store(caps + c * W + v * L<T>, x);
                    x = x * scale.cap;
                }
                if (p.bias) x = add_bias<T>(x, load(bias + c * W + v * L<T>));
                if (seen == SOME) x = lanes_of<T>(sight.words[c] >> (v * L<T>)) ? x : all(-INF<T>);
                store(at, x);
                top[v] = larger(top[v], x);
            }
    }
};

// ---- forward, a tile of NV vectors of queries ----------------------------------------------------------------

// The softmax so far: largest logit, sum of exp2(logit - largest), and the sums of the values [value][query].
template <class T, int NV>
struct Running {
    V<T> top[NV], total[NV];
    T* context;
};

template <class T>
INLINE V<T> countable(V<T> top) {  // what logits are counted from: no -inf
    return top == -INF<T> ? V<T>{} : top;
}

// Take in what was found in other keys.
template <class T, int NV>
void absorb(Running<T, NV>& x, const Running<T, NV>& y, int64_t e) {
    constexpr int64_t width = NV * L<T>;
    V<T> a[NV], b[NV];
    UNROLL for (int v = 0; v < NV; v++) {
        V<T> top = larger(x.top[v], y.top[v]), from = countable<T>(top);
        a[v] = exp2<T>(x.top[v] - from), b[v] = exp2<T>(y.top[v] - from);
        x.total[v] = fma(x.total[v], a[v], y.total[v] * b[v]);
        x.top[v] = top;
    }
    for (int64_t c = 0; c < e; c++)
        UNROLL for (int v = 0; v < NV; v++) {
            T* at = x.context + c * width + v * L<T>;
            store(at, fma(load(at), a[v], load(y.context + c * width + v * L<T>) * b[v]));
        }
}

// Values +inf, -inf and NaN that each query sees: so that no others reach its context.
enum Taint : uint8_t { PLUS = 1, MINUS = 2, LOST = 4 };

template <class T>
INLINE uint8_t taint_of(T x) {
    return std::isfinite(x) ? 0 : std::isnan(x) ? LOST : x > 0 ? PLUS : MINUS;
}
template <class T>
INLINE T tainted(T context, uint8_t taint) {
    if (taint & LOST || (taint & PLUS && taint & MINUS)) return std::numeric_limits<T>::quiet_NaN();
    return taint & PLUS ? context + INF<T> : taint & MINUS ? context - INF<T> : context;
}

// Put 0 in place of what is not finite in pairs of values, and tell of it.
template <class T, class F>
void clean_pairs(T* pairs, int64_t width, int64_t e, int64_t keys, F&& tell) {
    auto* halves = reinterpret_cast<uint16_t*>(pairs);
    for (int64_t c = 0; c < keys; c++)
        for (int64_t f = 0; f < e; f++) {
            uint16_t& half = halves[2 * (c / 2 * width + f) + c % 2];
            if (uint8_t taint = taint_of(widen_bfloat16(half))) {
                tell(c, f, taint);
                half = 0;
            }
        }
}

template <class T, int NV>
class Tile : Strip<T, NV> {
    using Strip<T, NV>::W, Strip<T, NV>::p, Strip<T, NV>::item, Strip<T, NV>::i, Strip<T, NV>::rows;
    using Strip<T, NV>::strip, Strip<T, NV>::room;
    T* values_room;
    uint8_t* taints;
    bool clean = false;  // whether values that are not finite are taken out and counted

   public:
    Tile(const Problem& p, int64_t item, int64_t i, int64_t rows, Room given)
        : Strip<T, NV>(p, item, i, rows, given) {
        values_room = room.template take<T>(KEYS_AT_ONCE * width_of<T>(p.e));
        taints = room.template take<uint8_t>(p.e * W);
    }

    void run() {
        Running<T, NV> whole = attend();
        V<T> witness{};
        for (int64_t c = 0; c < p.e * W; c += W)
            UNROLL for (int v = 0; v < NV; v++) witness += load(whole.context + c + v * L<T>) * T(0);
        bool finite = true;
        for (int c = 0; c < L<T>; c++) finite &= witness[c] == 0;
        if (!finite) {  // the same once more, so that nothing unseen reaches anybody
            clean = true;
            memset(taints, 0, p.e * W);
            whole = attend();
        }
        write(whole);
    }

   private:
    Running<T, NV> empty(T* context) {
        Running<T, NV> x;
        UNROLL for (int v = 0; v < NV; v++) x.top[v] = all(-INF<T>), x.total[v] = V<T>{};
        x.context = context;
        memset(context, 0, p.e * W * sizeof(T));
        return x;
    }

    Running<T, NV> attend() {
        Room r = room;
        Running<T, NV> whole = empty(r.take<T>(p.e * W));
        if (p.m <= CHUNK) {
            walk(whole, 0, p.m);
            return whole;
        }
        T* context = r.take<T>(p.e * W);
        for (int64_t j = 0; j < p.m; j += CHUNK) {
            int64_t stop = std::min(j + CHUNK, p.m);
            if (guess(p, item, i, rows, j, stop - j) == NOBODY) continue;
            Running<T, NV> part = empty(context);
            walk(part, j, stop);
            absorb<T, NV>(whole, part, p.e);
        }
        return whole;
    }

    void walk(Running<T, NV>& x, int64_t first, int64_t last) {
        Sight sight;
        for (int64_t j = first; j < last; j += KEYS_AT_ONCE) {
            Seen seen = look(p, item, i, rows, j, std::min<int64_t>(KEYS_AT_ONCE, last - j), sight);
            if (seen != NOBODY) block(x, j, seen, sight);
        }
    }

    void block(Running<T, NV>& x, int64_t j, Seen seen, const Sight& sight) {
        const int64_t first = sight.first, last = sight.last;
        V<T> top[NV], from[NV], faded[NV];
        UNROLL for (int v = 0; v < NV; v++) top[v] = x.top[v];
        if (this->unfinished || seen == SOME) {
            V<T> ignored[NV] = {};
            this->scores(j, first, last, ignored);
            this->finish(j, seen, sight, top);
        } else {
            this->scores(j, first, last, top);
        }
        Block<T> values = values_of(j, first, last);
        UNROLL for (int v = 0; v < NV; v++) {
            from[v] = countable<T>(top[v]);
            faded[v] = exp2<T>(x.top[v] - from[v]);
            x.top[v] = top[v];
        }
        weigh(x, first, last, from, faded);
        const int64_t start = numbers(first + PAIRS) - PAIRS, depth = PAIRS ? pair_weights(first, last) : last - first;
        in_steps<ROWS>(0, p.e, [&](auto size, int64_t c) {
            constexpr int R = decltype(size)::value;
            V<T> sums[R][NV];
            UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int v = 0; v < NV; v++) sums[r][v] = load(x.context + (c + r) * W + v * L<T>) * faded[v];
            product<T, R, NV, false>(sums, values.at + start * values.stride + c, values.stride, strip + start * W, W,
                                     depth);
            UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int v = 0; v < NV; v++) store(x.context + (c + r) * W + v * L<T>, sums[r][v]);
        });
    }

    // Turn logits into weights, unnormalised, and add up their sum: four sums, by the key's number modulo 4.
    void weigh(Running<T, NV>& x, int64_t first, int64_t last, const V<T> (&from)[NV], const V<T> (&faded)[NV]) {
        V<T> sums[4][NV] = {};
        auto one = [&](int64_t c, V<T> (&into)[NV]) INLINE_LAMBDA {
            UNROLL for (int v = 0; v < NV; v++) {
                V<T> weight = exp2<T>(load(strip + c * W + v * L<T>) - from[v]);
                store(strip + c * W + v * L<T>, weight);
                into[v] += weight;
            }
        };
        int64_t c = first;
        for (; c < last && c % 4; c++) one(c, sums[c % 4]);
        for (; c + 4 <= last; c += 4) UNROLL for (int u = 0; u < 4; u++) one(c + u, sums[u]);
        for (; c < last; c++) one(c, sums[c % 4]);
        UNROLL for (int v = 0; v < NV; v++)
            x.total[v] = fma(x.total[v], faded[v], (sums[0][v] + sums[1][v]) + (sums[2][v] + sums[3][v]));
    }

    // Make pairs of the weights of two keys each; returns how many.
    int64_t pair_weights(int64_t first, [[maybe_unused]] int64_t last) {
        int64_t t = first / 2;
#if defined(__AVX512BF16__)
        for (; 2 * t < last; t++)
            UNROLL for (int v = 0; v < NV; v++) {
                const T* at = strip + 2 * t * W + v * L<T>;
                V<T> one = 2 * t < first ? V<T>{} : load(at), two = 2 * t + 1 < last ? load(at + W) : V<T>{};
                store(strip + t * W + v * L<T>, pair(one, two));
            }
#endif
        return t - first / 2;
    }

    Block<T> values_of(int64_t j, int64_t first, int64_t last) {
#if defined(__AVX512BF16__)
        return paired_values(j, first, last);
#endif
        Block<T> values = rows_of<T>(p.values, p.values_type, item, j, last, p.e, values_room);
        if (!clean) return values;
        for (int64_t c = first; c < last; c++)
            for (int64_t f = 0; f < p.e; f++) {
                T x = values.at[c * values.stride + f];
                uint8_t taint = taint_of(x);
                values_room[c * p.e + f] = taint ? T(0) : x;
                if (taint)
                    for (int64_t r = 0; r < rows; r++)
                        if (!(strip[c * W + r] == -INF<T>)) taints[f * W + r] |= taint;
            }
        return {values_room, p.e};
    }

#if defined(__AVX512BF16__)
    Block<T> paired_values(int64_t j, int64_t first, int64_t last) {
        const int64_t width = width_of<T>(p.e);
        pair_rows(p.values, item, j, last, p.e, values_room, width);
        if (clean)
            clean_pairs(values_room, width, p.e, last, [&](int64_t c, int64_t f, uint8_t taint) {
                for (int64_t r = 0; r < rows && c >= first; r++)
                    if (!(strip[c * W + r] == -INF<T>)) taints[f * W + r] |= taint;
            });
        return {values_room, width};
    }
#endif

    void write(const Running<T, NV>& x) {
        T *out = static_cast<T*>(p.context) + (item * p.n + i) * p.e, total[W], top[W];
        UNROLL for (int v = 0; v < NV; v++) {
            store(total + v * L<T>, x.total[v]), store(top + v * L<T>, countable<T>(x.top[v]));
            V<T> divisor = x.total[v] == 0 ? all(T(1)) : x.total[v];
            for (int64_t c = v * L<T>; c < p.e * W; c += W) store(x.context + c, load(x.context + c) / divisor);
        }
        turn_back<T>(x.context, W, rows, p.e, out, p.e);
        if (clean)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t f = 0; f < p.e; f++) out[r * p.e + f] = tainted(out[r * p.e + f], taints[f * W + r]);
        if (!p.statistic) return;
        T* statistic = static_cast<T*>(p.statistic) + item * 2 * p.n + i;
        for (int64_t r = 0; r < rows; r++)
            statistic[r] = top[r], statistic[p.n + r] = T(std::log2(double(total[r])));
    }
};

// ---- forward, few queries: lanes are keys, then values -------------------------------------------------------

// What one chunk of the keys gives to one query: top, total, context (e), taints (e).
template <class T>
struct Partial {
    T* at;
    T& top() const { return at[0]; }
    T& total() const { return at[1]; }
    T* context() const { return at + 2; }
    T* taints(int64_t e) const { return at + 2 + width_of<T>(e); }
    static int64_t size(int64_t e) { return 2 + width_of<T>(e) + e; }
};

template <class T>
class Few {
    static constexpr int64_t AHEAD = 4 * L<T>;  // keys that are turned over at a time
    static constexpr int64_t K = KEYS_AT_ONCE;
    typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
    const Problem& p;
    const int64_t first_item, row, rows, first_key, last_key;  // `rows` rows from `row` of those that share the keys
    const Scale<T> scale;
    Room room;
    T *queries, *strip, *bias, *turned, *keys_room, *values_room, *after;
    Learned<T> of_pairs;
    Features<T> left, right;
    Partial<T>* out;
    bool clean = false;

   public:
    Few(const Problem& p, int64_t first_item, int64_t row, int64_t rows, int64_t first_key, int64_t last_key,
        Room given)
        : p(p), first_item(first_item), row(row), rows(rows), first_key(first_key), last_key(last_key),
          scale(scale_of<T>(p)), room(given) {
        strip = room.take<T>(rows * K);
        bias = room.take<T>(K);
        queries = room.take<T>(rows * p.d);
        after = room.take<T>(rows);
        turned = room.take<T>(AHEAD * p.d);
        keys_room = room.take<T>(p.keys_type == p.compute ? 0 : K * p.d);
        values_room = room.take<T>(K * width_of<T>(p.e));
        of_pairs = learned<T>(p, room);
        left = features<T>(p, room, rows), right = features<T>(p, room, K);
        take_queries();
    }

    // Fill `found`, one for each row.
    void run(Partial<T>* found) {
        out = found;
        attend();
        bool finite = true;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < p.e; c++) finite &= bool(std::isfinite(out[r].context()[c]));
        if (finite) return;
        clean = true;
        attend();
    }

   private:
    int64_t item(int64_t r) const { return first_item + (row + r) / p.n; }
    int64_t query(int64_t r) const { return (row + r) % p.n; }

    void take_queries() {
        for (int64_t r = 0; r < rows; r++) {
            T *own = queries + r * p.d, before;
            Block<T> q = rows_of<T>(p.queries, p.queries_type, item(r), query(r), 1, p.d, own);
            place_factor<T>(p, scale.factor, q.at, before, after[r]);
            if (PAIRS) memcpy(own, q.at, numbers(p.d) * sizeof(T));
            else
                for (int64_t c = 0; c < p.d; c++) own[c] = before == 1 ? q.at[c] : q.at[c] * before;
        }
        prepare<T>(p, left, {queries, p.d}, 0, rows);
    }

    void attend() {
        for (int64_t r = 0; r < rows; r++) {
            memset(out[r].at, 0, Partial<T>::size(p.e) * sizeof(T));
            out[r].top() = -INF<T>;
        }
        for (int64_t j = first_key; j < last_key; j += K) block(j, std::min(K, last_key - j));
    }

    void block(int64_t j, int64_t keys) {
        Seen seen[PACK];
        Seen most = NOBODY;
        for (int64_t r = 0; r < rows; r++)
            most = std::max(most, seen[r] = guess(p, item(r), query(r), 1, j, keys));
        if (most == NOBODY) return;
        scores(j, keys);
        T faded[PACK];
        for (int64_t r = 0; r < rows; r++) faded[r] = weigh(r, j, keys, seen[r]);
        if (PAIRS) pair_weights();
        collect(values_of(j, keys), keys, faded);
    }

    void scores(int64_t j, int64_t keys_here) {
        Block<T> keys = rows_of<T>(p.keys, p.keys_type, first_item, j, keys_here, p.d, keys_room);
        if (p.score != PRODUCTS) {
            prepare<T>(p, right, keys, 0, keys_here);
            return score_pairs<T>(p, of_pairs, left, rows, right, 0, keys_here, strip, 1, K);
        }
        for (int64_t c = 0; c < keys_here; c += AHEAD) {
            for (int64_t u = 0; u < AHEAD; u += L<T>) {
                int64_t left = std::clamp<int64_t>(keys_here - c - u, 0, L<T>);
                turn_rows<T, 16>(keys.at + (c + u) * keys.stride, keys.stride, left, numbers(p.d), turned + u, AHEAD, L<T>, nullptr);
            }
            in_steps<4>(0, rows, [&](auto size, int64_t r) {
            constexpr int R = decltype(size)::value;
                V<T> sums[R][4] = {};
                product<T, R, 4, true>(sums, queries + r * p.d, p.d, turned, AHEAD, numbers(p.d));
                UNROLL for (int u = 0; u < R; u++)
                    UNROLL for (int v = 0; v < 4; v++) store(strip + (r + u) * K + c + v * L<T>, sums[u][v]);
            });
        }
    }

    static int64_t whole(int64_t keys) {  // with the lanes that are filled up
        constexpr int64_t step = std::max(L<T>, 4);
        return (keys + step - 1) / step * step;
    }

    // Make weights of a row's scores; returns what its context so far fades by.
    T weigh(int64_t r, int64_t j, int64_t keys, Seen seen) {
        T* at = strip + r * K;
        const int64_t stop = whole(keys);
        finish(r, j, keys, seen);
        if (clean) note(r, j, keys);
        V<T> most = all(out[r].top());
        for (int64_t c = 0; c < stop; c += L<T>) most = larger(most, load(at + c));
        T top = out[r].top();
        for (int c = 0; c < L<T>; c++) top = most[c] > top || most[c] != most[c] ? most[c] : top;
        T from = top == -INF<T> ? T(0) : top, faded = exp2<T>(out[r].top() - from);
        Four sums = {};
        for (int64_t c = 0; c < stop; c += L<T>) store(at + c, exp2<T>(load(at + c) - from));
        for (int64_t c = 0; c < stop; c += 4) sums += *reinterpret_cast<const Four*>(at + c);
        out[r].total() = fma1(out[r].total(), faded, (sums[0] + sums[1]) + (sums[2] + sums[3]));
        out[r].top() = top;
        return faded;
    }

    void finish(int64_t r, int64_t j, int64_t keys, Seen seen) {
        T* at = strip + r * K;
        const int64_t stop = whole(keys);
        if (seen == EVERYBODY && !p.bias && scale.cap == 0) {
            if (after[r] != 1)
                for (int64_t c = 0; c < stop; c += L<T>) store(at + c, load(at + c) * after[r]);
            for (int64_t c = keys; c < stop; c++) at[c] = -INF<T>;
            return;
        }
        uint64_t bits[K / 64 + 1] = {};
        Sight sight;
        if (seen == SOME) seen = look(p, item(r), query(r), 1, j, keys, sight);
        for (int64_t c = 0; c < keys; c++)
            bits[c / 64] |= uint64_t(seen == EVERYBODY || (seen == SOME && sight.words[c])) << (c % 64);
        if (p.bias) {
            BiasAt b = bias_at<T>(p, item(r));
            const char* start = b.start + query(r) * b.row + j * b.column;
            for (int64_t c = 0; c < stop; c++) bias[c] = c < keys ? bias_number<T>(p, start + c * b.column) : T(0);
        }
        for (int64_t c = 0; c < stop; c += L<T>) {
            V<T> x = load(at + c) * after[r];
            if (scale.cap != 0) x = tanh<T>(x) * scale.cap;
            if (p.bias) x = add_bias<T>(x, load(bias + c));
            store(at + c, lanes_of<T>(bits[c / 64] >> (c % 64)) ? x : all(-INF<T>));
        }
    }

    void pair_weights() {
#if defined(__AVX512BF16__)
        for (int64_t c = 0; c < rows * K; c += L<T>)  // in place, since pairs take less room
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(strip + c / K * K + c % K / 2),
                                (__m256i)_mm512_cvtneps_pbh((__m512)load(strip + c)));
#endif
    }

    // Count the values of seen keys that are not finite.
    void note(int64_t r, int64_t j, int64_t keys) {
#if defined(__AVX512BF16__)
        const int64_t width = width_of<T>(p.e);
        pair_rows(p.values, first_item, j, keys, p.e, values_room, width);
        return clean_pairs(values_room, width, p.e, keys, [&](int64_t c, int64_t f, uint8_t taint) {
            T& noted = out[r].taints(p.e)[f];
            if (!(strip[r * K + c] == -INF<T>)) noted = T(uint8_t(noted) | taint);
        });
#endif
        Block<T> values = rows_of<T>(p.values, p.values_type, first_item, j, keys, p.e, values_room);
        for (int64_t c = 0; c < keys; c++)
            for (int64_t f = 0; f < p.e && !(strip[r * K + c] == -INF<T>); f++)
                out[r].taints(p.e)[f] =
                    T(uint8_t(out[r].taints(p.e)[f]) | taint_of(values.at[c * values.stride + f]));
    }

    Block<T> values_of(int64_t j, int64_t keys) {
#if defined(__AVX512BF16__)
        const int64_t width = width_of<T>(p.e);
        pair_rows(p.values, first_item, j, keys, p.e, values_room, width);
        if (clean) clean_pairs(values_room, width, p.e, keys, [](int64_t, int64_t, uint8_t) {});
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

    // Add the values by their weights.
    void collect(Block<T> values, int64_t keys, const T* faded) {
        int64_t c = 0;
        auto vectors = [&](auto count, auto most) {
            constexpr int NV = decltype(count)::value;
            for (; c + NV * L<T> <= (PAIRS ? width_of<T>(p.e) : p.e); c += NV * L<T>)
                in_steps<decltype(most)::value>(0, rows, [&](auto size, int64_t r) {
                    constexpr int R = decltype(size)::value;
                    V<T> sums[R][NV];
                    UNROLL for (int u = 0; u < R; u++)
                        UNROLL for (int v = 0; v < NV; v++) {
                            sums[u][v] = load(out[r + u].context() + c + v * L<T>);
                            sums[u][v] *= faded[r + u];
                        }
                    product<T, R, NV, true>(sums, strip + r * K, K, values.at + c, values.stride, numbers(keys));
                    UNROLL for (int u = 0; u < R; u++)
                        UNROLL for (int v = 0; v < NV; v++) store(out[r + u].context() + c + v * L<T>, sums[u][v]);
                });
        };
        if (rows < 4) vectors(std::integral_constant<int, 8>{}, std::integral_constant<int, 2>{});
        vectors(std::integral_constant<int, 4>{}, std::integral_constant<int, 4>{});
        vectors(std::integral_constant<int, 1>{}, std::integral_constant<int, 4>{});
        for (; c < p.e; c++)
            for (int64_t r = 0; r < rows; r++) {
                T sum = out[r].context()[c] * faded[r];
                for (int64_t k = 0; k < keys; k++) sum = fma1(values.at[k * values.stride + c], strip[r * K + k], sum);
                out[r].context()[c] = sum;
            }
    }
};

// Take in another chunk.
template <class T>
void absorb(const Partial<T>& x, const Partial<T>& y, int64_t e) {
    T top = larger(all(x.top()), all(y.top()))[0], from = countable<T>(all(top))[0];
    T a = exp2<T>(x.top() - from), b = exp2<T>(y.top() - from);
    x.total() = fma1(x.total(), a, y.total() * b);
    x.top() = top;
    for (int64_t c = 0; c < e; c++) {
        x.context()[c] = fma1(x.context()[c], a, y.context()[c] * b);
        x.taints(e)[c] = T(uint8_t(x.taints(e)[c]) | uint8_t(y.taints(e)[c]));
    }
}

template <class T>
void write(const Problem& p, const Partial<T>& x, int64_t item, int64_t i) {
    T *out = static_cast<T*>(p.context) + (item * p.n + i) * p.e, *statistic = static_cast<T*>(p.statistic);
    T divisor = x.total() == 0 ? T(1) : x.total();
    for (int64_t c = 0; c < p.e; c++) {
        T context = x.context()[c] / divisor;
        uint8_t taint = uint8_t(x.taints(p.e)[c]);
        out[c] = taint ? tainted(context, taint) : context;
    }
    if (!statistic) return;
    statistic[item * 2 * p.n + i] = x.top() == -INF<T> ? T(0) : x.top();
    statistic[item * 2 * p.n + p.n + i] = T(std::log2(double(x.total())));
}

#if !defined(__AVX512BF16__)  // gradients are computed in float32
// ---- backward ------------------------------------------------------------------------------------------------

// c[r][lanes] += sum over k < depth of a[r][k] * b[k][lanes], in memory, for `lanes` lanes (filled up to vectors).
template <class T>
void add_product(T* c, int64_t ldc, int64_t count, int64_t lanes, const T* a, int64_t lda, const T* b, int64_t ldb,
                 int64_t depth) {
    auto strip = [&](auto width, int64_t x) {
        constexpr int NV = decltype(width)::value, AT_ONCE = NV == 4 ? ROWS / 2 : ROWS;
        in_steps<AT_ONCE>(0, count, [&](auto size, int64_t r) {
            constexpr int R = decltype(size)::value;
            T* at = c + r * ldc + x;
            V<T> sums[R][NV];
            UNROLL for (int u = 0; u < R; u++)
                UNROLL for (int v = 0; v < NV; v++) sums[u][v] = load(at + u * ldc + v * L<T>);
            product<T, R, NV, true>(sums, a + r * lda, lda, b + x, ldb, depth);
            UNROLL for (int u = 0; u < R; u++)
                UNROLL for (int v = 0; v < NV; v++) store(at + u * ldc + v * L<T>, sums[u][v]);
        });
    };
    int64_t x = 0;
    for (; x + 4 * L<T> <= lanes || x + 3 * L<T> < lanes; x += 4 * L<T>) strip(std::integral_constant<int, 4>{}, x);
    for (; x + L<T> < lanes; x += 2 * L<T>) strip(std::integral_constant<int, 2>{}, x);
    for (; x < lanes; x += L<T>) strip(std::integral_constant<int, 1>{}, x);
}

// Rows of gradients are filled up to a multiple of this many numbers; the Python side knows it.
constexpr int64_t FILLED = 64;
inline int64_t filled(int64_t count) { return (count + FILLED - 1) / FILLED * FILLED; }

// Where a task collects.
template <class T>
struct Collected {
    T *dkeys, *dvalues;  // (m, filled(d)), (m, filled(e))
    T* dlearned;
    char* dbias;
};

template <class T, int NV>
class Back : Strip<T, NV> {
    using Strip<T, NV>::W, Strip<T, NV>::p, Strip<T, NV>::item, Strip<T, NV>::i, Strip<T, NV>::rows;
    using Strip<T, NV>::strip, Strip<T, NV>::room, Strip<T, NV>::scale, Strip<T, NV>::left, Strip<T, NV>::right;
    static constexpr int64_t K = KEYS_AT_ONCE;
    const Collected<T> out;
    T *dstrip, *caps = nullptr, *values_room, *turned, *rows_q, *rows_d, *dqueries;
    V<T> base[NV], logsum[NV], mean[NV], lost[NV];

   public:
    Back(const Problem& p, int64_t item, int64_t i, int64_t rows, Room given, const Collected<T>& out)
        : Strip<T, NV>(p, item, i, rows, given), out(out) {
        dstrip = room.template take<T>(K * W);
        if (scale.cap != 0) caps = room.template take<T>(K * W);
        values_room = room.template take<T>(p.values_type == p.compute ? 0 : K * p.e);
        turned = room.template take<T>(p.e * W);
        rows_q = room.template take<T>(W * filled(p.d));
        rows_d = room.template take<T>(W * filled(p.e));
        dqueries = room.template take<T>(std::max(W * filled(p.d), p.d * W));
        memset(dqueries, 0, W * filled(p.d) * sizeof(T));
        take_rows();
    }

    // What the keys from `first` to `last` - 1 give; ranges of keys come in order.
    void run(int64_t first, int64_t last) {
        if (guess(p, item, i, rows, first, last - first) == NOBODY) return;
        if (first) read();
        Sight sight;
        for (int64_t j = first; j < last; j += K) {
            Seen seen = look(p, item, i, rows, j, std::min(K, last - j), sight);
            if (seen != NOBODY) block(j, seen, sight);
        }
        write();
    }

   private:
    static T finite(T x) { return std::isfinite(x) ? x : T(0); }

    // Copy a row with 0 in place of what is not finite, filled up.
    static void copy_finite(const T* in, int64_t count, T* out) {
        int64_t c = 0;
        for (; c + L<T> <= count; c += L<T>) {
            V<T> x = load(in + c), witness = x * T(0);
            store(out + c, witness == 0 ? x : V<T>{});
        }
        for (; c < filled(count); c++) out[c] = c < count ? finite(in[c]) : T(0);
    }

    void take_rows() {
        Block<T> d = rows_of<T>(p.dcontext, p.compute, item, i, rows, p.e, static_cast<T*>(nullptr));
        turn_rows<T>(d.at, d.stride, rows, p.e, turned, W, W, nullptr);
        const T* context = static_cast<const T*>(p.context) + (item * p.n + i) * p.e;
        const T* statistic = static_cast<const T*>(p.statistic) + item * 2 * p.n + i;
        T found[4][W] = {};
        for (int64_t r = 0; r < rows; r++) {
            const T *own = d.at + r * d.stride, *its = context + r * p.e;
            copy_finite(own, p.e, rows_d + r * filled(p.e));
            copy_finite(this->query_rows.at + r * this->query_rows.stride, p.d, rows_q + r * filled(p.d));
            V<T> means{}, witnesses{};
            int64_t c = 0;
            for (; c + L<T> <= p.e; c += L<T>) {
                means = fma(load(own + c), load(its + c), means);
                witnesses += load(own + c) * T(0);
            }
            T mean = sum<T>(means), witness = sum<T>(witnesses);
            for (; c < p.e; c++) mean = fma1(own[c], its[c], mean), witness += own[c] * T(0);
            found[0][r] = statistic[r], found[1][r] = statistic[p.n + r];
            found[2][r] = mean, found[3][r] = witness == 0 ? T(0) : std::numeric_limits<T>::quiet_NaN();
        }
        UNROLL for (int v = 0; v < NV; v++) {
            base[v] = load(found[0] + v * L<T>), logsum[v] = countable<T>(load(found[1] + v * L<T>));
            mean[v] = load(found[2] + v * L<T>), lost[v] = load(found[3] + v * L<T>);
        }
    }

    void block(int64_t j, Seen seen, const Sight& sight) {
        const int64_t first = sight.first, last = sight.last;
        V<T> ignored[NV] = {};
        this->scores(j, first, last, ignored);
        if (this->unfinished || seen == SOME) this->finish(j, seen, sight, ignored, caps);
        Block<T> values = rows_of<T>(p.values, p.values_type, item, j, last, p.e, values_room);
        in_steps<ROWS>(first, last, [&](auto size, int64_t c) {
            constexpr int R = decltype(size)::value;
            V<T> sums[R][NV] = {};
            product<T, R, NV, true>(sums, values.at + c * values.stride, values.stride, turned, W, p.e);
            UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int v = 0; v < NV; v++) store(dstrip + (c + r) * W + v * L<T>, sums[r][v]);
        });
        weigh(first, last);
        add_product<T>(out.dvalues + (j + first) * filled(p.e), filled(p.e), last - first, p.e,
                             strip + first * W, W, rows_d, filled(p.e), rows);
        if (out.dbias) add_bias_gradient(j, first, last);
        if (caps)
            for (int64_t c = first * W; c < last * W; c += L<T>) {
                V<T> cap = load(caps + c), down = load(dstrip + c) * (T(1) - cap * cap);
                store(dstrip + c, load(strip + c) == V<T>{} ? V<T>{} : down);
            }
        if (p.score == PRODUCTS) pull_products(j, first, last);
        else pull_pairs(j, first, last);
    }

    // Weights into the strip, gradients of the logits into the other one.
    void weigh(int64_t first, int64_t last) {
        for (int64_t c = first; c < last; c++)
            UNROLL for (int v = 0; v < NV; v++) {
                T *at = strip + c * W + v * L<T>, *dat = dstrip + c * W + v * L<T>;
                V<T> logit = load(at);
                I<T> hidden = logit == -INF<T>;
                V<T> weight = exp2<T>((logit - base[v]) - logsum[v]) + lost[v];
                V<T> down = weight * (load(dat) - mean[v]);
                store(at, hidden ? V<T>{} : weight);
                store(dat, hidden ? V<T>{} : down);
            }
    }

    void add_bias_gradient(int64_t j, int64_t first, int64_t last) {
        int64_t row = p.dbias_row, column = p.dbias_column;
        char* at = out.dbias + i * row + (j + first) * column;
        if (p.bias == DISTANCE_BIAS) {
            row = sizeof(T), column = -row;
            at = out.dbias + (p.m - 1 + i - j - first) * row;
        }
        int64_t c = first;
        if (row && column == sizeof(T))
            for (; c + L<T> <= last; c += L<T>, at += L<T> * column)
                for (int64_t r = 0; r < rows; r += L<T>) {
                    V<T> square[L<T>];
                    UNROLL for (int u = 0; u < L<T>; u++) square[u] = load(dstrip + (c + u) * W + r);
                    turn<T>(square);
                    for (int64_t u = 0; u < std::min<int64_t>(L<T>, rows - r); u++) {
                        T* to = reinterpret_cast<T*>(at + (r + u) * row);
                        store(to, load(to) + square[u]);
                    }
                }
        for (; c < last; c++, at += column)
            for (int64_t r = 0; r < rows; r++) *reinterpret_cast<T*>(at + r * row) += dstrip[c * W + r];
    }

    void pull_products(int64_t j, int64_t first, int64_t last) {
        const T factor = T(p.scale);
        for (int64_t c = first * W; c < last * W; c += L<T>) store(dstrip + c, load(dstrip + c) * factor);
        add_product<T>(out.dkeys + (j + first) * filled(p.d), filled(p.d), last - first, p.d, dstrip + first * W,
                             W, rows_q, filled(p.d), rows);
        Block<T> keys = finite_keys(rows_of<T>(p.keys, p.keys_type, item, j, last, p.d, this->keys_room), first, last);
        in_steps<ROWS>(0, p.d, [&](auto size, int64_t c) {
            constexpr int R = decltype(size)::value;
            V<T> sums[R][NV];
            UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int v = 0; v < NV; v++) sums[r][v] = load(dqueries + (c + r) * W + v * L<T>);
            product<T, R, NV, false>(sums, keys.at + first * keys.stride + c, keys.stride, dstrip + first * W, W,
                                     last - first);
            UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int v = 0; v < NV; v++) store(dqueries + (c + r) * W + v * L<T>, sums[r][v]);
        });
    }

    // Keys with 0 in place of what is not finite; where that is seen, weights are NaN already.
    Block<T> finite_keys(Block<T> keys, int64_t first, int64_t last) {
        T witness = 0;
        for (int64_t c = first; c < last; c++) {
            const T* row = keys.at + c * keys.stride;
            V<T> sums{};
            int64_t f = 0;
            for (; f + L<T> <= p.d; f += L<T>) sums += load(row + f) * T(0);
            witness += sum<T>(sums);
            for (; f < p.d; f++) witness += row[f] * T(0);
        }
        if (witness == 0) return keys;
        for (int64_t c = first; c < last; c++)
            for (int64_t f = 0; f < p.d; f++) this->keys_room[c * p.d + f] = finite(keys.at[c * keys.stride + f]);
        return {this->keys_room, p.d};
    }

    void pull_pairs(int64_t j, int64_t first, int64_t last) {
        T* dkeys = out.dkeys + j * filled(p.d);
        for (int64_t c = first; c < last; c++)
            for (int64_t r = 0; r < rows; r++) {
                T down = dstrip[c * W + r] * T(p.scale);
                if (p.score == DISTANCES) pull_distance(r, c, down, dkeys);
                else if (left.wild[r] || right.wild[c]) pull_wild(r, c, down, dkeys), down = 0;
                dstrip[c * W + r] = down;
            }
        if (p.score == PERCEPTRON) in_steps<4>(0, rows, [&](auto size, int64_t r) {
            constexpr int R = decltype(size)::value;
            pull_perceptron<R>(r, first, last, dkeys);
        });
    }

    // With s = 1 / (1 + exp(2 x)): tanh x = 1 - 2 s, and its slope is 4 (s - s^2).
    template <int R>
    INLINE void pull_perceptron(int64_t r, int64_t first, int64_t last, T* dkeys) {
        for (int64_t f = 0; f < left.width; f += L<T>) {
            V<T> exps[R], dleft[R], dvector{}, slope = load(this->of_pairs.vector + f) * T(4);
            UNROLL for (int u = 0; u < R; u++) {
                exps[u] = load(left.exps + (r + u) * left.width + f);
                dleft[u] = load(dqueries + (r + u) * filled(p.d) + f);
            }
            for (int64_t c = first; c < last; c++) {
                V<T> key = load(right.exps + c * right.width + f), dright = load(dkeys + c * filled(p.d) + f);
                UNROLL for (int u = 0; u < R; u++) {
                    V<T> down = all(dstrip[c * W + r + u]);
                    V<T> s = reciprocal(fma(exps[u], key, all(T(1))));
                    V<T> steep = fma(-s, s, s) * slope;
                    dleft[u] = fma(down, steep, dleft[u]);
                    dright = fma(down, steep, dright);
                    dvector = fma(down, fma(all(T(-2)), s, all(T(1))), dvector);
                }
                store(dkeys + c * filled(p.d) + f, dright);
            }
            UNROLL for (int u = 0; u < R; u++) store(dqueries + (r + u) * filled(p.d) + f, dleft[u]);
            store(out.dlearned + f, load(out.dlearned + f) + dvector);
        }
    }

    void pull_wild(int64_t r, int64_t c, T down, T* dkeys) {
        if (down == 0) return;
        const T* vector = static_cast<const T*>(p.vector);
        for (int64_t f = 0; f < p.d; f++) {
            T high = std::tanh(left.rows.at[r * left.rows.stride + f] + right.rows.at[c * right.rows.stride + f]);
            T steep = down * vector[f] * (1 - high * high);
            dqueries[r * filled(p.d) + f] += steep, dkeys[c * filled(p.d) + f] += steep;
            out.dlearned[f] += down * high;
        }
    }

    void pull_distance(int64_t r, int64_t c, T down, T* dkeys) {
        if (down == 0) return;  // not seen: no influence, be it infinitely far
        const T inverse = this->of_pairs.inverse;
        T squares = 0;
        for (int64_t f = 0; f < p.d; f++) {
            T apart = (left.rows.at[r * left.rows.stride + f] - right.rows.at[c * right.rows.stride + f]) * inverse;
            squares += apart * apart;
            dqueries[r * filled(p.d) + f] -= down * apart * inverse;
            dkeys[c * filled(p.d) + f] += down * apart * inverse;
        }
        *out.dlearned += down * squares * inverse;
    }

    T* found() const { return static_cast<T*>(p.dqueries) + (item * p.n + i) * p.d; }

    void read() {
        if (p.score == PRODUCTS) return turn_rows<T>(found(), p.d, rows, p.d, dqueries, W, W, nullptr);
        for (int64_t r = 0; r < rows; r++) memcpy(dqueries + r * filled(p.d), found() + r * p.d, p.d * sizeof(T));
    }

    void write() {
        if (p.score == PRODUCTS) return turn_back<T>(dqueries, W, rows, p.d, found(), p.d);
        for (int64_t r = 0; r < rows; r++) memcpy(found() + r * p.d, dqueries + r * filled(p.d), p.d * sizeof(T));
    }
};

#endif

// ---- tasks ---------------------------------------------------------------------------------------------------

inline int64_t cut(int64_t length, int64_t step) { return (length + step - 1) / step; }

// Where few queries lie: packs of rows of a group of items, and chunks of keys.
struct Packs {
    const Problem& p;
    int64_t chunks;
    explicit Packs(const Problem& p) : p(p), chunks(cut(p.m, CHUNK)) {}
    int64_t of(int64_t group) const { return cut((p.first(group + 1) - p.first(group)) * p.n, PACK); }
    int64_t count() const {
        if (p.groups == p.items) return p.items;
        int64_t packs = 0;
        for (int64_t g = 0; g < p.groups; g++) packs += of(g);
        return packs;
    }
    struct Place {
        int64_t first_item, row, rows, ahead;  // rows of all packs before
    };
    Place place(int64_t pack) const {
        int64_t g = p.groups == p.items ? pack : 0;
        if (p.groups != p.items)
            for (; pack >= of(g); g++) pack -= of(g);
        else pack = 0;
        int64_t first = p.first(g), all_rows = (p.first(g + 1) - first) * p.n;
        return {first, pack * PACK, std::min<int64_t>(PACK, all_rows - pack * PACK), first * p.n + pack * PACK};
    }
};

template <class T>
void few(const Problem& p, int64_t task, char* shared, Room room) {
    Packs packs(p);
    Packs::Place at = packs.place(task / packs.chunks);
    int64_t chunk = task % packs.chunks, size = Partial<T>::size(p.e);
    Partial<T> found[PACK];
    T* own = packs.chunks == 1 ? room.take<T>(size * at.rows) : nullptr;
    for (int64_t r = 0; r < at.rows; r++)
        found[r].at = own ? own + r * size
                          : reinterpret_cast<T*>(shared) + ((at.ahead + r) * packs.chunks + chunk) * size;
    Few<T>(p, at.first_item, at.row, at.rows, chunk * CHUNK, std::min(p.m, (chunk + 1) * CHUNK), room).run(found);
    if (own)
        for (int64_t r = 0; r < at.rows; r++) write<T>(p, found[r], (at.ahead + r) / p.n, (at.ahead + r) % p.n);
}

template <class T>
void merge(const Problem& p, int64_t row, char* shared, Room room) {
    int64_t chunks = cut(p.m, CHUNK), size = Partial<T>::size(p.e);
    Partial<T> whole{room.take<T>(size)};
    memset(whole.at, 0, size * sizeof(T));
    whole.top() = -INF<T>;
    for (int64_t c = 0; c < chunks; c++) {
        Partial<T> part{reinterpret_cast<T*>(shared) + (row * chunks + c) * size};
        if (part.top() == -INF<T>) continue;
        absorb<T>(whole, part, p.e);
    }
    write<T>(p, whole, row / p.n, row % p.n);
}

template <class T>
int64_t tiles(const Problem& p) {
    return cut(p.n, WIDE * L<T>);
}

template <class T>
void tile(const Problem& p, int64_t task, Room room) {
    constexpr int64_t width = WIDE * L<T>;
    int64_t item = task / tiles<T>(p), i = task % tiles<T>(p) * width, rows = std::min(width, p.n - i);
    if (rows > 2 * L<T>) Tile<T, 3>(p, item, i, rows, room).run();
    else if (rows > L<T>) Tile<T, 2>(p, item, i, rows, room).run();
    else Tile<T, 1>(p, item, i, rows, room).run();
}

template <class T>
int64_t forward_scratch(const Problem& p) {
    constexpr int64_t W = WIDE * L<T>, K = KEYS_AT_ONCE;
    int64_t width = width_of<T>(p.d), numbers;
    if (p.n <= FEW)
        numbers = PACK * (K + 2 * p.d + 1 + Partial<T>::size(p.e) + width) + K * (1 + p.d + width_of<T>(p.e) + width) +
                  4 * L<T> * p.d + width;
    else
        numbers = 2 * K * W + W * (2 * p.d + 3 * p.e + width) + K * (p.d + width_of<T>(p.e) + width) + width;
    return numbers * int64_t(sizeof(T)) + 4096;
}

template <class T>
int64_t forward_shared(const Problem& p) {
    return p.n <= FEW && p.m > CHUNK ? p.items * p.n * cut(p.m, CHUNK) * Partial<T>::size(p.e) * int64_t(sizeof(T)) : 0;
}
template <class T>
int64_t forward_tasks(const Problem& p, int phase) {
    if (phase == 0) return p.n <= FEW ? Packs(p).count() * cut(p.m, CHUNK) : p.items * tiles<T>(p);
    return phase == 1 && p.n <= FEW && p.m > CHUNK ? p.items * p.n : 0;
}
template <class T>
void forward(const Problem& p, int phase, int64_t task, char* shared, char* scratch) {
    if (phase == 1) merge<T>(p, task, shared, Room{scratch});
    else if (p.n <= FEW) few<T>(p, task, shared, Room{scratch});
    else tile<T>(p, task, Room{scratch});
}

#if defined(__AVX512BF16__)
}  // namespace ISA
namespace avx512 { extern const Kernel kernel; }  // does everything that is not made of pairs
namespace ISA {

bool paired(const Problem& p, bool backward) {
    return !backward && p.score == PRODUCTS && p.d % 2 == 0 && p.queries_type == BFLOAT16 && p.keys_type == BFLOAT16 &&
           p.values_type == BFLOAT16;
}
int64_t shared(const Problem& p, bool backward) {
    return paired(p, backward) ? forward_shared<float>(p) : avx512::kernel.shared(p, backward);
}
int64_t scratch(const Problem& p, bool backward) {
    return paired(p, backward) ? forward_scratch<float>(p) : avx512::kernel.scratch(p, backward);
}
int64_t tasks(const Problem& p, bool backward, int phase) {
    return paired(p, backward) ? forward_tasks<float>(p, phase) : avx512::kernel.tasks(p, backward, phase);
}
void run(const Problem& p, bool backward, int phase, int64_t task, char* shared, char* scratch) {
    if (paired(p, backward)) forward<float>(p, phase, task, shared, scratch);
    else avx512::kernel.run(p, backward, phase, task, shared, scratch);
}
void exp2_all(const void* x, void* y, int64_t count, int32_t type) { avx512::kernel.exp2(x, y, count, type); }
#else
template <class T>
int64_t backward_scratch(const Problem& p) {
    constexpr int64_t W = WIDE * L<T>, K = KEYS_AT_ONCE;
    int64_t width = width_of<T>(p.d);
    int64_t numbers = 4 * K * W + W * (3 * p.d + p.e + 2 * filled(p.d) + filled(p.e) + width) +
                      K * (p.d + p.e + width) + width;
    return numbers * int64_t(sizeof(T)) + 4096;
}

constexpr int64_t NEAR = 512;  // keys whose gradients stay in the second cache while all queries pass

// One part of the queries of one group of items; all groups where a bias collects from them all.
template <class T>
void back(const Problem& p, int64_t task, Room room) {
    constexpr int64_t width = WIDE * L<T>;
    int64_t part = p.serial ? task : task % p.parts, group = p.serial ? 0 : task / p.parts;
    int64_t last_group = p.serial ? p.groups : group + 1, learned = p.score == PERCEPTRON ? filled(p.d) : 1;
    for (; group < last_group; group++) {
        int64_t place = group * p.parts + part;
        for (int64_t item = p.first(group); item < p.first(group + 1); item++) {
            Collected<T> out = {static_cast<T*>(p.dkeys) + place * p.m * filled(p.d),
                                static_cast<T*>(p.dvalues) + place * p.m * filled(p.e),
                                static_cast<T*>(p.dlearned) + place * learned,
                                p.dbias ? reinterpret_cast<char*>(p.dbias[item * p.parts + part]) : nullptr};
            int64_t start = tiles<T>(p) * part / p.parts, stop = tiles<T>(p) * (part + 1) / p.parts;
            for (int64_t j = 0; j < p.m; j += NEAR)
                for (int64_t t = start; t < stop; t++) {
                    int64_t i = t * width, rows = std::min(width, p.n - i), last = std::min(j + NEAR, p.m);
                    if (rows > L<T>) Back<T, 3>(p, item, i, rows, room, out).run(j, last);
                    else Back<T, 1>(p, item, i, rows, room, out).run(j, last);
                }
        }
    }
}

#define OF_TYPE(F, ...) (p.compute == FLOAT32 ? F<float>(__VA_ARGS__) : F<double>(__VA_ARGS__))
int64_t shared(const Problem& p, bool backward) { return backward ? 0 : OF_TYPE(forward_shared, p); }
int64_t scratch(const Problem& p, bool backward) {
    return backward ? OF_TYPE(backward_scratch, p) : OF_TYPE(forward_scratch, p);
}
int64_t tasks(const Problem& p, bool backward, int phase) {
    if (!backward) return OF_TYPE(forward_tasks, p, phase);
    return phase ? 0 : p.serial ? p.parts : p.groups * p.parts;
}
void run(const Problem& p, bool backward, int phase, int64_t task, char* shared, char* scratch) {
    if (backward) OF_TYPE(back, p, task, Room{scratch});
    else OF_TYPE(forward, p, phase, task, shared, scratch);
}

template <class T>
void exp2_each(const void* x, void* y, int64_t count) {
    for (int64_t i = 0; i < count; i += L<T>)
        store(static_cast<T*>(y) + i, exp2<T>(load(static_cast<const T*>(x) + i)));
}
void exp2_all(const void* x, void* y, int64_t count, int32_t type) {
    type == FLOAT32 ? exp2_each<float>(x, y, count) : exp2_each<double>(x, y, count);
}
#endif

#define STRING(x) #x
#define NAME(x) STRING(x)
extern const Kernel kernel;
const Kernel kernel = {NAME(ISA), shared, scratch, tasks, run, exp2_all};

}  // namespace ISA
}  // namespace regard
