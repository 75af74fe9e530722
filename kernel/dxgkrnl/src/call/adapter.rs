//! Calls on adapters, and what they say of themselves.

use kmt_calls::{AdapterCall, FeatureResult, ProcessAccess, Refusal, Reply};
use wddm_types::RawHandle;

use crate::adapter::Adapter;
use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::features;
use crate::number::NtHandleNumber;
use crate::object::Object;
use crate::refusal::invalid;
use crate::store::ObjectNumber;

impl Turn<'_> {
    pub(super) fn on_adapter(&mut self, cx: &mut Cx<'_>, call: AdapterCall) -> Result<Answer, Refusal> {
        match call {
            AdapterCall::EnumAdapters => {
                let named = |adapter: &Adapter| (adapter.luid(), adapter.name().to_owned());
                done(Reply::Adapters(self.adapters.iter().map(named).collect()))
            }
            // spec: sync §2.10: hAdapter is 0 for global features
            AdapterCall::IsFeatureEnabled { adapter: RawHandle::NONE, feature } => {
                let state = features::global(ddi::FeatureId(feature));
                let state =
                    state.ok_or_else(|| invalid(format!("feature {feature:#x} is an adapter's, or unknown")))?;
                done(Reply::Feature(result_of(state)))
            }
            AdapterCall::OpenAdapterFromLuid { luid } => {
                let found = self.adapters.iter().find(|adapter| adapter.luid() == luid).map(Adapter::index);
                let adapter = found.ok_or_else(|| invalid(format!("no adapter has LUID {:#x}", luid.0)))?;
                done(Reply::Handle(self.name(Object::Adapter(adapter))?))
            }
            AdapterCall::CloseAdapter { adapter } => {
                let index = self.adapter(adapter)?;
                let devices = self.adapters[index].devices_created_through(self.from, adapter);
                if devices > 0 {
                    return Err(invalid(format!(
                        "{devices} devices were created by this handle of the adapter: destroy them first"
                    )));
                }
                self.process.handles.remove(adapter);
                self.about = Some(index);
                self.adapters[index].end_stable_power(cx, |by| by == (self.from, adapter));
                done(Reply::Done)
            }
            AdapterCall::SetStablePowerState { adapter, enabled } => {
                let index = self.adapter(adapter)?;
                self.about = Some(index);
                self.adapters[index].set_stable_power(cx, (self.from, adapter), enabled)?;
                done(Reply::Done)
            }
            AdapterCall::QueryAdapterInfo { adapter } => {
                let index = self.adapter(adapter)?;
                done(Reply::AdapterInfo(self.adapters[index].info(cx)))
            }
            AdapterCall::IsFeatureEnabled { adapter, feature } => {
                let index = self.adapter(adapter)?;
                if features::global(ddi::FeatureId(feature)).is_some() {
                    return Err(invalid(format!(
                        "feature {feature:#x} is the machine's: it is asked for without an adapter"
                    )));
                }
                let state = self.adapters[index].feature_state(ddi::FeatureId(feature));
                done(Reply::Feature(result_of(state)))
            }
            AdapterCall::QueryVideoMemoryInfo { process, adapter, local } => {
                let index = self.adapter(adapter)?;
                let process = self.nt_handles.process(
                    self.from,
                    NtHandleNumber::from_raw(process),
                    ProcessAccess::QUERY_INFORMATION,
                )?;
                // spec: memory §9.3
                self.adapters[index].running()?;
                done(Reply::VideoMemoryInfo(self.adapters[index].video_memory_info(process, local)))
            }
        }
    }
}

fn result_of(state: ddi::FeatureState) -> FeatureResult {
    FeatureResult {
        version: state.version,
        enabled: state.enabled,
        known: state.known,
        supported_by_driver: state.supported_by_driver,
        supported_on_current_config: state.supported_on_current_config,
    }
}
