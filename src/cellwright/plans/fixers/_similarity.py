"""Finds the known word nearest to an unknown one, and says how certain that is.

Pure text. Near is: the same but for case, separators and white space; or one slip of the fingers away. It is certain only
where one alone is near, and the word itself is none that somebody may have meant as it stands: a slip of a word that is
known, or of a name that a library or the language has. Of names that somebody made up, only the slips that tell what was
meant are certain; nobody knows whether `Iceland` was meant by `Ireland`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable
from dataclasses import dataclass

__all__ = ["WORDS", "Near", "distance", "folded", "is_slip", "nearest"]
MIN_LENGTH = 4
"""Below it, one slip makes another word too easily."""

_SHORTEST = 3
"""Below it, one slip is no likeness."""

_LONG = 5
"""From this length on, two slips are still near: another such word makes it unsure."""

_LONG_WORD = 7

_SOLID = 6
"""From this length on, one letter for another makes no other word that is likely."""

_UNIT_LENGTH = 3
"""Up to it, case may tell two things apart: `mW` and `MW`, `CO` and `Co`, `T` and `t`."""

_MAX_LENGTH = 200

_SEPARATORS = re.compile(r"[\s_\-\ufeff\u200b]+")

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Near:
    """What is near, the nearest first."""

    found: tuple[str, ...]
    certain: bool

    @property
    def best(self) -> str:
        return self.found[0]

    @property
    def listed(self) -> str:
        return " or ".join(repr(one) for one in self.found[:5])


def nearest(wanted: str, known: Iterable[str], public: Container[str] = ()) -> Near | None:
    """Those near to what was wanted, and whether it can only have been the first.

    ``public`` are those that a library or the language defines: nobody made up another that is near.
    """
    others = tuple(dict.fromkeys(one for one in known if one != wanted and len(one) <= _MAX_LENGTH))
    if not wanted.strip() or len(wanted) > _MAX_LENGTH:
        return None
    same = tuple(one for one in others if folded(one) == folded(wanted))
    if same:
        alike = same[0] in public or _is_same_in_any_case(wanted, same[0])
        return Near(same, certain=len(same) == 1 and alike and _numbers(same[0]) == _numbers(wanted))
    apart = sorted(
        (away, one) for one in others if (away := distance(folded(wanted), folded(one))) <= _reach(wanted)
    )
    close = tuple(one for away, one in apart if away == 1 and len(folded(wanted)) >= _SHORTEST)
    if not close:
        return None
    alone = len(apart) == 1 or (len(close) == 1 and _is_telling(folded(wanted), folded(close[0])))
    return Near(close, certain=alone and is_slip(wanted, close[0], public=close[0] in public))


def is_slip(wanted: str, known: str, *, public: bool = False) -> bool:
    """Whether one can only be the other misspelt: no other number, no other short part, no other word of its own.

    A word that differs at one of its ends is another one (``scaled`` and ``scaler``, ``xdata`` and ``ydata``), unless it
    is a ``public`` one, beside which nobody made up another.
    """
    if _numbers(wanted) != _numbers(known):
        return False
    ours, theirs = _words(wanted), _words(known)
    if len(ours) != len(theirs):
        ours, theirs = [_SEPARATORS.sub("", wanted)], [_SEPARATORS.sub("", known)]
    differing = [
        (one, other) for one, other in zip(ours, theirs, strict=True) if one.casefold() != other.casefold()
    ]
    inner = public or all(
        _is_telling(folded(a), folded(b)) or _is_inner(folded(a), folded(b)) for a, b in differing
    )
    return inner and all(_is_misspelt(one, other, public=public) for one, other in differing)


def folded(text: str) -> str:
    """The text without what people leave out or mix up: case, separators, white space."""
    return _SEPARATORS.sub("", unicodedata.normalize("NFKC", text).casefold())


def distance(one: str, other: str, limit: int = 2) -> int:
    """How many letters were left out, put in, changed, or swapped with the next; ``limit + 1`` if more than the limit."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, against in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                best = min(best, last[j - 2] + 1)
            row.append(best)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def _is_telling(wanted: str, known: str) -> bool:
    """Whether the slip itself tells what was meant: two letters swapped, or one doubled or not."""
    return sorted(wanted) == sorted(known) or _undoubled(wanted) == _undoubled(known)


def _is_inner(wanted: str, known: str) -> bool:
    return wanted[:1] == known[:1] and wanted[-1:] == known[-1:]


def _undoubled(text: str) -> str:
    return re.sub(r"(.)\1", r"\1", text)


def _reach(wanted: str) -> int:
    return 2 if len(folded(wanted)) >= _LONG else 1


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def _is_same_in_any_case(wanted: str, known: str) -> bool:
    """Whether case, of what differs in nothing else, can mean nothing."""
    length = len(folded(wanted))
    if length > _UNIT_LENGTH or folded(wanted) == "id":
        return True
    return length > 1 and (wanted.islower() or known.islower())


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text))


def _is_misspelt(wanted: str, known: str, *, public: bool) -> bool:
    one, other = wanted.casefold(), known.casefold()
    least = MIN_LENGTH - 1 if public and sorted(one) == sorted(other) else MIN_LENGTH
    spelt_right = _is_word(one) and (_is_word(other) or not _lacks_a_letter(one, other))
    if min(len(one), len(other)) < least or _is_plural(one, other) or _is_plural(other, one) or spelt_right:
        return False
    of_a_word = _is_word(one) or _is_word(other)
    if _is_telling(one, other):
        # With a capital it may be somebody's, or some place's, name.
        return public or of_a_word or wanted.islower()
    if one[0] != other[0] or one[:-1] == other:
        return False
    if public:
        return of_a_word or len(one) != len(other) or len(one) >= _LONG
    # Another end makes another word; what lost its end may be cut short on purpose.
    same_end = one[-1] == other[-1]
    return of_a_word and same_end and (len(one) != len(other) or len(one) >= _SOLID)


def _is_plural(one: str, other: str) -> bool:
    return one in (other + "s", other + "es") or (other.endswith("is") and one == other[:-2] + "es")


def _is_word(text: str) -> bool:
    return text in WORDS or text.removesuffix("s") in WORDS


def _lacks_a_letter(wanted: str, known: str) -> bool:
    """Whether what is there is a long word that lost a letter, or has two of them swapped: no word of its own."""
    lost = any(wanted[:place] + wanted[place + 1 :] == known for place in range(1, len(wanted) - 1))
    return len(wanted) >= _LONG_WORD and (lost or sorted(wanted) == sorted(known))


# Words that people name things by. One of them is spelt as it was meant, however near it is to something
# else.

_WORDS = """
    accent accept access account action active actor actual added address affect after agent alert alias alpha altitude
    amount analysis angel angle answer apple apply area arena array article ascent assert assess asset assets audio
    author avenue average back balance band bank base basic batch bean beard before begin best beta bill bind birth
    black bland blank block board body book border bottom bound brain bran brand bread breed buffer build bulk business
    cable cache call camera cancel cancer card care caret cargo cart case cash cast casual categorical category cats
    causal cause cell cells cent center centre chain chair chan chance change channel char charge chart check chunk
    city claim clash class clause clean clear click client clim clock close cloud club coach coarse coast code
    coefficient coin cold color column command commend comment commit common company compare complement compliment cond
    config const cont contact content context contig contract contrast control cool copy corp correct correlation cost
    could council counsel count counted counter country county course court cover crash crate create credit crew crop
    cross crowd currency current curse curve customer cycle daily dairy damage data dataset date dates datum days deal
    dealer death debit debt decade decide decode deduce deduct dedupe default defect degree delay delete delta demand
    density depart department deployment depth derive desc description desert design dessert detail detect deviation
    device devise diary diff digit discount disk dist distance district does dose double doubt down draft drag draw
    drive drop duplicate duration early earth edge edit education effect election electron elevation email employed
    employee empty encode encoder energy engine ensure entry epoch epochs equal error event events exact exam excel
    except excess exchange exist exit expect expense experience expert expit export extend extent extra face fact
    factor fail family fare farm farmer farther fast father fault feather feature field fields fiend fight figure file
    files fill filler film filter final find fine fire first fish fist fits fixed flag flat fleet flight float floor
    flow fold folder font food foot force fore forest form formal format former found frame frames free freight
    frequency from front fruit fuel full fund further future gain game gate gender genre gift girl given goal gold good
    grad grade grain grand grant graph grass gray great green grid gross ground group groups grow growth guest guide
    gust hash head header health heart heat heavy height help high hint hire hist history hits hold holder home horse
    hospital host hotel hour hours house human humidity identifier image images impact import income indent index
    infect inject inner input inputs insert inset inst insure intend intensity intent interest invent inventory invert
    invest invoice issue item items join judge jump just keep kept kind label labels lake lance lane language large
    last late later latitude lats latter launch layer lead leader leaf league least left legion lend lender length less
    letter level levels lies life lift light likes limit line lines link links linter list litter lives load loader
    loan local lock logs long longitude loop loses loss losses lost lots lotus love lower lunch made mail main major
    make maker male manager many margin marital mark marked marker market martial mask masked mass match material math
    matrix mature maximum mean means measure medal media median member meter method metric middle mile milk mine
    minimum minor minute mission mode model models money monkey month months moral more most mother motion motor mount
    mouse mouth move movie muscle music name names nation nature near nest neuron neutron node nodes nonce none noon
    norm normal north notation note notes notice null number numer object offer office older online only open option
    order orders origin other outcome outer output outputs over owner pack page pages paint pair pane pant paper param
    parent parity park part parts party pass past patch patent path paths patient pause payment peak pearson peer
    people percentage percentile period person phase phone photo phrase piece pieces pilot place plain plan plane
    planet plant plat plate play player plot plots point points pole poll pool poor population port porter pose
    position post poster pound power precise precision pred prediction prefit premise preposition present press
    pressure prev prevent price prices prime principal principle print prior prize prob probability prod produce
    product products prof profession profile profit project promise proof properly property proposition protect public
    pulse purchase quality quantity quarter query queue quick quiet quit quite quota quote race racing radio radius
    rain raise random range rank raster rate rates rating ratio ration read reader real rear reason recall receipt
    recipe recode record records reduce reference refund refuse region regions reject relation remain render report
    request reset resort rest result results retail retain return reuse revenue review reward rice rich right ring rise
    risk river road rock role room root rose roster rotation route routed router routes rows rule rules safe salary
    sale sales same sample sampled sampler samples sand save scalar scale scaled scaler scales scan scene school scope
    score scorer scores scoring seal search season seat second section sector seed select selection sell send sender
    sense sent sequence serial series served server serves service session setting shape share sheet shell shift ship
    shipment shop shore short shot show side sign signal silver simple simpler simply singer single site size sizes
    skill sleep slice slide slope slow small smart snow sock soil sold solid solver some song sort sorted sound source
    south space span spawn speed spell spend spent splice spline split sport spot spring stable staff stage staged
    stair stake stale stand star stare starred start started stat state stated states station statistics stats statue
    status statute steal steep step steps sting stock stop storage store stored storing story strain strat stream
    street stress string strong student study style subject suit suite summary summed summer supplier supply support
    surface survey system table tables tail take target task tasks team teams temp temperature tend tense term terms
    test tested tests text texts than theme then there thing this though three threshold through ticket tide tied tier
    ties tiger tilde tile time timed timer times timestamp title token tokens tool topic total totals tour tower town
    traced track tracked tract trade traded traffic trail trailer trailing train trainer training trait tran
    transaction transfer travel treat tree trend trial tried tries trip truck true trunk trust ttest tune turn type
    types uint union unique unit units update upper usage used user users uses vague valid validation valley value
    values variance vector vendor verb version vice video view visit visits voice volume vote wage wages wait waiter
    walk wall wander want ward warm waste watch water wave ways weak wear weather week weeks weight well were west
    wheel when where while white whole wide wider widow width wife wind winder window wine winner winter wire wish with
    woman women wonder wood word words work worked worker world worth wright write wrong yard year years yield young
    zero zone zones
"""

WORDS = frozenset(_WORDS.split())
