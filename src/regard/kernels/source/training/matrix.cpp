// Matrix products of the sizes of small networks' layers; float32.
//
// The blocking: panels of b, three vectors wide, are packed, as many as fit in the L2 cache. A block of rows of a stays
// there too while all panels pass by; it is read in place, or packed if its columns are contiguous instead of its rows.
// The depth is split such that a part of a panel stays in the L1 cache. Each element of the result is a sum over the
// depth in order, whatever the shapes, so a row never depends on other rows.
#include "core/tails.h"

#include <new>

namespace regard {
namespace ISA {

static_assert(PANEL_COLUMNS % (TILE_VECTORS * LANES) == 0);
constexpr int64_t PANEL = TILE_VECTORS * LANES, DEEP = 1024, PACKED = 128 << 10;
// depth of a part; for rows of a that are read in place
constexpr int64_t PART = 192, PANEL_DEPTH = BYTES == 32 ? 256 : PART;
constexpr int64_t BLOCK = 256, TILE = ROWS * PART + 16;  // 16 more, so that tiles start in different cache sets

// A matrix with unit stride in one dimension, and the stride of the other one.
struct Part {
    const float* at;
    int64_t row;
};

// out (ROWS, NV vectors) = start + a @ b; a is stored as [row][depth] if ACROSS, else as [depth][row].
template <int NV, bool ACROSS>
NOINLINE static void tile(Part a, Part b, int64_t depth, Part start, float* out, int64_t out_row) {
    Vector sums[ROWS][NV];
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < NV; v++) {
        sums[r][v] = load(start.at + r * start.row + v * LANES);
        // of the next tile, whose rows may have a large stride
        __builtin_prefetch(out + (ROWS + r) * out_row + v * LANES, 1);
    }
    product<float, ROWS, NV, ACROSS>(sums, a.at, a.row, b.at, b.row, depth);
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < NV; v++)
        store(out + r * out_row + v * LANES, sums[r][v]);
}

NOINLINE static void apply_tanh(float* x, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES)
        store_partial(x + i, tanh<float>(load_partial(x + i, count - i)), count - i);
}

NOINLINE static void apply_relu(float* x, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES)
        store_partial(x + i, larger(Vector{}, load_partial(x + i, count - i)), count - i);
}

NOINLINE static void copy(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows,
                          int64_t columns) {
    for (int64_t r = 0; r < rows; r++) memcpy(to + r * to_row, from + r * from_row, columns * sizeof(float));
}

class Multiply {
    const Product& p;
    const bool across, packs;
    const int64_t step, rows_of_block;  // step of the depth and rows of a block, of nearly equal size
    int64_t first, last, start, end;  // columns and depth of the cached panels
    int64_t k, depth, c, columns;  // the current part of a panel
    Part b;  // the current part, packed or in place
    alignas(64) float packed[PACKED], bias[PANEL], edge[ROWS * PANEL_DEPTH] = {}, sums[ROWS * PANEL] = {};
    alignas(64) float packed_a[BLOCK / ROWS * TILE];

   public:
    explicit Multiply(const Product& p)
        : p(p), across(p.a_column == 1), packs((p.rows > 8 * ROWS && p.b_row > PANEL_COLUMNS) || p.column_sums),
          step(evenly(p.depth, across ? PANEL_DEPTH : PART)), rows_of_block(evenly(p.rows, BLOCK)) {}

    void run() {
        const int64_t depth_near = across ? evenly(p.depth, DEEP) : step;  // complete depth at once if a is not packed
        const int64_t columns_near = PACKED / (depth_near * PANEL) * PANEL;
        for (first = 0; first < p.columns; first = last) {
            last = std::min(first + columns_near, p.columns);
            for (start = 0; start < p.depth; start = end) {
                end = std::min(start + depth_near, p.depth);
                for (int64_t r = 0; r < p.rows && !stopped(p.stop); r += rows_of_block)
                    block(r, std::min(rows_of_block, p.rows - r));
            }
        }
    }

   private:
    static int64_t evenly(int64_t count, int64_t limit) {  // rounded up to vectors, at least one
        const int64_t parts = std::max<int64_t>(1, (count + limit - 1) / limit), each = parts * LANES;
        return std::max<int64_t>(1, (count + each - 1) / each) * LANES;
    }
    int64_t vectors() const { return (columns + LANES - 1) / LANES; }
    bool overwrites() const { return k == 0 && !p.accumulate; }

    // Multiply a block of rows of a by all cached panels, which the first block packs.
    void block(int64_t r, int64_t rows) {
        for (k = start; k < end; k += step) {
            depth = std::min(step, end - k);
            if (!across) pack_a(r, rows);
            for (c = first; c < last; c += PANEL) {
                columns = std::min(PANEL, last - c);
                const bool full = p.b_column == 1 && columns == PANEL;
                const int64_t width = vectors() * LANES;
                b = {p.b + k * p.b_row + c * p.b_column, p.b_row};
                if (packs || !full) {
                    const bool again = p.rows > rows_of_block;  // other blocks of rows need the panel again
                    float* panel = packed + again * ((c - first) * (end - start) + (k - start) * width);
                    if (r == 0) pack(panel, width);
                    b = {panel, width};
                }
                multiply_panel(r, rows);
            }
        }
    }

    // Multiply rows of a by one panel.
    void multiply_panel(int64_t from, int64_t count) {
        memset(bias, 0, sizeof bias);
        if (p.bias) memcpy(bias, p.bias + c, columns * sizeof(float));
        for (int64_t r = 0; r < count; r += ROWS) {
            const Part a =
                across ? Part{p.a + (from + r) * p.a_row + k, p.a_row} : Part{packed_a + r / ROWS * TILE, ROWS};
            float* out = p.out + (from + r) * p.out_row + c;
            const int64_t rows = std::min<int64_t>(ROWS, count - r);
            if (rows == ROWS && columns % LANES == 0)
                multiply_tile(a, overwrites() ? Part{bias, 0} : Part{out, p.out_row}, out, p.out_row);
            else multiply_edge(a, rows, out);
            if (p.activation && k + depth == p.depth)
                for (int64_t i = 0; i < rows; i++)
                    (p.activation == TANH ? apply_tanh : apply_relu)(out + i * p.out_row, columns);
        }
    }

    void multiply_tile(Part a, Part start, float* out, int64_t out_row) const {
        using Tile = void (*)(Part, Part, int64_t, Part, float*, int64_t);
        static constexpr Tile tiles[][2] = {
            {tile<1, false>, tile<1, true>}, {tile<2, false>, tile<2, true>}, {tile<3, false>, tile<3, true>}};
        tiles[vectors() - 1][across](a, b, depth, start, out, out_row);
    }

    // Compute a partial tile at the edges on padded copies.
    NOINLINE void multiply_edge(Part a, int64_t rows, float* out) {
        if (across && rows < ROWS) copy(a.at, a.row, edge, PANEL_DEPTH, rows, depth), a = {edge, PANEL_DEPTH};
        if (!overwrites()) copy(out, p.out_row, sums, PANEL, rows, columns);
        multiply_tile(a, overwrites() ? Part{bias, 0} : Part{sums, PANEL}, sums, PANEL);
        copy(sums, PANEL, out, p.out_row, rows, columns);
    }

    // Pack rows of a as tiles of [depth][row], padded with 0.
    NOINLINE void pack_a(int64_t first, int64_t rows) {
        for (int64_t i = 0; i < depth; i++) {
            const float* from = p.a + (k + i) * p.a_column + first;
            float* to = packed_a + i * ROWS;
            int64_t r = 0;
            for (; r + ROWS <= rows; r += ROWS, to += TILE) memcpy(to, from + r, ROWS * sizeof(float));
            for (int64_t u = 0; r < rows && u < ROWS; u++) to[u] = r + u < rows ? from[r + u] : 0;
        }
    }

    // Pack columns of b into a panel [depth][vectors], padded with 0.
    void pack(float* panel, int64_t width) { p.b_column == 1 ? pack_rows(panel, width) : pack_columns(panel, width); }
    // Also computes the column sums if requested.
    NOINLINE void pack_rows(float* panel, int64_t width) {
        Vector sums[TILE_VECTORS] = {};
        for (int64_t i = 0; i < depth; i++)
            for (int64_t v = 0; v < width; v += LANES) {
                const float* from = b.at + i * b.row + v;
                __builtin_prefetch(from + 12 * b.row);
                const Vector x = load_partial(from, columns - v);
                store(panel + i * width + v, x);
                sums[v / LANES] += x;
            }
        if (!p.column_sums) return;
        for (int64_t v = 0; v < width; v += LANES) {
            float* to = p.column_sums + c + v;
            store_partial(to, k > 0 ? load_partial(to, columns - v) + sums[v / LANES] : sums[v / LANES], columns - v);
        }
    }
    NOINLINE void pack_columns(float* panel, int64_t width) {
        for (int64_t v = 0; v < width; v += LANES)
            for (int64_t i = 0; i < depth; i += LANES) {
                const float* from = b.at + v * p.b_column + i;
                float* to = panel + i * width + v;
                Vector square[LANES];
                if (v + LANES <= columns && i + LANES <= depth) {
                    UNROLL for (int u = 0; u < LANES; u++) square[u] = load(from + u * p.b_column);
                    transpose_square<float>(square);
                    UNROLL for (int u = 0; u < LANES; u++) store(to + u * width, square[u]);
                    continue;
                }
                for (int u = 0; u < LANES; u++)
                    square[u] = v + u < columns ? load_partial(from + u * p.b_column, depth - i) : Vector{};
                transpose_square<float>(square);
                for (int u = 0; u < LANES && i + u < depth; u++) store(to + u * width, square[u]);
            }
    }
};

void multiply(const Product& p, bool, char* scratch) {
    static_assert(sizeof(Multiply) <= PRODUCT_BYTES);
    (new (scratch) Multiply(p))->run();
}

}  // namespace ISA
}  // namespace regard
