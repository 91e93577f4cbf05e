//! One more process is held as the first one is, whichever engine started that. Needs root, busybox, runc.

/// Makes a test of each kind of first process under one engine.
macro_rules! one_more_process_is_held_as {
    ($engine:ident: $make:expr) => {
        mod $engine {
            use crate::support::same::{CASES, one_more_is_as_the_first};

            #[test]
            fn one_more_process_is_held_as_the_hosts_root() {
                one_more_is_as_the_first(&$make, CASES[0]);
            }

            #[test]
            fn one_more_process_is_held_as_a_user_of_the_hosts() {
                one_more_is_as_the_first(&$make, CASES[1]);
            }

            #[test]
            fn one_more_process_is_held_as_the_pods_root() {
                one_more_is_as_the_first(&$make, CASES[2]);
            }

            #[test]
            fn one_more_process_is_held_as_a_user_of_the_pods() {
                one_more_is_as_the_first(&$make, CASES[3]);
            }

            #[test]
            fn one_more_process_is_held_as_a_user_of_the_containers_own() {
                one_more_is_as_the_first(&$make, CASES[4]);
            }
        }
    };
}

one_more_process_is_held_as!(under_debians_runc: crate::support::debians_runc());
one_more_process_is_held_as!(under_the_built_in_engine: container::Engine::Libcontainer);
