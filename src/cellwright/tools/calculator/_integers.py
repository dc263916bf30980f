"""Number theory: divisors, factorials, primes. Every function says how far it goes."""

from __future__ import annotations

from math import comb, factorial, gcd, lgamma, log, perm

from cellwright.errors import CalculationError, CalculationTooLarge
from cellwright.tools.calculator._values import MAX_BITS, Meter, too_many_digits

__all__ = [
    "binomial",
    "factorial_of",
    "factors",
    "fibonacci",
    "is_prime",
    "next_prime",
    "permutations",
    "power_modulo",
]

_BASES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
_LARGEST_PRIME = 3_317_044_064_679_887_385_961_981
"""Below it the bases above decide for certain (Sorenson and Webster, 2015)."""
_LARGEST_FACTORED = 10**20
_LOG2 = log(2)
_LONGEST_TOLD_APART = 40
"""Bits of numbers whose factorials' logarithms a float tells apart to less than a bit."""


def factorial_of(number: int, meter: Meter) -> int:
    if number < 0:
        raise CalculationError("Negative numbers have no factorial", hint="Look at what it is taken of")
    _bound_bits(f"{_brief(number)}!", _log_factorial(number), meter)
    return factorial(number)


def binomial(whole: int, part: int, meter: Meter) -> int:
    _require_counts(whole, part)
    few = max(min(part, whole - part), 0)
    _bound_bits(f"binomial({_brief(whole)}, {_brief(part)})", _log_binomial(whole, few), meter)
    return comb(whole, few if part <= whole else part)


def permutations(whole: int, part: int, meter: Meter) -> int:
    _require_counts(whole, part)
    if part > whole:
        return 0
    _bound_bits("The number of permutations", part * max(whole.bit_length(), 1), meter)
    return perm(whole, part)


def fibonacci(place: int, meter: Meter) -> int:
    if place < 0:
        raise CalculationError(
            "Fibonacci numbers are counted from 0", hint="Give a place that is not negative"
        )
    _bound_bits(f"fibonacci({_brief(place)})", place * 6942419136306174 // 10**16, meter)
    low, high = 0, 1
    for bit in f"{place:b}":
        low, high = low * (2 * high - low), low * low + high * high
        if bit == "1":
            low, high = high, low + high
    return low


def power_modulo(base: int, exponent: int, modulus: int, meter: Meter) -> int:
    if modulus == 0:
        raise CalculationError("A division by zero", hint="Give a modulus that is not 0")
    limbs = modulus.bit_length() // 64 + 1
    meter.spend(abs(exponent).bit_length() * (1 + limbs * limbs // 16))
    try:
        return pow(base, exponent, modulus)
    except ValueError as error:
        raise CalculationError(
            "The base has no inverse to that modulus", hint="They must have no common divisor"
        ) from error


def is_prime(number: int, meter: Meter) -> bool:
    if number >= _LARGEST_PRIME:
        raise CalculationTooLarge(
            f"Primes are told for certain below {_LARGEST_PRIME:,} (about 3.3e24)",
            hint="Ask for a smaller one",
        )
    meter.spend(100)
    if number < 2:  # the first prime
        return False
    if any(number % base == 0 for base in _BASES):
        return number in _BASES
    return all(_passes(number, base) for base in _BASES)


def next_prime(number: int, meter: Meter) -> int:
    candidate = max(number + 1, 2)
    while not is_prime(candidate, meter):
        candidate += 1
    return candidate


def factors(number: int, meter: Meter) -> list[int]:
    """The primes whose product a number is, from small to large."""
    if not 1 <= number <= _LARGEST_FACTORED:
        raise CalculationTooLarge(
            "Numbers from 1 to 10^20 are factored", hint="Divide by the factors that you know"
        )
    found: list[int] = []
    for prime in _BASES:
        while number % prime == 0:
            found.append(prime)
            number //= prime
    pending = [number] if number > 1 else []
    while pending:
        part = pending.pop()
        if is_prime(part, meter):
            found.append(part)
        else:
            divisor = _divisor(part, meter)
            pending += [divisor, part // divisor]
    return sorted(found)


def _divisor(number: int, meter: Meter) -> int:
    """A divisor of a number that is not prime: Pollard's rho, with gcds taken for batches of steps."""
    for offset in range(1, 100):
        slow = fast = 2
        divisor = 1
        while divisor == 1:
            product = 1
            start = slow, fast
            meter.spend(64)
            for _ in range(64):
                slow = (slow * slow + offset) % number
                fast = (fast * fast + offset) % number
                fast = (fast * fast + offset) % number
                product = product * (slow - fast) % number
            divisor = gcd(product, number)
        if divisor == number:
            slow, fast = start
            divisor = 1
            while divisor == 1:
                slow = (slow * slow + offset) % number
                fast = (fast * fast + offset) % number
                fast = (fast * fast + offset) % number
                divisor = gcd(slow - fast, number)
        if divisor != number:
            return divisor
    raise CalculationTooLarge("No divisor was found in the steps that are allowed", hint="Run it as code")


def _passes(number: int, base: int) -> bool:
    """Miller and Rabin's test."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd //= 2
        twos += 1
    power = pow(base, odd, number)
    if power in (1, number - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False


def _log_factorial(number: int) -> float:
    """In bits. Numbers too long for a float are beyond every bound anyway."""
    return lgamma(min(number, 10**30) + 1.0) / _LOG2


def _log_binomial(whole: int, few: int) -> float:
    """In bits, or little more. Factorials beyond that are too near each other for a float, so factors are counted."""
    if whole.bit_length() > _LONGEST_TOLD_APART:
        return min(few, 10**30) * whole.bit_length() - _log_factorial(few)
    return _log_factorial(whole) - _log_factorial(few) - _log_factorial(whole - few)


def _bound_bits(what: str, bits: float, meter: Meter) -> None:
    if bits > MAX_BITS:
        raise too_many_digits(what, bits)
    meter.spend(2 + (int(bits) // 64) ** 2 // 4)


def _require_counts(whole: int, part: int) -> None:
    if whole < 0 or part < 0:
        raise CalculationError("Counts are not negative", hint="Give whole numbers from 0 on")


def _brief(number: int) -> str:
    return f"{number}" if number.bit_length() <= MAX_BITS // 1_000 else "A long number"
