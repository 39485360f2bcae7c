// Masks: evaluation of a mask program for blocks and for pairs of queries and keys.
#pragma once

#include "core/lanes.h"

namespace regard {
#if defined(__AVX512BF16__)
namespace avx512 {
extern const Kernel kernel;
}
namespace ISA {
// What does not depend on bfloat16 is done by AVX-512. Its table is read at each call: copies of its entries would be
// made while the library is loaded, by instructions that the processor may not have.
template <auto ENTRY, class F>
struct Avx512;
template <auto ENTRY, class R, class... A>
struct Avx512<ENTRY, R (*Kernel::*)(A...)> {
    static R call(A... a) { return (avx512::kernel.*ENTRY)(a...); }
};
template <auto ENTRY, class R, class... A>
struct Avx512<ENTRY, R (*Training::*)(A...)> {
    static R call(A... a) { return (avx512::kernel.training.*ENTRY)(a...); }
};
template <auto ENTRY>
constexpr auto of_avx512 = Avx512<ENTRY, decltype(ENTRY)>::call;

constexpr auto classify_block = of_avx512<&Kernel::classify_block>;
constexpr auto evaluate_mask = of_avx512<&Kernel::evaluate_mask>;
}  // namespace ISA
#else
namespace ISA {

INLINE Visibility visibility_of(bool any, bool every) { return every ? ALL_PAIRS : any ? SOME_PAIRS : NO_PAIR; }

// Vectors of 64-bit document ids and of 64-bit mask words.
constexpr int WORD_LANES = BYTES / 8;
typedef int64_t Id __attribute__((vector_size(BYTES), aligned(8), may_alias));
typedef uint64_t Word __attribute__((vector_size(BYTES), aligned(8), may_alias));

// The smallest and the largest of some document ids.
struct IdRange {
    int64_t lowest, highest;
};
inline IdRange id_range(const int64_t* at, int64_t count) {
    Id lowest = *at - Id{}, highest = lowest;
    int64_t c = 0;
    auto include = [&](Id x) INLINE_LAMBDA { lowest = x < lowest ? x : lowest, highest = x > highest ? x : highest; };
    for (; c + WORD_LANES <= count; c += WORD_LANES) include(*reinterpret_cast<const Id*>(at + c));
    for (; c < count; c++) include(at[c] - Id{});
    IdRange ids = {lowest[0], highest[0]};
    for (int u = 1; u < WORD_LANES; u++)
        ids = {std::min<int64_t>(ids.lowest, lowest[u]), std::max<int64_t>(ids.highest, highest[u])};
    return ids;
}

INLINE Visibility classify_leaf(const Node& x, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys) {
    switch (x.kind) {
    case BAND: {
        int64_t first = j - (i + rows - 1), last = j + keys - 1 - i;  // the smallest and the largest j - i
        return visibility_of(last >= x.low && first <= x.high, first >= x.low && last <= x.high);
    }
    case KEYS:
        return visibility_of(x.left[item] > j, x.left[item] >= j + keys);
    case QUERIES:
        return visibility_of(x.left[item] > i, x.left[item] >= i + rows);
    case DOCUMENTS: {
        auto* a = reinterpret_cast<const int64_t*>(x.left[item]) + i;
        auto* b = reinterpret_cast<const int64_t*>(x.right[item]) + j;
        const IdRange left = id_range(a, rows), right = id_range(b, keys);
        return visibility_of(left.lowest <= right.highest && right.lowest <= left.highest,
                             left.lowest == left.highest && right.lowest == right.highest &&
                                 left.lowest == right.lowest);
    }
    case DENSE:
        return SOME_PAIRS;
    default:
        __builtin_trap();  // as above
    }
}

// Classify a block without evaluating pairs. SOME_PAIRS means that the mask has to be evaluated.
NOINLINE inline Visibility classify_block(const Problem& p, int64_t item, int64_t i, int64_t rows, int64_t j,
                                          int64_t keys) {
    if (!p.nodes) return ALL_PAIRS;
    Visibility stack[STACK_DEPTH] = {};
    int top = 0;
    for (int64_t s = 0; s < p.nodes; s++) {
        const Node& x = p.program[s];
        if (x.kind == NOT) stack[top - 1] = Visibility(ALL_PAIRS - stack[top - 1]);
        else if (x.kind == BOTH) top--, stack[top - 1] = std::min(stack[top - 1], stack[top]);
        else stack[top++] = classify_leaf(x, item, i, rows, j, keys);
    }
    return stack[0];
}

// A word with the bits from `first` to `last` - 1 set.
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
            uint64_t bytes;
            memcpy(&bytes, x + c, 8);
            bytes |= bytes >> 4, bytes |= bytes >> 2, bytes |= bytes >> 1;  // any bit of a byte makes it true
            bytes &= 0x0101010101010101;
            bits |= ((bytes * 0x0102040810204080) >> 56) << c;
        }
    for (; c < count; c++) bits |= uint64_t(x[c * step] != 0) << c;
    return bits;
}

// Swap bits at a distance of `STEP` columns and rows, where both rows are in one vector.
template <int STEP, int... C>
INLINE Word exchange(Word x, uint64_t low, std::integer_sequence<int, C...>) {
    const Word from_above = {(C & STEP ? 0 : low << STEP)...}, from_below = {(C & STEP ? low : 0)...};
    Word other = __builtin_shufflevector(x, x, (C ^ STEP)...);
    return (x & ~(from_above | from_below)) | (other << STEP & from_above) | (other >> STEP & from_below);
}
// Transpose 64 x 64 bits by swapping ever smaller off-diagonal squares (Warren, "Hacker's Delight", section 7-3).
template <int STEP = 32>
INLINE void transpose_bits(uint64_t* words) {
    constexpr uint64_t LOW = ~uint64_t(0) / ((uint64_t(1) << STEP) + 1);  // columns whose index has this bit clear
    auto at = [&](int row) INLINE_LAMBDA -> Word& { return *reinterpret_cast<Word*>(words + row); };
    for (int k = 0; k < 64; k += WORD_LANES)
        if constexpr (STEP < WORD_LANES) {
            at(k) = exchange<STEP>(at(k), LOW, std::make_integer_sequence<int, WORD_LANES>());
        } else if (!(k & STEP)) {
            Word moved = (at(k) >> STEP ^ at(k + STEP)) & LOW;
            at(k) ^= moved << STEP, at(k + STEP) ^= moved;
        }
    if constexpr (STEP > 1) transpose_bits<STEP / 2>(words);
}

inline void evaluate_leaf(const Node& x, int64_t item, int64_t i, int64_t rows, int64_t j, int64_t keys,
                          MaskWords& words) {
    switch (x.kind) {
    case BAND:
        for (int64_t c = 0; c < keys; c++) words[c] = range(j + c - x.high - i, j + c - x.low - i + 1);
        return;
    case KEYS:
        for (int64_t c = 0; c < keys; c++) words[c] = j + c < x.left[item] ? ~uint64_t(0) : 0;
        return;
    case QUERIES:
        std::fill_n(words, keys, range(0, x.left[item] - i));
        return;
    case DOCUMENTS: {
        auto* left = reinterpret_cast<const int64_t*>(x.left[item]) + i;
        auto* right = reinterpret_cast<const int64_t*>(x.right[item]) + j;
        for (int64_t c = 0; c < keys; c++) {
            if (c && right[c] == right[c - 1]) words[c] = words[c - 1];
            else words[c] = bits_of(rows, [&](int64_t r) INLINE_LAMBDA { return left[r] == right[c]; });
        }
        return;
    }
    case DENSE:
        for (int64_t w = 0; w < keys; w += 64) {
            for (int64_t r = 0; r < 64; r++) {
                auto* at = reinterpret_cast<const uint8_t*>(x.left[item]) + (i + r) * x.row + (j + w) * x.column;
                // the stride is too large for the hardware prefetcher
                __builtin_prefetch(at + KEY_BLOCK * x.column);
                words[w + r] = r < rows ? bits_of_bools(at, x.column, std::min<int64_t>(64, keys - w)) : 0;
            }
            transpose_bits(words + w);
        }
        return;
    default:
        __builtin_trap();  // a problem with an unknown step is not run
    }
}

NOINLINE inline Visibility evaluate_mask(const Problem& p, int64_t item, int64_t i, int64_t rows, int64_t j,
                                         int64_t keys, BlockMask& mask) {
    mask.first = 0, mask.last = keys;
    Visibility visibility = classify_block(p, item, i, rows, j, keys);
    if (visibility != SOME_PAIRS) return visibility;
    MaskWords stack[STACK_DEPTH];
    int top = 0;
    for (int64_t n = 0; n < p.nodes; n++) {
        const Node& x = p.program[n];
        if (x.kind == NOT)
            for (uint64_t& word : stack[top - 1]) word = ~word;
        else if (x.kind == BOTH) {
            top--;
            for (int c = 0; c < KEY_BLOCK; c++) stack[top - 1][c] &= stack[top][c];
        } else evaluate_leaf(x, item, i, rows, j, keys, stack[top++]);
    }
    const uint64_t valid_queries = range(0, rows);
    Word full_keys = {};
    for (int64_t c = 0; c < KEY_BLOCK; c += WORD_LANES) {
        Word words = *reinterpret_cast<const Word*>(stack[0] + c) & valid_queries;
        *reinterpret_cast<Word*>(mask.words + c) = words;
        full_keys -= words == valid_queries;
    }
    int64_t count = 0;
    // keys beyond the block do not count
    for (int64_t c = keys; c < KEY_BLOCK; c++) count -= mask.words[c] == valid_queries;
    for (int u = 0; u < WORD_LANES; u++) count += int64_t(full_keys[u]);
    while (mask.first < mask.last && !mask.words[mask.first]) mask.first++;
    while (mask.first < mask.last && !mask.words[mask.last - 1]) mask.last--;
    return mask.first == mask.last ? NO_PAIR : visibility_of(true, count == mask.last - mask.first);
}

}  // namespace ISA
#endif

namespace ISA {
// The end of the keys that any of these queries may see, as far as block classification can tell.
NOINLINE inline int64_t visible_end(const Problem& p, int64_t item, int64_t i, int64_t rows) {
    int64_t end = p.m;
    for (int64_t step : {int64_t(CHUNK), int64_t(KEY_BLOCK)})
        while (end > 0) {
            const int64_t start = (end - 1) / step * step;
            if (classify_block(p, item, i, rows, start, end - start) != NO_PAIR) break;
            end = start;
        }
    return end;
}
}  // namespace ISA
}  // namespace regard
