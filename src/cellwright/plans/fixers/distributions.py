"""Maps modules to the packages that install them, and lists the modules that are known at all.

A closed list: guessing would send a typing error to whoever registered the name. What may be installed is decided
elsewhere (``Surroundings.approved``).
"""

from __future__ import annotations

import re

from cellwright.sandbox.approved_packages import IMPORT_NAMES, normal_name

__all__ = ["MODULE_OF", "WELL_KNOWN", "distributions_for", "installable"]

_DISTRIBUTIONS: dict[str, tuple[str, ...]] = {
    **{name: (distribution,) for name, distribution in IMPORT_NAMES.items()},
    "crypto": ("pycryptodome",),
    "cv2": ("opencv-python-headless", "opencv-python", "opencv-contrib-python"),
    "faiss": ("faiss-cpu",),
    "git": ("gitpython",),
    "google-protobuf": ("protobuf",),
    "ipywidgets": ("ipywidgets",),
    "jose": ("python-jose",),
    "jwt": ("pyjwt",),
    "kafka": ("kafka-python",),
    "ldap": ("python-ldap",),
    "levenshtein": ("levenshtein",),
    "magic": ("python-magic",),
    "mysqldb": ("mysqlclient",),
    "openssl": ("pyopenssl",),
    "pil": ("pillow",),
    "pkg-resources": ("setuptools",),
    "psycopg2": ("psycopg2-binary", "psycopg2"),
    "serial": ("pyserial",),
    "slugify": ("python-slugify",),
    "telegram": ("python-telegram-bot",),
    "umap": ("umap-learn",),
    "usb": ("pyusb",),
    "websocket": ("websocket-client",),
    "win32com": ("pywin32",),
    "zmq": ("pyzmq",),
}
_NAMESPACES = {
    "google.protobuf": "protobuf",
    "google.cloud.storage": "google-cloud-storage",
    "ruamel.yaml": "ruamel-yaml",
}

MODULE_OF: dict[str, str] = {
    "beautifulsoup": "bs4",
    "beautifulsoup4": "bs4",
    "opencv": "cv2",
    "opencv_python": "cv2",
    "pillow": "PIL",
    "pycryptodome": "Crypto",
    "pyserial": "serial",
    "python_dateutil": "dateutil",
    "python_docx": "docx",
    "python_dotenv": "dotenv",
    "pyyaml": "yaml",
    "scikit_image": "skimage",
    "scikit_learn": "sklearn",
    "scikitlearn": "sklearn",
}
"""Names that distributions go by and modules do not, folded."""

_WELL_KNOWN = """
    PIL aiohttp altair asyncio bokeh boto3 bs4 catboost collections concurrent csv cv2 cvxpy dask datetime dateutil
    decimal django docx duckdb faker fastapi flask folium functools gensim geopandas hashlib httpx hypothesis ibis
    igraph imageio importlib itertools jax joblib json keras lightgbm logging lxml math matplotlib multiprocessing
    networkx nltk numba numpy openai openpyxl optuna pandas pathlib patsy pickle plotly polars prophet pyarrow pydantic
    pymc pymongo pyspark pytest random redis requests scipy scrapy seaborn selenium shap shapely shutil skimage sklearn
    spacy sqlalchemy sqlite3 statistics statsmodels string subprocess sympy tabulate tempfile tensorflow threading
    attrs click cupy dash geopy h5py mlflow pandera panel peewee pymc3 ray rich scapy simpy tables tornado typer wandb
    torch torchvision tqdm transformers typing unittest urllib uvicorn xarray xgboost xlrd xlsxwriter yaml zipfile
"""
WELL_KNOWN = frozenset(_WELL_KNOWN.split())
"""Modules that people really use: what a misspelt name may mean, and what is no misspelling of another."""


def distributions_for(module: str) -> tuple[str, ...]:
    """What may bring a module, the most usual first."""
    for namespace, distribution in _NAMESPACES.items():
        if module == namespace or module.startswith(namespace + "."):
            return (distribution,)
    top = normal_name(module.partition(".")[0])
    return _DISTRIBUTIONS.get(top, (top,) if re.fullmatch(r"[a-z0-9][a-z0-9-]*", top) else ())


def installable(module: str, approved: frozenset[str]) -> str | None:
    """The distribution to install for a module, if one is approved."""
    return next((name for name in distributions_for(module) if normal_name(name) in approved), None)
