"""Expressions that mean harm, and what becomes of each where nobody looks: in plain ``eval``, or without our bounds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CODE", "EXPLOSIONS", "Code", "Explosion"]


@dataclass(frozen=True)
class Code:
    """Something that plain ``eval`` does, whose result contains ``reaches``."""

    expression: str
    reaches: str
    told: str


@dataclass(frozen=True)
class Explosion:
    """Something that our own evaluator does not get through without its bounds."""

    name: str
    expression: str
    told: str


CODE = [
    Code("__import__('os').getpid().__class__", "<class 'int'>", "'_'"),
    Code("open('/etc/passwd').read()", "root:", "no text"),
    Code("().__class__.__bases__[0].__subclasses__()", "<class 'type'>", "no attributes"),
    Code("(1).__class__.__mro__", "<class 'object'>", "no attributes"),
    Code("[c for c in ().__class__.__mro__]", "<class 'tuple'>", "no attributes"),
    Code("''.__class__", "<class 'str'>", "no text"),
    Code('"{0.__class__.__init__}".format(1)', "slot wrapper", "no text"),
    Code("f'{1+1}'", "2", "no text"),
    Code("'%s' % 5", "5", "no text"),
    Code("lambda: 1", "<function", "functions to define"),
    Code("(lambda x: x)(5)", "5", "functions to define"),
    Code("eval('1+1')", "2", "no text"),
    Code("exec('import os')", "None", "no text"),
    Code("compile('1', 'x', 'eval')", "<code object", "no text"),
    Code("globals()", "__builtins__", "no function 'globals'"),
    Code("vars()", "__builtins__", "no function 'vars'"),
    Code("__builtins__", "__import__", "'_'"),
    Code("__name__", "builtins", "'_'"),
    Code("getattr(1, 'real')", "1", "no text"),
    Code("type(1)", "<class 'int'>", "no function 'type'"),
    Code("print(5)", "5", "no function 'print'"),
    Code("(x := 5)", "5", "':'"),
    Code("{1: 2}", "{1: 2}", "no sets or templates"),
    Code("[1, 2, 3][0]", "1", "not picked out"),
    Code("1 if 2 else 3", "1", "'if' is code"),
    Code("True and 7", "7", "'and' is code"),
    Code("not 5", "False", "'not' is code"),
    Code("b'x'", "b'x'", "no text"),
    Code("ｅval('1+1')", "2", "FULLWIDTH LATIN SMALL LETTER E"),
    Code("𝐞val('1+1')", "2", "MATHEMATICAL BOLD SMALL E"),
    Code("int(chr(0x663))", "3", "no function 'int'"),
    Code("ureg.define('meter = 2 * second')", "None", "no attributes"),
    Code("ureg.parse_expression('3 * meter')", "meter", "no attributes"),
    Code("ureg.__class__", "Registry", "no attributes"),
    Code("breakpoint.__name__", "breakpoint", "no attributes"),
    Code("...", "Ellipsis", "no attributes"),
    Code("~5", "-6", "bit by bit"),
    Code("1 # __import__", "1", "no comments"),
]


def _laughs(levels: int) -> str:
    """Few letters that stand for ten times as much at every name."""
    lists = [f"x{level} = [{', '.join([f'x{level - 1}'] * 10)}]" for level in range(1, levels)]
    return f"x0 = 1..10; {'; '.join(lists)}; -x{levels - 1}"


_TOWER = "9**9**9"
EXPLOSIONS = [
    Explosion("a power tower", _TOWER, "369,693,100 digits"),
    Explosion("a taller power tower", "2^2^2^6", "digits; at most 12,000"),
    Explosion("a power of a power", "x = 2^30000; y = x^30000; y^30000", "digits; at most 12,000"),
    Explosion("a negative power", "3^-(10^9)", "digits; at most 12,000"),
    Explosion("a power of a fraction", "(10/3)^(10^9)", "digits; at most 12,000"),
    Explosion("a complex power", "(1 + 2i)^(10^8)", "digits; at most 12,000"),
    Explosion("a shift by multiplication", "1 * 2^(10^11)", "digits; at most 12,000"),
    Explosion("a factorial", "(10^8)!", "digits; at most 12,000"),
    Explosion("a factorial of a factorial", "(25!)!", "digits; at most 12,000"),
    Explosion("a binomial", "binomial(10^9, 5*10^8)", "digits; at most 12,000"),
    Explosion("a binomial of a long number", "binomial(10^4000, 10000)", "digits; at most 12,000"),
    Explosion("permutations", "permutations(10^8, 10^7)", "digits; at most 12,000"),
    Explosion("a Fibonacci number", "fibonacci(10^10)", "digits; at most 12,000"),
    Explosion("a long range", "1..10^10", "10,000,000,000 items; at most 10,000"),
    Explosion("a sum over a long range", "sum(k for k in 1..10^9)", "1,000,000,000 items"),
    Explosion("a sum by four arguments", "sum(k, k, 1, 10^9)", "1,000,000,000 items"),
    Explosion("a product", "product(k for k in 1..10^7)", "10,000,000 items"),
    Explosion(
        "nested sums",
        "sum(sum(sum(1 for c in 1..9999) for b in 1..9999) for a in 1..9999)",
        "2,000,000 steps of work",
    ),
    Explosion(
        "lists of lists",
        "[[[0 for a in 1..9999] for b in 1..9999] for c in 1..9999]",
        "more than 100,000 items",
    ),
    Explosion("a list of a list of a list", _laughs(12), "more than 100,000 items"),
    Explosion(
        "copies of a list",
        "L = 1..9000; count([-L for i in 1..10000])",
        "more than 100,000 items",
    ),
    Explosion(
        "a list that is negated and thrown away",
        "L = 1..9000; sum(count(-L) for i in 1..10000)",
        "steps of work",
    ),
    Explosion(
        "a list of decimals that is multiplied and thrown away",
        "L = pi (1..9000); sum(count(pi L) for i in 1..10000)",
        "steps of work",
    ),
    Explosion(
        "logarithms of a long number",
        "x = 3^25000; sum(sum(log(x, 3) for k in 1..10000) for j in 1..12)",
        "steps of work",
    ),
    Explosion(
        "exponentials of a decimal", "sum(sum(exp(pi) for k in 1..10000) for j in 1..12)", "steps of work"
    ),
    Explosion("a harmonic sum", "sum(1/k for k in 1..10^6)", "1,000,000 items"),
    Explosion("a sum of fractions that grow", "sum(1/(k^40 + 1) for k in 1..9999)", "steps of work"),
    Explosion("a matrix", "det([[1/(r + c) for c in 1..300] for r in 1..300])", "at most 40 by 40"),
    Explosion("a matrix power", "matpow([[2, 3], [4, 5]], 10^9)", "up to 1,000"),
    Explosion(
        "an inverse", "inv([[(r c)^30 + 1/(r + c) for c in 1..150] for r in 1..150])", "at most 40 by 40"
    ),
    Explosion("a factorisation", "factor(2^256 + 1)", "10^20 are factored"),
    Explosion("an exponent of a literal", "1e999999999", "beyond 10^±12,000"),
    Explosion("a negative exponent of a literal", "1e-999999999", "beyond 10^±12,000"),
    Explosion("a giant literal", "9" * 5_000_000, "5,000,000 characters; at most 10,000"),
    Explosion("digits of an approximate number", "floor(exp(10^9))", "10^±999,999"),
    Explosion("decimals to round to", "round(1/3, 10^9)", "at most 12,000 decimals"),
    Explosion("a long hexadecimal", "hex(2^(10^11))", "digits; at most 12,000"),
    Explosion("brackets in brackets", "(" * 4_000 + "1" + ")" * 4_000, "nested more than 40 deep"),
    Explosion("lists in lists", "[" * 4_000 + "]" * 4_000, "nested more than 40 deep"),
    Explosion("signs", "-" * 9_000 + "1", "nested more than 40 deep"),
    Explosion("roots of roots", "√" * 9_000 + "1", "nested more than 40 deep"),
    Explosion("calls in calls", "abs(" * 1_900 + "1" + ")" * 1_900, "nested more than 40 deep"),
    Explosion("a chain of powers", "1^" * 4_900 + "1", "nested more than 40 deep"),
]
