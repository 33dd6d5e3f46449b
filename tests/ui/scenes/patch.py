"""What a container says of its patch."""

from __future__ import annotations

import dataclasses

from remote.wire.patch import MarkedLine, PatchState, PatchStatus
from remote.wire.plan import Check, Plan, Step
from tests.ui.scenes.basics import OK, WARN

PATCH = PatchStatus(
    state=PatchState.APPLIED,
    python="/root/ml-env/bin/python3",
    summary="6 marked lines, as version 3 writes them; the running server loaded them.",
    sglang_version="0.5.9",
    model_file="/root/sglang/python/sglang/srt/models/deepseek_v2.py",
    family="deepseek 0.4.0-0.5.9",
    version="3",
    file_sha256="9f2c4e0b6a1d8e77c35f90ab12cd34ef56ab78cd90ef12ab34cd56ef78ab90cd",
    original_sha256="1b7de0c2a93f44d5886e7f10293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c",
    lines=(
        MarkedLine(26, "# hsconsole: begin"),
        MarkedLine(27, "_hs_dump = _hs_load()  # _HS_DUMP"),
        MarkedLine(28, "# hsconsole: end"),
        MarkedLine(2691, "_hs_request = _hs_dump and _hs_dump.begin(self, forward_batch)"),
        MarkedLine(2702, "if _hs_request: _hs_request.capture(i, hidden_states + residual)"),
        MarkedLine(2731, "if _hs_request: _hs_request.finish(hidden_states)"),
    ),
    depths=(
        Check("text", OK, "6 marked lines"),
        Check("hash", OK, "the file is as version 3 wrote it"),
        Check("imported", OK, "/root/ml-env/bin/python3 imports this file"),
        Check("loaded", OK, "pid 48213 loaded version 3, layers 3, 31, 59"),
    ),
)


UNPATCHED_SERVER = dataclasses.replace(
    PATCH,
    depths=(
        *PATCH.depths[:3],
        Check("loaded", WARN, "the server runs unpatched code", "Stop the server and start it again."),
    ),
)


APPLY = Plan(
    "patch.apply",
    "Apply the patch, version 3",
    needed=True,
    steps=(
        Step("keep the original", "cp deepseek_v2.py ~/.local/state/hsconsole/originals/1b7de0c2"),
        Step("write deepseek_v2.py whole"),
        Step("copy the dumper beside sglang"),
    ),
    diff="""--- deepseek_v2.py
+++ deepseek_v2.py
@@ -23,6 +23,9 @@
 import torch
 import torch.nn.functional as F
+# hsconsole: begin
+_hs_dump = _hs_load()  # _HS_DUMP
+# hsconsole: end
 from torch import nn
-x = 1
 from transformers import PretrainedConfig
""",
)
