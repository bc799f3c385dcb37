//! xdrive: a portable drive that moves between AWS instances.
//!
//! # The flow
//!
//! ```text
//! main ─ cli ─ commands ─┬─ connect   one session: ready ▸ container ▸ shell or command ▸ save
//!                        ├─ run       a command whose host is kept for it
//!                        ├─ attach    back to such a command; logs, ps: what it prints, what runs
//!                        ├─ ports     what listens in a container; containers: which there are
//!                        ├─ stop      the same session's end, from anywhere; freeze: with what runs
//!                        ├─ cp, cat   files of a drive, from its host or its snapshot; ls too
//!                        ├─ sync      a folder to a drive that is up; code: VS Code there
//!                        ├─ proxy     one connection of an SSH client's, as ssh-config has it
//!                        ├─ list      what exists, from tags alone
//!                        ├─ log, note what is recorded of its generations; diff: which files differ
//!                        ├─ delete    a drive, or one of its saves; rename: another name for it
//!                        ├─ resize    a larger or faster drive, in the middle of its use
//!                        ├─ fork, copy a new drive that begins as another one was; adopt: as what is none
//!                        ├─ cost      what drives have cost, by day and kind
//!                        ├─ prices    what instances cost, as spot now and on demand
//!                        ├─ gc        every unused drive: saved and pruned, or listed
//!                        ├─ share     file systems outside of every drive
//!                        ├─ workers   throwaway copies of a drive, in one network with it
//!                        ├─ tend      runs whose instance was lost: their next try, or their end
//!                        ├─ doctor    checks what a session needs
//!                        ├─ policy    the IAM policy that xdrive needs
//!                        ├─ selftest  checks what only the account can prove, by sessions of its own
//!                        └─ local     the EC2 in a folder, for other tools
//!
//! session   connect, run, attach         ─┐
//! saves     log, note, fork, delete, …   ─┼─ attached   a host that is up: monitor, reconnector
//! visit     ps, cp, ls, ports, stop, …   ─┘      │
//!                                               opener  a drive that a command has opened
//!                                                │
//!          ┌─────────────────────────────────────┘
//!          ├─ launch               what to launch: terms, offers, the image
//!          ├─ transfer             copies of files
//!          ├─ asleep               the files in a snapshot
//!          ├─ access               ingress rules, login, lease; drive's hosts over SSH
//!          └─ drive ─┬─ reconcile  sweep ▸ plan (pure) ▸ act ▸ sweep …
//!                    ├─ ec2        the calls: the only user of the SDK
//!                    └─ (Hosts)    access, or paper in tests
//! ```
//!
//! A session runs one loop twice: towards *ready* (find or launch an instance, make or attach the
//! volume, mount it), and towards *saved* (close the host, snapshot, terminate, delete). Between
//! the two it renews the host's lease and receives the host's announcements. A second laptop joins
//! instead of getting ready, and the last to leave saves. Crash recovery, a second laptop, changes
//! in the console, and the happy path are the same code, because every turn of the loop begins with
//! a sweep of what exists.
//!
//! # The promises
//!
//! | # | promise | where it is kept | shown by |
//! | --- | --- | --- | --- |
//! | P1 | a volume is deleted only if it was never attached and its source is still there, or a completed snapshot of it carries its generation and was looked into, or it was made empty and never used, or it was made to be thrown away and the snapshot that it was made from is still there | [`drive::proof`] | `model::races`, `model::copies`, `session::killed::a_save_that_was_killed_is_finished_by_the_next_run_wherever_that_was`, `host::closing::a_close_goes_on_when_its_caller_is_gone_and_is_taken_up_when_it_was_killed` |
//! | P2 | an instance is terminated only when the drive is unmounted there, or never was there but a volume that is thrown away, or frozen and powering off, or silent and its lease long past, or its user says that it hangs while EC2's own check of it has failed for five minutes (`stop --hung`) | [`drive::proof`], `shell/host/close` | `model::abandoned`, `session::hung`, `host::closing::a_load_that_never_ends_does_not_stop_a_close` |
//! | P3 | a drive never forks: one live instance that has not closed it, one line of generations | [`drive::plan`] | `model::races`, `session::two_laptops::two_first_connects_at_once_make_one_instance_and_one_volume` |
//! | P4 | whatever is still billed is tagged, printed, and finished by the next run | [`drive::tags`], [`drive::stuck`] | `model::races`, `loops::recovery`, `session::killed::a_launch_that_was_killed_leaves_nothing_behind_after_a_stop` |
//! | P5 | `mkfs` runs only on a volume made empty, still tagged so, that reads as blank | [`drive::plan`], `shell/host/drive` | `host::volumes::a_blank_volume_becomes_a_drive_and_stays_one`, `session::adopted::no_empty_drive_begins_where_an_old_one_has_its_name` |
//! | P6 | no host is talked to whose key is not the recorded one | [`ssh::connection`] | `ssh::command::another_host_key_than_the_recorded_one_is_refused`, `ssh::proxy::a_host_with_another_key_is_not_talked_to_through_a_command_either`, `host::keys` |
//! | P7 | an abandoned instance closes its drive and switches itself off | `shell/host/watch`, `shell/host/presence`, and `shell/host/boot` for one that no client ever claimed | `model::abandoned`, `host::lease`, `host::boot::a_machine_without_a_login_switches_itself_off`, `session::left_running::a_drive_that_no_client_comes_back_to_is_closed_and_its_instance_switched_off` |
//! | P8 | the terminal is restored on every way out | [`terminal`] | `ssh::terminal::a_panic_gives_the_terminal_back_before_it_speaks`, `ssh::terminal::a_host_that_dies_gives_the_terminal_back`, `session::terminal::a_signal_from_outside_saves_and_gives_the_terminal_back` |
//! | P9 | what a host, a tag, an image or a disk says never becomes a path, a command, a name of a file, a login or a control character on this computer, and is bounded before it is kept | [`report`], [`drive::tags`], `transfer`, `host::sftp`, `asleep::ext4` | `session::tagged`, `transfer::tests::unharmed::whatever_a_server_says_nothing_changes_but_what_was_named`, `report::text::tests::no_character_of_anybodys_is_obeyed_by_a_terminal`, `asleep::ext4::tests::mutated`, `cli::complete::bash::tests::a_candidate_is_one_word_that_does_nothing` |
//! | P10 | a run's try is begun once; a command that was frozen goes on once | `shell/host/tries.py`, `session::tries`, `shell/host/frozen.py` | `model::tended`, `session::tend::each_try_of_a_run_begins_once_wherever_it_is_tended`, `host::freezing`, `session::frozen` |
//!
//! What shows a promise is a test, or a file of tests, of `tests/suite` or of a room, among those that
//! `shell/test.sh` runs (`--all` adds the modules called `wide`); `tests/suite/house/promises.rs` holds
//! that it is there.
//!
//! # The rooms
//!
//! Imports run one way: cli → commands → {session, saves, visit} → attached → opener → {access, asleep,
//! launch, transfer} → drive → {ec2, host}, and host → ssh. No verb's room knows another. Of [`host`] the
//! drive knows orders and answers, and no call.
//! `tests/suite/house.rs` has the rooms that each may know, and guards it.
//!
//! `src/ground` (`clock`, `ids`, `quote`, `retry`, `signals` and `terminal`), `src/ssh` and `src/local` are
//! crates of their own, compiled while the SDK is.
//!
//! | module | what it owns |
//! | --- | --- |
//! | [`cli`] | the command line; help, topics, man pages and completions come from it |
//! | [`commands`] | a command a file: its arguments, and its function |
//! | [`config`] | the paths of the user's files; options: flags over configuration |
//! | [`cloud`] | the EC2 of a command, with its waiting times and defaults |
//! | [`session`] | one session, top to bottom: ready, stay, leave |
//! | `saves` | verbs on snapshots and tags alone: no host is asked, and no key read |
//! | [`visit`] | verbs on a drive that is up, and on its files wherever they are |
//! | `attached` | a host that is up, for a session or visit: monitor, reconnector, what runs there |
//! | `opener` | a drive as every verb finds it: parts, owner, questions, the loop's progress and outcome |
//! | `access` | ingress rules, login, lease, and the drive's hosts over SSH |
//! | `launch` | what a launch asks: terms, offers as text, the image, shares, ways between workers, failures; bills and ledgers |
//! | `transfer` | copies of files between this computer and a container |
//! | `asleep` | the files of a drive in its snapshot, read without an instance |
//! | [`drive`] | tags, what was observed, the pure plan, pools and offers, proofs, the loop |
//! | [`ec2`] | EC2's resources in our types, errors in our kinds: the only user of the SDK |
//! | [`host`] | the contract with `shell/host/`: the inputs and outputs of its scripts |
//! | [`ssh`] | connections, shells, forwards, keys: the only user of russh |
//! | [`terminal`], [`signals`] | raw mode, left on every way out; signals as values |
//! | [`report`], [`failure`] | progress and data, printed; errors with hint and exit code |
//! | [`ids`] | ids, names and generations, parsed once |
//! | [`clock`], [`quote`] | time as an argument; quoting for a shell |
//! | `retry` | the retry of a call while its answer is not final |
//! | [`local`] | the EC2 in a folder: API, store, a plane of paper or of namespaces and disks, and setup |
//! | `fuzzing` | the readers of foreign input as a fuzzer calls them; in its build alone |

pub(crate) mod access;
pub(crate) mod asleep;
pub(crate) mod attached;
pub mod cli;
pub mod cloud;
pub mod commands;
pub mod config;
pub mod drive;
pub mod ec2;
pub mod failure;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod host;
pub(crate) mod launch;
pub(crate) mod opener;
pub mod report;
pub(crate) mod saves;
pub mod session;
pub(crate) mod transfer;
pub mod visit;

pub use xdrive_ground::{clock, ids, quote, signals, terminal};

#[cfg(all(feature = "local", target_os = "linux"))]
pub use xdrive_local as local;
pub use xdrive_ssh as ssh;

pub(crate) use xdrive_ground::retry;
