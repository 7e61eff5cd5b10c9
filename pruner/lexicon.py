"""Words and signs that state facts: months, numbers, units and negations of five languages.

The lists are small on purpose. A word on them that means something else does little harm: of two near-equal texts both
hold it, and only what one of them says and the other does not counts.
"""

__all__ = [
    "COUNTERS",
    "KINDS",
    "KNOWN",
    "KOREAN_NUMERALS",
    "MAGNITUDES",
    "NUMBER_WORDS",
    "NUMERALS",
    "OPPOSITES",
    "OPPOSITE_BEGINNINGS",
    "SAME_NAME",
    "STAND_BEFORE",
    "UNIT_SIGNS",
]


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
    kbit mbit gbit tbit
    stündlich täglich wöchentlich monatlich jährlich 오전 오후 上午 下午
    prozent sekunde sekunden minuten stunde stunden tag tage tagen woche wochen monat monate monaten jahr jahre jahren
    ngày tuần tháng năm giờ phút giây đồng vnd
    % ‰ ° € $ £ ¥ ₩ ₫
""")
_NEGATIONS = _words("""
    not no non never none nothing nobody nowhere nor neither without except excluding unless
    nicht nie niemals nichts niemand keinerlei keinesfalls keineswegs nein ohne weder ausser ausgenommen
    không chưa chẳng đừng chớ cấm trừ bất vô phi
    不 没 沒 未 无 無 勿 非 别 禁
    아니 않 없 안 못 금지 불가 비 미 무 불
    !=
""")
SAME_NAME = {
    written: names.split()[0]
    for names in (
        *("january jan januar", "february feb februar", "march mar märz", "april apr", "may mai", "june jun juni"),
        *("july jul juli", "august aug", "september sep sept", "october oct oktober okt", "november nov"),
        "december dec dezember dez",
        "$ dollar dollars",
        "% percent prozent",
        "second s sec secs seconds sekunde sekunden",
        "minute min mins minutes minuten",
        "hour h hr hrs hours stunde stunden",
        "day days tag tage tagen",
        "week weeks woche wochen",
        "month months monat monate monaten",
        "quarter quarters",
        "year years jahr jahre jahren",
        "byte bytes",
        "bit bits",
        "inch inches",
        "mile miles",
        "yard yards",
        "gallon gallons",
        "ton tons",
        "€ eur euro euros",
        "cent cents",
        "pound pounds",
    )
    for written in names.split()
}
"""Units and months written in several ways, and the name that stands for each."""
NUMBER_WORDS = {
    word: str(number)
    for words in (
        """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty""",
        """null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn
        siebzehn achtzehn neunzehn zwanzig""",
    )
    for number, word in enumerate(words.split())
}
"""What numbers that are written out are in digits."""
MAGNITUDES = {
    word: number
    for number, words in (
        (100, "hundred hundert trăm"),
        (1000, "thousand tausend nghìn"),
        (10**6, "million millionen triệu"),
        (10**9, "billion milliarde milliarden tỷ"),
    )
    for word in words.split()
}
"""By what the number before a word is multiplied."""
STAND_BEFORE = _words("""
    january february march april may june july august september october november december
    $ € £ ¥ ₩ ₫ usd gbp chf cad aud inr jpy cny krw sek nok dkk pln brl
""")
"""Names, as in `SAME_NAME`, that may stand before their number as well as behind it."""
# How two words begin that are opposites if they go on alike, or nearly always are.
OPPOSITE_BEGINNINGS = (
    *((negating, "") for negating in ("un", "in", "im", "il", "ir", "non", "dis", "de")),
    *[("dis", "en"), ("ex", "in"), ("de", "in"), ("ex", "im"), ("ab", "auf"), ("aus", "ein")],
)
OPPOSITES = {
    one: frozenset(others)
    for pairs in (
        "true false|on off|yes no|allow deny|allows denies|allowed denied|allowed forbidden|accept reject",
        "accepts rejects|accepted rejected|open closed|public private|required optional|mandatory optional",
        "above below|over under|higher lower|high low|up down|start stop|starts stops|started stopped|win lose",
        "pass fail|passes fails|passed failed|synchronous asynchronous|left right|ascending descending",
        "wahr falsch|ja nein|erlaubt verboten|öffentlich privat|oben unten|hoch niedrig|an aus",
    )
    for pair in pairs.split("|")
    for one, *others in (pair.split(), pair.split()[::-1])
}
"""Words of which one takes the place of the other where a text says the opposite."""
NUMERALS = "零一二三四五六七八九十百千万萬亿億两兩半"
# Of Korean, as many of these signs are parts of words too, only what stands before a counter.
KOREAN_NUMERALS = "한두세네다섯여섯일곱여덟아홉열스물무서른마흔쉰이삼사오육칠팔구십백천만억조"
_NEGATED = frozenset("있")  # What 없 negates.
KINDS = {
    **dict.fromkeys(_NEGATIONS, "negation"),
    **dict.fromkeys(_UNITS, "unit"),
    **dict.fromkeys(_NUMBERS, "number"),
    **dict.fromkeys(_MONTHS, "date"),
}
KNOWN = {**dict.fromkeys(KINDS, 0), **dict.fromkeys(_NEGATIONS | _NEGATED, -1)}
UNIT_SIGNS = (
    "小时|小時|分钟|分鐘|毫秒|星期|个月|個月|季度|公里|千米|厘米|毫米|公斤|千克|毫克|毫升|美元|美分|欧元|歐元|日元|英镑|英鎊|港元"
    "|시간|개월|퍼센트|킬로미터|센티미터|밀리미터|미터|킬로그램|밀리그램|그램|밀리리터|리터|달러|유로"
    "|[秒分天日周週月年元米克斤吨噸升초분시일주달년원엔톤]"
)
COUNTERS = "개월|시간|[개명번일월년원분초주달배]"
