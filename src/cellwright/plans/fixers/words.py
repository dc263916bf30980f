"""Words that people name things by. One of them is spelt as it was meant, however near it is to something else."""

from __future__ import annotations

__all__ = ["WORDS"]

_WORDS = """
    accept access account action active actual added address after agent alert alias alpha amount analysis angle
    answer apple apply area array article asset assets audio author average back balance band bank base basic batch
    bean before begin best beta bill bind birth block board body book border bottom bound brand buffer build bulk
    business cable cache call camera cancel card care cargo cart case cash cast category cause cell cells cent center
    chain chair chance change channel char chart check chunk city claim class clean clear click client clock close
    cloud club coach coast code coin cold color column comment common company compare cond config contact content
    context control cool copy corp correct cost count counter country county course court cover create credit crew
    crop cross crowd current curve customer cycle daily damage data dataset date dates datum days deal dealer death
    debit debt decade default degree delay delete delta demand density depart depth desc design detail device diff
    digit discount disk distance district dose double doubt down draft drag draw drive drop duration early earth edge
    edit effect email employee empty energy engine entry epoch epochs equal error event events exact exam excel
    exchange exit expense export extra face fact factor fail family fare farm fast fault feature field fields fight
    figure file files fill film filter final find fine fire first fish fixed flag fleet flight float floor flow fold
    food foot force forest form format found frame frames free freight from front fruit fuel full fund gain game gate
    gender genre gift girl given goal gold good grade grain grand grant graph grass gray great green grid gross
    ground group groups grow growth guest guide hash head header health heart heat heavy height help high hint hire
    history hits hold home horse hospital host hotel hour hours house human image images import income index inner
    input inputs insert invoice issue item items join judge jump just keep kept kind label labels lake lane large
    last late later layer lead leaf league left lend length less level levels life lift light limit line lines link
    links list load loan local lock logs long loop loss lost love lower lunch made mail main major make male manager
    many margin mark market mask mass match material matrix mean means measure media median medal meter method middle
    mile milk mine minor minute mode model models money month months moral more most motion motor mount mouse move
    movie music name names nation near nest node nodes none noon norm normal north note notes notice null number
    object offer office online only open option order orders origin other outcome outer output outputs over owner
    pack page pages pair paper param parent park part parts party pass past path paths patient pause payment peak
    people period person phase phone photo piece pieces pilot place plain plan plane planet plant plate play player
    plot plots point points pole poll pool poor port pose position post pound power present press pressure price
    prices prime print prior prize product products profile profit project proof property public pulse purchase
    quality quantity quarter query queue quick quiet quite quota quote race radio radius rain raise random range rank
    rate rates rating ratio read reader real rear reason receipt record records reduce refund region regions report
    request rest result results retail return revenue review reward rice rich right ring rise risk river road rock
    role room root rose route routes rows rule rules safe salary sale sales same sample samples sand save scale
    scales scan scene school scope score scores seal search season seat second section sector seed sell sender
    sense sent sequence serial series server service session setting shape share sheet shift ship shop shore short
    show side sign signal silver simple single site size sizes skill sleep slice slide slope slow small smart snow
    soil sold solid some song sort sound source south space span speed spend split sport spot staff stage stake stand
    star start state states station status step steps stock stop storage store story strain stream street stress
    string strong student study style subject suit summary summer supply support surface survey system table tables
    tail take target task tasks team teams temp tense term terms test tests text texts theme then there thing this
    ticket tide tier tile time times title token tokens tool topic total totals tour tower town track tract trade
    traffic trail train trait transfer travel tree trend trial trip truck true trunk trust tune turn type types union
    unique unit units update upper usage used user users vague valid value values vector vendor verb version video
    view visit visits voice volume vote wage wages wait walk wall want ward warm waste watch water wave ways weak
    wear weather week weeks weight well west wheel when where while white whole wide width wife wind window wine
    winner winter wire wish with woman wood word words work worker world worth write wrong yard year years yield
    young zero zone zones
"""
WORDS = frozenset(_WORDS.split())
