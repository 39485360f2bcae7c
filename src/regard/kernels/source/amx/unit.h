// Matrix products of bfloat16 on Intel's matrix unit (AMX).
#pragma once

#include "core/prefetch.h"

namespace regard {
namespace ISA {

// The unit multiplies 16 rows of 16 pairs by 16 columns of 16 pairs. It sums the products of first elements and those
// of second elements separately, then adds both sums, then adds the result to the accumulator. So sums advance in steps
// of 32 elements, and sums over keys must start at a multiple of 32 keys to be bitwise reproducible.
#if defined(__AMX_BF16__)
constexpr bool MATRIX_UNIT = true;
#else
constexpr bool MATRIX_UNIT = false;
#endif
constexpr int64_t TILE_SIDE = 16, DOT_STEP = 32;  // rows and columns of a tile; elements of one step of a sum
INLINE int64_t round_up(int64_t step, int64_t count) { return (count + step - 1) / step * step; }

#if defined(__AMX_BF16__)
struct TileConfig {  // configures the tiles for its lifetime, then restores the previous state
    struct alignas(64) Config {
        uint8_t palette, start, unused[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } previous;

    TileConfig() : TileConfig(TILE_SIDE, DOT_STEP) {}
    // Tiles 1, 3 and 7 have `few_rows` rows; tile 5 has `last_step` columns, and tile 6 is its other operand.
    TileConfig(int64_t few_rows, int64_t last_step) {
        Config config{};
        config.palette = 1;
        for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = TILE_SIDE;
        config.rows[1] = config.rows[3] = config.rows[7] = uint8_t(few_rows);
        config.bytes[5] = uint16_t(2 * last_step), config.rows[6] = uint8_t(last_step / 2);
        __asm__ volatile("sttilecfg %0" : "=m"(previous));
        __asm__ volatile("ldtilecfg %0" ::"m"(config));
    }
    ~TileConfig() { __asm__ volatile("ldtilecfg %0" ::"m"(previous)); }
};

// Rows with a stride in bytes.
struct ByteRows {
    const char* at;
    int64_t row;
};

// c = a b, or c += a b if `accumulate`, for R * TILE_SIDE rows of a and C * TILE_SIDE columns of pairs b. `depth` is a
// multiple of DOT_STEP.
template <int R, int C>
INLINE void amx_multiply_tiles(float* c, int64_t row, ByteRows a, ByteRows b, int64_t depth, bool accumulate) {
    float* const below = c + TILE_SIDE * row;
    __asm__ volatile("" ::: "memory");
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (accumulate) {
        _tile_loadd(0, c, row * 4);
        if constexpr (C > 1) _tile_loadd(1, c + TILE_SIDE, row * 4);
        if constexpr (R > 1) _tile_loadd(2, below, row * 4);
        if constexpr (R > 1 && C > 1) _tile_loadd(3, below + TILE_SIDE, row * 4);
    }
    for (int64_t k = 0; k < depth; k += DOT_STEP, a.at += 2 * DOT_STEP, b.at += TILE_SIDE * b.row) {
        _tile_loadd(6, b.at, b.row);
        _tile_loadd(4, a.at, a.row);
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (C > 1) _tile_loadd(7, b.at + 4 * TILE_SIDE, b.row);
        if constexpr (C > 1) _tile_dpbf16ps(1, 4, 7);
        if constexpr (R > 1) _tile_loadd(5, a.at + TILE_SIDE * a.row, a.row);
        if constexpr (R > 1) _tile_dpbf16ps(2, 5, 6);
        if constexpr (R > 1 && C > 1) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, row * 4);
    if constexpr (C > 1) _tile_stored(1, c + TILE_SIDE, row * 4);
    if constexpr (R > 1) _tile_stored(2, below, row * 4);
    if constexpr (R > 1 && C > 1) _tile_stored(3, below + TILE_SIDE, row * 4);
    __asm__ volatile("" ::: "memory");
}
// The same for any multiple of TILE_SIDE columns.
template <int R, int64_t COLUMNS>
INLINE void amx_multiply(float* c, int64_t row, ByteRows a, ByteRows b, int64_t depth, bool accumulate) {
    constexpr int C = COLUMNS % (2 * TILE_SIDE) ? 1 : 2;
    for (int64_t x = 0; x < COLUMNS; x += C * TILE_SIDE)
        amx_multiply_tiles<R, C>(c + x, row, a, {b.at + 4 * x, b.row}, depth, accumulate);
}

// A mask of the first `count` of DOT_STEP elements.
INLINE __mmask32 first_halves(int64_t count) { return count >= DOT_STEP ? ~0u : count > 0 ? (1u << count) - 1 : 0; }

// Rows of an item's matrix, padded with 0 to a multiple of TILE_SIDE rows and DOT_STEP columns; in place if no padding
// is needed.
inline ByteRows padded_rows(const Matrices& x, int64_t item, int64_t row, int64_t rows, int64_t columns, char* buffer) {
    const char* start = reinterpret_cast<const char*>(x.at(item)) + row * x.row;
    const int64_t bytes = 2 * round_up(DOT_STEP, columns);
    if (rows % TILE_SIDE == 0 && bytes == 2 * columns) return {start, x.row};
    for (int64_t r = 0; r < round_up(TILE_SIDE, rows); r++)
        for (int64_t c = 0; c < columns; c += DOT_STEP)
            _mm512_storeu_si512(
                buffer + r * bytes + 2 * c,
                _mm512_maskz_loadu_epi16(first_halves(r < rows ? columns - c : 0), start + r * x.row + 2 * c));
    return {buffer, bytes};
}

// DOT_STEP rows transposed: out[f * step + r] = element f of row r, and 0 beyond `rows` and up to a multiple of
// TILE_SIDE elements.
inline void transpose_step(const Matrices& x, int64_t item, int64_t row, int64_t rows, int64_t columns, uint16_t* out,
                           int64_t step) {
    using P = Segments<uint16_t>;
    const char* start = reinterpret_cast<const char*>(x.at(item)) + row * x.row;
    int64_t f = 0;
    if (rows == DOT_STEP) {
        typename P::Rows at;
        P::begin(at, start, x.row);
        for (; f + P::SEGMENT <= columns; f += P::SEGMENT) {
            typename P::V transposed[P::SEGMENT];
            P::next(at, x.row, transposed);
            UNROLL for (int i = 0; i < P::SEGMENT; i++) memcpy(out + (f + i) * step, &transposed[i], BYTES);
        }
    }
    for (; f < round_up(TILE_SIDE, columns); f++)
        for (int64_t r = 0; r < DOT_STEP; r++) {
            uint16_t half = 0;
            if (f < columns && r < rows) memcpy(&half, start + r * x.row + 2 * f, 2);
            out[f * step + r] = half;
        }
}

INLINE ByteRows byte_rows(const float* at, int64_t row) { return {reinterpret_cast<const char*>(at), 4 * row}; }
#else
struct TileConfig {
    explicit TileConfig(int64_t = 0, int64_t = 0) {}  // declared so that compilers do not warn of an unused variable
};
#endif

// The padded number of columns of queries and keys.
INLINE int64_t padded_columns(int64_t d) { return MATRIX_UNIT ? round_up(DOT_STEP, d) : d; }

// Flushes subnormal numbers to zero as the matrix unit does, so that a single query computed with vectors gets the same
// bits.
struct FlushSubnormals {
#if defined(__AMX_BF16__)
    static constexpr unsigned FTZ_AND_DAZ = 0x8040;  // flush-to-zero and denormals-are-zero
    const unsigned previous = _mm_getcsr();
    FlushSubnormals() { _mm_setcsr(previous | FTZ_AND_DAZ); }
    ~FlushSubnormals() { _mm_setcsr(previous); }
#else
    FlushSubnormals() {}
#endif
};

}  // namespace ISA
}  // namespace regard
