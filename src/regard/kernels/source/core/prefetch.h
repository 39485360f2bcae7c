// Software prefetch: which cache lines are requested, when, and on which processors this helps.
#pragma once

#include "core/storage.h"

namespace regard {
namespace ISA {

// Prefetches the rows that follow the current block, four cache lines at a time. For contiguous rows the four lines lie
// in the four quarters of the next block, because the hardware prefetcher follows several pages at once. AMD processors
// are faster with sequential prefetches.
struct RowPrefetcher {
    static constexpr int64_t BATCH_BYTES = 256;  // four cache lines
    const char* at;
    int64_t row, bytes;  // row stride in bytes; bytes needed of each row
    int64_t line_stride, advance;  // stride between the four lines; advance to the next four
    int64_t offset;
    INLINE void prefetch() {
        UNROLL for (int line = 0; line < 4; line++) __builtin_prefetch(at + offset + line * line_stride, 0, 2);
        offset += advance;
        if (offset >= bytes) offset = 0, at += row;
    }
    template <int BYTES_READ>
    INLINE void prefetch(int64_t step) {  // prefetch as many bytes as each step reads
        constexpr int INTERVAL = std::max<int>(1, BATCH_BYTES / BYTES_READ),
                      BATCHES = std::max<int>(1, BYTES_READ / BATCH_BYTES);
        if (step % INTERVAL) return;
        UNROLL for (int batch = 0; batch < BATCHES; batch++) prefetch();
    }
};
template <int BYTES_READ>
struct SteppedPrefetcher : RowPrefetcher {
    int64_t step = 0;
    INLINE void operator()() { prefetch<BYTES_READ>(step++); }
};

// Prefetches the next block while many queries multiply the current one. With contiguous rows, each step of a product
// prefetches as many bytes as it reads, which keeps memory traffic even. With gaps between rows, a few rows are
// prefetched at once before each product.
struct BlockPrefetcher {
    static constexpr int64_t ROWS_PER_CALL = 8;
    struct Lines {
        const char* at;
        int64_t line_stride;
        INLINE void operator()() { __builtin_prefetch(at, 0, 2), at += line_stride; }  // prefetch one line
    };
    const char* at;  // any cached address if there is nothing to prefetch
    int64_t row = 0, lines = 0;  // row stride; cache lines of a row, or 0 if the rows are contiguous
    int64_t rows = 0;  // rows left to prefetch
    NOINLINE Lines next(int64_t count) {
        if (rows <= 0) return {at, 0};
        if (!lines) return rows -= count, Lines{std::exchange(at, at + count * row), row};
        for (int64_t r = 0; r < ROWS_PER_CALL; r++, at += row)
            for (int64_t line = 0; line < lines; line++) __builtin_prefetch(at + line * 64, 0, 2);
        rows -= ROWS_PER_CALL;
        return {at, 0};
    }
    COLD void prefetch(int64_t count) {  // prefetch now
        Lines line = next(count);
        for (int64_t i = 0; line.line_stride && i < count; i++) line();
    }
};

constexpr int64_t size_of(int32_t type) { return type == FLOAT64 ? 8 : type == FLOAT32 ? 4 : 2; }

// Whether the hardware prefetcher handles these rows: contiguous rows on AMD processors.
inline bool hardware_prefetches(const Matrices& x, int64_t columns, int32_t type) {
    return BYTES >= 32 && made_by_amd && columns * size_of(type) == x.row;
}
// Prefetcher for the rows after the block at row j. Rows with a large stride map to few cache sets, so only few of them
// are prefetched.
COLD inline RowPrefetcher row_prefetcher(const Matrices& x, int64_t item, int64_t j, int64_t columns, int32_t type) {
    const int64_t bytes = columns * size_of(type), quarter = KEY_BLOCK / 4 * x.row;
    const char* at = reinterpret_cast<const char*>(x.at(item)) + j * x.row;
    if (bytes != x.row) return {at + KEY_BLOCK / 4 * x.row, x.row, bytes, 64, RowPrefetcher::BATCH_BYTES, 0};
    at += KEY_BLOCK * x.row;
    if (hardware_prefetches(x, columns, type))
        return {at, 0, std::numeric_limits<int64_t>::max(), 64, RowPrefetcher::BATCH_BYTES, 0};
    return {at, x.row, quarter, quarter, 64, 0};
}
INLINE RowPrefetcher at_half_rate(RowPrefetcher x) {
    x.advance /= 2;
    return x;
}
// The hardware prefetcher is faster than software prefetch. It needs sequential accesses, so where several rows are
// processed side by side, this touches the following rows in order.
struct SequentialReader {
    const char *at, *last;
    template <int BYTES_READ>
    INLINE void read() {
        UNROLL for (int offset = 0; offset < BYTES_READ; offset += 64)(void) *
            std::min<const volatile char*>(at + offset, last);
        at += BYTES_READ;
    }
};
// Prefetcher for the block after row j; with gaps between rows, for the rows `distance` further on.
NOINLINE inline BlockPrefetcher block_prefetcher(const Matrices& x, int64_t item, int64_t j, int64_t columns,
                                                 int32_t type, int64_t distance) {
    const int64_t bytes = columns * size_of(type);
    const bool gaps = bytes != x.row;
    const char* at = reinterpret_cast<const char*>(x.at(item)) + (j + (gaps ? distance : KEY_BLOCK)) * x.row;
    if (gaps) return {at, x.row, (bytes + 63) / 64, KEY_BLOCK};
#if defined(__AMX_BF16__)
    const int64_t step = 64;
#else
    const int64_t step = ROWS * (PAIRS ? 4 : size_of(type));  // the bytes that a step reads
#endif
    return {at, step, 0, KEY_BLOCK * bytes / step};
}

template <class T>
INLINE BlockPrefetcher line_prefetcher(const T* at, int64_t count) {
    return {reinterpret_cast<const char*>(at), 64, 0, (count * int64_t(sizeof(T)) + 63) / 64};
}

}  // namespace ISA
}  // namespace regard
