// Attention for one instruction set; CMake compiles this file once for each, with ISA as the name.
//
// The lanes of a vector are queries: scores are stored as [key][query], so that maxima, sums and products are
// lane-wise. Results of a query are therefore bitwise independent of its position in the tile. With too few queries to
// fill the lanes (decoding), lanes are keys and then values. All sums use the same order in both layouts, and only
// fma() fuses a multiplication with an addition.
//
//   core/    vectors, storage types, prefetching, masks, the product, scores, and tiles of queries forward and backward
//   decode/  few queries
//   amx/     Intel's matrix unit
#include "amx/decode.h"
#include "decode/scores.h"
#include "decode/values.h"
#if !defined(__AVX512BF16__)  // gradients are computed in float32
#include "core/backward.h"
#endif

namespace regard {
namespace ISA {

inline int64_t chunk_count(const Problem& p) { return ceil_div(p.to_key - p.from_key, CHUNK); }

// The tasks of decoding: packs of query rows of a group, times some chunks of keys each.
struct DecodeTasks {
    const Problem& p;
    int64_t chunks, chunks_per_task, tasks_per_pack;
    COLD explicit DecodeTasks(const Problem& p)
        : p(p), chunks(chunk_count(p)),
          chunks_per_task(p.groups == p.items && p.n == 1 && p.items >= 4 * p.threads ? CHUNKS_PER_TASK : 1),
          tasks_per_pack(ceil_div(chunks, chunks_per_task)) {}
    int64_t packs_of(int64_t group) const {
        return ceil_div((p.first(group + 1) - p.first(group)) * p.n, QUERIES_PER_TASK);
    }
    int64_t tasks() const {
        if (p.groups == p.items) return p.items * tasks_per_pack;
        int64_t packs = 0;
        for (int64_t g = 0; g < p.groups; g++) packs += packs_of(g);
        return packs * tasks_per_pack;
    }
    struct Location {
        int64_t first_item, row, rows, row_offset;  // row_offset: rows of all packs before
    };
    Location locate(int64_t pack) const {
        int64_t g = p.groups == p.items ? pack : 0;
        if (p.groups != p.items)
            for (; pack >= packs_of(g); g++) pack -= packs_of(g);
        else pack = 0;
        int64_t first = p.first(g), all_rows = (p.first(g + 1) - first) * p.n;
        return {first, pack * QUERIES_PER_TASK, std::min<int64_t>(QUERIES_PER_TASK, all_rows - pack * QUERIES_PER_TASK),
                first * p.n + pack * QUERIES_PER_TASK};
    }
};

template <class T>
void decode_task(const Problem& p, int64_t task, char* shared, Arena arena) {
    DecodeTasks packs(p);
    DecodeTasks::Location at = packs.locate(task / packs.tasks_per_pack);
    const int64_t first = task % packs.tasks_per_pack * packs.chunks_per_task,
                  last = std::min(first + packs.chunks_per_task, packs.chunks);
    const int64_t size = Partial<T>::size(p.e);
    Partial<T> partials[QUERIES_PER_TASK];
    T* local = p.m <= CHUNK ? arena.allocate<T>(size * at.rows) : nullptr;
    for (int64_t c = first; c < last; c++)
        for (int64_t r = 0; r < at.rows; r++)
            partials[(c - first) * at.rows + r] = {local ? local + r * size
                                                         : reinterpret_cast<T*>(shared) +
                                                               ((at.row_offset + r) * packs.chunks + c) * size,
                                                   width_of<T>(p.e)};
    Decode<T>(p, at.first_item, at.row, at.rows, p.from_key + first * CHUNK,
              std::min(p.to_key, p.from_key + last * CHUNK), arena)
        .run(partials);
    if (local)
        for (int64_t r = 0; r < at.rows; r++)
            write<T>(p, partials[r], (at.row_offset + r) / p.n, (at.row_offset + r) % p.n);
}

template <class T>
void merge_chunks(const Problem& p, int64_t row, char* shared, Arena arena) {
    int64_t chunks = chunk_count(p), size = Partial<T>::size(p.e);
    Partial<T> merged{arena.allocate<T>(size), width_of<T>(p.e)};
    merged.clear(p.e);
    if (p.from_key) resume(p, merged, row / p.n, row % p.n);
    for (int64_t c = 0; c < chunks; c++) {
        Partial<T> part{reinterpret_cast<T*>(shared) + (row * chunks + c) * size, merged.width};
        if (part.maximum() == -INF<T> && part.total() == 0) continue;  // an empty chunk; a NaN total must be merged
        merge<T>(merged, part);
    }
    write<T>(p, merged, row / p.n, row % p.n);
}

// Whether lanes are keys and values. Not worth it with few keys, unless the queries would leave most lanes empty.
template <class T>
bool few_queries(const Problem& p) {
    return p.n <= FEW_QUERIES<T> && p.m >= (p.n <= L<T> / 4 ? 8 * p.n : 64);
}

template <class T>
int64_t tiles(const Problem& p) {
    return ceil_div(p.n, TILE_VECTORS * L<T>);
}

#if defined(TRAINS) && !defined(__AMX_BF16__)
constexpr bool TWO_VECTOR_TILES = true;  // whether a tile of two vectors is worth its code size
#else
constexpr bool TWO_VECTOR_TILES = false;
#endif

// Tiles of a task share a block of keys and values. More tiles pay off where the block has to be converted, and most
// where its rows have a large stride; fewer where it is read in place, since each tile then reloads its own data. There
// must be enough tasks for all threads.
template <class T>
int64_t tiles_per_task(const Problem& p) {
    const bool converts = PAIRS || p.keys_type != p.compute || p.values_type != p.compute;
    const bool has_gaps = p.keys.row != p.d * size_of(p.keys_type) || p.values.row != p.e * size_of(p.values_type);
    const int64_t queries = converts ? 192 : has_gaps ? 384 : BYTES == 64 ? 48 : 96;
    int64_t count = std::max<int64_t>(1, queries / (TILE_VECTORS * L<T>));
    while (count > 1 && p.threads > 1 && p.items * ceil_div(tiles<T>(p), count) < 4 * p.threads) count /= 2;
    return count;
}

template <class T>
void tile_task(const Problem& p, int64_t task, Arena arena) {
    constexpr int64_t width = TILE_VECTORS * L<T>;
    const int64_t queries = tiles_per_task<T>(p) * width, tasks = ceil_div(p.n, queries);
    const int64_t item = task / tasks, i = task % tasks * queries, stop = std::min(p.n, i + queries);
    const int64_t rest = (stop - i) % width;
    int64_t narrow = rest > (TWO_VECTOR_TILES ? 2 : 1) * L<T> ? 0 : rest;
    // A tile of one vector and few rows stalls on its own sums: use two and two vectors instead of three and one.
    if (TWO_VECTOR_TILES && ROWS < 8 && 0 < narrow && narrow <= L<T> && stop - narrow > i) narrow += width;
    if (stop - narrow > i) attend<T, TILE_VECTORS>(p, item, i, stop - narrow, arena);
    if (narrow > L<T>) attend<T, TWO_VECTOR_TILES ? 2 : 1>(p, item, stop - narrow, stop, arena);
    else if (narrow) attend<T, 1>(p, item, stop - narrow, stop, arena);
}

template <class T>
int64_t forward_scratch(const Problem& p) {
    constexpr int64_t W = TILE_VECTORS * L<T>, K = KEY_BLOCK;
    const int64_t width = width_of<T>(p.d), d = padded_columns(p.d), e = width_of<T>(p.e);
    int64_t elements, bytes = 4096;
    if (few_queries<T>(p))
        elements = std::max<int64_t>(QUERIES_PER_TASK * K, CHUNKS_PER_TASK * CHUNK) + 3 * K + e +
                   QUERIES_PER_TASK * (2 * d + 1 + e + Partial<T>::size(p.e) + width) + K * (1 + d + e + width) +
                   (2 * L<T> + 3) * d + width;
    else {
        const int64_t count = tiles_per_task<T>(p);
        elements = 2 * K * W + count * W * (2 * d + 3 * e + width) + K * (d + e + width) + width;
        bytes += count * int64_t(sizeof(Tile<T, TILE_VECTORS>) + 512);
    }
    return elements * int64_t(sizeof(T)) + bytes;
}

template <class T>
int64_t forward_shared(const Problem& p) {
    return few_queries<T>(p) && p.m > CHUNK
               ? p.items * p.n * chunk_count(p) * Partial<T>::size(p.e) * int64_t(sizeof(T))
               : 0;
}
template <class T>
int64_t forward_tasks(const Problem& p, int phase) {
    if (phase == 0)
        return few_queries<T>(p) ? DecodeTasks(p).tasks() : p.items * ceil_div(tiles<T>(p), tiles_per_task<T>(p));
    return phase == 1 && few_queries<T>(p) && p.m > CHUNK ? p.items * p.n : 0;
}
template <class T>
void forward(const Problem& p, int phase, int64_t task, char* shared, char* scratch) {
    if (phase == 1) merge_chunks<T>(p, task, shared, Arena{scratch});
    else if (few_queries<T>(p)) decode_task<T>(p, task, shared, Arena{scratch});
    else tile_task<T>(p, task, Arena{scratch});
}

#if defined(__AVX512BF16__)
bool supports(const Problem& p, bool backward) {
    return !backward && p.score == PRODUCTS && p.d % 2 == 0 && p.queries_type == BFLOAT16 && p.keys_type == BFLOAT16 &&
           p.values_type == BFLOAT16;
}
int64_t shared(const Problem& p, bool backward) {
    return supports(p, backward) ? forward_shared<float>(p) : avx512::kernel.shared(p, backward);
}
int64_t scratch(const Problem& p, bool backward) {
    return supports(p, backward) ? forward_scratch<float>(p) : avx512::kernel.scratch(p, backward);
}
int64_t tasks(const Problem& p, bool backward, int phase) {
    return supports(p, backward) ? forward_tasks<float>(p, phase) : avx512::kernel.tasks(p, backward, phase);
}
void run(const Problem& p, bool backward, int phase, int64_t task, char* shared, char* scratch) {
    if (supports(p, backward)) forward<float>(p, phase, task, shared, scratch);
    else avx512::kernel.run(p, backward, phase, task, shared, scratch);
}
constexpr auto exp2_all = of_avx512<&Kernel::exp2>;
#else
template <class T>
int64_t backward_scratch(const Problem& p) {
    constexpr int64_t W = TILE_VECTORS * L<T>, K = KEY_BLOCK;
    int64_t width = width_of<T>(p.d);
    int64_t elements = 4 * K * W + W * (3 * p.d + p.e + 2 * padded(p.d) + padded(p.e) + width) +
                       K * (p.d + p.e + width_of<T>(p.e) + width) + width +
                       (p.merges_parts ? p.m * (padded(p.d) + padded(p.e)) : 0);
    return elements * int64_t(sizeof(T)) + 4096;
}

constexpr int64_t KEYS_IN_CACHE = 512;  // keys whose gradients stay in the L2 cache while all queries are processed

// One part of the queries of one group.
template <class T>
void backward_part(const Problem& p, int64_t group, int64_t part, T* dkeys, T* dvalues, Arena arena) {
    constexpr int64_t width = TILE_VECTORS * L<T>;
    const int64_t pair_parameters = p.score == PERCEPTRON ? padded(p.d) : 1;
    T* dparameters = static_cast<T*>(p.dparameters) + (group * p.parts + part) * pair_parameters;
    const int64_t start = tiles<T>(p) * part / p.parts, stop = tiles<T>(p) * (part + 1) / p.parts;
    for (int64_t item = p.first(group); item < p.first(group + 1); item++) {
        char* dbias = p.dbias ? reinterpret_cast<char*>(p.dbias[item * p.parts + part]) : nullptr;
        const GradientBuffers<T> out = {dkeys, dvalues, dparameters, dbias};
        for (int64_t j = 0; j < p.m; j += KEYS_IN_CACHE) {
            const int64_t last = std::min(j + KEYS_IN_CACHE, p.m);
            const bool finite = finite_as_stored<T>(p, item, j, last);
            for (int64_t t = start; t < stop; t++) {
                if (stopped(p.stop)) return;
                const int64_t i = t * width, rows = std::min(width, p.n - i);
                const bool wide = rows > L<T>;
                Workspace<T> workspace(p, item, wide ? width : L<T>, arena, i, i + rows);
                if (wide) BackwardTile<T, 3>(workspace, i, rows, out, finite).run(j, last);
                else BackwardTile<T, 1>(workspace, i, rows, out, finite).run(j, last);
            }
        }
    }
}

// All parts of a group in turn, each summed from zero: the same bits as with one thread per part.
template <class T>
void backward_merged(const Problem& p, int64_t group, Arena arena) {
    const int64_t keys = p.m * padded(p.d), values = p.dvalues ? p.m * padded(p.e) : 0;
    T *dkeys = static_cast<T*>(p.dkeys) + group * keys, *dvalues = static_cast<T*>(p.dvalues) + group * values;
    T *part_keys = arena.allocate<T>(keys), *part_values = values ? arena.allocate<T>(values) : nullptr;
    backward_part<T>(p, group, 0, dkeys, dvalues, arena);
    for (int64_t part = 1; part < p.parts; part++) {
        memset(part_keys, 0, keys * sizeof(T));
        if (values) memset(part_values, 0, values * sizeof(T));
        backward_part<T>(p, group, part, part_keys, part_values, arena);
        for (int64_t c = 0; c < keys; c += L<T>) store(dkeys + c, load(dkeys + c) + load(part_keys + c));
        for (int64_t c = 0; c < values; c += L<T>) store(dvalues + c, load(dvalues + c) + load(part_values + c));
    }
}

// A task: a group, one part of a group, or one part of all groups if they share a bias gradient.
template <class T>
void backward_task(const Problem& p, int64_t task, Arena arena) {
    if (p.merges_parts) return backward_merged<T>(p, task, arena);
    const int64_t part = p.tasks_span_groups ? task : task % p.parts, first = p.tasks_span_groups ? 0 : task / p.parts;
    for (int64_t group = first; group < (p.tasks_span_groups ? p.groups : first + 1); group++) {
        int64_t locate = (group * p.parts + part) * p.m;
        backward_part<T>(p, group, part, static_cast<T*>(p.dkeys) + locate * padded(p.d),
                         p.dvalues ? static_cast<T*>(p.dvalues) + locate * padded(p.e) : nullptr, arena);
    }
}

#define DISPATCH(F, ...) (p.compute == FLOAT32 ? F<float>(__VA_ARGS__) : F<double>(__VA_ARGS__))
int64_t shared(const Problem& p, bool backward) { return backward ? 0 : DISPATCH(forward_shared, p); }
int64_t scratch(const Problem& p, bool backward) {
    return backward ? DISPATCH(backward_scratch, p) : DISPATCH(forward_scratch, p);
}
int64_t tasks(const Problem& p, bool backward, int phase) {
    if (!backward) return DISPATCH(forward_tasks, p, phase);
    return phase ? 0 : p.merges_parts ? p.groups : p.tasks_span_groups ? p.parts : p.groups * p.parts;
}
void run(const Problem& p, bool backward, int phase, int64_t task, char* shared, char* scratch) {
    if (backward) DISPATCH(backward_task, p, task, Arena{scratch});
    else DISPATCH(forward, p, phase, task, shared, scratch);
}

// In training/.
int64_t recurrence_bytes(const Recurrence& p);
#define TRAINING(name, Struct, bytes) void name(const Struct& p, bool backward, char* scratch);
#include "core/interface.inc"

template <class T>
void exp2_each(const void* x, void* y, int64_t count) {
    for (int64_t i = 0; i < count; i += L<T>)
        store(static_cast<T*>(y) + i, exp2<T>(load(static_cast<const T*>(x) + i)));
}
void exp2_all(const void* x, void* y, int64_t count, int32_t type) {
    type == FLOAT32 ? exp2_each<float>(x, y, count) : exp2_each<double>(x, y, count);
}
#endif

#if defined(TRAINS)
#if defined(__AVX512BF16__)
#define ENTRY(name) of_avx512<&Training::name>
#else
#define ENTRY(name) name
#endif
constexpr Training training = {
    ENTRY(recurrence_bytes),
#define TRAINING(name, Struct, bytes) ENTRY(name),
#include "core/interface.inc"
};
#else
constexpr Training training = {};
#endif
#define STRING(x) #x
#define NAME(x) STRING(x)
extern const Kernel kernel;
const Kernel kernel = {NAME(ISA), shared, scratch, tasks, run, exp2_all, training, classify_block, evaluate_mask};

}  // namespace ISA
}  // namespace regard
