"""The commands of Slurm that submitit calls, played by this machine: jobs are started at once, as processes."""

from __future__ import annotations

from pathlib import Path

SBATCH = """#!/bin/bash
here=$(dirname "$0"); script="${@: -1}"
number=$(( $(cat $here/last 2>/dev/null || echo 100) + 1 )); echo $number > $here/last
grep "^#SBATCH" "$script" > $here/asked.$number
export SLURM_JOB_ID=$number SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1 SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
export SLURM_JOB_NODELIST=localhost
echo RUNNING > $here/state.$number
setsid bash -c "bash '$script'; echo COMPLETED > $here/state.$number" > /dev/null 2>&1 < /dev/null &
echo $! > $here/process.$number
echo "Submitted batch job $number"
"""
SRUN = """#!/bin/bash
while [[ "$1" == --* ]]; do case "$1" in --output|--error) shift 2;; *) shift;; esac; done
exec "$@"
"""
SACCT = """#!/bin/bash
here=$(dirname "$0"); echo "JobID|State|NodeList"
for state in $here/state.*; do echo "${state##*.}|$(cat $state)|localhost"; done
"""
SCANCEL = """#!/bin/bash
here=$(dirname "$0")
for number in "$@"; do
    [ -f $here/process.$number ] && kill -9 -- -$(cat $here/process.$number) && echo CANCELLED > $here/state.$number
done
"""


def write_commands(folder: Path) -> Path:
    """Write the commands; the folder, for $PATH. `asked.NUMBER` then has what a job asked for."""
    folder.mkdir()
    for name, text in {"sbatch": SBATCH, "srun": SRUN, "sacct": SACCT, "scancel": SCANCEL}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder
