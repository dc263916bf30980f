"""Linear algebra on lists of lists: exact where the entries are. Roots of polynomials are ``polynomials``'s."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

from cellwright.errors import CalculationError, CalculationTooLarge
from cellwright.tools.calculator.arithmetic import ONE, ZERO
from cellwright.tools.calculator.bounds import MAX_ORDER
from cellwright.tools.calculator.elementary import modulus
from cellwright.tools.calculator.operations import Operations, number
from cellwright.tools.calculator.polynomials import roots
from cellwright.tools.calculator.value_text import short
from cellwright.tools.calculator.values import Number, Value

__all__ = [
    "Matrix",
    "as_matrix",
    "characteristic",
    "determinant",
    "dot",
    "eigenvalues",
    "identity",
    "inverse",
    "matrix_power",
    "multiplied",
    "rank",
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
