//! Contexts of engines with hardware queues (sync §2.5): they begin, and end with their queues.

use std::collections::BTreeSet;

use ddi::{CreateHwContext, KmdContext, OsContext};
use kmt_calls::Refusal;
use wddm_types::{NodeId, ProcessId};

use crate::adapter::Adapter;
use crate::driver::Creating;
use crate::effect::Cx;
use crate::number::{ContextNumber, DeviceNumber, UpdateContext};
use crate::queue::Context;
use crate::refusal::{from_driver, invalid, not_supported};
use crate::scheduling::{AnyContext, Leaving};
use crate::store::ObjectNumber;

impl Adapter {
    /// `D3DKMTCreateHwContext`.
    pub fn create_context(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        node: NodeId,
        private_data: &[u8],
    ) -> Result<ContextNumber, Refusal> {
        if !self.driver.has_node(node) {
            return Err(invalid(format!("node {} of {}", node.0, self.driver.nodes().len())));
        }
        if !self.driver.facets().hardware_queues {
            return Err(not_supported("the adapter has no hardware queues: its contexts take packets"));
        }
        let number = self.queues.next_context();
        let (kmd_device, process) = (self.owners.kmd_of(device), self.owners.process_of(device));
        let create =
            CreateHwContext { device: kmd_device, context: OsContext(number.raw()), node, system: false, private_data };
        let (mut asked, driver) = self.context_host(self.owners.vidmm_of(device), self.owners.process_of(device));
        let (driver, mut host) = driver.creating(cx, Creating::Context(&mut asked));
        let hardware = driver.hardware_queues().expect("checked at adapter start");
        let created = hardware.create_hw_context(&mut host, create);
        let (made, works) = (asked.made, asked.works);
        // The kernel carries out decided work in any case: a refusal takes it back behind it.
        self.queue_works(cx, self.owners.process_of(device), works);
        let kmd = match created {
            Ok(kmd) => kmd,
            Err(status) => {
                self.destroy_context_allocations(cx, self.owners.process_of(device), made);
                return Err(from_driver(status));
            }
        };
        self.tell_root(cx, kmd, process);
        let allocations = self.keep_context_allocations(device, made);
        let context = Context { device, kmd, node, queues: BTreeSet::new(), allocations };
        assert_eq!(self.queues.add_context(context), number);
        self.enter_ranks(AnyContext::Hardware(number), process);
        self.keep_off_group(cx, device, node);
        self.rank_newcomer(cx, number);
        self.suspend_newcomer(cx, number);
        Ok(number)
    }

    /// Tells the driver where the page tables of a new context begin. The IoMmu model has none: there the driver knows
    /// the process's number.
    // spec: memory §4.1, memory §4.6
    pub(in crate::adapter) fn tell_root(&mut self, cx: &Cx<'_>, context: KmdContext, process: ProcessId) {
        let (root, entries) = self.vidmm.root_table(self.owners.space_of(process));
        if let Some(addressing) = self.driver.call(cx).gpu_va() {
            addressing.set_root_page_table(context, root, entries);
        }
    }

    /// `D3DKMTDestroyHwContext` with its queues.
    pub fn destroy_context(&mut self, cx: &mut Cx<'_>, number: ContextNumber) {
        let queues: Vec<_> = self.queues[number].queues.iter().copied().collect();
        for queue in queues {
            self.destroy_queue(cx, queue);
        }
        self.drop_updates(cx, UpdateContext::Hardware(number));
        let context = self.queues.remove_context(number);
        self.vidsch.ranks.leave(AnyContext::Hardware(number));
        self.driver.call(cx).hardware_queues().expect("checked at adapter start").destroy_hw_context(context.kmd);
        self.destroy_context_allocations(cx, self.owners.process_of(context.device), context.allocations);
        self.forget_suspension(cx, Leaving::Hardware(number));
    }
}
