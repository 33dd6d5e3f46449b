"""Dumped requests, and what is found about them."""

from __future__ import annotations

import dataclasses

from remote.wire.dumps import DumpCounts, DumpDetail, DumpFile, DumpRow, DumpsChange, DumpState, DumpTest
from remote.wire.plan import Check, StepResult
from tests.ui.scenes.basics import BAD, NOW, OK


def rows(count: int, first: int = 1) -> tuple[DumpRow, ...]:
    made = []
    for number in range(first, first + count):
        tokens = 300 + (number * 2357) % 7893
        made.append(
            DumpRow(
                number,
                DumpState.COMPLETE,
                NOW - (first + count - number) * 0.4,
                tokens,
                tokens * 7168 * 2 * 4 + 6000,
                (3, 31, 59),
                f"s-{number:06}",
            )
        )
    return tuple(made)


def many_dumps(count: int = 1286) -> DumpsChange:
    made = list(rows(count))
    made[-1] = dataclasses.replace(made[-1], state=DumpState.WRITING, at=NOW)
    made[-2] = dataclasses.replace(made[-2], state=DumpState.WRITING, at=NOW)
    made[-5] = dataclasses.replace(made[-5], state=DumpState.CORRUPT, note="aux_2.pt: NaN in row 7")
    made[-9] = dataclasses.replace(
        made[-9], state=DumpState.ERROR, note="no room in /dev/shm: 470 MB wanted, 61 MB left"
    )
    made[-12] = dataclasses.replace(
        made[-12], state=DumpState.PARTIAL, at=NOW - 340, note="no done, nothing changed for 5 min"
    )
    counts = DumpCounts(
        995, 2, 3, older=count - 1000, given=count, requests_per_s=3.1, tokens_per_s=7312.0, bytes_per_s=418e6
    )
    return DumpsChange(NOW, True, tuple(made), (), counts)


NO_DUMPS = DumpsChange(NOW, True, (), (), DumpCounts())


TESTED = DumpTest(
    True,
    "hsc-test-7f3a",
    0.7,
    1287,
    (
        Check("tokens", OK, "10 of 10"),
        Check("hidden size", OK, "7168"),
        Check("layers", OK, "3, 31, 59"),
        Check("files", OK, "5 files, 143,360 bytes of payload each"),
        Check("values", OK, "finite, not constant"),
    ),
)
TEST_STEPS = (
    StepResult("request sent", True, "10 ids to http://127.0.0.1:8000, rid hsc-test-7f3a", 0.2),
    *(StepResult(check.name, True, check.found, 0.1) for check in TESTED.checks),
)


DETAIL = DumpDetail(
    DumpRow(1282, DumpState.CORRUPT, NOW - 130, 10, 579_980, (3, 31, 59), "s-001282", "aux_2.pt: NaN in row 7"),
    "/dev/shm/sglang_hs/req_1282",
    {
        "num_tokens": 10,
        "hidden_size": 7168,
        "num_aux_layers": 3,
        "captured_at_layers": [3, 31, 59],
        "counter": 1282,
        "timestamp": 1771958433.3917341,
        "schema": 3,
        "rid": "s-001282",
        "dtype": "bfloat16",
        "files": {},
        "sglang_version": "0.5.9",
        "tp_rank": 0,
        "tp_size": 8,
    },
    (
        DumpFile("aux_0.pt", 144_859, 143_360, 143_360, "bfloat16", (10, 7168)),
        DumpFile("aux_1.pt", 144_859, 143_360, 143_360, "bfloat16", (10, 7168)),
        DumpFile("aux_2.pt", 144_859, 143_360, 143_360, "bfloat16", (10, 7168), "NaN in row 7"),
        DumpFile("final.pt", 72_430, 71_680, 143_360, "bfloat16", (10, 7168)),
        DumpFile("input_ids.pt", 1_300, 80, 80, "int64", (10,)),
    ),
    (
        Check("tokens", OK, "10 rows, 10 ids"),
        Check("files", BAD, "final.pt holds 71,680 bytes of 143,360", "The file is cut: this request can't be used."),
        Check("finite", BAD, "aux_2.pt: NaN in row 7"),
        Check("layers", OK, "3, 31, 59"),
    ),
)
