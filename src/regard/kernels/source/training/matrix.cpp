// Products of matrices of the size that layers of small networks have; float32.
//
// Panels of b, three vectors wide, are packed, as many as stay near. A block of rows of a stays in the second cache
// while all of them pass by: it is read where it is, or, where its rows lie side by side, gathered first. It meets one
// part of the depth after the other while its sums are near, too. A part of a panel stays in the nearest cache. A number
// of the result is a sum over the depth in order, whatever the shapes: a row never depends on the others.
#include "core/tails.h"

#include <new>

namespace regard {
namespace ISA {

static_assert(PANEL_COLUMNS % (TILE_VECTORS * LANES) == 0);
constexpr int64_t PANEL = TILE_VECTORS * LANES, DEEP = 1024, PACKED = 128 << 10;
constexpr int64_t PART = 192, PANEL_DEPTH = BYTES == 32 ? 256 : PART;  // in depth; of rows that are read where they are
constexpr int64_t BLOCK = 256, TILE = ROWS * PART + 16;  // tiles don't begin at the same place of a cache

// A matrix of which one number lies after the other from row to row, or from column to column.
struct Part {
    const float* at;
    int64_t row;
};

// out (ROWS, NV vectors) = start + a @ b; a lies as [row][depth] where ACROSS, and as [depth][row] otherwise.
template <int NV, bool ACROSS>
NOINLINE static void tile(Part a, Part b, int64_t depth, Part start, float* out, int64_t out_row) {
    Vector sums[ROWS][NV];
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int v = 0; v < NV; v++) {
            sums[r][v] = load(start.at + r * start.row + v * LANES);
            __builtin_prefetch(out + (ROWS + r) * out_row + v * LANES, 1);  // the next tile's, far away as it may be
        }
    product<float, ROWS, NV, ACROSS>(sums, a.at, a.row, b.at, b.row, depth);
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int v = 0; v < NV; v++) store(out + r * out_row + v * LANES, sums[r][v]);
}

NOINLINE static void apply_tanh(float* x, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) store_partial(x + i, tanh<float>(load_partial(x + i, count - i)), count - i);
}

NOINLINE static void apply_relu(float* x, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) store_partial(x + i, larger(Vector{}, load_partial(x + i, count - i)), count - i);
}

NOINLINE static void copy(const float* from, int64_t from_row, float* to, int64_t to_row, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++) memcpy(to + r * to_row, from + r * from_row, columns * sizeof(float));
}

class Multiply {
    const Product& p;
    const bool across, packs;
    const int64_t step, rows_of_block;  // parts of the depth are as long as each other, more or less, and so are blocks
    int64_t first, last, start, end;    // columns and depth of the panels that are near
    int64_t k, depth, c, columns;       // a part of a panel
    Part b;                             // this part: packed, or where it is
    alignas(64) float packed[PACKED], bias[PANEL], edge[ROWS * PANEL_DEPTH] = {}, sums[ROWS * PANEL] = {};
    alignas(64) float packed_a[BLOCK / ROWS * TILE];

   public:
    explicit Multiply(const Product& p)
        : p(p), across(p.a_column == 1), packs((p.rows > 8 * ROWS && p.b_row > PANEL_COLUMNS) || p.sums),
          step(evenly(p.depth, across ? PANEL_DEPTH : PART)), rows_of_block(evenly(p.rows, BLOCK)) {}

    void run() {
        const int64_t depth_near = across ? evenly(p.depth, DEEP) : step;  // gathered once, where that is done
        const int64_t columns_near = PACKED / (depth_near * PANEL) * PANEL;
        for (first = 0; first < p.columns; first = last) {
            last = std::min(first + columns_near, p.columns);
            for (start = 0; start < p.depth; start = end) {
                end = std::min(start + depth_near, p.depth);
                for (int64_t r = 0; r < p.rows && !stopped(p.stop); r += rows_of_block) block(r, std::min(rows_of_block, p.rows - r));
            }
        }
    }

   private:
    static int64_t evenly(int64_t count, int64_t most) {  // whole vectors, and one where there is nothing
        const int64_t parts = std::max<int64_t>(1, (count + most - 1) / most), each = parts * LANES;
        return std::max<int64_t>(1, (count + each - 1) / each) * LANES;
    }
    int64_t vectors() const { return (columns + LANES - 1) / LANES; }
    bool overwrites() const { return k == 0 && !p.onto; }

    // Some rows of a by all panels that are near. The first rows find them not packed yet.
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
                    const bool again = p.rows > rows_of_block;  // it will be needed
                    float* panel = packed + again * ((c - first) * (end - start) + (k - start) * width);
                    if (r == 0) pack(panel, width);
                    b = {panel, width};
                }
                multiply_panel(r, rows);
            }
        }
    }

    // Some rows of a by a panel.
    void multiply_panel(int64_t from, int64_t count) {
        memset(bias, 0, sizeof bias);
        if (p.bias) memcpy(bias, p.bias + c, columns * sizeof(float));
        for (int64_t r = 0; r < count; r += ROWS) {
            const Part a = across ? Part{p.a + (from + r) * p.a_row + k, p.a_row} : Part{packed_a + r / ROWS * TILE, ROWS};
            float* out = p.out + (from + r) * p.out_row + c;
            const int64_t rows = std::min<int64_t>(ROWS, count - r);
            if (rows == ROWS && columns % LANES == 0) multiply_tile(a, overwrites() ? Part{bias, 0} : Part{out, p.out_row}, out, p.out_row);
            else multiply_edge(a, rows, out);
            if (p.squash && k + depth == p.depth)
                for (int64_t i = 0; i < rows; i++)
                    (p.squash == TANH ? apply_tanh : apply_relu)(out + i * p.out_row, columns);
        }
    }

    void multiply_tile(Part a, Part start, float* out, int64_t out_row) const {
        using Tile = void (*)(Part, Part, int64_t, Part, float*, int64_t);
        static constexpr Tile tiles[][2] = {{tile<1, false>, tile<1, true>}, {tile<2, false>, tile<2, true>},
                                            {tile<3, false>, tile<3, true>}};
        tiles[vectors() - 1][across](a, b, depth, start, out, out_row);
    }

    // Where fewer rows or columns are left than a tile has: on copies.
    NOINLINE void multiply_edge(Part a, int64_t rows, float* out) {
        if (across && rows < ROWS) copy(a.at, a.row, edge, PANEL_DEPTH, rows, depth), a = {edge, PANEL_DEPTH};
        if (!overwrites()) copy(out, p.out_row, sums, PANEL, rows, columns);
        multiply_tile(a, overwrites() ? Part{bias, 0} : Part{sums, PANEL}, sums, PANEL);
        copy(sums, PANEL, out, p.out_row, rows, columns);
    }

    // Lay out rows of a that lie side by side as tiles of [depth][row], with 0 beyond the last.
    NOINLINE void pack_a(int64_t first, int64_t rows) {
        for (int64_t i = 0; i < depth; i++) {
            const float* from = p.a + (k + i) * p.a_column + first;
            float* to = packed_a + i * ROWS;
            int64_t r = 0;
            for (; r + ROWS <= rows; r += ROWS, to += TILE) memcpy(to, from + r, ROWS * sizeof(float));
            for (int64_t u = 0; r < rows && u < ROWS; u++) to[u] = r + u < rows ? from[r + u] : 0;
        }
    }

    // Fill a panel [depth][vectors] with columns of b, and 0 beyond them.
    void pack(float* panel, int64_t width) { p.b_column == 1 ? pack_rows(panel, width) : pack_columns(panel, width); }
    // On the way, sum up its columns where that is asked for.
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
        if (!p.sums) return;
        for (int64_t v = 0; v < width; v += LANES) {
            float* to = p.sums + c + v;
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

void multiply(const Product& p, char* scratch) {
    static_assert(sizeof(Multiply) <= PRODUCT_BYTES);
    (new (scratch) Multiply(p))->run();
}

}  // namespace ISA
}  // namespace regard
