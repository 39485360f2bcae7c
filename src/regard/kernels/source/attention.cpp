// Attention for one instruction set; CMake compiles this file once for each, with ISA as the name.
//
// The lanes of a vector are queries: scores lie as [key][query], so that maxima, sums and products run down the lanes
// and no lane ever meets another. What a query gets therefore cannot depend on where it stands, to the bit. Where
// there are too few queries to fill lanes (decoding), lanes are keys and then values; every sum is taken in the same
// order as in the other arrangement, and no multiplication is fused with an addition unless fma() says so.
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

inline int64_t chunks_of(const Problem& p) { return cut(p.to_key - p.from_key, CHUNK); }

// Where few queries lie: packs of rows of a group of items, and lots of some chunks of keys each.
struct Packs {
    const Problem& p;
    int64_t chunks, lot, lots;
    COLD explicit Packs(const Problem& p)
        : p(p), chunks(chunks_of(p)), lot(p.groups == p.items && p.n == 1 && p.items >= 4 * p.threads ? LOT : 1),
          lots(cut(chunks, lot)) {}
    int64_t of(int64_t group) const { return cut((p.first(group + 1) - p.first(group)) * p.n, PACK); }
    int64_t tasks() const {
        if (p.groups == p.items) return p.items * lots;
        int64_t packs = 0;
        for (int64_t g = 0; g < p.groups; g++) packs += of(g);
        return packs * lots;
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
    Packs::Place at = packs.place(task / packs.lots);
    const int64_t first = task % packs.lots * packs.lot, last = std::min(first + packs.lot, packs.chunks);
    const int64_t size = Partial<T>::size(p.e);
    Partial<T> found[PACK];
    T* own = p.m <= CHUNK ? room.take<T>(size * at.rows) : nullptr;
    for (int64_t c = first; c < last; c++)
        for (int64_t r = 0; r < at.rows; r++)
            found[(c - first) * at.rows + r] = {
                own ? own + r * size : reinterpret_cast<T*>(shared) + ((at.ahead + r) * packs.chunks + c) * size,
                width_of<T>(p.e)};
    Decode<T>(p, at.first_item, at.row, at.rows, p.from_key + first * CHUNK,
           std::min(p.to_key, p.from_key + last * CHUNK), room).run(found);
    if (own)
        for (int64_t r = 0; r < at.rows; r++) write<T>(p, found[r], (at.ahead + r) / p.n, (at.ahead + r) % p.n);
}

template <class T>
void merge(const Problem& p, int64_t row, char* shared, Room room) {
    int64_t chunks = chunks_of(p), size = Partial<T>::size(p.e);
    Partial<T> whole{room.take<T>(size), width_of<T>(p.e)};
    whole.clear(p.e);
    if (p.from_key) resume(p, whole, row / p.n, row % p.n);
    for (int64_t c = 0; c < chunks; c++) {
        Partial<T> part{reinterpret_cast<T*>(shared) + (row * chunks + c) * size, whole.width};
        if (part.top() == -INF<T> && part.total() == 0) continue;  // no NaN either
        absorb<T>(whole, part);
    }
    write<T>(p, whole, row / p.n, row % p.n);
}

// Whether lanes are keys and values: not worth it where there are few keys either.
template <class T>
bool few_queries(const Problem& p) {
    return p.n <= FEW<T> && p.m >= 64;
}

template <class T>
int64_t tiles(const Problem& p) {
    return cut(p.n, WIDE * L<T>);
}

#if defined(TRAINS) && !defined(__AMX_BF16__)
constexpr bool MIDDLE = true;  // whether a tile of two vectors is worth its code
#else
constexpr bool MIDDLE = false;
#endif

// Tiles that share a task, and so a block of keys and values: more where it has to be prepared, and most where its rows lie
// far apart; fewer where it is read as it lies, since tiles that take turns fetch their own numbers anew. But there shall be
// tasks for all threads.
template <class T>
int64_t together(const Problem& p) {
    const bool prepares = PAIRS || p.keys_type != p.compute || p.values_type != p.compute;
    const bool apart = p.keys.row != p.d * size_of(p.keys_type) || p.values.row != p.e * size_of(p.values_type);
    const int64_t queries = prepares ? 192 : apart ? 384 : BYTES == 64 ? 48 : 96;
    int64_t count = std::max<int64_t>(1, queries / (WIDE * L<T>));
    while (count > 1 && p.threads > 1 && p.items * cut(tiles<T>(p), count) < 4 * p.threads) count /= 2;
    return count;
}

template <class T>
void some_tiles(const Problem& p, int64_t task, Room room) {
    constexpr int64_t width = WIDE * L<T>;
    const int64_t queries = together<T>(p) * width, tasks = cut(p.n, queries);
    const int64_t item = task / tasks, i = task % tasks * queries, stop = std::min(p.n, i + queries);
    const int64_t rest = (stop - i) % width;
    int64_t narrow = rest > (MIDDLE ? 2 : 1) * L<T> ? 0 : rest;
    // A single vector of few rows would wait for its own sums: two and two instead of three and one.
    if (MIDDLE && ROWS < 8 && 0 < narrow && narrow <= L<T> && stop - narrow > i) narrow += width;
    if (stop - narrow > i) attend<T, WIDE>(p, item, i, stop - narrow, room);
    if (narrow > L<T>) attend<T, MIDDLE ? 2 : 1>(p, item, stop - narrow, stop, room);
    else if (narrow) attend<T, 1>(p, item, stop - narrow, stop, room);
}

template <class T>
int64_t forward_scratch(const Problem& p) {
    constexpr int64_t W = WIDE * L<T>, K = KEYS_AT_ONCE;
    const int64_t width = width_of<T>(p.d), d = filled_columns(p.d), e = width_of<T>(p.e);
    int64_t numbers, bytes = 4096;
    if (few_queries<T>(p))
        numbers = std::max<int64_t>(PACK * K, LOT * CHUNK) + 3 * K + e + PACK * (2 * d + 1 + e + Partial<T>::size(p.e) + width) +
                  K * (1 + d + e + width) + (2 * L<T> + 3) * d + width;
    else {
        const int64_t count = together<T>(p);
        numbers = 2 * K * W + count * W * (2 * d + 3 * e + width) + K * (d + e + width) + width;
        bytes += count * int64_t(sizeof(Tile<T, WIDE>) + 512);
    }
    return numbers * int64_t(sizeof(T)) + bytes;
}

template <class T>
int64_t forward_shared(const Problem& p) {
    return few_queries<T>(p) && p.m > CHUNK ? p.items * p.n * chunks_of(p) * Partial<T>::size(p.e) * int64_t(sizeof(T)) : 0;
}
template <class T>
int64_t forward_tasks(const Problem& p, int phase) {
    if (phase == 0) return few_queries<T>(p) ? Packs(p).tasks() : p.items * cut(tiles<T>(p), together<T>(p));
    return phase == 1 && few_queries<T>(p) && p.m > CHUNK ? p.items * p.n : 0;
}
template <class T>
void forward(const Problem& p, int phase, int64_t task, char* shared, char* scratch) {
    if (phase == 1) merge<T>(p, task, shared, Room{scratch});
    else if (few_queries<T>(p)) few<T>(p, task, shared, Room{scratch});
    else some_tiles<T>(p, task, Room{scratch});
}

#if defined(__AVX512BF16__)
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
int64_t recurrence_scratch(const Recurrence& p) { return avx512::kernel.training.scratch(p); }
void recur(const Recurrence& p, bool backward, char* scratch) { avx512::kernel.training.recur(p, backward, scratch); }
void multiply(const Product& p, char* scratch) { avx512::kernel.training.multiply(p, scratch); }
void predict(const Prediction& p, bool backward, char* scratch) { avx512::kernel.training.predict(p, backward, scratch); }
void tops(const Tops& p, char* scratch) { avx512::kernel.training.tops(p, scratch); }
int64_t search_room(const Search& p) { return avx512::kernel.training.search_room(p); }
bool search(Search& p, char* scratch) { return avx512::kernel.training.search(p, scratch); }
void cross_entropy(const Softmax& p) { avx512::kernel.training.cross_entropy(p); }
void add_rows(const Rows& p) { avx512::kernel.training.add_rows(p); }
void adam(const Adam& p) { avx512::kernel.training.adam(p); }
void norm(const Norm& p, bool backward) { avx512::kernel.training.norm(p, backward); }
void drop(const Drop& p) { avx512::kernel.training.drop(p); }
void unrectify(const Rectified& p) { avx512::kernel.training.unrectify(p); }
#else
template <class T>
int64_t backward_scratch(const Problem& p) {
    constexpr int64_t W = WIDE * L<T>, K = KEYS_AT_ONCE;
    int64_t width = width_of<T>(p.d);
    int64_t numbers = 4 * K * W + W * (3 * p.d + p.e + 2 * filled(p.d) + filled(p.e) + width) +
                      K * (p.d + p.e + width_of<T>(p.e) + width) + width + (p.together ? p.m * (filled(p.d) + filled(p.e)) : 0);
    return numbers * int64_t(sizeof(T)) + 4096;
}

constexpr int64_t NEAR = 512;  // keys whose gradients stay in the second cache while all queries pass

// One part of the queries of one group of items.
template <class T>
void back_part(const Problem& p, int64_t group, int64_t part, T* dkeys, T* dvalues, Room room) {
    constexpr int64_t width = WIDE * L<T>;
    const int64_t learned = p.score == PERCEPTRON ? filled(p.d) : 1;
    T* dlearned = static_cast<T*>(p.dlearned) + (group * p.parts + part) * learned;
    const int64_t start = tiles<T>(p) * part / p.parts, stop = tiles<T>(p) * (part + 1) / p.parts;
    for (int64_t item = p.first(group); item < p.first(group + 1); item++) {
        char* dbias = p.dbias ? reinterpret_cast<char*>(p.dbias[item * p.parts + part]) : nullptr;
        const Collected<T> out = {dkeys, dvalues, dlearned, dbias};
        for (int64_t j = 0; j < p.m; j += NEAR) {
            const int64_t last = std::min(j + NEAR, p.m);
            const bool finite = finite_as_stored<T>(p, item, j, last);
            for (int64_t t = start; t < stop; t++) {
                if (stopped(p.stop)) return;
                const int64_t i = t * width, rows = std::min(width, p.n - i);
                const bool wide = rows > L<T>;
                Workspace<T> workspace(p, item, wide ? width : L<T>, room, i, i + rows);
                if (wide) Back<T, 3>(workspace, i, rows, out, finite).run(j, last);
                else Back<T, 1>(workspace, i, rows, out, finite).run(j, last);
            }
        }
    }
}

// All parts of a group one after the other, each summed up from zero: as if other threads had done them.
template <class T>
void back_together(const Problem& p, int64_t group, Room room) {
    const int64_t keys = p.m * filled(p.d), values = p.m * filled(p.e);
    T *dkeys = static_cast<T*>(p.dkeys) + group * keys, *dvalues = static_cast<T*>(p.dvalues) + group * values;
    T *part_keys = room.take<T>(keys), *part_values = room.take<T>(values);
    back_part<T>(p, group, 0, dkeys, dvalues, room);
    for (int64_t part = 1; part < p.parts; part++) {
        memset(part_keys, 0, keys * sizeof(T)), memset(part_values, 0, values * sizeof(T));
        back_part<T>(p, group, part, part_keys, part_values, room);
        for (int64_t c = 0; c < keys; c += L<T>) store(dkeys + c, load(dkeys + c) + load(part_keys + c));
        for (int64_t c = 0; c < values; c += L<T>) store(dvalues + c, load(dvalues + c) + load(part_values + c));
    }
}

// A task: a group, or one part of it, or one part of them all where a bias collects from all of them.
template <class T>
void back(const Problem& p, int64_t task, Room room) {
    if (p.together) return back_together<T>(p, task, room);
    const int64_t part = p.serial ? task : task % p.parts, first = p.serial ? 0 : task / p.parts;
    for (int64_t group = first; group < (p.serial ? p.groups : first + 1); group++) {
        int64_t place = (group * p.parts + part) * p.m;
        back_part<T>(p, group, part, static_cast<T*>(p.dkeys) + place * filled(p.d),
                     static_cast<T*>(p.dvalues) + place * filled(p.e), room);
    }
}

#define OF_TYPE(F, ...) (p.compute == FLOAT32 ? F<float>(__VA_ARGS__) : F<double>(__VA_ARGS__))
int64_t shared(const Problem& p, bool backward) { return backward ? 0 : OF_TYPE(forward_shared, p); }
int64_t scratch(const Problem& p, bool backward) {
    return backward ? OF_TYPE(backward_scratch, p) : OF_TYPE(forward_scratch, p);
}
int64_t tasks(const Problem& p, bool backward, int phase) {
    if (!backward) return OF_TYPE(forward_tasks, p, phase);
    return phase ? 0 : p.together ? p.groups : p.serial ? p.parts : p.groups * p.parts;
}
void run(const Problem& p, bool backward, int phase, int64_t task, char* shared, char* scratch) {
    if (backward) OF_TYPE(back, p, task, Room{scratch});
    else OF_TYPE(forward, p, phase, task, shared, scratch);
}

int64_t recurrence_scratch(const Recurrence& p);  // training/recurrence.cpp
void recur(const Recurrence& p, bool backward, char* scratch);
void multiply(const Product& p, char* scratch);  // training/matrix.cpp
void predict(const Prediction& p, bool backward, char* scratch);  // training/output_layer.cpp
void tops(const Tops& p, char* scratch);
int64_t search_room(const Search& p);  // training/search.cpp
bool search(Search& p, char* scratch);
void cross_entropy(const Softmax& p);  // training/training.cpp
void add_rows(const Rows& p);
void adam(const Adam& p);
void norm(const Norm& p, bool backward);  // training/rows.cpp
void drop(const Drop& p);
void unrectify(const Rectified& p);

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
constexpr Training training = {recurrence_scratch, recur, multiply, predict, cross_entropy, add_rows, adam, tops, search_room,
                               search, norm, drop, unrectify};
#else
constexpr Training training = {};
#endif
#define STRING(x) #x
#define NAME(x) STRING(x)
extern const Kernel kernel;
const Kernel kernel = {NAME(ISA), shared, scratch, tasks, run, exp2_all, training, guess, look};

}  // namespace ISA
}  // namespace regard
