// Products of matrices of bfloat16, where the processor has a unit for them (Intel's AMX).
#pragma once

#include "core/prefetch.h"

namespace regard {
namespace ISA {

// The unit multiplies 16 rows of 16 pairs with 16 pairs in each of 16 columns. It adds up the pairs' first numbers and,
// apart from them, their second numbers; then both sums together; then that to what there is. So sums are taken for
// steps of 32 numbers, and those of keys must begin where a multiple of 32 does, to be the same wherever somebody begins.
#if defined(__AMX_BF16__)
constexpr bool UNIT = true;
#else
constexpr bool UNIT = false;
#endif
constexpr int64_t SIDE = 16, SUMMED = 32;  // rows, and columns; numbers that are added up at a time
INLINE int64_t up_to(int64_t step, int64_t count) { return (count + step - 1) / step * step; }

#if defined(__AMX_BF16__)
struct Unit {  // is set up for as long as this lives; others find it as they left it
    struct alignas(64) Setup {
        uint8_t palette, start, unused[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } before;

    Unit() : Unit(SIDE, SUMMED) {}
    // Squares of less than that: 1, 3 and 7 have so many rows; 5 has so many columns and 6 what it is multiplied with.
    Unit(int64_t few, int64_t last) {
        Setup all{};
        all.palette = 1;
        for (int i = 0; i < 8; i++) all.bytes[i] = 64, all.rows[i] = SIDE;
        all.rows[1] = all.rows[3] = all.rows[7] = uint8_t(few);
        all.bytes[5] = uint16_t(2 * last), all.rows[6] = uint8_t(last / 2);
        __asm__ volatile("sttilecfg %0" : "=m"(before));
        __asm__ volatile("ldtilecfg %0" ::"m"(all));
    }
    ~Unit() { __asm__ volatile("ldtilecfg %0" ::"m"(before)); }
};

// Rows of numbers, or of pairs, so many bytes apart.
struct Bytes {
    const char* at;
    int64_t row;
};

// c += a b, or = a b where not `more`, for R times SIDE rows of a and C times SIDE columns of pairs b; `depth` numbers are
// added up, a multiple of SUMMED.
template <int R, int C>
INLINE void multiply_squares(float* c, int64_t row, Bytes a, Bytes b, int64_t depth, bool more) {
    float* const below = c + SIDE * row;
    __asm__ volatile("" ::: "memory");
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (more) {
        _tile_loadd(0, c, row * 4);
        if constexpr (C > 1) _tile_loadd(1, c + SIDE, row * 4);
        if constexpr (R > 1) _tile_loadd(2, below, row * 4);
        if constexpr (R > 1 && C > 1) _tile_loadd(3, below + SIDE, row * 4);
    }
    for (int64_t k = 0; k < depth; k += SUMMED, a.at += 2 * SUMMED, b.at += SIDE * b.row) {
        _tile_loadd(6, b.at, b.row);
        _tile_loadd(4, a.at, a.row);
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (C > 1) _tile_loadd(7, b.at + 4 * SIDE, b.row);
        if constexpr (C > 1) _tile_dpbf16ps(1, 4, 7);
        if constexpr (R > 1) _tile_loadd(5, a.at + SIDE * a.row, a.row);
        if constexpr (R > 1) _tile_dpbf16ps(2, 5, 6);
        if constexpr (R > 1 && C > 1) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, row * 4);
    if constexpr (C > 1) _tile_stored(1, c + SIDE, row * 4);
    if constexpr (R > 1) _tile_stored(2, below, row * 4);
    if constexpr (R > 1 && C > 1) _tile_stored(3, below + SIDE, row * 4);
    __asm__ volatile("" ::: "memory");
}
// The same for R times SIDE rows and any multiple of SIDE columns.
template <int R, int64_t COLUMNS>
INLINE void multiply_unit(float* c, int64_t row, Bytes a, Bytes b, int64_t depth, bool more) {
    constexpr int C = COLUMNS % (2 * SIDE) ? 1 : 2;
    for (int64_t x = 0; x < COLUMNS; x += C * SIDE)
        multiply_squares<R, C>(c + x, row, a, {b.at + 4 * x, b.row}, depth, more);
}

// The first `count` of SUMMED numbers.
INLINE __mmask32 first_of_halves(int64_t count) { return count >= SUMMED ? ~0u : count > 0 ? (1u << count) - 1 : 0; }

// Rows of an item's matrix as the unit reads them, `rows` of them, filled up with 0 to a multiple of SIDE rows and SUMMED
// columns; in place where nothing is to be filled up.
inline Bytes filled_rows(const Matrices& x, int64_t item, int64_t row, int64_t rows, int64_t columns, char* room) {
    const char* start = reinterpret_cast<const char*>(x.at(item)) + row * x.row;
    const int64_t bytes = 2 * up_to(SUMMED, columns);
    if (rows % SIDE == 0 && bytes == 2 * columns) return {start, x.row};
    for (int64_t r = 0; r < up_to(SIDE, rows); r++)
        for (int64_t c = 0; c < columns; c += SUMMED)
            _mm512_storeu_si512(room + r * bytes + 2 * c,
                                _mm512_maskz_loadu_epi16(first_of_halves(r < rows ? columns - c : 0), start + r * x.row + 2 * c));
    return {room, bytes};
}

// SUMMED rows turned over: out[f * step + r] = row r's number f, and 0 beyond `rows` and up to a multiple of SIDE numbers.
inline void turn_step(const Matrices& x, int64_t item, int64_t row, int64_t rows, int64_t columns, uint16_t* out,
                      int64_t step) {
    using P = Pieces<uint16_t>;
    const char* start = reinterpret_cast<const char*>(x.at(item)) + row * x.row;
    int64_t f = 0;
    if (rows == SUMMED) {
        typename P::Rows at;
        P::begin(at, start, x.row);
        for (; f + P::PIECE <= columns; f += P::PIECE) {
            typename P::V turned[P::PIECE];
            P::next(at, x.row, turned);
            UNROLL for (int i = 0; i < P::PIECE; i++) memcpy(out + (f + i) * step, &turned[i], BYTES);
        }
    }
    for (; f < up_to(SIDE, columns); f++)
        for (int64_t r = 0; r < SUMMED; r++) {
            uint16_t half = 0;
            if (f < columns && r < rows) memcpy(&half, start + r * x.row + 2 * f, 2);
            out[f * step + r] = half;
        }
}

// What is the unit's in a matrix of numbers or pairs.
INLINE Bytes bytes_of(const float* at, int64_t row) { return {reinterpret_cast<const char*>(at), 4 * row}; }
#else
struct Unit {
    explicit Unit(int64_t = 0, int64_t = 0) {}  // so that nobody warns of one that is not used
};
#endif

// So many of queries' and keys' numbers there is room for.
INLINE int64_t filled_columns(int64_t d) { return UNIT ? up_to(SUMMED, d) : d; }

// Where a unit multiplies matrices, one query gets the same results from vectors: it has no numbers below 1.2e-38.
struct LikeUnit {
#if defined(__AMX_BF16__)
    static constexpr unsigned NONE_SO_SMALL = 0x8040;  // neither taken in nor given out
    const unsigned before = _mm_getcsr();
    LikeUnit() { _mm_setcsr(before | NONE_SO_SMALL); }
    ~LikeUnit() { _mm_setcsr(before); }
#else
    LikeUnit() {}
#endif
};

}  // namespace ISA
}  // namespace regard
