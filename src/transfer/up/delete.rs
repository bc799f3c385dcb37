//! Entries that a synchronized folder has in the container, and not here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use super::super::part::is_part;
use super::super::paths::joined;
use super::super::place::path as named;
use super::super::rules::Rules;
use super::super::state::Stop;
use super::Up;
use crate::host::sftp::{Entry, Kind};

/// Whether something was deleted, once that is known.
type Deleting<'a> = Pin<Box<dyn Future<Output = Result<bool, Stop>> + Send + 'a>>;

impl Up {
    /// Deletes the entries `there` that block one `listed` here, such as a file where a folder is
    /// to be; with `--delete` also those that are only `there`. Returns those that are there still.
    pub(super) async fn clear_away(
        &self,
        from: &Path,
        to: &[u8],
        listed: &[Entry],
        there: Vec<Entry>,
        rules: &Rules,
    ) -> Result<Vec<Entry>, Stop> {
        let deletes = self.sync.is_some_and(|sync| sync.deletes);
        let sources: HashMap<&[u8], Kind> = listed
            .iter()
            .map(|it| (&*it.name, it.attributes.kind()))
            .collect();
        let mut left = Vec::new();
        for entry in there {
            let is_folder = entry.attributes.kind() == Kind::Folder;
            let is_gone = match sources.get(&*entry.name) {
                Some(kind) if (*kind == Kind::Folder) == is_folder => false,
                // A file in a folder's way is replaced as by any other file.
                Some(_) if matches!(entry.attributes.kind(), Kind::File | Kind::Link) => {
                    let path = joined(to, &entry.name);
                    match self.servers.one().remove(&path).await {
                        Ok(()) => true,
                        Err(error) => {
                            self.state.failed(&path, error)?;
                            false
                        }
                    }
                }
                _ if deletes => {
                    let here = from.join(named(&entry.name));
                    let path = joined(to, &entry.name);
                    self.delete(here, path, &entry, rules).await?
                }
                _ => false,
            };
            if !is_gone {
                left.push(entry);
            }
        }
        Ok(left)
    }

    /// Deletes what is at `path`, where that is not ignored at its place `here`; whether it is gone.
    fn delete<'a>(
        &'a self,
        here: PathBuf,
        path: Vec<u8>,
        entry: &'a Entry,
        rules: &'a Rules,
    ) -> Deleting<'a> {
        Box::pin(async move {
            let is_folder = entry.attributes.kind() == Kind::Folder;
            if is_part(&entry.name) || rules.ignores(&here, is_folder) {
                return Ok(false);
            }
            let sftp = self.servers.one();
            let deleted = if is_folder {
                let below = match self.servers.list(&path).await {
                    Ok(below) => below,
                    Err(error) => return self.state.failed(&path, error).map(|()| false),
                };
                let rules = match rules.within(&here) {
                    Ok(rules) => rules,
                    Err(error) => {
                        self.state.problem(&path, &error);
                        return Ok(false);
                    }
                };
                let mut is_empty = true;
                for entry in &below {
                    let here = here.join(named(&entry.name));
                    let path = joined(&path, &entry.name);
                    is_empty &= self.delete(here, path, entry, &rules).await?;
                }
                if !is_empty {
                    return Ok(false);
                }
                sftp.remove_folder(&path).await
            } else {
                sftp.remove(&path).await
            };
            match deleted {
                Ok(()) => {
                    self.state.progress.delete();
                    Ok(true)
                }
                Err(error) => self.state.failed(&path, error).map(|()| false),
            }
        })
    }
}
