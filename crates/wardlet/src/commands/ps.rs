use report::pods::{PodView, pods};

use super::Session;
use crate::failure::{Answer, Failure};
use crate::run::find;
use crate::time;

pub(super) fn run(session: &Session) -> Result<Answer, Failure> {
    let found = find::all(session.node.state_dir())?;
    let views: Vec<PodView> = found.iter().map(PodView::from).collect();
    session.format.print(&views, || pods(&found, time::now()))?;
    Ok(Answer::Holds)
}
