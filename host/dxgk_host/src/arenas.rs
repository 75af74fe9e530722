//! The arenas of processes elsewhere: the few files in which all pages lie that only one process is lent (`shared_words`, `arena`). They are
//! made with their first use and go with their process. This module hands out nothing, and decides nothing but whose a file is.
//!
//! # The law of this boundary
//! An arena is of one process for ever, and no number of a process is used twice. Each caller that tells a process of a file asks
//! [`Arenas::may_have`] or [`ProcessArenas::may_have`] first: a wrong answer would show a process all memory of another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shared_words::{ClientAccess, LentFile, Memory, MemoryError};
use wddm_types::ProcessId;

use crate::remote_process::RemoteProcess;

/// Those of all processes elsewhere.
#[derive(Default)]
pub(crate) struct Arenas {
    known: Mutex<BTreeMap<ProcessId, Arc<ProcessArenas>>>,
}

/// Those of one.
pub(crate) struct ProcessArenas {
    speaks: Arc<dyn RemoteProcess>,
    system: Arc<Memory>,
    files: Mutex<Files>,
}

/// One process's files; none before its first use.
#[derive(Default)]
struct Files {
    system: Option<Arc<LentFile>>,
    /// Of system memory that it may only read.
    to_read: Option<Arc<LentFile>>,
    /// Of each device's memory that it has had locked.
    local: Vec<(Arc<Memory>, Arc<LentFile>)>,
}

impl Arenas {
    fn known(&self) -> MutexGuard<'_, BTreeMap<ProcessId, Arc<ProcessArenas>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process comes that is not in this program.
    pub fn process_comes(&self, process: ProcessId, speaks: Arc<dyn RemoteProcess>, system: &Arc<Memory>) {
        let arenas = ProcessArenas { speaks, system: Arc::clone(system), files: Mutex::default() };
        self.known().insert(process, Arc::new(arenas));
    }

    /// A process is about to go. The kernel cannot know whether its program lives on, as after a lost connection: what the program maps
    /// stays as it is.
    pub fn process_leaves(&self, process: ProcessId) {
        let Some(arenas) = self.of(process) else { return };
        let files = arenas.files();
        let local = files.local.iter().map(|(_, file)| file);
        files.system.iter().chain(&files.to_read).chain(local).for_each(|file| file.leave());
    }

    /// A process has gone. Pages that the kernel still has of it keep their file.
    pub fn process_gone(&self, process: ProcessId) {
        self.known().remove(&process);
    }

    /// Those of a process that is elsewhere.
    pub fn of(&self, process: ProcessId) -> Option<Arc<ProcessArenas>> {
        self.known().get(&process).map(Arc::clone)
    }

    /// Whether a process may have a file.
    pub fn may_have(&self, process: ProcessId, file: &Arc<LentFile>) -> bool {
        !file.is_arena() || self.of(process).is_some_and(|arenas| arenas.may_have(file))
    }

    /// Memory has taken all pages of an arena back: the speakers of processes for which that is so are told.
    pub fn tell_lost(&self) {
        for arenas in self.known().values().filter(|arenas| arenas.are_lost()) {
            arenas.speaks.lost(
                "its memory lies in more pieces than the operating system gives the kernel mappings for (vm.max_map_count)",
            );
        }
    }
}

impl ProcessArenas {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The arena of system memory for this access.
    ///
    /// # Errors
    /// When the operating system gives no descriptor.
    pub fn system(&self, access: ClientAccess) -> Result<Arc<LentFile>, MemoryError> {
        let mut files = self.files();
        let (kept, make): (_, fn(&Memory) -> _) = match access {
            ClientAccess::ReadWrite => (&mut files.system, LentFile::arena),
            ClientAccess::Read => (&mut files.to_read, LentFile::arena_to_read),
        };
        match kept {
            Some(file) => Ok(Arc::clone(file)),
            None => Ok(Arc::clone(kept.insert(make(&self.system)?))),
        }
    }

    /// The arena of a device's memory.
    ///
    /// # Errors
    /// When the operating system gives no descriptor.
    pub fn local(&self, memory: &Arc<Memory>) -> Result<Arc<LentFile>, MemoryError> {
        let mut files = self.files();
        if let Some((_, file)) = files.local.iter().find(|(of, _)| Arc::ptr_eq(of, memory)) {
            return Ok(Arc::clone(file));
        }
        let file = LentFile::arena_of_content(memory)?;
        files.local.push((Arc::clone(memory), Arc::clone(&file)));
        Ok(file)
    }

    /// Whether the process may have a file: it is no arena, or one of its own.
    pub fn may_have(&self, file: &Arc<LentFile>) -> bool {
        let files = self.files();
        let system = files.system.iter().chain(&files.to_read);
        let mut own = system.chain(files.local.iter().map(|(_, file)| file));
        !file.is_arena() || own.any(|known| Arc::ptr_eq(known, file))
    }

    fn are_lost(&self) -> bool {
        let files = self.files();
        files.system.iter().chain(&files.to_read).any(|file| file.is_lost())
    }
}

#[cfg(test)]
pub(crate) mod tests;
