//! GPU virtual addresses as calls see them: allocations and address spaces together. `mapping`, `reserve` and `update` change what addresses
//! show, `space_life` begins and ends spaces, `table_room` decides whose page tables leave, `table_form` which form they begin with, `scratch`
//! what the paging process shows, `io_mmu` and `physical` adapters that translate otherwise or not at all.

pub(super) mod io_mmu;
pub(super) mod mapping;
pub(super) mod physical;
pub(super) mod reserve;
pub(super) mod scratch;
pub(super) mod space_life;
pub(super) mod table_form;
pub(super) mod table_room;
pub(super) mod update;
