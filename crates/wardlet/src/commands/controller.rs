use ::controller::{Options, Series, ServingFiles};
use check::cluster::Access;

use crate::cli::ControllerArgs;
use crate::failure::{Answer, Failure};
use crate::run::{signals::Signals, threads};
use crate::words;

pub(super) fn run(args: &ControllerArgs) -> Result<Answer, Failure> {
    let files = args.tls_cert_file.clone().zip(args.tls_private_key_file.clone());
    let options = Options {
        access: Access {
            kubeconfig: args.kubeconfig.clone(),
            context: args.context.clone(),
            namespace: args.namespace.clone(),
        },
        listen: args.listen,
        files: files.map(|(certificate, key)| ServingFiles { certificate, key }),
        series: Series { most_conflicts: args.max_conflict_series, of_objects: args.object_series },
        contexts: args.selinux_contexts.clone(),
    };
    threads()?.block_on(serve(options))
}

async fn serve(options: Options) -> Result<Answer, Failure> {
    let mut signals = Signals::catch()?;
    ::controller::run(options, async { signals.next().await }).await?;
    words::say("wardlet controller: it stops");
    Ok(Answer::Holds)
}

impl From<::controller::Error> for Failure {
    fn from(e: ::controller::Error) -> Self {
        e.hint().into_iter().fold(Self::unknown(e.to_string()), Self::with_hint)
    }
}
