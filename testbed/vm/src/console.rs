use std::fmt;

/// What is kept of a console: far more than a boot writes, and a bound for a guest that never stops.
const KEPT: usize = 4 << 20;
const TAIL_LINES: usize = 60;
const PANIC: &str = "Kernel panic - not syncing: ";
const FAULTS: [&str; 4] = ["Oops: ", "BUG: ", "general protection fault", "kernel BUG at "];

/// What the guest's kernel, its first process and QEMU wrote.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConsoleLog(String);

/// How a guest came to its end, as far as its console tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Panic(String),
    Oops(String),
    Unknown,
}

impl ConsoleLog {
    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The last lines of it.
    #[must_use]
    pub fn tail(&self) -> Self {
        let lines: Vec<&str> = self.0.lines().collect();
        let skipped = lines.len().saturating_sub(TAIL_LINES);
        Self(lines.into_iter().skip(skipped).map(|line| format!("{line}\n")).collect())
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.0.extend(String::from_utf8_lossy(bytes).chars().filter(|c| *c == '\n' || !c.is_control()));
        if self.0.len() > KEPT {
            let half = (KEPT / 2..).find(|at| self.0.is_char_boundary(*at)).unwrap_or(0);
            self.0.drain(..half);
        }
    }

    /// A fault that a panic followed (`oops=panic` makes it so) is an oops, not a panic.
    pub(crate) fn cause(&self) -> Cause {
        let fault = self.0.lines().find_map(|line| FAULTS.iter().find_map(|mark| from(line, mark)));
        let panic = self.0.lines().find_map(|line| from(line, PANIC));
        match (fault, panic) {
            (Some(fault), Some(_)) => Cause::Oops(fault),
            (None, Some(panic)) => Cause::Panic(panic.trim_start_matches(PANIC).to_owned()),
            (_, None) => Cause::Unknown,
        }
    }
}

fn from(line: &str, mark: &str) -> Option<String> {
    line.find(mark).and_then(|at| line.get(at..)).map(|rest| rest.trim_end().to_owned())
}

impl fmt::Display for ConsoleLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As lines, not as one escaped string: this is what a failing test prints.
impl fmt::Debug for ConsoleLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> ConsoleLog {
        let mut log = ConsoleLog::default();
        log.append(text.as_bytes());
        log
    }

    #[test]
    fn a_panic_is_told_by_the_kernels_own_words() {
        let log = log("[  5.1] Kernel panic - not syncing: sysrq triggered crash\r\n[  5.2] CPU: 0\r\n");
        assert_eq!(log.cause(), Cause::Panic("sysrq triggered crash".into()));
    }

    #[test]
    fn a_fault_before_the_panic_is_an_oops() {
        let text = "BUG: kernel NULL pointer dereference, address: 0\nOops: 0002 [#1]\n\
                    Kernel panic - not syncing: Fatal exception\n";
        assert_eq!(log(text).cause(), Cause::Oops("BUG: kernel NULL pointer dereference, address: 0".into()));
    }

    #[test]
    fn an_ordinary_log_has_no_cause() {
        assert_eq!(log("vm: the agent ended with status 0\n").cause(), Cause::Unknown);
    }

    #[test]
    fn a_log_without_end_keeps_its_end() {
        let mut log = ConsoleLog::default();
        for n in 0..KEPT / 10 {
            log.append(format!("line é {n}\n").as_bytes());
        }
        assert!(log.text().len() <= KEPT);
        assert!(log.text().ends_with(&format!("line é {}\n", KEPT / 10 - 1)));
    }

    #[test]
    fn the_tail_is_made_of_whole_lines() {
        let text: String = (0..1000).map(|n| format!("{n}\n")).collect();
        let tail = log(&text).tail();
        assert_eq!(tail.text().lines().count(), TAIL_LINES);
        assert!(tail.text().starts_with("940\n"));
    }
}
