#!/usr/bin/env bash
# The whole accelerator check in one go, eight minutes at most: ops on the device, then benchmarks/higgs_gpu.py.
# Needs a python with torch (CUDA), numpy, safetensors and tokenizers: $PYTHON, else python3. Results go to $OUT.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
export OUT=${OUT:-benchmarks/results} PYTHONUNBUFFERED=1
mkdir -p "$OUT"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true
exec timeout 480 "$python" -m benchmarks.higgs_gpu "$@" 2>&1 | tee "$OUT/higgs_gpu.log"
