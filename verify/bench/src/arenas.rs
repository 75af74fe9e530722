//! Allocations of a client whose memory lies in arenas (decision 0043), against the same of a client in the kernel's program. Called by the
//! suite.
//!
//! | module | measures |
//! |---|---|
//! | `churn` | an allocation's life: create, lock, write, unlock, destroy |
//! | `live` | a creation beside very many live allocations, against one beside few |
//! | `held` | bytes of memory that the kernel holds for each allocation, and a daemon beyond that |
//! | `video` | a lock of much video memory, against the copies that it consists of |
//!
//! Client and daemon are in one program in all but `churn` and `held`; each daemon has a kernel of its own.

pub(crate) mod churn;
pub(crate) mod held;
mod live;
mod video;

use std::sync::Arc;

use kmt_calls::{AllocationCall, AllocationRequest, Call, ResourceRequest};
use kmt_link::Link;
use softgpu_spec::private_data::{self, Kind};
use softgpu_umd::Gpu;
use wddm_types::PAGE_BYTES;

use crate::part_process::Program;
use crate::report::{BenchError, Row};

/// All rows.
pub(crate) fn rows(program: Option<Program<'_>>, batches: usize, smoke: bool) -> Result<Vec<Row>, BenchError> {
    let mut rows = vec![match program {
        Some(program) => churn::row(program, batches, smoke)?,
        None => Row::absent("an allocation's life over a socket", "needs a program that plays its daemon"),
    }];
    rows.extend(live::rows(batches, smoke)?);
    rows.extend(match program {
        Some(program) => held::rows(program, smoke)?,
        None => vec![Row::absent("kernel memory of an allocation", "needs a program that plays its kernels")],
    });
    rows.extend(video::rows(batches, smoke)?);
    Ok(rows)
}

/// What the client tells the driver of an allocation of so many bytes in system memory that the CPU may lock.
fn request(size_bytes: u64) -> Vec<u8> {
    let kind = Kind::System;
    private_data::AllocationRequest { kind, cpu_visible: true, cached: false, accessed_physically: false, size_bytes }
        .encode()
        .to_vec()
}

/// As many allocations of a page as are wanted, or as a quarter of the memory that the machine can give has room for: the pages of what is lent may
/// all be there.
fn affordable(wanted: usize) -> Result<usize, BenchError> {
    let machine = std::fs::read_to_string("/proc/meminfo")?;
    let line = machine.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    let kib = kib.ok_or_else(|| BenchError::Device("meminfo has no MemAvailable".into()))?;
    // CAST: pages of this machine's memory.
    Ok(wanted.min(((kib << 10) / 4 / PAGE_BYTES) as usize))
}

/// Makes an allocation of a page that lives as long as its process, and of which the client keeps nothing.
fn create_for_good(link: &Arc<dyn Link>, gpu: &Gpu) -> Result<(), BenchError> {
    let call = Call::Allocation(AllocationCall::CreateAllocation {
        device: gpu.device().handle(),
        allocations: vec![AllocationRequest { private_data: request(PAGE_BYTES), ..AllocationRequest::default() }],
        resource: ResourceRequest::default(),
    });
    link.call(call)?;
    Ok(())
}
