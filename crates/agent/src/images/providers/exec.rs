//! One run of a credential provider's program: the request on its standard input, the answer on its standard output.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use types::CredentialProvider;

use super::protocol::{Answer, Question, answer};

/// How long a program may run, as by a kubelet.
const PATIENCE: Duration = Duration::from_secs(60);
/// No answer is nearly as large.
const LARGEST: u64 = 1 << 20;
/// How much of what the program says about an error is shown.
const SHOWN: usize = 1024;

/// Asks a provider.
///
/// # Errors
/// What went wrong, without anything that the program printed as its answer.
pub(super) async fn ask(provider: &CredentialProvider, question: &Question) -> Result<Answer, String> {
    ask_within(PATIENCE, provider, question).await
}

async fn ask_within(
    patience: Duration,
    provider: &CredentialProvider,
    question: &Question,
) -> Result<Answer, String> {
    let request = serde_json::to_vec(&question.request(&provider.api_version))
        .map_err(|_| "its request cannot be written".to_owned())?;
    let mut command = Command::new(&provider.program);
    command.args(&provider.args).envs(provider.env.iter().map(|one| (&one.name, &one.value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // With a group of its own, what it has started is ended with it.
    command.process_group(0).kill_on_drop(true);
    let program = provider.program.display();
    let mut child = command.spawn().map_err(|cause| format!("{program} cannot be started: {cause}"))?;
    let group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(format!("{program} cannot be started: it has no pipes"));
    };
    let run = async {
        let write = async {
            // A program need not read its request.
            let _ = stdin.write_all(&request).await;
            drop(stdin);
        };
        let ((), printed, said) = tokio::join!(write, limited(stdout), limited(stderr));
        (child.wait().await, printed, said)
    };
    let ran = tokio::time::timeout(patience, run).await;
    drop(group);
    let Ok((status, printed, said)) = ran else {
        return Err(format!("{program} did not end within {} s and was killed", patience.as_secs()));
    };
    let status = status.map_err(|cause| format!("{program} cannot be awaited: {cause}"))?;
    if !status.success() {
        return Err(failed(&program.to_string(), status, &said));
    }
    match u64::try_from(printed.len()) {
        Ok(length) if length <= LARGEST => answer(&printed, &provider.api_version),
        _ => Err(format!("its answer has more than {LARGEST} bytes")),
    }
}

fn failed(program: &str, status: ExitStatus, said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let said: String = said.trim().chars().take(SHOWN).collect();
    let said = if said.is_empty() { said } else { format!(": {said}") };
    format!("{program} failed ({status}){said}")
}

/// What a pipe has, and at most one byte more than is allowed.
async fn limited(pipe: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut all = Vec::new();
    let mut pipe = pipe.take(LARGEST + 1);
    // What was read so far is judged.
    let _ = pipe.read_to_end(&mut all).await;
    // A program that goes on to write must not wait for a reader.
    let _ = tokio::io::copy(&mut pipe.into_inner(), &mut tokio::io::sink()).await;
    all
}

/// A process group that is killed when this is dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // None is left, as a rule.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use types::EnvironmentVariable;

    use super::*;

    const V1: &str = "credentialprovider.kubelet.k8s.io/v1";

    /// A provider whose program is a script.
    fn provider(dir: &tempfile::TempDir, script: &str) -> CredentialProvider {
        let program = dir.path().join("provider");
        let text = format!("#!/bin/sh\n{script}\n");
        // Written and closed by another process: a descriptor that a concurrent test inherits would keep it busy.
        let written = std::process::Command::new("/bin/sh")
            .args(["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", &text])
            .arg(&program)
            .status();
        assert!(written.unwrap().success());
        assert_eq!(std::fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
        CredentialProvider {
            name: "provider".into(),
            program,
            api_version: V1.into(),
            match_images: Vec::new(),
            default_cache_duration: Duration::ZERO,
            args: vec!["--region=x".into()],
            env: vec![EnvironmentVariable { name: "WHERE".into(), value: "here".into() }],
            token: None,
        }
    }

    fn question() -> Question {
        Question { image: "quay.io/a".into(), ..Question::default() }
    }

    #[tokio::test]
    async fn a_program_gets_the_request_its_arguments_and_its_variables() {
        let dir = tempfile::tempdir().unwrap();
        let script = format!(
            r#"image=$(sed 's/.*"image":"\([^"]*\)".*/\1/')
printf '{{"kind":"CredentialProviderResponse","apiVersion":"{V1}","cacheKeyType":"Image","auth":{{"%s":{{"username":"%s","password":"%s"}}}}}}' "$image" "$1" "$WHERE""#
        );
        let answer = ask(&provider(&dir, &script), &question()).await.unwrap();
        let (image, auth) = &answer.auths[0];
        assert_eq!(
            (image.as_str(), auth.username.as_str(), auth.password.as_str()),
            ("quay.io/a", "--region=x", "here")
        );
    }

    #[tokio::test]
    async fn a_program_that_fails_or_does_not_end_is_named_with_what_it_says() {
        let dir = tempfile::tempdir().unwrap();
        let ask = async |script: &str| {
            let provider = provider(&dir, script);
            ask_within(Duration::from_secs(2), &provider, &question()).await.unwrap_err()
        };
        let error = ask("echo secret; echo no region >&2; exit 3").await;
        assert!(error.ends_with("failed (exit status: 3): no region"), "{error}");
        // Its child keeps the pipes open.
        let pids = dir.path().join("pids");
        let error = ask(&format!("sleep 1000 & echo $! > {}; wait", pids.display())).await;
        assert!(error.ends_with("did not end within 2 s and was killed"), "{error}");
        let pid: i32 = std::fs::read_to_string(&pids).unwrap().trim().parse().unwrap();
        let is_gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        let begun = std::time::Instant::now();
        while !is_gone() && begun.elapsed() < Duration::from_secs(10) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(is_gone(), "the child of the program still runs");
        let error = ask("head -c 2000000 /dev/zero").await;
        assert_eq!(error, "its answer has more than 1048576 bytes");
        let mut absent = provider(&dir, "");
        absent.program = dir.path().join("absent");
        let error = super::ask(&absent, &question()).await.unwrap_err();
        assert!(error.contains("cannot be started"), "{error}");
    }
}
