// Who may see whom: the program of a mask, answered for blocks and for pairs.
#pragma once

#include "core/lanes.h"

namespace regard {
#if defined(__AVX512BF16__)
namespace avx512 { extern const Kernel kernel; }  // does everything that is not made of pairs, as masks are not
namespace ISA {
inline Seen guess(const Problem& p, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys) {
    return avx512::kernel.guess(p, item, i, rows, j, keys);
}
inline Seen look(const Problem& p, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys, Visibility& s) {
    return avx512::kernel.look(p, item, i, rows, j, keys, s);
}
}  // namespace ISA
#else
namespace ISA {

constexpr int DEPTH = 32;      // of the program's stack; the Python side checks it

INLINE Seen among(bool any, bool every) { return every ? EVERYBODY : any ? SOME : NOBODY; }

// Vectors of ids and of words of bits, each of 64 bits.
constexpr int ABREAST = BYTES / 8;
typedef int64_t Id __attribute__((vector_size(BYTES), aligned(8), may_alias));
typedef uint64_t Word __attribute__((vector_size(BYTES), aligned(8), may_alias));

// Between which numbers some documents' ids lie.
struct Ids {
    int64_t least, most;
};
inline Ids ids_of(const int64_t* at, int64_t count) {
    Id least = *at - Id{}, most = least;
    int64_t c = 0;
    auto take = [&](Id x) INLINE_LAMBDA { least = x < least ? x : least, most = x > most ? x : most; };
    for (; c + ABREAST <= count; c += ABREAST) take(*reinterpret_cast<const Id*>(at + c));
    for (; c < count; c++) take(at[c] - Id{});
    Ids ids = {least[0], most[0]};
    for (int u = 1; u < ABREAST; u++) ids = {std::min<int64_t>(ids.least, least[u]), std::max<int64_t>(ids.most, most[u])};
    return ids;
}

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
            const Ids left = ids_of(a, rows), right = ids_of(b, keys);
            return among(left.least <= right.most && right.least <= left.most,
                         left.least == left.most && right.least == right.most && left.least == right.least);
        }
        default: return SOME;
    }
}

// Answer for a block without looking at pairs; SOME means that only a look can tell.
ONCE inline Seen guess(const Problem& p, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys) {
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

template <class F>
INLINE uint64_t bits_of(int64_t count, F&& is_set) {
    uint64_t bits = 0;
    for (int64_t c = 0; c < count; c++) bits |= uint64_t(is_set(c)) << c;
    return bits;
}

INLINE uint64_t bits_of_bools(const uint8_t* x, int64_t step, int64_t count) {
    uint64_t bits = 0;
    int64_t c = 0;
#if defined(__AVX512BW__)
    if (step == 1 && count == 64) {
        __m512i bytes = _mm512_loadu_si512(x);
        return _mm512_test_epi8_mask(bytes, bytes);
    }
#elif defined(__AVX2__)
    if (step == 1)
        for (; c + 32 <= count; c += 32) {
            __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + c));
            bits |= uint64_t(~uint32_t(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, __m256i{})))) << c;
        }
#endif
    if (step == 1)
        for (; c + 8 <= count; c += 8) {
            uint64_t eight;
            memcpy(&eight, x + c, 8);
            eight |= eight >> 4, eight |= eight >> 2, eight |= eight >> 1;  // any bit of a byte makes it true
            eight &= 0x0101010101010101;
            bits |= ((eight * 0x0102040810204080) >> 56) << c;
        }
    for (; c < count; c++) bits |= uint64_t(x[c * step] != 0) << c;
    return bits;
}

// Exchange bits `STEP` columns and rows apart, where both rows lie in one vector.
template <int STEP, int... C>
INLINE Word exchange(Word x, uint64_t low, std::integer_sequence<int, C...>) {
    const Word from_above = {(C & STEP ? 0 : low << STEP)...}, from_below = {(C & STEP ? low : 0)...};
    Word other = __builtin_shufflevector(x, x, (C ^ STEP)...);
    return (x & ~(from_above | from_below)) | (other << STEP & from_above) | (other >> STEP & from_below);
}
// Turn a square of 64 x 64 bits over: of ever smaller squares, those beside the diagonal change places (Warren, "Hacker's
// Delight", section 7-3).
template <int STEP = 32>
INLINE void turn_bits(uint64_t* words) {
    constexpr uint64_t LOW = ~uint64_t(0) / ((uint64_t(1) << STEP) + 1);  // columns whose number lacks this bit
    auto at = [&](int row) INLINE_LAMBDA -> Word& { return *reinterpret_cast<Word*>(words + row); };
    for (int k = 0; k < 64; k += ABREAST)
        if constexpr (STEP < ABREAST) {
            at(k) = exchange<STEP>(at(k), LOW, std::make_integer_sequence<int, ABREAST>());
        } else if (!(k & STEP)) {
            Word moved = (at(k) >> STEP ^ at(k + STEP)) & LOW;
            at(k) ^= moved << STEP, at(k + STEP) ^= moved;
        }
    if constexpr (STEP > 1) turn_bits<STEP / 2>(words);
}

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
                if (c && right[c] == right[c - 1]) words[c] = words[c - 1];
                else words[c] = bits_of(rows, [&](int64_t r) INLINE_LAMBDA { return left[r] == right[c]; });
            }
            return;
        }
        default:
            for (int64_t w = 0; w < keys; w += 64) {
                for (int64_t r = 0; r < 64; r++) {
                    auto* at = reinterpret_cast<const uint8_t*>(x.left[item]) + (i + r) * x.row + (j + w) * x.column;
                    __builtin_prefetch(at + KEYS_AT_ONCE * x.column);  // rows lie too far apart for the machine to see
                    words[w + r] = r < rows ? bits_of_bools(at, x.column, std::min<int64_t>(64, keys - w)) : 0;
                }
                turn_bits(words + w);
            }
    }
}

ONCE inline Seen look(const Problem& p, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys, Visibility& s) {
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
    Word whole = {};
    for (int64_t c = 0; c < KEYS_AT_ONCE; c += ABREAST) {
        Word words = *reinterpret_cast<const Word*>(stack[0] + c) & real;
        *reinterpret_cast<Word*>(s.words + c) = words;
        whole -= words == real;
    }
    int64_t count = 0;
    for (int64_t c = keys; c < KEYS_AT_ONCE; c++) count -= s.words[c] == real;  // there is no such key
    for (int u = 0; u < ABREAST; u++) count += int64_t(whole[u]);
    while (s.first < s.last && !s.words[s.first]) s.first++;
    while (s.first < s.last && !s.words[s.last - 1]) s.last--;
    return s.first == s.last ? NOBODY : among(true, count == s.last - s.first);
}

}  // namespace ISA
#endif

namespace ISA {
// One more than the last key that any of some queries may see, as far as guesses tell.
ONCE inline int64_t end_of_sight(const Problem& p, int64_t item, int64_t i, int64_t rows) {
    int64_t end = p.m;
    for (int64_t step : {int64_t(CHUNK), int64_t(KEYS_AT_ONCE)})
        while (end > 0) {
            const int64_t start = (end - 1) / step * step;
            if (guess(p, item, i, rows, start, end - start) != NOBODY) break;
            end = start;
        }
    return end;
}
}  // namespace ISA
}  // namespace regard
