//! What a pod's files are made of, carried out without touching a file that is not ours.
