//! Packets where they meet other parts: memory that packets name, fences that they wait for and raise, devices that must quiesce, the
//! driver's interrupts. What a context has queued is `packet`'s; which one is next, and what nodes have in flight, is `vidsch`'s.
//!
//! | module | what |
//! |---|---|
//! | `context` | contexts: created, destroyed, stopped |
//! | `dma_buffer` | DMA buffers: made and ended |
//! | `list` | lists bound to places |
//! | `render` | Render, SubmitCommand up to the queue |
//! | `present` | Present, likewise |
//! | `flip` | Present with a flip, which has no buffer |
//! | `build` | DMA buffers as a driver writes them |
//! | `split` | lists that are residency: buffers run in portions |
//! | `need` | when a packet may start |
//! | `schedule` | from the queue to the driver |
//! | `preempt` | packets that the driver gives back |
//! | `complete` | packets that are done, and that fault |
//! | `reset` | packets that are lost when a node gives nothing back |
//! | `software` | the kernel's own actions at a point of a context |
//! | `uses` | what buffers use that are not done |
//! | `watch` | what a node has been running, for timeouts |

mod build;
mod complete;
mod context;
mod dma_buffer;
mod flip;
mod list;
mod need;
mod preempt;
mod present;
mod render;
mod reset;
mod schedule;
mod software;
mod split;
mod uses;
mod watch;
