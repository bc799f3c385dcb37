//! Repositories, worktrees and submodules with random settings, beside git.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A random repository: its top, and whether its rules can be known without a git.
fn repository(random: &mut Random, folder: &Path) -> (PathBuf, bool) {
    let main = folder.join("the main one");
    fs::create_dir(&main).unwrap();
    git(&main, &["init", "--quiet"]);
    git(&main, &["commit", "--quiet", "--allow-empty", "-m", "a"]);
    fs::write(main.join(".git/info/exclude"), random.rules()).unwrap();
    let top = match random.below(4) {
        0 => {
            git(
                &main,
                &["worktree", "add", "--quiet", "-b", "side", "../s p"],
            );
            folder.join("s p")
        }
        1 => {
            let whole = folder.join("whole");
            fs::create_dir(&whole).unwrap();
            git(&whole, &["init", "--quiet"]);
            fs::write(whole.join(FILE), random.rules()).unwrap();
            git(
                &whole,
                &[
                    "submodule",
                    "--quiet",
                    "add",
                    "--force",
                    "../the main one",
                    "sub",
                ],
            );
            let exclude = whole.join(".git/modules/sub/info");
            fs::create_dir_all(&exclude).unwrap();
            fs::write(exclude.join("exclude"), random.rules()).unwrap();
            whole.join("sub")
        }
        _ => main,
    };
    // Only a git reads settings of the environment.
    let mut is_plain = std::env::var_os("GIT_CONFIG_COUNT").is_none();
    if random.one_in(2) {
        git(&top, &["config", "core.ignoreCase", "true"]);
    }
    fs::write(folder.join("rules"), random.rules()).unwrap();
    fs::write(folder.join("config"), "[core]\n\texcludesFile = ../rules\n").unwrap();
    let config = folder.join("config");
    let config = config.to_str().unwrap();
    match random.below(5) {
        0 => git(&top, &["config", "core.excludesFile", "../rules"]),
        1 => git(&top, &["config", "include.path", config]),
        2 => git(
            &top,
            &["config", "includeIf.gitdir:**/.git/**.path", config],
        ),
        3 => git(&top, &["config", "includeIf.onbranch:*.path", config]),
        _ => return (top, is_plain),
    }
    is_plain = false;
    (top, is_plain)
}

/// Compares random repositories with git: worktrees, submodules, included settings, files that are
/// tracked and ignored.
#[test]
fn every_setting_of_a_repository_counts_as_for_git() {
    let mut random = Random::new(3);
    for number in 0..60 {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let (top, mut is_plain) = repository(&mut random, &folder);
        let mut paths = Vec::new();
        for _ in 0..20 {
            let path = random.path();
            // To `git check-ignore` a name such as `*` is any tracked file's, too.
            let is_name = !path.iter().any(|it| b"*?[\\".contains(it));
            if is_name && make(&mut random, &top, &path) {
                paths.push(path);
            }
        }
        for path in &paths.clone() {
            let path = join(&top, path);
            if random.one_in(3) && path.is_dir() && !path.is_symlink() {
                fs::write(path.join(FILE), random.rules()).unwrap();
            }
            if random.one_in(6) && path.exists() {
                is_plain = false;
                let mut add = command(&top);
                add.args(["--literal-pathspecs", "add", "--force", "--"])
                    .arg(&path);
                assert!(add.status().unwrap().success());
            }
        }
        let right = ignored_by_git(&top, &paths);
        let repositories = Repositories::default();
        let found = Rules::read(&top, &repositories).unwrap();
        let read = Arc::new(Repository::find(&top, None));
        let read = Rules::with(&top, read, &repositories).unwrap();
        for path in &paths {
            let is_right = right.contains(path);
            let shown = path.escape_ascii();
            let is_found = leaves_out(found.clone(), &top, path);
            assert_eq!(is_found, is_right, "{number}: {shown}");
            if is_plain {
                let is_read = leaves_out(read.clone(), &top, path);
                assert_eq!(is_read, is_right, "{number}, without a git: {shown}");
            }
        }
    }
}

/// Runs the test above where the user has rules of their own, in each place that git has for them.
#[test]
fn the_users_own_rules_count_as_for_git() {
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("default/.config/git/ignore", "a\n*.py\n");
    write("xdg/config/git/ignore", "b\n{a,b}\n");
    write("own/.gitconfig", "[core]\n\texcludesFile = ~/my rules\n");
    write("own/my rules", "a*\n!a.log\n");
    write("own/.config/git/ignore", "b\n");
    write("none/.gitconfig", "[core]\n\texcludesFile =\n");
    write("none/.config/git/ignore", "a\n");
    for (name, variables) in [
        ("default", &[][..]),
        (
            "xdg",
            &[("XDG_CONFIG_HOME", home.path().join("xdg/config"))],
        ),
        ("own", &[]),
        ("none", &[]),
        (
            "none",
            &[
                ("GIT_CONFIG_COUNT", "1".into()),
                ("GIT_CONFIG_KEY_0", "core.excludesFile".into()),
                ("GIT_CONFIG_VALUE_0", home.path().join("own/my rules")),
                ("GIT_DIR", "/nowhere".into()),
            ],
        ),
    ] {
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args([
            "--exact",
            "transfer::rules::tests::repositories::every_setting_of_a_repository_counts_as_for_git",
        ])
        .env("HOME", home.path().join(name))
        .env_remove("XDG_CONFIG_HOME")
        .envs(variables.iter().map(|(name, value)| (name, value)));
        let answer = test.output().unwrap();
        let shown = String::from_utf8_lossy(&answer.stdout);
        assert!(
            answer.status.success() && shown.contains("1 passed"),
            "{name}: {shown}"
        );
    }
}

#[test]
fn a_folder_that_was_named_is_sent_although_its_repository_ignores_it() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path().canonicalize().unwrap();
    git(&top, &["init", "--quiet"]);
    fs::write(top.join(FILE), "/data/\n*.log\n").unwrap();
    let data = top.join("data");
    fs::create_dir(&data).unwrap();
    let rules = Rules::read(&data, &Repositories::default()).unwrap();
    assert!(!rules.ignores(&data.join("a"), false) && rules.ignores(&data.join("a.log"), false));
}

#[test]
fn a_repository_within_has_rules_of_its_own_and_half_a_one_has_not() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path().canonicalize().unwrap();
    git(&top, &["init", "--quiet"]);
    fs::write(top.join(FILE), "*.log\n").unwrap();
    let [whole, half] = ["whole", "half"].map(|name| top.join(name));
    for folder in [&whole, &half] {
        fs::create_dir_all(folder.join(REPOSITORY)).unwrap();
        fs::write(folder.join(FILE), "*.tmp\n").unwrap();
    }
    git(&whole, &["init", "--quiet"]);
    let rules = Rules::read(&top, &Repositories::default()).unwrap();
    for (folder, counts) in [(&whole, false), (&half, true)] {
        let right = ignored_by_git(folder, &[b"a.log".to_vec(), b"a.tmp".to_vec()]);
        assert_eq!(right.contains(&b"a.log"[..]), counts);
        let rules = rules.within(folder).unwrap();
        let ignores = |name: &str| rules.ignores(&folder.join(name), name == REPOSITORY);
        assert_eq!(ignores("a.log"), counts);
        assert!(ignores("a.tmp") && ignores(REPOSITORY));
    }
}

#[test]
fn changes_in_a_repository_are_seen_by_the_next_rules() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path().canonicalize().unwrap();
    git(&top, &["init", "--quiet"]);
    fs::write(top.join(FILE), "*.log\n").unwrap();
    fs::write(top.join("a.log"), "").unwrap();
    let repositories = Repositories::default();
    let ignores = || {
        let rules = Rules::read(&top, &repositories).unwrap();
        rules.ignores(&top.join("a.log"), false)
    };
    assert!(ignores());
    git(&top, &["add", "--force", "a.log"]);
    assert!(!ignores());
    git(&top, &["rm", "--quiet", "--cached", "a.log"]);
    assert!(ignores());
}

#[test]
fn no_program_of_the_repositorys_own_is_run() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path().canonicalize().unwrap();
    git(&top, &["init", "--quiet"]);
    fs::write(top.join("a"), "").unwrap();
    git(&top, &["add", "a"]);
    let program = top.join("program");
    let touched = top.join("touched");
    fs::write(
        &program,
        format!("#!/bin/sh\ntouch '{}'\n", touched.display()),
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    for key in [
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.editor",
        "core.askPass",
    ] {
        git(
            &top,
            &["-c", "core.fsmonitor=false", "config", key, program],
        );
    }
    git(
        &top,
        &[
            "-c",
            "core.fsmonitor=false",
            "config",
            "core.hooksPath",
            top.to_str().unwrap(),
        ],
    );
    Rules::read(&top, &Repositories::default()).unwrap();
    assert!(!touched.exists());
    // But git itself would run it.
    git(&top, &["status"]);
    assert!(touched.exists());
}

#[test]
fn the_nearest_rule_counts_and_a_repositorys_reach_into_its_folders() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path().canonicalize().unwrap();
    fs::create_dir_all(top.join("repository/.git/info")).unwrap();
    fs::create_dir_all(top.join("repository/a/b")).unwrap();
    fs::write(top.join(".gitignore"), "outside\n").unwrap();
    let repository = top.join("repository");
    fs::write(repository.join(".gitignore"), "*.log\n/only-here\nbuild/\n").unwrap();
    fs::write(repository.join(".git/info/exclude"), "mine\n").unwrap();
    fs::write(repository.join("a/b/.gitignore"), "!kept.log\nx/y\n").unwrap();
    let folder = repository.join("a");
    let rules = Rules::read(&folder, &Repositories::default()).unwrap();
    let ignores = |name: &str, is_folder| rules.ignores(&folder.join(name), is_folder);
    assert!(ignores("x.log", false) && ignores("kept.log", false));
    assert!(ignores("mine", false) && ignores(".git", true));
    assert!(ignores("build", true) && !ignores("build", false));
    assert!(!ignores("only-here", false) && !ignores("outside", false));
    assert!(!ignores(".gitignore", false));
    let below = folder.join("b");
    let rules = rules.within(&below).unwrap();
    assert!(rules.ignores(&below.join("x.log"), false));
    assert!(!rules.ignores(&below.join("kept.log"), false));
    let deeper = below.join("x");
    let rules = rules.within(&deeper).unwrap();
    assert!(rules.ignores(&deeper.join("y"), false));
    // Without a repository the folder's own rules are all.
    let alone = Rules::read(&top, &Repositories::default()).unwrap();
    assert!(alone.ignores(&top.join("outside"), false));
}

#[test]
fn rules_that_are_there_and_cannot_be_read_are_an_error() {
    let top = tempfile::tempdir().unwrap();
    let top = top.path().canonicalize().unwrap();
    for name in ["file", "folder", "link", "large"] {
        fs::create_dir(top.join(name)).unwrap();
    }
    // Git reads no link in a working tree.
    symlink(FILE, top.join("link").join(FILE)).unwrap();
    fs::create_dir(top.join("folder").join(FILE)).unwrap();
    fs::write(top.join("file/name"), "").unwrap();
    let large = fs::File::create(top.join("large").join(FILE)).unwrap();
    large.set_len(MOST + 1).unwrap();
    let repositories = Repositories::default();
    let rules = Rules::read(&top, &repositories).unwrap();
    for none in ["folder", "file/name", "nothing", "link"] {
        assert!(rules.within(&top.join(none)).is_ok(), "{none}");
    }
    let error = rules.within(&top.join("large")).unwrap_err().to_string();
    assert!(error.contains("large/.gitignore cannot be read"), "{error}");
    Rules::read(&top.join("large"), &repositories).unwrap_err();
}
