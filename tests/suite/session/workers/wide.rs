//! Variants of `workers`, which `shell/test.sh --all` runs: an engine of others computes on them.

use std::fs::File;
use std::process::Command;

use harness::python;

use super::joined::up;
use crate::session::site::Site;

/// An archive of Dask's packages, and of those beside them that are not large.
fn dask(site: &Site) -> File {
    const PACK: &str = "cd \"$0\" && tar -cf \"$1\" --exclude=__pycache__ --exclude=./moto --exclude=./botocore \
                        --exclude=./awscli --exclude=./pip --exclude=./cryptography .";
    let found = "import distributed, os; print(os.path.dirname(os.path.dirname(distributed.__file__)), end='')";
    let found = Command::new(python("distributed"))
        .args(["-c", found])
        .output();
    let tar = site.path("dask.tar");
    let packed = Command::new("sh")
        .args(["-c", PACK])
        .arg(String::from_utf8(found.unwrap().stdout).unwrap())
        .arg(&tar)
        .output()
        .unwrap();
    assert!(packed.status.success(), "{packed:?}");
    File::open(tar).unwrap()
}

/// Squares of numbers, by tasks of a twentieth of a second, and their sum.
const COMPUTE: &str = "
import time
from distributed import Client, as_completed
def square(n):
    time.sleep(0.05)
    return n * n
client = Client('tcp://leader:8786')
client.wait_for_workers(2, timeout=120)
squares = client.map(square, range(800))
for done, future in enumerate(as_completed(squares)):
    if done == 50:
        print('begun', flush=True)
print(client.submit(sum, squares).result())
";

#[test]
#[ignore = "needs root (namespaces, loop devices), the machine tree, the Jupyter image and Dask"]
fn dask_computes_on_workers_of_which_one_is_taken_meanwhile() {
    let site = Site::new();
    let unpack = [
        "connect",
        "demo",
        "--no-jupyter",
        "--",
        "tar",
        "-x",
        "-C",
        "/work",
    ];
    let mut command = site.command(&unpack);
    command.stdin(dask(&site));
    site.start_command(command).end().is(0);
    let python = |words: &str| format!("cd /work && exec python3 -m {words}");
    let scheduler = python("distributed.cli.dask_scheduler --no-dashboard");
    let run = [
        "run",
        "demo",
        "-d",
        "--no-jupyter",
        "--",
        "sh",
        "-c",
        &scheduler,
    ];
    site.run(&run).is(0);
    let worker =
        python("distributed.cli.dask_worker tcp://leader:8786 --nthreads 1 --no-dashboard");
    let words = [
        "workers", "demo", "2", "--max", "1h", "--", "sh", "-c", &worker,
    ];
    site.run(&words).is(0).reports("2 of 2 are there");
    let compute = "cd /work && exec python3 -c \"$0\"";
    let words = [
        "connect",
        "demo",
        "--no-jupyter",
        "--",
        "sh",
        "-c",
        compute,
        COMPUTE,
    ];
    let mut computing = site.start(&words);
    computing.prints("begun\n");
    let (_, taken) = &up(&site)[0];
    site.run(&["local", "interrupt", taken, "--in", "0"]).is(0);
    let sum: u64 = (0..800).map(|n| n * n).sum();
    computing.end().is(0).prints(&format!("begun\n{sum}\n"));
    site.run(&["workers", "demo", "0"]).is(0);
    site.run(&["stop", "demo"]).is(0);
    let kinds = site.kinds("demo");
    assert!(kinds.iter().all(|kind| kind == "snapshot"), "{kinds:?}");
    site.has_no_leaks();
}
