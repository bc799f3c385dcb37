//! `shell/host/archive` with a stand-in for docker.

use std::fs;
use std::process::Command;

use super::HOST;

/// Runs `load` with this file on standard input.
const LOAD: &str = r#"
umask 022
RUN="$1" FAILED=1 NO_IMAGE=83
fail() { exit "$1"; }
fact() { echo "$1=$2"; }
docker() { cat > "$RUN/loaded"; echo "Loaded image: x"; }
. "$2/archive"
peek "$RUN/peek.tar" < /dev/null
stat -c %a "$RUN/peek.tar"
load < "$3"
"#;

#[test]
fn nothing_of_an_archive_is_left_on_the_host_and_none_of_it_is_others_to_read() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    fs::create_dir(&run).unwrap();
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(2);
    header.set_cksum();
    archive
        .append_data(&mut header, "manifest.json", &b"[]"[..])
        .unwrap();
    let archive = archive.into_inner().unwrap();
    let secret = b"aws_secret_access_key = hush".to_vec();
    for (content, code, printed) in [
        (&archive, Some(0), "600\nimage=x\n"),
        (&secret, Some(83), "600\n"),
    ] {
        let file = dir.path().join("file");
        fs::write(&file, content).unwrap();
        let output = Command::new("sh")
            .args(["-c", LOAD, "sh"])
            .args([run.as_path(), HOST.as_ref(), &file])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), code, "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), printed);
        let left = fs::read_dir(&run).unwrap();
        let left = left.map(|it| it.unwrap().file_name().into_string().unwrap());
        let left: Vec<String> = left.filter(|name| name.starts_with("peek")).collect();
        assert_eq!(left, Vec::<String>::new());
    }
    assert_eq!(fs::read(run.join("loaded")).unwrap(), archive);
}
