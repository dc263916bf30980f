"""Words that people name things by. One of them is spelt as it was meant, however near it is to something else."""

from __future__ import annotations

__all__ = ["WORDS"]

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
