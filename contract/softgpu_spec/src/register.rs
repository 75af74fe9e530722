//! Registers: 64 bits each, by byte offset in the register window. Those marked *w* act when written.

/// Every register reads so when no device answers any more: it was pulled out. No register of a device that is there reads so, so that a
/// driver can tell.
pub const ABSENT: u64 = u64::MAX;

/// r: [`ID_VALUE`].
pub const ID: u32 = 0x000;
/// The value of [`ID`]: "SOFTGPU1" in ASCII.
pub const ID_VALUE: u64 = u64::from_be_bytes(*b"SOFTGPU1");
/// r: bytes of local memory.
pub const LOCAL_BYTES: u32 = 0x008;
/// r: bytes of the aperture.
pub const APERTURE_BYTES: u32 = 0x010;
/// r: nanoseconds since power-on; never decreases.
pub const TIMESTAMP: u32 = 0x018;
/// rw: byte offset in local memory of the aperture table.
pub const APERTURE_TABLE: u32 = 0x020;
/// rw: which page of the CPU's window ([`crate::bus::CPU_WINDOW_BASE`]) the next register addresses.
pub const CPU_WINDOW_PAGE: u32 = 0x030;
/// rw: the page of local memory that the selected page shows ([`crate::bus::window_entry`]); it does when the write returns. A value that
/// names no page of local memory shows nothing.
pub const CPU_WINDOW_ENTRY: u32 = 0x038;
/// r: how virtual addresses are cut into indices: [`crate::page_table::Shape::from_register`].
pub const MMU_LEVELS: u32 = 0x040;
/// r: how many bits an engine stores in one piece for SignalAlways: 64, or 32.
pub const SIGNAL_BITS: u32 = 0x048;
/// r: bits of a process's number ([`crate::page_table::process_space`]) at the IOMMU that the device stands behind; 0: it
/// stands behind none.
pub const PASID_BITS: u32 = 0x050;
/// r: unswizzling ranges ([`crate::tile`]).
pub const RANGES: u32 = 0x080;
/// rw: which unswizzling range the next registers address.
pub const RANGE_SELECT: u32 = 0x088;
/// rw: first bus address at which the CPU sees the range.
pub const RANGE_START: u32 = 0x090;
/// rw: first byte of the surface in local memory.
pub const RANGE_SURFACE: u32 = 0x098;
/// rw: bytes of the range: whole bands.
pub const RANGE_BYTES: u32 = 0x0a0;
/// rw: bytes of the surface's row; the range holds when the write returns. 0 ends it, and so does what makes no sense.
pub const RANGE_PITCH: u32 = 0x0a8;
/// rw: 1 lets the engines run; 0 stops them before their next command.
pub const ENGINE_ENABLE: u32 = 0x028;
/// rw: a bit for each engine: 1 takes its clock away: it stops before its next command and looks at no doorbell until it has it back.
pub const ENGINE_GATE: u32 = 0x0b0;
/// rw: nanoseconds after which an engine says that it has nothing to do: none of its queues is awake, none waits. It says so once, with
/// [`record::IDLE`], until it has had something to do again. 0: never.
pub const ENGINE_IDLE_NS: u32 = 0x0b8;

/// r: doorbells with a page of their own ([`crate::doorbell`]).
pub const DOORBELLS: u32 = 0x0c0;

/// w: a bit for each engine that is to begin anew. When the write returns they execute nothing, a command under way is left where it is,
/// and every queue of theirs that is READY or PARKED is forgotten, as by DISABLE; its read pointer stays what it was. Queues that were set
/// aside or stopped are on no engine, and lose nothing. No later command waits for transfers that these engines had issued.
pub const ENGINE_RESET: u32 = 0x0c8;
/// r: a bit for each engine of those that only begin anew together, whichever of them is told to; 0: each does by itself.
pub const RESET_GROUP: u32 = 0x0d0;

/// rw: which queue the queue registers address.
pub const QUEUE_SELECT: u32 = 0x100;
/// rw: engine number.
pub const QUEUE_ENGINE: u32 = 0x108;
/// rw: bus address of the root page table, with its length ([`crate::page_table::root`]); or a process
/// ([`crate::page_table::process_space`]).
pub const QUEUE_ROOT: u32 = 0x110;
/// rw: virtual address of the ring.
pub const QUEUE_RING: u32 = 0x118;
/// rw: bytes of the ring, a power of two from 4096.
pub const QUEUE_RING_BYTES: u32 = 0x120;
/// rw: [`queue_flags`].
pub const QUEUE_FLAGS: u32 = 0x128;
/// w: [`queue_control`]. r: [`queue_state`].
pub const QUEUE_CONTROL: u32 = 0x130;
/// r: bytes of the ring consumed so far; rises as the write pointer does.
pub const QUEUE_READ_POINTER: u32 = 0x138;
/// r: words executed of the nested buffer whose branch stands at the read pointer, 0 for none; holds while the queue is
/// PREEMPTED, SUSPENDED or FAULTED.
pub const QUEUE_NESTED_WORDS: u32 = 0x140;

/// rw: [`queue_rank`]: how the queue ranks beside others of its engine. Like the three registers behind it taken over by ENABLE and
/// RANK. All of them 0: the queue takes turns with others like it, command by command.
pub const QUEUE_RANK: u32 = 0x148;
/// rw: nanoseconds for which the queue keeps the engine while another one of its group and priority waits.
pub const QUEUE_QUANTUM: u32 = 0x150;
/// rw: nanoseconds that it waits before another one of its group and priority is interrupted for it.
pub const QUEUE_GRACE_SAME: u32 = 0x158;
/// rw: nanoseconds that it waits before one of its group and lower priority is.
pub const QUEUE_GRACE_LOWER: u32 = 0x160;
/// rw: number of the doorbell that the queue listens to ([`crate::doorbell`]); its own when it is enabled. When the write returns, what
/// was rung at the one that it leaves counts for it, and it goes on from there at the other: nothing that was rung is lost, and nothing
/// that is rung at the old one concerns it any more. Nothing on a queue that is not enabled, for another queue's own, a page that the
/// device has not, or one that another queue listens to.
pub const QUEUE_DOORBELL: u32 = 0x168;
/// rw: the owner's name in the scheduling log; queues with the same name are one owner's. Taken over by ENABLE. 0: the log says nothing
/// of the queue.
pub const QUEUE_OWNER: u32 = 0x170;
/// r: nanoseconds that engines have spent in commands of queues with this number, since power-on: enabling begins no new count. In
/// virtual time every command takes time, and the one that is under way counts as far as it has come; in real time only those count that
/// move or compute bytes, as in [`counter::ENGINE_BUSY_NS`], and as far as they are done.
pub const QUEUE_BUSY_NS: u32 = 0x178;

/// rw: which band the next registers address: 0 to 3, from the lowest.
pub const BAND_SELECT: u32 = 0x180;
/// rw: nanoseconds that a queue of the band waits before one of a lower band is interrupted for it.
pub const BAND_GRACE: u32 = 0x188;
/// rw: nanoseconds for which a group of the band keeps an engine while another group of it waits.
pub const BAND_QUANTUM: u32 = 0x190;
/// rw: nanoseconds that a group of the band waits before another one of it is interrupted for it.
pub const BAND_GROUP_GRACE: u32 = 0x198;
/// rw: hundredths of an engine's time that band 1 keeps when band 2 wants all of it, 0 to 50.
pub const NORMAL_PERCENT: u32 = 0x1a0;

/// Fields of [`QUEUE_RANK`]. A queue that ranks below keeps a share: an engine follows [the rule](../../engine_time/index.html) that
/// packets do, and changes from queue to queue between two commands; before the grace period is over, only where a queue has no nested
/// buffer begun.
pub mod queue_rank {
    /// The band: 0 idle, 1 normal, 2 focus, 3 realtime.
    pub const BAND: u64 = 0x3;
    /// The level within band 3, 0 to 31: shift.
    pub const LEVEL_SHIFT: u32 = 8;
    /// The priority within the group, 0 to 14: shift.
    pub const PRIORITY_SHIFT: u32 = 16;
    /// How much the group gets beside others of its band, as against theirs, 1 to 255; 0 is as much as [`WEIGHT_ORDINARY`]: shift. The
    /// same for all queues of a group.
    pub const WEIGHT_SHIFT: u32 = 24;
    /// The weight of a group whose queues state 0.
    pub const WEIGHT_ORDINARY: u8 = 2;
    /// The group that shares as one, a process: shift.
    pub const GROUP_SHIFT: u32 = 32;

    /// All of them in one word.
    pub const fn encode(band: u64, level: u8, priority: u8, group: u32) -> u64 {
        band & BAND
            | ((level & 31) as u64) << LEVEL_SHIFT
            | ((priority & 15) as u64) << PRIORITY_SHIFT
            | (group as u64) << GROUP_SHIFT
    }

    /// The same of a group with this weight.
    pub const fn weighted(rank: u64, weight: u8) -> u64 {
        rank & !(0xff << WEIGHT_SHIFT) | (weight as u64) << WEIGHT_SHIFT
    }
}

/// Bits of [`QUEUE_FLAGS`].
pub mod queue_flags {
    /// Privileged commands are allowed.
    pub const PRIVILEGED: u64 = 1 << 0;
    /// QUEUE_RING is a bus address, not a virtual one.
    pub const RING_PHYSICAL: u64 = 1 << 1;
    /// Every address in the queue's commands is a bus address: there is no page table. Needs PRIVILEGED.
    pub const UNTRANSLATED: u64 = 1 << 2;

    /// Whether a queue may have these flags together.
    pub const fn sound(flags: u64) -> bool {
        flags & UNTRANSLATED == 0 || flags & PRIVILEGED != 0
    }
}

/// Values written to [`QUEUE_CONTROL`].
pub mod queue_control {
    /// Take the registers over; the queue runs from read pointer 0.
    pub const ENABLE: u64 = 1;
    /// Forget the queue. When the write returns no engine executes for it any more.
    pub const DISABLE: u64 = 2;
    /// Stop executing for the queue and keep its place in the ring. When the write returns no engine executes for it; a
    /// [`super::record::SUSPENDED`] says so too. A command under way is finished first; a wait is left and found again.
    pub const SUSPEND: u64 = 3;
    /// Go on with a suspended queue where it was, under the root that QUEUE_ROOT names now. Nothing on any other.
    pub const RESUME: u64 = 4;
    /// Stop executing for the queue between two commands, in a nested buffer too: a command under way is finished first and
    /// takes the time that it takes, a wait that is not over is left at once. The write returns before that;
    /// [`super::record::PREEMPTED`] says when it has happened, and where. Then the queue is the driver's until it is enabled
    /// again. Nothing on a queue that is not READY or PARKED.
    pub const PREEMPT: u64 = 5;
    /// A barrier: whatever the engine has stored for the queue is where the processor reads it when the write returns, the
    /// entries of logs too, between which and their header there is none. The queue goes on as it was.
    pub const COMMIT: u64 = 6;
    /// Take QUEUE_RANK and the registers behind it over for a queue that is enabled, from its engine's next command on.
    pub const RANK: u64 = 7;
}

/// Values read from [`QUEUE_CONTROL`].
pub mod queue_state {
    /// Not enabled.
    pub const DISABLED: u64 = 0;
    /// Enabled: running, or nothing to do.
    pub const READY: u64 = 1;
    /// Waits for a value, parked by the CMP.
    pub const PARKED: u64 = 2;
    /// Stopped by a fault.
    pub const FAULTED: u64 = 3;
    /// Set aside by SUSPEND.
    pub const SUSPENDED: u64 = 4;
    /// Stopped by PREEMPT.
    pub const PREEMPTED: u64 = 5;
}

/// w: arguments of the next CMP command.
pub const CMP_ARGUMENT_0: u32 = 0x200;
/// w: second argument.
pub const CMP_ARGUMENT_1: u32 = 0x208;
/// w: third argument.
pub const CMP_ARGUMENT_2: u32 = 0x210;
/// w: a [`cmp`] command; it has been carried out when the write returns.
pub const CMP_COMMAND: u32 = 0x218;

/// rw: bus address of the root page table of the CMP's own space, with its length; or a process.
pub const CMP_ROOT: u32 = 0x220;
/// r: [`cmp_result`] of the last CMP command.
pub const CMP_RESULT: u32 = 0x228;

/// w: the device's own number among its peers: its lane in their inboxes.
pub const PEER_SELF: u32 = 0x230;
/// w: bus address of the device's own inbox, a page of system memory ([`shared_words::peer`]); [`ABSENT`]: none.
pub const PEER_INBOX: u32 = 0x238;
/// w: selects a peer by its number.
pub const PEER_SELECT: u32 = 0x240;
/// w: bus address of the selected peer's inbox; [`ABSENT`]: none.
pub const PEER_ADDRESS: u32 = 0x248;

/// rw: number of the engine whose scheduling log the next registers address.
pub const SCHEDULING_LOG_ENGINE: u32 = 0x250;
/// w: address of the log ([`shared_words::scheduling_log`]) in the CMP's own space, on a boundary of 32 bytes.
pub const SCHEDULING_LOG_ADDRESS: u32 = 0x258;
/// w: how many entries it has.
pub const SCHEDULING_LOG_ENTRIES: u32 = 0x260;
/// w: the index of an entry: whenever that is written [`record::SCHEDULING_LOG`] is raised. One that the log has not: never.
pub const SCHEDULING_LOG_INTERRUPT: u32 = 0x268;
/// w: 1 takes the three registers over, 0 has the engine write no log. When the write returns nothing more is written to the log that the
/// engine had before. A log that is new to the engine begins with the owner that has it and those that want it. r: 1 while it writes one;
/// one whose pages have no translation, are read-only, or that has no entries, is not taken.
pub const SCHEDULING_LOG_CONTROL: u32 = 0x270;

/// Values read from [`CMP_RESULT`].
pub mod cmp_result {
    /// Carried out.
    pub const DONE: u64 = 0;
    /// An address had no translation; nothing was done.
    pub const FAULT: u64 = 1;
}

/// Commands of the context management processor.
pub mod cmp {
    /// Arguments: address of a CurrentValue, address of its MonitoredValue (both virtual in the CMP's own space,
    /// [`super::CMP_ROOT`]), the new monitored value. Stores the monitored value, puts a full barrier against the
    /// engines, reads the current value, and raises a fence interrupt if it is greater. Without a translation it does
    /// nothing and reads back [`super::cmp_result::FAULT`].
    pub const PUBLISH_MONITORED: u64 = 1;
    /// Argument: address (in the CMP's own space) of a CurrentValue that was written by no engine of this device; 0: any may have been.
    /// Unparks the queues that its value satisfies.
    pub const RESCAN: u64 = 2;
    /// Arguments: root, its length or none (all ones: every space), first and last virtual address (0, 0: whole space). Forgets
    /// translations in every engine.
    pub const FLUSH_TLB: u64 = 3;
    /// Argument: address (in the CMP's own space) of a CurrentValue that counts as reached for good. Stores the largest value;
    /// from then on a signal of the word changes nothing and raises nothing, and no wait for it parks. Reads back
    /// [`super::cmp_result::FAULT`] without a translation.
    pub const SEAL: u64 = 4;
    /// Argument: address (in the CMP's own space) of a word that was sealed, 0: all. It is a word like any other again.
    pub const UNSEAL: u64 = 5;
    /// Arguments: address (in the CMP's own space) of a CurrentValue, a number of the fence, a bit for each peer. From then on a signal
    /// of the word is written into the inboxes of these peers, which are rung; and queues that are parked on the word are looked at
    /// when a peer writes the number. No bit: it is a word like any other again. Reads back [`super::cmp_result::FAULT`] without a
    /// translation.
    pub const SHARE: u64 = 6;
}

/// r: takes the oldest interrupt record: its [`record`] kind, or 0 if there is none. The fields are then in
/// [`RECORD_0`]... When the last record is taken the pin is released.
pub const INTERRUPT_POP: u32 = 0x300;
/// r: first field of the record taken.
pub const RECORD_0: u32 = 0x308;
/// r: second field.
pub const RECORD_1: u32 = 0x310;
/// r: third field.
pub const RECORD_2: u32 = 0x318;

/// Records that the device can hold; when more come they are folded into one [`record::OVERFLOW`].
pub const RECORD_COUNT: usize = 1024;

/// Kinds of interrupt record.
pub mod record {
    /// No record.
    pub const NONE: u64 = 0;
    /// A signal exceeded the monitored value: the engine found so behind its barrier, and the CMP, which it asked, when it looked
    /// again. Fields: queue, virtual address of CurrentValue in that queue's space, value.
    pub const FENCE: u64 = 1;
    /// PUBLISH_MONITORED found the value passed. Fields: virtual address of CurrentValue in the CMP's space,
    /// value.
    pub const MONITORED: u64 = 2;
    /// A queue faulted. Fields: queue, virtual address, cause ([`super::fault`]) in the low byte, page-table level above it.
    pub const FAULT: u64 = 3;
    /// Records were lost.
    pub const OVERFLOW: u64 = 4;
    /// No engine executes for a queue any more, as SUSPEND asked. Field: queue.
    pub const SUSPENDED: u64 = 5;
    /// A Complete command was executed. Fields: queue, value.
    pub const COMPLETED: u64 = 6;
    /// A SignalAlways command was executed. Fields: queue, virtual address, value.
    pub const SIGNALED: u64 = 8;
    /// No engine executes for a queue any more, as PREEMPT asked. Fields: queue, [`super::QUEUE_READ_POINTER`],
    /// [`super::QUEUE_NESTED_WORDS`].
    pub const PREEMPTED: u64 = 7;
    /// The vertical blank of a display has begun ([`crate::display`]). Fields: display in the low byte and the number of the blank
    /// above it, the address that is shown from now on, the id of its flip.
    pub const VSYNC: u64 = 9;
    /// An immediate flip of a display is carried out. Fields: display in the low byte and the number of the last blank above it, the
    /// address, the id of the flip.
    pub const FLIPPED: u64 = 10;
    /// An alarm of a display. Fields: display in the low byte and the number of the blank that comes above it, the alarm.
    pub const ALARM: u64 = 11;
    /// An engine had nothing to do for [`super::ENGINE_IDLE_NS`]. Field: engine.
    pub const IDLE: u64 = 12;
    /// An engine has written the entry of its scheduling log that [`super::SCHEDULING_LOG_INTERRUPT`] names. Field: engine.
    pub const SCHEDULING_LOG: u64 = 15;
}

/// Causes of a fault.
pub mod fault {
    /// No valid entry.
    pub const NOT_PRESENT: u64 = 1;
    /// A write to a read-only entry.
    pub const READ_ONLY: u64 = 2;
    /// An undecodable command.
    pub const BAD_COMMAND: u64 = 3;
    /// A privileged command in a queue without the flag.
    pub const PRIVILEGE: u64 = 4;
    /// A bus address or table outside of memory.
    pub const BAD_ADDRESS: u64 = 5;
}

/// r: performance counters, one each, since power-on.
pub mod counter {
    /// Signal commands executed.
    pub const SIGNALS: u32 = 0x400;
    /// Fence interrupts raised by signals.
    pub const INTERRUPTS_RAISED: u32 = 0x408;
    /// Signals whose value did not exceed the monitored value.
    pub const INTERRUPTS_SUPPRESSED: u32 = 0x410;
    /// Wait commands executed.
    pub const WAITS: u32 = 0x418;
    /// Wait commands that found their value missing.
    pub const WAITS_UNSATISFIED: u32 = 0x420;
    /// Waits that the CMP parked.
    pub const WAITS_PARKED: u32 = 0x428;
    /// Bytes moved by physical copies.
    pub const COPY_BYTES: u32 = 0x430;
    /// Interrupts raised by PUBLISH_MONITORED.
    pub const PUBLISH_RAISED: u32 = 0x438;
    /// Page-table entries written, and words of StoreRun and CopyRun.
    pub const ENTRIES_WRITTEN: u32 = 0x440;
    /// Doorbells of peers that signals have rung.
    pub const PEERS_RUNG: u32 = 0x448;
    /// Nanoseconds that an engine spent in commands, by engine number × 8; without those of commands that a reset or a suspension cut
    /// short.
    pub const ENGINE_BUSY_NS: u32 = 0x480;
    /// Nanoseconds that an engine's queues spent waiting with nothing else to run, by engine number × 8.
    pub const ENGINE_WAIT_NS: u32 = 0x4a0;
}
