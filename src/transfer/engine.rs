//! The engine of every copy: finds what there is to copy, folder by folder, and has a [`Side`] read
//! and write it.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use anyhow::anyhow;

use super::jobs::{Batch, Jobs, Limits, run_all};
use super::part::PartError;
use super::paths::{joined, name_of};
use super::state::{State, Stop, Work, lock};
use crate::host::sftp::{Attributes, Entry, Kind};

/// An entry to copy. Paths are bytes, those of this computer too.
pub(super) struct Item {
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
    pub(super) entry: Entry,
}

/// A piece of work. `R`: the rules by which a side leaves files out.
pub(super) enum Job<R> {
    /// A folder, copied recursively. `Some`: the rules of the folder above.
    Folder(Item, Option<R>),
    /// The content of a folder that was there and was named: the folder gets none of the source's
    /// permissions and time.
    Content(Item),
    /// Small files and links, and files of which only the permissions differ.
    Batch(Vec<Item>),
    Large(Item),
}

/// The destination that was named.
pub(super) struct Destination {
    /// The path for people.
    pub(super) named: Vec<u8>,
    pub(super) path: Vec<u8>,
    /// The entry that the path leads to.
    pub(super) there: Option<Entry>,
}

/// A folder that is there on both sides.
pub(super) struct Opened<R> {
    /// The entries at the destination.
    pub(super) there: Vec<Entry>,
    /// The entries to copy, and the folder's rules; none if they cannot be read, which is recorded as
    /// a problem.
    pub(super) source: Option<(Vec<Entry>, Option<R>)>,
}

/// A direction: how it reads its sources, and writes at its destination.
pub(super) trait Side: Send + Sync + Sized + 'static {
    /// The rules by which files are left out.
    type Rules: Clone + Send + Sync;

    /// The destination in words.
    const DESTINATION: &'static str;

    /// The state of the copy.
    fn state(&self) -> &State;

    /// Looks at the destination.
    fn destination(&self, to: &[u8]) -> impl Future<Output = Result<Destination, Stop>> + Send;

    /// The path that is written for a destination that is no folder.
    fn written(&self, to: Vec<u8>) -> impl Future<Output = Result<Vec<u8>, Stop>> + Send {
        async { Ok(to) }
    }

    /// The path of a source that was named, and the entry that it leads to; none if there is none,
    /// which is recorded as a problem.
    fn source(
        &self,
        named: &[u8],
    ) -> impl Future<Output = Result<Option<(Vec<u8>, Entry)>, Stop>> + Send;

    /// The name of a source's copy in a folder, by what was named.
    fn name(named: &[u8]) -> Option<&[u8]> {
        name_of(named)
    }

    /// Reads the entry at the destination `to`.
    fn look(&self, to: &[u8]) -> impl Future<Output = Result<Option<Entry>, Stop>> + Send;

    /// Makes a folder at the destination, and lists both; none if it cannot be made, which is recorded
    /// as a problem. `above`: the rules of the folder above.
    fn open(
        &self,
        folder: &Item,
        above: Option<Self::Rules>,
    ) -> impl Future<Output = Result<Option<Opened<Self::Rules>>, Stop>> + Send;

    /// Copies small files and links, and sets the permissions of files that are there. Returns those
    /// that are no longer small.
    fn batch(&self, items: Vec<Item>) -> impl Future<Output = Result<Vec<Item>, Stop>> + Send;

    /// Copies a large file. Returns how many bytes it has.
    fn large(&self, item: &Item) -> impl Future<Output = Result<u64, PartError>> + Send;

    /// Sets the permissions and times of folders, in this order.
    fn set_folders(
        &self,
        folders: Vec<(Vec<u8>, Attributes)>,
    ) -> impl Future<Output = Result<(), Stop>> + Send;
}

/// A copy under way, and the state that all its jobs share.
pub(super) struct Engine<S> {
    side: S,
    limits: Limits,
    /// The folders, which get their permissions and times at the end.
    folders: Mutex<Vec<(Vec<u8>, Attributes)>>,
}

/// Copies the `sources` to what `to` names.
pub(super) async fn copy(side: impl Side, sources: &[Vec<u8>], to: &[u8]) -> Result<(), Stop> {
    let engine = Engine::new(side);
    let first = engine.first(sources, to).await?;
    engine.run(first).await
}

impl<S: Side> Engine<S> {
    pub(super) fn new(side: S) -> Self {
        Self {
            side,
            limits: Limits::default(),
            folders: Mutex::default(),
        }
    }

    /// Does the `first` jobs, and those that they find.
    pub(super) async fn run(self, first: Vec<Job<S::Rules>>) -> Result<(), Stop> {
        let engine = Arc::new(self);
        let running = Arc::clone(&engine);
        run_all(first, move |job, jobs| Arc::clone(&running).work(job, jobs)).await?;
        let mut folders = std::mem::take(&mut *lock(&engine.folders));
        // The deepest first: a folder without permissions leads to none below it.
        folders.sort_by_key(|(path, _)| Reverse(path.len()));
        engine.side.set_folders(folders).await
    }

    /// The jobs for what was named.
    async fn first(&self, sources: &[Vec<u8>], to: &[u8]) -> Result<Vec<Job<S::Rules>>, Stop> {
        let state = self.side.state();
        let Destination { named, path, there } = self.side.destination(to).await?;
        let is_there = there.as_ref().map(|it| it.attributes.kind());
        let is_folder = state.was_folder(is_there == Some(Kind::Folder));
        // Neither it nor a link to it is replaced.
        let other = there.filter(|_| is_there == Some(Kind::Other));
        if !is_folder && (sources.len() > 1 || named.ends_with(b"/")) {
            let named = String::from_utf8_lossy(&named);
            let why = anyhow!("{named} is no folder {}", S::DESTINATION);
            return Err(Stop::Refused(why));
        }
        let to = if is_folder {
            path
        } else {
            self.side.written(path).await?
        };
        let mut jobs = Vec::new();
        let mut batch = Batch::new();
        let mut taken = HashSet::new();
        for named in sources {
            let Some((from, entry)) = self.side.source(named).await? else {
                continue;
            };
            let (to, is_named) = match S::name(named) {
                Some(name) if is_folder => (joined(&to, name), false),
                _ => (to.clone(), is_folder),
            };
            if !taken.insert(to.clone()) {
                state.problem(named, "another one has its name");
                continue;
            }
            let there = self.side.look(&to).await?;
            let there = other.clone().or(there);
            let item = Item { from, to, entry };
            let job = self.choose(item, there.as_ref(), None, &mut batch);
            jobs.extend(match job {
                Some(Job::Folder(item, _)) if is_named => Some(Job::Content(item)),
                job => job,
            });
        }
        jobs.extend(batch.rest().map(Job::Batch));
        Ok(jobs)
    }

    /// Does one job.
    async fn work(
        self: Arc<Self>,
        job: Job<S::Rules>,
        jobs: Jobs<Job<S::Rules>>,
    ) -> Result<(), Stop> {
        let limit = match &job {
            Job::Folder(..) | Job::Content(_) => &self.limits.folders,
            Job::Batch(_) => &self.limits.batches,
            Job::Large(_) => &self.limits.large,
        };
        let Ok(_permit) = limit.acquire().await else {
            return Ok(());
        };
        match job {
            Job::Folder(item, above) => self.folder(item, above, false, &jobs).await,
            Job::Content(item) => self.folder(item, None, true, &jobs).await,
            Job::Batch(items) => {
                for item in self.side.batch(items).await? {
                    // Fails only where the copy has ended.
                    let _ = jobs.send(Job::Large(item));
                }
                Ok(())
            }
            Job::Large(item) => {
                let copied = self.side.large(&item).await;
                self.side.state().large_ended(&item.from, item.to, copied)
            }
        }
    }

    /// The job for an item of which this is `there` already; none if there is nothing to do, or it
    /// goes with the `batch`.
    fn choose(
        &self,
        item: Item,
        there: Option<&Entry>,
        rules: Option<&S::Rules>,
        batch: &mut Batch<Item>,
    ) -> Option<Job<S::Rules>> {
        let to = (&*item.to, S::DESTINATION);
        match self.side.state().work((&item.from, &item.entry), to, there) {
            Work::Folder => Some(Job::Folder(item, rules.cloned())),
            Work::Nothing => None,
            Work::Small => {
                let bytes = item.entry.attributes.size;
                batch.add(item, bytes).map(Job::Batch)
            }
            Work::Large => Some(Job::Large(item)),
        }
    }

    /// Makes a folder and finds what is in it. One that `keeps` its permissions and time gets none at
    /// the end.
    async fn folder(
        &self,
        folder: Item,
        above: Option<S::Rules>,
        keeps: bool,
        jobs: &Jobs<Job<S::Rules>>,
    ) -> Result<(), Stop> {
        let Some(Opened { there, source }) = self.side.open(&folder, above).await? else {
            return Ok(());
        };
        let Item { from, to, entry } = folder;
        if !keeps {
            lock(&self.folders).push((to.clone(), entry.attributes));
        }
        let Some((listed, rules)) = source else {
            return Ok(());
        };
        let there: HashMap<&[u8], &Entry> = there.iter().map(|it| (&*it.name, it)).collect();
        // Fails only where the copy has ended.
        let queue = |job| drop(jobs.send(job));
        let mut batch = Batch::new();
        for entry in listed {
            let there = there.get(&*entry.name).copied();
            let item = Item {
                from: joined(&from, &entry.name),
                to: joined(&to, &entry.name),
                entry,
            };
            let job = self.choose(item, there, rules.as_ref(), &mut batch);
            job.into_iter().for_each(queue);
        }
        batch.rest().map(Job::Batch).into_iter().for_each(queue);
        Ok(())
    }
}
