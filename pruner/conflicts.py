"""What near-equal texts say differently: numbers, dates, units and negations.

The lists are small on purpose. A word on them that means something else does little harm: of two near-equal texts both
hold it, and only what one of them says and the other does not counts.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count

import numpy as np
from numpy.typing import NDArray

__all__ = ["Difference", "Reading", "agree", "differences", "folded", "plain", "read"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MONTHS = _words("""
    january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec
    januar februar märz mai juni juli oktober dezember okt dez
    monday tuesday wednesday thursday friday saturday sunday
    montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag
    월요일 화요일 수요일 목요일 금요일 토요일 일요일
    before after
""")
_NUMBERS = _words("""
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion trillion
    first third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth half double triple dozen once twice
    thrice
    zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn
    neunzehn zwanzig hundert tausend million millionen milliarde milliarden einmal zweimal dreimal halb doppelt
    một hai ba bốn sáu bảy tám chín mười trăm nghìn triệu tỷ mốt tư lăm nửa rưỡi
    하루 이틀 사흘 나흘 닷새 엿새 이레 여드레 아흐레 열흘 보름
    < > <= >= ≤ ≥ ≠
    most least more less fewer minimum maximum mindestens höchstens mehr weniger
""")
_GERMAN_ORDINALS = _words("erst zweit dritt viert fünft sechst siebt acht neunt zehnt")
_NUMBERS |= {stem + ending for stem in _GERMAN_ORDINALS for ending in ("e", "em", "en", "er", "es")}
_UNITS = _words("""
    byte bytes bit bits kb mb gb tb pb kib mib gib tib hz khz mhz ghz w kw mw v
    ns μs μs ms s sec secs second seconds min mins minute minutes h hr hrs hour hours day days week weeks month months
    quarter quarters year years km m cm mm inch inches foot feet mile miles kg g mg μg lb lbs ton tons l ml c f percent
    nm μm ng pg oz yard yards gallon gallons acre acres ha hectare hectares
    pa kpa mpa bar psi ppm j kj kcal ma mah ah wh kwh mwh gwh gw kv db rpm fps bps kbps mbps gbps
    eur euro euros usd gbp chf cad aud inr jpy cny krw sek nok dkk pln brl dollar dollars cent cents pound pounds yen
    yuan won rupee rupees
    decade decades century centuries hourly daily weekly monthly quarterly yearly annually am pm
    business calendar working
    stündlich täglich wöchentlich monatlich jährlich 오전 오후 上午 下午
    prozent sekunde sekunden minuten stunde stunden tag tage tagen woche wochen monat monate monaten jahr jahre jahren
    ngày tuần tháng năm giờ phút giây đồng vnd
    % ‰ ° € $ £ ¥ ₩ ₫
""")
_NEGATIONS = _words("""
    not no non never none nothing nobody nowhere nor neither without except excluding unless
    nicht nie niemals nichts niemand keinerlei keinesfalls keineswegs nein ohne weder ausser ausgenommen
    không chưa chẳng đừng chớ cấm trừ
    不 没 沒 未 无 無 勿 非 别 禁
    아니 않 없 안 못 금지 불가
""")
# How negations are written onto the word that they negate.
_CONTRACTIONS = (("’", "'"), ("can't", "can not"), ("won't", "will not"), ("n't", " not"), ("cannot", "can not"))
_KEIN = re.compile(r"\bk(eine?[mnrs]?)\b")
_SINGLE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0eff"
_NUMERALS = "零一二三四五六七八九十百千万萬亿億两兩半"
# Of Korean, as many of these signs are parts of words too, only what stands before a counter.
_KOREAN = "한두세네다섯여섯일곱여덟아홉열스물무서른마흔쉰이삼사오육칠팔구십백천만억조"
_NEGATED = frozenset("있")  # What 없 negates.
_KINDS = {
    **dict.fromkeys(_NEGATIONS, "negation"),
    **dict.fromkeys(_UNITS, "unit"),
    **dict.fromkeys(_NUMBERS, "number"),
    **dict.fromkeys(_MONTHS, "date"),
}
_KNOWN = {**dict.fromkeys(_KINDS, 0), **dict.fromkeys(_NEGATIONS | _NEGATED, -1)}
_UNIT_SIGNS = (
    "小时|小時|分钟|分鐘|毫秒|星期|个月|個月|季度|公里|千米|厘米|毫米|公斤|千克|毫克|毫升|美元|美分|欧元|歐元|日元|英镑|英鎊|港元"
    "|시간|개월|퍼센트|킬로미터|센티미터|밀리미터|미터|킬로그램|밀리그램|그램|밀리리터|리터|달러|유로"
    "|[秒分天日周週月年元米克斤吨噸升초분시일주달년원엔톤]"
)
_COUNTERS = "개월|시간|[개명번일월년원분초주달배]"
# A sign is one where no number, word or bracket ends before it.
_SIGNED = r"(?:(?<![\w)\]-])[-−–+])?\d+(?:[.,'’:/⁄‐–-]\d+)*(?:e[-+]?\d+)?"
_TOKEN = re.compile(
    rf"{_SIGNED}[백천만억조百千万萬亿億]*(?: ?(?:{_UNIT_SIGNS}))?|[{_NUMERALS}]+(?: ?(?:{_UNIT_SIGNS}|[个個倍次]))?"
    rf"|(?<!\S)(?:[{_KOREAN}]+ ?(?:{_COUNTERS})|하루|이틀|[사나열]흘|닷새|엿새|이레|여드레|아흐레|보름)"
    rf"|[월화수목금토일]요일|오[전후]|[上下]午"
    rf"|[<>]=|[%‰°€$£¥₩₫<>≤≥≠]|아니|금지|불가|(?<!\S)[안못](?=\s)|[{_SINGLE}]|[^\W\d_{_SINGLE}]+"
)
# The same, for what most texts are made of, at half the time.
_ASCII_TOKEN = re.compile(r"[a-z]+|(?:(?<![\w)\]-])[-+])?\d+(?:[.,':/-]\d+)*(?:e[-+]?\d+)?|[<>]=|[%$<>]")
# Leaves of an ASCII text its words, and 0 for a digit or a sign: the marks are as by tokens, at a quarter of the time.
_ASCII_WORDS = {**dict.fromkeys(range(128), " "), **dict.fromkeys(map(ord, "0123456789%$<>"), "0")}
_ASCII_WORDS |= {ord(letter): letter for letter in "abcdefghijklmnopqrstuvwxyz"}
_GERMAN_ENDS = "|".join(f"(?<={end})" for end in ("zig", "dreissig", "hundert", "tausend", "inhalb", "rthalb"))
_NUMBER = re.compile(rf"^(?:[-−–+\d{_NUMERALS}].*|[{_KOREAN}].+|.*+(?:{_GERMAN_ENDS}))$", re.MULTILINE)
_EXPONENT = re.compile(r"\de[-+]?\d+")
# Of one group after a point nobody can say whether it is of thousands: 1.500 stays what it is.
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:(?:,\d{3})+|(?:\.\d{3}){2,})")
_DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}")


_WRITTEN = str.maketrans("−–‐⁄", "---/", " '’")
_RAISED = {ord(sign): f"^{digit}" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}  # 10² is not 102.
_MASKED, _LEFT_OUT = 0, -1

Marks = NDArray[np.int64]
Fact = tuple[str, str, int]
Difference = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Reading:
    """A text as it is compared.

    Attributes:
        text: with its negations spelled out.
        skeleton: a number for each word, 0 for numbers and units in a row, nothing for negations: what contradicts a
            text has the same skeleton.
        marks: of the words by which it was made; not of numbers, which are no words there.
    """

    text: str
    skeleton: Marks
    marks: Mapping[str, int]

    @property
    def words(self) -> list[str]:
        """Return its words, numbers and signs, in their order."""
        return (_ASCII_TOKEN if self.text.isascii() else _TOKEN).findall(self.text)

    @cached_property
    def facts(self) -> list[Fact]:
        """Return what the skeleton leaves out: the kind, the fact, and after how many words it stands."""
        found, negations = [], 0
        for place, word in enumerate(self.words):
            mark = self.marks.get(word, _MASKED)
            if mark > 0:
                continue
            negations += mark == _LEFT_OUT
            if kind := _kind(word):
                found.append((kind, _value(word) if kind in ("number", "date") else word, place - negations))
        return found


def read(texts: Sequence[str]) -> list[Reading]:
    """Take apart what is to be compared, texts as `folded` or `plain` gives them; equal words get equal numbers."""
    spelled = list(map(_spelled, texts))
    words = list(map(_words_of, spelled))
    rows = np.repeat(np.arange(len(texts)), list(map(len, words)))
    numbers: dict[str, int] = defaultdict(count(1).__next__)
    marked = np.fromiter(map(numbers.__getitem__, chain.from_iterable(words)), np.int64, len(rows))
    marks = _marks_of(numbers)
    marked = np.fromiter(chain([_MASKED], marks.values()), np.int64, len(marks) + 1)[marked]
    rows, marked = rows[marked != _LEFT_OUT], marked[marked != _LEFT_OUT]
    again = (marked[1:] == _MASKED) & (marked[:-1] == _MASKED) & (rows[1:] == rows[:-1])
    first = np.concatenate([np.ones(min(len(marked), 1), np.bool_), ~again])
    ends = np.bincount(rows[first], minlength=len(texts)).cumsum()
    skeletons = np.split(marked[first], ends[:-1]) if texts else []
    return [Reading(text, skeleton, marks) for text, skeleton in zip(spelled, skeletons, strict=True)]


def _words_of(text: str) -> list[str]:
    if not text.isascii():
        return _TOKEN.findall(text)
    words = text.translate(_ASCII_WORDS)
    if "0e" in words:  # Of a number its exponent is no word.
        words = _EXPONENT.sub("0", text).translate(_ASCII_WORDS)
    return words.replace("0", " 0 ").split()


def _spelled(text: str) -> str:
    """Spell out the negations that are written onto other words; a number and its unit may stand on two lines."""
    if not text.isascii():
        text = " ".join(text.split())
    if "n't" in text or "cannot" in text or "’" in text:
        for written, meant in _CONTRACTIONS:
            text = text.replace(written, meant)
    return _KEIN.sub(r"nicht \1", text) if "kein" in text else text


def _marks_of(numbers: Mapping[str, int]) -> dict[str, int]:
    """Return for each word 0 for a number or a unit, -1 for a negation, its number for any other; in the same order."""
    masked = dict.fromkeys(_NUMBER.findall("\n".join(numbers)), _MASKED)
    return {**numbers, **masked, **{word: _KNOWN[word] for word in numbers.keys() & _KNOWN.keys()}}


def folded(text: str) -> str:
    """Fold case and compatibility forms."""
    return (text if text.isascii() else unicodedata.normalize("NFKC", text.translate(_RAISED))).casefold()


def plain(text: str) -> str:
    """Fold case, compatibility forms and white space: what is equal after that is one text."""
    return " ".join(folded(text).split())


def agree(a: Reading, b: Reading) -> bool:
    """Whether two near-equal texts state the same facts, as `differences` compares them, but sooner."""
    if np.array_equal(a.skeleton, b.skeleton):
        return a.facts == b.facts
    stated = zip(a.facts, b.facts, strict=False)
    return len(a.facts) == len(b.facts) and all(one[:2] == other[:2] for one, other in stated)


def differences(a: Reading, b: Reading) -> Difference | None:
    """Compare the facts of two near-equal texts.

    Returns:
        The kind of the first difference, what only the one says, and what only the other says; None when they say the
        same. Facts that merely stand elsewhere, such as two numbers exchanged, count as different in texts that have
        the same skeleton.
    """
    if agree(a, b):
        return None
    of_a, of_b = a.facts, b.facts
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


def _kind(word: str) -> str:
    """Say what kind of fact a word states; the empty string when it states none."""
    if word in _KINDS:
        return _KINDS[word]
    if _NUMBER.fullmatch(word):
        return "date" if _DATE.fullmatch(word) else "number"
    return ""


def _value(token: str) -> str:
    """Write a number without separators of its thousands, and with a point before its decimals."""
    number = token.translate(_WRITTEN).removeprefix("+")
    if _GROUPED.fullmatch(number):
        return number.replace(",", "").replace(".", "")
    if "." in number and "," in number:
        point = max(number.rfind("."), number.rfind(","))
        return number[:point].replace(",", "").replace(".", "") + "." + number[point + 1 :]
    return number.replace(",", ".")
