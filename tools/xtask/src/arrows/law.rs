//! The law of the storeys as a function of two folders. It reads nothing.

/// The rooms from the ground up. Rooms of one storey stand side by side.
const STOREYS: [&[&str]; 6] =
    [&["contract"], &["kernel", "hardware", "client"], &["kmd", "umd"], &["host", "workload"], &["verify"], &["tools"]];

/// Pairs that the storeys would allow: the first must not see the second, not even through a third.
pub const NEVER_SEES: [(&str, &str); 1] = [("kmd/softgpu_kmd", "hardware/softgpu")];

/// The one crate outside verify that may depend on verify.
const VERIFY_READER: &str = "tools/openwddm";

/// The storey of a crate's folder (`room/crate`), counted from 0; none for a folder outside the house.
pub fn storey(folder: &str) -> Option<usize> {
    let (room, _) = folder.split_once('/')?;
    STOREYS.iter().position(|rooms| rooms.contains(&room))
}

/// Whether the crate in the folder `from` may depend on the one in `to`; the reason if not.
pub fn judge(from: &str, to: &str) -> Result<(), String> {
    let (Some(from_storey), Some(to_storey)) = (storey(from), storey(to)) else {
        return Err("an end of the arrow lies in no room of the house".to_string());
    };
    let (from_room, to_room) = (room(from), room(to));
    if NEVER_SEES.contains(&(from, to)) {
        return Err(format!("{from} must not see {to}"));
    }
    if from_room == to_room {
        return Ok(());
    }
    if to_room == "verify" && from != VERIFY_READER {
        return Err(format!("only {VERIFY_READER} depends on verify"));
    }
    match from_storey.cmp(&to_storey) {
        std::cmp::Ordering::Greater => Ok(()),
        std::cmp::Ordering::Equal => Err(format!("{from_room} and {to_room} know nothing of each other")),
        std::cmp::Ordering::Less => Err(format!("the arrow points upwards, from {from_room} to {to_room}")),
    }
}

fn room(folder: &str) -> &str {
    folder.split('/').next().unwrap_or(folder)
}
