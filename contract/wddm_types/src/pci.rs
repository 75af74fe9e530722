//! What a PCI bus says of a device: a host has it from the bus, or makes it up; the kernel hands it on, and checks nothing of it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A device's function on a PCI bus, as its configuration space names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciFunction {
    /// The maker; 0xffff says that there is no device.
    pub vendor: u16,
    /// The maker's number of the device.
    pub device: u16,
    /// The maker of the board.
    pub subsystem_vendor: u16,
    /// That maker's number of the board.
    pub subsystem: u16,
    /// The revision of the device.
    pub revision: u8,
    /// The kind of the bus: `DXGKMDT_OPM_BUS_TYPE` without its flags, 1 for PCI.
    pub bus_type: u32,
    /// Its place.
    pub address: PciAddress,
}

/// A place on a PCI bus, written as `01:00.0`: bus and device in two hexadecimal digits, function in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PciAddress {
    bus: u8,
    device: u8,
    function: u8,
}

impl PciAddress {
    /// Devices of a bus.
    pub const DEVICES: u8 = 32;
    /// Functions of a device.
    pub const FUNCTIONS: u8 = 8;

    /// The place; none with a device or a function that no bus has.
    pub const fn new(bus: u8, device: u8, function: u8) -> Option<PciAddress> {
        if device < PciAddress::DEVICES && function < PciAddress::FUNCTIONS {
            Some(PciAddress { bus, device, function })
        } else {
            None
        }
    }

    /// The bus.
    pub const fn bus(self) -> u8 {
        self.bus
    }

    /// The device on it.
    pub const fn device(self) -> u8 {
        self.device
    }

    /// The function of it.
    pub const fn function(self) -> u8 {
        self.function
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}.{:x}", self.bus, self.device, self.function)
    }
}

/// The text is no place on a PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPciAddress;

impl FromStr for PciAddress {
    type Err = NoPciAddress;

    fn from_str(text: &str) -> Result<PciAddress, NoPciAddress> {
        let (bus, rest) = text.split_once(':').ok_or(NoPciAddress)?;
        let (device, function) = rest.split_once('.').ok_or(NoPciAddress)?;
        let number = |digits: &str, count| {
            let plain = digits.len() == count && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            plain.then(|| u8::from_str_radix(digits, 16).ok()).flatten().ok_or(NoPciAddress)
        };
        PciAddress::new(number(bus, 2)?, number(device, 2)?, number(function, 1)?).ok_or(NoPciAddress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_and_what_no_bus_has_is_none() {
        for text in ["00:00.0", "01:00.0", "ff:1f.7"] {
            assert_eq!(text.parse::<PciAddress>().map(|place| place.to_string()).as_deref(), Ok(text));
        }
        let place = "a1:0b.3".parse::<PciAddress>().expect("a place");
        assert_eq!((place.bus(), place.device(), place.function()), (0xa1, 0x0b, 3));
        for text in ["", "01:00", "1:00.0", "01:20.0", "01:00.8", "01:00.0 ", "0000:01:00.0", "01:+1.0", "100:00.0"] {
            assert_eq!(text.parse::<PciAddress>(), Err(NoPciAddress), "{text}");
        }
    }
}
