//! Which signal asks a container to end.

use cri::{ContainerConfig, Signal};
use types::Refusal;

const TERM: i32 = 15;
/// As Linux and its C libraries number them: the first two are the library's own.
const RT_MIN: i32 = 34;
const RT_MAX: i32 = 64;

/// Numbers of Linux on every machine that this runs on.
const NAMES: [(&str, i32); 35] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("IOT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", TERM),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CLD", 17),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("POLL", 29),
    ("PWR", 30),
    ("SYS", 31),
    ("RTMIN", RT_MIN),
];

/// The signal's number: the container's, else the image's, else SIGTERM.
///
/// # Errors
/// If there is no such signal.
pub fn stop_signal(config: &ContainerConfig, image: Option<&str>) -> Result<i32, Refusal> {
    let Ok(asked) = Signal::try_from(config.stop_signal) else {
        return Err(Refusal::new("stop_signal", format!("{} is no signal", config.stop_signal)));
    };
    let (field, name) = match (asked, image) {
        (Signal::RuntimeDefault, None | Some("")) => return Ok(TERM),
        (Signal::RuntimeDefault, Some(name)) => ("image", name.to_owned()),
        (named, _) => ("stop_signal", words(named.as_str_name())),
    };
    number(&name).ok_or_else(|| Refusal::new(field, format!("{name:?} is no signal that ends anything")))
}

/// `SIGNAL_SIGRTMINPLUS3` as `SIGRTMIN+3`.
fn words(name: &str) -> String {
    name.trim_start_matches("SIGNAL_").replace("PLUS", "+").replace("MINUS", "-")
}

fn number(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return (1..=RT_MAX).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let offset = |base: i32, text: &str| text.parse::<u8>().ok().map(|offset| base + i32::from(offset));
    let found = match (bare.strip_prefix("RTMIN+"), bare.strip_prefix("RTMAX-"), bare) {
        (Some(more), _, _) => offset(RT_MIN, more),
        (_, Some(less), _) => less.parse::<u8>().ok().map(|less| RT_MAX - i32::from(less)),
        (_, _, "RTMAX") => Some(RT_MAX),
        _ => NAMES.iter().find(|(name, _)| *name == bare).map(|(_, number)| *number),
    };
    let real_time = bare.starts_with("RT");
    found.filter(|number| !real_time || (RT_MIN..=RT_MAX).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(of: Signal, image: Option<&str>) -> Result<i32, String> {
        let config = ContainerConfig { stop_signal: of.into(), ..Default::default() };
        stop_signal(&config, image).map_err(|refusal| refusal.field)
    }

    #[test]
    fn the_containers_counts_before_the_images_before_sigterm() {
        assert_eq!(signal(Signal::RuntimeDefault, None), Ok(15));
        assert_eq!(signal(Signal::RuntimeDefault, Some("")), Ok(15));
        assert_eq!(signal(Signal::RuntimeDefault, Some("SIGINT")), Ok(2));
        assert_eq!(signal(Signal::Sigusr1, Some("SIGINT")), Ok(10));
    }

    #[test]
    fn images_write_signals_in_every_way() {
        for (text, number) in
            [("SIGQUIT", 3), ("quit", 3), ("9", 9), ("RTMIN+3", 37), ("SIGRTMAX-1", 63), ("SIGRTMAX", 64)]
        {
            assert_eq!(signal(Signal::RuntimeDefault, Some(text)), Ok(number), "{text}");
        }
        for text in ["SIGNOPE", "0", "65", "-1", "RTMIN+31", "RTMAX-31", "RTMIN-1", "1e1"] {
            assert_eq!(signal(Signal::RuntimeDefault, Some(text)), Err("image".to_owned()), "{text}");
        }
    }

    #[test]
    fn every_signal_of_the_contract_has_a_number() {
        for value in 1..=65 {
            let signal = Signal::try_from(value).unwrap();
            let config = ContainerConfig { stop_signal: value, ..Default::default() };
            let number = stop_signal(&config, None).unwrap();
            assert!((1..=64).contains(&number), "{signal:?} is {number}");
        }
        assert_eq!(signal(Signal::Sigrtminplus15, None), Ok(49));
        assert_eq!(signal(Signal::Sigrtmaxminus14, None), Ok(50));
        let config = ContainerConfig { stop_signal: 99, ..Default::default() };
        assert_eq!(stop_signal(&config, None).unwrap_err().field, "stop_signal");
    }
}
