"""What near-equal texts say differently: numbers, dates, units and negations.

The lists are small on purpose. A word on them that means something else does little harm: of two near-equal texts both
hold it, and only what one of them says and the other does not counts.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Difference", "Reader", "Reading", "differences", "plain"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MONTHS = _words("""
    january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec
    januar februar märz mai juni juli oktober dezember okt dez
""")
_NUMBERS = _words("""
    zero two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty sixty seventy
    eighty ninety hundred thousand million billion twice
    zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig hundert tausend zweimal
    hai ba bốn sáu bảy tám chín mười trăm nghìn
    < > ≤ ≥ ≠
""")
_UNITS = _words("""
    byte bytes bit bits kb mb gb tb pb kib mib gib tib hz khz mhz ghz w kw mw v
    ns µs μs ms s sec secs second seconds min mins minute minutes h hr hrs hour hours day days week weeks month months
    quarter quarters year years km m cm mm inch inches foot feet mile miles kg g mg µg lb lbs ton tons l ml c f percent
    eur euro euros usd gbp chf dollar dollars cent cents
    prozent sekunde sekunden minuten stunde stunden tag tage tagen woche wochen monat monate monaten jahr jahre jahren
    ngày tuần tháng năm giờ phút giây đồng vnd
    % ‰ ° € $ £ ¥ ₩ ₫
""")
_NEGATIONS = _words("""
    not no never none nothing nor neither without
    nicht nie niemals nichts ohne weder
    không chưa chẳng đừng
    不 没 沒 未 无 無 勿
    아니 않 없 안 못
""")
# How negations are written onto the word that they negate.
_CONTRACTIONS = (("’", "'"), ("can't", "can not"), ("won't", "will not"), ("n't", " not"), ("cannot", "can not"))
_KEIN = re.compile(r"\bk(eine?[mnrs]?)\b")
_SINGLE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0eff"
_NUMERALS = "零一二三四五六七八九十百千万两"
_NEGATED = frozenset("있")  # What 없 negates.
_KINDS = {
    **dict.fromkeys(_NEGATIONS, "negation"),
    **dict.fromkeys(_UNITS, "unit"),
    **dict.fromkeys(_NUMBERS, "number"),
    **dict.fromkeys(_MONTHS, "date"),
}
_KNOWN = {**dict.fromkeys(_KINDS, 0), **dict.fromkeys(_NEGATIONS | _NEGATED, -1)}
_UNIT_SIGNS = "小时|分钟|星期|个月|季度|시간|개월|[秒分天日周月年元초분일주년원]"
# Words first, as most of a text are words; a sign is looked at only where there is one.
_TOKEN = re.compile(
    rf"[^\W\d_{_SINGLE}]+|(?:\d|[-−+](?<!\S[-−+])\d)\d*(?:[.,'’:/\u202f-]\d+)*(?:{_UNIT_SIGNS})?"
    rf"|[{_NUMERALS}]+(?:{_UNIT_SIGNS}|[个倍次])|[%‰°€$£¥₩₫<>≤≥≠]|아니|(?<!\S)[안못](?=\s)|[{_SINGLE}]"
)
# The same, for what most texts are made of, at half the time.
_ASCII_TOKEN = re.compile(r"[a-z]+|(?:\d|[-+](?<!\S[-+])\d)\d*(?:[.,':/-]\d+)*|[%$<>]")
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:[.,]\d{3})+")
_DATE = re.compile(r"\d+([./-])\d+\1\d+")


_MASKED, _LEFT_OUT = 0, -1

Fact = tuple[str, str, int]
Difference = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as it is compared.

    Attributes:
        words: its words, numbers and signs, in their order.
        marks: for each its number, 0 for a number or a unit, -1 for a negation.
        skeleton: the marks without negations: what contradicts a text has the same skeleton.
    """

    words: Sequence[str]
    marks: Sequence[int]
    skeleton: Sequence[int]

    def facts(self) -> list[Fact]:
        """Return what the skeleton leaves out: the kind, the fact, and after how many words it stands."""
        found, negations = [], 0
        for place, (word, mark) in enumerate(zip(self.words, self.marks, strict=True)):
            if mark > 0:
                continue
            negations += mark == _LEFT_OUT
            if kind := _kind(word):
                found.append((kind, _value(word) if mark == _MASKED else word, place - negations))
        return found


class Reader:
    """Takes texts apart; made for one list of texts, whose words it numbers."""

    def __init__(self) -> None:
        self._numbers = _Numbers(_KNOWN)

    def read(self, text: str) -> Reading:
        """Take a text apart, given as `plain` gives it."""
        if "n't" in text or "cannot" in text or "’" in text:
            for written, meant in _CONTRACTIONS:
                text = text.replace(written, meant)
        if "kein" in text:
            text = _KEIN.sub(r"nicht \1", text)
        words = (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)
        marks = list(map(self._numbers.__getitem__, words))
        return Reading(words, marks, [mark for mark in marks if mark != _LEFT_OUT] if _LEFT_OUT in marks else marks)


class _Numbers(dict[str, int]):
    def __missing__(self, word: str) -> int:
        # What begins with a Latin letter is no number: most words, and each is asked about once in a list.
        is_word = "a" <= word[0] <= "z" or not _is_number(word)
        number = self[word] = len(self) + 1 if is_word else _MASKED
        return number


def plain(text: str) -> str:
    """Fold case, compatibility forms and white space: what is equal after that is one text."""
    folded = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return " ".join(folded.casefold().split())


def differences(a: Reading, b: Reading) -> Difference | None:
    """Compare the facts of two near-equal texts.

    Returns:
        The kind of the first difference, what only the one says, and what only the other says; None when they say the
        same. Facts that merely stand elsewhere, such as two numbers exchanged, count as different in texts that have
        the same skeleton.
    """
    of_a, of_b = a.facts(), b.facts()
    if a.skeleton != b.skeleton:
        of_a, of_b = _anywhere(of_a), _anywhere(of_b)
    if of_a == of_b:
        return None
    for here, there in ((_anywhere(of_a), _anywhere(of_b)), (of_a, of_b)):
        if sides := _only(here, there):
            return sides
    return _shown(of_a, of_b)


def _anywhere(facts: Sequence[Fact]) -> list[Fact]:
    return [(kind, fact, 0) for kind, fact, _ in facts]


def _only(a: Sequence[Fact], b: Sequence[Fact]) -> Difference | None:
    only_a, only_b = (list((Counter(x) - Counter(y)).elements()) for x, y in ((a, b), (b, a)))
    return _shown(only_a, only_b) if only_a or only_b else None


def _shown(a: Sequence[Fact], b: Sequence[Fact]) -> Difference:
    kind = (a or b)[0][0]
    return kind, tuple(fact for _, fact, _ in a), tuple(fact for _, fact, _ in b)


def _is_number(word: str) -> bool:
    return word[0].isdecimal() or word[0] in "-−+" or (len(word) > 1 and word[0] in _NUMERALS)


def _kind(word: str) -> str:
    """Say what kind of fact a word states; the empty string when it states none."""
    if word in _KINDS:
        return _KINDS[word]
    if _is_number(word):
        return "date" if _DATE.fullmatch(word) else "number"
    return ""


def _value(token: str) -> str:
    """Write a number without separators of its thousands, and with a point before its decimals."""
    number = re.sub("['’\u202f]", "", token).replace("−", "-").removeprefix("+")
    if _GROUPED.fullmatch(number):
        return number.replace(",", "").replace(".", "")
    if "." in number and "," in number:
        point = max(number.rfind("."), number.rfind(","))
        return number[:point].replace(",", "").replace(".", "") + "." + number[point + 1 :]
    return number.replace(",", ".")
