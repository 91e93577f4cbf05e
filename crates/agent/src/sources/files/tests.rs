use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::*;

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: a, image: i}}]}}\n"
    )
}

fn names(set: &FileSet) -> Vec<&str> {
    set.objects.iter().map(Object::name).collect()
}

/// A source on a directory with the pod `one`, its first set taken.
async fn started() -> (TempDir, FileSource) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("one.yaml"), pod("one")).unwrap();
    let mut source = FileSource::new(&[dir.path().to_owned()], &Reading::default());
    assert_eq!(names(&source.next().await.unwrap()), ["one"]);
    (dir, source)
}

/// The next set, which must come long before the periodic scan.
async fn soon(source: &mut FileSource) -> FileSet {
    tokio::time::timeout(RESCAN / 4, source.next()).await.expect("no change was noticed").unwrap()
}

/// Waits for a set of these names: a slow machine may see an intermediate state.
async fn until(source: &mut FileSource, expected: &[&str]) -> FileSet {
    loop {
        let set = soon(source).await;
        if names(&set) == expected {
            return set;
        }
    }
}

/// On a busy machine more than the time in which a file settles lies between the scan, which found nothing to read yet, and the
/// end of its reading. The set was delivered as complete and empty, and an agent that restarted ended its static pods.
#[tokio::test]
async fn no_first_set_lacks_a_file_that_was_never_tried() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("one.yaml"), pod("one")).unwrap();
    let mut source = FileSource::static_pods(dir.path(), RESCAN);
    source.scan();
    assert!(source.due().is_empty());
    tokio::time::sleep(SETTLED * 2).await;
    assert!(source.accept(Vec::new()).is_none());
    assert_eq!(names(&source.next().await.unwrap()), ["one"]);
}

async fn nothing_comes(source: &mut FileSource) {
    let next = tokio::time::timeout(Duration::from_millis(500), source.next()).await;
    assert!(next.is_err(), "a set came: {next:?}");
}

#[tokio::test]
async fn files_that_come_change_and_go_are_noticed() {
    let (dir, mut source) = started().await;
    fs::write(dir.path().join("two.yaml"), pod("two")).unwrap();
    until(&mut source, &["one", "two"]).await;
    let next = dir.path().join("next");
    fs::write(&next, pod("three")).unwrap();
    fs::rename(next, dir.path().join("two.yaml")).unwrap();
    until(&mut source, &["one", "three"]).await;
    fs::remove_file(dir.path().join("one.yaml")).unwrap();
    until(&mut source, &["three"]).await;
    nothing_comes(&mut source).await;
}

#[tokio::test]
async fn a_call_that_is_dropped_loses_no_change() {
    let (dir, mut source) = started().await;
    fs::write(dir.path().join("two.yaml"), pod("two")).unwrap();
    for _ in 0..20 {
        if let Ok(set) = tokio::time::timeout(Duration::from_millis(5), source.next()).await {
            return assert_eq!(names(&set.unwrap()), ["one", "two"]);
        }
    }
    until(&mut source, &["one", "two"]).await;
}

/// A manifest whose first half is a valid pod, too: it must not be read before its second half is
/// written.
#[tokio::test]
async fn a_file_that_is_being_written_is_read_when_it_is_whole() {
    let (dir, mut source) = started().await;
    let mut file = fs::File::create(dir.path().join("one.yaml")).unwrap();
    file.write_all(pod("half").as_bytes()).unwrap();
    nothing_comes(&mut source).await;
    file.write_all(format!("---\n{}", pod("whole")).as_bytes()).unwrap();
    drop(file);
    until(&mut source, &["half", "whole"]).await;
}

#[tokio::test]
async fn a_file_that_makes_no_sense_keeps_what_it_had_and_others_go_on() {
    let (dir, mut source) = started().await;
    fs::write(dir.path().join("one.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {nmae: one}\n").unwrap();
    fs::write(dir.path().join("two.yaml"), pod("two")).unwrap();
    let set = soon(&mut source).await;
    assert_eq!(names(&set), ["one", "two"]);
    assert!(matches!(&set.problems[..], [FileProblem::Invalid(_)]), "{:?}", set.problems);
    fs::write(dir.path().join("one.yaml"), "\n").unwrap();
    let set = soon(&mut source).await;
    assert_eq!(names(&set), ["one", "two"]);
    assert!(matches!(&set.problems[..], [FileProblem::Empty { .. }]), "{:?}", set.problems);
}

/// An update like that of a ConfigMap volume: the files are links into a directory that is itself a link.
#[tokio::test]
async fn a_swapped_link_is_noticed() {
    let (dir, mut source) = started().await;
    let at = |name: &str| dir.path().join(name);
    for (version, name) in [("..1", "first"), ("..2", "second")] {
        fs::create_dir(at(version)).unwrap();
        fs::write(at(version).join("linked.yaml"), pod(name)).unwrap();
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/linked.yaml", at("linked.yaml")).unwrap();
    until(&mut source, &["first", "one"]).await;
    symlink("..2", at("..new")).unwrap();
    fs::rename(at("..new"), at("..data")).unwrap();
    until(&mut source, &["second", "one"]).await;
}

#[tokio::test]
async fn a_named_file_that_is_missing_keeps_its_objects_and_a_replaced_directory_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let (file, sub) = (dir.path().join("named.yaml"), dir.path().join("pods"));
    fs::write(&file, pod("named")).unwrap();
    fs::create_dir(&sub).unwrap();
    fs::write(sub.join("a.yaml"), pod("inside")).unwrap();
    let mut source = FileSource::new(&[file.clone(), sub.clone()], &Reading::default());
    assert_eq!(names(&source.next().await.unwrap()), ["named", "inside"]);
    fs::remove_file(&file).unwrap();
    let set = soon(&mut source).await;
    assert_eq!(names(&set), ["named", "inside"]);
    assert!(matches!(&set.problems[..], [FileProblem::Unreadable { .. }]), "{:?}", set.problems);
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("b.yaml"), pod("other")).unwrap();
    fs::rename(&sub, dir.path().join("old")).unwrap();
    fs::rename(&other, &sub).unwrap();
    until(&mut source, &["named", "other"]).await;
    fs::write(sub.join("b.yaml"), pod("again")).unwrap();
    until(&mut source, &["named", "again"]).await;
}

#[tokio::test]
async fn what_inotify_does_not_report_is_found_by_the_rescan() {
    let (dir, mut source) = started().await;
    (source.watch, source.rescan) = (None, Duration::from_millis(300));
    source.next_scan = Instant::now() + source.rescan;
    fs::write(dir.path().join("two.yaml"), pod("two")).unwrap();
    until(&mut source, &["one", "two"]).await;
}

#[tokio::test]
async fn what_came_by_standard_input_stays() {
    let read = manifest::read("standard input", pod("piped").as_bytes());
    let mut source = FileSource::new(&[PathBuf::from("-")], &read);
    assert_eq!(names(&source.next().await.unwrap()), ["piped"]);
    nothing_comes(&mut source).await;
}

/// The first half of a manifest runs with the host's users. It is not applied however long its writer takes, and
/// the writer is reported once.
#[tokio::test]
async fn a_file_that_is_open_for_writing_is_never_applied_and_reported_once() {
    let (dir, mut source) = started().await;
    let mut file = fs::File::create(dir.path().join("slow.yaml")).unwrap();
    file.write_all(pod("half").as_bytes()).unwrap();
    let late = tokio::time::timeout(PATIENCE * 2, source.next()).await.expect("no report").unwrap();
    assert_eq!(names(&late), ["one"]);
    let path = dir.path().join("slow.yaml");
    assert_eq!(late.problems, [FileProblem::Written { path }]);
    nothing_comes(&mut source).await;
    file.write_all(format!("---\n{}", pod("whole")).as_bytes()).unwrap();
    nothing_comes(&mut source).await;
    drop(file);
    until(&mut source, &["one", "half", "whole"]).await;
}

/// Without inotify, too: at the start, and in a directory that cannot be watched.
#[tokio::test]
async fn a_writer_is_known_without_inotify() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = fs::File::create(dir.path().join("one.yaml")).unwrap();
    file.write_all(pod("half").as_bytes()).unwrap();
    let mut source = FileSource::new(&[dir.path().to_owned()], &Reading::default());
    source.watch = None;
    assert_eq!(names(&soon(&mut source).await), [""; 0]);
    nothing_comes(&mut source).await;
    drop(file);
    until(&mut source, &["half"]).await;
}

/// Where the kernel does not tell whether a file has a writer, the events of inotify do: those of this file, and not
/// those of a file of the same name beside the directory.
#[tokio::test]
async fn events_of_a_file_of_the_same_name_elsewhere_end_no_wait() {
    let above = tempfile::tempdir().unwrap();
    let dir = above.path().join("m");
    fs::create_dir(&dir).unwrap();
    let mut source = FileSource::new(std::slice::from_ref(&dir), &Reading::default());
    soon(&mut source).await;
    let mut file = fs::File::create(dir.join("a.yaml")).unwrap();
    file.write_all(pod("half").as_bytes()).unwrap();
    nothing_comes(&mut source).await;
    fs::write(above.path().join("a.yaml"), "x").unwrap();
    fs::write(above.path().join("m2"), "x").unwrap();
    nothing_comes(&mut source).await;
    assert_eq!(source.writing.keys().collect::<Vec<_>>(), [&dir.join("a.yaml")]);
    assert!(source.due().iter().all(|due| due.is_written));
    drop(file);
    until(&mut source, &["half"]).await;
    assert!(source.writing.is_empty());
}

/// A user keeps a file of the directory changing, and files beside the directory. Other files are applied and removed.
#[tokio::test]
async fn files_that_never_settle_delay_no_other_file() {
    let above = tempfile::tempdir().unwrap();
    let dir = above.path().join("m");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("one.yaml"), pod("one")).unwrap();
    let mut source = FileSource::new(std::slice::from_ref(&dir), &Reading::default());
    until(&mut source, &["one"]).await;
    let mut held = fs::File::create(dir.join("held.yaml")).unwrap();
    let beside = above.path().to_owned();
    let flood = tokio::spawn(async move {
        for number in 0_u32.. {
            held.write_all(b"# x\n").unwrap();
            let _leaked = fs::File::create(beside.join(format!("{}.yaml", number % 100))).unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    fs::write(dir.join("two.yaml"), pod("two")).unwrap();
    until(&mut source, &["one", "two"]).await;
    fs::remove_file(dir.join("one.yaml")).unwrap();
    until(&mut source, &["two"]).await;
    flood.abort();
}

/// A link to a file of the kernel that waits for ever, and a pipe in the place of a named file.
#[tokio::test]
async fn a_file_that_is_no_regular_file_is_refused_and_others_go_on() {
    let (dir, mut source) = started().await;
    symlink("/proc/kmsg", dir.path().join("kernel.yaml")).unwrap();
    let set = soon(&mut source).await;
    let said: Vec<String> = set.problems.iter().map(ToString::to_string).collect();
    assert!(said[0].contains("kernel.yaml: it is a file of the kernel, not a regular file"), "{said:?}");

    let named = dir.path().join("one.yaml");
    let mut source = FileSource::new(std::slice::from_ref(&named), &Reading::default());
    until(&mut source, &["one"]).await;
    fs::remove_file(&named).unwrap();
    mknodat(CWD, &named, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let set = soon(&mut source).await;
    let said: Vec<String> = set.problems.iter().map(ToString::to_string).collect();
    assert!(said[0].contains("one.yaml: it is a named pipe, not a regular file"), "{said:?}");
    assert_eq!(names(&set), ["one"]);
}

#[tokio::test]
async fn an_object_that_the_api_does_not_allow_stalls_its_own_file_only() {
    let (dir, mut source) = started().await;
    let map = |key: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: map}}\ndata: {{\"{key}\": x}}\n")
    };
    fs::write(dir.path().join("map.yaml"), map("good")).unwrap();
    until(&mut source, &["map", "one"]).await;
    fs::write(dir.path().join("map.yaml"), map("not a key")).unwrap();
    let set = soon(&mut source).await;
    assert!(matches!(&set.problems[..], [FileProblem::Invalid(_)]), "{:?}", set.problems);
    assert_eq!(names(&set), ["map", "one"]);
    fs::remove_file(dir.path().join("one.yaml")).unwrap();
    fs::write(dir.path().join("two.yaml"), pod("two")).unwrap();
    until(&mut source, &["map", "two"]).await;
}

#[tokio::test]
async fn a_named_file_that_is_missing_at_the_start_is_read_when_it_comes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("named.yaml");
    let first = manifest::read(&file.display().to_string(), pod("first").as_bytes());
    let mut source = FileSource::new(std::slice::from_ref(&file), &first);
    let set = soon(&mut source).await;
    assert_eq!(names(&set), ["first"]);
    assert!(matches!(&set.problems[..], [FileProblem::Unreadable { .. }]), "{:?}", set.problems);
    fs::write(&file, pod("second")).unwrap();
    until(&mut source, &["second"]).await;
}

/// A named file of a ConfigMap volume changes by a rename of another name of its directory.
#[tokio::test]
async fn a_named_link_follows_the_link_that_it_leads_through() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (version, name) in [("..1", "first"), ("..2", "second")] {
        fs::create_dir(at(version)).unwrap();
        fs::write(at(version).join("pod.yaml"), pod(name)).unwrap();
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/pod.yaml", at("pod.yaml")).unwrap();
    let mut source = FileSource::new(&[at("pod.yaml")], &Reading::default());
    until(&mut source, &["first"]).await;
    symlink("..2", at("..new")).unwrap();
    fs::rename(at("..new"), at("..data")).unwrap();
    until(&mut source, &["second"]).await;
}
