"""Linear algebra on lists of lists: exact where the entries are. Roots of polynomials, too."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import gcd, lcm
from typing import TypeAlias

from cellwright.errors import CalculationError, CalculationTooLarge
from cellwright.tools.calculator._arithmetic import ONE, PRECISION, ZERO, parts
from cellwright.tools.calculator._elementary import modulus, root
from cellwright.tools.calculator._operations import Operations, number
from cellwright.tools.calculator._value_text import short
from cellwright.tools.calculator._values import MAX_ORDER, Complex, Number, Value

__all__ = [
    "Matrix",
    "as_matrix",
    "determinant",
    "eigenvalues",
    "inverse",
    "matrix_power",
    "multiplied",
    "rank",
    "roots",
    "solved",
    "transposed",
]

Matrix: TypeAlias = list[list[Number]]

_MAX_EIGEN = 8

_MAX_POWER = 1_000


def as_matrix(value: Value) -> Matrix:
    """A list of rows of numbers.

    Raises:
        CalculationError: it is none.
        CalculationTooLarge: it has too many rows or columns.
    """
    if not isinstance(value, tuple) or not value:
        raise CalculationError(f"{short(value)} is no matrix", hint="Write its rows, as in [[1, 2], [3, 4]]")
    rows = [row if isinstance(row, tuple) else (row,) for row in value]
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        raise CalculationError("The rows of the matrix are not equally long", hint="Fill them up with zeros")
    if max(len(rows), len(rows[0])) > MAX_ORDER:
        raise CalculationTooLarge(
            f"The matrix is {len(rows):,} by {len(rows[0]):,}; at most {MAX_ORDER} by {MAX_ORDER} are calculated",
            hint="Run it as code",
        )
    return [[number(entry, "put into a matrix") for entry in row] for row in rows]


def determinant(o: Operations, matrix: Matrix) -> Number:
    _square(matrix)
    rows = [list(row) for row in matrix]
    result: Number = ONE
    for column in range(len(rows)):
        pivot = _pivot(o, rows, column, column)
        if pivot is None:
            return ZERO
        if pivot != column:
            rows[column], rows[pivot] = rows[pivot], rows[column]
            result = o.numbers.negate(result)
        result = o.numbers.multiply(result, rows[column][column])
        for row in range(column + 1, len(rows)):
            _clear(o, rows, row, column, column)
    return result


def inverse(o: Operations, matrix: Matrix) -> Matrix:
    return solved(o, matrix, identity(len(matrix)))


def solved(o: Operations, matrix: Matrix, right: Matrix) -> Matrix:
    """What the matrix makes the right side of.

    Raises:
        CalculationError: there is no single answer.
    """
    order = _square(matrix)
    if len(right) != order:
        raise CalculationError(
            f"There are {order} equations and {len(right)} right sides",
            hint="Give one right side for each row",
        )
    reduced, pivots = _reduced(o, [left + other for left, other in zip(matrix, right, strict=True)], order)
    if len(pivots) < order:
        raise CalculationError("The matrix is singular: its determinant is 0", hint="Look at rank(matrix)")
    return [row[order:] for row in reduced]


def rank(o: Operations, matrix: Matrix) -> int:
    return len(_reduced(o, matrix, len(matrix[0]))[1])


def transposed(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def multiplied(o: Operations, left: Matrix, right: Matrix) -> Matrix:
    if len(left[0]) != len(right):
        raise CalculationError(
            f"A matrix of {len(left[0])} columns cannot be multiplied with one of {len(right)} rows",
            hint="Transpose one of them",
        )
    columns = transposed(right)
    return [[dot(o, row, column) for column in columns] for row in left]


def dot(o: Operations, left: list[Number], right: list[Number]) -> Number:
    if len(left) != len(right):
        raise CalculationError("The vectors are not equally long", hint="Give lists of one length")
    result: Number = ZERO
    for a, b in zip(left, right, strict=True):
        result = o.numbers.add(result, o.numbers.multiply(a, b))
    return result


def matrix_power(o: Operations, matrix: Matrix, exponent: int) -> Matrix:
    if abs(exponent) > _MAX_POWER:
        raise CalculationTooLarge(f"Matrices are raised up to {_MAX_POWER:,}", hint="Run it as code")
    base = inverse(o, matrix) if exponent < 0 else matrix
    result = identity(_square(matrix))
    for bit in f"{abs(exponent):b}":
        result = multiplied(o, result, result)
        if bit == "1":
            result = multiplied(o, result, base)
    return result


def identity(order: int) -> Matrix:
    return [[ONE if row == column else ZERO for column in range(order)] for row in range(order)]


def characteristic(o: Operations, matrix: Matrix) -> list[Number]:
    """The coefficients of the characteristic polynomial, highest first (Faddeev and LeVerrier)."""
    order = _square(matrix)
    coefficients: list[Number] = [ONE]
    current = identity(order)
    for step in range(1, order + 1):
        product = multiplied(o, matrix, current)
        trace: Number = ZERO
        for place in range(order):
            trace = o.numbers.add(trace, product[place][place])
        coefficient = o.numbers.negate(o.numbers.divide(trace, Fraction(step)))
        coefficients.append(coefficient)
        for place in range(order):
            product[place][place] = o.numbers.add(product[place][place], coefficient)
        current = product
    return coefficients


def eigenvalues(o: Operations, matrix: Matrix) -> list[Number]:
    """Each as often as it counts."""
    if _square(matrix) > _MAX_EIGEN:
        raise CalculationTooLarge(
            f"Eigenvalues are calculated of matrices up to {_MAX_EIGEN} by {_MAX_EIGEN}",
            hint="Run it as code",
        )
    return roots(o, characteristic(o, matrix))


def _reduced(o: Operations, matrix: Matrix, columns: int) -> tuple[Matrix, list[int]]:
    """The matrix in reduced row echelon form, and in which of its first columns there are pivots."""
    rows = [list(row) for row in matrix]
    pivots: list[int] = []
    for column in range(columns):
        top = len(pivots)
        pivot = _pivot(o, rows, top, column)
        if pivot is None:
            continue
        rows[top], rows[pivot] = rows[pivot], rows[top]
        first = rows[top][column]
        rows[top] = [o.numbers.divide(entry, first) for entry in rows[top]]
        for row in range(len(rows)):
            if row != top:
                _clear(o, rows, row, top, column)
        pivots.append(column)
    return rows, pivots


def _clear(o: Operations, rows: Matrix, row: int, pivot: int, column: int) -> None:
    """Take so much of the pivot's row from another that nothing is left of it in the column."""
    if rows[row][column] == 0:
        return
    factor = o.numbers.divide(rows[row][column], rows[pivot][column])
    rows[row] = [
        o.numbers.subtract(entry, o.numbers.multiply(factor, above))
        if place > column
        else ZERO
        if place == column
        else entry
        for place, (entry, above) in enumerate(zip(rows[row], rows[pivot], strict=True))
    ]


def _pivot(o: Operations, rows: Matrix, top: int, column: int) -> int | None:
    """The row with the largest entry: approximate numbers lose the fewest digits so."""
    found: int | None = None
    for row in range(top, len(rows)):
        entry = rows[row][column]
        if entry == 0:
            continue
        if isinstance(entry, Fraction):
            return row
        if found is None or modulus(o.numbers, entry) > modulus(o.numbers, rows[found][column]):
            found = row
    return found


def _square(matrix: Matrix) -> int:
    if len(matrix) != len(matrix[0]):
        raise CalculationError(
            f"The matrix is {len(matrix)} by {len(matrix[0])}, and not square",
            hint="Give as many rows as columns",
        )
    return len(matrix)


# Roots of polynomials: whole and broken numbers exactly, all others as decimals, real ones before complex
# ones.

_MAX_DEGREE = 12

_MAX_ROUNDS = 200

_MAX_CANDIDATES = 2_000

_SMALL = 10**6

_CLOSE = Decimal(10) ** (12 - PRECISION)


def roots(o: Operations, coefficients: list[Number]) -> list[Number]:
    """The roots, each as often as it counts; the coefficients begin with the highest.

    Raises:
        CalculationTooLarge: the degree is beyond what is solved.
    """
    while coefficients and coefficients[0] == 0:
        coefficients = coefficients[1:]
    if len(coefficients) < 2:  # a constant
        raise CalculationError("A constant has no roots", hint="Give the coefficients, the highest first")
    if len(coefficients) - 1 > _MAX_DEGREE:
        raise CalculationTooLarge(f"Polynomials are solved up to degree {_MAX_DEGREE}", hint="Run it as code")
    found, rest = _rational_roots(o, coefficients)
    while len(rest) > 1:
        # A root that counts twice is found to half of the digits only: so each is looked for once, then the rest.
        simple, rest = _simple_part(o, rest)
        found += _quadratic(o, simple) if len(simple) == 3 else _aberth(o, simple)
    return sorted(found, key=_order)


def _order(number: Number) -> tuple[bool, Fraction, Fraction]:
    real, imaginary = parts(number)
    return isinstance(number, Complex), Fraction(real), Fraction(imaginary)


def _rational_roots(o: Operations, coefficients: list[Number]) -> tuple[list[Number], list[Number]]:
    """The roots that are fractions, and what is left when they are divided out."""
    found: list[Number] = []
    if not all(isinstance(coefficient, Fraction) for coefficient in coefficients):
        return found, coefficients
    while len(coefficients) > 1 and coefficients[-1] == 0:
        found.append(ZERO)
        coefficients = coefficients[:-1]
    for candidate in _candidates(coefficients):
        while len(coefficients) > 1:
            *quotient, rest = _divided(o, coefficients, candidate)
            if rest != 0:
                break
            found.append(candidate)
            coefficients = quotient
    return found, coefficients


def _simple_part(o: Operations, coefficients: list[Number]) -> tuple[list[Number], list[Number]]:
    """The polynomial that has each root once, and what is left of the whole."""
    if not all(isinstance(coefficient, Fraction) for coefficient in coefficients):
        return coefficients, []
    common, other = coefficients, _slope(o, coefficients)
    while other:
        common, other = other, _quotient(o, common, other)[1]
    return _quotient(o, coefficients, common)[0], common


def _quotient(o: Operations, above: list[Number], below: list[Number]) -> tuple[list[Number], list[Number]]:
    """The quotient and the remainder of two polynomials."""
    n = o.numbers
    rest, quotient = list(above), []
    while len(rest) >= len(below):
        factor = n.divide(rest[0], below[0])
        quotient.append(factor)
        for place, coefficient in enumerate(below):
            rest[place] = n.subtract(rest[place], n.multiply(factor, coefficient))
        rest = rest[1:]
    while rest and rest[0] == 0:
        rest = rest[1:]
    return quotient, rest


def _slope(o: Operations, coefficients: list[Number]) -> list[Number]:
    degree = len(coefficients) - 1
    return [
        o.numbers.multiply(coefficient, Fraction(degree - place))
        for place, coefficient in enumerate(coefficients[:-1])
    ]


def _candidates(coefficients: list[Number]) -> list[Fraction]:
    """A divisor of the last coefficient over one of the first, where both are small."""
    exact = [number for number in coefficients if isinstance(number, Fraction)]
    scale = lcm(*(number.denominator for number in exact))
    whole = [int(number * scale) for number in exact]
    common = gcd(*whole)
    first, last = abs(whole[0] // common), abs(whole[-1] // common)
    if max(first, last) > _SMALL:
        return []
    tops, bottoms = _divisors(last), _divisors(first)
    if len(tops) * len(bottoms) > _MAX_CANDIDATES:
        return []
    positive = sorted({Fraction(top, bottom) for top in tops for bottom in bottoms})
    return [sign * number for number in positive for sign in (1, -1)]


def _divisors(number: int) -> list[int]:
    small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return small + [number // divisor for divisor in small]


def _divided(o: Operations, coefficients: list[Number], at: Number) -> list[Number]:
    """Horner's scheme: the quotient, then the value."""
    line: list[Number] = []
    carried: Number = ZERO
    for coefficient in coefficients:
        carried = o.numbers.add(o.numbers.multiply(carried, at), coefficient)
        line.append(carried)
    return line


def _quadratic(o: Operations, coefficients: list[Number]) -> list[Number]:
    a, b, c = coefficients
    n = o.numbers
    square = n.subtract(n.multiply(b, b), n.multiply(Fraction(4), n.multiply(a, c)))
    half, below = root(n, square), n.multiply(Fraction(2), a)
    return [n.divide(n.subtract(part, b), below) for part in (half, n.negate(half))]


def _aberth(o: Operations, coefficients: list[Number]) -> list[Number]:
    """All roots at once (Aberth's method), from points on a circle around all of them."""
    n = o.numbers
    degree = len(coefficients) - 1
    slope = _slope(o, coefficients)
    points = _circle(o, coefficients)
    for _ in range(_MAX_ROUNDS):
        n.meter.spend(60 * degree * degree)
        moved = ZERO
        for place, point in enumerate(points):
            value = _divided(o, coefficients, point)[-1]
            if value == 0:
                continue
            newton = n.divide(value, _divided(o, slope, point)[-1])
            pull: Number = ZERO
            for other, there in enumerate(points):
                if other != place:
                    pull = n.add(pull, n.divide(ONE, n.subtract(point, there)))
            step = n.divide(newton, n.subtract(ONE, n.multiply(newton, pull)))
            points[place] = n.subtract(point, step)
            share = n.over(modulus(n, step), n.plus(modulus(n, points[place]), _CLOSE))
            moved = max(
                moved, Fraction(n.decimal(share).quantize(_CLOSE, context=n.context)) if share < 1 else ONE
            )
        if moved <= Fraction(_CLOSE):
            break
    return [_cleaned(o, point) for point in points]


def _circle(o: Operations, coefficients: list[Number]) -> list[Number]:
    n = o.numbers
    radius = (
        ONE
        + max(
            n.exact(n.divide(modulus(n, coefficient), modulus(n, coefficients[0])))  # type: ignore[arg-type]  # real over real
            for coefficient in coefficients[1:]
        )
    )
    direction: Number = Complex(Fraction(3, 5), Fraction(4, 5))
    turn: Number = Complex(Fraction(5, 13), Fraction(12, 13))
    points: list[Number] = []
    for _ in range(len(coefficients) - 1):
        points.append(n.multiply(n.decimal(radius), direction))
        direction = n.multiply(direction, turn)
    return points


def _cleaned(o: Operations, point: Number) -> Number:
    """Without an imaginary part that is nothing but rounding."""
    real, imaginary = parts(point)
    slack = o.numbers.times(o.numbers.plus(modulus(o.numbers, point), ONE), Decimal(10) ** (30 - PRECISION))
    if modulus(o.numbers, imaginary) < slack:
        return real
    return Complex(ZERO, imaginary) if modulus(o.numbers, real) < slack else point
