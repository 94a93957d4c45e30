"""Tables that no person would write, for readers that must not fall over: bytes in, an `InputError` or a result out.

`make fuzz` tries a hundred thousand, in batches that each have a seed; the tests try a few hundred.
"""

import argparse
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import manymotives as mm
from manymotives.commands.inputs import read_inputs

BATCH = 2_000  # inputs of one seed
CELLS = st.one_of(
    st.sampled_from(["", " ", "ann", "bob", "hall", "kitchen", "on", "back", "NA", "nan", "TRUE", "2024-01-01"]),
    st.sampled_from(["1", "2", "7.0", "007", "-1", "0.5", "1e400", "inf", "99999999999999999999"]),
    st.sampled_from(
        ['"', '""', "a,b", "a;b", "=1+1", "<script>", "🐭", "\x00", "é", "\n", "\r", "[bold]", "{0}", "%s"]
    ),
    st.text(max_size=6),
)
HEADERS = st.one_of(
    st.sampled_from(
        ["subject", "state", "action", "next_state", "probability", "trial", "step", "session", "t", "State", "x", ""]
    ),
    st.text(max_size=4),
)
GOOD = (
    "subject,trial,state,action,next_state,probability\nann,1,hall,on,kitchen,1\nann,2,kitchen,back,hall,1\n"
    "bob,1,hall,on,kitchen,1\nbob,2,kitchen,on,hall,\n"
)


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """A good table with odd cells, a table of odd cells in some encoding, or a good one with odd bytes in it."""
    way = draw(st.integers(0, 2))
    if way == 0:  # a good table with odd cells
        rows = [line.split(",") for line in GOOD.splitlines()]
        for _ in range(draw(st.integers(0, 3))):
            rows[draw(st.integers(1, 4))][draw(st.integers(0, 5))] = draw(CELLS)
        separator = draw(st.sampled_from([",", ";", "\t"]))
        return "\n".join(separator.join(cells) for cells in rows).encode("utf-8", errors="replace")
    if way == 1:
        separator = draw(st.sampled_from([",", ";", "\t", "|"]))
        usual = ["subject", "trial", "state", "action", "next_state", "probability"]
        header = usual if draw(st.booleans()) else draw(st.lists(HEADERS, min_size=1, max_size=6))
        row = st.lists(CELLS, min_size=max(0, len(header) - 1), max_size=len(header) + 1)
        rows = draw(st.lists(row, max_size=6))
        if draw(st.booleans()):
            rows = [(cells + [""] * len(header))[: len(header)] for cells in rows]
        quote = draw(st.booleans())
        written = [[('"' + cell.replace('"', '""') + '"') if quote else cell for cell in cells] for cells in rows]
        end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
        text = end.join(separator.join(cells) for cells in [header, *written]) + draw(st.sampled_from(["", end]))
        encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"]))
        return text.encode(encoding, errors="replace")
    content = bytearray(GOOD.encode(draw(st.sampled_from(["utf-8", "utf-8", "utf-16"]))))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 8))
        content[place : place + length] = draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b",", b"\n", b'"', b";"]))
        )
    return bytes(content)


def read_all(content: bytes, folder: Path, kind: str) -> bool:
    """Read it in every role; whether it could be read at all. Whatever is raised is an `InputError`."""
    path = folder / f"table{kind}"
    path.write_bytes(content)
    read = False
    for environment in (None, str(path)):
        try:
            inputs = read_inputs(
                path,
                environment,
                {},
                discount=0.9,
                terminal=(),
                coordinates=None,
                history=len(content) % 2,
                plug_in=environment is None and len(content) % 3 == 0,
            )
            inputs.lines()
            read = True
        except mm.InputError as error:
            message = str(error)
            assert message, "nothing is said"
            assert "Traceback" not in message
    return read


def try_batch(number: int) -> tuple[int, int]:
    """The inputs that one seed gives: how many were tried, and how many of them could be read."""
    warnings.simplefilter("error")
    tried = read = 0
    with tempfile.TemporaryDirectory() as name:

        @seed(number)
        @settings(
            max_examples=BATCH,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(content=tables(), kind=st.sampled_from([".csv", ".csv", ".tsv", ".txt", ".parquet"]))
        def attempt(content: bytes, kind: str) -> None:
            nonlocal tried, read
            tried += 1
            read += read_all(content, Path(name), kind)

        attempt()
    return tried, read


def main() -> None:
    options = argparse.ArgumentParser(description="Long runs can be done in parts: --seeds 0 25, then --seeds 25 50, …")
    options.add_argument(
        "--seeds", type=int, nargs=2, default=(0, 50), help=f"first, and one past the last; {BATCH} inputs each"
    )
    options.add_argument("--processes", type=int, default=2)
    first, end = options.parse_args().seeds
    begin, tried, read = time.monotonic(), 0, 0
    with ProcessPoolExecutor(options.parse_args().processes) as pool:
        for number, (here, readable) in zip(range(first, end), pool.map(try_batch, range(first, end))):
            tried, read = tried + here, read + readable
            rate = tried / (time.monotonic() - begin)
            said = f"seeds {first} to {number}: {tried:,} inputs, {read:,} of them readable, {rate:,.0f} a second"
            print(said, flush=True)
    print(f"{tried:,} inputs, and nothing but results and sentences", flush=True)


if __name__ == "__main__":
    main()
