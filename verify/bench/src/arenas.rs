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
//! Client and daemon are in one program in all but `held`; each daemon has a kernel of its own.

mod churn;
pub(crate) mod held;
mod live;
mod video;

use std::sync::Arc;

use kmt_calls::{AllocationCall, AllocationRequest, Call, ResourceRequest};
use kmt_link::Link;
use softgpu_spec::private_data::{self, Kind};
use softgpu_umd::Gpu;

use crate::part_process::Program;
use crate::report::{BenchError, Row};

/// Bytes of an allocation where nothing else is said.
const BYTES: u64 = 64 << 10;

/// All rows.
pub(crate) fn rows(program: Option<Program<'_>>, batches: usize, smoke: bool) -> Result<Vec<Row>, BenchError> {
    let mut rows = vec![churn::row(batches, smoke)?];
    rows.extend(live::rows(batches, smoke)?);
    rows.extend(match program {
        Some(program) => held::rows(program, smoke)?,
        None => vec![Row::absent("kernel memory of an allocation", "needs a program that plays its kernels")],
    });
    rows.extend(video::rows(batches, smoke)?);
    Ok(rows)
}

/// What the client tells the driver of an allocation in system memory that the CPU may lock.
fn request() -> Vec<u8> {
    let (kind, size_bytes) = (Kind::System, BYTES);
    private_data::AllocationRequest { kind, cpu_visible: true, cached: false, accessed_physically: false, size_bytes }
        .encode()
        .to_vec()
}

/// Makes an allocation that lives as long as its process, and of which the client keeps nothing.
fn create_for_good(link: &Arc<dyn Link>, gpu: &Gpu) -> Result<(), BenchError> {
    let call = Call::Allocation(AllocationCall::CreateAllocation {
        device: gpu.device().handle(),
        allocations: vec![AllocationRequest { private_data: request(), ..AllocationRequest::default() }],
        resource: ResourceRequest::default(),
    });
    link.call(call)?;
    Ok(())
}
