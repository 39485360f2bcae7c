// Prefetching: which lines of memory are asked for, when, and on whose processors that helps.
#pragma once

#include "core/storage.h"

namespace regard {
namespace ISA {

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

}  // namespace ISA
}  // namespace regard
