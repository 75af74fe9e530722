#!/usr/bin/env python3
"""A sweep of openwddm on a Dask cluster: each part is a task, and the rows come back as a data frame.

    python3 examples/sweep_dask.py [--scheduler tcp://HOST:8786] [--shards 8] [--openwddm PROGRAM] [--out FOLDER] WORKLOAD [options of sweep]

Without --scheduler it starts a cluster on this computer. A worker needs the program `openwddm` and a folder for temporary files; workload
and rows travel with the tasks, so no file system has to be common. A part that is finished is not run again when the script is repeated:
its rows lie in FOLDER/rows and travel along. Needs `pip install "dask[dataframe]" distributed`.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile


def part(program, workload, options, shard, known):
    """Runs one part on a worker: the workload's name and bytes and the rows that are known go in, all rows come out, by file name."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        name, content = workload
        (folder / name).write_bytes(content)
        rows = folder / "out" / "rows"
        rows.mkdir(parents=True)
        for file, row in known.items():
            (rows / file).write_bytes(row)
        command = [program, "sweep", str(folder / name), *options, "--shard", shard, "--jobs", "1", "--out", str(folder / "out")]
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode != 0:
            raise RuntimeError(f"part {shard} ended with {ended.returncode}: {ended.stderr.strip()}")
        return {file.name: file.read_bytes() for file in rows.glob("*.parquet")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scheduler", help="address of a Dask scheduler; without it a local cluster is started")
    parser.add_argument("--shards", type=int, default=8, help="parts of the sweep")
    parser.add_argument("--openwddm", default="openwddm", help="the program, as workers find it")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/sweep"))
    parser.add_argument("workload", type=pathlib.Path)
    arguments, options = parser.parse_known_args()

    import dask.dataframe
    from distributed import Client, as_completed

    rows = arguments.out / "rows"
    rows.mkdir(parents=True, exist_ok=True)
    workload = (arguments.workload.name, arguments.workload.read_bytes())
    known = {file.name: file.read_bytes() for file in rows.glob("*.parquet")}
    with Client(arguments.scheduler) if arguments.scheduler else Client(processes=False, dashboard_address=None) as client:
        count = arguments.shards
        shards = [f"{number}/{count}" for number in range(1, count + 1)]
        tasks = [client.submit(part, arguments.openwddm, workload, options, shard, known, pure=False) for shard in shards]
        for task in as_completed(tasks):
            for file, row in task.result().items():
                whole = rows / f".{file}.part"
                whole.write_bytes(row)
                whole.replace(rows / file)

    # All rows are there: the same sweep without --shard makes none, and draws them.
    command = [arguments.openwddm, "sweep", str(arguments.workload), *options, "--out", str(arguments.out)]
    drawn = subprocess.run(command)
    frame = dask.dataframe.read_parquet(str(rows)).compute()
    frame["share"] = frame.share_millionths / 1e6
    frame["moved_bytes"] = frame.paged_in_bytes + frame.paged_out_bytes
    columns = ["workload", "processes", "policy", "vram_bytes", "share", "moved_bytes", "fewest_bytes"]
    print(frame.sort_values(columns[:4])[columns].to_string(index=False))
    return drawn.returncode


if __name__ == "__main__":
    sys.exit(main())
