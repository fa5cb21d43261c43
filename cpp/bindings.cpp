// The only file that knows Python: arrays in, arrays out, the GIL dropped around the work.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>

#if defined(__linux__) || defined(__APPLE__)
#include <pthread.h>
#endif

#include "blas.hpp"
#include "family.hpp"
#include "multipliers.hpp"
#include "predict.hpp"
#include "simd.hpp"
#include "smo.hpp"
#include "text.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Doubles = Array<double>;
using Indices = Array<std::int64_t>;
using Cells = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<nb::numpy, double, nb::ndim<1>>;
using Matrix = nb::ndarray<nb::numpy, double, nb::ndim<2>>;

template <class T>
using Table = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Room = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;  // to be written to

template <class T>
std::span<const T> view(const Array<T>& a) {
    return {a.data(), a.shape(0)};
}
template <class T>
std::vector<T> copy(const Array<T>& a) {
    return {a.data(), a.data() + a.shape(0)};
}

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> array_from(std::vector<T> values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return {kept->data(), {kept->size()}, owner};
}

Vector vector_from(std::vector<double> values) { return array_from(std::move(values)); }

Matrix matrix_from(std::vector<double> values, std::size_t rows, std::size_t columns) {
    auto* kept = new std::vector<double>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
    return Matrix(kept->data(), {rows, columns}, owner);
}

// Rows together with the Python objects whose memory they view.
struct RowsHandle {
    mm::Rows rows;
    std::vector<nb::object> owners;
};

template <class T>
RowsHandle dense_rows(const Table<T>& x) {
    return {mm::Dense<T>{x.data(), static_cast<std::int64_t>(x.shape(0)),
                         static_cast<std::int64_t>(x.shape(1)), x.stride(0), x.stride(1)},
            {nb::cast(x)}};
}

template <class T, class I>
RowsHandle csr_rows(const Array<T>& values, const Array<I>& indices, const Indices& offsets,
                    std::int64_t d) {
    return {mm::Csr<T, I>{values.data(), indices.data(), offsets.data(),
                          static_cast<std::int64_t>(offsets.shape(0)) - 1, d},
            {nb::cast(values), nb::cast(indices), nb::cast(offsets)}};
}

using Code = std::vector<std::tuple<std::string, double, double, double>>;

std::shared_ptr<const mm::Program> program_from(const Code& code) {
    static const char* names[] = {"linear", "poly",         "rbf", "laplacian", "sigmoid", "matern",
                                  "chi2",   "intersection", "add", "mul",       "scale",   "pow"};
    auto program = std::make_shared<mm::Program>();
    int depth = 0;
    for (const auto& [name, a, b, c] : code) {
        int op = 0;
        while (op < 12 && name != names[op]) ++op;
        if (op == 12) throw std::invalid_argument("unknown kernel instruction: " + name);
        if (op < static_cast<int>(mm::Op::add)) ++depth;
        if (op == static_cast<int>(mm::Op::add) || op == static_cast<int>(mm::Op::mul)) --depth;
        if (depth < 1) throw std::invalid_argument("kernel program lacks an operand at: " + name);
        program->code.push_back({static_cast<mm::Op>(op), a, b, c});
    }
    if (depth != 1) throw std::invalid_argument("kernel program must leave one value");
    return program;
}

// Indices of all rows when none are named; checked, because C++ reads memory by them.
std::vector<std::int64_t> chosen_from(const RowsHandle& handle, const nb::object& chosen) {
    const auto n = mm::height(handle.rows);
    if (chosen.is_none()) return mm::all_rows(handle.rows);
    auto indices = copy(nb::cast<Indices>(chosen));
    for (const auto i : indices)
        if (i < 0 || i >= n) throw nb::index_error("row index out of range");
    return indices;
}

std::int64_t capi(const nb::dict& table, const char* name) {
    const nb::object capsule = table[name];
    void* pointer = PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr()));
    if (!pointer) throw nb::python_error();
    return reinterpret_cast<std::int64_t>(pointer);
}

// At first use, not at import: the stub generator imports this module where SciPy may be missing.
void load_blas() {
    if (mm::blas::dgemm) return;
    const nb::dict lapack = nb::module_::import_("scipy.linalg.cython_lapack").attr("__pyx_capi__");
    mm::blas::dpotrf = reinterpret_cast<mm::blas::Potrf>(capi(lapack, "dpotrf"));
    mm::blas::dpotrs = reinterpret_cast<mm::blas::Potrs>(capi(lapack, "dpotrs"));
    const nb::dict table = nb::module_::import_("scipy.linalg.cython_blas").attr("__pyx_capi__");
    mm::blas::dgemm = reinterpret_cast<mm::blas::Gemm>(capi(table, "dgemm"));
}

template <class P>
struct BasisHandle {
    mm::Basis<P> basis;

    void check(const RowsHandle& z, std::int64_t first, std::int64_t count) const {
        if (mm::width(z.rows) != basis.width())
            throw std::invalid_argument("rows of another width");
        if (first < 0 || count < 0 || first + count > mm::height(z.rows))
            throw nb::index_error("rows out of range");
    }

    Matrix matrix(const RowsHandle& z, std::int64_t first, std::int64_t count, int threads) const {
        check(z, first, count);
        std::vector<double> out(static_cast<std::size_t>(count * basis.size()));
        {
            nb::gil_scoped_release release;
            mm::Pool pool(threads);
            mm::kernel_matrix(basis, z.rows, first, count, out.data(), pool);
        }
        return matrix_from(std::move(out), static_cast<std::size_t>(count),
                           static_cast<std::size_t>(basis.size()));
    }

    // All entries of a square of its rows, into memory that is there already.
    template <class T>
    void fill(const RowsHandle& z, const Room<T>& out, int threads) const {
        const auto n = static_cast<std::size_t>(basis.size());
        if (out.shape(0) != n || out.shape(1) != n)
            throw std::invalid_argument("room for a square of the rows of the basis");
        check(z, 0, basis.size());
        if (mm::height(z.rows) != basis.size())
            throw std::invalid_argument("the rows must be those of the basis");
        nb::gil_scoped_release release;
        mm::Pool pool(threads);
        mm::symmetric_matrix(basis, z.rows, out.data(), pool);
    }

    Matrix combine(const RowsHandle& z, std::int64_t first, std::int64_t count, const Cells& coef,
                   int threads, bool single) const {
        check(z, first, count);
        if (static_cast<std::int64_t>(coef.shape(0)) != basis.size())
            throw std::invalid_argument("one row of coefficients per basis row");
        const auto q = static_cast<std::int64_t>(coef.shape(1));
        std::vector<double> out(static_cast<std::size_t>(count * q), 0.0);
        {
            nb::gil_scoped_release release;
            mm::Pool pool(threads);
            if constexpr (sizeof(P) == 8)
                if (!single)
                    mm::combine<double>(basis, z.rows, first, count, coef.data(), q, out.data(),
                                        pool);
            if (single || sizeof(P) == 4)
                mm::combine<float>(basis, z.rows, first, count, coef.data(), q, out.data(), pool);
        }
        return matrix_from(std::move(out), static_cast<std::size_t>(count),
                           static_cast<std::size_t>(q));
    }

    Vector symmetric_combine(const RowsHandle& z, const Indices& chosen, const Doubles& coef,
                             int threads) const {
        check(z, 0, 0);
        const auto rows = chosen_from(z, nb::cast(chosen));
        if (std::ssize(rows) != basis.size() || coef.shape(0) != rows.size())
            throw std::invalid_argument("chosen and coef must be those of the basis");
        std::vector<double> out(rows.size());
        {
            nb::gil_scoped_release release;
            mm::Pool pool(threads);
            mm::symmetric_combine(basis, z.rows, rows, coef.data(), out.data(), pool);
        }
        return vector_from(std::move(out));
    }
};

template <class P>
nb::class_<BasisHandle<P>> bind_basis(nb::module_& m, const char* name) {
    return nb::class_<BasisHandle<P>>(m, name)
        .def(
            "__init__",
            [](BasisHandle<P>* self, const RowsHandle& rows, const nb::object& chosen,
               const Code& code) {
                load_blas();
                new (self) BasisHandle<P>{
                    mm::Basis<P>(rows.rows, chosen_from(rows, chosen), program_from(code))};
            },
            "rows"_a, "chosen"_a.none(), "program"_a, nb::keep_alive<1, 2>())
        .def("fill", &BasisHandle<P>::template fill<P>, "z"_a, "out"_a.noconvert(), "threads"_a)
        .def("combine", &BasisHandle<P>::combine, "z"_a, "first"_a, "count"_a, "coef"_a,
             "threads"_a, "single"_a = false);
}

mm::Quadratic quadratic_from(const Doubles& s, const Doubles& l, const Doubles& u, const Doubles& D,
                             const Indices& row, const Indices& group, const Doubles& m,
                             const Doubles& diagonal, const nb::object& block) {
    mm::Quadratic q{copy(s),   copy(l),     copy(u), copy(D),
                    copy(row), copy(group), copy(m), copy(diagonal)};
    const auto groups = static_cast<std::int64_t>(q.m.size());
    const auto n = q.s.size();
    if (q.l.size() != n || q.u.size() != n || q.D.size() != n || q.row.size() != n ||
        q.group.size() != n)
        throw std::invalid_argument("one s, l, u, D, row and group per variable");
    for (std::size_t k = 0; k < n; ++k)
        if (q.row[k] < 0 || q.row[k] >= static_cast<std::int64_t>(q.diagonal.size()) ||
            q.group[k] < (groups > 0 ? 0 : -1) || q.group[k] >= groups)
            throw nb::index_error("row or group out of range");
    if (block.is_none()) return q;
    q.block = copy(nb::cast<Indices>(block));
    if (q.block.size() != n) throw std::invalid_argument("one block per variable");
    for (const auto b : q.block) {
        if (b < 0 || b >= static_cast<std::int64_t>(n)) throw nb::index_error("block out of range");
        q.blocks = std::max(q.blocks, b + 1);
    }
    return q;
}

// The one QP without its matrix, checked once: the arrays stay where they lie in Python.
struct ConstraintsHandle {
    Doubles s, l, u, D;
    Indices group;
    Doubles m;
    double rounding;

    mm::Constraints view_of() const {
        return {view(s), view(l), view(u), view(D), view(group), view(m), rounding};
    }
    void check(std::initializer_list<const Doubles*> per_variable) const {
        for (const auto* a : per_variable)
            if (a->shape(0) != s.shape(0)) throw std::invalid_argument("one number per variable");
    }
    void check_all() const {
        check({&l, &u, &D});
        if (group.shape(0) != s.shape(0)) throw std::invalid_argument("one group per variable");
        for (const auto g : view(group))
            if (g < -1 || g >= static_cast<std::int64_t>(m.shape(0)))
                throw nb::index_error("group out of range");
    }
};

// One number of each, as two vectors.
template <class T>
std::pair<Vector, Vector> columns(const std::vector<T>& pairs, double T::* first,
                                  double T::* second) {
    std::vector<double> a, b;
    for (const auto& pair : pairs) {
        a.push_back(pair.*first);
        b.push_back(pair.*second);
    }
    return {vector_from(std::move(a)), vector_from(std::move(b))};
}

std::shared_ptr<const mm::Program> check_dots(const Code& code, const Cells& dots,
                                              const Doubles& norms, const Indices& rows,
                                              const Doubles& diagonal) {
    const auto n = dots.shape(0), count = rows.shape(0);
    bool fine = dots.shape(1) == n && norms.shape(0) == n && diagonal.shape(0) == count;
    for (const auto row : view(rows)) fine = fine && row >= 0 && row < static_cast<std::int64_t>(n);
    auto program = program_from(code);
    if (!fine || !mm::of_dots(*program))
        throw std::invalid_argument("a square of dot products, rows of it, a kernel of these");
    return program;
}

// Into `out`, whose memory is there already.
template <class T>
void from_dots(const Code& code, const Cells& dots, const Doubles& norms, const Indices& rows,
               const Doubles& diagonal, const Room<T>& out, int threads) {
    const auto program = check_dots(code, dots, norms, rows, diagonal);
    if (out.shape(0) != rows.shape(0) || out.shape(1) != rows.shape(0))
        throw std::invalid_argument("room for a square of these rows");
    nb::gil_scoped_release release;
    mm::Pool pool(threads);
    mm::Dots(*program, dots.data(), static_cast<std::int64_t>(dots.shape(0)), view(norms),
             view(rows), view(diagonal))
        .fill(out.data(), pool);
}

Matrix combine_dots(const Code& code, const Cells& dots, const Doubles& norms, const Indices& rows,
                    const Doubles& diagonal, const Cells& coef, int threads) {
    const auto program = check_dots(code, dots, norms, rows, diagonal);
    if (coef.shape(0) != rows.shape(0))
        throw std::invalid_argument("one row of coefficients per row");
    load_blas();
    std::vector<double> out(coef.size(), 0.0);
    {
        nb::gil_scoped_release release;
        mm::Pool pool(threads);
        mm::Dots(*program, dots.data(), static_cast<std::int64_t>(dots.shape(0)), view(norms),
                 view(rows), view(diagonal))
            .combine(coef.data(), static_cast<std::int64_t>(coef.shape(1)), out.data(), pool);
    }
    return matrix_from(std::move(out), coef.shape(0), coef.shape(1));
}

std::vector<double> flat(const Cells& a) { return {a.data(), a.data() + a.shape(0) * a.shape(1)}; }

std::size_t extent(std::int64_t count) { return static_cast<std::size_t>(count); }

struct ChainsHandle {
    std::shared_ptr<const mm::Family::Chains> chains;
    std::vector<nb::object> owners;  // of what it looks at
};

Matrix by_chain(const mm::Family& family, const std::vector<double>& values) {
    const auto count = static_cast<std::size_t>(family.chains());
    return matrix_from(values, count, values.size() / count);
}

// Ascending ends of parts that lie one after the other.
bool are_ends(const std::vector<std::int64_t>& ends, std::size_t last) {
    return ends.size() > 1 && ends.front() == 0 && ends.back() == static_cast<std::int64_t>(last) &&
           std::ranges::is_sorted(ends);
}

// Whether these are all entries of a Gram matrix, a row side by side.
bool is_square(const mm::Rows& rows) {
    return std::visit(
        [](const auto& K) {
            if constexpr (requires { K.row_stride; }) return K.n == K.d && K.column_stride == 1;
            return false;
        },
        rows);
}

// C++ reads memory by these.
void check_chains(const mm::Family::Chains& c, const Cells& m) {
    const auto count = c.first.size() - 1, variables = c.s.size();
    bool fine = are_ends(c.first, variables) && are_ends(c.first_held, c.held.size()) &&
                c.fold.size() == count && c.patch.size() == count && m.shape(0) == count;
    for (const auto* a : {&c.l, &c.u, &c.D}) fine = fine && a->size() == variables;
    fine = fine && c.row.size() == variables && c.group.size() == variables;
    for (std::size_t k = 0; fine && k < variables; ++k)
        fine = c.row[k] >= 0 && c.group[k] >= (c.groups > 0 ? 0 : -1) && c.group[k] < c.groups;
    for (std::size_t k = 1; fine && k < c.first.size(); ++k) fine = c.first[k] > c.first[k - 1];
    for (std::size_t k = 0; fine && k < count; ++k)
        fine = c.fold[k] >= 0 && c.fold[k] + 1 < std::ssize(c.first_held) && c.patch[k] >= 0 &&
               c.patch[k] < static_cast<std::int64_t>(count);
    for (std::size_t k = 0; fine && k < c.held.size(); ++k) fine = c.held[k] >= 0;
    if (!fine) throw std::invalid_argument("chains of problems: parts of other lengths");
}

void check_family(const RowsHandle& square, const mm::Family::Chains& c, const Doubles& diagonal,
                  const Cells& members, const Doubles& beta, const Cells& kbeta,
                  const Indices& skip) {
    const auto n = static_cast<std::int64_t>(diagonal.shape(0));
    const auto count = c.first.size() - 1;
    const auto inside = [n](std::int64_t row) { return row < n; };
    bool fine = is_square(square.rows) && mm::height(square.rows) == n && members.shape(0) > 0 &&
                members.shape(1) == 3 && std::ranges::all_of(c.row, inside) &&
                std::ranges::all_of(c.held, inside);
    if (beta.shape(0) > 0 || kbeta.shape(0) > 0)
        fine = fine && beta.shape(0) == c.s.size() && kbeta.shape(0) == count &&
               static_cast<std::int64_t>(kbeta.shape(1)) == n;
    fine = fine && (skip.shape(0) == 0 || skip.shape(0) == count * members.shape(0));
    if (!fine) throw std::invalid_argument("a square of K, and chains of problems that fit it");
}

}  // namespace

NB_MODULE(_core, m) {
    nb::set_leak_warnings(false);  // a notebook or a traceback may hold objects at exit
    m.doc() = "The C++ core of maxmargin: rows, kernels, Gram rows and SMO.";

    m.def(
        "read_libsvm",
        [](const nb::bytes& text, std::int64_t line, bool zero_allowed) {
            mm::LibsvmText read;
            {
                nb::gil_scoped_release release;
                read = mm::read_libsvm({text.c_str(), text.size()}, line, zero_allowed);
            }
            return std::tuple(
                array_from(std::move(read.target)), array_from(std::move(read.offsets)),
                array_from(std::move(read.columns)), array_from(std::move(read.values)));
        },
        "text"_a, "line"_a = 1, "zero_allowed"_a = false);
    m.def("instruction_set", [] {
        static const char* names[] = {"baseline", "avx2", "avx512"};
        return std::string(names[static_cast<int>(mm::isa())]);
    });

    nb::class_<ConstraintsHandle>(m, "Constraints")
        .def(
            "__init__",
            [](ConstraintsHandle* self, const Doubles& s, const Doubles& l, const Doubles& u,
               const Doubles& D, const Indices& group, const Doubles& m, double rounding) {
                const ConstraintsHandle handle{s, l, u, D, group, m, rounding};
                handle.check_all();
                new (self) ConstraintsHandle(handle);
            },
            "s"_a, "l"_a, "u"_a, "D"_a, "group"_a, "m"_a, "rounding"_a)
        .def(
            "best_multipliers",
            [](const ConstraintsHandle& self, const Doubles& c, const Doubles& D) {
                self.check({&c, &D});
                return columns(mm::best_multipliers(self.view_of(), view(c), view(D)),
                               &mm::Interval::low, &mm::Interval::high);
            },
            "c"_a, "D"_a)
        .def(
            "multipliers",
            [](const ConstraintsHandle& self, const Doubles& c) {
                self.check({&c});
                std::vector<double> middles;
                for (const auto& i : mm::best_multipliers(self.view_of(), view(c), view(self.D)))
                    middles.push_back(i.middle());
                return vector_from(std::move(middles));
            },
            "c"_a)
        .def(
            "feasible",
            [](const ConstraintsHandle& self, const Doubles& beta) {
                self.check({&beta});
                return mm::feasible(self.view_of(), view(beta));
            },
            "beta"_a)
        .def(
            "ends",
            [](const ConstraintsHandle& self, const Doubles& beta, const Doubles& gradient) {
                self.check({&beta, &gradient});
                auto found = mm::ends(self.view_of(), view(beta), view(gradient));
                found.pop_back();
                return columns(found, &mm::Ends::rise, &mm::Ends::fall);
            },
            "beta"_a, "gradient"_a)
        .def(
            "doubtful",
            [](const ConstraintsHandle& self, const Doubles& beta, const Doubles& kbeta,
               const Doubles& error, double tol) {
                self.check({&beta, &kbeta, &error});
                return array_from(
                    mm::doubtful(self.view_of(), view(beta), view(kbeta), view(error), tol));
            },
            "beta"_a, "kbeta"_a, "error"_a, "tol"_a)
        .def(
            "worth",
            [](const ConstraintsHandle& self, const Doubles& beta, const Doubles& kbeta,
               const Doubles& error, double likely, double t) {
                self.check({&beta, &kbeta, &error});
                mm::Worth found;
                {
                    nb::gil_scoped_release release;
                    found =
                        mm::worth(self.view_of(), view(beta), view(kbeta), view(error), likely, t);
                }
                return std::tuple(found.primal, found.dual, found.gap, found.noise, found.violation,
                                  vector_from(std::move(found.lambda)));
            },
            "beta"_a, "kbeta"_a, "error"_a, "likely"_a, "t"_a);

    m.def(
        "of_dots", [](const Code& code) { return mm::of_dots(*program_from(code)); }, "program"_a);
    m.def("from_dots", &from_dots<float>, "program"_a, "dots"_a.noconvert(), "norms"_a, "rows"_a,
          "diagonal"_a, "out"_a.noconvert(), "threads"_a);
    m.def("from_dots", &from_dots<double>, "program"_a, "dots"_a.noconvert(), "norms"_a, "rows"_a,
          "diagonal"_a, "out"_a.noconvert(), "threads"_a);
    m.def("combine_dots", &combine_dots, "program"_a, "dots"_a.noconvert(), "norms"_a, "rows"_a,
          "diagonal"_a, "coef"_a, "threads"_a);

    nb::class_<RowsHandle>(m, "Rows")
        .def_static("dense", &dense_rows<float>, "x"_a.noconvert())
        .def_static("dense", &dense_rows<double>, "x"_a.noconvert())
        .def_static("csr", &csr_rows<float, std::int32_t>, "values"_a.noconvert(),
                    "indices"_a.noconvert(), "offsets"_a.noconvert(), "d"_a)
        .def_static("csr", &csr_rows<float, std::int64_t>, "values"_a.noconvert(),
                    "indices"_a.noconvert(), "offsets"_a.noconvert(), "d"_a)
        .def_static("csr", &csr_rows<double, std::int32_t>, "values"_a.noconvert(),
                    "indices"_a.noconvert(), "offsets"_a.noconvert(), "d"_a)
        .def_static("csr", &csr_rows<double, std::int64_t>, "values"_a.noconvert(),
                    "indices"_a.noconvert(), "offsets"_a.noconvert(), "d"_a)
        .def_prop_ro(
            "shape",
            [](const RowsHandle& h) { return std::pair(mm::height(h.rows), mm::width(h.rows)); })
        .def_prop_ro("work", [](const RowsHandle& h) { return mm::mean_work(h.rows); })
        .def(
            "squared_radius", [](const RowsHandle& h) { return mm::squared_radius(h.rows); },
            nb::call_guard<nb::gil_scoped_release>())
        .def(
            "product",
            [](const RowsHandle& h, const nb::object& of, const Indices& columns,
               const Doubles& coef) {
                const auto rows = of.is_none() ? std::vector<std::int64_t>{} : chosen_from(h, of);
                const auto n = of.is_none() ? mm::height(h.rows) : std::ssize(rows);
                for (const auto j : view(columns))
                    if (j < 0 || j >= n) throw nb::index_error("column out of range");
                if (coef.shape(0) != columns.shape(0) || !is_square(h.rows))
                    throw std::invalid_argument("a square of K, and a coefficient per column");
                std::vector<double> out;
                {
                    nb::gil_scoped_release release;
                    out = mm::product(h.rows, rows, view(columns), view(coef));
                }
                return vector_from(std::move(out));
            },
            "of"_a.none(), "columns"_a, "coef"_a)
        .def(
            "diagonal",
            [](const RowsHandle& h, const Code& code) {
                return vector_from(mm::diagonal(h.rows, *program_from(code)));
            },
            "program"_a);

    bind_basis<double>(m, "Basis")
        .def("fill", &BasisHandle<double>::fill<float>, "z"_a, "out"_a.noconvert(), "threads"_a)
        .def("matrix", &BasisHandle<double>::matrix, "z"_a, "first"_a, "count"_a, "threads"_a)
        .def("symmetric_combine", &BasisHandle<double>::symmetric_combine, "z"_a, "chosen"_a,
             "coef"_a, "threads"_a);
    bind_basis<float>(m, "SingleBasis");

    nb::enum_<mm::Outcome>(m, "Outcome")
        .value("running", mm::Outcome::running)
        .value("converged", mm::Outcome::converged)
        .value("stalled", mm::Outcome::stalled)
        .value("slow", mm::Outcome::slow)
        .value("unbounded", mm::Outcome::unbounded);

    nb::class_<mm::KeptMemory>(m, "KeptMemory").def(nb::init<>());
#if defined(__linux__) || defined(__APPLE__)
    pthread_atfork(mm::KeptMemory::before_fork, mm::KeptMemory::after_fork,
                   mm::KeptMemory::after_fork);
#endif

    nb::class_<mm::Smo>(m, "Smo")
        .def(
            "__init__",
            [](mm::Smo* self, const RowsHandle& rows, const nb::object& code, const Doubles& s,
               const Doubles& l, const Doubles& u, const Doubles& D, const Indices& row,
               const Indices& group, const Doubles& m, const Doubles& diagonal, const Doubles& beta,
               const Doubles& kbeta, double tol, bool shrinking, bool single_rows,
               bool single_products, std::int64_t cache_bytes, std::int64_t working_set,
               const nb::object& block, const nb::object& chosen) {
                load_blas();
                mm::Source source{rows.rows,
                                  code.is_none() ? nullptr : program_from(nb::cast<Code>(code)),
                                  single_products};
                if (!chosen.is_none()) source.chosen = chosen_from(rows, chosen);
                auto q = quadratic_from(s, l, u, D, row, group, m, diagonal, block);
                const auto cells = q.diagonal.size() * static_cast<std::size_t>(q.blocks);
                if (beta.shape(0) != q.s.size() ||
                    (kbeta.shape(0) != cells && (kbeta.shape(0) > 0 || q.blocks > 1)) ||
                    static_cast<std::int64_t>(q.diagonal.size()) != source.size() ||
                    (source.program && !source.chosen.empty()))
                    throw std::invalid_argument("beta per variable, diagonal and kbeta per row");
                nb::gil_scoped_release release;
                new (self) mm::Smo(std::move(source), std::move(q), copy(beta), view(kbeta), tol,
                                   shrinking, single_rows, cache_bytes, working_set);
            },
            "rows"_a, "program"_a.none(), "s"_a, "l"_a, "u"_a, "D"_a, "row"_a, "group"_a, "m"_a,
            "diagonal"_a, "beta"_a, "kbeta"_a, nb::kw_only(), "tol"_a, "shrinking"_a,
            "single_rows"_a, "single_products"_a, "cache_bytes"_a, "working_set"_a = 0,
            "block"_a.none() = nb::none(), "chosen"_a.none() = nb::none(), nb::keep_alive<1, 2>())
        .def("step", &mm::Smo::step, "iterations"_a, "seconds"_a, "threads"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("catch_up", &mm::Smo::catch_up, "seconds"_a, "threads"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("kbeta", [](const mm::Smo& self) { return vector_from(self.kbeta()); })
        .def_prop_ro("current", &mm::Smo::current)
        .def(
            "refresh",
            [](mm::Smo& self, const Doubles& kbeta) {
                if (kbeta.shape(0) != self.rows()) throw std::invalid_argument("one kbeta per row");
                nb::gil_scoped_release release;
                self.refresh(view(kbeta));
            },
            "kbeta"_a)
        .def_prop_ro("objective", &mm::Smo::objective)
        .def("estimated_gap", &mm::Smo::estimated_gap)
        .def_prop_ro("gained", &mm::Smo::gained)
        .def(
            "assign",
            [](mm::Smo& self, const Doubles& beta) {
                if (beta.shape(0) != self.beta().size())
                    throw std::invalid_argument("one beta per variable");
                self.assign(copy(beta));
            },
            "beta"_a)
        .def("rebalance", &mm::Smo::rebalance)
        .def("violation", [](const mm::Smo& self) { return self.violation(); })
        .def("rescale", &mm::Smo::rescale, "factor"_a)
        .def_rw("tol", &mm::Smo::tol)
        .def_prop_ro(
            "beta",
            [](const mm::Smo& self) {
                return vector_from(std::vector<double>(self.beta().begin(), self.beta().end()));
            },
            nb::rv_policy::move)
        .def_prop_ro("iterations", &mm::Smo::iterations)
        .def_prop_ro("active", &mm::Smo::active)
        .def_prop_ro("ray", &mm::Smo::ray)
        .def(
            "multiplier",
            [](const mm::Smo& self, std::int64_t group) {
                const auto all = self.bounds();
                if (group < 0 || group >= static_cast<std::int64_t>(all.size()))
                    throw nb::index_error("no such group");
                return 0.5 * (all[group].high + all[group].low);
            },
            "group"_a)
        .def_prop_ro("last_step",
                     [](const mm::Smo& self) {
                         const auto& step = self.last_step();
                         return std::tuple(step.up, step.down, step.high, step.low, step.eta,
                                           step.gain);
                     })
        .def_prop_ro("counters", [](const mm::Smo& self) {
            const auto c = self.counters();
            nb::dict out;
            out["rows_computed"] = c.rows_computed;
            out["rows_cached"] = c.rows_cached;
            out["pair_steps"] = self.iterations();
            out["rounds"] = c.rounds;
            out["seconds_kernel"] = c.seconds_kernel;
            out["seconds_solve"] = c.seconds - c.seconds_kernel - c.seconds_update;
            out["seconds_update"] = c.seconds_update;
            return out;
        });

    nb::class_<ChainsHandle>(m, "Chains")
        .def(
            "__init__",
            [](ChainsHandle* self, const Indices& first, const Doubles& s, const Doubles& l,
               const Doubles& u, const Doubles& D, const Indices& row, const Indices& group,
               const Cells& m, const Indices& fold, const Indices& first_held, const Indices& held,
               const Indices& patch) {
                if (first.shape(0) == 0) throw std::invalid_argument("no chain of problems");
                mm::Family::Chains chains{
                    copy(first), view(s),          view(l),
                    view(u),     view(D),          view(row),
                    view(group), flat(m),          static_cast<std::int64_t>(m.shape(1)),
                    copy(fold),  copy(first_held), copy(held),
                    copy(patch)};
                check_chains(chains, m);
                std::vector<nb::object> owners;
                for (const auto* a : {&s, &l, &u, &D}) owners.push_back(nb::cast(*a));
                for (const auto* a : {&row, &group}) owners.push_back(nb::cast(*a));
                new (self)
                    ChainsHandle{std::make_shared<const mm::Family::Chains>(std::move(chains)),
                                 std::move(owners)};
            },
            "first"_a, "s"_a, "l"_a, "u"_a, "D"_a, "row"_a, "group"_a, "m"_a, "fold"_a,
            "first_held"_a, "held"_a, "patch"_a);

    nb::class_<mm::Family>(m, "Family")
        .def(
            "__init__",
            [](mm::Family* self, const RowsHandle& square, const ChainsHandle& chains,
               const Doubles& diagonal, const Cells& members, const Doubles& beta,
               const Cells& kbeta, const Indices& skip, double tol, std::int64_t steps,
               bool abreast) {
                load_blas();
                check_family(square, *chains.chains, diagonal, members, beta, kbeta, skip);
                std::vector<mm::Family::Member> factors;
                for (std::size_t q = 0; q < members.shape(0); ++q)
                    factors.push_back({members(q, 0), members(q, 1), members(q, 2)});
                nb::gil_scoped_release release;
                new (self)
                    mm::Family(square.rows, chains.chains, copy(diagonal), std::move(factors),
                               view(beta), {kbeta.data(), kbeta.size()},
                               {skip.data(), skip.data() + skip.shape(0)}, {tol, steps, abreast});
            },
            "square"_a, "chains"_a, "diagonal"_a, "members"_a, "beta"_a, "kbeta"_a, "skip"_a,
            nb::kw_only(), "tol"_a, "steps"_a, "abreast"_a = false, nb::keep_alive<1, 2>(),
            nb::keep_alive<1, 3>())
        .def("run", &mm::Family::run, "seconds"_a, "threads"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def("put_down", &mm::Family::put_down, "threads"_a,
             nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("done", &mm::Family::done)
        .def_prop_ro(  // what it holds, where it holds it
            "beta",
            [](nb::handle self) {
                auto& f = nb::cast<mm::Family&>(self);
                return Matrix(f.beta(), {extent(f.variables()), extent(f.length())}, self);
            },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "held",
            [](nb::handle self) {
                auto& f = nb::cast<mm::Family&>(self);
                return Matrix(f.held(), {extent(f.length()), extent(f.rows_held())}, self);
            },
            nb::rv_policy::automatic)
        .def_prop_ro(
            "n_support",
            [](const mm::Family& f) {
                auto counts = f.supports();
                const auto length = static_cast<std::size_t>(f.length());
                const auto folds = counts.size() / length;
                return matrix_from(std::move(counts), folds, length);
            },
            nb::rv_policy::move)
        .def_prop_ro(
            "multipliers", [](const mm::Family& f) { return by_chain(f, f.multipliers()); },
            nb::rv_policy::move)
        .def_prop_ro(
            "violations", [](const mm::Family& f) { return by_chain(f, f.violations()); },
            nb::rv_policy::move)
        .def_prop_ro(
            "duals", [](const mm::Family& f) { return by_chain(f, f.duals()); },
            nb::rv_policy::move)
        .def_prop_ro(
            "gaps", [](const mm::Family& f) { return by_chain(f, f.gaps()); }, nb::rv_policy::move)
        .def_prop_ro(
            "steps", [](const mm::Family& f) { return by_chain(f, f.steps()); },
            nb::rv_policy::move);
}
