"""Words whose full stop may not end a sentence, and words that begin one. Tables only."""

from __future__ import annotations

from typing import Final

from gateway.text.listed import listed

BEFORE_NAME: Final = frozenset(
    listed(
        """
    dr mr mrs ms mx messrs prof rev gov lt maj capt cpt cmdr adm sgt cpl pvt supt det insp sra srta
    dott sig mme mlle mgr dra fru dipl vol vols fig figs eq eqs ch chap p pp pg exs vs cf viz e.g
    i.e approx abt incl excl esp bzw z.b d.h u.a p.ej cit n.b q.v s.t w.r.t aka attn a.k.a
    """
    )
)
"""What stands before something it belongs to: never the end of a sentence, whatever follows."""

EITHER: Final = frozenset(
    listed(
        """
    etc inc ltd co corp llc bros jr sr esq ph.d m.d b.a m.a m.sc b.sc d.d.s j.d phd am pm u.s u.s.a
    u.k u.n e.u d.c u.s.s.r l.a n.y jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues
    wed thu thur thurs fri sat sun ave blvd rd dept univ assn est govt intl natl hwy pkwy sq ln ct
    apt ste bldg a.d b.c b.c.e c.e al ibid misc orig oz lb lbs ft yd mi hr hrs min mins secs km cm
    mm kg mg ml gal qt pt tbsp tsp wk wks yr yrs mo mos usw ecc s.a no nos nr
    """
    )
)
"""May end a sentence: a capital behind them decides, and for names of it (`U.S. Army`) the word itself."""

WORD_DECIDES: Final = frozenset(
    listed(
        """
    co corp inc ltd bros u.s u.s.a u.k u.n e.u d.c l.a n.y ave blvd rd jan feb mar apr jun jul aug
    sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun jr sr dept univ st al app art
    avg ca col ed eds eg ex ext fr gen hon ie ing max min mt op par para pres rep resp sec sen tel
    temp v ver a.m p.m
    """
    )
)
"""Of those: so often followed by a name that only a word that begins sentences ends one."""

SENTENCE_STARTERS: Final = frozenset(
    listed(
        """
    the a an this that these those it its he she they we you i my your his her our their there here what who
    when where why how which if then but and so or yet however also although because since while after
    before in on at for from with as to by of let let's i'm i'll i've it's that's there's here's he's she's
    we're they're you're don't do does did is are was were can could will would should may might must please
    no yes not now next first second third finally meanwhile moreover otherwise instead still once one two
    three some many most all each every both either neither another just only well ok okay thanks thank
    sorry today tomorrow yesterday everyone someone nobody nothing everything call see go come take make get
    give tell ask look
    """
    )
)

VOWELLESS_WORDS: Final = frozenset(
    listed(
        """
    hmm hm shh sh pfft psst brr grr tsk zzz nth mm mmm by my why try fly cry dry sky shy tv
    """
    )
)

NEVER_LAST: Final = frozenset(
    listed(
        """
    a an the of to in on over under between through during before after at by for from with into
    onto about as and or but nor if because so than that this these those my your his her its our
    their is are was were be been am has have had do does did will would can could should may might
    must not no very more most less i you he she we they it's who which what when where how why
    whose there's i'm
    """
    )
)
"""A phrase does not end in one of these, so no forced cut comes behind one."""

COORDINATORS: Final = frozenset(listed("and but or because so although while if when"))
NEEDS_A_NOUN: Final = frozenset(
    listed(
        "a an the of to in on over under between at by for from with into onto about as and or but nor my your his her"
    )
)
"""Nothing ends in one of these, not even in front of "and"."""

PHRASE_STARTERS: Final = frozenset(
    listed(
        """
    and but or so because which who that when while where if although though after before until since unless
    with without for from into through during about between in on at by to as than then
    """
    )
)
"""A forced cut is best in front of one of these."""

CALENDAR: Final = frozenset(
    listed(
        """
    january february march april may june july august september october november december jan feb mar apr
    jun jul aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday
    """
    )
)

ORDINAL_DOT_LANGUAGES: Final = frozenset(listed("de da no nb nn fi cs sk hr sr sl pl hu et lv lt is tr"))
"""They write an ordinal as a number and a full stop ("am 5. Mai")."""
